//! Which buckets to ask for ahead: none, the first visited, all, or, beyond [Yuan §3.3.3], the next
//! of each name of a burst.

use super::papers::YUAN;
use super::{Context, Experiment, Needs, Table, table};
use crate::plot::Chart;
use crate::prefix::{Prefetch, Strategy};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "yuan-fig6",
    title: "prefetch strategies",
    source: "[Yuan §3.3.3] Figure 6",
    needs: Needs { rules: &[16_000_000], quick_rules: &[50_000], bytes_per_rule: 200, data: &[], minutes: 8 },
    run,
};

const STRATEGIES: [(Strategy, &str); 2] = [(Strategy::Always, "CityA: always"), (Strategy::AtEnd, "SipE: at the end")];

/// What is asked for ahead, the names looked up together, and the paper's changes for both
/// strategies against none (512 million rules, then 1 billion).
const PREFETCHES: [(Prefetch, usize, &str, [&str; 2]); 4] = [
    (Prefetch::None, 1, "none", ["", ""]),
    (Prefetch::First, 1, "first", ["-5 %, -5 %", "-10 %, -10 %"]),
    (Prefetch::All, 1, "all", ["-13 %, -7 %", "-10 %, -10 %"]),
    (Prefetch::Burst, 32, "burst of 32", ["", ""]),
];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for rules in context.rules() {
        let mut table = Table::new(&["names compared", "prefetch", "ns a lookup", "M lookups/s", "change", "[Yuan]"]);
        let labels = PREFETCHES.map(|prefetch| prefetch.2.to_owned()).to_vec();
        let title = format!("Lookups in {} rules by what is prefetched", table::count(rules));
        let mut chart = Chart::bars(title, labels, "ns a lookup");
        for (i, (strategy, strategy_label)) in STRATEGIES.into_iter().enumerate() {
            let mut values = Vec::new();
            for (prefetch, burst, label, paper) in PREFETCHES {
                let mut options = context.prefix("binary_search", rules);
                options.burst = burst;
                options.tuning.strategy = Some(strategy);
                options.tuning.prefetch = Some(prefetch);
                let record = context.measure(&options)?;
                values.push(record.ns_per_lookup);
                table.row([
                    strategy_label.to_owned(),
                    label.to_owned(),
                    format!("{:.0}", record.ns_per_lookup),
                    table::millions(record.lookups_per_s),
                    table::change(values[0], record.ns_per_lookup),
                    paper[i].to_owned(),
                ]);
            }
            chart.bar(strategy_label, values.into_iter().map(Some));
        }
        print!("{table}");
        println!("{YUAN}; its changes are of 512 million rules, then of 1 billion");
        context.plot(&chart)?;
    }
    Ok(())
}

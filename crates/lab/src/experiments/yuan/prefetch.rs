//! Which buckets to prefetch: none, the first visited, all, or, beyond [Yuan §3.3.3], the next bucket of each name of a
//! burst.

use super::YUAN;
use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::prefix::{Prefetch, Strategy};
use crate::table::{self, Table};
use crate::timing::Spread;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "yuan-fig6",
    title: "prefetch strategies",
    source: "[Yuan §3.3.3] Figure 6",
    needs: Needs { rules: &[16_000_000], quick_rules: &[50_000], bytes_per_rule: 200, data: &[], minutes: 8 },
    run,
};

const STRATEGIES: [(Strategy, &str); 2] = [(Strategy::Always, "CityA: always"), (Strategy::AtEnd, "SipE: at the end")];

/// Prefetch strategy, burst, label, and the paper's changes for both strategies of comparing, relative to no prefetch
/// (512 million rules, then 1 billion).
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
        let mut limits = Vec::new();
        for (i, (strategy, strategy_label)) in STRATEGIES.into_iter().enumerate() {
            let mut values: Vec<Spread> = Vec::new();
            for (at, (prefetch, burst, label, paper)) in PREFETCHES.into_iter().enumerate() {
                let mut options = context.prefix("binary_search", rules);
                options.burst = burst;
                options.tuning.strategy = Some(strategy);
                options.tuning.prefetch = Some(prefetch);
                let record = context.measure(&options)?;
                values.push(record.ns());
                limits.extend(record.machine_ns().map(|ns| (at as f64, ns)));
                table.row([
                    strategy_label.to_owned(),
                    label.to_owned(),
                    format!("{:.0}", record.ns_per_lookup),
                    table::millions(record.lookups_per_s),
                    table::change(values[0].median, record.ns_per_lookup),
                    paper[i].to_owned(),
                ]);
            }
            chart.bar(strategy_label, values.into_iter().map(Some));
        }
        print!("{table}");
        println!("{YUAN}; its changes are of 512 million rules, then of 1 billion");
        chart.machine_time(limits);
        context.plot(&chart)?;
    }
    Ok(())
}

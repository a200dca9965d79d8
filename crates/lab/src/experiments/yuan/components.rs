//! Names of 15 components instead of 7: binary search takes one probe more.

use super::YUAN;
use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::prefix::{Prefetch, Strategy};
use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "yuan-fig8",
    title: "15 components",
    source: "[Yuan §3.3.4] Figure 8",
    needs: Needs { rules: &[16_000_000], quick_rules: &[50_000], bytes_per_rule: 320, data: &[], minutes: 8 },
    run,
};

/// Strategy, its name in the paper, and the cost that the paper expects of one probe more.
const STRATEGIES: [(Strategy, &str, &str); 2] =
    [(Strategy::Always, "CityA: always", "1.33, was more"), (Strategy::AtEnd, "SipE: at the end", "1.25, was more")];
const PREFETCHES: [(Prefetch, usize, &str); 3] =
    [(Prefetch::None, 1, "none"), (Prefetch::All, 1, "all"), (Prefetch::Burst, 32, "burst of 32")];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for rules in context.rules() {
        let heads =
            ["names compared", "prefetch", "7: ns", "15: ns", "ratio", "[Yuan]", "hashing 7: ns", "hashing 15: ns"];
        let mut table = Table::new(&heads);
        let labels = PREFETCHES.map(|prefetch| prefetch.2.to_owned()).to_vec();
        let title = format!("Lookups in {} rules of 7 and of 15 components", table::count(rules));
        let mut chart = Chart::bars(title, labels, "ns a lookup");
        let mut limits = Vec::new();
        for (strategy, strategy_label, paper) in STRATEGIES {
            let mut bars = [Vec::new(), Vec::new()];
            for (at, (prefetch, burst, label)) in PREFETCHES.into_iter().enumerate() {
                let mut options = context.prefix("binary_search", rules);
                options.burst = burst;
                options.tuning.strategy = Some(strategy);
                options.tuning.prefetch = Some(prefetch);
                let seven = context.measure(&options)?;
                options.components = 15;
                let fifteen = context.measure(&options)?;
                bars[0].push(Some(seven.ns()));
                bars[1].push(Some(fifteen.ns()));
                limits.extend(seven.machine_ns().map(|ns| (at as f64, ns)));
                table.row([
                    strategy_label.to_owned(),
                    label.to_owned(),
                    format!("{:.0}", seven.ns_per_lookup),
                    format!("{:.0}", fifteen.ns_per_lookup),
                    format!("{:.2}", fifteen.ns_per_lookup / seven.ns_per_lookup),
                    paper.to_owned(),
                    format!("{:.0}", seven.hash_ns_per_lookup),
                    format!("{:.0}", fifteen.hash_ns_per_lookup),
                ]);
            }
            let [seven, fifteen] = bars;
            chart.bar(format!("{strategy_label}, 7 components"), seven);
            chart.bar(format!("{strategy_label}, 15 components"), fifteen);
        }
        print!("{table}");
        println!("{YUAN}; \"considerably higher\" than one probe more, for the cost of hashing");
        chart.machine_time(limits);
        context.plot(&chart)?;
    }
    Ok(())
}

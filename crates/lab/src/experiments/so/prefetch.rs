//! When to prefetch the buckets of a longest-first lookup: one probe ahead, all buckets of a name at once, or, beyond
//! the paper, while other names of the burst are looked up.

use super::SO;
use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::prefix::Prefetch;
use crate::table::{self, Table};
use crate::timing::Spread;
use crate::workload::Kind;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "so-prefetch",
    title: "prefetch schedules of hash tables",
    source: "[So §2.2]",
    needs: Needs { rules: &[16_000_000], quick_rules: &[50_000], bytes_per_rule: 300, data: &[], minutes: 5 },
    run,
};

const PREFETCHES: [(Prefetch, usize, &str); 4] = [
    (Prefetch::None, 1, "none"),
    (Prefetch::Cascade, 1, "cascade"),
    (Prefetch::All, 1, "all-at-once"),
    (Prefetch::Burst, 32, "burst of 32"),
];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for rules in context.rules() {
        let mut table = Table::new(&["engine", "prefetch", "ns a lookup", "M lookups/s", "change"]);
        let labels = PREFETCHES.map(|prefetch| prefetch.2.to_owned()).to_vec();
        let mut chart = Chart::bars(format!("Lookups in {} rules", table::count(rules)), labels, "ns a lookup");
        let mut limits = Vec::new();
        for engine in ["longest_first", "two_stage"] {
            let mut values: Vec<Spread> = Vec::new();
            for (at, (prefetch, burst, label)) in PREFETCHES.into_iter().enumerate() {
                let mut options = context.prefix(engine, rules);
                options.workload = Kind::Random;
                options.suffix = 2;
                options.burst = burst;
                options.tuning.prefetch = Some(prefetch);
                let record = context.measure(&options)?;
                values.push(record.ns());
                limits.extend(record.machine_ns().map(|ns| (at as f64, ns)));
                table.row([
                    engine.to_owned(),
                    label.to_owned(),
                    format!("{:.0}", record.ns_per_lookup),
                    table::millions(record.lookups_per_s),
                    table::change(values[0].median, record.ns_per_lookup),
                ]);
            }
            chart.bar(engine, values.into_iter().map(Some));
        }
        print!("{table}");
        println!("{SO}; all-at-once \"exhibits better overall performance\" than cascading");
        chart.machine_time(limits);
        context.plot(&chart)?;
    }
    Ok(())
}

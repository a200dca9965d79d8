//! When to ask for the buckets of a longest-first lookup: each one probe ahead, all of a name at
//! once, or, beyond the paper, while the names before it in a burst are looked up.

use super::papers::SO;
use super::{Context, Experiment, Needs, Table, table};
use crate::plot::Chart;
use crate::prefix::Prefetch;
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
        for engine in ["longest_first", "two_stage"] {
            let mut values = Vec::new();
            for (prefetch, burst, label) in PREFETCHES {
                let mut options = context.prefix(engine, rules);
                options.workload = Kind::Random;
                options.suffix = 2;
                options.burst = burst;
                options.tuning.prefetch = Some(prefetch);
                let record = context.measure(&options)?;
                values.push(record.ns_per_lookup);
                table.row([
                    engine.to_owned(),
                    label.to_owned(),
                    format!("{:.0}", record.ns_per_lookup),
                    table::millions(record.lookups_per_s),
                    table::change(values[0], record.ns_per_lookup),
                ]);
            }
            chart.bar(engine, values.into_iter().map(Some));
        }
        print!("{table}");
        println!("{SO}; all-at-once \"exhibits better overall performance\" than cascading");
        context.plot(&chart)?;
    }
    Ok(())
}

//! All engines compared: bytes per rule, hits and misses per second, from a million rules up to the machine's memory.

use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::prefix::engines_of_all_rules;
use crate::table::{self, Table};
use crate::workload::NameChoice;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "engines",
    title: "every engine: bytes and speed by size",
    source: "ours",
    needs: Needs {
        rules: &[1_000_000, 4_000_000, 16_000_000, 64_000_000, 256_000_000, 1_000_000_000],
        quick_rules: &[10_000, 50_000],
        bytes_per_rule: BULK_BYTES_PER_RULE,
        data: &[],
        minutes: 60,
    },
    run,
};

/// Memory of `compact` per rule while it is loaded in bulk without names: the smallest engine. Engines that do not fit
/// are left out.
const BULK_BYTES_PER_RULE: u64 = 13;

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let heads = [
        "rules",
        "engine",
        "M hits/s",
        "M misses/s",
        "lines a hit",
        "lines a miss",
        "bytes a rule",
        "share of limit",
        "built in s",
    ];
    let mut table = Table::new(&heads);
    let mut chart = Chart::lines("Hits by size of the table, worst case of 7 components", "rules", "hits/s");
    let mut limits = Vec::new();
    for engine in engines_of_all_rules() {
        let mut points = Vec::new();
        for rules in context.rules() {
            let bytes_per_rule = if engine.bulk.is_some() { BULK_BYTES_PER_RULE } else { engine.bytes_per_rule };
            if !context.fits(rules * bytes_per_rule) {
                println!("{} is left out at {} rules: not enough memory", engine.name, table::count(rules));
                continue;
            }
            let options = context.prefix(engine.name, rules);
            let records = context.measure_names(&options, &[NameChoice::Hit, NameChoice::Miss])?;
            let (hits, misses) = (&records[0], &records[1]);
            points.push((rules as f64, hits.rate()));
            limits.extend(hits.machine_lines_per_s().map(|lines| (rules as f64, lines)));
            table.row([
                table::count(rules),
                engine.name.to_owned(),
                table::millions(hits.lookups_per_s),
                table::millions(misses.lookups_per_s),
                table::optional(hits.cache_lines_per_lookup, 2),
                table::optional(misses.cache_lines_per_lookup, 2),
                format!("{:.1}", hits.bytes_per_rule),
                table::percent(hits.of_limit),
                format!("{:.1}", hits.build_s),
            ]);
        }
        chart.line(engine.name, points);
    }
    print!("{table}");
    chart.machine_rate(limits);
    context.plot(&chart)
}

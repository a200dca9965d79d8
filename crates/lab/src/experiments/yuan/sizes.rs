//! The slowdown of lookups as the table grows.

use super::YUAN;
use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::prefix::{Prefetch, Strategy};
use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "yuan-fig7",
    title: "sizes of the table, binary search and compact",
    source: "[Yuan §3.3.4] Figure 7",
    needs: Needs {
        rules: &[1_000_000, 4_000_000, 16_000_000, 64_000_000],
        quick_rules: &[10_000, 50_000],
        bytes_per_rule: 200,
        data: &[],
        minutes: 20,
    },
    run,
};

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let heads = [
        "engine",
        "rules",
        "ns a lookup",
        "M lookups/s",
        "lines a lookup",
        "bytes a rule",
        "share of the machine's limit",
    ];
    let mut table = Table::new(&heads);
    let mut chart = Chart::lines("Lookups by size of the table", "rules", "ns a lookup");
    let always = |prefetch| (Some(Strategy::Always), Some(prefetch));
    let at_end = |prefetch| (Some(Strategy::AtEnd), Some(prefetch));
    let variants = [
        ("CityA: always, prefetch all", "binary_search", always(Prefetch::All)),
        ("CityA: always, burst", "binary_search", always(Prefetch::Burst)),
        ("SipE: at the end, prefetch all", "binary_search", at_end(Prefetch::All)),
        ("SipE: at the end, burst", "binary_search", at_end(Prefetch::Burst)),
        ("compact", "compact", (None, None)),
    ];
    let mut limits = Vec::new();
    for (label, engine, (strategy, prefetch)) in variants {
        let mut points = Vec::new();
        for rules in context.rules() {
            let mut options = context.prefix(engine, rules);
            options.burst = if prefetch == Some(Prefetch::All) { 1 } else { options.burst };
            options.tuning.strategy = strategy;
            options.tuning.prefetch = prefetch;
            let record = context.measure(&options)?;
            points.push((rules as f64, record.ns()));
            limits.extend(record.machine_ns().map(|ns| (rules as f64, ns)));
            table.row([
                label.to_owned(),
                table::count(rules),
                format!("{:.0}", record.ns_per_lookup),
                table::millions(record.lookups_per_s),
                table::optional(record.cache_lines_per_lookup, 2),
                format!("{:.1}", record.bytes_per_rule),
                table::percent(record.of_limit),
            ]);
        }
        chart.line(label, points);
    }
    print!("{table}");
    println!("{YUAN}, and more ns for more rules; there 512 million take 112 bytes each and 1 billion 112");
    chart.machine_time(limits);
    context.plot(&chart)
}

//! What the tables of the FIB take.
//!
//! Differs from [So §4.2]: byname's query half keeps no names, and no fields that a lookup does not
//! read, so that it compares with the paper's "total for lookup" and both halves together with its
//! "total consumed".

use super::papers::SO;
use super::{Context, Experiment, Needs, Table, table};
use crate::plot::Chart;
use crate::prefix::ENGINES;
use crate::workload::Kind;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "so-table4",
    title: "memory of the FIB",
    source: "[So §4.2] Table 4",
    needs: Needs {
        rules: &[1 << 20, 4 << 20, 16 << 20, 64 << 20],
        quick_rules: &[1 << 14, 1 << 16],
        bytes_per_rule: 25,
        data: &[],
        minutes: 15,
    },
    run,
};

/// Entries, and the paper's megabytes: total for lookup, total consumed.
const PAPER: [(u64, f64, f64); 4] =
    [(1 << 20, 35.82, 152.56), (4 << 20, 143.27, 587.00), (16 << 20, 573.10, 2324.83), (64 << 20, 2292.40, 9276.13)];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let heads = ["engine", "rules", "lookup MB", "[So]", "both halves MB", "[So]", "bytes a rule for lookup", "[So]"];
    let mut table = Table::new(&heads);
    let mut chart = Chart::lines("Memory for lookups", "rules", "bytes");
    for engine in ENGINES {
        let mut points = Vec::new();
        for rules in context.rules() {
            if !context.fits(rules * engine.bytes_per_rule) {
                println!("{} is left out at {} rules: no memory", engine.name, table::count(rules));
                continue;
            }
            let mut options = context.prefix(engine.name, rules);
            options.workload = Kind::Random;
            let record = context.measure(&options)?;
            let megabytes = |bytes_per_rule: f64| bytes_per_rule * rules as f64 / 1e6;
            let paper = PAPER.iter().find(|paper| paper.0 == rules);
            points.push((rules as f64, record.bytes_per_rule * rules as f64));
            table.row([
                engine.name.to_owned(),
                table::count(rules),
                format!("{:.1}", megabytes(record.bytes_per_rule)),
                table::optional(paper.map(|p| p.1), 1),
                format!("{:.1}", megabytes(record.bytes_per_rule_both)),
                table::optional(paper.map(|p| p.2), 1),
                format!("{:.1}", record.bytes_per_rule),
                table::optional(paper.map(|p| p.1 * 1e6 / rules as f64), 1),
            ]);
        }
        chart.line(engine.name, points);
    }
    chart.line("[So]", PAPER.iter().map(|paper| (paper.0 as f64, paper.1 * 1e6)).collect());
    print!("{table}");
    println!("{SO}; its table is a two_stage without virtual entries, as longest_first is");
    context.plot(&chart)
}

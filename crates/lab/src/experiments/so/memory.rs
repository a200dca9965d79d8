//! Memory of the FIB's tables.
//!
//! Differs from [So §4.2]: byname's query half keeps no names and no fields that a lookup does not read. So the query
//! half compares with the paper's "total for lookup", and both halves together with its "total consumed".

use byname_lookup::prefix::longest_first::{self, LongestFirst};

use super::SO;
use crate::experiments::{Context, Experiment, Needs, counting};
use crate::plot::Chart;
use crate::prefix::engines_of_all_rules;
use crate::table::{self, Table};
use crate::workload::{self, Kind};

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

/// The paper's megabyte: 16 of them hold 2^18 buckets of 64 bytes.
const MEGABYTE: f64 = (1 << 20) as f64;

/// Number of entries, and the paper's megabytes: compact array buckets, dynamic buckets, entries and names; then the
/// total, and the part of it that lookups need.
const PAPER: [(u64, [f64; 4], f64, f64); 4] = [
    (1 << 20, [16.00, 0.82, 64.00, 71.72], 152.56, 35.82),
    (4 << 20, [64.00, 3.27, 256.00, 263.73], 587.00, 143.27),
    (16 << 20, [256.00, 13.10, 1024.00, 1031.73], 2324.83, 573.10),
    (64 << 20, [1024.00, 52.40, 4096.00, 4103.73], 9276.13, 2292.40),
];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    print_rows_of_the_paper(context)?;
    let heads = ["engine", "rules", "bytes a rule for lookup", "as counted", "[So]", "both halves", "[So]"];
    let mut table = Table::new(&heads);
    let mut chart = Chart::lines("Memory for lookups", "rules", "bytes a rule");
    for engine in engines_of_all_rules() {
        let mut points = Vec::new();
        for rules in context.rules() {
            if !context.fits(rules * engine.bytes_per_rule) {
                println!("{} is left out at {} rules: not enough memory", engine.name, table::count(rules));
                continue;
            }
            let mut options = context.prefix(engine.name, rules);
            options.workload = Kind::Random;
            let record = context.measure(&options)?;
            let paper = PAPER.iter().find(|paper| paper.0 == rules);
            let a_rule = |megabytes: f64| megabytes * MEGABYTE / rules as f64;
            points.push((rules as f64, record.bytes_per_rule));
            table.row([
                engine.name.to_owned(),
                table::count(rules),
                format!("{:.1}", record.bytes_per_rule),
                format!("{:.1}", record.bytes_per_rule_counted),
                table::optional(paper.map(|paper| a_rule(paper.3)), 1),
                format!("{:.1}", record.bytes_per_rule_both),
                table::optional(paper.map(|paper| a_rule(paper.2)), 1),
            ]);
        }
        chart.line(engine.name, points);
    }
    chart.paper("[So]", PAPER.iter().map(|paper| (paper.0 as f64, paper.3 * MEGABYTE / paper.0 as f64)).collect());
    print!("{table}");
    println!("{SO}");
    context.plot(&chart)
}

/// Prints the memory of `longest_first` at the paper's load factor, part by part beside the paper's.
fn print_rows_of_the_paper(context: &Context<'_>) -> anyhow::Result<()> {
    let heads = ["rules", "buckets MB", "[So]", "overflow MB", "[So]", "entries MB", "[So]", "names MB", "[So]"];
    let mut table = Table::new(&heads);
    for rules in context.rules() {
        let workload = workload::open(&Kind::Random, rules, 7, 1)?;
        let options = longest_first::Options { rules_max: rules as usize, preallocate: true, ..Default::default() };
        let mut engine = LongestFirst::with_options(counting::KEY, options)?;
        counting::load(&mut engine, &*workload)?;
        let memory = engine.memory();
        let parts = [memory.buckets, memory.overflow, memory.entries, memory.names];
        let paper = PAPER.iter().find(|paper| paper.0 == rules);
        let mut row = vec![table::count(rules)];
        for (i, bytes) in parts.into_iter().enumerate() {
            row.push(format!("{:.2}", bytes as f64 / MEGABYTE));
            row.push(table::optional(paper.map(|paper| paper.1[i]), 2));
        }
        table.add(row);
    }
    print!("longest_first at 4 rules a bucket, one MB being 2^20 bytes as in the paper:\n{table}\n");
    Ok(())
}

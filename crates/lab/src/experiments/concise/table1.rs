//! Memory and memory reads of flat tables for eight populations.
//!
//! Differs: the paper counts words of 64 bits in the worst case. This experiment counts mean cache lines, because a
//! query waits for those. Engines that do not offer enough actions for a row are left out. Memory is each engine's own
//! count: for small tables the kernel's count is too coarse, in whole pages of a process that held other tables before.
//! The records contain it as well.

use super::CONCISE;
use crate::experiments::{Context, Experiment, Needs};
use crate::flat::Keys;
use crate::plot::Chart;
use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "concise-table1",
    title: "memory and memory reads of flat tables",
    source: "[Concise §6.3.1] Table 1",
    needs: Needs {
        rules: &[5_000_000],
        quick_rules: &[20_000],
        bytes_per_rule: 150,
        data: &["oui.txt.xz", "paths_debian.txt.xz"],
        minutes: 6,
    },
    run,
};

const ENGINES: [&str; 5] = ["line", "othello", "cuckoo", "buffalo", "orthogonal"];

/// A row of the table: the names, their number, the bits of an action, and the paper's megabytes and reads of Concise,
/// Cuckoo, BUFFALO and orthogonal Bloom filters.
struct Row {
    label: &'static str,
    keys: Keys,
    key_bytes: usize,
    names: u64,
    action_bits: u32,
    paper: [(f64, u32); 4],
}

/// Labels of the paper's columns in the plot.
const PAPER_LABELS: [&str; 4] = ["[Concise]", "[Concise]: Cuckoo", "[Concise]: BUFFALO", "[Concise]: orthogonal"];

const fn row(label: &'static str, key_bytes: usize, names: u64, action_bits: u32, paper: [(f64, u32); 4]) -> Row {
    Row { label, keys: Keys::Random, key_bytes, names, action_bits, paper }
}

const ROWS: [Row; 8] = [
    Row {
        keys: Keys::Macs,
        ..row("MAC, 700 k, 16 actions", 6, 700_000, 4, [(1.0, 2), (5.62, 2), (2.64, 8), (7.36, 15)])
    },
    Row {
        keys: Keys::Macs,
        ..row("MAC, 5 M, 256", 6, 5_000_000, 8, [(16.0, 2), (40.15, 2), (27.70, 32), (112.06, 16)])
    },
    Row {
        keys: Keys::Macs,
        ..row("MAC, 30 M, 256", 6, 30_000_000, 8, [(96.0, 2), (321.23, 2), (166.23, 32), (672.34, 16)])
    },
    row("IPv4, 1 M, 16", 4, 1_000_000, 4, [(1.5, 2), (4.27, 5), (3.77, 8), (10.52, 15)]),
    row("IPv6, 2 M, 256", 16, 2_000_000, 8, [(4.0, 2), (34.13, 17), (11.08, 32), (44.82, 16)]),
    row("OpenFlow, 300 k, 256", 45, 300_000, 8, [(1.0, 2), (14.46, 48), (1.67, 32), (6.72, 16)]),
    row("OpenFlow, 1.4 M, 65536", 45, 1_400_000, 16, [(8.0, 2), (67.46, 48), (18.21, 9216), (66.60, 17)]),
    Row {
        keys: Keys::Files,
        ..row("files, 359194, 16", 0, 359_194, 4, [(0.5, 2), (19.32, 52), (1.35, 8), (5.47, 15)])
    },
];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let most = context.rules().into_iter().max().unwrap_or_default();
    let heads = ["names", "engine", "here", "MB", "[Concise]", "bits a name", "lines a query", "[Concise] reads"];
    let mut table = Table::new(&heads);
    let mut bars = vec![Vec::new(); ENGINES.len()];
    for row in &ROWS {
        let mut options = context.flat(row.names.min(most));
        options.keys = row.keys;
        options.key_bytes = row.key_bytes.max(1);
        options.action_bits = row.action_bits;
        options.list = match row.keys {
            Keys::Macs => Some(context.data("oui.txt.xz")),
            Keys::Files => Some(context.data("paths_debian.txt.xz")),
            _ => None,
        };
        let found = context.measure_flat(&options, &ENGINES)?;
        for (engine, bars) in ENGINES.iter().zip(&mut bars) {
            bars.push(found.iter().find(|found| found.0 == *engine).map(|found| found.1.bits_per_name_counted));
        }
        for (engine, record) in found {
            // The paper's first column (Concise) is compared with both of our engines.
            let column = ENGINES.iter().position(|e| *e == engine).unwrap_or_default().saturating_sub(1);
            let (megabytes, reads) = row.paper[column];
            let here = record.bits_per_name_counted * record.names as f64 / 8e6;
            table.row([
                row.label.to_owned(),
                engine.to_owned(),
                table::count(record.names),
                format!("{here:.2}"),
                format!("{megabytes:.2}"),
                format!("{:.2}", record.bits_per_name_counted),
                table::optional(record.cache_lines_per_query, 2),
                reads.to_string(),
            ]);
        }
    }
    print!("{table}");
    println!("{CONCISE}; its reads are of 64 bits, at most");
    let labels = ROWS.iter().map(|row| row.label.to_owned()).collect();
    let mut chart = Chart::bars("Memory of flat tables", labels, "bits a name");
    for (at, (engine, bars)) in ENGINES.into_iter().zip(bars).enumerate() {
        chart.bar(engine, bars);
        // Othello is the paper's own.
        if let Some((column, label)) = at.checked_sub(1).map(|column| (column, PAPER_LABELS[column])) {
            chart.paper_of_bars(label, ROWS.iter().map(|row| Some(row.paper[column].0 * 8e6 / row.names as f64)));
        }
    }
    context.plot(&chart)
}

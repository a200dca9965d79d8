//! Flat queries by number of names.

use super::CONCISE;
use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "concise-fig3",
    title: "flat queries by number of names",
    source: "[Concise §6.3.1] Figure 3",
    needs: Needs {
        rules: &[250_000, 1_000_000, 2_000_000, 4_000_000, 16_000_000],
        quick_rules: &[5_000, 20_000],
        bytes_per_rule: 80,
        data: &[],
        minutes: 12,
    },
    run,
};

const ENGINES: [&str; 6] = ["line", "othello", "cuckoo", "buffalo", "orthogonal", "binary_search"];

/// Bytes of a MAC address.
const KEY_BYTES: usize = 6;

/// The paper's queries per second, with 4 threads.
const PAPER: [(&str, f64); 2] =
    [("[Concise], 4 threads, below 2 M names", 400e6), ("[Concise], 4 threads, above", 100e6)];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let heads = [
        "engine",
        "names",
        "M queries/s",
        "ns a query",
        "hashing",
        "lines",
        "share of the machine's limit",
        "[Concise]",
    ];
    let mut table = Table::new(&heads);
    let mut limits = Vec::new();
    let mut points = vec![Vec::new(); ENGINES.len()];
    for names in context.rules() {
        let mut options = context.flat(names);
        options.key_bytes = KEY_BYTES;
        options.keys = crate::flat::Keys::Lfsr;
        for (engine, record) in context.measure_flat(&options, &ENGINES)? {
            let place = ENGINES.iter().position(|e| *e == engine).unwrap_or_default();
            points[place].push((names as f64, record.rate()));
            limits.extend(record.machine_lines_per_s().map(|lines| (names as f64, lines)));
            let paper = match (engine, names) {
                ("othello", ..2_000_000) => "> 400 M/s",
                ("othello", _) => "about 100 M/s",
                ("cuckoo", _) => "20 to 50 % of Concise",
                _ => "",
            };
            table.row([
                engine.to_owned(),
                table::count(names),
                table::millions(record.queries_per_s),
                format!("{:.1}", record.ns_per_query),
                format!("{:.1}", record.hash_ns),
                table::optional(record.cache_lines_per_query, 2),
                table::percent(record.of_limit),
                paper.to_owned(),
            ]);
        }
    }
    print!("{table}");
    println!("{CONCISE}, with 4 threads; here it is one. Names of a shift register, made in the loop, in both");
    let mut chart = Chart::lines("Queries by number of names", "names", "queries/s");
    for (engine, points) in ENGINES.into_iter().zip(points) {
        chart.line(engine, points);
    }
    chart.machine_rate(limits);
    for (label, rate) in PAPER {
        chart.paper_level(label, rate);
    }
    context.plot(&chart)
}

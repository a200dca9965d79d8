//! Flat queries by length of names and number of threads.

use super::CONCISE;
use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "concise-fig4",
    title: "flat queries by length of names and threads",
    source: "[Concise §6.3.1] Figure 4",
    needs: Needs { rules: &[262_144], quick_rules: &[10_000], bytes_per_rule: 80, data: &[], minutes: 10 },
    run,
};

const ENGINES: [&str; 3] = ["line", "othello", "cuckoo"];
const LENGTHS: [usize; 8] = [4, 6, 8, 16, 20, 32, 45, 64];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    for names in context.rules() {
        let mut table = Table::new(&["engine", "threads", "bytes", "M queries/s", "ns a query", "hashing"]);
        let mut limits = Vec::new();
        let mut chart = Chart::lines("Queries by length of names", "bytes", "queries/s");
        for threads in [1, 2, 4].into_iter().filter(|threads| *threads <= cores) {
            let mut points = vec![Vec::new(); ENGINES.len()];
            for key_bytes in LENGTHS {
                let mut options = context.flat(names);
                (options.key_bytes, options.measuring.threads) = (key_bytes, threads);
                for (engine, record) in context.measure_flat(&options, &ENGINES)? {
                    let place = ENGINES.iter().position(|e| *e == engine).unwrap_or_default();
                    points[place].push((key_bytes as f64, record.rate()));
                    limits.extend(record.machine_lines_per_s().map(|lines| (key_bytes as f64, lines)));
                    table.row([
                        engine.to_owned(),
                        threads.to_string(),
                        key_bytes.to_string(),
                        table::millions(record.queries_per_s),
                        format!("{:.1}", record.ns_per_query),
                        format!("{:.1}", record.hash_ns),
                    ]);
                }
            }
            for (engine, points) in ENGINES.into_iter().zip(points) {
                chart.line(format!("{engine}, {threads} threads"), points);
            }
        }
        print!("{table}");
        println!("{CONCISE}: slower as names grow, by hashing alone; in proportion to threads");
        chart.machine_rate(limits);
        context.plot(&chart)?;
    }
    Ok(())
}

//! Processing delay of packets, at the rate of the paper's trace and at a hundred times that rate.
//!
//! Differs: names come in the order of a public trace of requests. That trace has no times, so arrivals are random at
//! the paper's rates. The time of a burst is measured on the table, where the paper simulates caches.

use super::CONCISE;
use crate::experiments::{Context, Experiment, Needs};
use crate::flat;
use crate::plot::Chart;
use crate::progress::Progress;
use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "concise-fig6",
    title: "processing delay of flat queries",
    source: "[Concise §6.3.1] Figure 6",
    needs: Needs {
        rules: &[1_000_000],
        quick_rules: &[20_000],
        bytes_per_rule: 150,
        data: &["trace_cache2k_web12.xz"],
        minutes: 1,
    },
    run,
};

const ENGINES: [&str; 3] = ["line", "othello", "cuckoo"];
/// Packets a second: the mean of the paper's trace, and the trace replayed at 100 times its speed.
const RATES: [f64; 2] = [210e3, 21e6];
const QUANTILES: [f64; 6] = [0.5, 0.6, 0.9, 0.99, 0.999, 0.9999];

#[derive(serde::Serialize)]
struct Delay {
    engine: &'static str,
    names: u64,
    packets_per_s: f64,
    quantile: f64,
    delay_ns: u64,
}

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for names in context.rules() {
        let heads = ["engine", "M packets/s", "50 %", "60 %", "90 %", "99 %", "99.9 %", "99.99 %, ns", "[Concise]"];
        let mut table = Table::new(&heads);
        let mut chart = Chart::lines("Distribution of the processing delay", "ns", "share of packets");
        let mut options = context.flat(names);
        options.trace = Some(context.data("trace_cache2k_web12.xz"));
        for engine in ENGINES {
            let delays = match flat::delays(&options, engine, &RATES, Progress::SHOWN) {
                Ok(delays) => delays,
                Err(error) => {
                    println!("{engine} is left out: {error:#}");
                    continue;
                }
            };
            for (packets_per_s, delays) in RATES.into_iter().zip(delays) {
                let mut row = vec![engine.to_owned(), table::millions(packets_per_s)];
                for quantile in QUANTILES {
                    let delay_ns = delays.value_at_quantile(quantile);
                    context.record_of(&options, &Delay { engine, names, packets_per_s, quantile, delay_ns })?;
                    row.push(delay_ns.to_string());
                }
                row.push("< 1000".to_owned());
                table.add(row);
                let percent = (1..100).map(|percent| f64::from(percent) / 100.0);
                let points = percent.map(|share| (delays.value_at_quantile(share) as f64, share));
                chart.line(format!("{engine}, {} M packets/s", packets_per_s / 1e6), points.collect());
            }
        }
        print!("{table}");
        println!("{CONCISE}: below Cuckoo up to the 90th percentile, at 100 times the rate up to the 60th");
        context.plot(&chart)?;
    }
    Ok(())
}

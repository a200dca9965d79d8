//! Exchanges of several threads when some names are popular, with and without spreading these names.

use crate::experiments::{Context, Experiment, Needs};
use crate::forward::Record;
use crate::plot::Chart;
use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "hasegawa-threads",
    title: "exchanges by threads under heavy hitters",
    source: "[Hasegawa] Design Rational of Equal Load Balancing",
    needs: Needs { rules: &[16_000_000], quick_rules: &[20_000], bytes_per_rule: 200, data: &[], minutes: 6 },
    run,
};

/// Exponents of Zipf's law; `None`: no name repeats.
const EXPONENTS: [Option<f64>; 4] = [None, Some(0.8), Some(1.0), Some(1.4)];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    let mut table =
        Table::new(&["rules", "exponent", "heavy hitters", "threads", "M exchanges/s", "times", "from CS, %", "drops"]);
    for rules in context.rules() {
        let title = format!("Exchanges, {} rules", table::count(rules));
        let mut chart = Chart::lines(title, "threads", "exchanges/s");
        for zipf in EXPONENTS {
            let name = zipf.map_or("no name repeats".to_owned(), |exponent| format!("Zipf {exponent}"));
            let mut measure = |threads: usize, heavy_hitters: bool| -> anyhow::Result<Record> {
                let mut options = context.forward(rules);
                (options.zipf, options.heavy_hitters, options.measuring.threads) = (zipf, heavy_hitters, threads);
                Ok(context.measure_forward(&options)?.remove(0))
            };
            let exchanges = |record: &Record| record.exchanges_per_s.unwrap_or_default();
            let one = measure(1, false)?;
            for heavy_hitters in [false, true] {
                let words = if heavy_hitters { "spread" } else { "at home" };
                let mut records = vec![one.clone()];
                for threads in [2, 4, 8].into_iter().filter(|threads| *threads <= cores) {
                    records.push(measure(threads, heavy_hitters)?);
                }
                for record in &records {
                    table.row([
                        table::count(rules),
                        name.clone(),
                        words.to_owned(),
                        record.threads.to_string(),
                        table::millions(exchanges(record)),
                        format!("{:.2}", exchanges(record) / exchanges(&one)),
                        format!("{:.1}", (record.cs_hits + record.spread) * 100.0),
                        record.drops.to_string(),
                    ]);
                }
                let points = records.iter().map(|record| (record.threads as f64, exchanges(record)));
                chart.line(format!("{name}, {words}"), points.collect());
            }
        }
        context.plot(&chart)?;
    }
    print!("{table}");
    println!("[Hasegawa]: \"equal load balancing\" without a figure");
    Ok(())
}

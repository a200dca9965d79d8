//! Exchanges of several threads when some names are popular: with and without spreading these names, and with PIT entries
//! that threads share. The last two are measured in turn in one run, with a content store and without one.

use crate::experiments::{Context, Experiment, Needs};
use crate::forward::{Record, Variant};
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
const EXPONENTS: [Option<f64>; 5] = [None, Some(0.8), Some(1.0), Some(1.2), Some(1.4)];
/// Data planes to compare: Interests for hot names that are not stored go home, or wait where they came.
const COMPARED: [(&str, &str); 2] = [("spread", "compact/all/64"), ("shared PIT", "compact/all/64/shared-pit")];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    let mut table =
        Table::new(&["rules", "exponent", "heavy hitters", "threads", "M exchanges/s", "times", "from CS, %", "drops"]);
    let mut shared = Table::new(&SHARED_HEADS);
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
        if cores > 1 {
            compare(context, rules, &mut shared)?;
        }
    }
    print!("{table}");
    print!("{shared}");
    println!("[Hasegawa]: \"equal load balancing\" without a figure");
    Ok(())
}

const SHARED_HEADS: [&str; 8] =
    ["rules", "exponent", "cached Data", "heavy hitters", "M exchanges/s", "to spread", "from CS, %", "joined, %"];

/// Two threads that send Interests for hot names home if these names are not stored, and two that share PIT entries.
fn compare(context: &mut Context<'_>, rules: u64, table: &mut Table) -> anyhow::Result<()> {
    let planes: Vec<Variant> =
        COMPARED.iter().map(|(_, plane)| plane.parse().expect("a data plane as the command line has it")).collect();
    for has_store in [true, false] {
        for exponent in EXPONENTS.into_iter().flatten() {
            let mut options = context.forward(rules);
            (options.zipf, options.heavy_hitters, options.measuring.threads) = (Some(exponent), true, 2);
            options.cs = if has_store { options.cs } else { 0 };
            options.compare.clone_from(&planes);
            let records = context.measure_forward(&options)?;
            let rate = |record: &Record| record.exchanges_per_s.unwrap_or_default();
            for (record, (words, _)) in records.iter().zip(COMPARED) {
                table.row([
                    table::count(rules),
                    format!("Zipf {exponent}"),
                    record.cs.to_string(),
                    words.to_owned(),
                    table::millions(rate(record)),
                    format!("{:.2}", rate(record) / rate(&records[0])),
                    format!("{:.1}", (record.cs_hits + record.spread) * 100.0),
                    format!("{:.1}", record.joined * 100.0),
                ]);
            }
        }
    }
    Ok(())
}

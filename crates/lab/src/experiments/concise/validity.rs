//! How engines tell unknown names from known ones, and the cost of doing so.

use super::CONCISE;
use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "concise-validity",
    title: "checksums, filters and digests against unknown names",
    source: "[Concise §7.3]",
    needs: Needs { rules: &[1_000_000, 4_000_000], quick_rules: &[10_000], bytes_per_rule: 160, data: &[], minutes: 3 },
    run,
};

const ENGINES: [&str; 5] = ["line", "checked", "filtered", "fingerprints", "digests"];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for names in context.rules() {
        let mut rows = Table::new(&[
            "engine",
            "unknown names that pass, %",
            "bits a name",
            "M queries/s",
            "M adds/s",
            "M alters/s",
        ]);
        let mut rates = Vec::new();
        let options = context.flat(names);
        for (engine, record) in context.measure_flat(&options, &ENGINES)? {
            let millions = |rate: Option<f64>| table::optional(rate.map(|rate| rate / 1e6), 2);
            rows.row([
                engine.to_owned(),
                format!("{:.3}", 100.0 * record.unknown_answered),
                format!("{:.2}", record.bits_per_name_counted),
                table::millions(record.queries_per_s),
                millions(record.adds_per_s),
                millions(record.alters_per_s),
            ]);
            rates.push((engine, record.rate(), record.machine_lines_per_s()));
        }
        print!("{rows}");
        println!("{CONCISE}: r bits of checksum cost 2 r m bits and no time; expected to pass: 1 in 256, 0.391 %");
        let labels = rates.iter().map(|rate| rate.0.to_owned()).collect();
        let mut chart = Chart::bars(format!("Queries of {} names", table::count(names)), labels, "queries/s");
        chart.bar("one thread", rates.iter().map(|rate| Some(rate.1)));
        chart.machine_rate((0..).zip(&rates).filter_map(|(at, rate)| Some((f64::from(at), rate.2?))));
        context.plot(&chart)?;
    }
    Ok(())
}

//! SetSep compared with the flat engines. Memory is each engine's own count.

use super::CONCISE;
use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "concise-setsep",
    title: "SetSep beside the flat engines",
    source: "[Concise §7.2]",
    needs: Needs { rules: &[1_400_000], quick_rules: &[10_000], bytes_per_rule: 150, data: &[], minutes: 2 },
    run,
};

const ENGINES: [&str; 4] = ["line", "othello", "cuckoo", "setsep"];

/// The paper's queries per second, with 4 threads.
const PAPER_RATES: [(&str, f64); 2] = [("othello", 470e6), ("setsep", 211e6)];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for names in context.rules() {
        let heads =
            ["engine", "MB", "[Concise]", "M queries/s", "[Concise]", "lines a query", "construction, s", "[Concise]"];
        let mut table = Table::new(&heads);
        let mut rates = Vec::new();
        let options = context.flat(names);
        for (engine, record) in context.measure_flat(&options, &ENGINES)? {
            let (megabytes, rate, construction) = match engine {
                "othello" => ("4", "470", "1 s at 4 M"),
                "setsep" => ("2.19", "211", "10 s at 1 M"),
                _ => ("", "", ""),
            };
            table.row([
                engine.to_owned(),
                format!("{:.2}", record.bits_per_name_counted * names as f64 / 8e6),
                megabytes.to_owned(),
                table::millions(record.queries_per_s),
                rate.to_owned(),
                table::optional(record.cache_lines_per_query, 2),
                format!("{:.2}", record.construct_s),
                construction.to_owned(),
            ]);
            rates.push((engine, record.rate(), record.machine_lines_per_s()));
        }
        print!("{table}");
        println!("{CONCISE}, with 4 threads, 1.4 M names and 8 bits of action; here it is one thread");
        let labels = rates.iter().map(|rate| rate.0.to_owned()).collect();
        let mut chart = Chart::bars(format!("Queries of {} names", table::count(names)), labels, "queries/s");
        chart.bar("one thread", rates.iter().map(|rate| Some(rate.1)));
        let paper = |engine: &str| PAPER_RATES.iter().find(|paper| paper.0 == engine).map(|paper| paper.1);
        chart.paper_of_bars("[Concise], 4 threads", rates.iter().map(|rate| paper(rate.0)));
        chart.machine_rate((0..).zip(&rates).filter_map(|(at, rate)| Some((f64::from(at), rate.2?))));
        context.plot(&chart)?;
    }
    Ok(())
}

//! SetSep beside the flat engines. Memory is what each engine counts of its own.

use super::papers::CONCISE;
use super::{Context, Experiment, Needs, Table, table};
use crate::plot::Chart;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "concise-setsep",
    title: "SetSep beside the flat engines",
    source: "[Concise §7.2]",
    needs: Needs { rules: &[1_400_000], quick_rules: &[10_000], bytes_per_rule: 150, data: &[], minutes: 2 },
    run,
};

const ENGINES: [&str; 4] = ["line", "othello", "cuckoo", "setsep"];

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
            rates.push((engine, record.queries_per_s));
        }
        print!("{table}");
        println!("{CONCISE}, with 4 threads, 1.4 M names and 8 bits of action; here it is one thread");
        let labels = rates.iter().map(|rate| rate.0.to_owned()).collect();
        let mut chart = Chart::bars(format!("Queries of {} names", table::count(names)), labels, "queries/s");
        chart.bar("one thread", rates.iter().map(|rate| Some(rate.1)));
        context.plot(&chart)?;
    }
    Ok(())
}

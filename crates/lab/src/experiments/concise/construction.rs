//! Construction time of flat tables.

use super::CONCISE;
use crate::experiments::{Context, Experiment, Needs};
use crate::plot::Chart;
use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "concise-fig7",
    title: "construction of flat tables",
    source: "[Concise §6.3.2] Figure 7",
    needs: Needs {
        rules: &[250_000, 1_000_000, 4_000_000, 16_000_000],
        quick_rules: &[5_000, 20_000],
        bytes_per_rule: 80,
        data: &[],
        minutes: 8,
    },
    run,
};

const ENGINES: [&str; 4] = ["line", "othello", "cuckoo", "buffalo"];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let heads = ["engine", "names", "construction, s", "ns a name", "control half, bytes a name", "[Concise]"];
    let mut table = Table::new(&heads);
    let mut points = vec![Vec::new(); ENGINES.len()];
    for names in context.rules() {
        let options = context.flat(names);
        for (engine, record) in context.measure_flat(&options, &ENGINES)? {
            let place = ENGINES.iter().position(|e| *e == engine).unwrap_or_default();
            points[place].push((names as f64, record.construct_s));
            let paper = match (engine, names) {
                ("othello", 4_000_000) => "1 s",
                ("cuckoo" | "buffalo", _) => "less than Concise",
                _ => "",
            };
            table.row([
                engine.to_owned(),
                table::count(names),
                format!("{:.3}", record.construct_s),
                format!("{:.0}", record.construct_ns_per_name),
                format!("{:.1}", record.control_bytes_per_name),
                paper.to_owned(),
            ]);
        }
    }
    print!("{table}");
    println!("{CONCISE}");
    let mut chart = Chart::lines("Construction", "names", "s");
    for (engine, points) in ENGINES.into_iter().zip(points) {
        chart.line(engine, points);
    }
    chart.paper("[Concise]: Othello", vec![(4e6, 1.0)]);
    context.plot(&chart)
}

//! Names added, altered and deleted per second by the control half.

use super::CONCISE;
use crate::experiments::{Context, Experiment, Needs};
use crate::plot::Chart;
use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "concise-fig8",
    title: "update speed of flat tables",
    source: "[Concise §6.3.2] Figure 8",
    needs: Needs {
        rules: &[250_000, 1_000_000, 4_000_000, 16_000_000],
        quick_rules: &[5_000, 20_000],
        bytes_per_rule: 80,
        data: &[],
        minutes: 7,
    },
    run,
};

const ENGINES: [&str; 3] = ["line", "othello", "cuckoo"];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let mut table = Table::new(&["engine", "names", "M adds/s", "M alters/s", "M deletes/s", "[Concise]"]);
    let mut chart = Chart::lines("Updates by number of names", "names", "changes/s");
    let mut points = vec![[Vec::new(), Vec::new(), Vec::new()]; ENGINES.len()];
    for names in context.rules() {
        let options = context.flat(names);
        for (engine, record) in context.measure_flat(&options, &ENGINES)? {
            let rates = [record.adds_per_s, record.alters_per_s, record.deletes_per_s];
            let place = ENGINES.iter().position(|e| *e == engine).unwrap_or_default();
            for (points, rate) in points[place].iter_mut().zip(rates) {
                points.extend(rate.map(|rate| (names as f64, rate)));
            }
            let [adds, alters, deletes] = rates.map(|rate| table::optional(rate.map(|rate| rate / 1e6), 2));
            let paper = if engine == "othello" { "> 1 M/s" } else { "" };
            table.row([engine.to_owned(), table::count(names), adds, alters, deletes, paper.to_owned()]);
        }
    }
    print!("{table}");
    println!("{CONCISE}");
    for (engine, points) in ENGINES.into_iter().zip(points) {
        for (what, points) in ["adds", "alters", "deletes"].into_iter().zip(points) {
            chart.line(format!("{engine}, {what}"), points);
        }
    }
    chart.paper_level("[Concise]: at least", 1e6);
    context.plot(&chart)
}

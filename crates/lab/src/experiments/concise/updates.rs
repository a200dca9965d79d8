//! Queries on one core while names change on another, at several rates.

use super::CONCISE;
use crate::experiments::{Context, Experiment, Needs};
use crate::plot::Chart;
use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "concise-fig5",
    title: "flat queries during updates",
    source: "[Concise §6.3.1] Figure 5",
    needs: Needs { rules: &[1_000_000, 4_000_000], quick_rules: &[20_000], bytes_per_rule: 80, data: &[], minutes: 6 },
    run,
};

const ENGINES: [&str; 2] = ["line", "othello"];

/// Changes per second; `None`: as fast as the engine can.
const PACES: [Option<u64>; 4] = [Some(10_000), Some(100_000), Some(300_000), None];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let heads =
        ["engine", "names", "changes/s", "M queries/s alone", "beside the writer", "change", "wrong", "[Concise]"];
    let mut table = Table::new(&heads);
    let mut chart = Chart::lines("Queries beside a writer", "changes/s", "queries/s");
    for names in context.rules() {
        let mut points = vec![Vec::new(); ENGINES.len()];
        for pace in PACES {
            let mut options = context.flat(names);
            (options.updating.updates, options.updating.updates_per_s) = (true, pace);
            // Small batches, as changes come in practice.
            options.updating.batch = 16;
            for (engine, record) in context.measure_flat(&options, &ENGINES)? {
                let rates = record.updates_per_s.zip(record.queries_per_s_quiet).zip(record.queries_per_s_updating);
                let Some(((updates, quiet), beside)) = rates else { continue };
                let place = ENGINES.iter().position(|e| *e == engine).unwrap_or_default();
                points[place].push((updates, beside));
                table.row([
                    engine.to_owned(),
                    table::count(names),
                    format!("{updates:.0}"),
                    table::millions(quiet),
                    table::millions(beside),
                    table::change(quiet, beside),
                    record.wrong.to_string(),
                    "very small decrease".to_owned(),
                ]);
            }
        }
        for (engine, points) in ENGINES.into_iter().zip(points) {
            chart.line(format!("{engine}, {} names", table::count(names)), points);
        }
    }
    print!("{table}");
    println!("{CONCISE}; negligible at 4 M names and hundreds of thousands of changes a second");
    context.plot(&chart)
}

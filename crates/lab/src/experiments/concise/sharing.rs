//! Cost of a second switch's table with the same names.

use anyhow::ensure;

use super::CONCISE;
use crate::experiments::{Context, Experiment, Needs};
use crate::flat;
use crate::plot::Chart;
use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "concise-sharing",
    title: "the table of a second switch, on the graph of the first",
    source: "[Concise §5.1]",
    needs: Needs {
        rules: &[250_000, 1_000_000, 4_000_000, 16_000_000],
        quick_rules: &[5_000, 20_000],
        bytes_per_rule: 110,
        data: &[],
        minutes: 2,
    },
    run,
};

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let mut rows = Table::new(&["names", "first table, s", "second table, s", "second / first"]);
    let mut points = Vec::new();
    for names in context.rules() {
        let sharing = flat::share(&context.flat(names))?;
        context.record(&sharing)?;
        ensure!(sharing.wrong == 0, "{} answers of {} were wrong", sharing.wrong, sharing.checked);
        let [first, second, share] = [sharing.first_s, sharing.second_s, sharing.share];
        rows.row([table::count(names), format!("{first:.3}"), format!("{second:.3}"), format!("{share:.3}")]);
        points.push((names as f64, share));
    }
    print!("{rows}");
    println!("{CONCISE}: the graph is computed once for all switches");
    let mut chart = Chart::lines("The second switch's table", "names", "share of the first's time");
    chart.line("othello", points);
    context.plot(&chart)
}

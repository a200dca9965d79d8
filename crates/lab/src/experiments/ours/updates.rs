//! Lookups on one core while a writer on another core changes rules as fast as it can.

use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::prefix::engines_of_all_rules;
use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "updates",
    title: "lookups during updates",
    source: "ours",
    needs: Needs { rules: &[16_000_000], quick_rules: &[50_000], bytes_per_rule: 25, data: &[], minutes: 12 },
    run,
};

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for rules in context.rules() {
        let heads = ["engine", "M updates/s", "M lookups/s alone", "beside the writer", "change", "wrong"];
        let mut table = Table::new(&heads);
        let (mut bars, mut limits) = (Vec::new(), Vec::new());
        for engine in engines_of_all_rules() {
            if !context.fits(rules * engine.bytes_per_rule) {
                println!("{} is left out: not enough memory", engine.name);
                continue;
            }
            let mut options = context.prefix(engine.name, rules);
            options.updating.updates = true;
            let record = context.measure(&options)?;
            let (quiet, updating) = (record.lookups_per_s_quiet, record.lookups_per_s_updating);
            let both = quiet.zip(updating);
            table.row([
                engine.name.to_owned(),
                table::optional(record.updates_per_s.map(|rate| rate / 1e6), 3),
                quiet.map_or_else(String::new, table::millions),
                updating.map_or_else(String::new, table::millions),
                both.map_or_else(String::new, |(quiet, updating)| table::change(quiet, updating)),
                record.wrong.to_string(),
            ]);
            limits.extend(record.machine_lines_per_s().map(|lines| (bars.len() as f64, lines)));
            bars.push((engine.name.to_owned(), quiet, updating));
        }
        print!("{table}");
        let labels = bars.iter().map(|bar| bar.0.clone()).collect();
        let mut chart = Chart::bars(format!("Lookups in {} rules", table::count(rules)), labels, "lookups/s");
        chart.bar("alone", bars.iter().map(|bar| bar.1));
        chart.bar("beside a writer", bars.iter().map(|bar| bar.2));
        chart.machine_rate(limits);
        context.plot(&chart)?;
    }
    Ok(())
}

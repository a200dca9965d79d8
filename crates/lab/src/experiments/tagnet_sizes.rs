//! How subset match slows down as the table grows.

use super::papers::TAGNET_SETS;
use super::{Context, Experiment, Needs, Table, table};
use crate::plot::Chart;
use crate::tags::Algorithm;
use crate::workload::TagKind;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "tagnet-fig10c",
    title: "subset match by number of descriptors",
    source: "[TagNet §4.4.2] Figure 10c",
    needs: Needs {
        rules: &[10_000_000, 20_000_000, 30_000_000, 40_000_000, 50_000_000, 60_000_000],
        quick_rules: &[5_000, 20_000],
        bytes_per_rule: 130,
        data: &[],
        minutes: 40,
    },
    run,
};

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let mut table =
        Table::new(&["algorithm", "descriptors", "k packets/s", "of the smallest's", "steps", "bytes a descriptor"]);
    let mut chart = Chart::lines("Packets by number of descriptors", "descriptors", "packets/s");
    for algorithm in [Algorithm::All, Algorithm::Largest] {
        let mut points = Vec::new();
        for descriptors in context.rules() {
            let mut options = context.tags(TagKind::Tagnet, descriptors);
            options.algorithm = algorithm;
            let record = context.measure_tags(&options)?;
            points.push((descriptors as f64, record.packets_per_s));
            table.row([
                table::word(algorithm),
                table::count(descriptors),
                format!("{:.1}", record.packets_per_s / 1e3),
                format!("{:.2}", record.packets_per_s / points[0].1),
                format!("{:.0}", record.steps_per_packet),
                format!("{:.2}", record.bytes_per_descriptor),
            ]);
        }
        chart.line(table::word(algorithm), points);
    }
    print!("{table}");
    println!("{TAGNET_SETS}; 2.59 times slower at 63 M than at 10 M, with a flattening slope");
    context.plot(&chart)
}

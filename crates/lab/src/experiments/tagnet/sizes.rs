//! The slowdown of subset match as the table grows.

use super::TAGNET_SETS;
use super::match_rate::ENGINES;
use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::table::{self, Table};
use crate::tags::{Algorithm, Asking};
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
    let heads =
        ["algorithm", "engine", "descriptors", "k packets/s", "rate / smallest's rate", "steps", "bytes a descriptor"];
    let mut table = Table::new(&heads);
    let mut chart = Chart::lines("Packets by number of descriptors", "descriptors", "packets/s");
    let mut by_size = Vec::new();
    for descriptors in context.rules() {
        let options = context.tags(TagKind::Tagnet, descriptors);
        let askings =
            [Algorithm::All, Algorithm::Largest].map(|algorithm| Asking { algorithm, ..options.asking.clone() });
        let mut of_size = Vec::new();
        // One engine after the other, because the largest tables of both would not fit.
        for engine in ENGINES {
            of_size.extend(context.measure_tags(&options, &[engine], &askings)?);
        }
        by_size.push(of_size);
    }
    let lines = by_size.first().map_or(0, Vec::len);
    for line in 0..lines {
        let records: Vec<_> = by_size.iter().map(|of_size| &of_size[line]).collect();
        for record in &records {
            table.row([
                table::word(record.algorithm),
                record.engine.clone(),
                table::count(record.descriptors),
                format!("{:.1}", record.packets_per_s / 1e3),
                format!("{:.2}", record.packets_per_s / records[0].packets_per_s),
                format!("{:.0}", record.steps_per_packet),
                format!("{:.2}", record.bytes_per_descriptor),
            ]);
        }
        let points = records.iter().map(|record| (record.descriptors as f64, record.rate()));
        chart.line(format!("{}, {}", records[0].engine, table::word(records[0].algorithm)), points.collect());
    }
    print!("{table}");
    println!("{TAGNET_SETS}; 2.59 times slower at 63 M than at 10 M, with a flattening slope");
    context.plot(&chart)
}

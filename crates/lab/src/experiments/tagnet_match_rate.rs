//! What it costs that packets match: those that match nothing are soon told.

use std::collections::BTreeMap;

use super::papers::TAGNET_SETS;
use super::{Context, Experiment, Needs, Table, table};
use crate::plot::Chart;
use crate::tags::{Algorithm, Asking, Record};
use crate::workload::TagKind;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "tagnet-fig7",
    title: "subset match by share of packets that match",
    source: "[TagNet §4.1] Figure 7",
    needs: Needs { rules: &[10_000_000], quick_rules: &[20_000], bytes_per_rule: 260, data: &[], minutes: 15 },
    run,
};

/// The paper's, and ours.
pub(super) const ENGINES: [&str; 2] = ["trie", "rare-tag"];
const SHARES: [f64; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for descriptors in context.rules() {
        let heads = ["algorithm", "match, %", "engine", "k packets/s", "us a packet", "steps", "[TagNet], k packets/s"];
        let mut table = Table::new(&heads);
        let mut chart = Chart::lines(
            format!("Packets that match, of {} descriptors", table::count(descriptors)),
            "share that matches, %",
            "us a packet",
        );
        let options = context.tags(TagKind::Tagnet, descriptors);
        let askings: Vec<_> = [Algorithm::All, Algorithm::Largest]
            .into_iter()
            .flat_map(|algorithm| SHARES.map(|match_rate| Asking { algorithm, match_rate, ..options.asking.clone() }))
            .collect();
        let records = context.measure_tags(&options, &ENGINES, &askings)?;
        for record in &records {
            let paper = match (record.algorithm, record.match_rate) {
                (Algorithm::All, 0.0) => "1200",
                (Algorithm::Largest, 0.0) => "1300",
                _ => "",
            };
            table.row([
                table::word(record.algorithm),
                format!("{:.0}", record.match_rate * 100.0),
                record.engine.clone(),
                format!("{:.1}", record.packets_per_s / 1e3),
                format!("{:.2}", record.ns_per_packet / 1e3),
                format!("{:.0}", record.steps_per_packet),
                paper.to_owned(),
            ]);
        }
        for (line, points) in lines(&records, |record| record.match_rate * 100.0) {
            chart.line(line, points);
        }
        print!("{table}");
        println!("{TAGNET_SETS}; 140 to 319 k packets/s a thread when all match");
        context.plot(&chart)?;
    }
    Ok(())
}

/// Of each engine and algorithm a line: the time of a packet in microseconds, by what was varied.
pub(super) fn lines(records: &[Record], varied: impl Fn(&Record) -> f64) -> BTreeMap<String, Vec<(f64, f64)>> {
    let mut lines: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for record in records {
        let line = format!("{}, {}", record.engine, table::word(record.algorithm));
        lines.entry(line).or_default().push((varied(record), record.ns_per_packet / 1e3));
    }
    lines
}

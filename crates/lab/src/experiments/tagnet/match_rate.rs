//! The cost of packets that match: a search without a match ends soon.

use std::collections::BTreeMap;

use super::TAGNET_SETS;
use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::table::{self, Table};
use crate::tags::{Algorithm, Asking, Record};
use crate::timing::Spread;
use crate::workload::TagKind;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "tagnet-fig7",
    title: "subset match by share of packets that match",
    source: "[TagNet §4.1] Figure 7",
    needs: Needs { rules: &[10_000_000], quick_rules: &[20_000], bytes_per_rule: 260, data: &[], minutes: 15 },
    run,
};

/// The paper's engine, and ours.
pub(super) const ENGINES: [&str; 2] = ["trie", "rare-tag"];
/// The paper's time of a packet that matches nothing, in us: 1.2 and 1.3 million packets/s.
const PAPER: [(&str, f64); 2] = [("all subsets", 1.0 / 1.2), ("largest", 1.0 / 1.3)];
/// The paper's shortest and longest time when all packets match: 319 and 140 thousand packets/s.
const PAPER_MATCHING: [f64; 2] = [1e3 / 319.0, 1e3 / 140.0];
const SHARES: [f64; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for descriptors in context.rules() {
        let heads =
            ["algorithm", "matching, %", "engine", "k packets/s", "us a packet", "steps", "[TagNet], k packets/s"];
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
        for (what, us_at_0) in PAPER {
            chart.paper(format!("[TagNet], {what}"), vec![(0.0, us_at_0)]);
        }
        chart.paper("[TagNet], all match", PAPER_MATCHING.map(|us| (100.0, us)).to_vec());
        print!("{table}");
        println!("{TAGNET_SETS}; 140 to 319 k packets/s a thread when all match");
        context.plot(&chart)?;
    }
    Ok(())
}

/// Makes a line for each engine and algorithm: the time of a packet in us against the varied parameter.
pub(super) fn lines(records: &[Record], varied: impl Fn(&Record) -> f64) -> BTreeMap<String, Vec<(f64, Spread)>> {
    let mut lines: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for record in records {
        let line = format!("{}, {}", record.engine, table::word(record.algorithm));
        lines.entry(line).or_default().push((varied(record), record.ns().times(1e-3)));
    }
    lines
}

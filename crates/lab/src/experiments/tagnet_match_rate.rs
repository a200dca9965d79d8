//! What it costs that packets match: those that match nothing are soon told.

use super::papers::TAGNET_SETS;
use super::{Context, Experiment, Needs, Table, table};
use crate::plot::Chart;
use crate::tags::Algorithm;
use crate::workload::TagKind;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "tagnet-fig7",
    title: "subset match by share of packets that match",
    source: "[TagNet §4.1] Figure 7",
    needs: Needs { rules: &[10_000_000], quick_rules: &[20_000], bytes_per_rule: 130, data: &[], minutes: 15 },
    run,
};

const SHARES: [f64; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for descriptors in context.rules() {
        let mut table =
            Table::new(&["algorithm", "match, %", "k packets/s", "us a packet", "steps", "[TagNet], k packets/s"]);
        let mut chart = Chart::lines(
            format!("Packets that match, of {} descriptors", table::count(descriptors)),
            "share that matches, %",
            "us a packet",
        );
        for algorithm in [Algorithm::All, Algorithm::Largest] {
            let mut points = Vec::new();
            for share in SHARES {
                let mut options = context.tags(TagKind::Tagnet, descriptors);
                (options.algorithm, options.match_rate) = (algorithm, share);
                let record = context.measure_tags(&options)?;
                points.push((share * 100.0, record.ns_per_packet / 1e3));
                let paper = match (algorithm, share) {
                    (Algorithm::All, 0.0) => "1200",
                    (Algorithm::Largest, 0.0) => "1300",
                    _ => "",
                };
                table.row([
                    table::word(algorithm),
                    format!("{:.0}", share * 100.0),
                    format!("{:.1}", record.packets_per_s / 1e3),
                    format!("{:.2}", record.ns_per_packet / 1e3),
                    format!("{:.0}", record.steps_per_packet),
                    paper.to_owned(),
                ]);
            }
            chart.line(table::word(algorithm), points);
        }
        print!("{table}");
        println!("{TAGNET_SETS}; 140 to 319 k packets/s a thread when all match");
        context.plot(&chart)?;
    }
    Ok(())
}

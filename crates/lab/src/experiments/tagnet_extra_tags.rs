//! What each tag costs that a packet has beside those of a descriptor.

use super::papers::TAGNET_SETS;
use super::{Context, Experiment, Needs, Table, table};
use crate::plot::Chart;
use crate::tags::Algorithm;
use crate::workload::TagKind;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "tagnet-fig8",
    title: "subset match by tags beside a descriptor's",
    source: "[TagNet §4.1] Figure 8",
    needs: Needs { rules: &[10_000_000], quick_rules: &[20_000], bytes_per_rule: 130, data: &[], minutes: 15 },
    run,
};

const TAGS_MAX: u64 = 5;

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for descriptors in context.rules() {
        let mut table = Table::new(&["algorithm", "tags more", "us a packet", "k packets/s", "steps", "matches"]);
        let mut chart =
            Chart::lines(format!("Packets in {} descriptors", table::count(descriptors)), "tags more", "us a packet");
        for algorithm in [Algorithm::All, Algorithm::Largest] {
            let mut points = Vec::new();
            for more in 0..=TAGS_MAX {
                let mut options = context.tags(TagKind::Tagnet, descriptors);
                (options.algorithm, options.extra_tags) = (algorithm, more..=more);
                let record = context.measure_tags(&options)?;
                points.push((more as f64, record.ns_per_packet / 1e3));
                table.row([
                    table::word(algorithm),
                    more.to_string(),
                    format!("{:.2}", record.ns_per_packet / 1e3),
                    format!("{:.1}", record.packets_per_s / 1e3),
                    format!("{:.0}", record.steps_per_packet),
                    format!("{:.2}", record.matches_per_packet),
                ]);
            }
            chart.line(table::word(algorithm), points);
        }
        print!("{table}");
        println!("{TAGNET_SETS}; all: \"growing almost exponentially\"; largest: \"much less visible\"");
        context.plot(&chart)?;
    }
    Ok(())
}

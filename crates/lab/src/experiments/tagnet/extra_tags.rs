//! The cost of each tag of a packet beyond those of a descriptor.

use super::TAGNET_SETS;
use super::match_rate::{ENGINES, lines};
use crate::experiments::{Context, Experiment, Needs};
use crate::plot::Chart;
use crate::table::{self, Table};
use crate::tags::{Algorithm, Asking};
use crate::workload::TagKind;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "tagnet-fig8",
    title: "subset match by tags beside a descriptor's",
    source: "[TagNet §4.1] Figure 8",
    needs: Needs { rules: &[10_000_000], quick_rules: &[20_000], bytes_per_rule: 260, data: &[], minutes: 15 },
    run,
};

const TAGS_MAX: u64 = 5;

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for descriptors in context.rules() {
        let heads = ["algorithm", "extra tags", "engine", "us a packet", "k packets/s", "steps", "matches"];
        let mut table = Table::new(&heads);
        let mut chart =
            Chart::lines(format!("Packets in {} descriptors", table::count(descriptors)), "extra tags", "us a packet");
        let options = context.tags(TagKind::Tagnet, descriptors);
        let askings: Vec<_> = [Algorithm::All, Algorithm::Largest]
            .into_iter()
            .flat_map(|algorithm| (0..=TAGS_MAX).map(move |more| (algorithm, more..=more)))
            .map(|(algorithm, extra_tags)| Asking { algorithm, extra_tags, ..options.asking.clone() })
            .collect();
        let records = context.measure_tags(&options, &ENGINES, &askings)?;
        for record in &records {
            table.row([
                table::word(record.algorithm),
                record.extra_tags.0.to_string(),
                record.engine.clone(),
                format!("{:.2}", record.ns_per_packet / 1e3),
                format!("{:.1}", record.packets_per_s / 1e3),
                format!("{:.0}", record.steps_per_packet),
                format!("{:.2}", record.matches_per_packet),
            ]);
        }
        for (line, points) in lines(&records, |record| record.extra_tags.0 as f64) {
            chart.line(line, points);
        }
        print!("{table}");
        println!("{TAGNET_SETS}; all: \"growing almost exponentially\"; largest: \"much less visible\"");
        context.plot(&chart)?;
    }
    Ok(())
}

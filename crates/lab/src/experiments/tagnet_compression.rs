//! What the permutation of bits and the removal of chains save in time.

use super::papers::TAGNET_SETS;
use super::tagnet_memory::{STEPS, tuning};
use super::{Context, Experiment, Needs, Table, table};
use crate::plot::Chart;
use crate::tags::Algorithm;
use crate::workload::TagKind;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "tagnet-fig9b",
    title: "subset match by compression of the trie",
    source: "[TagNet §4.2] Figure 9b",
    needs: Needs { rules: &[10_000_000], quick_rules: &[20_000], bytes_per_rule: 400, data: &[], minutes: 15 },
    run,
};

/// By algorithm and step: by how much the time changes, in the paper.
fn paper(algorithm: Algorithm, step: usize) -> &'static str {
    match (algorithm, step) {
        (Algorithm::All, 1) => "-29.2 %",
        (Algorithm::All, 2) => "another -8 %",
        (Algorithm::Largest, 1) => "-16.8 %",
        (Algorithm::Largest, 2) => "another -6.2 %",
        _ => "",
    }
}

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for descriptors in context.rules() {
        let mut table = Table::new(&["algorithm", "compression", "us a packet", "steps", "change", "[TagNet]"]);
        let labels = STEPS.map(|(label, ..)| label.to_owned()).to_vec();
        let mut chart = Chart::bars(format!("Packets in {}", table::count(descriptors)), labels, "us a packet");
        for algorithm in [Algorithm::All, Algorithm::Largest] {
            let mut times = Vec::new();
            for (step, (label, permuted, chains)) in STEPS.into_iter().enumerate() {
                let mut options = context.tags(TagKind::Tagnet, descriptors);
                options.algorithm = algorithm;
                options.tuning = tuning(&options.tuning, permuted, chains);
                let record = context.measure_tags(&options)?;
                times.push(record.ns_per_packet / 1e3);
                table.row([
                    table::word(algorithm),
                    label.to_owned(),
                    format!("{:.2}", record.ns_per_packet / 1e3),
                    format!("{:.0}", record.steps_per_packet),
                    table::change(times[0], record.ns_per_packet / 1e3),
                    paper(algorithm, step).to_owned(),
                ]);
            }
            chart.bar(table::word(algorithm), times.into_iter().map(Some));
        }
        print!("{table}");
        println!("{TAGNET_SETS}");
        context.plot(&chart)?;
    }
    Ok(())
}

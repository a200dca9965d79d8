//! Time saved by the permutation of bits and the removal of chains.

use super::TAGNET_SETS;
use super::memory::{STEPS, tuning};
use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::table::{self, Table};
use crate::tags::{Algorithm, Asking};
use crate::workload::TagKind;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "tagnet-fig9b",
    title: "subset match by compression of the trie",
    source: "[TagNet §4.2] Figure 9b",
    needs: Needs { rules: &[10_000_000], quick_rules: &[20_000], bytes_per_rule: 400, data: &[], minutes: 15 },
    run,
};

const ALGORITHMS: [Algorithm; 2] = [Algorithm::All, Algorithm::Largest];

/// The paper's change of the time, by algorithm and step.
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
        let mut by_step = Vec::new();
        for (_, permuted, chains) in STEPS {
            let mut options = context.tags(TagKind::Tagnet, descriptors);
            options.tuning = tuning(&options.tuning, permuted, chains);
            let askings = ALGORITHMS.map(|algorithm| Asking { algorithm, ..options.asking.clone() });
            by_step.push(context.measure_tags(&options, &["trie"], &askings)?);
        }
        for (at, algorithm) in ALGORITHMS.into_iter().enumerate() {
            let times: Vec<_> = by_step.iter().map(|records| records[at].ns_per_packet / 1e3).collect();
            for (step, (label, ..)) in STEPS.into_iter().enumerate() {
                table.row([
                    table::word(algorithm),
                    label.to_owned(),
                    format!("{:.2}", times[step]),
                    format!("{:.0}", by_step[step][at].steps_per_packet),
                    table::change(times[0], times[step]),
                    paper(algorithm, step).to_owned(),
                ]);
            }
            let bars = by_step.iter().map(|records| Some(records[at].ns().times(1e-3)));
            chart.bar(table::word(algorithm), bars);
        }
        print!("{table}");
        println!("{TAGNET_SETS}");
        context.plot(&chart)?;
    }
    Ok(())
}

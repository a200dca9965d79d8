//! Memory saved by the permutation of bits and the removal of chains.

use super::TAGNET_SETS;
use crate::experiments::{Context, Experiment, Needs};
use crate::plot::Chart;
use crate::table::{self, Table};
use crate::tags::{ChainChoice, Tuning};
use crate::workload::TagKind;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "tagnet-fig9a",
    title: "memory of the trie by compression",
    source: "[TagNet §4.2] Figure 9a",
    needs: Needs {
        rules: &[10_000_000],
        quick_rules: &[20_000],
        bytes_per_rule: 400,
        data: &["domains_tb0hdan.txt.xz"],
        minutes: 10,
    },
    run,
};

/// The paper's compression steps, and ours.
pub(super) const STEPS: [(&str, bool, ChainChoice); 4] = [
    ("no compression", false, ChainChoice::Kept),
    ("bit perm", true, ChainChoice::Kept),
    ("bit perm+chain", true, ChainChoice::Removed),
    ("ours: folded", true, ChainChoice::Folded),
];

/// The paper's bytes of a descriptor: 171 MB for 10 million. 1.06 GB for 63 million are about as many.
const PAPER_BYTES: f64 = 17.1;

/// One of [`STEPS`] as options.
pub(super) fn tuning(base: &Tuning, permuted: bool, chains: ChainChoice) -> Tuning {
    Tuning { no_permutation: !permuted, chains, ..base.clone() }
}

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let mut table =
        Table::new(&["workload", "descriptors", "compression", "MB", "bytes a descriptor", "change", "[TagNet]"]);
    let mut chart =
        Chart::bars("Memory of the trie", STEPS.map(|(label, ..)| label.to_owned()).to_vec(), "bytes a descriptor");
    for descriptors in context.rules() {
        for workload in [TagKind::Tagnet, TagKind::Ccn] {
            let mut sizes = Vec::new();
            for (label, permuted, chains) in STEPS {
                let mut options = context.tags(workload, descriptors);
                options.tuning = tuning(&options.tuning, permuted, chains);
                let askings = [options.asking.clone()];
                let record = context.measure_tags(&options, &["trie"], &askings)?.remove(0);
                let bytes = record.bytes_per_descriptor_counted;
                sizes.push(bytes);
                let paper = match (workload, chains, permuted) {
                    (TagKind::Tagnet, ChainChoice::Kept, true) => "-48 % (63M: -46 %)",
                    (TagKind::Ccn, ChainChoice::Kept, true) => "-42 %",
                    (_, ChainChoice::Removed, _) => "171 MB for 10 M, 1.06 GB for 63 M",
                    _ => "",
                };
                table.row([
                    table::word(workload),
                    table::count(record.descriptors),
                    label.to_owned(),
                    format!("{:.1}", bytes * record.descriptors as f64 / 1e6),
                    format!("{bytes:.2}"),
                    table::change(sizes[0], bytes),
                    paper.to_owned(),
                ]);
            }
            let label = format!("{}, {}", table::word(workload), table::count(descriptors));
            chart.bar(label, sizes.into_iter().map(Some));
            if workload == TagKind::Tagnet {
                let of_step = |(_, _, chains)| (chains == ChainChoice::Removed).then_some(PAPER_BYTES);
                chart.paper_of_bars("[TagNet], 10M and 63M", STEPS.map(of_step));
            }
        }
    }
    print!("{table}");
    println!("{TAGNET_SETS}");
    context.plot(&chart)
}

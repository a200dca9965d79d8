//! Layouts of the trie: sibling order (SOL) and sibling reverse order (SROL).

use super::TAGNET_SETS;
use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::table::{self, Table};
use crate::tags::{Algorithm, Asking, ChainChoice, LayoutChoice};
use crate::workload::TagKind;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "tagnet-fig9c",
    title: "subset match by layout of the trie",
    source: "[TagNet §4.3] Figure 9c",
    needs: Needs {
        rules: &[10_000_000],
        quick_rules: &[20_000],
        bytes_per_rule: 130,
        data: &["domains_tb0hdan.txt.xz"],
        minutes: 15,
    },
    run,
};

const ALGORITHMS: [Algorithm; 2] = [Algorithm::All, Algorithm::Largest];

/// The paper's change of the time.
fn paper(workload: TagKind, algorithm: Algorithm) -> &'static str {
    match (workload, algorithm) {
        (TagKind::Ccn, Algorithm::All) => "-4.1 %",
        (TagKind::Tagnet, Algorithm::Largest) => "-13.1 %",
        (_, Algorithm::All) => "more than -4.1 %",
        _ => "more than -10 %",
    }
}

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for descriptors in context.rules() {
        let mut table =
            Table::new(&["workload", "algorithm", "search", "SOL, us", "SROL, us", "change", "[TagNet]", "steps"]);
        let mut chart = Chart::bars("Layouts", ["SOL", "SROL"].map(str::to_owned).to_vec(), "us a packet");
        for workload in [TagKind::Tagnet, TagKind::Ccn] {
            for (papers_search, algorithms) in [(true, &ALGORITHMS[..]), (false, &ALGORITHMS[1..])] {
                let mut by_layout = Vec::new();
                for layout in [LayoutChoice::Sibling, LayoutChoice::Reverse] {
                    let mut options = context.tags(workload, descriptors);
                    (options.tuning.layout, options.tuning.chains) = (layout, ChainChoice::Removed);
                    options.tuning.papers_search = papers_search;
                    let of = |algorithm| Asking { algorithm, ..options.asking.clone() };
                    let askings: Vec<_> = algorithms.iter().copied().map(of).collect();
                    by_layout.push(context.measure_tags(&options, &["trie"], &askings)?);
                }
                for (at, algorithm) in algorithms.iter().copied().enumerate() {
                    let times: Vec<_> = by_layout.iter().map(|records| records[at].ns_per_packet / 1e3).collect();
                    table.row([
                        table::word(workload),
                        table::word(algorithm),
                        if papers_search { "the paper's" } else { "ours" }.to_owned(),
                        format!("{:.2}", times[0]),
                        format!("{:.2}", times[1]),
                        table::change(times[0], times[1]),
                        paper(workload, algorithm).to_owned(),
                        format!("{:.0}", by_layout[1][at].steps_per_packet),
                    ]);
                    let search = if papers_search { "" } else { ", ours" };
                    let label = format!("{}, {}{search}", table::word(workload), table::word(algorithm));
                    chart.bar(label, by_layout.iter().map(|records| Some(records[at].ns().times(1e-3))));
                }
            }
        }
        print!("{table}");
        println!("{TAGNET_SETS}");
        context.plot(&chart)?;
    }
    Ok(())
}

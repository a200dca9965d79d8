//! Lengths of labels.

use std::collections::HashSet;

use byname_lookup::locator::{Labelling, SpanningTree};

use super::graphs::FAMILIES;

/// [TagNet §3.3]: the maximum length of labels of the AS graph.
const PAPER_BITS: u32 = 46;
/// Its nodes.
const PAPER_NODES: usize = 42_113;

#[test]
fn port_lists_are_no_longer_than_the_logarithm_of_the_nodes() {
    let mut longest = 0;
    for family in FAMILIES {
        for nodes in [1, 2, 3, 10, 1000, 8191, PAPER_NODES] {
            let labelling = Labelling::new(SpanningTree::breadth_first(&family.graph(nodes, 1), 0));
            let on_tree = labelling.tree().nodes();
            let labels: HashSet<_> = on_tree.iter().filter_map(|&node| labelling.label(node as usize)).collect();
            assert_eq!(labels.len(), on_tree.len(), "each node has a label of its own");
            for label in labels {
                assert!(label.port_bits() <= on_tree.len().ilog2(), "{}, {nodes}: {label:?}", family.name);
                longest = longest.max(label.port_bits());
            }
        }
    }
    assert_eq!(longest, PAPER_NODES.ilog2(), "the bound is tight");
}

#[test]
fn labels_of_a_power_law_graph_fit_the_papers_46_bits() {
    let graph =
        FAMILIES.iter().find(|family| family.name == "preferential").expect("one of them").graph(PAPER_NODES, 1);
    for root in [0, 1, 40_000] {
        let labelling = Labelling::new(SpanningTree::breadth_first(&graph, root));
        for node in 0..graph.nodes() {
            let label = labelling.label(node).expect("the graph is in one part");
            assert!(label.bits() <= PAPER_BITS, "{} bits: {label:?}", label.bits());
        }
    }
}

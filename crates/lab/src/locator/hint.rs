//! A locator beside a forwarding hint with a router's name: both lead to the same router. What a packet carries for it, and
//! how long the ways are. A hint takes a shortest way. A locator takes the tree's, or that of the best of several trees.

use std::collections::VecDeque;

use byname_lookup::locator::Graph;
use byname_wire::tagnet::{Address, Endpoint, types as tagnet};
use byname_wire::tlv::{self, types};
use byname_wire::{Component, Locator, Name, TreeId};

use super::forest::Forest;
use crate::workload::Random;

/// Number of nodes at which ways begin, and of ways from each, at most.
const SOURCES: usize = 32;
const WAYS: usize = 512;

/// Means over ways between different nodes.
#[derive(Default)]
pub struct Beside {
    pub hint_hops_mean: f64,
    pub best_tree_hops_mean: f64,
    /// Mean of each way's length on the best tree over that of a shortest one.
    pub best_tree_stretch_mean: f64,
    pub hint_bytes_mean: f64,
    pub locator_bytes_mean: f64,
}

/// Compares ways from some nodes to some others.
pub fn compare(graph: &Graph, forest: &Forest, seed: u64) -> Beside {
    let mut random = Random::new(seed);
    let mut draw = |count: usize| -> Vec<u32> {
        let all = &forest.nodes;
        if all.len() <= count {
            return all.clone();
        }
        (0..count).map(|_| all[random.below(all.len() as u64) as usize]).collect()
    };
    let (mut sums, mut ways) = (Beside::default(), 0.0);
    for from in draw(SOURCES) {
        let hops = distances(graph, from as usize);
        for to in draw(WAYS).into_iter().filter(|to| *to != from) {
            let (from, to) = (from as usize, to as usize);
            let on_tree = forest.labellings.iter().filter_map(|labelling| labelling.tree().path(from, to));
            let (Some(shortest), Some(best)) = (hops[to], on_tree.map(|path| path.len() - 1).min()) else { continue };
            ways += 1.0;
            sums.hint_hops_mean += f64::from(shortest);
            sums.best_tree_hops_mean += best as f64;
            sums.best_tree_stretch_mean += best as f64 / f64::from(shortest);
            sums.hint_bytes_mean += hint_bytes(to) as f64;
            sums.locator_bytes_mean += locator_bytes(forest, to) as f64;
        }
    }
    let ways = f64::max(ways, 1.0);
    Beside {
        hint_hops_mean: sums.hint_hops_mean / ways,
        best_tree_hops_mean: sums.best_tree_hops_mean / ways,
        best_tree_stretch_mean: sums.best_tree_stretch_mean / ways,
        hint_bytes_mean: sums.hint_bytes_mean / ways,
        locator_bytes_mean: sums.locator_bytes_mean / ways,
    }
}

/// Hops of a shortest way to each node that can be reached.
fn distances(graph: &Graph, from: usize) -> Vec<Option<u32>> {
    let mut hops = vec![None; graph.nodes()];
    hops[from] = Some(0);
    let mut next = VecDeque::from([from]);
    while let Some(node) = next.pop_front() {
        let further = hops[node].map(|hops| hops + 1);
        for &neighbor in graph.neighbors(node) {
            if hops[neighbor as usize].is_none() {
                hops[neighbor as usize] = further;
                next.push_back(neighbor as usize);
            }
        }
    }
    hops
}

/// Bytes of a ForwardingHint with the name of a router, as `/example/r42112`.
fn hint_bytes(node: usize) -> usize {
    let name =
        Name::from_components([Component::generic(b"example"), Component::generic(format!("r{node}").as_bytes())]);
    let mut out = Vec::new();
    tlv::push_nested(&mut out, types::FORWARDING_HINT, |out| tlv::push_tlv(out, types::NAME, name.value()));
    out.len()
}

/// Bytes of a Destination with a router's label on the first tree, and the number of an application.
fn locator_bytes(forest: &Forest, node: usize) -> usize {
    let locator = Locator { tree: TreeId(1), label: forest.label(0, node) };
    let mut out = Vec::new();
    Address { locator, endpoint: Endpoint(300) }.push(&mut out, tagnet::DESTINATION);
    out.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_has_shorter_ways_than_its_tree() {
        let edges: Vec<(u32, u32)> = (0..6).map(|node| (node, (node + 1) % 6)).collect();
        let graph = Graph::new(6, &edges).expect("a ring");
        let forest = Forest::grow(&graph, 1).expect("a tree");
        let beside = compare(&graph, &forest, 1);
        // 1 + 1 + 2 + 2 + 3 to the five others. The tree lacks one edge: a line of six nodes.
        assert!((beside.hint_hops_mean - 9.0 / 5.0).abs() < 1e-9);
        assert!((beside.best_tree_hops_mean - 70.0 / 30.0).abs() < 1e-9);
        assert!(beside.best_tree_stretch_mean > 1.0);
        let more = compare(&graph, &Forest::grow(&graph, 6).expect("trees"), 1);
        assert!((more.best_tree_stretch_mean - 1.0).abs() < 1e-9, "one of all trees has a shortest way");
        // 1e 0f, 07 0d, 08 07 example, 08 02 r3.
        assert!((beside.hint_bytes_mean - 17.0).abs() < 1e-9, "{}", beside.hint_bytes_mean);
        assert!(beside.locator_bytes_mean > 10.0);
    }
}

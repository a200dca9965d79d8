//! Follows paths hop by hop through each node's own table, and compares them with the trees' paths.

use byname_lookup::locator::{Labelling, Port};

use super::forest::Forest;
use crate::timing::Checked;
use crate::workload::Random;

/// Maximum number of paths to check.
const SAMPLE: usize = 1 << 16;

/// Result of following paths.
pub struct Ways {
    pub checked: Checked,
    pub hops: u64,
}

/// Follows the paths between all pairs of nodes on every tree, or a sample if there are too many.
pub fn check(forest: &Forest, seed: u64) -> Ways {
    let mut ways = Ways { checked: Checked::default(), hops: 0 };
    let nodes = &forest.nodes;
    for labelling in &forest.labellings {
        if nodes.len() * nodes.len() <= SAMPLE {
            nodes.iter().for_each(|&from| nodes.iter().for_each(|&to| ways.follow(labelling, from, to)));
            continue;
        }
        let mut random = Random::new(seed);
        let mut node = || nodes[random.below(nodes.len() as u64) as usize];
        for _ in 0..SAMPLE / forest.labellings.len() {
            ways.follow(labelling, node(), node());
        }
    }
    ways
}

impl Ways {
    fn follow(&mut self, labelling: &Labelling, from: u32, to: u32) {
        let (from, to) = (from as usize, to as usize);
        let expected = labelling.tree().path(from, to);
        self.checked.checked += 1;
        self.checked.wrong += u64::from(way(labelling, from, to) != expected);
        self.hops += expected.map_or(0, |path| path.len() as u64 - 1);
    }
}

/// The nodes that a packet visits; `None` if it is dropped or visits more nodes than there are.
fn way(labelling: &Labelling, from: usize, to: usize) -> Option<Vec<usize>> {
    let label = labelling.label(to)?;
    let mut way = vec![from];
    while way.len() <= labelling.tree().nodes().len() {
        let here = way[way.len() - 1];
        match labelling.table(here)?.forward(label) {
            Port::HERE => return Some(way),
            port => way.push(labelling.neighbor(here, port)?),
        }
    }
    None
}

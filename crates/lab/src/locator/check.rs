//! Ways followed hop by hop, by each node's own table, and compared with the trees'.

use byname_lookup::locator::{Labelling, Port};

use super::forest::Forest;
use crate::timing::Checked;
use crate::workload::Random;

/// Ways to check; all, if there are fewer.
const SAMPLE: usize = 1 << 16;

/// What following ways found out.
pub struct Ways {
    pub checked: Checked,
    pub hops: u64,
}

/// Follows the ways between all nodes, or of a sample where those are too many, on every tree.
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

/// The nodes that a packet sees; `None` if it is dropped, or comes through more than there are.
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

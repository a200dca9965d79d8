//! Seeded graphs to label, in families that each stress another part.

use byname_lookup::locator::Graph;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// A family: makes the graph of a number of nodes and a seed.
pub struct Family {
    pub name: &'static str,
    pub draw: fn(usize, &mut StdRng) -> Vec<(u32, u32)>,
}

pub const FAMILIES: &[Family] = &[
    // One heavy path without light ports.
    Family { name: "path", draw: |nodes, _| tree(nodes, |node| node - 1) },
    // All children of one node are alike: ports up to the number of nodes.
    Family { name: "star", draw: |nodes, _| tree(nodes, |_| 0) },
    // The maximum number of light edges on a path.
    Family { name: "binary", draw: |nodes, _| tree(nodes, |node| (node - 1) / 2) },
    Family { name: "ternary", draw: |nodes, _| tree(nodes, |node| (node - 1) / 3) },
    // A light leaf at each node of a long path.
    Family {
        name: "caterpillar",
        draw: |nodes, _| tree(nodes, |node| if node % 2 == 0 { node - 2 } else { node - 1 }),
    },
    Family { name: "recursive", draw: |nodes, random| tree(nodes, |node| random.random_range(0..node)) },
    Family {
        name: "deep",
        draw: |nodes, random| tree(nodes, |node| random.random_range(node.saturating_sub(4)..node)),
    },
    Family { name: "preferential", draw: |nodes, random| preferential(nodes, 3, random) },
    // Mostly several components.
    Family {
        name: "random",
        draw: |nodes, random| {
            let mut node = || random.random_range(0..nodes as u32);
            (0..nodes).map(|_| (node(), node())).collect()
        },
    },
];

impl Family {
    pub fn graph(&self, nodes: usize, seed: u64) -> Graph {
        let edges = (self.draw)(nodes, &mut StdRng::seed_from_u64(seed));
        Graph::new(nodes, &edges).expect("edges of these nodes")
    }
}

fn tree(nodes: usize, mut parent: impl FnMut(u32) -> u32) -> Vec<(u32, u32)> {
    (1..nodes as u32).map(|node| (node, parent(node))).collect()
}

/// Each node links to up to `links` others, drawn in proportion to their number of edges.
fn preferential(nodes: usize, links: usize, random: &mut StdRng) -> Vec<(u32, u32)> {
    let mut edges: Vec<(u32, u32)> = vec![];
    for node in 1..nodes as u32 {
        for _ in 0..links.min(node as usize) {
            // Each node is the end of an edge as often as it has edges.
            let other = match random.random_range(0..=2 * edges.len()) {
                0 => 0,
                end => [edges[(end - 1) / 2].0, edges[(end - 1) / 2].1][end % 2],
            };
            edges.push((node, other));
        }
    }
    edges
}

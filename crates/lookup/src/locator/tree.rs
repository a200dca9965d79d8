//! Spanning trees.

use super::graph::Graph;

/// No node.
const NONE: u32 = u32::MAX;

/// A tree of shortest paths, in hops, from a root to every node that it can reach.
#[derive(Debug, Clone)]
pub struct SpanningTree {
    /// From the root outwards. A node's children are consecutive, in the order of their parents.
    order: Vec<u32>,
    /// Indexed by node. `NONE` for the root, and for nodes that are not on the tree.
    parents: Vec<u32>,
}

impl SpanningTree {
    /// Searches breadth first from `root`. If there are several shortest paths, it takes the one through the node that
    /// was reached first.
    ///
    /// # Panics
    /// If the graph has no such node.
    pub fn breadth_first(graph: &Graph, root: usize) -> Self {
        assert!(root < graph.nodes());
        let mut parents = vec![NONE; graph.nodes()];
        let mut order = vec![root as u32];
        let mut next = 0;
        while let Some(&node) = order.get(next) {
            for &neighbor in graph.neighbors(node as usize) {
                if parents[neighbor as usize] == NONE && neighbor as usize != root {
                    parents[neighbor as usize] = node;
                    order.push(neighbor);
                }
            }
            next += 1;
        }
        SpanningTree { order, parents }
    }

    /// The root.
    pub fn root(&self) -> usize {
        self.order[0] as usize
    }

    /// Number of nodes of the graph, on the tree or not.
    pub fn graph_nodes(&self) -> usize {
        self.parents.len()
    }

    /// The nodes on the tree from the root outwards. Siblings are consecutive, in the order of
    /// their parents.
    pub fn nodes(&self) -> &[u32] {
        &self.order
    }

    /// The parent of a node. `None` for the root, and for nodes that are not on the tree.
    pub fn parent(&self, node: usize) -> Option<usize> {
        self.parents.get(node).filter(|&&parent| parent != NONE).map(|&parent| parent as usize)
    }

    /// The nodes on the path from one node to another, including both, found by climbing from both.
    /// Tests compare forwarding with it. `None` if one of them is not on the tree.
    pub fn path(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let climb = |node: usize| {
            let mut way: Vec<_> = std::iter::successors(Some(node), |&node| self.parent(node)).collect();
            way.reverse();
            (way[0] == self.root()).then_some(way)
        };
        let (from, to) = (climb(from)?, climb(to)?);
        let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
        let mut path: Vec<_> = from[common..].iter().rev().copied().collect();
        path.extend_from_slice(&to[common - 1..]);
        Some(path)
    }
}

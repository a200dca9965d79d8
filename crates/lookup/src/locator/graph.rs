//! Graphs of routers and links.

use thiserror::Error;

/// An undirected graph whose links all have the same weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// Index of each node's first neighbour in `neighbors`; the last element is the end.
    first: Vec<usize>,
    neighbors: Vec<u32>,
}

/// Edges that do not form a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum GraphError {
    /// An edge names a node that does not exist.
    #[error("an edge ends at node {node}, of {nodes}")]
    NoSuchNode {
        /// The node.
        node: u32,
        /// Number of nodes.
        nodes: usize,
    },
    /// Labels number nodes in 32 bits, so there may be fewer than 2^32.
    #[error("{nodes} nodes are more than labels can number")]
    TooManyNodes {
        /// Number of nodes.
        nodes: usize,
    },
}

impl Graph {
    /// A graph of `nodes` nodes, numbered from 0. Edges from a node to itself are left out. Several
    /// edges between two nodes count as one.
    ///
    /// # Errors
    /// If an edge ends at a node that does not exist, or if there are 2^32 nodes or more.
    pub fn new(nodes: usize, edges: &[(u32, u32)]) -> Result<Self, GraphError> {
        if u32::try_from(nodes).is_err() {
            return Err(GraphError::TooManyNodes { nodes });
        }
        let mut directed = Vec::with_capacity(2 * edges.len());
        for &(a, b) in edges {
            let node = a.max(b);
            if node as usize >= nodes {
                return Err(GraphError::NoSuchNode { node, nodes });
            }
            if a != b {
                directed.extend([(a, b), (b, a)]);
            }
        }
        directed.sort_unstable();
        directed.dedup();
        let mut first = vec![0; nodes + 1];
        for &(a, _) in &directed {
            first[a as usize + 1] += 1;
        }
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        Ok(Graph { first, neighbors: directed.into_iter().map(|(_, b)| b).collect() })
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.first.len() - 1
    }

    /// Number of edges.
    pub fn edges(&self) -> usize {
        self.neighbors.len() / 2
    }

    /// The neighbours of a node, in order.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn neighbors(&self, node: usize) -> &[u32] {
        &self.neighbors[self.first[node]..self.first[node + 1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_count_once_in_either_direction_and_loops_not_at_all() {
        let graph = Graph::new(4, &[(2, 0), (0, 2), (0, 1), (2, 0), (1, 1)]).expect("edges of four nodes");
        assert_eq!((graph.nodes(), graph.edges()), (4, 2));
        let neighbors: Vec<_> = (0..4).map(|node| graph.neighbors(node)).collect();
        assert_eq!(neighbors, [&[1, 2][..], &[0], &[0], &[]]);
    }

    #[test]
    fn edges_to_nowhere_are_refused() {
        assert_eq!(Graph::new(2, &[(0, 1), (2, 0)]), Err(GraphError::NoSuchNode { node: 2, nodes: 2 }));
        let nodes = 1 << 32;
        assert_eq!(Graph::new(nodes, &[]), Err(GraphError::TooManyNodes { nodes }));
        assert_eq!(Graph::new(0, &[]).map(|graph| graph.nodes()), Ok(0));
    }
}

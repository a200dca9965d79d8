//! Routes through a network of switches: shortest paths, and a tree for flooding.

use std::collections::HashMap;

use crate::switch::NO_PORT;
use byname_lookup::locator::{Graph, SpanningTree};

/// Number of a switch and number of its port.
pub(super) type PortAt = (usize, u8);

/// Routes over the links that are up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Routes {
    /// `next[s][d]`: the port on which switch `s` reaches switch `d`, or [`NO_PORT`].
    next: Vec<Vec<u8>>,
    /// Ports that belong to a flooding tree.
    floods: Vec<PortAt>,
}

impl Routes {
    /// Routes between `switches` switches over these links.
    pub(super) fn new(switches: usize, links: &[[PortAt; 2]]) -> Self {
        let edges: Vec<_> = links.iter().map(|[(a, _), (b, _)]| (*a as u32, *b as u32)).collect();
        let graph = Graph::new(switches, &edges).expect("links are between switches, of which there are few");
        // Among parallel links between two switches, only the first is used, in both directions.
        let mut between = HashMap::new();
        for &[(a, port_a), (b, port_b)] in links {
            between.entry((a.min(b), a.max(b))).or_insert(HashMap::from([(a, port_a), (b, port_b)]));
        }
        let port_towards = |from: usize, to: usize| between[&(from.min(to), from.max(to))][&from];
        let mut next = vec![vec![NO_PORT; switches]; switches];
        let mut floods = Vec::new();
        let mut reached = vec![false; switches];
        for root in 0..switches {
            let tree = SpanningTree::breadth_first(&graph, root);
            // The tree of the first switch in a connected component is the component's flooding tree.
            let is_flooded = !reached[root];
            for node in tree.nodes().iter().map(|&node| node as usize) {
                let Some(parent) = tree.parent(node) else { continue };
                next[node][root] = port_towards(node, parent);
                if is_flooded {
                    reached[node] = true;
                    floods.extend([(node, port_towards(node, parent)), (parent, port_towards(parent, node))]);
                }
            }
        }
        Routes { next, floods }
    }

    /// The port on which a switch reaches another, or [`NO_PORT`].
    pub(super) fn next(&self, from: usize, to: usize) -> u8 {
        self.next[from][to]
    }

    /// Whether frames to group addresses are flooded on this port.
    pub(super) fn floods(&self, port: PortAt) -> bool {
        self.floods.contains(&port)
    }

    /// Whether both use the same flooding tree.
    pub(super) fn has_tree_of(&self, other: &Routes) -> bool {
        self.floods == other.floods
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_one_way() {
        let routes = Routes::new(3, &[[(0, 5), (1, 6)], [(1, 7), (2, 8)]]);
        assert_eq!(
            [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)].map(|(a, b)| routes.next(a, b)),
            [5, 5, 6, 7, 8, 8]
        );
        assert!([(0, 5), (1, 6), (1, 7), (2, 8)].into_iter().all(|port| routes.floods(port)));
    }

    #[test]
    fn a_ring_is_cut_once_for_groups_and_nowhere_for_others() {
        // Port 0 leads to the next switch, port 1 to the previous one.
        for switches in 3..8 {
            let links: Vec<_> = (0..switches).map(|n| [(n, 0), ((n + 1) % switches, 1)]).collect();
            let routes = Routes::new(switches, &links);
            let flooded = links.iter().filter(|[a, b]| {
                assert_eq!(routes.floods(*a), routes.floods(*b), "both ends or none");
                routes.floods(*a)
            });
            assert_eq!(flooded.count(), switches - 1);
            for n in 0..switches {
                assert_eq!(routes.next(n, (n + 1) % switches), 0);
                assert_eq!(routes.next((n + 1) % switches, n), 1);
            }
        }
    }

    #[test]
    fn parts_have_trees_of_their_own_and_no_way_between() {
        let routes = Routes::new(5, &[[(0, 1), (3, 1)], [(2, 1), (4, 1)]]);
        assert_eq!([(0, 3), (2, 4), (0, 2), (1, 0)].map(|(a, b)| routes.next(a, b)), [1, 1, NO_PORT, NO_PORT]);
        assert!([0, 3, 2, 4].into_iter().all(|switch| routes.floods((switch, 1))));
    }

    #[test]
    fn of_parallel_links_one_is_used() {
        let routes = Routes::new(2, &[[(1, 4), (0, 3)], [(0, 5), (1, 6)]]);
        assert_eq!((routes.next(0, 1), routes.next(1, 0)), (3, 4));
        assert_eq!([(0, 3), (1, 4), (0, 5), (1, 6)].map(|port| routes.floods(port)), [true, true, false, false]);
    }
}

//! Trees that routers make: over links that the protocol watches, by packets that the network loses.

use std::collections::BTreeSet;

use byname_routing::Config;
use byname_wire::{Name, TreeId};

use crate::net::{Net, SECOND, router_name};

const TREE: TreeId = TreeId(1);

fn with_trees(config: &mut Config) {
    config.trees.count = 2;
}

/// A ring of routers with a chord.
fn ring(nodes: usize, seed: u64) -> Net {
    let mut net = Net::new(nodes, seed, with_trees);
    for node in 0..nodes {
        net.connect(node, (node + 1) % nodes, true);
    }
    net.connect(0, nodes / 2, true);
    net
}

/// All these routers are on one tree, whose edges both ends know by the same secret.
fn check(net: &Net, nodes: &[usize]) {
    let place = |node: usize| &net.nodes[node].places[&TREE];
    let roots: BTreeSet<&Name> = nodes.iter().map(|node| &place(*node).root).collect();
    assert_eq!(roots.len(), 1, "{roots:?}");
    let labels: BTreeSet<u32> = nodes.iter().map(|node| place(*node).label.expect("a label").node()).collect();
    assert_eq!(labels.len(), nodes.len());
    let mut edges = 0;
    for node in nodes {
        for neighbour in &place(*node).neighbours {
            edges += 1;
            let other = nodes.iter().find(|other| router_name(**other) == neighbour.router).expect("it is reachable");
            let back = place(*other).neighbours.iter().find(|back| back.router == router_name(*node));
            let back = back.expect("both ends know the edge");
            assert!(back.secret.is_some() && back.secret == neighbour.secret);
            assert_ne!(back.is_parent, neighbour.is_parent);
        }
    }
    assert_eq!(edges, 2 * (nodes.len() - 1));
    let most = nodes.iter().map(|node| place(*node).nodes).max();
    assert_eq!(most, Some(nodes.len() as u32));
}

#[test]
fn routers_make_trees_and_repair_them() {
    for seed in 0..2 {
        let mut net = ring(8, seed);
        net.links.iter_mut().for_each(|link| link.loss = 0.1 * seed as f64);
        net.run(30 * SECOND);
        check(&net, &[0, 1, 2, 3, 4, 5, 6, 7]);
        net.set_up(2, false);
        net.run(30 * SECOND);
        check(&net, &[0, 1, 2, 3, 4, 5, 6, 7]);
        // Routers 3 and 4 lose the others, and find them again.
        net.set_up(4, false);
        net.set_up(8, false);
        net.run(60 * SECOND);
        check(&net, &[3, 4]);
        check(&net, &[0, 1, 2, 5, 6, 7]);
        for link in [2, 4, 8] {
            net.set_up(link, true);
        }
        net.run(60 * SECOND);
        check(&net, &[0, 1, 2, 3, 4, 5, 6, 7]);
        net.kill(6);
        net.run(60 * SECOND);
        check(&net, &[0, 1, 2, 3, 4, 5, 7]);
        net.start(6);
        net.run(60 * SECOND);
        check(&net, &[0, 1, 2, 3, 4, 5, 6, 7]);
    }
}

#[test]
fn without_trees_nothing_is_said_of_them() {
    let mut net = Net::new(2, 1, |_| {});
    net.connect(0, 1, true);
    net.run(20 * SECOND);
    for node in &net.nodes {
        assert!(node.places.is_empty() && node.router.places().is_empty());
        assert_eq!(node.router.status().counters.trees_out, 0);
    }
}

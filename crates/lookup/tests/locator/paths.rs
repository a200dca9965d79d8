//! Labels from a labelling.

use byname_lookup::locator::{Graph, Labelling, Next, Port, SpanningTree, Trees};
use byname_wire::{FaceId, Label, Locator, TreeId};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::graphs::FAMILIES;
use super::network::{Journey, Network, TREE};

fn check(network: &Network, from: usize, to: usize) {
    let nodes = network.labelling.tree().path(from, to).expect("both are on the tree");
    let label = network.labelling.label(to).expect("every node on the tree has a label");
    assert_eq!(network.walk(from, label), Journey { nodes, delivered: true }, "from {from} to {to}");
}

#[test]
fn every_node_is_reached_from_every_node_by_the_trees_path() {
    let mut pairs = 0;
    for family in FAMILIES {
        for seed in 0..60 {
            let mut random = StdRng::seed_from_u64(seed);
            let nodes = random.random_range(1..=70);
            let graph = family.graph(nodes, seed);
            let network = Network::new(&graph, random.random_range(0..nodes));
            for from in network.nodes() {
                for to in network.nodes() {
                    check(&network, from, to);
                    pairs += 1;
                }
            }
        }
    }
    assert!(pairs > 500_000, "{pairs}");
}

#[test]
fn large_graphs_are_crossed_by_the_trees_path() {
    for family in FAMILIES {
        let graph = family.graph(42_113, 1);
        let mut random = StdRng::seed_from_u64(2);
        let network = Network::new(&graph, random.random_range(0..graph.nodes()));
        let nodes: Vec<_> = network.nodes().collect();
        // The paths of some families have tens of thousands of nodes.
        let mut hops = 500_000;
        for _ in 0..20_000 {
            let mut node = || nodes[random.random_range(0..nodes.len())];
            let (from, to) = (node(), node());
            check(&network, from, to);
            hops -= network.labelling.tree().path(from, to).map_or(0, |path| path.len() as i64);
            if hops < 0 {
                break;
            }
        }
    }
}

/// Node 0 with children 1, 2, 3 and 4; node 2 with 5 and 6; node 6 with 7.
fn example() -> Graph {
    Graph::new(8, &[(0, 1), (0, 2), (0, 3), (0, 4), (2, 5), (2, 6), (6, 7)]).expect("edges of eight nodes")
}

#[test]
fn a_worked_example() {
    let labelling = Labelling::new(SpanningTree::breadth_first(&example(), 0));
    let light = |label: Label, node, port| label.light_child(node, port).expect("short lists");
    let root = Label::new(0);
    // Numbers go depth first, through light children by falling subtrees, here alike, and then
    // through the heavy one.
    for (node, label) in [
        (0, root),
        (1, light(root, 1, 1)),
        (3, light(root, 2, 2)),
        (4, light(root, 3, 3)),
        (2, root.heavy_child(4)),
        (5, light(root.heavy_child(4), 5, 1)),
        (6, root.heavy_child(6)),
        (7, root.heavy_child(7)),
    ] {
        assert_eq!(labelling.label(node), Some(label), "node {node}");
    }
    assert_eq!(labelling.neighbors(0).map(|(_, node)| node).collect::<Vec<_>>(), [2, 1, 3, 4]);
    let ports: Vec<_> = labelling.neighbors(6).collect();
    assert_eq!(ports, [(Port::PARENT, 2), (Port::HEAVY, 7)]);
    let at = |node, to| labelling.table(node).expect("on the tree").forward(labelling.label(to).expect("on the tree"));
    assert_eq!(at(7, 5), Port::PARENT);
    assert_eq!(at(0, 5), Port::HEAVY);
    assert_eq!(at(5, 5), Port::HERE);
    let third = at(0, 4);
    assert_eq!((third.index(), labelling.neighbor(0, third)), (5, Some(4)));
    assert_eq!([Port::HERE, Port::PARENT, Port::NOWHERE].map(|port| labelling.neighbor(0, port)), [None; 3]);
}

#[test]
fn nodes_that_the_root_does_not_reach_have_no_labels() {
    let graph = Graph::new(4, &[(0, 1), (2, 3)]).expect("edges of four nodes");
    let labelling = Labelling::new(SpanningTree::breadth_first(&graph, 2));
    for node in [0, 1, 9] {
        assert_eq!((labelling.label(node), labelling.table(node)), (None, None));
        assert_eq!(labelling.neighbors(node).count(), 0);
        assert_eq!(labelling.tree().path(2, node), None);
    }
    assert_eq!(labelling.tree().path(3, 2), Some(vec![3, 2]));
}

#[test]
fn trees_are_told_by_their_ids() {
    let graph = example();
    let network = |root| Labelling::new(SpanningTree::breadth_first(&graph, root));
    let (first, second) = (network(0), network(7));
    let face = |neighbor| FaceId(FaceId::FIRST.0 + neighbor as u64);
    let mut trees = Trees::new();
    for (id, labelling) in [(TREE, &first), (TreeId(3), &second)] {
        let faces = labelling.neighbors(2).map(|(port, neighbor)| (port, face(neighbor)));
        trees.set(id, labelling.table(2).expect("on the tree"), faces);
    }
    let to = |tree, labelling: &Labelling, node| Locator { tree, label: labelling.label(node).expect("on the tree") };
    assert_eq!(trees.forward(&to(TREE, &first, 7), FaceId::NONE), Next::Forward(face(6)));
    assert_eq!(trees.forward(&to(TreeId(3), &second, 7), face(0)), Next::Forward(face(6)));
    assert_eq!(trees.forward(&to(TreeId(3), &second, 5), face(6)), Next::Forward(face(5)));
    assert_eq!(trees.forward(&to(TreeId(4), &first, 7), FaceId::NONE), Next::Drop);
    // The link to node 6 is lost.
    let rest = first.neighbors(2).filter(|&(_, neighbor)| neighbor != 6).map(|(port, node)| (port, face(node)));
    trees.set(TREE, first.table(2).expect("on the tree"), rest);
    assert_eq!(trees.forward(&to(TREE, &first, 7), FaceId::NONE), Next::Drop);
    assert_eq!(trees.forward(&to(TREE, &first, 5), FaceId::NONE), Next::Forward(face(5)));
    trees.remove(TREE);
    assert_eq!(trees.forward(&to(TREE, &first, 5), FaceId::NONE), Next::Drop);
    assert_eq!(trees.forward(&to(TreeId(3), &second, 2), FaceId::NONE), Next::Deliver);
}

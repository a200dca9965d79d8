//! Labels that strangers invented.

use byname_lookup::locator::Port;
use byname_wire::Label;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::graphs::FAMILIES;
use super::network::Network;

/// Follows a packet with an arbitrary label, and checks what the module's documentation promises.
/// Returns whether the packet was delivered.
fn check(network: &Network, from: usize, label: Label) -> bool {
    let tree = network.labelling.tree();
    let walk = network.walk(from, label);
    let what = || format!("{label:?} from {from}: {walk:?}");
    let mut seen = walk.nodes.clone();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), walk.nodes.len(), "twice at one node: {}", what());
    assert!(walk.nodes.windows(2).all(|hop| tree.path(hop[0], hop[1]).is_some_and(|path| path.len() == 2)));
    for &node in &walk.nodes {
        let port = network.labelling.table(node).expect("on the tree").forward(label);
        let exists = matches!(port, Port::HERE | Port::NOWHERE) || network.labelling.neighbor(node, port).is_some();
        assert!(exists, "no {port:?} at {node}: {}", what());
    }
    let of_number = |&node: &usize| network.labelling.label(node).is_some_and(|own| own.node() == label.node());
    match network.nodes().find(of_number) {
        Some(to) => {
            let path = tree.path(from, to).expect("both are on the tree");
            let on_path = walk.nodes.iter().zip(&path).take_while(|(a, b)| a == b).count();
            assert!(walk.nodes.len() - on_path <= 1, "astray: {}", what());
            assert_eq!(walk.delivered, walk.nodes == path, "{}", what());
        }
        None => {
            let up = tree.path(from, tree.root()).expect("on the tree");
            assert_eq!((&walk.nodes, walk.delivered), (&up, false), "no such node: {}", what());
        }
    }
    walk.delivered
}

#[test]
fn no_label_of_up_to_two_bytes_leads_astray_on_small_trees() {
    let labels: Vec<_> = (0..1u32 << 16)
        .filter_map(|number| Label::decode(0, &number.to_be_bytes()[2..]).ok())
        .chain((0..=255).filter_map(|byte| Label::decode(0, &[byte]).ok()))
        .collect();
    assert!(labels.len() > 14_000, "{}", labels.len());
    let mut delivered = 0;
    for family in FAMILIES {
        for nodes in [1, 2, 5, 9] {
            let network = Network::new(&family.graph(nodes, 3), 0);
            for &label in &labels {
                delivered += usize::from(check(&network, 0, label));
                delivered += usize::from(check(&network, network.nodes().last().expect("the root"), label));
            }
        }
    }
    assert!(delivered > 1000, "{delivered}");
}

#[test]
fn labels_pieced_together_are_dropped_on_the_way_or_lead_where_they_say() {
    let (mut delivered, mut dropped) = (0, 0);
    for family in FAMILIES {
        for seed in 0..20 {
            let mut random = StdRng::seed_from_u64(seed);
            let graph = family.graph(random.random_range(1..=400), seed);
            let network = Network::new(&graph, random.random_range(0..graph.nodes()));
            let nodes: Vec<_> = network.nodes().collect();
            for _ in 0..500 {
                let from = nodes[random.random_range(0..nodes.len())];
                match check(&network, from, forge(&network, &nodes, &mut random)) {
                    true => delivered += 1,
                    false => dropped += 1,
                }
            }
        }
    }
    assert!(delivered > 10_000 && dropped > 10_000, "{delivered} delivered, {dropped} dropped");
}

/// The number of one node with the ports of another, more ports than exist, or random bytes.
fn forge(network: &Network, nodes: &[usize], random: &mut StdRng) -> Label {
    let mut honest = || {
        let node = nodes[random.random_range(0..nodes.len())];
        network.labelling.label(node).expect("on the tree")
    };
    let (one, other) = (honest(), honest());
    match random.random_range(0..5) {
        0 => one.heavy_child(other.node()),
        1 => one.light_child(other.node(), random.random_range(1..=9)).unwrap_or(one),
        2 => one.light_child(one.node(), 1 << random.random_range(0..31)).unwrap_or(other),
        3 => Label::new(random.random()),
        _ => {
            let bytes: [u8; 13] = random.random();
            Label::decode(0, &bytes[..random.random_range(1..=13)]).unwrap_or(other)
        }
    }
}

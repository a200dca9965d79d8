//! Networks of trees in virtual time, with delays, loss, cuts, partitions, restarts and forged messages. In the end, all
//! routers of each part of the network are on one tree, and each label leads to its router from everywhere.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use byname_lookup::locator::{Next, Numbering, Port, Table, Trees as Forwarding};
use byname_wire::{Component, Locator};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const START_MS: u64 = 1_000_000;
const TREES: usize = 2;
/// After so long, generations that have been replaced are forgotten, and the last word of it has got through.
const QUIET_MS: u64 = 240_000;

fn router_name(node: usize) -> Name {
    "/net".parse::<Name>().unwrap().join(Component::generic(format!("r{node}").as_bytes()))
}

#[derive(Debug, Clone)]
struct Link {
    ends: [usize; 2],
    cost: u64,
    delay_ms: u64,
    is_up: bool,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Arrive {
        to: usize,
        link: usize,
        wire: Vec<u8>,
    },
    /// A node notices that a link is up or down.
    Notice {
        node: usize,
        link: usize,
        is_up: bool,
    },
}

struct Net {
    nodes: Vec<Trees>,
    boots: Vec<u64>,
    links: Vec<Link>,
    now_ms: u64,
    loss: f64,
    queue: BinaryHeap<Reverse<(u64, u64, What)>>,
    count: u64,
    messages: u64,
    recorded: Vec<(usize, usize, Vec<u8>)>,
    random: StdRng,
}

fn settings() -> Settings {
    Settings { count: TREES, ..Settings::default() }
}

fn face(link: usize) -> FaceId {
    FaceId(1000 + link as u64)
}

impl Net {
    fn new(nodes: usize, seed: u64) -> Self {
        Net {
            nodes: (0..nodes).map(|node| Trees::new(settings(), &router_name(node), 7, START_MS)).collect(),
            boots: vec![7; nodes],
            links: Vec::new(),
            now_ms: START_MS,
            loss: 0.0,
            queue: BinaryHeap::new(),
            count: 0,
            messages: 0,
            recorded: Vec::new(),
            random: StdRng::seed_from_u64(seed),
        }
    }

    /// A connected network with some more links.
    fn random(nodes: usize, more: usize, seed: u64) -> Self {
        let mut net = Net::new(nodes, seed);
        for node in 1..nodes {
            let other = net.random.random_range(0..node);
            net.link(node, other);
        }
        for _ in 0..more {
            let (a, b) = (net.random.random_range(0..nodes), net.random.random_range(0..nodes));
            if a != b && !net.links.iter().any(|link| link.ends == [a, b] || link.ends == [b, a]) {
                net.link(a, b);
            }
        }
        net
    }

    fn link(&mut self, a: usize, b: usize) {
        let (cost, delay_ms) = (self.random.random_range(1..4), self.random.random_range(1..20));
        self.links.push(Link { ends: [a, b], cost, delay_ms, is_up: false });
        self.set_link(self.links.len() - 1, true);
    }

    fn set_link(&mut self, link: usize, is_up: bool) {
        self.links[link].is_up = is_up;
        for node in self.links[link].ends {
            let after = self.random.random_range(1..200);
            self.push(after, What::Notice { node, link, is_up });
        }
    }

    fn restart(&mut self, node: usize) {
        self.boots[node] += 1;
        self.nodes[node] = Trees::new(settings(), &router_name(node), self.boots[node], self.now_ms);
        for link in self.links_of(node) {
            for end in self.links[link].ends {
                self.push(1, What::Notice { node: end, link, is_up: false });
                let after = self.random.random_range(10..300);
                self.push(after, What::Notice { node: end, link, is_up: true });
            }
        }
    }

    fn links_of(&self, node: usize) -> Vec<usize> {
        (0..self.links.len()).filter(|link| self.links[*link].is_up && self.links[*link].ends.contains(&node)).collect()
    }

    fn push(&mut self, after_ms: u64, what: What) {
        self.count += 1;
        self.queue.push(Reverse((self.now_ms + after_ms, self.count, what)));
    }

    fn other(&self, link: usize, node: usize) -> usize {
        let [a, b] = self.links[link].ends;
        if a == node { b } else { a }
    }

    /// Goes to the next time at which something happens. Returns false if nothing does before `until_ms`.
    fn step(&mut self, until_ms: u64) -> bool {
        let due = self.nodes.iter().filter_map(Trees::due_ms).min();
        let arrival = self.queue.peek().map(|Reverse((at, ..))| *at);
        let Some(next) = due.into_iter().chain(arrival).min().filter(|next| *next <= until_ms) else {
            self.now_ms = until_ms;
            return false;
        };
        self.now_ms = self.now_ms.max(next);
        while self.queue.peek().is_some_and(|Reverse((at, ..))| *at <= self.now_ms) {
            let Some(Reverse((_, _, what))) = self.queue.pop() else { break };
            self.happen(what);
        }
        for node in 0..self.nodes.len() {
            for (face, message) in self.nodes[node].poll(self.now_ms) {
                self.send(node, face, &message);
            }
        }
        true
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Notice { node, link, is_up } => {
                // A link that has changed meanwhile is noticed later.
                if self.links[link].is_up == is_up || !is_up {
                    let (other, cost) = (router_name(self.other(link, node)), self.links[link].cost);
                    let now_ms = self.now_ms;
                    self.nodes[node].set_link(other.as_ref(), is_up.then_some((face(link), cost)), now_ms);
                    if !is_up && self.links[link].is_up {
                        // It is up again already, and hellos will tell.
                        self.push(300, What::Notice { node, link, is_up: true });
                    }
                }
            }
            What::Arrive { to, link, wire } => {
                let from = router_name(self.other(link, to));
                let message = Message::decode(&wire).unwrap();
                if self.nodes[to].has_link(from.as_ref(), face(link)) {
                    let now_ms = self.now_ms;
                    self.nodes[to].receive(from.as_ref(), message, now_ms);
                }
            }
        }
    }

    fn send(&mut self, node: usize, face: FaceId, message: &Message) {
        self.messages += 1;
        let link = (face.0 - 1000) as usize;
        let wire = message.encode();
        assert!(wire.len() < 8000);
        let to = self.other(link, node);
        if self.random.random_range(0..20) == 0 {
            self.recorded.push((to, link, wire.clone()));
        }
        if self.links[link].is_up && !self.random.random_bool(self.loss) {
            // Messages overtake each other.
            let delay_ms = self.links[link].delay_ms + self.random.random_range(0..10);
            self.push(delay_ms, What::Arrive { to, link, wire });
        }
    }

    fn run(&mut self, for_ms: u64) {
        let until_ms = self.now_ms + for_ms;
        let steps = (0..100_000).take_while(|_| self.step(until_ms)).count();
        assert!(
            steps < 100_000,
            "nobody comes to rest at {}: {:?}",
            self.now_ms,
            self.nodes
                .iter()
                .flat_map(|node| &node.trees)
                .find(|tree| tree.due_ms().is_some_and(|due| due <= self.now_ms))
        );
    }

    /// The forwarding tables of a node.
    fn forwarding(&self, node: usize) -> Forwarding {
        let mut trees = Forwarding::new();
        for place in self.nodes[node].places() {
            trees.set_numberings(place.tree, place.tables.iter().map(numbering));
        }
        trees
    }

    /// Where a packet ends that starts at a node, as all routers are now.
    fn walk(&self, tables: &[Forwarding], from: usize, locator: &Locator) -> Option<usize> {
        let (mut node, mut incoming) = (from, FaceId::NONE);
        for _ in 0..255 {
            match tables[node].forward(locator, incoming) {
                Next::Deliver => return Some(node),
                Next::Drop => return None,
                Next::Forward(face) => {
                    let link = (face.0 - 1000) as usize;
                    if !self.links[link].is_up {
                        return None;
                    }
                    (node, incoming) = (self.other(link, node), face);
                }
            }
        }
        panic!("a packet for {locator:?} runs in circles");
    }

    /// Costs from one node to all that it reaches.
    fn costs(&self, from: usize) -> BTreeMap<usize, u64> {
        let mut costs = BTreeMap::new();
        let mut queue = BinaryHeap::from([Reverse((0, from))]);
        while let Some(Reverse((cost, node))) = queue.pop() {
            if costs.contains_key(&node) {
                continue;
            }
            costs.insert(node, cost);
            queue.extend(
                self.links_of(node)
                    .iter()
                    .map(|link| Reverse((cost + self.links[*link].cost, self.other(*link, node)))),
            );
        }
        costs
    }

    fn place(&self, node: usize, tree: usize) -> &Place {
        &self.nodes[node].places()[tree]
    }

    /// The labels of all routers on a tree.
    fn labels(&self, tree: usize) -> Vec<Option<Label>> {
        (0..self.nodes.len()).map(|node| self.place(node, tree).label).collect()
    }

    /// Checks a network in which nothing happens any more.
    fn check(&self) {
        for node in 0..self.nodes.len() {
            let talks = self.nodes[node].peers.values().find(|peer| peer.due_ms().is_some());
            assert!(talks.is_none(), "{node} has something to say: {talks:?}");
        }
        let tables: Vec<Forwarding> = (0..self.nodes.len()).map(|node| self.forwarding(node)).collect();
        for tree in 0..TREES {
            for node in 0..self.nodes.len() {
                self.check_part(node, tree, &tables);
            }
        }
    }

    /// The latest generation is the same everywhere, and its edges are a tree with this router as one of its nodes.
    fn check_generation(&self, node: usize, tree: usize, part: &BTreeSet<usize>) {
        let latest = |of: usize| &self.place(of, tree).generations[0];
        assert!(latest(node).is_settled && latest(node).id == latest(*part.first().unwrap()).id);
        let mut reached = BTreeSet::from([node]);
        let mut edges = vec![(node, None)];
        while let Some((of, from)) = edges.pop() {
            for neighbour in latest(of).neighbours.iter().filter(|neighbour| Some(neighbour.face) != from) {
                let other = self.other((neighbour.face.0 - 1000) as usize, of);
                assert!(reached.insert(other), "a packet comes twice to {other}");
                let back = latest(other).neighbours.iter().find(|back| back.face == neighbour.face);
                assert!(back.is_some_and(|back| back.secret.is_some() && back.secret == neighbour.secret));
                edges.push((other, Some(neighbour.face)));
            }
        }
        assert_eq!(&reached, part);
    }

    fn check_part(&self, node: usize, tree: usize, tables: &[Forwarding]) {
        let place = self.place(node, tree);
        let part = self.costs(node);
        let roots: BTreeSet<&Name> = part.keys().map(|other| &self.place(*other, tree).root).collect();
        assert_eq!(roots, BTreeSet::from([&place.root]), "one root");
        let root = *part.keys().find(|other| router_name(**other) == place.root).expect("the root is there");
        assert_eq!(place.cost, part[&root], "the cheapest way");
        if root == node {
            assert_eq!(place.nodes as usize, part.len(), "the root knows of all");
            let edges: usize = part.keys().map(|other| self.place(*other, tree).neighbours.len()).sum();
            assert_eq!(edges, 2 * (part.len() - 1), "it is a tree");
        }
        self.check_generation(node, tree, &part.keys().copied().collect());
        for neighbour in &place.neighbours {
            let other = self.other((neighbour.face.0 - 1000) as usize, node);
            assert_eq!(neighbour.router, router_name(other));
            let back = self.place(other, tree).neighbours.iter().find(|back| back.face == neighbour.face);
            let back = back.expect("both ends know the edge");
            assert_ne!(back.is_parent, neighbour.is_parent);
            assert!(back.secret.is_some() && back.secret == neighbour.secret, "both have the secret");
        }
        for other in part.keys() {
            let label = self.place(*other, tree).label.expect("a label");
            let locator = Locator { tree: place.tree, label };
            assert_eq!(self.walk(tables, node, &locator), Some(*other), "from {node} to {other}, {label:?}");
        }
    }
}

fn numbering(table: &PlaceTable) -> Numbering {
    let ports = table.light.iter().map(|(port, _)| *port).max().unwrap_or(0);
    let faces = table.light.iter().map(|(port, face)| (Port::light(*port), *face));
    let faces =
        faces.chain(table.up.map(|face| (Port::PARENT, face))).chain(table.heavy.map(|face| (Port::HEAVY, face)));
    Numbering {
        claim: table.claim,
        table: Table::new(table.label, table.descendants, table.light_descendants, ports, table.up.is_some()),
        faces: faces.collect(),
    }
}

#[test]
fn a_line_a_ring_and_a_star_become_trees() {
    for (nodes, edges) in [
        (1, vec![]),
        (HOPS_MAX, (1..HOPS_MAX).map(|node| (node - 1, node)).collect::<Vec<_>>()),
        (9, (0..9).map(|node| (node, (node + 1) % 9)).collect()),
        (120, (1..120).map(|node| (0, node)).collect()),
    ] {
        let mut net = Net::new(nodes, 5);
        edges.iter().for_each(|(a, b)| net.link(*a, *b));
        net.run(60_000);
        net.check();
    }
}

#[test]
fn random_networks_end_up_right_after_every_fault() {
    for seed in 0..25 {
        let mut net = Net::random(4 + seed as usize, seed as usize, seed);
        net.loss = [0.0, 0.1, 0.4][seed as usize % 3];
        net.run(QUIET_MS);
        net.check();
        for _ in 0..6 {
            for _ in 0..net.random.random_range(1..6) {
                let link = net.random.random_range(0..net.links.len());
                match net.random.random_range(0..4) {
                    0 => net.set_link(link, true),
                    1 | 2 => net.set_link(link, false),
                    _ => {
                        let node = net.random.random_range(0..net.nodes.len());
                        net.restart(node);
                    }
                }
                let pause = net.random.random_range(0..1_500);
                net.run(pause);
                repeat_recorded(&mut net);
            }
            net.run(QUIET_MS);
            net.check();
        }
    }
}

/// Somebody repeats what he has recorded.
fn repeat_recorded(net: &mut Net) {
    for _ in 0..5 {
        if net.recorded.is_empty() {
            return;
        }
        let place = net.random.random_range(0..net.recorded.len());
        let (to, link, wire) = net.recorded[place].clone();
        net.push(1, What::Arrive { to, link, wire });
    }
}

#[test]
fn a_network_in_two_parts_has_two_roots_and_then_one() {
    let mut net = Net::new(12, 3);
    for node in 1..12 {
        net.link(node - 1, node);
    }
    net.run(30_000);
    net.check();
    net.set_link(5, false);
    net.run(90_000);
    net.check();
    let roots: BTreeSet<Name> = (0..12).map(|node| net.place(node, 0).root.clone()).collect();
    assert_eq!(roots.len(), 2);
    net.set_link(5, true);
    net.run(10_000);
    net.check();
}

#[test]
fn routers_that_come_and_go_change_no_label_of_others() {
    let mut net = Net::random(40, 30, 11);
    net.run(60_000);
    net.check();
    let root = net.place(0, 0).root.clone();
    let before = net.labels(0);
    // Leaves of the tree, which no other router needs.
    let leaves: Vec<usize> =
        (0..40).filter(|node| net.place(*node, 0).nodes == 1 && router_name(*node) != root).take(5).collect();
    assert!(leaves.len() == 5);
    for leaf in &leaves {
        net.links_of(*leaf).into_iter().for_each(|link| net.set_link(link, false));
    }
    net.run(20_000);
    let after = net.labels(0);
    for node in (0..40).filter(|node| !leaves.contains(node)) {
        assert_eq!(after[node], before[node], "router {node}");
    }
    // A link that flaps changes nothing, either, not even for the routers behind it.
    for leaf in &leaves {
        (0..net.links.len())
            .filter(|link| net.links[*link].ends.contains(leaf))
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|link| net.set_link(link, true));
    }
    net.run(10_000);
    net.check();
    assert_eq!(net.labels(0), before);
}

#[test]
fn a_cut_changes_only_labels_behind_it() {
    let mut net = Net::random(60, 60, 21);
    net.run(60_000);
    net.check();
    let before = net.labels(0);
    // The edge to the largest part below a child of the root.
    let root = (0..60).find(|node| router_name(*node) == net.place(0, 0).root).unwrap();
    let edge = net.place(root, 0).neighbours.iter().map(|of| (of.face.0 - 1000) as usize);
    let edge = edge.max_by_key(|link| net.place(net.other(*link, root), 0).nodes).unwrap();
    let behind = net.place(net.other(edge, root), 0).nodes as usize;
    net.set_link(edge, false);
    net.run(60_000);
    net.check();
    let after = net.labels(0);
    let changed = (0..60).filter(|node| before[*node] != after[*node]).count();
    assert!(0 < changed && changed <= behind, "{changed} labels changed, {behind} were behind the link");
}

/// While links come and no link goes, every label that was valid lately leads to its router at every moment, from all
/// routers that were on a tree with it.
#[test]
fn packets_arrive_while_labels_change() {
    for seed in 0..12 {
        let nodes = 8 + 2 * seed as usize;
        let mut net = Net::random(nodes, 3, 100 + seed);
        net.loss = 0.2;
        net.run(60_000);
        net.check();
        let mut changes = 0;
        for _ in 0..4 {
            let old: Vec<Vec<Option<Label>>> = (0..TREES).map(|tree| net.labels(tree)).collect();
            let (a, b) = (net.random.random_range(0..nodes), net.random.random_range(0..nodes));
            if a == b || net.links.iter().any(|link| link.ends == [a, b] || link.ends == [b, a]) {
                continue;
            }
            net.links.push(Link { ends: [a, b], cost: 1, delay_ms: 10, is_up: false });
            net.set_link(net.links.len() - 1, true);
            let until_ms = net.now_ms + 15_000;
            while net.step(until_ms) {
                let tables: Vec<Forwarding> = (0..nodes).map(|node| net.forwarding(node)).collect();
                for (tree, labels) in old.iter().enumerate() {
                    for (from, to) in (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))) {
                        let locator = Locator { tree: TreeId(1 + tree as u32), label: labels[to].unwrap() };
                        let end = net.walk(&tables, from, &locator);
                        assert_eq!(
                            end,
                            Some(to),
                            "{} links, labels {:?} -> {:?} seed {seed}, from {from} to {to} at {}",
                            net.links.len(),
                            old[tree][from],
                            locator,
                            net.now_ms
                        );
                    }
                }
            }
            net.check();
            changes += (0..TREES).map(|tree| net.labels(tree) != old[tree]).filter(|is| *is).count();
            net.run(60_000);
        }
        assert!(changes > 0 || seed > 0);
    }
}

/// While another router becomes the root by its rank, and all links work, every label that was valid lately leads to its
/// router at every moment.
#[test]
fn packets_arrive_while_the_root_changes() {
    for seed in 0..8 {
        let nodes = 8 + 2 * seed as usize;
        let mut net = Net::random(nodes, 5, 300 + seed);
        net.loss = 0.2;
        net.run(90_000);
        net.check();
        for change in 0..3 {
            let old: Vec<Vec<Option<Label>>> = (0..TREES).map(|tree| net.labels(tree)).collect();
            let root = net.random.random_range(0..nodes);
            let now_ms = net.now_ms;
            net.nodes[root].set_priority(50 - change, now_ms);
            let until_ms = net.now_ms + 15_000;
            while net.step(until_ms) {
                let tables: Vec<Forwarding> = (0..nodes).map(|node| net.forwarding(node)).collect();
                for (tree, labels) in old.iter().enumerate() {
                    for (from, to) in (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))) {
                        let locator = Locator { tree: TreeId(1 + tree as u32), label: labels[to].unwrap() };
                        let end = net.walk(&tables, from, &locator);
                        assert_eq!(end, Some(to), "seed {seed}, from {from} to {to} at {}", net.now_ms - now_ms);
                    }
                }
            }
            assert_eq!(net.place(0, 0).root, router_name(root));
            // Another change follows when the labels from before the last one are over.
            net.run(180_000);
            net.check();
        }
    }
}

#[test]
fn what_nobody_may_say_changes_nothing() {
    let mut net = Net::random(5, 2, 1);
    net.run(60_000);
    let (to, link, wire) = net.recorded[0].clone();
    let places = net.nodes[to].places().to_vec();
    let from = router_name(net.other(link, to));
    let recorded = Message::decode(&wire).unwrap();
    let now_ms = net.now_ms;
    assert_eq!(net.nodes[to].receive(from.as_ref(), recorded.clone(), now_ms), Heard::Replayed);
    let to_another = Message { receiver: RouterKey(1), number: u64::MAX, ..recorded.clone() };
    assert_eq!(net.nodes[to].receive(from.as_ref(), to_another, now_ms), Heard::Replayed);
    let stranger: Name = "/net/stranger".parse().unwrap();
    assert_eq!(net.nodes[to].receive(stranger.as_ref(), recorded.clone(), now_ms), Heard::Replayed);
    // To an earlier start of the receiver: it is answered, and not believed.
    let earlier = Message { number: u64::MAX, heard: (6, 1), entries: Vec::new(), ..recorded };
    assert_eq!(net.nodes[to].receive(from.as_ref(), earlier, now_ms), Heard::Taken);
    assert_eq!(net.nodes[to].places(), places);
}

#[test]
fn neighbours_beyond_the_limit_are_not_remembered() {
    let settings = Settings { neighbours_max: 3, ..settings() };
    let mut trees = Trees::new(settings, &router_name(0), 7, 0);
    for node in 1..9 {
        trees.set_link(router_name(node).as_ref(), Some((face(node), 1)), 0);
    }
    assert_eq!(trees.peers.len(), 3);
    trees.set_link(router_name(1).as_ref(), None, 0);
    trees.set_link(router_name(9).as_ref(), Some((face(9), 1)), 0);
    assert!(trees.peers.len() == 3 && trees.has_link(router_name(9).as_ref(), face(9)));
}

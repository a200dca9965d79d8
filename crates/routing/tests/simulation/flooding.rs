//! Descriptors flood along the trees that routers make, while these trees and their labels change. Descriptors are those of
//! [`TagRouting`], which each router of byname has beside routing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use byname_control::fib_writer::FibWriter;
use byname_control::security::{Signer, TrustedSigner, VerifyingKey};
use byname_control::tags::message::{self, Update};
use byname_control::tags::{NeighborKeys, OwnGeneration, OwnNeighbor, OwnTree, TagLimits, TagRouting};
use byname_forward::tables::Tables;
use byname_lookup::Control;
use byname_lookup::locator::{Next, Numbering, Port, Table, Trees as Forwarding};
use byname_lookup::oracle::{Oracle, TagsetOracle};
use byname_routing::trees::{Place, PlaceGeneration, PlaceTable};
use byname_routing::{Command, Config, Event};
use byname_wire::data::DataBuilder;
use byname_wire::{Data, Descriptor, FaceId, Interest, Locator, Name, TreeId};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::net::{Net, SECOND};

const TREE: TreeId = TreeId(1);
/// The application of each router.
const APP: FaceId = FaceId(300);
const STEP_MS: u64 = 10;
/// As long a packet may be on its way.
const HOPS: usize = 255;

/// A message between two neighbours, and the node and the face on which it arrives.
type Arrival = (u64, u64, usize, FaceId, Vec<u8>);

struct Flood {
    net: Net,
    tags: Vec<TagRouting>,
    places: Vec<Option<Place>>,
    queue: BinaryHeap<Reverse<Arrival>>,
    count: u64,
    loss: f64,
    random: StdRng,
    /// Nodes whose applications advertise each descriptor.
    served: BTreeMap<u64, BTreeSet<usize>>,
}

fn descriptor(number: u64) -> Descriptor {
    Descriptor::of([format!("tag {number}")]).unwrap()
}

fn neighbour(face: FaceId, secret: &[u8]) -> OwnNeighbor {
    let key_name: Name = "/localhop/nfd/tags".parse().unwrap();
    let trusted = TrustedSigner::Hmac { key_name: key_name.clone(), key: VerifyingKey::from_hmac_secret(secret) };
    OwnNeighbor { face, keys: Some(Arc::new(NeighborKeys { signer: Signer::hmac(key_name, secret), trusted })) }
}

fn numbering(table: &PlaceTable) -> Numbering {
    let ports = table.light.iter().map(|(port, _)| *port).max().unwrap_or(0);
    let light = table.light.iter().map(|(port, face)| (Port::light(*port), *face));
    let others =
        table.up.map(|face| (Port::PARENT, face)).into_iter().chain(table.heavy.map(|face| (Port::HEAVY, face)));
    Numbering {
        claim: table.claim,
        table: Table::new(table.label, table.descendants, table.light_descendants, ports, table.up.is_some()),
        faces: light.chain(others).collect(),
    }
}

impl Flood {
    /// Routers without links.
    fn new(nodes: usize, seed: u64) -> Self {
        let net = Net::new(nodes, seed, |config: &mut Config| {
            config.trees.count = 1;
            config.damping.enabled = false;
        });
        let tags = |_| {
            let tables = Arc::new(Tables::new(Oracle::new().query()));
            TagRouting::new(FibWriter::new(Box::new(TagsetOracle::new()), tables), TagLimits::default(), 1)
        };
        Flood {
            net,
            tags: (0..nodes).map(tags).collect(),
            places: vec![None; nodes],
            queue: BinaryHeap::new(),
            count: 0,
            loss: 0.0,
            random: StdRng::seed_from_u64(seed),
            served: BTreeMap::new(),
        }
    }

    fn connect(&mut self, a: usize, b: usize) {
        self.net.connect(a, b, true);
    }

    fn serve(&mut self, node: usize, number: u64) {
        self.tags[node].advertise(APP, vec![descriptor(number)]).unwrap();
        self.served.entry(number).or_default().insert(node);
    }

    fn withdraw(&mut self, node: usize, number: u64) {
        self.tags[node].withdraw(APP, vec![descriptor(number)]);
        self.served.entry(number).or_default().remove(&node);
    }

    fn step(&mut self) {
        self.net.run(STEP_MS);
        for node in 0..self.tags.len() {
            let place = self.net.nodes[node].places.get(&TREE);
            if place.is_some() && place != self.places[node].as_ref() {
                self.places[node] = place.cloned();
                self.take_place(node);
            }
        }
        let now = self.net.moment();
        while self.queue.peek().is_some_and(|Reverse((at, ..))| *at <= self.net.now_ms) {
            let Some(Reverse((_, _, node, face, wire))) = self.queue.pop() else { break };
            self.arrive(node, face, &wire);
        }
        for node in 0..self.tags.len() {
            for (face, wire) in self.tags[node].poll(now) {
                self.send(node, face, wire);
            }
            self.tags[node].commit();
        }
    }

    fn run(&mut self, for_ms: u64) {
        (0..for_ms / STEP_MS).for_each(|_| self.step());
    }

    /// Does what the router's management does with a place.
    fn take_place(&mut self, node: usize) {
        let Some(place) = &self.places[node] else { return };
        let tree = OwnTree { id: TREE, label: place.label, neighbors: Vec::new(), generation: None };
        let generation = |of: &PlaceGeneration| {
            let known = of.neighbours.iter();
            let known = known.filter_map(|of| Some(neighbour(of.face, of.secret.as_ref()?.bytes())));
            let generation = OwnGeneration { of: TREE, is_settled: of.is_settled };
            OwnTree { id: of.id, label: None, neighbors: known.collect(), generation: Some(generation) }
        };
        let generations = place.generations.iter().map(generation);
        self.tags[node].replace_trees([tree].into_iter().chain(generations).collect());
    }

    fn send(&mut self, node: usize, face: FaceId, wire: Vec<u8>) {
        let Some(peer) = self.net.nodes[node].peer(face) else { return };
        let link = self.net.links[(face.0 - 1_000) as usize];
        if link.is_up && !self.random.random_bool(self.loss) {
            self.count += 1;
            self.queue.push(Reverse((self.net.now_ms + link.delay_ms, self.count, peer, face, wire)));
        }
    }

    fn arrive(&mut self, node: usize, face: FaceId, wire: &[u8]) {
        let now = self.net.moment();
        if let Ok(data) = Data::decode(wire) {
            let (code, body) = data.content.split_at(2);
            let code = u64::from(u16::from_be_bytes([code[0], code[1]]));
            self.tags[node].answered(&data, (code, body), now);
            return;
        }
        let interest = Interest::decode(wire).unwrap();
        let update = Update::decode(interest.application_parameters.unwrap()).unwrap();
        if let Ok(heeded) = self.tags[node].hear(face, (&interest, update), now) {
            let code: u16 = if heeded.is_taken { 200 } else { 409 };
            let content = [&code.to_be_bytes()[..], &message::encode_session(heeded.session)].concat();
            let answer = DataBuilder::new(interest.name.to_name()).content(content);
            let answer = heeded.keys.unwrap().signer.sign_data(&answer).unwrap();
            self.send(node, face, answer);
        }
    }

    /// The nodes whose applications get a packet with this tag that starts at a node.
    fn reached(&self, from: usize, number: u64) -> Vec<usize> {
        let wanted = descriptor(number);
        // It stays on the generation that is in service where it begins.
        let tree = self.tags[from].in_service(TREE).unwrap_or(TREE);
        let mut reached = Vec::new();
        let mut packets = vec![(from, None)];
        let mut hops = 0;
        while let Some((node, incoming)) = packets.pop() {
            hops += 1;
            assert!(hops < HOPS, "a packet with tag {number} runs in circles");
            let page = self.tags[node].descriptors(|one| *one == wanted, 0, 1);
            let faces = page.items.into_iter().flat_map(|(_, faces)| faces).filter(|pair| pair.tree == tree);
            let faces = faces.map(|pair| pair.face);
            for face in faces.filter(|face| Some(*face) != incoming) {
                match self.net.nodes[node].peer(face) {
                    Some(peer) if self.net.links[(face.0 - 1_000) as usize].is_up => packets.push((peer, Some(face))),
                    Some(_) => {}
                    None => reached.push(node),
                }
            }
        }
        reached.sort_unstable();
        reached
    }

    /// Where a packet with this locator ends.
    fn walk(&self, from: usize, locator: &Locator) -> Option<usize> {
        let (mut node, mut incoming) = (from, FaceId::NONE);
        for _ in 0..HOPS {
            let mut trees = Forwarding::new();
            let place = self.places[node].as_ref()?;
            trees.set_numberings(TREE, place.tables.iter().map(numbering));
            match trees.forward(locator, incoming) {
                Next::Deliver => return Some(node),
                Next::Drop => return None,
                Next::Forward(face) if self.net.links[(face.0 - 1_000) as usize].is_up => {
                    (node, incoming) = (self.net.nodes[node].peer(face)?, face);
                }
                Next::Forward(_) => return None,
            }
        }
        panic!("a packet for {locator:?} runs in circles");
    }

    fn locator(&self, node: usize) -> Option<Locator> {
        Some(Locator { tree: TREE, label: self.places[node].as_ref()?.label? })
    }

    /// The generation in service at each node, and those that it has: settled or not, with the neighbours.
    fn generations(&self) -> String {
        let mut text = String::new();
        for (node, place) in self.places.iter().enumerate() {
            text += &format!("\n{node}: {:?} in service of", self.tags[node].in_service(TREE));
            for one in place.iter().flat_map(|place| &place.generations) {
                let peers: Vec<_> = one.neighbours.iter().map(|of| self.net.nodes[node].peer(of.face)).collect();
                text += &format!(" {} {} {peers:?};", one.id.0, one.is_settled);
            }
        }
        text
    }

    fn check_tags(&self, nodes: &[usize]) {
        for (number, servers) in &self.served {
            let wanted: Vec<usize> = servers.iter().copied().filter(|server| nodes.contains(server)).collect();
            for node in nodes {
                let reached = self.reached(*node, *number);
                assert!(
                    reached == wanted,
                    "from {node}, tag {number}, at {}, loss {}: {reached:?}, not {wanted:?}, {}",
                    self.net.now_ms,
                    self.loss,
                    self.generations()
                );
            }
        }
    }

    /// Checks that packets from each of these nodes reach the applications of all of them that want them, once, and
    /// their routers by locator.
    fn check(&self, nodes: &[usize]) {
        self.check_tags(nodes);
        for (from, to) in nodes.iter().flat_map(|from| nodes.iter().map(move |to| (*from, *to))) {
            let locator = self.locator(to).expect("a label");
            assert_eq!(self.walk(from, &locator), Some(to), "from {from} to {to}, at {}", self.net.now_ms);
        }
    }
}

/// Faults change trees and labels. After each, descriptors have flowed along the new tree: packets reach all applications
/// that want them, once, and every router by its label.
#[test]
fn descriptors_follow_trees_after_faults() {
    let mut changes = 0;
    for seed in 0..4 {
        let nodes = 9;
        let mut flood = Flood::new(nodes, seed);
        for node in 0..nodes {
            flood.connect(node, (node + 1) % nodes);
        }
        flood.connect(0, nodes / 2);
        flood.run(30 * SECOND);
        let all: Vec<usize> = (0..nodes).collect();
        for node in 0..nodes {
            flood.serve(node, node as u64);
            flood.serve(node, 100 + node as u64 % 2);
        }
        flood.loss = 0.1;
        for _ in 0..4 {
            let before: Vec<_> = all.iter().map(|node| flood.locator(*node)).collect();
            let cut = flood.random.random_range(0..flood.net.links.len());
            flood.net.set_up(cut, false);
            let node = flood.random.random_range(0..nodes);
            flood.withdraw(node, 100 + node as u64 % 2);
            flood.run(60 * SECOND);
            flood.check(&all);
            changes += all.iter().filter(|node| flood.locator(**node) != before[**node]).count();
            let other = flood.random.random_range(0..nodes);
            if other != node {
                flood.net.kill(other);
                flood.run(60 * SECOND);
                flood.net.start(other);
            }
            flood.net.set_up(cut, true);
            flood.serve(node, 100 + node as u64 % 2);
            flood.run(60 * SECOND);
            flood.check(&all);
        }
    }
    assert!(changes > 0, "no label has changed");
}

impl Flood {
    /// A ring of routers with chords, at rest, whose applications each want a tag of their own.
    fn ring(nodes: usize, seed: u64) -> Self {
        let mut flood = Flood::new(nodes, seed);
        for node in 0..nodes {
            flood.connect(node, (node + 1) % nodes);
        }
        flood.connect(0, nodes / 2);
        flood.run(20 * SECOND);
        for node in 0..nodes {
            flood.serve(node, node as u64);
            flood.serve(node, 100 + node as u64 % 2);
        }
        flood.run(20 * SECOND);
        flood
    }

    fn root(&self, node: usize) -> Name {
        self.places[node].as_ref().unwrap().root.clone()
    }

    fn set_priority(&mut self, node: usize, priority: u64) {
        self.net.tell(node, Event::Command(Command::SetTreePriority(priority)));
    }

    /// Lets time pass. In each step, from everywhere, packets reach all that want them, once.
    fn run_without_loss(&mut self, nodes: &[usize], for_ms: u64) {
        for _ in 0..for_ms / STEP_MS {
            self.step();
            self.check_tags(nodes);
        }
    }

    /// The last moment at which a packet between these nodes was lost, in ms from now, while time passes. None is
    /// doubled.
    fn run_with_loss(&mut self, nodes: &[usize], for_ms: u64) -> u64 {
        let (start_ms, mut last_ms) = (self.net.now_ms, self.net.now_ms);
        for _ in 0..for_ms / STEP_MS {
            self.step();
            for (number, servers) in &self.served {
                let wanted: Vec<usize> = servers.iter().copied().filter(|server| nodes.contains(server)).collect();
                for node in nodes {
                    let reached: Vec<usize> =
                        self.reached(*node, *number).into_iter().filter(|one| nodes.contains(one)).collect();
                    assert!(reached.is_sorted_by(|a, b| a < b), "twice: {reached:?}");
                    if reached != wanted {
                        last_ms = self.net.now_ms;
                    }
                }
            }
        }
        last_ms - start_ms
    }
}

/// The root changes by its rank, links come, and messages are lost. No packet with tags is lost or doubled at any moment.
#[test]
fn no_packet_with_tags_is_lost_while_the_root_changes_and_links_come() {
    for seed in 0..3 {
        let nodes = 7 + seed as usize;
        let all: Vec<usize> = (0..nodes).collect();
        let mut flood = Flood::ring(nodes, 40 + seed);
        flood.loss = [0.0, 0.1, 0.3][seed as usize];
        for change in 0..3 {
            let before: Vec<_> = all.iter().map(|node| flood.tags[*node].in_service(TREE)).collect();
            let root = flood.root(0);
            let next = flood.random.random_range(0..nodes);
            flood.set_priority(next, 50 - change);
            flood.run_without_loss(&all, 400);
            // Another root before the first one is in service.
            let other = flood.random.random_range(0..nodes);
            flood.set_priority(other, 49 - change);
            let (a, b) = (flood.random.random_range(0..nodes), flood.random.random_range(0..nodes));
            if a != b {
                flood.connect(a, b);
            }
            flood.run_without_loss(&all, 36 * SECOND);
            assert_eq!(flood.root(0), crate::net::router_name(other));
            let after: Vec<_> = all.iter().map(|node| flood.tags[*node].in_service(TREE)).collect();
            assert!(after.iter().all(|one| *one == after[0] && one.is_some()), "all begin on one: {after:?}");
            assert!(root == flood.root(0) || before != after, "the root changed, and packets follow");
            flood.check(&all);
        }
    }
}

/// A root or another router dies, or a link is cut. Packets are lost until routers see it and the next tree is complete, and
/// none is doubled.
#[test]
fn what_a_fault_costs_packets_with_tags_is_bounded() {
    let mut longest = 0;
    for seed in 0..6 {
        let nodes = 8;
        let mut flood = Flood::ring(nodes, 60 + seed);
        let root = flood.root(0);
        let dead = (0..nodes).find(|node| crate::net::router_name(*node) == root).unwrap();
        let dead = if seed % 3 == 2 { (dead + 1) % nodes } else { dead };
        let left: Vec<usize> = (0..nodes).filter(|node| *node != dead).collect();
        let links: Vec<usize> =
            (0..flood.net.links.len()).filter(|link| flood.net.links[*link].ends.contains(&dead)).collect();
        flood.net.kill(dead);
        links.iter().for_each(|link| flood.net.set_up(*link, false));
        let lost_ms = flood.run_with_loss(&left, 40 * SECOND);
        longest = longest.max(lost_ms);
        flood.check(&left);
        let cut = (0..flood.net.links.len()).find(|link| {
            let rest: BTreeSet<usize> = flood.net.links[*link].ends.into_iter().collect();
            !links.contains(link)
                && !rest.contains(&((dead + 1) % nodes))
                && !rest.contains(&((dead + nodes - 1) % nodes))
        });
        // With the chord there is another way, if it is not the dead router's.
        if dead != 0
            && dead != nodes / 2
            && let Some(cut) = cut
        {
            flood.net.set_up(cut, false);
            let lost_ms = flood.run_with_loss(&left, 40 * SECOND);
            longest = longest.max(lost_ms);
        }
    }
    assert!((1..1_500).contains(&longest), "{longest} ms");
}

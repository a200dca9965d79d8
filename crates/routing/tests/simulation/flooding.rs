//! Descriptors flood along the trees that routers make, while these trees and their labels change. Descriptors are those of
//! [`TagRouting`], which each router of byname has beside routing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use byname_control::fib_writer::FibWriter;
use byname_control::security::{Signer, TrustedSigner, VerifyingKey};
use byname_control::tags::message::{self, Update};
use byname_control::tags::{NeighborKeys, OwnNeighbor, OwnTree, TagLimits, TagRouting};
use byname_forward::tables::Tables;
use byname_lookup::Control;
use byname_lookup::locator::{Next, Numbering, Port, Table, Trees as Forwarding};
use byname_lookup::oracle::{Oracle, TagsetOracle};
use byname_routing::Config;
use byname_routing::trees::{Place, PlaceTable};
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
        let neighbors = place.neighbours.iter();
        let neighbors = neighbors.filter_map(|of| Some(neighbour(of.face, of.secret.as_ref()?.bytes()))).collect();
        self.tags[node].replace_trees(vec![OwnTree { id: TREE, label: place.label, neighbors }]);
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
            self.tags[node].answered(&data, (code, body), now.unix_ms);
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
        let mut reached = Vec::new();
        let mut packets = vec![(from, None)];
        let mut hops = 0;
        while let Some((node, incoming)) = packets.pop() {
            hops += 1;
            assert!(hops < HOPS, "a packet with tag {number} runs in circles");
            let page = self.tags[node].descriptors(|one| *one == wanted, 0, 1);
            let faces = page.items.into_iter().flat_map(|(_, faces)| faces).map(|pair| pair.face);
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

    /// Checks that packets from each of these nodes reach the applications of all of them that want them, once.
    fn check(&self, nodes: &[usize]) {
        for (number, servers) in &self.served {
            let wanted: Vec<usize> = servers.iter().copied().filter(|server| nodes.contains(server)).collect();
            for node in nodes {
                assert_eq!(self.reached(*node, *number), wanted, "from {node}, tag {number}, at {}", self.net.now_ms);
            }
        }
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

//! Networks of routers on random trees. Tag-addressed packets must reach the matching applications, and locators must
//! lead from any router to any other.
//!
//! Routers have several threads. Each packet must be handled on the thread that received it, and may cross only to the
//! owners of the faces that it leaves by. It must reach the same applications as with one thread.
#![cfg(not(loom))]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use byname_forward::dispatch::Dispatcher;
use byname_forward::face_table::{LinkType, Scope};
use byname_forward::seat::{Seat, Workers};
use byname_forward::stages::Stopwatch;
use byname_forward::tables::{NexthopGroup, Tables, TreeFace};
use byname_forward::worker::WorkerConfig;
use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received, Ticks, Worker};
use byname_lookup::locator::{Graph, Labelling, SpanningTree, Trees};
use byname_lookup::oracle::{Oracle, TagsetOracle};
use byname_lookup::{Change, Control, EntryId};
use byname_wire::tagnet::{Address, Endpoint, LocatorPacketBuilder, TagPacketBuilder};
use byname_wire::{Descriptor, Locator, NameHashKey, TreeId};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Router i has face `LINKS + j` to router j, and face `APP` to its application.
const LINKS: u64 = 1000;
const APP: FaceId = FaceId(256);
const TREES: [TreeId; 2] = [TreeId(1), TreeId(7)];
const SEEDS: u64 = 60;
/// Numbers of threads that answer as one does.
const THREADS: [usize; 4] = [1, 2, 3, 5];
const ROOMY: usize = 64;

/// One router; each of its faces belongs to one of its threads.
struct Router {
    seats: Vec<Seat>,
}

impl Router {
    fn new(threads: usize, ring_packets: usize, worker: impl Fn() -> Worker) -> Self {
        let dispatcher = Dispatcher::new(NameHashKey::new([1, 2]), threads, 0, 3);
        let join = |thread| {
            let mut worker = worker();
            worker.join(dispatcher.membership(thread));
            worker
        };
        let workers = (0..threads).map(join).collect();
        let workers = Workers::new(dispatcher.of_thread(0), workers, ring_packets, false);
        Router { seats: workers.seats().expect("a few slots") }
    }

    fn owner(&self, face: FaceId) -> usize {
        face.0 as usize % self.seats.len()
    }

    /// Handles packets that one face has received. Returns what leaves.
    fn forward(&mut self, face: FaceId, packets: Vec<Packet>) -> Vec<Outgoing> {
        let here = self.owner(face);
        let received = |packet| Received { face, fields: LinkFields::default(), packet };
        let mut received = packets.into_iter().map(received).collect();
        let (mut sent, mut given) = (Vec::new(), BTreeSet::new());
        for mut outgoing in self.poll(here, &mut received) {
            match self.owner(outgoing.face) {
                owner if owner == here => sent.push(outgoing),
                owner => {
                    given.insert(owner);
                    self.seats[here].send_to(owner, &mut outgoing);
                }
            }
        }
        self.seats[here].publish_output();
        for thread in 0..self.seats.len() {
            assert_eq!(self.seats[thread].has_input(), given.contains(&thread), "only owners are given something");
            let departed = self.poll(thread, &mut Vec::new());
            assert!(departed.iter().all(|outgoing| self.owner(outgoing.face) == thread));
            sent.extend(departed);
            let rings = self.seats[thread].rings().unwrap_or_default();
            assert_eq!((rings.foreign, rings.taken), (0, 0), "no packet goes to another worker");
        }
        sent
    }

    fn poll(&mut self, thread: usize, received: &mut Vec<Received>) -> Vec<Outgoing> {
        let mut output = Vec::new();
        self.seats[thread].poll(Ticks(1), received, &mut output, &mut Stopwatch::default());
        output
    }
}

struct Network {
    routers: Vec<Router>,
    labellings: Vec<Labelling>,
    /// The descriptors that each router's application advertised.
    advertised: Vec<Vec<Descriptor>>,
}

fn link_to(router: usize) -> FaceId {
    FaceId(LINKS + router as u64)
}

fn descriptor(random: &mut StdRng, tags_max: u32) -> Descriptor {
    let count = random.random_range(0..=tags_max);
    Descriptor::of((0..count).map(|_| format!("tag {}", random.random_range(0..8)))).expect("few tags")
}

impl Network {
    fn new(random: &mut StdRng, threads: usize) -> Self {
        let nodes = random.random_range(1..14);
        let mut edges: Vec<(u32, u32)> = (1..nodes).map(|node| (random.random_range(0..node), node)).collect();
        // More edges than a tree has, so that the trees differ.
        edges.extend((1..nodes).map(|node| (random.random_range(0..node), node)));
        let graph = Graph::new(nodes as usize, &edges).expect("edges between nodes");
        let label = |root| Labelling::new(SpanningTree::breadth_first(&graph, root));
        let labellings: Vec<_> = TREES.iter().map(|_| label(random.random_range(0..nodes) as usize)).collect();
        let advertised: Vec<Vec<Descriptor>> =
            (0..nodes).map(|_| (0..random.random_range(0..4)).map(|_| descriptor(random, 3)).collect()).collect();
        let router = |node| Router::new(threads, ROOMY, || worker(node, &labellings, &advertised));
        let routers = (0..nodes as usize).map(router).collect();
        Network { routers, labellings, advertised }
    }

    /// Sends a packet from the application of a router. Returns how often each application got it.
    fn send(&mut self, from: usize, wire: &[u8]) -> BTreeMap<usize, u32> {
        let mut got = BTreeMap::new();
        let mut under_way = VecDeque::from([(from, APP, Packet::copy_from(wire))]);
        while let Some((router, face, packet)) = under_way.pop_front() {
            for sent in self.routers[router].forward(face, vec![packet]) {
                match sent.face {
                    APP => *got.entry(router).or_default() += 1,
                    FaceId(link) => under_way.push_back(((link - LINKS) as usize, link_to(router), sent.packet)),
                }
            }
        }
        got
    }

    /// The matching applications except the sender, each with the number of bits of its largest matching subset.
    fn matches(&self, from: usize, packet: &Descriptor) -> BTreeMap<usize, u32> {
        let others = self.advertised.iter().enumerate().filter(|(router, _)| *router != from);
        let weight = |all: &Vec<Descriptor>| {
            all.iter().filter(|one| one.is_subset(packet)).map(|one| one.filter().weight()).max()
        };
        others.filter_map(|(router, all)| Some((router, weight(all)?))).collect()
    }
}

/// A router with the tables that result when all advertisements have been flooded.
fn worker(node: usize, labellings: &[Labelling], advertised: &[Vec<Descriptor>]) -> Worker {
    let tables = Arc::new(Tables::new(Oracle::new().query()));
    let mut trees = Trees::new();
    let mut rules: BTreeMap<&Descriptor, BTreeSet<TreeFace>> = BTreeMap::new();
    for (&tree, labelling) in TREES.iter().zip(labellings) {
        let ports = labelling.neighbors(node).map(|(port, neighbor)| (port, link_to(neighbor)));
        trees.set(tree, labelling.table(node).expect("the tree spans the graph"), ports);
        for (origin, descriptors) in advertised.iter().enumerate() {
            let path = labelling.tree().path(node, origin).expect("the tree spans the graph");
            let face = path.get(1).map_or(APP, |&next| link_to(next));
            for descriptor in descriptors {
                rules.entry(descriptor).or_default().insert(TreeFace { tree, face });
            }
        }
    }
    tables.replace_trees(trees);
    let mut changes = Vec::new();
    for ((descriptor, nexthops), entry) in rules.into_iter().zip(0..) {
        tables.set_tag_group(EntryId(entry), Some(NexthopGroup { nexthops: nexthops.into_iter().collect() }));
        changes.push(Change::Set(descriptor.clone(), EntryId(entry)));
    }
    let mut tag_fib = TagsetOracle::new();
    tag_fib.apply(&changes).expect("the oracle takes all");
    tables.replace_tag_fib(tag_fib.query());
    let mut worker = Worker::new(WorkerConfig::default(), NameHashKey::new([1, 2]), tables, 3);
    worker.face_up(APP, Scope::Local, LinkType::PointToPoint);
    worker.set_endpoint(APP);
    for neighbor in labellings.iter().flat_map(|labelling| labelling.neighbors(node)) {
        worker.face_up(link_to(neighbor.1), Scope::NonLocal, LinkType::PointToPoint);
    }
    worker
}

/// Sends tag-addressed packets through a random network. Returns which applications got each of them.
fn send_by_tags(seed: u64, threads: usize) -> Vec<BTreeMap<usize, u32>> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut network = Network::new(&mut random, threads);
    let send = |_| {
        let from = random.random_range(0..network.routers.len());
        let packet = descriptor(&mut random, 7);
        let tree = TREES[random.random_range(0..TREES.len())];
        let limit = *[1, 1, 2, 3, 5, 0].get(random.random_range(0..6)).expect("below its length");
        let mut builder = match random.random_bool(0.8) {
            true => TagPacketBuilder::new(tree, &packet),
            false => TagPacketBuilder::of_filter(tree, packet.filter()),
        };
        if limit > 0 {
            builder = builder.fan_out(limit.try_into().expect("not 0"));
        }
        let got = network.send(from, &builder.encode());
        let matches = network.matches(from, &packet);
        let context = format!("seed {seed}, from {from}, {packet:?}, limit {limit}: {got:?} of {matches:?}");
        assert!(got.values().all(|times| *times == 1), "once each: {context}");
        assert!(got.keys().all(|router| matches.contains_key(router)), "to nobody else: {context}");
        match limit {
            0 => assert_eq!(got.len(), matches.len(), "{context}"),
            1 => {
                let weight = |router: &usize| Reverse(matches[router]);
                let largest = matches.values().copied().max().map(Reverse);
                assert_eq!(got.keys().map(weight).next(), largest, "to one of the largest: {context}");
            }
            _ => assert!(matches.is_empty() == got.is_empty() && got.len() <= limit.into(), "{context}"),
        }
        got
    };
    (0..60).map(send).collect()
}

#[test]
fn tag_addressed_packets_reach_whom_they_are_meant_for_and_no_more() {
    let mut delivered = 0;
    for seed in 0..SEEDS {
        let alone = send_by_tags(seed, 1);
        delivered += alone.iter().map(BTreeMap::len).sum::<usize>();
        for threads in &THREADS[1..] {
            assert_eq!(send_by_tags(seed, *threads), alone, "seed {seed}, {threads} threads");
        }
    }
    assert!(delivered > 2000, "{delivered} deliveries test little");
}

#[test]
fn locators_lead_from_anywhere_to_anywhere() {
    for (seed, threads) in (0..SEEDS).zip(THREADS.into_iter().cycle()) {
        let mut network = Network::new(&mut StdRng::seed_from_u64(seed), threads);
        let nodes = network.routers.len();
        for (from, to) in (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))) {
            for (tree, at) in TREES.into_iter().zip(0..) {
                let label = network.labellings[at].label(to).expect("the tree spans the graph");
                let destination = Address { locator: Locator { tree, label }, endpoint: Endpoint(APP.0) };
                let got = network.send(from, &LocatorPacketBuilder::new(destination).encode());
                assert_eq!(got, BTreeMap::from([(to, 1)]), "seed {seed}, {threads} threads, from {from} to {to}");
            }
        }
    }
}

/// Two routers; the face of the second belongs to another thread of the first than its application does.
#[test]
fn a_full_ring_to_the_owner_of_a_face_drops_and_counts() {
    let graph = Graph::new(2, &[(0, 1)]).expect("an edge between nodes");
    let labellings = TREES.map(|_| Labelling::new(SpanningTree::breadth_first(&graph, 0)));
    let advertised = [Vec::new(), vec![Descriptor::of(["news"]).expect("one tag")]];
    let link = link_to(1);
    for threads in [1, 2, 3] {
        let mut router = Router::new(threads, 8, || worker(0, &labellings, &advertised));
        let crosses = router.owner(APP) != router.owner(link);
        assert_eq!(crosses, threads > 1);
        let packet = TagPacketBuilder::new(TREES[0], &advertised[1][0]).encode();
        let sent = router.forward(APP, (0..20).map(|_| Packet::copy_from(&packet)).collect());
        let drops: u64 = router.seats.iter_mut().map(|seat| seat.rings().unwrap_or_default().output_drops).sum();
        assert_eq!((sent.len(), drops), if crosses { (8, 12) } else { (20, 0) }, "{threads} threads");
    }
}

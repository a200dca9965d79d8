//! Networks of routers that lose messages and start anew: in the end all know what they should.

use std::collections::BTreeSet;
use std::sync::Arc;

use byname_forward::tables::Tables;
use byname_lookup::Control;
use byname_lookup::oracle::{Oracle, TagsetOracle};
use byname_wire::{Data, Interest};

use super::*;

const TREE: TreeId = TreeId(1);
/// The face to router i is `LINKS + i`; applications have the faces below.
const LINKS: u64 = 1000;
const APPS: [FaceId; 2] = [FaceId(300), FaceId(301)];

fn descriptor(i: u64) -> Descriptor {
    Descriptor::of([format!("tag {i}")]).expect("one tag")
}

fn routing(limits: TagLimits, unix_ms: u64) -> TagRouting {
    let tables = Arc::new(Tables::new(Oracle::new().query()));
    TagRouting::new(FibWriter::new(Box::new(TagsetOracle::new()), tables), limits, unix_ms)
}

fn tree(neighbors: Vec<FaceId>) -> OwnTree {
    OwnTree { id: TREE, label: Label::new(0), neighbors }
}

fn few(descriptors_max: usize, descriptors_per_face_max: usize) -> TagLimits {
    TagLimits { descriptors_max, descriptors_per_face_max }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % n
    }
}

struct Network {
    /// The parent of each router but the first.
    parents: Vec<usize>,
    routers: Vec<TagRouting>,
    /// What each application of each router advertises.
    advertised: Vec<[BTreeSet<u64>; 2]>,
    now_ms: u64,
}

impl Network {
    fn new(random: &mut Random) -> Self {
        let nodes = 2 + random.below(7) as usize;
        let parents = (0..nodes).map(|node| random.below(node.max(1) as u64) as usize).collect();
        let mut network =
            Network { parents, routers: Vec::new(), advertised: vec![Default::default(); nodes], now_ms: 1000 };
        network.routers = (0..nodes).map(|node| network.router(node)).collect();
        network
    }

    fn neighbors(&self, node: usize) -> Vec<usize> {
        let children = (1..self.parents.len()).filter(|&child| self.parents[child] == node);
        children.chain((node > 0).then(|| self.parents[node])).collect()
    }

    fn router(&self, node: usize) -> TagRouting {
        let mut router = routing(TagLimits::default(), self.now_ms);
        router.add_tree(tree(self.neighbors(node).iter().map(|&n| FaceId(LINKS + n as u64)).collect()));
        router
    }

    fn act(&mut self, random: &mut Random) {
        let node = random.below(self.routers.len() as u64) as usize;
        let app = random.below(2) as usize;
        let some: Vec<u64> = (0..random.below(4)).map(|_| random.below(6)).collect();
        let descriptors = some.iter().map(|&i| descriptor(i)).collect();
        match random.below(8) {
            0..4 => {
                self.routers[node].advertise(APPS[app], descriptors).expect("few");
                self.advertised[node][app].extend(some);
            }
            4..6 => {
                self.routers[node].withdraw(APPS[app], descriptors);
                self.advertised[node][app].retain(|i| !some.contains(i));
            }
            6 => {
                self.routers[node].remove_face(APPS[app]);
                self.advertised[node][app].clear();
            }
            _ => {
                // The router starts anew, without its applications.
                self.advertised[node] = Default::default();
                self.routers[node] = self.router(node);
            }
        }
    }

    /// Lets everybody speak for a while, and loses so many percent of what is said.
    fn run(&mut self, steps: u64, step_ms: u64, loss: u64, random: &mut Random) {
        for _ in 0..steps {
            self.now_ms += step_ms;
            for from in 0..self.routers.len() {
                for (face, wire) in self.routers[from].poll(self.now_ms) {
                    let to = (face.0 - LINKS) as usize;
                    let interest = Interest::decode(&wire).expect("it is one");
                    let update = Update::decode(interest.application_parameters.expect("set")).expect("well formed");
                    // Now and then it comes twice.
                    for _ in 0..1 + random.below(10) / 9 {
                        if random.below(100) < loss {
                            continue;
                        }
                        let back = FaceId(LINKS + from as u64);
                        let session = self.routers[to].hear(back, update.clone(), self.now_ms).expect("a neighbour");
                        if random.below(100) >= loss {
                            let body = message::encode_session(session);
                            self.routers[from].answered(&interest.name.to_name(), 200, &body);
                        }
                    }
                }
            }
        }
    }

    /// The face of a router through which another is reached.
    fn face_towards(&self, node: usize, mut other: usize) -> FaceId {
        if node == other {
            return FaceId(0);
        }
        let mut way = vec![other];
        while other > 0 {
            other = self.parents[other];
            way.push(other);
        }
        // Where the node is above the other, the next is below it on the way; else its parent.
        match way.iter().position(|&on_way| on_way == node) {
            Some(place) => FaceId(LINKS + way[place - 1] as u64),
            None => FaceId(LINKS + self.parents[node] as u64),
        }
    }

    fn check(&self, context: &str) {
        for (node, router) in self.routers.iter().enumerate() {
            let mut expected = BTreeSet::new();
            for (origin, apps) in self.advertised.iter().enumerate() {
                for (app, some) in apps.iter().enumerate() {
                    let face = if origin == node { APPS[app] } else { self.face_towards(node, origin) };
                    expected.extend(some.iter().map(|&i| (descriptor(i), face)));
                }
            }
            let known = router.rules.iter().flat_map(|(descriptor, rule)| {
                rule.nexthops.iter().map(move |nexthop| (Descriptor::clone(descriptor), nexthop.face))
            });
            assert_eq!(known.collect::<BTreeSet<_>>(), expected, "router {node}, {context}");
            assert_eq!(router.is_empty(), expected.is_empty());
        }
    }
}

#[test]
fn routers_agree_in_the_end_whatever_is_lost() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut network = Network::new(&mut random);
        for round in 0..6 {
            for _ in 0..6 {
                network.act(&mut random);
                network.run(3, 200, 40, &mut random);
            }
            // Long enough for what was refused, for silence, and for all to be told again.
            network.run(400, 250, 0, &mut random);
            network.check(&format!("seed {seed}, round {round}"));
        }
    }
}

#[test]
fn a_neighbour_that_is_silent_is_forgotten_and_told_to_begin_again() {
    let mut random = Random(1);
    let mut network = Network::new(&mut Random(3));
    network.routers[1].advertise(APPS[0], vec![descriptor(1)]).expect("one");
    network.advertised[1][0].insert(1);
    network.run(40, 250, 0, &mut random);
    network.check("at first");
    network.run(200, 250, 100, &mut random);
    assert!(network.routers[0].is_empty(), "nothing was heard for 50 s");
    network.run(200, 250, 0, &mut random);
    network.check("in the end");
}

#[test]
fn what_is_too_much_is_refused() {
    let mut router = routing(few(5, 2), 1);
    router.add_tree(tree(vec![FaceId(LINKS)]));
    let full = |descriptors| Err(TagRoutingError::FaceFull { descriptors });
    assert_eq!(router.advertise(APPS[0], (0..3).map(descriptor).collect()), full(0));
    assert_eq!(router.advertise(APPS[0], (0..2).map(descriptor).collect()), Ok(()));
    assert_eq!(router.advertise(APPS[0], (0..2).map(descriptor).collect()), Ok(()), "the same again");
    assert_eq!(router.advertise(APPS[0], vec![descriptor(9)]), full(2));
    let update = |tree, sequence| Update {
        tree,
        session: 1,
        sequence,
        advertised: (10..20).map(descriptor).collect(),
        withdrawn: Vec::new(),
    };
    assert!(router.hear(FaceId(LINKS), update(TREE, 1), 1).is_ok());
    assert_eq!((router.len(), router.refused()), (5, 7));
    assert_eq!(router.advertise(APPS[1], vec![descriptor(30)]), Err(TagRoutingError::Full { descriptors: 5 }));
    let stranger = Err(TagRoutingError::NoNeighbor { tree: TREE });
    assert_eq!(router.hear(APPS[0], update(TREE, 2), 1), stranger);
    router.remove_face(APPS[0]);
    assert_eq!(router.len(), 3);
    assert_eq!(router.addresses(APPS[1])[0].endpoint, Endpoint(APPS[1].0));
}

#[test]
fn updates_fit_into_packets() {
    let mut router = routing(TagLimits::default(), u64::MAX >> 1);
    router.add_tree(tree(vec![FaceId(LINKS)]));
    let all: Vec<_> =
        (0..3000).map(|i| Descriptor::of((0..=i % 32).map(|tag| format!("{i} {tag}"))).expect("at most 32")).collect();
    router.advertise(APPS[0], all).expect("fewer than the limit");
    let mut told = BTreeSet::new();
    let mut now_ms = 0;
    while told.len() < 3000 {
        now_ms += 1;
        for (_, wire) in router.poll(now_ms) {
            let interest = Interest::decode(&wire).expect("no larger than a packet");
            assert!(interest.must_be_fresh, "a refusal that was stored is no answer to the next try");
            let update = Update::decode(interest.application_parameters.expect("set")).expect("well formed");
            told.extend(update.advertised);
            let name = interest.name.to_name();
            let response = byname_wire::data::DataBuilder::new(name.clone()).content(vec![0; 200]).encode();
            assert!(Data::decode(&response).is_ok(), "there is room for an answer");
            assert!(router.answered(&name, 200, &message::encode_session(1)));
        }
    }
    assert!(now_ms < 100, "{now_ms} updates");
}

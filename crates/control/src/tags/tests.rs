//! Tests with networks of routers that lose messages and restart: in the end, all have the right descriptors.

use std::collections::BTreeSet;
use std::sync::Arc;

use byname_forward::tables::Tables;
use byname_lookup::Control;
use byname_lookup::oracle::{Oracle, TagsetOracle};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Data, Interest};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::message::DescriptorList;
use super::*;
use crate::security::{Signer, TrustedSigner, VerifyingKey};

const TREE: TreeId = TreeId(1);
/// The face to router i is `LINKS + i`; applications have the faces below.
const LINKS: u64 = 1000;
const APPS: [FaceId; 2] = [FaceId(300), FaceId(301)];
const SECRET: &[u8] = b"a secret of all routers";

fn descriptor(i: u64) -> Descriptor {
    Descriptor::of([format!("tag {i}")]).expect("one tag")
}

/// The set of the tags whose bits are set.
fn overlapping(bits: u64) -> Descriptor {
    Descriptor::of((0..6).filter(|tag| bits >> tag & 1 == 1).map(|tag| format!("tag {tag}"))).expect("few tags")
}

fn routing(limits: TagLimits, unix_ms: u64) -> TagRouting {
    let tables = Arc::new(Tables::new(Oracle::new().query()));
    TagRouting::new(FibWriter::new(Box::new(TagsetOracle::new()), tables), limits, unix_ms)
}

/// Keys from a secret: the one that all routers share, or another.
fn keys(secret: &[u8]) -> Arc<NeighborKeys> {
    let name: Name = "/net".parse().expect("a name");
    let trusted = TrustedSigner::Hmac { key_name: name.clone(), key: VerifyingKey::from_hmac_secret(secret) };
    Arc::new(NeighborKeys { signer: Signer::hmac(name, secret), trusted })
}

fn tree(neighbors: Vec<FaceId>) -> OwnTree {
    let keys = Some(keys(SECRET));
    let neighbors = neighbors.into_iter().map(|face| OwnNeighbor { face, keys: keys.clone() }).collect();
    OwnTree { id: TREE, label: Some(Label::new(0)), neighbors, generation: None }
}

fn few(descriptors_max: usize, descriptors_per_face_max: usize, descriptors_per_neighbor_max: usize) -> TagLimits {
    TagLimits { descriptors_max, descriptors_per_face_max, descriptors_per_neighbor_max, aggregate: false }
}

fn moment(ms: u64) -> Moment {
    Moment { ms, unix_ms: 1_700_000_000_000 + ms }
}

/// An update signed with these keys.
fn signed(keys: &NeighborKeys, parameters: Vec<u8>) -> Vec<u8> {
    let command = "/localhop/nfd/tags/update".parse().expect("a name");
    let interest = InterestBuilder::new(command, 7).application_parameters(parameters);
    keys.sign(&interest, 1).expect("a secret signs")
}

/// Lets a router receive an Interest from a face.
fn hear(router: &mut TagRouting, face: FaceId, wire: &[u8], now: Moment) -> Result<Heeded, TagRoutingError> {
    let interest = Interest::decode(wire).expect("it is one");
    let update = Update::decode(interest.application_parameters.expect("set")).expect("well formed");
    router.hear(face, (&interest, update), now)
}

/// The Data that answers an Interest, with its code and body.
fn answer(wire: &[u8], heeded: &Heeded) -> (Vec<u8>, u64, Vec<u8>) {
    let name = Interest::decode(wire).expect("it is one").name.to_name();
    let data = DataBuilder::new(name);
    let data = heeded.keys.as_ref().expect("keys").sign_answer(&data).expect("a secret signs");
    (data, if heeded.is_taken { 200 } else { 409 }, message::encode_session(heeded.session))
}

/// Lets a router receive an answer.
fn take(router: &mut TagRouting, (data, code, body): &(Vec<u8>, u64, Vec<u8>)) -> bool {
    router.answered(&Data::decode(data).expect("it is Data"), (*code, body), moment(1))
}

struct Network {
    /// The parent of each router except the first.
    parents: Vec<usize>,
    /// The descriptors that applications advertise, by number.
    descriptor: fn(u64) -> Descriptor,
    limits: TagLimits,
    routers: Vec<TagRouting>,
    /// Descriptors that each application of each router advertises.
    advertised: Vec<[BTreeSet<u64>; 2]>,
    now_ms: u64,
    /// All messages so far: receiver, face and content.
    recorded: Vec<(usize, FaceId, Vec<u8>)>,
}

impl Network {
    fn new(random: &mut SmallRng) -> Self {
        Self::of(random, descriptor, TagLimits::default())
    }

    fn of(random: &mut SmallRng, descriptor: fn(u64) -> Descriptor, limits: TagLimits) -> Self {
        let nodes = 2 + random.random_range(0..7) as usize;
        let parents = (0..nodes).map(|node| random.random_range(0..(node.max(1) as u64)) as usize).collect();
        let advertised = vec![Default::default(); nodes];
        let (routers, recorded) = (Vec::new(), Vec::new());
        let mut network = Network { parents, descriptor, limits, routers, advertised, now_ms: 1000, recorded };
        network.routers = (0..nodes).map(|node| network.router(node)).collect();
        network
    }

    fn neighbors(&self, node: usize) -> Vec<usize> {
        let children = (1..self.parents.len()).filter(|&child| self.parents[child] == node);
        children.chain((node > 0).then(|| self.parents[node])).collect()
    }

    fn router(&self, node: usize) -> TagRouting {
        let mut router = routing(self.limits, self.now_ms);
        router.replace_trees(vec![tree(self.neighbors(node).iter().map(|&n| FaceId(LINKS + n as u64)).collect())]);
        router
    }

    fn act(&mut self, random: &mut SmallRng) {
        let node = random.random_range(0..self.routers.len() as u64) as usize;
        let app = random.random_range(0..2) as usize;
        let some: Vec<u64> = (0..random.random_range(0..4)).map(|_| random.random_range(0..6)).collect();
        let descriptors = some.iter().map(|&i| (self.descriptor)(i)).collect();
        match random.random_range(0..8) {
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
                // The router restarts without its applications.
                self.advertised[node] = Default::default();
                self.routers[node] = self.router(node);
            }
        }
    }

    /// Lets all routers exchange messages for a while. `loss` is the percentage of messages lost.
    fn run(&mut self, steps: u64, step_ms: u64, loss: u64, random: &mut SmallRng) {
        for _ in 0..steps {
            self.now_ms += step_ms;
            for from in 0..self.routers.len() {
                for (face, wire) in self.routers[from].poll(moment(self.now_ms)) {
                    let to = (face.0 - LINKS) as usize;
                    self.recorded.push((to, FaceId(LINKS + from as u64), wire.clone()));
                    // Some messages arrive twice.
                    for _ in 0..1 + random.random_range(0..10) / 9 {
                        if random.random_range(0..100) < loss {
                            continue;
                        }
                        let back = FaceId(LINKS + from as u64);
                        let heeded = hear(&mut self.routers[to], back, &wire, moment(self.now_ms));
                        if random.random_range(0..100) >= loss {
                            take(&mut self.routers[from], &answer(&wire, &heeded.expect("a neighbour")));
                        }
                    }
                }
                self.replay(random);
            }
        }
    }

    /// An attacker who records everything replays earlier messages, to their receivers or to their senders.
    fn replay(&mut self, random: &mut SmallRng) {
        if self.recorded.is_empty() {
            return;
        }
        let (to, from, wire) = &self.recorded[random.random_range(0..self.recorded.len() as u64) as usize];
        let (to, from) = (*to, *from);
        let _ = hear(&mut self.routers[to], from, wire, moment(self.now_ms));
        let (sender, back) = ((from.0 - LINKS) as usize, FaceId(LINKS + to as u64));
        match hear(&mut self.routers[sender], back, wire, moment(self.now_ms)) {
            Ok(heeded) => assert!(!heeded.is_taken, "nobody takes his own updates for a neighbour's"),
            // The link that it was sent on may be on the tree no more.
            Err(refused) => assert!(matches!(refused, TagRoutingError::NoNeighbor { .. }), "{refused:?}"),
        }
    }

    /// The face of `node` that leads to `other`.
    fn face_towards(&self, node: usize, mut other: usize) -> FaceId {
        if node == other {
            return FaceId(0);
        }
        let mut way = vec![other];
        while other > 0 {
            other = self.parents[other];
            way.push(other);
        }
        // If `node` is above `other`, the way leads down to its child; otherwise to its parent.
        match way.iter().position(|&on_way| on_way == node) {
            Some(place) => FaceId(LINKS + way[place - 1] as u64),
            None => FaceId(LINKS + self.parents[node] as u64),
        }
    }

    fn check(&self, context: &str) {
        for (node, router) in self.routers.iter().enumerate() {
            let mut all = BTreeSet::new();
            for (origin, apps) in self.advertised.iter().enumerate() {
                for (app, some) in apps.iter().enumerate() {
                    let face = if origin == node { APPS[app] } else { self.face_towards(node, origin) };
                    all.extend(some.iter().map(|&i| ((self.descriptor)(i), face)));
                }
            }
            // A neighbour that aggregates tells only of those that no other one behind it covers.
            let mut expected = all.clone();
            if self.limits.aggregate {
                let covers = |(small, of): &(Descriptor, FaceId), (large, face): &(Descriptor, FaceId)| {
                    of == face && small != large && small.is_subset(large)
                };
                expected.retain(|one| APPS.contains(&one.1) || !all.iter().any(|other| covers(other, one)));
            }
            let known = router.rules.iter().flat_map(|(descriptor, rule)| {
                rule.nexthops.iter().map(move |nexthop| (Descriptor::clone(descriptor), nexthop.face))
            });
            let known = known.collect::<BTreeSet<_>>();
            assert_eq!(known, expected, "router {node}, {context}");
            // Packets with any of these tags go where they would go if all were told of all.
            for packet in (0..64).map(overlapping) {
                let faces = |of: &BTreeSet<(Descriptor, FaceId)>| {
                    let matching = of.iter().filter(|(descriptor, _)| descriptor.is_subset(&packet));
                    matching.map(|(_, face)| *face).collect::<BTreeSet<_>>()
                };
                assert_eq!(faces(&known), faces(&all), "router {node}, {context}, {packet:?}");
            }
            assert_eq!(router.is_empty(), expected.is_empty());
        }
    }
}

#[test]
fn descriptors_of_applications_pass_to_another_process() {
    let router = || {
        let mut router = routing(few(4_000, 4_000, 4_000), 1);
        router.replace_trees(vec![tree(vec![FaceId(LINKS)])]);
        router
    };
    let (mut old, mut new) = (router(), router());
    for (app, many) in [(APPS[0], 1_500), (APPS[1], 2)] {
        old.advertise(app, (0..many).map(descriptor).collect()).expect("few");
    }
    let of_applications = old.of_applications();
    assert!(of_applications.iter().any(|(_, lists)| lists.len() > 1), "more than one command can have");
    for (face, lists) in &of_applications {
        for list in lists {
            new.advertise(*face, message::decode_descriptors(list).expect("descriptors")).expect("few");
        }
    }
    assert_eq!(new.len(), old.len());
    let sorted = |mut all: Vec<(FaceId, Vec<Vec<u8>>)>| {
        all.sort();
        all
    };
    assert_eq!(sorted(new.of_applications()), sorted(of_applications));
}

#[test]
fn routers_agree_in_the_end_whatever_is_lost() {
    for seed in 0..40 {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut network = Network::new(&mut random);
        for round in 0..6 {
            for _ in 0..6 {
                network.act(&mut random);
                network.run(3, 200, 40, &mut random);
            }
            // Long enough for repeated refusals, for timeouts, and for sending everything again.
            network.run(400, 250, 0, &mut random);
            network.check(&format!("seed {seed}, round {round}"));
        }
    }
}

#[test]
fn aggregation_changes_no_delivery_whatever_is_lost() {
    // Few sets, of which many cover others: nothing, one tag, two tags and so on.
    let some = |i| overlapping([0, 1, 2, 3, 7, 63][i as usize]);
    for seed in 0..30 {
        let mut random = SmallRng::seed_from_u64(seed);
        let limits = TagLimits { aggregate: true, ..TagLimits::default() };
        let mut network = Network::of(&mut random, some, limits);
        for round in 0..6 {
            for _ in 0..6 {
                network.act(&mut random);
                network.run(3, 200, 40, &mut random);
            }
            network.run(400, 250, 0, &mut random);
            network.check(&format!("seed {seed}, round {round}"));
            // It ends and begins while the routers run.
            network.limits.aggregate = round % 3 != 1;
            let limits = network.limits;
            network.routers.iter_mut().for_each(|router| router.limit(limits));
            network.run(20, 250, 0, &mut random);
            network.check(&format!("seed {seed}, round {round}, aggregation is {}", limits.aggregate));
        }
    }
}

#[test]
fn packets_find_a_covering_descriptor_or_those_that_it_covered_at_any_time() {
    let mut router = routing(TagLimits { aggregate: true, ..TagLimits::default() }, 1);
    router.replace_trees(vec![tree(vec![FaceId(LINKS)])]);
    // More than fit into one update, all covered by the one with a single tag.
    let large = |i: u64| Descriptor::of([String::from("a"), format!("tag {i}")]).expect("two tags");
    let small = Descriptor::of(["a"]).expect("one tag");
    let packets: Vec<Descriptor> = (0..1000).map(large).collect();
    let mut now_ms = 0;
    let mut known = BTreeSet::new();
    let mut settle = |router: &mut TagRouting, is_kept: bool| {
        for _ in 0..40 {
            now_ms += 1;
            for (_, wire) in router.poll(moment(now_ms)) {
                let interest = Interest::decode(&wire).expect("it is one");
                let update = Update::decode(interest.application_parameters.expect("set")).expect("well formed");
                if update.echo == 1 {
                    update.withdrawn.iter().for_each(|one| assert!(known.remove(one), "it was told of"));
                    known.extend(update.advertised);
                }
                let heeded = Heeded { is_taken: true, session: 1, keys: Some(keys(SECRET)) };
                assert!(take(router, &answer(&wire, &heeded)));
                let finds = |packet: &Descriptor| known.iter().any(|one: &Descriptor| one.is_subset(packet));
                assert!(!is_kept || packets.iter().all(finds), "after {now_ms} ms");
            }
        }
        known.len()
    };
    router.advertise(APPS[0], packets.clone()).expect("few");
    assert_eq!(settle(&mut router, false), 1000);
    router.advertise(APPS[1], vec![small.clone()]).expect("one");
    assert_eq!(settle(&mut router, true), 1);
    router.withdraw(APPS[1], vec![small]);
    assert_eq!(settle(&mut router, true), 1000);
    router.remove_face(APPS[0]);
    assert_eq!(settle(&mut router, false), 0);
}

#[test]
fn a_neighbour_that_is_silent_is_forgotten_and_told_to_begin_again() {
    let mut random = SmallRng::seed_from_u64(1);
    let mut network = Network::new(&mut SmallRng::seed_from_u64(3));
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
fn trees_change_and_all_hear_of_all_descriptors_on_the_new_ones() {
    for seed in 0..20 {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut network = Network::new(&mut random);
        for round in 0..4 {
            network.run(40, 250, 0, &mut random);
            network.check(&format!("seed {seed}, round {round}"));
            // A node gets another parent. What has gone with a neighbour is forgotten, and what stays need not be repeated.
            let node = 1 + random.random_range(0..network.parents.len() as u64 - 1) as usize;
            network.parents[node] = random.random_range(0..node as u64) as usize;
            for node in 0..network.routers.len() {
                let neighbors = network.neighbors(node).iter().map(|&n| FaceId(LINKS + n as u64)).collect();
                network.routers[node].replace_trees(vec![tree(neighbors)]);
            }
            network.run(100, 250, 0, &mut random);
            network.check(&format!("seed {seed}, round {round}, after the change"));
        }
    }
}

#[test]
fn descriptors_of_applications_follow_to_trees_with_other_numbers() {
    let mut router = routing(TagLimits::default(), 1);
    let on = |id| OwnTree { id: TreeId(id), ..tree(Vec::new()) };
    router.replace_trees(vec![on(1), on(2)]);
    router.advertise(APPS[0], vec![descriptor(1), descriptor(2)]).expect("few");
    router.replace_trees(vec![on(2), on(3)]);
    let trees = |router: &TagRouting| router.by_face[&APPS[0]].iter().map(|(tree, _)| tree.0).collect::<BTreeSet<_>>();
    assert_eq!((trees(&router), router.len()), ([2, 3].into(), 2));
    router.withdraw(APPS[0], vec![descriptor(1), descriptor(2)]);
    assert!(router.is_empty() && router.by_face.is_empty());
}

#[test]
fn what_is_too_much_is_refused() {
    let mut router = routing(few(5, 2, 4), 1);
    router.replace_trees(vec![tree(vec![FaceId(LINKS)])]);
    let full = |descriptors| Err(TagRoutingError::FaceFull { descriptors });
    assert_eq!(router.advertise(APPS[0], (0..3).map(descriptor).collect()), full(0));
    assert_eq!(router.advertise(APPS[0], (0..2).map(descriptor).collect()), Ok(()));
    assert_eq!(router.advertise(APPS[0], (0..2).map(descriptor).collect()), Ok(()), "the same again");
    assert_eq!(router.advertise(APPS[0], vec![descriptor(9)]), full(2));
    let face = FaceId(LINKS);
    let tell = |router: &mut TagRouting, face, sequence, echo, descriptors: std::ops::Range<u64>| {
        let mut list = DescriptorList::default();
        descriptors.for_each(|i| assert!(list.push(&descriptor(i))));
        let update = Update::encode(TREE, 1, sequence, echo, &list, &DescriptorList::default());
        hear(router, face, &signed(&keys(SECRET), update), moment(1))
    };
    let echo = tell(&mut router, face, 1, 0, 10..20).expect("a neighbour").session;
    assert_eq!(router.len(), 2, "the update is not for this run of the router");
    assert!(tell(&mut router, face, 1, echo, 10..20).is_ok_and(|heeded| heeded.is_taken));
    assert_eq!((router.len(), router.refused()), (5, 7));
    assert_eq!(router.advertise(APPS[1], vec![descriptor(30)]), Err(TagRoutingError::Full { descriptors: 5 }));
    let stranger = tell(&mut router, APPS[0], 2, echo, 10..20).err();
    assert_eq!(stranger, Some(TagRoutingError::NoNeighbor { tree: TREE }));
    router.remove_face(APPS[0]);
    assert_eq!(router.len(), 3);
    assert!(tell(&mut router, face, 2, echo, 20..30).is_ok());
    assert_eq!(router.len(), 4, "as many as a neighbour may have");
    assert_eq!(router.addresses(APPS[1])[0].endpoint, Endpoint(APPS[1].0));
}

#[test]
fn updates_fit_into_packets() {
    let mut router = routing(TagLimits::default(), u64::MAX >> 1);
    router.replace_trees(vec![tree(vec![FaceId(LINKS)])]);
    let all: Vec<_> =
        (0..3000).map(|i| Descriptor::of((0..=i % 32).map(|tag| format!("{i} {tag}"))).expect("at most 32")).collect();
    router.advertise(APPS[0], all).expect("fewer than the limit");
    let mut told = BTreeSet::new();
    let mut now_ms = 0;
    while told.len() < 3000 {
        now_ms += 1;
        for (_, wire) in router.poll(moment(now_ms)) {
            let interest = Interest::decode(&wire).expect("no larger than a packet");
            assert!(interest.must_be_fresh, "a refusal that was stored is no answer to the next try");
            let update = Update::decode(interest.application_parameters.expect("set")).expect("well formed");
            if update.echo == 1 {
                told.extend(update.advertised);
            }
            let response = DataBuilder::new(interest.name.to_name()).content(vec![0; 200]).encode();
            assert!(Data::decode(&response).is_ok(), "there is room for an answer");
            assert!(take(
                &mut router,
                &answer(&wire, &Heeded { is_taken: true, session: 1, keys: Some(keys(SECRET)) })
            ));
        }
    }
    assert!(now_ms < 100, "{now_ms} updates");
    // As many go as come.
    let other = |i: u64| Descriptor::of((0..=i % 32).map(|tag| format!("other {i} {tag}"))).expect("at most 32");
    router.remove_face(APPS[0]);
    router.advertise(APPS[1], (0..3000).map(other).collect()).expect("fewer than the limit");
    let (mut came, mut gone) = (0, 0);
    while came + gone < 6000 {
        now_ms += 1;
        assert!(now_ms < 1000, "{came} came and {gone} went");
        for (_, wire) in router.poll(moment(now_ms)) {
            let interest = Interest::decode(&wire).expect("no larger than a packet");
            let update = Update::decode(interest.application_parameters.expect("set")).expect("well formed");
            (came, gone) = (came + update.advertised.len(), gone + update.withdrawn.len());
            let heeded = Heeded { is_taken: true, session: 1, keys: Some(keys(SECRET)) };
            assert!(take(&mut router, &answer(&wire, &heeded)));
        }
    }
}

/// Two routers with settled links. The first has one descriptor of an application.
fn settled() -> (Network, SmallRng) {
    let mut random = SmallRng::seed_from_u64(1);
    let mut network = Network::new(&mut SmallRng::seed_from_u64(3));
    network.routers[0].advertise(APPS[0], vec![descriptor(1)]).expect("one");
    network.advertised[0][0].insert(1);
    network.run(40, 250, 0, &mut random);
    network.check("at first");
    (network, random)
}

#[test]
fn who_forges_a_neighbour_tells_nothing_and_locks_nobody_out() {
    let (mut network, mut random) = settled();
    let face = FaceId(LINKS);
    let mut list = DescriptorList::default();
    (1_000..1_100).for_each(|i| assert!(list.push(&descriptor(i))));
    let none = DescriptorList::default();
    for secret in [&b"another secret"[..], b""] {
        for echo in [0, 1, u64::MAX] {
            let forged = Update::encode(TREE, u64::MAX, 1, echo, &list, &none);
            let refused = hear(&mut network.routers[1], face, &signed(&keys(secret), forged.clone()), moment(20_000));
            assert_eq!(refused.err(), Some(TagRoutingError::Unsigned));
            let command = "/localhop/nfd/tags/update".parse().expect("a name");
            let unsigned = InterestBuilder::new(command, 7).application_parameters(forged).encode();
            let refused = hear(&mut network.routers[1], face, &unsigned, moment(20_000));
            assert_eq!(refused.err(), Some(TagRoutingError::Unsigned));
        }
    }
    assert_eq!(network.routers[1].refused(), 12);
    network.check("after forgeries");
    network.routers[0].advertise(APPS[0], vec![descriptor(2)]).expect("one more");
    network.advertised[0][0].insert(2);
    network.run(40, 250, 0, &mut random);
    network.check("the neighbour is heard as before");
}

#[test]
fn what_was_recorded_tells_nothing_to_a_router_that_starts_anew() {
    let (mut network, mut random) = settled();
    // The recorded advertisement is withdrawn, and both routers restart. The recorded updates match no current session.
    network.routers[0].withdraw(APPS[0], vec![descriptor(1)]);
    network.advertised[0][0].clear();
    network.run(40, 250, 0, &mut random);
    for restarted in [1, 0] {
        network.routers[restarted] = network.router(restarted);
        for (to, from, wire) in network.recorded.clone() {
            let heeded = hear(&mut network.routers[to], from, &wire, moment(network.now_ms)).expect("a neighbour");
            assert!(to != restarted || !heeded.is_taken, "none is for this run of the router");
        }
        network.check("after the replay");
        network.run(40, 250, 0, &mut random);
    }
    network.routers[0].advertise(APPS[0], vec![descriptor(3)]).expect("one");
    network.advertised[0][0].insert(3);
    network.run(100, 250, 0, &mut random);
    network.check("in the end");
}

#[test]
fn answers_that_no_neighbour_has_signed_are_not_believed() {
    let mut router = routing(TagLimits::default(), 1);
    router.replace_trees(vec![tree(vec![FaceId(LINKS)])]);
    let (_, wire) = router.poll(moment(1)).remove(0);
    let forged = Heeded { is_taken: true, session: 1, keys: Some(keys(b"another secret")) };
    assert!(take(&mut router, &answer(&wire, &forged)), "it answers an update");
    assert_eq!(router.refused(), 1);
    assert!(router.poll(moment(20)).is_empty());
    assert_eq!(
        router.poll(moment(21)).len(),
        1,
        "the update is sent again soon: the neighbour may not know of this router"
    );
    assert!(router.poll(moment(900)).is_empty());
    assert_eq!(router.poll(moment(1021)).len(), 1);
}

#[test]
fn a_generation_is_in_service_when_all_neighbours_have_told_all() {
    let mut router = routing(TagLimits::default(), 1);
    let faces = [FaceId(LINKS), FaceId(LINKS + 1)];
    let generation = |id, is_settled, faces: &[FaceId]| OwnTree {
        id: TreeId(id),
        generation: Some(OwnGeneration { of: TREE, is_settled }),
        ..tree(faces.to_vec())
    };
    router.replace_trees(vec![tree(vec![]), generation(9, true, &[])]);
    assert_eq!((router.in_service(TREE), router.take_completed()), (Some(TreeId(9)), true), "it is alone");
    let later = |is_settled| vec![tree(vec![]), generation(17, is_settled, &faces), generation(9, true, &[])];
    router.replace_trees(later(false));
    let tell = |router: &mut TagRouting, face, sequence, echo, is_complete| {
        let none = DescriptorList::default();
        let mut update = Update::encode(TreeId(17), 1, sequence, echo, &none, &none);
        if is_complete {
            Update::push_complete(&mut update);
        }
        hear(router, face, &signed(&keys(SECRET), update), moment(1)).expect("a neighbour").session
    };
    let echoes = faces.map(|face| tell(&mut router, face, 1, 0, false));
    // Both know this router's session, and have answered. The first has all to tell.
    let mut now_ms = 10;
    let mut completed = |router: &mut TagRouting| {
        let mut told = Vec::new();
        for _ in 0..4 {
            now_ms += 1;
            for (face, wire) in router.poll(moment(now_ms)) {
                let interest = Interest::decode(&wire).expect("it is one");
                let update = Update::decode(interest.application_parameters.expect("set")).expect("well formed");
                told.extend(update.is_complete.then_some(face));
                let heeded = Heeded { is_taken: true, session: 7, keys: Some(keys(SECRET)) };
                assert!(take(router, &answer(&wire, &heeded)));
            }
        }
        told
    };
    assert_eq!(completed(&mut router), []);
    tell(&mut router, faces[0], 2, echoes[0], true);
    assert_eq!(completed(&mut router), [], "there may be more neighbours");
    router.replace_trees(later(true));
    assert_eq!(completed(&mut router), [faces[1]], "what the first has told, the second knows");
    assert_eq!((router.in_service(TREE), router.take_completed()), (Some(TreeId(9)), false));
    tell(&mut router, faces[1], 2, echoes[1], true);
    assert_eq!((router.in_service(TREE), router.take_completed()), (Some(TreeId(17)), true));
    assert!(completed(&mut router).contains(&faces[0]));
    let views = router.tree_views();
    assert_eq!((views.len(), views[0].id, views[0].neighbors.len()), (1, TREE, 2));
    router.replace_trees(vec![tree(vec![]), generation(9, true, &[])]);
    assert_eq!(router.in_service(TREE), Some(TreeId(9)));
}

#[test]
fn a_neighbour_sends_so_many_updates_and_no_more() {
    let mut router = routing(TagLimits::default(), 1);
    router.replace_trees(vec![tree(vec![FaceId(LINKS)])]);
    let none = DescriptorList::default();
    let tell = |router: &mut TagRouting, sequence, echo| {
        let update = Update::encode(TREE, 1, sequence, echo, &none, &none);
        hear(router, FaceId(LINKS), &signed(&keys(SECRET), update), moment(1))
    };
    let echo = tell(&mut router, 1, 0).expect("a neighbour").session;
    let taken = (1..4_000).take_while(|sequence| tell(&mut router, *sequence, echo).is_ok()).count();
    assert_eq!(taken, 2_000);
    assert_eq!(tell(&mut router, 5_000, echo).err(), Some(TagRoutingError::TooMany));
    assert!(tell(&mut router, 5_000, 0).is_ok(), "a neighbour that starts anew is answered");
}

//! A router among neighbours that lie, flood and repeat what others said.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use byname_routing::tlv::{self, SeqNoEntry};
use byname_routing::version::Main;
use byname_routing::{Action, Command, Config, Event, Policy, Router, Validity};
use byname_trust::{Moment, Rights, Signer};
use byname_wire::data::DataBuilder;
use byname_wire::interest::{Interest, InterestBuilder};
use byname_wire::name::component_type::SEGMENT;
use byname_wire::{Data, FaceId, Name, digest};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const UNIX_SECONDS: u64 = 1_700_000_000;
const BOOT: u64 = UNIX_SECONDS - 100;
/// Bytes of content in a segment of the tests' objects.
const SEGMENT_BYTES: usize = 7_000;

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

/// A router, and all packets that others would answer it with.
struct Stage {
    router: Router,
    now_ms: u64,
    /// Content of objects, by the names of their versions.
    objects: BTreeMap<Name, Vec<u8>>,
    /// Metadata: the last version of an object.
    versions: BTreeMap<Name, Name>,
    routes: BTreeSet<(Name, FaceId)>,
    /// What the certificates of those bind who sign below a name.
    bound: BTreeMap<Name, Arc<[Name]>>,
    nonce: u32,
}

impl Stage {
    fn new(configure: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::new(name("/net"), name("/net/me"), BOOT);
        config.hello.enabled = false;
        configure(&mut config);
        let now = Moment { ms: 0, unix_ms: UNIX_SECONDS * 1000 };
        let mut stage = Stage {
            router: Router::new(config, Signer::digest(), now).unwrap(),
            now_ms: 0,
            objects: BTreeMap::new(),
            versions: BTreeMap::new(),
            routes: BTreeSet::new(),
            bound: BTreeMap::new(),
            nonce: 0,
        };
        stage.carry_out();
        stage
    }

    fn moment(&self) -> Moment {
        Moment { ms: self.now_ms, unix_ms: UNIX_SECONDS * 1000 + self.now_ms }
    }

    fn tell(&mut self, event: Event<'_>) {
        let now = self.moment();
        self.router.handle(event, now);
        self.carry_out();
    }

    fn run(&mut self, for_ms: u64) {
        let until_ms = self.now_ms + for_ms;
        loop {
            let at = self.router.wake_at_ms();
            if at > until_ms {
                break;
            }
            self.now_ms = self.now_ms.max(at);
            let now = self.moment();
            self.router.poll(now);
            self.carry_out();
        }
        self.now_ms = until_ms;
    }

    fn carry_out(&mut self) {
        while let Some(action) = self.router.next_action() {
            let now = self.moment();
            match action {
                Action::SendInterest { wire, .. } => {
                    if let Some(answer) = self.answer(&wire) {
                        self.router.handle(Event::Data { wire: &answer }, now);
                    }
                }
                Action::Validate { id, wire, .. } => {
                    let data = Data::decode(&wire).unwrap();
                    let is_right = data.signature.value == digest::sha256(&data.signature.signed);
                    let bound = self.bound.iter().filter(|(below, _)| below.as_ref().is_prefix_of(&data.name));
                    let rights = bound.fold(Rights::default(), |rights, (_, prefixes)| rights.within(Some(prefixes)));
                    let validity = match is_right {
                        true => Validity::Trusted(rights),
                        false => Validity::Refused("forged".to_owned()),
                    };
                    self.router.handle(Event::Validated { id, validity }, now);
                }
                Action::Register { prefix, face: Some(face), .. } => drop(self.routes.insert((prefix, face))),
                Action::Unregister { prefix, face: Some(face) } => drop(self.routes.remove(&(prefix, face))),
                _ => {}
            }
        }
    }

    fn answer(&self, wire: &[u8]) -> Option<Vec<u8>> {
        let interest = Interest::decode(wire).unwrap();
        if interest.can_be_prefix {
            let version = self.versions.get(&interest.name.prefix(interest.name.len() - 1).to_name())?;
            let number = version.as_ref().component(-1).unwrap().number().unwrap();
            let data = interest.name.to_name().join_number(54, number).join_number(SEGMENT, 0);
            return Some(segment(data, 0, tlv::encode_metadata(version.as_ref(), 0)));
        }
        let number = interest.name.component(-1).filter(|last| last.typ == SEGMENT)?.number()?;
        let content = self.objects.get(&interest.name.prefix(interest.name.len() - 1).to_name())?;
        let last = (content.len().max(1) - 1) / SEGMENT_BYTES;
        let from = number as usize * SEGMENT_BYTES;
        let content = content[from..content.len().min(from + SEGMENT_BYTES)].to_vec();
        Some(segment(interest.name.to_name(), last as u64, content))
    }

    /// A neighbour says which advertisement is its last.
    fn sync(&mut self, router: &str, face: u64, boot: u64, seq: u64) {
        let data = sync_data(router, router, boot, seq);
        self.say("/localhop/net/32=DV/32=ADS/32=ACT", &data, face);
    }

    /// An Interest with Data inside arrives.
    fn say(&mut self, interest: &str, data: &[u8], face: u64) {
        self.nonce += 1;
        let interest = InterestBuilder::new(name(interest), self.nonce).application_parameters(data.to_vec());
        self.tell(Event::Interest { wire: &interest.encode(), face: FaceId(face) });
    }

    /// A neighbour with an advertisement of these routers, all at cost 1.
    fn advertise(&mut self, router: &str, face: u64, seq: u64, destinations: &[Name]) {
        let via = name(router);
        let others = destinations.iter().map(|other| (other.as_ref(), other.as_ref(), 1, 16));
        let content = tlv::encode_advertisement(others.chain([(via.as_ref(), via.as_ref(), 0, 16)]));
        self.objects.insert(name(&format!("/localhop{router}/32=DV/32=ADV/t={BOOT}/v={seq}")), content);
        self.sync(router, face, BOOT, seq);
    }

    /// The certificate of a router binds these prefixes from now on.
    fn bind(&mut self, router: &str, prefixes: &[&str]) {
        let prefixes = prefixes.iter().map(|prefix| name(prefix)).collect();
        self.bound.insert(name(&format!("/net/32=DV/32=PFS{router}")), prefixes);
    }

    /// A router publishes a snapshot of these prefixes, and a neighbour tells so.
    fn publish(&mut self, router: &str, face: u64, seq: u64, prefixes: &[Name]) {
        let additions = prefixes.iter().map(|prefix| (prefix.as_ref(), 0));
        let content = tlv::encode_prefix_ops(&Main, name(router).as_ref(), true, additions, []);
        self.publish_bytes(router, face, seq, content);
    }

    fn publish_bytes(&mut self, router: &str, face: u64, seq: u64, content: Vec<u8>) {
        let snapshots = format!("/net/32=DV/32=PFS{router}/t={BOOT}/32=SNAP");
        let version = name(&format!("{snapshots}/v={seq}"));
        self.objects.insert(version.clone(), content);
        self.versions.insert(name(&snapshots), version);
        let data = vector_data(router, &[(name(router), BOOT, seq)]);
        self.say("/net/32=DV/32=PFS/32=svs/v=3", &data, face);
    }

    fn counters(&self) -> byname_routing::status::Counters {
        self.router.status().counters
    }

    fn has_route(&self, prefix: &str) -> bool {
        self.routes.iter().any(|(known, _)| *known == name(prefix))
    }
}

#[test]
fn prefixes_outside_the_rights_of_their_signer_are_refused() {
    let mut stage = Stage::new(|_| {});
    stage.advertise("/net/a", 300, 1, &[name("/net/b"), name("/net/c")]);
    stage.run(100);
    stage.bind("/net/b", &["/video"]);
    let announced = ["/video/x", "/bank", "/", "/net/c", "/net/b/own"].map(name);
    stage.publish("/net/b", 300, 1, &announced);
    stage.publish("/net/c", 300, 1, &[name("/bank")]);
    stage.run(100);
    assert!(stage.has_route("/video/x") && stage.has_route("/net/b/own"));
    assert!(!stage.has_route("/") && !stage.has_route("/net/c"));
    assert_eq!(stage.counters().outside_rights, 3);
    let explanation = stage.router.explain(name("/bank/login").as_ref());
    assert_eq!(explanation.exits.iter().map(|exit| exit.router.clone()).collect::<Vec<_>>(), [name("/net/c")]);
    assert_eq!(explanation.outside_rights, [(name("/net/b"), name("/bank"))]);
    let of_b = |stage: &Stage| stage.router.status().routers.into_iter().find(|of| of.router == name("/net/b"));
    assert_eq!(of_b(&stage).map(|of| (of.prefixes, of.outside_rights)), Some((2, 3)));

    // A narrower certificate takes away what an earlier one permitted, also if only one prefix is announced anew.
    stage.bind("/net/b", &["/song"]);
    let again = [(name("/video/x"), 7)];
    let again = again.iter().map(|(prefix, cost)| (prefix.as_ref(), *cost));
    let content = tlv::encode_prefix_ops(&Main, name("/net/b").as_ref(), false, again, [name("/bank").as_ref()]);
    stage.objects.insert(name(&format!("/net/32=DV/32=PFS/net/b/t={BOOT}/seq=2/v=0")), content);
    let data = vector_data("/net/b", &[(name("/net/b"), BOOT, 2)]);
    stage.say("/net/32=DV/32=PFS/32=svs/v=3", &data, 300);
    stage.run(100);
    assert!(!stage.has_route("/video/x") && stage.has_route("/net/b/own"));
    // What it withdraws is not refused any more.
    let outside = stage.router.explain(name("/bank").as_ref()).outside_rights;
    assert_eq!(outside, [(name("/net/b"), name("/"))]);
}

#[test]
fn announcements_that_are_refused_are_bounded() {
    let mut stage = Stage::new(|_| {});
    stage.advertise("/net/a", 300, 1, &[name("/net/b")]);
    stage.bind("/net/b", &[]);
    stage.run(100);
    let many: Vec<Name> = (0..10_000).map(|i| name(&format!("/bank/{i}"))).collect();
    stage.publish("/net/b", 300, 1, &many);
    stage.run(1_000);
    let status = stage.router.status();
    assert_eq!(status.counters.outside_rights, 10_000);
    let of_b = status.routers.iter().find(|of| of.router == name("/net/b")).expect("it is known");
    assert_eq!((of_b.prefixes, of_b.outside_rights), (0, 64));
    assert!(!stage.routes.iter().any(|(prefix, _)| name("/bank").as_ref().is_prefix_of(&prefix.as_ref())));
}

#[test]
fn a_router_does_not_announce_what_others_would_refuse() {
    let rights = |prefixes: &[&str]| {
        let prefixes: Arc<[Name]> = prefixes.iter().map(|prefix| name(prefix)).collect();
        Rights::default().within(Some(&prefixes))
    };
    let mut stage = Stage::new(|config| config.rights = rights(&["/video"]));
    for prefix in ["/video/x", "/bank", "/net/me/own"] {
        stage.tell(Event::Announced { prefix: name(prefix), face: FaceId(400), cost: 0 });
    }
    stage.run(1_000);
    assert_eq!((stage.router.status().local_prefixes, stage.counters().denied), (2, 1));
    let local = stage.router.explain(name("/bank").as_ref()).local.expect("served here");
    assert!(!local.is_announced && !local.is_within_rights && local.rule.is_none());
    stage.tell(Event::Command(Command::SetRights(rights(&["/bank"]))));
    stage.run(1_000);
    let told = |prefix: &str| stage.router.explain(name(prefix).as_ref()).local.is_some_and(|local| local.is_announced);
    assert!(told("/bank") && told("/net/me/own") && !told("/video/x"));
}

fn segment(name: Name, last: u64, content: Vec<u8>) -> Vec<u8> {
    let last = Name::default().join_number(SEGMENT, last);
    DataBuilder::new(name).final_block(last.as_ref().component(0).unwrap()).content(content).encode()
}

/// Sync Data of `signer` about `router`.
fn sync_data(signer: &str, router: &str, boot: u64, seq: u64) -> Vec<u8> {
    let mut entries = Vec::new();
    tlv::push_state_entry(&mut entries, name(router).as_ref(), [SeqNoEntry { boot, seq }]);
    let data = DataBuilder::new(name(&format!("/localhop{signer}/32=DV/32=ADV/32=SYNC")));
    data.content(tlv::encode_state_vector(&entries)).encode()
}

fn vector_data(sender: &str, vector: &[(Name, u64, u64)]) -> Vec<u8> {
    let mut entries = Vec::new();
    for (router, boot, seq) in vector {
        tlv::push_state_entry(&mut entries, router.as_ref(), [SeqNoEntry { boot: *boot, seq: *seq }]);
    }
    let data = DataBuilder::new(name(&format!("/net/32=DV/32=PFS{sender}/t={BOOT}/32=svs/v={BOOT}000000")));
    data.content(tlv::encode_state_vector(&entries)).encode()
}

fn routers(prefix: &str, count: usize) -> Vec<Name> {
    (0..count).map(|i| name(&format!("/net/{prefix}{i}"))).collect()
}

#[test]
fn an_honest_neighbour_is_believed() {
    let mut stage = Stage::new(|_| {});
    stage.advertise("/net/a", 300, 1, &[name("/net/b")]);
    stage.run(100);
    stage.publish("/net/b", 300, 1, &[name("/video")]);
    stage.run(100);
    assert!(stage.has_route("/video"));
    let status = stage.router.status();
    assert_eq!((status.neighbours.len(), status.routers.len(), status.prefixes), (1, 2, 3));
    let counters = status.counters;
    assert_eq!((counters.malformed, counters.untrusted, counters.replayed, counters.over_limit), (0, 0, 0, 0));
}

#[test]
fn forged_and_misnamed_packets_make_no_neighbours() {
    let mut stage = Stage::new(|_| {});
    let mut forged = sync_data("/net/a", "/net/a", BOOT, 1);
    *forged.last_mut().unwrap() ^= 1;
    stage.say("/localhop/net/32=DV/32=ADS/32=ACT", &forged, 300);
    assert_eq!(stage.counters().untrusted, 1);
    // A router that speaks for another, or for a router of another network.
    for data in [sync_data("/net/a", "/net/b", BOOT, 1), sync_data("/other/a", "/other/a", BOOT, 1)] {
        stage.say("/localhop/net/32=DV/32=ADS/32=ACT", &data, 300);
    }
    assert_eq!(stage.counters().malformed, 2);
    // From the future, or with this router's own name.
    stage.sync("/net/a", 300, UNIX_SECONDS + 100_000, 1);
    stage.sync("/net/me", 300, BOOT + 1, 1);
    // Without the face that it came on.
    stage.sync("/net/a", 0, BOOT, 1);
    stage.run(1000);
    assert!(stage.router.status().neighbours.is_empty());
}

#[test]
fn repeated_packets_do_not_keep_a_neighbour_alive() {
    let mut stage = Stage::new(|_| {});
    stage.advertise("/net/a", 300, 5, &[]);
    stage.run(100);
    // What it said before, and what it said as it started earlier.
    assert!(stage.has_route("/net/32=DV/32=PFS/net/a"));
    for _ in 0..10 {
        stage.sync("/net/a", 300, BOOT, 4);
        stage.sync("/net/a", 301, BOOT - 50, 9);
        stage.run(5_000);
    }
    assert_eq!(stage.counters().replayed, 20);
    assert!(stage.router.status().neighbours.is_empty());
    assert!(!stage.has_route("/net/32=DV/32=PFS/net/a"));
    // Its last words could be its own.
    stage.sync("/net/a", 300, BOOT, 5);
    stage.run(100);
    assert!(stage.has_route("/net/32=DV/32=PFS/net/a"));
}

#[test]
fn repeated_publications_bring_nothing_back() {
    let mut stage = Stage::new(|_| {});
    stage.advertise("/net/a", 300, 1, &[name("/net/b")]);
    stage.run(100);
    stage.publish("/net/b", 300, 1, &[name("/kept"), name("/withdrawn")]);
    stage.run(100);
    let old = stage.objects.clone();
    let old_vector = vector_data("/net/b", &[(name("/net/b"), BOOT, 1)]);
    assert!(stage.has_route("/withdrawn"));
    stage.publish("/net/b", 300, 200, &[name("/kept")]);
    stage.run(1_000);
    assert!(stage.has_route("/kept") && !stage.has_route("/withdrawn"));
    // Somebody says again what was said before, and gives out the objects of then, as the last version, too.
    let of_b = name(&format!("/net/32=DV/32=PFS/net/b/t={BOOT}/32=SNAP"));
    stage.objects = old;
    stage.versions.insert(of_b.clone(), of_b.join_number(54, 1));
    for _ in 0..10 {
        stage.say("/net/32=DV/32=PFS/32=svs/v=3", &old_vector, 300);
        stage.run(1_000);
    }
    assert!(stage.has_route("/kept") && !stage.has_route("/withdrawn"));
    // A number that was never published makes it ask again. The old objects are no answer.
    let vector = vector_data("/net/b", &[(name("/net/b"), BOOT, 500)]);
    stage.say("/net/32=DV/32=PFS/32=svs/v=3", &vector, 300);
    for _ in 0..60 {
        // The neighbour is alive.
        stage.sync("/net/a", 300, BOOT, 1);
        stage.run(1_000);
    }
    assert!(stage.has_route("/kept") && !stage.has_route("/withdrawn"));
    // Starts of the future, and those before the present one, count for nothing.
    let before = stage.counters();
    for boot in [BOOT - 1_000, UNIX_SECONDS + 100_000] {
        stage.say("/net/32=DV/32=PFS/32=svs/v=3", &vector_data("/net/b", &[(name("/net/b"), boot, 9)]), 300);
        stage.run(1_000);
    }
    assert_eq!(stage.counters().replayed, before.replayed + 1);
    assert!(stage.has_route("/kept") && !stage.has_route("/withdrawn"));
}

#[test]
fn a_flood_on_one_face_does_not_disturb_another() {
    let mut stage = Stage::new(|_| {});
    stage.advertise("/net/a", 300, 1, &[]);
    let data = vector_data("/net/b", &[(name("/net/b"), BOOT, 1)]);
    for second in 0..40 {
        for i in 0..2_000 {
            match i % 3 {
                0 => stage.say("/net/32=DV/32=PFS/32=svs/v=3", &data, 301),
                1 => stage.sync("/net/b", 301, BOOT, 1 + second),
                _ => stage.say("/localhop/net/32=DV/32=ADS/32=HELLO", &data, 301),
            }
        }
        stage.run(1_000);
        stage.sync("/net/a", 300, BOOT, 1);
    }
    let status = stage.router.status();
    assert!(status.counters.flooded > 60_000, "{:?}", status.counters);
    assert!(status.neighbours.iter().any(|neighbour| neighbour.router == name("/net/a")));
    assert_eq!(status.counters.links_down, 0);
}

#[test]
fn a_flood_of_prefixes_is_cut_off_and_others_have_their_share() {
    let mut stage = Stage::new(|config| {
        config.limits.prefixes = 1_000;
        config.limits.prefixes_per_router = 100_000;
    });
    stage.advertise("/net/a", 300, 1, &[name("/net/greedy"), name("/net/modest")]);
    stage.run(100);
    let many: Vec<Name> = (0..20_000).map(|i| name(&format!("/greedy/{i}"))).collect();
    stage.publish("/net/greedy", 300, 1, &many);
    stage.run(1_000);
    let over = stage.counters().over_limit;
    assert!((19_000..20_000).contains(&over), "{over}");
    let few: Vec<Name> = (0..50).map(|i| name(&format!("/modest/{i}"))).collect();
    stage.publish("/net/modest", 300, 1, &few);
    stage.run(1_000);
    assert!((0..50).all(|i| stage.has_route(&format!("/modest/{i}"))));
    assert!(stage.router.status().prefixes <= 1_100);
    // The limit of one router counts, too.
    let mut stage = Stage::new(|config| config.limits.prefixes_per_router = 10);
    stage.advertise("/net/a", 300, 1, &[]);
    stage.run(100);
    stage.publish("/net/a", 300, 1, &many);
    stage.run(1_000);
    assert_eq!(stage.counters().over_limit, 19_990);
    // It may exchange one for another.
    stage.publish("/net/a", 300, 200, &[name("/other")]);
    stage.run(200_000);
    assert!(stage.has_route("/other") || stage.router.status().neighbours.is_empty());
}

#[test]
fn a_million_prefixes_of_one_router_are_too_much_to_fetch() {
    let mut stage = Stage::new(|_| {});
    stage.advertise("/net/a", 300, 1, &[name("/net/greedy"), name("/net/modest")]);
    stage.run(100);
    // A snapshot that is larger than any that is taken.
    let many: Vec<Name> = (0..1_000_000).map(|i| name(&format!("/greedy/of/a/router/that/floods/{i}"))).collect();
    stage.publish("/net/greedy", 300, 1, &many);
    stage.publish("/net/modest", 300, 1, &[name("/modest")]);
    stage.run(15_000);
    assert!(stage.has_route("/modest"));
    assert!(stage.counters().fetches_failed > 0);
    let status = stage.router.status();
    assert!(status.prefixes < 10, "{}", status.prefixes);
    // It is asked again, ever less often.
    let before = stage.counters().interests_out;
    stage.sync("/net/a", 300, BOOT, 1);
    stage.run(20_000);
    assert!(stage.counters().interests_out - before < 20_000);
}

#[test]
fn rules_say_which_prefixes_an_origin_may_announce() {
    let rules = [
        "accept permit prefix /bank origin /net/b",
        "accept deny prefix /bank",
        "accept permit prefix /a origin /net/a",
        "accept deny origin /net/a",
    ];
    let mut stage = Stage::new(|config| config.policy = Policy::parse(rules).unwrap());
    stage.advertise("/net/a", 300, 1, &[name("/net/b")]);
    stage.run(100);
    stage.publish("/net/b", 300, 1, &[name("/bank"), name("/other")]);
    stage.publish("/net/a", 300, 1, &["/bank", "/bank/login", "/a/photos", "/other/b"].map(name));
    stage.run(1_000);
    assert!(["/bank", "/other", "/a/photos"].iter().all(|prefix| stage.has_route(prefix)));
    assert!(!stage.has_route("/bank/login") && !stage.has_route("/other/b"));
    assert_eq!(stage.counters().denied, 3);
    let explanation = stage.router.explain(name("/bank/login/x").as_ref());
    let poisoned = explanation.exits.iter().find(|exit| exit.router == name("/net/a")).unwrap();
    assert!(!poisoned.is_accepted && poisoned.rule.as_ref().unwrap().to_string() == rules[1]);
    // With the same cost, /bank leads to the one that may announce it only.
    let explanation = stage.router.explain(name("/bank").as_ref());
    let accepted: Vec<String> =
        explanation.exits.iter().filter(|exit| exit.is_accepted).map(|exit| exit.router.to_string()).collect();
    assert_eq!(accepted, ["/net/b"]);
}

#[test]
fn a_flood_of_routers_is_cut_off_and_others_have_their_share() {
    let mut stage = Stage::new(|config| config.limits.routers = 100);
    stage.advertise("/net/greedy", 300, 1, &routers("fake", 101));
    stage.run(100);
    assert!(stage.router.status().routers.len() <= 101);
    stage.advertise("/net/greedy", 300, 2, &routers("fake", 90));
    stage.run(2_000);
    stage.advertise("/net/modest", 301, 1, &routers("real", 20));
    stage.run(2_000);
    let status = stage.router.status();
    let real = status.routers.iter().filter(|router| router.router.to_string().contains("real"));
    assert_eq!(real.filter(|router| router.cost.is_some()).count(), 20);
    assert!(status.routers.len() <= 101, "{}", status.routers.len());
    // An advertisement of more routers than can exist is refused as a whole.
    let before = stage.counters().malformed;
    stage.advertise("/net/greedy", 300, 3, &routers("fake", 200));
    stage.run(2_000);
    assert_eq!(stage.counters().malformed, before + 1);
}

#[test]
fn nobody_announces_what_belongs_to_others() {
    let mut stage = Stage::new(|_| {});
    stage.advertise("/net/a", 300, 1, &[name("/net/b")]);
    stage.run(100);
    let reserved = ["/localhost/nfd", "/localhop/net/a/32=DV", "/net/32=DV/32=PFS/net/b"].map(name);
    stage.publish("/net/a", 300, 1, &reserved);
    stage.run(100);
    assert_eq!(stage.counters().denied, 3);
    assert!(!stage.has_route("/localhost/nfd"));
    // A publication that says it is about another router.
    let other = tlv::encode_prefix_ops(&Main, name("/net/a").as_ref(), true, [(name("/stolen").as_ref(), 0)], []);
    stage.publish_bytes("/net/b", 300, 1, other);
    stage.run(100);
    assert!(!stage.has_route("/stolen"));
    assert_eq!(stage.counters().malformed, 1);
    // An infinite cost.
    let infinite =
        tlv::encode_prefix_ops(&Main, name("/net/a").as_ref(), true, [(name("/far").as_ref(), u64::MAX)], []);
    stage.publish_bytes("/net/a", 300, 200, infinite);
    stage.run(5_000);
    assert!(!stage.has_route("/far"));
}

#[test]
fn claims_about_others_do_not_stop_their_publications() {
    let mut stage = Stage::new(|_| {});
    stage.advertise("/net/a", 300, 1, &[name("/net/b")]);
    stage.run(100);
    stage.publish("/net/b", 300, 1, &[name("/first")]);
    stage.run(100);
    // A router of the network claims that b has restarted, many times, and has published without end.
    for boot in 1..1000 {
        let data = vector_data("/net/a", &[(name("/net/b"), BOOT + boot, u64::MAX)]);
        stage.say("/net/32=DV/32=PFS/32=svs/v=3", &data, 300);
        stage.run(20);
    }
    let publication = name(&format!("/net/32=DV/32=PFS/net/b/t={BOOT}/seq=2/v=0"));
    let content = tlv::encode_prefix_ops(&Main, name("/net/b").as_ref(), false, [(name("/second").as_ref(), 0)], []);
    stage.objects.insert(publication, content);
    stage.say("/net/32=DV/32=PFS/32=svs/v=3", &vector_data("/net/b", &[(name("/net/b"), BOOT, 2)]), 300);
    stage.run(100);
    assert!(stage.has_route("/first") && stage.has_route("/second"));
    // This router's own publications are its own affair.
    let data = vector_data("/net/a", &[(name("/net/me"), BOOT, 1_000)]);
    stage.say("/net/32=DV/32=PFS/32=svs/v=3", &data, 300);
    assert_eq!(stage.router.status().publication, 1);
}

#[test]
fn any_bytes_are_borne() {
    let mut random = StdRng::seed_from_u64(5);
    let mut stage = Stage::new(|_| {});
    stage.advertise("/net/a", 300, 1, &[name("/net/b")]);
    stage.run(100);
    let whole = [
        sync_data("/net/a", "/net/a", BOOT, 2),
        vector_data("/net/a", &[(name("/net/b"), BOOT, 7)]),
        tlv::encode_advertisement([(name("/net/a").as_ref(), name("/net/a").as_ref(), 0, 16)]),
        tlv::encode_prefix_ops(&Main, name("/net/b").as_ref(), true, [(name("/x").as_ref(), 0)], []),
    ];
    let interests = [
        "/localhop/net/32=DV/32=ADS/32=ACT",
        "/localhop/net/32=DV/32=ADS/32=PSV",
        "/localhop/net/32=DV/32=ADS/32=HELLO",
        "/net/32=DV/32=PFS/32=svs/v=3",
        "/localhost/nlsr/rib/register",
        "/localhost/nlsr",
    ];
    for _ in 0..20_000 {
        let mut bytes = whole[random.random_range(0..whole.len())].clone();
        for _ in 0..random.random_range(0..4) {
            let at = random.random_range(0..bytes.len());
            bytes[at] = random.random();
        }
        bytes.truncate(random.random_range(0..=bytes.len()));
        match random.random_range(0..4) {
            0 => stage.tell(Event::Interest { wire: &bytes, face: FaceId(300) }),
            1 => stage.tell(Event::Data { wire: &bytes }),
            2 => stage.publish_bytes("/net/b", 300, random.random_range(0..1000), bytes),
            _ => stage.say(interests[random.random_range(0..interests.len())], &bytes, random.random_range(300..303)),
        }
        stage.run(random.random_range(0..20));
    }
    let status = stage.router.status();
    assert!(status.counters.malformed > 1_000);
    assert!(status.neighbours.len() <= 3 && status.routers.len() <= 1_000);
}

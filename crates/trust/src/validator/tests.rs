//! Chains that are right, and chains that attackers make.

use std::collections::HashMap;
use std::time::Duration;

use byname_wire::data::DataBuilder;
use byname_wire::{Component, Name};

use super::*;
use crate::schema::Schema;
use crate::{NewKey, Signer, Terms, issue};

const NOW: Moment = Moment { ms: 50_000, unix_ms: 1_795_000_000_000 };
const DAY_MS: i64 = 24 * 3_600_000;

fn name(uri: &str) -> Name {
    uri.parse().expect("a test's own name")
}

fn at(ms: u64) -> Moment {
    Moment { ms: NOW.ms + ms, unix_ms: NOW.unix_ms + ms }
}

/// Keys and certificates by a label. The label is the identity.
#[derive(Default)]
struct World {
    keys: HashMap<String, NewKey>,
    packets: HashMap<String, Vec<u8>>,
}

impl World {
    fn key(&mut self, identity: &str, typ: KeyType) -> &NewKey {
        let new = || NewKey::generate(&name(identity), typ).expect("a key");
        self.keys.entry(identity.to_owned()).or_insert_with(new)
    }

    /// Signs as this identity, with the name of its key as the KeyLocator.
    fn signer(&mut self, identity: &str) -> Signer {
        let key = self.key(identity, KeyType::Ecdsa);
        Signer::from_pkcs8(key.name().clone(), key.pkcs8()).expect("a signer")
    }

    /// Issues a certificate that is valid from and until so many ms from now.
    fn issue_for(&mut self, identity: &str, issuer: &str, valid_ms: (i64, i64)) -> Certificate {
        let signer = self.signer(issuer);
        let key = self.key(identity, KeyType::Ecdsa);
        let moment = |ms: i64| Duration::from_millis(NOW.unix_ms.saturating_add_signed(ms));
        let valid = (moment(valid_ms.0), moment(valid_ms.1));
        let terms = Terms { issuer: Component::generic(b"test"), version: 7, valid };
        let packet = issue(key.name(), key.spki(), &signer, terms).expect("signed");
        let certificate = Certificate::decode(&packet).expect("a certificate");
        self.packets.insert(identity.to_owned(), packet);
        certificate
    }

    /// Issues a certificate that binds prefixes.
    fn issue_bound(&mut self, identity: &str, issuer: &str, announces: &[&str]) {
        let signer = self.signer(issuer);
        let key = self.key(identity, KeyType::Ecdsa);
        let moment = |ms: i64| Duration::from_millis(NOW.unix_ms.saturating_add_signed(ms));
        let terms = Terms { issuer: Component::generic(b"test"), version: 7, valid: (moment(-DAY_MS), moment(DAY_MS)) };
        let announces: Vec<Name> = announces.iter().map(|uri| name(uri)).collect();
        let packet = crate::issue_bound(key.name(), key.spki(), &signer, terms, Some(&announces)).expect("signed");
        self.packets.insert(identity.to_owned(), packet);
    }

    fn issue(&mut self, identity: &str, issuer: &str) -> Certificate {
        self.issue_for(identity, issuer, (-DAY_MS, DAY_MS))
    }

    fn data(&mut self, uri: &str, signer: &str) -> Vec<u8> {
        self.signer(signer).sign_data(&DataBuilder::new(name(uri)).content(vec![1; 20])).expect("signed")
    }
}

fn validator(anchor: Certificate, limits: Limits) -> Validator {
    Validator::new(vec![Domain { anchors: vec![anchor], rule: Rule::Hierarchical }], Revocations::default(), limits)
}

fn begin(validator: &mut Validator, packet: &[u8], face: u64, now: Moment) -> Begun {
    let data = Data::decode(packet).expect("Data");
    let origin = Origin { face: Some(face), forwarding_hint: vec![data.name.to_name()] };
    validator.begin(&Signed::data(&data), DomainSet::one(0), origin, now)
}

/// Serves certificates until the packet's outcome is known. Returns it with the names of the Interests.
fn run(validator: &mut Validator, world: &World, packet: &[u8]) -> (Result<Name, Rejection>, Vec<String>) {
    let key_name = |outcome: Outcome| outcome.map(|accepted| accepted.certificate.key_name.clone());
    let (mut now, mut asked, others) = (NOW, Vec::new(), validator.waiting());
    let id = match begin(validator, packet, 300, now) {
        Begun::Done(outcome) => return (key_name(outcome), asked),
        Begun::Waiting(id) => id,
    };
    for _ in 0..100 {
        for wanted in validator.poll(now) {
            asked.push(crate::identity_of_key(wanted.name.as_ref()).to_string());
            let has = |packet: &&Vec<u8>| wanted.name.as_ref().is_prefix_of(&Data::decode(packet).expect("Data").name);
            if let Some(packet) = world.packets.values().find(has) {
                validator.on_data(&Data::decode(packet).expect("Data"), now);
            }
        }
        if let Some((done, outcome)) = validator.take_done().pop() {
            assert_eq!((done, validator.waiting()), (id, others));
            assert_eq!(validator.next_deadline_ms().is_some(), others > 0);
            return (key_name(outcome), asked);
        }
        now = Moment { ms: now.ms + 500, unix_ms: now.unix_ms + 500 };
    }
    panic!("no outcome");
}

#[test]
fn a_chain_is_followed_once_and_then_known() {
    let mut world = World::default();
    let anchor = world.issue("/net", "/net");
    world.issue("/net/site", "/net");
    world.issue("/net/site/alice", "/net/site");
    let packet = world.data("/net/site/alice/file", "/net/site/alice");
    let mut validator = validator(anchor, Limits::default());
    let (outcome, asked) = run(&mut validator, &world, &packet);
    let alice = world.keys["/net/site/alice"].name().clone();
    assert_eq!((outcome, asked), (Ok(alice.clone()), vec!["/net/site/alice".to_owned(), "/net/site".to_owned()]));
    assert_eq!(validator.cached(), 2);
    let (outcome, asked) = run(&mut validator, &world, &packet);
    assert_eq!((outcome, asked.len()), (Ok(alice), 0));
    // What the anchor signs itself needs no certificate.
    let own = world.data("/net/notice", "/net");
    assert!(matches!(begin(&mut validator, &own, 1, NOW), Begun::Done(Ok(_))));
    let counters = validator.counters();
    assert_eq!((counters.accepted, counters.rejected, counters.waited, counters.interests), (3, 0, 1, 2));
}

#[test]
fn what_a_certificate_binds_restricts_all_below_it() {
    let mut world = World::default();
    let anchor = world.issue("/net", "/net");
    world.issue_bound("/net/site", "/net", &["/video", "/song"]);
    // It binds a prefix that its own issuer may not announce.
    world.issue_bound("/net/site/r1", "/net/site", &["/video/r1", "/bank"]);
    world.issue("/net/site/r2", "/net/site");
    world.issue("/net/r3", "/net");
    let mut validator = validator(anchor, Limits::default());
    let mut rights = |router: &str| {
        let packet = world.data(&format!("{router}/said"), router);
        run(&mut validator, &world, &packet).0.expect("trusted");
        // Now from the cache.
        let Begun::Done(Ok(accepted)) = begin(&mut validator, &packet, 300, NOW) else { panic!("not known") };
        accepted.rights
    };
    let permits = |rights: &Rights, uri: &str| rights.permits(name(uri).as_ref());
    let r1 = rights("/net/site/r1");
    assert!(permits(&r1, "/video/r1/a"));
    assert!(["/video", "/song", "/bank", "/"].iter().all(|uri| !permits(&r1, uri)));
    // The chain of this one ends at a certificate in the cache.
    let r2 = rights("/net/site/r2");
    assert!(permits(&r2, "/video") && permits(&r2, "/song/x") && !permits(&r2, "/bank"));
    assert!(rights("/net/r3").are_all());
}

#[test]
fn what_breaks_a_link_breaks_the_chain() {
    type Break = fn(&mut World) -> Limits;
    let with = |break_it: Break| {
        let mut world = World::default();
        let anchor = world.issue("/net", "/net");
        world.issue("/net/site", "/net");
        world.issue("/net/site/alice", "/net/site");
        let limits = break_it(&mut world);
        let packet = world.data("/net/site/alice/file", "/net/site/alice");
        let mut validator = validator(anchor, limits);
        let (outcome, _) = run(&mut validator, &world, &packet);
        assert_eq!(validator.cached(), 0, "certificates of broken chains are not kept");
        outcome.expect_err("a broken chain")
    };
    let expired = with(|world| {
        world.issue_for("/net/site", "/net", (-2 * DAY_MS, -1));
        Limits::default()
    });
    assert!(matches!(expired, Rejection::NotValidNow(_)), "{expired}");
    let future = with(|world| {
        world.issue_for("/net/site/alice", "/net/site", (60_000, DAY_MS));
        Limits::default()
    });
    assert!(matches!(future, Rejection::NotValidNow(_)), "{future}");
    let forged = with(|world| {
        // The name of the issuer's key, but another key.
        let issuer = world.keys["/net"].name().clone();
        let thief = World::default().key("/net", KeyType::Ecdsa).pkcs8().to_vec();
        let signer = Signer::from_pkcs8(issuer, &thief).expect("a signer");
        let key = &world.keys["/net/site"];
        let valid = (Duration::ZERO, Duration::from_secs(4_000_000_000));
        let terms = Terms { issuer: Component::generic(b"thief"), version: 9, valid };
        let packet = issue(key.name(), key.spki(), &signer, terms).expect("signed");
        world.packets.insert("/net/site".to_owned(), packet);
        Limits::default()
    });
    assert!(matches!(forged, Rejection::BadSignature(_)), "{forged}");
    let outside = with(|world| {
        // Bob may not sign for alice, though his chain is good.
        world.issue("/net/bob", "/net");
        world.issue("/net/site/alice", "/net/bob");
        Limits::default()
    });
    assert!(matches!(outside, Rejection::NotPermitted { .. }), "{outside}");
    let missing = with(|world| {
        world.packets.remove("/net/site");
        Limits::default()
    });
    assert!(matches!(missing, Rejection::NotFetched(_)), "{missing}");
    let strange = with(|_| Limits { key_types: vec![KeyType::Ed25519], ..Limits::default() });
    assert!(matches!(strange, Rejection::KeyType(_)), "{strange}");
    let long = with(|_| Limits { depth_max: 1, ..Limits::default() });
    assert_eq!(long, Rejection::TooLong { max: 1 });
    let no_certificate = with(|world| {
        let data = world.data("/net/site/KEY/x", "/net");
        let key = world.keys["/net/site"].name().join(Component::generic(b"x")).join(Component::generic(b"y"));
        let plain = world.signer("/net").sign_data(&DataBuilder::new(key).content(vec![1])).expect("signed");
        drop(data);
        world.packets.insert("/net/site".to_owned(), plain);
        Limits::default()
    });
    assert!(matches!(no_certificate, Rejection::WrongCertificate(_)), "{no_certificate}");
}

#[test]
fn circles_and_strange_anchors_end() {
    let mut world = World::default();
    let anchor = world.issue("/net", "/net");
    // The rule must not end the circle first: one identity signs for itself with two keys.
    let mut other = World::default();
    other.key("/net/a", KeyType::Ecdsa);
    world.issue("/net/a", "/net/a");
    let packet = world.data("/net/a/file", "/net/a");
    let mut validator = validator(anchor, Limits::default());
    let (outcome, _) = run(&mut validator, &world, &packet);
    assert!(matches!(outcome, Err(Rejection::UnknownAnchor(_))), "{outcome:?}");

    let (a, b) = (&world.keys["/net/a"], &other.keys["/net/a"]);
    let sign = |of: &NewKey, by: &NewKey| {
        let valid = (Duration::ZERO, Duration::from_secs(4_000_000_000));
        let terms = Terms { issuer: Component::generic(b"x"), version: 1, valid };
        issue(of.name(), of.spki(), by.signer(), terms).expect("signed")
    };
    let (of_a, of_b) = (sign(a, b), sign(b, a));
    world.packets.insert("/net/a".to_owned(), of_a);
    world.packets.insert("b".to_owned(), of_b);
    let (outcome, asked) = run(&mut validator, &world, &packet);
    assert!(matches!(outcome, Err(Rejection::Loop(_))), "{outcome:?}");
    assert_eq!(asked.len(), 2);
}

#[test]
fn revoked_keys_are_refused_also_from_the_cache() {
    let mut world = World::default();
    let anchor = world.issue("/net", "/net");
    world.issue("/net/site", "/net");
    world.issue("/net/site/alice", "/net/site");
    let packet = world.data("/net/site/alice/file", "/net/site/alice");
    for revoked in ["/net/site/alice", "/net/site"] {
        let key = world.keys[revoked].name().clone();
        let list = Revocations::parse(&key.to_string()).expect("a list");
        let mut validator = validator(anchor.clone(), Limits::default());
        assert!(run(&mut validator, &world, &packet).0.is_ok());
        let domains = validator.domains().to_vec();
        validator.replace_rules(Validator::new(domains, list, Limits::default()));
        let (outcome, _) = run(&mut validator, &world, &packet);
        assert!(matches!(outcome, Err(Rejection::Revoked(_))), "{revoked}: {outcome:?}");
    }
    let key = anchor.key_name.to_string();
    let mut of_anchor = Validator::new(
        vec![Domain { anchors: vec![anchor], rule: Rule::Hierarchical }],
        Revocations::parse(&key).expect("a list"),
        Limits::default(),
    );
    let own = world.data("/net/notice", "/net");
    assert!(matches!(begin(&mut of_anchor, &own, 1, NOW), Begun::Done(Err(Rejection::Revoked(_)))));
}

#[test]
fn a_cached_chain_ends_with_its_first_certificate() {
    let mut world = World::default();
    let anchor = world.issue("/net", "/net");
    world.issue_for("/net/site", "/net", (-DAY_MS, 60_000));
    world.issue("/net/site/alice", "/net/site");
    let packet = world.data("/net/site/alice/file", "/net/site/alice");
    let mut validator = validator(anchor, Limits::default());
    assert!(run(&mut validator, &world, &packet).0.is_ok());
    assert!(matches!(begin(&mut validator, &packet, 1, at(58_000)), Begun::Done(Ok(_))));
    assert!(matches!(begin(&mut validator, &packet, 1, at(62_000)), Begun::Waiting(_)), "alice's own one is valid");
}

#[test]
fn a_flood_of_unknown_keys_is_bounded_and_leaves_room_for_others() {
    let mut world = World::default();
    let anchor = world.issue("/net", "/net");
    world.issue("/net/alice", "/net");
    let mut validator = validator(anchor, Limits { waiting_max: 64, ..Limits::default() });
    let flooder = world.signer("/net/flooder");
    let pkcs8 = world.keys["/net/flooder"].pkcs8().to_vec();
    drop(flooder);
    let (mut waiting, mut busy) = (0, 0);
    for n in 0..500 {
        let locator = name(&format!("/net/flooder/KEY/{n}"));
        let signer = Signer::from_pkcs8(locator, &pkcs8).expect("a signer");
        let packet = signer.sign_data(&DataBuilder::new(name("/net/flooder/x"))).expect("signed");
        match begin(&mut validator, &packet, 999, NOW) {
            Begun::Waiting(_) => waiting += 1,
            Begun::Done(Err(Rejection::Busy)) => busy += 1,
            Begun::Done(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((waiting, busy, validator.waiting()), (8, 492, 8));
    assert_eq!(validator.poll(NOW).len(), 8);
    // Another face is served meanwhile.
    let packet = world.data("/net/alice/file", "/net/alice");
    assert!(run(&mut validator, &World { packets: world.packets.clone(), ..World::default() }, &packet).0.is_ok());
    // Keys that cannot be permitted cost no Interest.
    let evil = world.data("/net/alice/file", "/evil");
    assert!(matches!(begin(&mut validator, &evil, 1, NOW), Begun::Done(Err(Rejection::NotPermitted { .. }))));
    // Later the flood is over, and its keys are not asked for again at once.
    validator.poll(at(3_000));
    assert_eq!((validator.take_done().len(), validator.waiting()), (8, 0));
    let again = Signer::from_pkcs8(name("/net/flooder/KEY/1"), &pkcs8).expect("a signer");
    let again = again.sign_data(&DataBuilder::new(name("/net/flooder/x"))).expect("signed");
    assert!(matches!(begin(&mut validator, &again, 999, at(4_000)), Begun::Done(Err(Rejection::NotFetched(_)))));
    assert!(matches!(begin(&mut validator, &again, 999, at(14_000)), Begun::Waiting(_)));
}

#[test]
fn the_cache_is_bounded() {
    let mut world = World::default();
    let anchor = world.issue("/net", "/net");
    let mut validator = validator(anchor, Limits { certificates_max: 3, ..Limits::default() });
    for n in 0..6 {
        let identity = format!("/net/{n}");
        world.issue(&identity, "/net");
        let packet = world.data(&format!("{identity}/x"), &identity);
        assert!(run(&mut validator, &world, &packet).0.is_ok());
    }
    assert_eq!(validator.cached(), 3);
}

#[test]
fn interests_go_to_the_sender_first_and_then_by_routes_all_with_the_hint() {
    let mut world = World::default();
    let anchor = world.issue("/net", "/net");
    world.issue("/net/alice", "/net");
    let mut validator = validator(anchor, Limits::default());
    let packet = world.data("/net/alice/file", "/net/alice");
    let Begun::Waiting(_) = begin(&mut validator, &packet, 300, NOW) else { panic!("not in the cache") };
    let mut tries = Vec::new();
    for ms in (0..3_000).step_by(250) {
        tries.extend(validator.poll(at(ms)).into_iter().map(|wanted| (ms, wanted.face, wanted.forwarding_hint)));
    }
    let hint = vec![name("/net/alice/file")];
    assert_eq!(tries, [(0, Some(300), hint.clone()), (1_000, None, hint.clone()), (2_000, Some(300), hint)]);
    // A Nack makes the next try due at once.
    let other = world.data("/net/alice/other", "/net/alice");
    validator.poll(at(3_000));
    let Begun::Waiting(_) = begin(&mut validator, &other, 300, at(20_000)) else { panic!("not in the cache") };
    assert_eq!(validator.poll(at(20_000)).len(), 1);
    let key = world.keys["/net/alice"].name().clone();
    assert!(validator.on_nack(key.as_ref(), at(20_100)));
    assert_eq!(validator.poll(at(20_100)).len(), 1);
    assert!(!validator.on_nack(name("/net/bob/KEY/1").as_ref(), at(20_100)));
}

#[test]
fn a_wrong_answer_does_not_end_the_wait_for_the_right_one() {
    let mut world = World::default();
    let anchor = world.issue("/net", "/net");
    world.issue("/net/alice", "/net");
    let mut validator = validator(anchor, Limits::default());
    let packet = world.data("/net/alice/file", "/net/alice");
    let Begun::Waiting(id) = begin(&mut validator, &packet, 300, NOW) else { panic!("not in the cache") };
    assert_eq!(validator.poll(NOW).len(), 1);
    // Another key under the name of alice's.
    let key = world.keys["/net/alice"].name().clone();
    let thief = NewKey::generate(&name("/net/alice"), KeyType::Ecdsa).expect("a key");
    let signer = Signer::from_pkcs8(key.clone(), thief.pkcs8()).expect("a signer");
    let valid = (Duration::ZERO, Duration::from_secs(4_000_000_000));
    let terms = Terms { issuer: Component::generic(b"x"), version: 1, valid };
    let wrong = issue(&key, thief.spki(), &signer, terms).expect("signed");
    assert!(validator.on_data(&Data::decode(&wrong).expect("Data"), NOW));
    let poisoned = validator.take_poisoned();
    assert!(poisoned.len() == 1 && validator.take_done().is_empty() && validator.poll(NOW).is_empty());
    // Without that packet in the content store, the next try is due at once, and the third one is not.
    validator.on_erased(poisoned[0].as_ref(), NOW);
    assert_eq!(validator.poll(NOW).len(), 1);
    validator.on_erased(poisoned[0].as_ref(), NOW);
    assert!(validator.poll(NOW).is_empty());
    let right = world.packets["/net/alice"].clone();
    assert!(validator.on_data(&Data::decode(&right).expect("Data"), NOW));
    let done = validator.take_done();
    assert!(matches!(&done[..], [(done, Ok(_))] if *done == id), "{done:?}");
    assert!(!validator.on_data(&Data::decode(&right).expect("Data"), NOW), "nobody waits any more");
}

#[test]
fn known_certificates_are_not_fetched_but_checked() {
    let mut world = World::default();
    let anchor = world.issue("/net", "/net");
    let site = world.issue("/net/site", "/net");
    let alice = world.issue("/net/site/alice", "/net/site");
    let packet = world.data("/net/site/alice/file", "/net/site/alice");
    let mut knowing = validator(anchor.clone(), Limits::default()).with_certificates([site.clone(), alice]);
    let (outcome, asked) = run(&mut knowing, &world, &packet);
    assert!(outcome.is_ok() && asked.is_empty(), "{outcome:?} {asked:?}");
    let old = world.issue_for("/net/site/alice", "/net/site", (-DAY_MS, -1));
    let mut knowing = validator(anchor, Limits::default()).with_certificates([site, old]);
    let (outcome, _) = run(&mut knowing, &world, &packet);
    assert!(matches!(outcome, Err(Rejection::NotValidNow(_))), "{outcome:?}");
}

#[test]
fn domains_have_rules_of_their_own() {
    let mut world = World::default();
    let anchor = world.issue("/net", "/net");
    world.issue("/net/r1", "/net");
    let schema =
        "#anchor: \"net\"/#KEY\n#router: \"net\"/r/#KEY <= #anchor\n#data: \"hop\"/r/_ <= #router\n#KEY: \"KEY\"/_/_/_";
    let schema = Rule::Schema(Arc::new(Schema::compile(schema).expect("a schema")));
    let domain = |rule| Domain { anchors: vec![anchor.clone()], rule };
    let domains = vec![domain(Rule::Hierarchical), domain(schema)];
    let mut validator = Validator::new(domains, Revocations::default(), Limits::default());
    let both = DomainSet::one(0).union(DomainSet::one(1));
    let certificate = world.packets["/net/r1"].clone();
    for (uri, expected) in
        [("/hop/r1/x", Some(DomainSet::one(1))), ("/net/r1/x", Some(DomainSet::one(0))), ("/hop/r2/x", None)]
    {
        let packet = world.data(uri, "/net/r1");
        let data = Data::decode(&packet).expect("Data");
        let outcome = match validator.begin(&Signed::data(&data), both, Origin::default(), NOW) {
            Begun::Done(outcome) => outcome,
            Begun::Waiting(_) => {
                validator.on_data(&Data::decode(&certificate).expect("Data"), NOW);
                validator.take_done().pop().expect("an outcome").1
            }
        };
        assert_eq!(outcome.ok().map(|accepted| accepted.domains), expected, "{uri}");
    }
}

#[test]
fn signatures_without_a_key_prove_nothing() {
    let mut world = World::default();
    let anchor = world.issue("/net", "/net");
    let mut validator = validator(anchor, Limits::default());
    let digest = DataBuilder::new(name("/net/x")).encode();
    assert!(matches!(begin(&mut validator, &digest, 1, NOW), Begun::Done(Err(Rejection::Keyless(0)))));
    let hmac =
        Signer::hmac(name("/net/KEY/1"), b"secret").sign_data(&DataBuilder::new(name("/net/x"))).expect("signed");
    assert!(matches!(begin(&mut validator, &hmac, 1, NOW), Begun::Done(Err(Rejection::Keyless(4)))));
}

//! Tests of rights to names: in particular, nobody can take over management's names.

use byname_forward::face_table::LinkType;
use byname_forward::strategy::StrategyChoice;
use byname_forward::{LinkFields, Packet, Received, Ticks};

use super::*;
use crate::security::{Module, Rule, TimeWindow, TrustedSigner, VerifyingKey};

/// Names reserved for the router.
const OWN: [&str; 6] = [
    "/localhost/nfd",
    "/localhost/nfd/faces",
    "/localhost/nfd/rib/register",
    "/localhop/nfd",
    "/localhop/nfd/rib",
    "/localhop/nfd/x/y",
];

fn rule(remote: bool, signer: TrustedSigner, modules: &[Module], prefixes: Option<&[&str]>) -> Rule {
    let prefixes = prefixes.map(|prefixes| prefixes.iter().map(|prefix| name(prefix)).collect());
    Rule { remote, signer, modules: modules.to_vec(), prefixes }
}

/// A key that the configuration knows, and its signer.
fn key(uri: &str) -> (TrustedSigner, Signer) {
    let secret = uri.as_bytes();
    let trusted = TrustedSigner::Hmac { key_name: name(uri), key: VerifyingKey::from_hmac_secret(secret) };
    (trusted, Signer::hmac(name(uri), secret))
}

fn router(rules: Vec<Rule>) -> Router {
    Router::with_rights(1000, Authorizer::new(rules, TimeWindow::default()))
}

fn via(uri: &str, face: FaceId) -> ControlParameters {
    ControlParameters { face_id: Some(face.0), ..prefix(uri) }
}

fn announcement(uri: &str, signer: &Signer) -> Vec<u8> {
    let name = name(&format!("{}/32=PA/v=1/seg=0", uri.trim_end_matches('/')));
    let data = DataBuilder::new(name).content_type(content_type::PREFIX_ANN).content(vec![0x6d, 2, 0x0e, 0x10]);
    signer.sign_data(&data).expect("signed")
}

#[test]
fn names_of_management_cannot_be_registered_by_anybody() {
    let mut router = Router::new(100);
    for own in OWN {
        for verb in ["rib/register", "rib/unregister", "fib/add-nexthop", "fib/remove-nexthop"] {
            for face in [APP, NEIGHBOUR] {
                let response = router.command(verb, &via(own, face));
                assert_eq!(response.code, 403, "{verb} {own}");
                assert!(response.text.contains("/localhost/nfd"), "{}", response.text);
            }
        }
        let announcement = announcement(own, &router.signer);
        let interest =
            InterestBuilder::new(name("/localhost/nfd/rib/announce"), 7).application_parameters(announcement);
        let wire = router.signer.sign_command(&interest, router.now.unix_ms).expect("signed");
        assert_eq!(router.send(&wire, APP).map(|response| response.code), Some(403), "announce {own}");
    }
    for uri in ["/", "/localhost", "/localhop", "/localhost/nfd2"] {
        assert_eq!(router.command("rib/register", &prefix(uri)).code, 200, "{uri}");
    }
    assert_eq!(router.routes().len(), 4);
}

#[test]
fn reserved_faces_are_no_nexthops_and_stay() {
    let mut router = Router::new(100);
    for face in [1, 2, 254, 255].map(FaceId) {
        for verb in ["rib/register", "rib/unregister", "fib/add-nexthop", "fib/remove-nexthop"] {
            assert_eq!(router.command(verb, &via("/a", face)).code, 403, "{verb} {face}");
        }
        let id = ControlParameters { face_id: Some(face.0), ..ControlParameters::default() };
        for verb in ["faces/destroy", "faces/update"] {
            assert_eq!(router.command(verb, &id).code, 403, "{verb} {face}");
        }
    }
    assert!(router.management.forwarder.face(FaceId::INTERNAL).is_some());
    let route = crate::rib::Route { face: FaceId::INTERNAL, origin: 255, cost: 0, flags: 1, expires_at_ms: None };
    assert!(router.management.insert_route(&name("/a"), &route).is_err(), "of the configuration");
    let route = crate::rib::Route { face: NEIGHBOUR, ..route };
    assert!(router.management.insert_route(&name("/localhost/nfd/x"), &route).is_err(), "of the configuration");
}

#[test]
fn a_neighbour_registers_below_its_identity_and_its_own_face() {
    let (alice, by_alice) = key("/net/alice/KEY/1");
    let (bob, by_bob) = key("/net/bob/KEY/1");
    let mut router = router(vec![
        rule(true, alice, &[Module::Rib], None),
        rule(true, bob, &[Module::Rib], Some(&["/net/club", "/"])),
    ]);
    let register = "/localhop/nfd/rib/register";
    for (uri, code) in [("/net/alice", 200), ("/net/alice/app", 200), ("/", 403), ("/net", 403), ("/net/bob", 403)] {
        let (answered, text) = router.command_by(&by_alice, register, &prefix(uri), NEIGHBOUR);
        assert_eq!(answered, code, "{uri}: {text}");
    }
    for verb in ["rib/unregister", "rib/register"] {
        let uri = format!("/localhop/nfd/{verb}");
        let (code, text) = router.command_by(&by_alice, &uri, &via("/net/alice", APP), NEIGHBOUR);
        assert!(code == 403 && text.contains("FaceId"), "{verb}: {code} {text}");
        assert_eq!(router.command_by(&by_alice, &uri, &via("/net/alice", NEIGHBOUR), NEIGHBOUR).0, 200);
    }
    for (uri, code) in [("/", 200), ("/net/bob", 200), ("/localhop/nfd", 403), ("/localhost/nfd/rib", 403)] {
        assert_eq!(router.command_by(&by_bob, register, &prefix(uri), NEIGHBOUR).0, code, "{uri}");
    }
    // On this host, the rule limits names only by its prefixes.
    assert_eq!(router.command_by(&by_alice, register, &prefix("/net/bob"), APP).0, 200);
    assert_eq!(router.management.authorizer.refusals().of(crate::security::Refusal::OutsidePrefixes), 3);
}

#[test]
fn who_brings_an_announcement_needs_the_right_as_well_as_who_made_it() {
    let (alice, by_alice) = key("/net/alice/KEY/1");
    let (bob, by_bob) = key("/net/bob/KEY/1");
    let mut router =
        router(vec![rule(true, alice, &[Module::Rib], None), rule(true, bob, &[Module::Rib], Some(&["/net"]))]);
    let mut announce = |by: &Signer, of: &Signer, uri: &str| {
        let interest = InterestBuilder::new(name("/localhop/nfd/rib/announce"), 7);
        let interest = interest.application_parameters(announcement(uri, of));
        let wire = by.sign_command(&interest, router.now.unix_ms).expect("signed");
        router.send(&wire, NEIGHBOUR).expect("an answer").code
    };
    assert_eq!(announce(&by_alice, &by_alice, "/net/alice/app"), 200);
    assert_eq!(announce(&by_bob, &by_alice, "/net/alice/app"), 200);
    assert_eq!(announce(&by_alice, &by_bob, "/net/bob"), 403, "alice brings what is not hers");
    assert_eq!(announce(&by_bob, &by_alice, "/net/bob"), 403, "alice announces what is not hers");
}

#[test]
fn prefixes_limit_signers_on_this_host_too() {
    let modules = [Module::Rib, Module::Fib, Module::Cs, Module::StrategyChoice];
    let mut router = router(vec![
        rule(false, TrustedSigner::Any, &modules, Some(&["/app", "/test"])),
        rule(false, TrustedSigner::Any, &[Module::Fib], Some(&["/fib"])),
    ]);
    let multicast = StrategyName(name("/localhost/nfd/strategy/multicast"));
    for verb in ["rib/register", "fib/add-nexthop", "cs/erase", "strategy-choice/set", "strategy-choice/unset"] {
        let mut code = |uri: &str| {
            let strategy = Some(multicast.clone()).filter(|_| verb == "strategy-choice/set");
            router.command(verb, &ControlParameters { strategy, ..prefix(uri) }).code
        };
        assert_eq!(
            [code("/app"), code("/test/x"), code("/application"), code("/other")],
            [200, 200, 403, 403],
            "{verb}"
        );
        assert_eq!(code("/fib"), if verb == "fib/add-nexthop" { 200 } else { 403 }, "{verb}");
    }
}

#[test]
fn a_hub_is_named_by_the_configuration_or_by_whom_it_lets() {
    let (operator, by_operator) = key("/operator/KEY/1");
    let mut router = router(vec![
        rule(false, operator, &Module::ALL, Some(&["/", "/localhop/nfd"])),
        rule(false, TrustedSigner::Any, &[Module::Rib], None),
    ]);
    let register = "/localhost/nfd/rib/register";
    let hub = |face| ControlParameters { cost: Some(100), ..via("/localhop/nfd", face) };
    assert_eq!(router.command("rib/register", &hub(NEIGHBOUR)).code, 403, "any application");
    assert_eq!(router.command_by(&by_operator, register, &hub(APP), APP).0, 403, "an application is no hub");
    assert_eq!(router.command_by(&by_operator, register, &via("/localhop/nfd/rib", NEIGHBOUR), APP).0, 403);
    assert_eq!(router.command_by(&by_operator, register, &hub(FaceId::INTERNAL), APP).0, 403);
    assert_eq!(router.command("rib/register", &prefix("/")).code, 200);
    assert_eq!(rule_of(&router, "/localhop/nfd"), [(1, 0)]);

    // The registration that ndn-autoconfig sends.
    assert_eq!(router.command_by(&by_operator, register, &hub(NEIGHBOUR), APP).0, 200);
    assert_eq!(rule_of(&router, "/localhop/nfd"), [(NEIGHBOUR.0, 100), (1, u64::MAX)], "nothing inherited");
    let command = router.signed(name("/localhop/nfd/rib/register").join(Component::generic(&prefix("/b").encode())));
    assert!(router.send(&command, APP).is_none(), "meant for the hub");
    assert!(router.send(&command, NEIGHBOUR).is_some(), "a neighbour's is answered, if only by 403");
    assert_eq!(router.command("rib/register", &prefix("/c")).code, 200, "and so is /localhost");

    let unregister = "/localhost/nfd/rib/unregister";
    assert_eq!(router.command("rib/unregister", &hub_route(NEIGHBOUR)).code, 403);
    assert_eq!(router.command_by(&by_operator, unregister, &hub_route(NEIGHBOUR), APP).0, 200);
    assert_eq!(rule_of(&router, "/localhop/nfd"), [(1, 0)]);
    let route = crate::rib::Route { face: NEIGHBOUR, origin: 255, cost: 0, flags: 1, expires_at_ms: None };
    assert!(router.management.insert_route(&name("/localhop/nfd"), &route).is_ok(), "of the configuration");
    router.management.face_event(&FaceEvent::Destroyed(face(NEIGHBOUR, Scope::NonLocal)));
    router.management.commit();
    assert_eq!(rule_of(&router, "/localhop/nfd"), [(1, 0)], "its face is gone");
}

fn hub_route(face: FaceId) -> ControlParameters {
    via("/localhop/nfd", face)
}

/// Faces and costs for exactly this prefix in the FIB that workers read.
fn rule_of(router: &Router, uri: &str) -> Vec<(u64, u64)> {
    let (prefix, tables) = (name(uri), router.management.fib().tables());
    let mut hashes = byname_wire::PrefixHashes::default();
    let view = byname_wire::NameView::new(&NameHashKey::new([1, 2]), prefix.as_ref(), &mut hashes);
    let found = tables.fib().longest_match(&view).filter(|found| found.depth == view.len());
    let group = found.and_then(|found| tables.group(found.entry));
    group.map_or(Vec::new(), |group| group.nexthops.iter().map(|n| (n.face.0, n.cost)).collect())
}

/// Face of the operator.
const OPERATOR: FaceId = FaceId(302);

/// An attempt by somebody other than the operator.
#[derive(Debug, Clone)]
struct Attempt {
    /// Whether it is signed with a neighbour's key; otherwise with a plain digest.
    keyed: bool,
    from: FaceId,
    localhop: bool,
    verb: &'static str,
    name: &'static str,
    face: Option<u64>,
    strategy: &'static str,
    cost: Option<u64>,
    flags: u64,
}

fn attempt() -> impl Strategy<Value = Attempt> {
    const VERBS: [&str; 11] = [
        "rib/register",
        "rib/register",
        "rib/unregister",
        "rib/announce",
        "fib/add-nexthop",
        "fib/remove-nexthop",
        "strategy-choice/set",
        "strategy-choice/unset",
        "cs/erase",
        "faces/destroy",
        "faces/update",
    ];
    const NAMES: [&str; 13] = [
        "/",
        "/localhost",
        "/localhop",
        "/localhost/nfd",
        "/localhost/nfd/status",
        "/localhost/nfd/status/general",
        "/localhost/nfd/rib/register",
        "/localhop/nfd",
        "/localhop/nfd/rib",
        "/localhop/nfd/rib/register",
        "/net",
        "/net/alice",
        "/localhost/nfe",
    ];
    const STRATEGIES: [&str; 7] = [
        "best-route",
        "multicast",
        "asf",
        "random",
        "access",
        "self-learning",
        "best-route/v=5/retx-suppression-initial~9000000",
    ];
    let faces = proptest::option::of(prop_oneof![Just(0u64), Just(1), Just(254), Just(255), 300..302u64]);
    let who = (any::<bool>(), prop_oneof![Just(APP), Just(NEIGHBOUR)], any::<bool>());
    let what = (0..VERBS.len(), 0..NAMES.len(), faces, 0..STRATEGIES.len(), proptest::option::of(0..3u64), 0..4u64);
    (who, what).prop_map(|((keyed, from, localhop), (verb, name, face, strategy, cost, flags))| Attempt {
        keyed,
        from,
        localhop,
        verb: VERBS[verb],
        name: NAMES[name],
        face,
        strategy: STRATEGIES[strategy],
        cost,
        flags,
    })
}

/// A router, and a separate worker that reads the same tables.
struct Watched {
    router: Router,
    worker: Worker,
    by_operator: Signer,
    by_alice: Signer,
    nonce: u32,
}

impl Watched {
    fn new() -> Self {
        let (operator, by_operator) = key("/operator/KEY/1");
        let (alice, by_alice) = key("/net/alice/KEY/1");
        let mut router = router(vec![
            rule(false, operator, &Module::ALL, None),
            rule(false, TrustedSigner::Any, &Module::ALL, None),
            // The most rights that a neighbour can have.
            rule(true, alice, &Module::ALL, Some(&["/"])),
        ]);
        router.management.face_event(&FaceEvent::Created(face(OPERATOR, Scope::Local)));
        let tables = router.management.fib().tables().clone();
        let mut worker = Worker::new(WorkerConfig::default(), NameHashKey::new([1, 2]), tables, 1);
        for (id, scope) in [
            (FaceId::INTERNAL, Scope::Local),
            (APP, Scope::Local),
            (NEIGHBOUR, Scope::NonLocal),
            (OPERATOR, Scope::Local),
        ] {
            worker.face_up(id, scope, LinkType::PointToPoint);
        }
        Watched { router, worker, by_operator, by_alice, nonce: 0 }
    }

    fn carry_out(&mut self, attempt: &Attempt) {
        let scope = if attempt.localhop { "localhop" } else { "localhost" };
        let command = name(&format!("/{scope}/nfd/{}", attempt.verb));
        let is_set = attempt.verb == "strategy-choice/set";
        let strategy = format!("/localhost/nfd/strategy/{}", attempt.strategy);
        let signer = if attempt.keyed { &self.by_alice } else { &self.router.signer };
        let about_faces = attempt.verb.starts_with("faces/");
        let parameters = ControlParameters {
            name: Some(name(attempt.name)).filter(|_| !about_faces),
            face_id: attempt
                .face
                .filter(|_| about_faces || attempt.verb.contains("register") || attempt.verb.contains("nexthop")),
            strategy: is_set.then(|| StrategyName(name(&strategy))),
            cost: attempt.cost.filter(|_| ["rib/register", "fib/add-nexthop"].contains(&attempt.verb)),
            flags: Some(attempt.flags).filter(|_| attempt.verb == "rib/register"),
            ..ControlParameters::default()
        };
        let interest = if attempt.verb == "rib/announce" {
            InterestBuilder::new(command, 7).application_parameters(announcement(attempt.name, signer))
        } else {
            InterestBuilder::new(command.join(Component::generic(&parameters.encode())), 7)
        };
        let wire = signer.sign_command(&interest, self.router.now.unix_ms).expect("signed");
        self.router.management.answer(&wire, attempt.from, self.router.now);
        self.router.management.commit();
        let strategies = self.router.management.strategies.iter();
        let choices: Vec<StrategyChoice> = strategies
            .map(|(prefix, strategy)| StrategyChoice { prefix: prefix.clone(), strategy: strategy.clone() })
            .collect();
        self.worker.set_strategy_choices(&choices);
    }

    /// Faces to which the worker forwards an Interest from this face.
    fn faces_of(&mut self, wire: &[u8], from: FaceId) -> Vec<FaceId> {
        let mut input = vec![Received { face: from, fields: LinkFields::default(), packet: Packet::copy_from(wire) }];
        let mut output = Vec::new();
        self.worker.poll(Ticks::from_ms(self.router.now.ms), &mut input, &mut output);
        output.iter().filter(|sent| sent.fields.nack.is_none()).map(|sent| sent.face).collect()
    }

    /// Checks that the operator's status Interest, signed as by pynfdc, and the operator's command reach management.
    fn check(&mut self) {
        self.nonce += 1;
        self.router.now.ms += 1;
        let unix_ms = self.router.now.unix_ms + u64::from(self.nonce);
        for (uri, from) in [
            ("/localhost/nfd/status/general", OPERATOR),
            ("/localhost/nfd/faces/destroy/x", OPERATOR),
            ("/localhop/nfd/rib/register/x", OPERATOR),
            ("/localhop/nfd/rib/register/x", NEIGHBOUR),
        ] {
            let by = if from == OPERATOR { &self.by_operator } else { &self.by_alice };
            let interest = InterestBuilder::new(name(uri), self.nonce).can_be_prefix(true).must_be_fresh(true);
            let wire = by.sign_command(&interest, unix_ms).expect("signed");
            assert_eq!(self.faces_of(&wire, from), [FaceId::INTERNAL], "{uri} from {from}");
            if uri.starts_with("/localhost/nfd/status") {
                let answer = self.router.management.answer(&wire, from, self.router.now);
                assert!(answer.is_some(), "{uri} is answered");
            }
        }
        for own in ["/localhost/nfd", "/localhop/nfd"] {
            assert_eq!(rule_of(&self.router, own), [(FaceId::INTERNAL.0, 0)], "{own}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// No commands of others than the operator can take over management.
    #[test]
    fn nobody_makes_management_unreachable(attempts in proptest::collection::vec(attempt(), 1..40)) {
        let mut watched = Watched::new();
        watched.check();
        for attempt in &attempts {
            watched.carry_out(attempt);
            watched.check();
        }
    }
}

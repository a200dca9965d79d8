//! Commands whose signers have chains of certificates.

use std::time::Duration;

use byname_forward::Packet;
use byname_forward::learning::{Notice, Taught};
use byname_wire::Interest;

use super::*;
use crate::security::{Module, Refusal, Rule, TimeWindow, TrustedSigner};
use byname_trust::validator::{Domain, Limits};
use byname_trust::{Certificate, KeyType, NewKey, Revocations, Terms, Validator, issue, issue_bound};

/// An anchor, and keys with their certificates.
struct Network {
    anchor: NewKey,
}

impl Network {
    fn new() -> Self {
        Network { anchor: NewKey::generate(&name("/net"), KeyType::Ecdsa).expect("a key") }
    }

    fn certify(&self, key: &NewKey) -> Vec<u8> {
        let now = Duration::from_millis(START.unix_ms);
        let valid = (now - Duration::from_secs(60), now + Duration::from_secs(86_400));
        let terms = Terms { issuer: Component::generic(b"net"), version: 1, valid };
        issue(key.name(), key.spki(), self.anchor.signer(), terms).expect("signed")
    }

    /// A member whose certificate binds prefixes.
    fn bound_member(&self, identity: &str, announces: &[&str]) -> (Signer, Vec<u8>) {
        let key = NewKey::generate(&name(identity), KeyType::Ecdsa).expect("a key");
        let now = Duration::from_millis(START.unix_ms);
        let valid = (now - Duration::from_secs(60), now + Duration::from_secs(86_400));
        let terms = Terms { issuer: Component::generic(b"net"), version: 1, valid };
        let announces: Vec<Name> = announces.iter().map(|uri| name(uri)).collect();
        let packet = issue_bound(key.name(), key.spki(), self.anchor.signer(), terms, Some(&announces));
        (Signer::from_pkcs8(key.name().clone(), key.pkcs8()).expect("a signer"), packet.expect("signed"))
    }

    fn member(&self, identity: &str) -> (Signer, Vec<u8>) {
        let key = NewKey::generate(&name(identity), KeyType::Ecdsa).expect("a key");
        let packet = self.certify(&key);
        (Signer::from_pkcs8(key.name().clone(), key.pkcs8()).expect("a signer"), packet)
    }

    /// A router that trusts this network, and serves these certificates.
    fn router(&self, served: Vec<Certificate>) -> Router {
        let anchors = vec![Certificate::decode(&self.certify(&self.anchor)).expect("a certificate")];
        let domain = Domain { anchors, rule: byname_trust::Rule::Hierarchical };
        let validator = Validator::new(vec![domain], Revocations::default(), Limits::default());
        let chain = TrustedSigner::Chain { domain: 0, identities: Vec::new() };
        let rules = vec![
            Rule { remote: false, signer: TrustedSigner::Any, modules: Module::ALL.to_vec(), prefixes: None },
            Rule { remote: true, signer: chain, modules: vec![Module::Rib], prefixes: None },
        ];
        Router::with_rights(1000, Authorizer::new(rules, TimeWindow::default()).with_trust(validator, served))
    }
}

fn registration(signer: &Signer, prefix: &str, unix_ms: u64) -> Vec<u8> {
    let parameters = ControlParameters { name: Some(name(prefix)), ..Default::default() };
    let uri = name("/localhop/nfd/rib/register").join(Component::generic(&parameters.encode()));
    signer.sign_command(&InterestBuilder::new(uri, 7), unix_ms).expect("signed")
}

fn announcement(signer: &Signer, prefix: &str) -> Vec<u8> {
    let uri = name(prefix).join_name(name("/32=PA/v=1/seg=0").as_ref());
    let data = DataBuilder::new(uri).content_type(content_type::PREFIX_ANN).content(vec![0x6d, 2, 0x0e, 0x10]);
    signer.sign_data(&data).expect("signed")
}

impl Router {
    /// The Interests for certificates that are due: their faces and names.
    fn wanted(&mut self) -> Vec<(Option<FaceId>, Name)> {
        let due = self.management.certificate_interests(self.now);
        due.into_iter()
            .map(|(face, wire)| (face, Interest::decode(&wire).expect("an Interest").name.to_name()))
            .collect()
    }

    /// The answers that had waited.
    fn answers(&mut self) -> Vec<ControlResponse> {
        let answers = self.management.go_on(self.now);
        let response =
            |packet: Packet| ControlResponse::decode(Data::decode(&packet).expect("Data").content).expect("a response");
        answers.into_iter().map(|answer| response(answer.expect("commands are answered"))).collect()
    }

    fn pass(&mut self, ms: u64) {
        self.now = Moment { ms: self.now.ms + ms, unix_ms: self.now.unix_ms + ms };
    }
}

#[test]
fn a_neighbour_registers_after_its_certificate_was_fetched_from_it() {
    let network = Network::new();
    let (alice, certificate) = network.member("/net/alice");
    let mut router = network.router(Vec::new());
    let first = registration(&alice, "/net/alice/app", router.now.unix_ms);
    assert!(router.send(&first, NEIGHBOUR).is_none(), "it waits");
    assert_eq!(router.wanted(), [(Some(NEIGHBOUR), alice.key_name().expect("a name").clone())]);
    assert!(router.answers().is_empty());
    assert!(router.management.certificate_news(&certificate, router.now));
    let answers = router.answers();
    assert_eq!((answers.len(), answers[0].code), (1, 200), "{answers:?}");
    // From now on it is known; what it signed is not accepted twice; its rights end at its identity.
    assert_eq!(router.send(&first, NEIGHBOUR).expect("answered").text, Refusal::Replayed.to_string());
    let second = registration(&alice, "/net/alice", router.now.unix_ms + 1);
    assert_eq!(router.send(&second, NEIGHBOUR).expect("answered").code, 200);
    let outside = registration(&alice, "/net/bob", router.now.unix_ms + 2);
    let refused = router.send(&outside, NEIGHBOUR).expect("answered");
    assert_eq!((refused.code, refused.text), (403, Refusal::OutsidePrefixes.to_string()));
    let prefixes: Vec<String> = router
        .routes()
        .iter()
        .filter(|entry| entry.routes[0].face_id == NEIGHBOUR.0)
        .map(|entry| entry.name.to_string())
        .collect();
    assert_eq!(prefixes, ["/net/alice", "/net/alice/app"]);
}

#[test]
fn an_application_registers_only_what_its_certificate_binds() {
    let network = Network::new();
    // A prefix outside its identity gives it nothing: what a certificate binds only takes rights away.
    let (alice, certificate) = network.bound_member("/net/alice", &["/net/alice/video", "/net/bob"]);
    let mut router = network.router(Vec::new());
    let first = registration(&alice, "/net/alice/video/1", router.now.unix_ms);
    assert!(router.send(&first, NEIGHBOUR).is_none(), "it waits");
    router.wanted();
    assert!(router.management.certificate_news(&certificate, router.now));
    assert_eq!(router.answers()[0].code, 200);
    for (later, outside) in ["/net/alice", "/net/alice/song", "/net/bob", "/"].into_iter().enumerate() {
        let command = registration(&alice, outside, router.now.unix_ms + 1 + later as u64);
        let refused = router.send(&command, NEIGHBOUR).expect("answered");
        assert_eq!((refused.code, refused.text), (403, Refusal::OutsidePrefixes.to_string()), "{outside}");
    }
}

#[test]
fn strangers_are_refused_with_the_reason() {
    let (network, other) = (Network::new(), Network::new());
    let (stranger, certificate) = other.member("/net/alice");
    let mut router = network.router(Vec::new());
    let command = registration(&stranger, "/net/alice", router.now.unix_ms);
    assert!(router.send(&command, NEIGHBOUR).is_none());
    router.wanted();
    assert!(router.management.certificate_news(&certificate, router.now));
    // Its signer's certificate is that of another anchor of the same name: nobody has it.
    for _ in 0..8 {
        router.pass(500);
        router.wanted();
    }
    let answers = router.answers();
    assert_eq!((answers.len(), answers[0].code), (1, 403));
    assert!(answers[0].text.contains("no chain of certificates leads"), "{}", answers[0].text);
    assert!(answers[0].text.contains("could not be fetched"), "{}", answers[0].text);
    let refusals = router.management.authorizer_mut().refusals();
    assert_eq!(refusals.of(Refusal::UntrustedChain), 1);
    assert_eq!(router.management.next_deadline_ms(), None, "nothing is left");
}

#[test]
fn a_flood_of_unknown_keys_ends_in_refusals() {
    let network = Network::new();
    let key = NewKey::generate(&name("/net/evil"), KeyType::Ecdsa).expect("a key");
    let mut router = network.router(Vec::new());
    let (mut waiting, mut refused) = (0, 0);
    for n in 0..100 {
        let signer = Signer::from_pkcs8(name(&format!("/net/evil/KEY/{n}")), key.pkcs8()).expect("a signer");
        match router.send(&registration(&signer, "/net/evil", router.now.unix_ms), NEIGHBOUR) {
            None => waiting += 1,
            Some(response) => {
                assert_eq!(response.code, 403);
                refused += 1;
            }
        }
    }
    assert_eq!((waiting, refused), (32, 68), "an eighth of 256 may wait");
    assert_eq!(router.wanted().len(), 32);
    router.pass(3_000);
    router.wanted();
    assert_eq!(router.answers().len(), 32, "all are answered in the end");
}

#[test]
fn announcements_have_chains_of_their_own() {
    let network = Network::new();
    let (alice, of_alice) = network.member("/net/alice");
    let (bob, of_bob) = network.member("/net/bob");
    let mut router = network.router(Vec::new());
    // Alice's announcement, brought by a program of this host.
    let data = announcement(&alice, "/net/alice");
    let uri = name("/localhost/nfd/rib/announce");
    let command = InterestBuilder::new(uri, 9).application_parameters(data.clone());
    let command = Signer::digest().sign_command(&command, router.now.unix_ms).expect("signed");
    // A rule for anybody applies on this host.
    assert_eq!(router.send(&command, APP).expect("answered").code, 200);
    // Over the network it needs a chain, and so does its bringer.
    let uri = name("/localhop/nfd/rib/announce");
    let command = InterestBuilder::new(uri, 9).application_parameters(announcement(&alice, "/net/alice/x"));
    let command = alice.sign_command(&command, router.now.unix_ms).expect("signed");
    assert!(router.send(&command, NEIGHBOUR).is_none());
    router.wanted();
    router.management.certificate_news(&of_alice, router.now);
    assert_eq!(router.answers()[0].code, 200, "one certificate serves both");
    // With Data, for self-learning.
    let notice = |data: &[u8], uri: &str| {
        let announcement = Some(Packet::copy_from(data));
        Notice { taught: Taught::Announced, name: name(uri), face: NEIGHBOUR, announcement }
    };
    let data = announcement(&bob, "/net/bob");
    router.management.notice(&notice(&data, "/net/bob/file"), router.now);
    assert_eq!(router.wanted().len(), 1);
    router.management.certificate_news(&of_bob, router.now);
    assert!(router.answers().is_empty());
    assert_eq!(router.management.learning_counters().learned, 1);
    // Bob may not announce alice's prefix.
    let data = announcement(&bob, "/net/alice");
    router.management.notice(&notice(&data, "/net/alice/file"), router.now);
    assert_eq!(router.management.learning_counters().refused, 1);
}

#[test]
fn a_router_serves_its_certificates() {
    let network = Network::new();
    let (alice, packet) = network.member("/net/alice");
    let served = Certificate::decode(&packet).expect("a certificate");
    let mut router = network.router(vec![served.clone()]);
    let key = alice.key_name().expect("a name").clone();
    let mut ask = |uri: Name, can_be_prefix: bool| {
        let interest = InterestBuilder::new(uri, 3).can_be_prefix(can_be_prefix).encode();
        router.management.answer(&interest, NEIGHBOUR, router.now).map(|answer| answer.to_vec())
    };
    assert_eq!(ask(key.clone(), true).as_ref(), Some(&packet));
    assert_eq!(ask(served.name.clone(), false).as_ref(), Some(&packet));
    assert_eq!(ask(key.clone(), false), None);
    assert_eq!(ask(served.name.join(Component::generic(b"x")), true), None);
    // Nobody else may take the name.
    let response = router.command("rib/register", &ControlParameters { name: Some(key), ..Default::default() });
    assert_eq!(response.code, 403);
}

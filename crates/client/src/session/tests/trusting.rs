//! Sessions that trust only what their validator accepts.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use byname_trust::schema::Schema;
use byname_trust::validator::{Domain, Limits, Rejection};
use byname_trust::{Certificate, KeyType, NewKey, Revocations, Rule, Signer, Terms, Validator, issue};
use byname_wire::data::DataBuilder;
use byname_wire::name::component_type;
use byname_wire::{Component, Name};

use super::super::{Event, FetchId, SessionOptions};
use super::router::{Host, Reply, name};
use crate::fetch::{FetchError, FetchOptions};
use crate::interest;
use crate::link::ExchangeError;
use crate::signed::RequestDoubt;
use crate::verify::Doubt;

/// The time of the tests' clock, since the Unix epoch.
const UNIX: Duration = Duration::from_secs(1_795_000_000);
const DAY: Duration = Duration::from_secs(86_400);

/// An anchor, and a producer below it, whose certificate must be fetched.
struct Network {
    anchor: Certificate,
    producer: Signer,
    packets: HashMap<Name, Vec<u8>>,
}

fn key(identity: &str) -> NewKey {
    NewKey::generate(&name(identity), KeyType::Ed25519).expect("a key")
}

fn certify(key: &NewKey, signer: &Signer) -> Vec<u8> {
    let terms = Terms { issuer: Component::generic(b"test"), version: 1, valid: (UNIX - DAY, UNIX + DAY) };
    issue(key.name(), key.spki(), signer, terms).expect("a certificate")
}

fn signer_of(key: &NewKey) -> Signer {
    Signer::from_pkcs8(key.name().clone(), key.pkcs8()).expect("a signer")
}

impl Network {
    fn new() -> Self {
        let (root, producer) = (key("/net"), key("/net/alice"));
        let anchor = Certificate::decode(&certify(&root, root.signer())).expect("a certificate");
        let certificate = certify(&producer, root.signer());
        let packets = HashMap::from([(producer.name().clone(), certificate)]);
        Network { anchor, producer: signer_of(&producer), packets }
    }

    fn options(&self) -> SessionOptions {
        let domain = Domain { anchors: vec![self.anchor.clone()], rule: Rule::Hierarchical };
        let validator = Validator::new(vec![domain], Revocations::default(), Limits::default());
        SessionOptions { validator: Some(validator), ..SessionOptions::default() }
    }

    /// Adds a packet of the object.
    fn publish(&mut self, segments: u64, signer: &Signer) {
        for number in 0..segments {
            let packet_name = name("/net/alice/file/v=1").join_number(component_type::SEGMENT, number);
            let last = Name::default().join_number(component_type::SEGMENT, segments - 1);
            let builder = DataBuilder::new(packet_name.clone()).content(number.to_be_bytes().to_vec());
            let builder = builder.final_block(last.as_ref().component(0).expect("one component"));
            self.packets.insert(packet_name, signer.sign_data(&builder).expect("signed"));
        }
    }

    fn host(self) -> Host {
        let (options, packets) = (self.options(), self.packets);
        Host::with_options(options, move |interest, _| {
            packets.get(&interest.name.to_name()).map_or(vec![], |packet| vec![Reply::Data(packet.clone())])
        })
    }
}

fn fetch(host: &mut Host) -> Result<usize, FetchError> {
    let object = name("/net/alice/file/v=1");
    let options = FetchOptions { tries: 3, ..FetchOptions::default() };
    let id = host.with(|session, now, outbox| session.fetch(object, options, now, outbox));
    fetch_rest(host, id)
}

fn fetch_rest(host: &mut Host, id: FetchId) -> Result<usize, FetchError> {
    let end = host.now.elapsed + Duration::from_secs(600);
    let mut bytes = 0;
    loop {
        while let Some(chunk) = host.session.take_chunk(id, host.now)? {
            bytes += chunk.content().len();
        }
        if host.session.is_fetched(id) {
            return Ok(bytes);
        }
        assert!(host.step(end), "it takes forever");
    }
}

#[test]
fn a_chain_is_followed_to_the_anchor_and_its_certificate_is_fetched_once() {
    let mut network = Network::new();
    let producer = std::mem::replace(&mut network.producer, Signer::digest());
    network.publish(100, &producer);
    let mut host = network.host();
    assert_eq!(fetch(&mut host).unwrap(), 800);
    let certificates = host.sent.iter().filter(|packet| {
        byname_wire::Interest::decode(packet).is_ok_and(|interest| interest.name.to_string().contains("/KEY/"))
    });
    assert_eq!(certificates.count(), 1);
    let segment = interest(&name("/net/alice/file/v=1/seg=7"));
    assert_eq!(host.express(segment, 1).unwrap().data().content, 7u64.to_be_bytes());
}

#[test]
fn another_key_is_not_trusted_and_a_digest_proves_nothing() {
    let stranger = key("/net/mallory");
    for (signer, is_right) in [
        (signer_of(&stranger), (|why| matches!(why, Rejection::NotPermitted { .. })) as fn(&Rejection) -> bool),
        (Signer::digest(), |why| matches!(why, Rejection::Keyless(_))),
    ] {
        let mut network = Network::new();
        network.publish(3, &signer);
        let mut host = network.host();
        match fetch(&mut host).unwrap_err() {
            FetchError::Untrusted { doubt: Doubt::Rejected(why), .. } => assert!(is_right(&why), "{why}"),
            other => panic!("{other}"),
        }
        let answer = host.express(interest(&name("/net/alice/file/v=1/seg=0")), 1).unwrap_err();
        assert!(matches!(answer, ExchangeError::Untrusted { .. }), "{answer}");
    }
}

#[test]
fn a_certificate_that_cannot_be_had_ends_the_wait() {
    let mut network = Network::new();
    let producer = std::mem::replace(&mut network.producer, Signer::digest());
    network.publish(3, &producer);
    network.packets.retain(|name, _| !name.to_string().contains("/KEY/"));
    let mut host = network.host();
    match fetch(&mut host).unwrap_err() {
        FetchError::Untrusted { doubt: Doubt::Rejected(Rejection::NotFetched(_)), .. } => {}
        other => panic!("{other}"),
    }
}

#[test]
fn certificates_are_asked_for_again_after_an_outage() {
    let mut network = Network::new();
    let producer = std::mem::replace(&mut network.producer, Signer::digest());
    network.publish(3, &producer);
    let (options, packets) = (network.options(), network.packets);
    let is_up = Rc::new(Cell::new(false));
    let has_certificates = is_up.clone();
    let mut host = Host::with_options(options, move |interest, _| {
        let name = interest.name.to_name();
        let is_there = has_certificates.get() || !name.to_string().contains("/KEY/");
        packets.get(&name).filter(|_| is_there).map_or(vec![], |packet| vec![Reply::Data(packet.clone())])
    });
    let segment = interest(&name("/net/alice/file/v=1/seg=0")).encode();
    let asked = host.with(|session, now, outbox| session.express(segment, 1, now, outbox)).expect("an Interest");
    let object = name("/net/alice/file/v=1");
    let id = host.with(|session, now, outbox| session.fetch(object, FetchOptions::default(), now, outbox));
    host.run_for(Duration::from_millis(100));
    // Data is here, and the Interest for its certificate is on its way, or to be sent without a connection.
    for _ in 0..4 {
        assert!(host.session.take_chunk(id, host.now).expect("no failure").is_none());
        host.lose_connection();
        assert!(host.session.take_chunk(id, host.now).expect("no failure").is_none());
        host.run_for(Duration::from_secs(10));
        host.connect();
        host.run_for(Duration::from_millis(100));
    }
    is_up.set(true);
    host.lose_connection();
    host.run_for(Duration::from_secs(10));
    host.connect();
    match host.event() {
        Event::Answer { id, result } => assert!(id == asked && result.is_ok(), "{result:?}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(fetch_rest(&mut host, id).expect("fetched"), 24);
}

#[test]
fn a_schema_accepts_the_producer_that_it_names_and_refuses_another() {
    const SCHEMA: &str = "#anchor: \"net\"/#KEY\n#writer: \"net\"/who/#KEY <= #anchor\n\
                          #article: \"news\"/who/_/_/_ <= #writer\n#KEY: \"KEY\"/_/_/_";
    let (root, alice, bob) = (key("/net"), key("/net/alice"), key("/net/bob"));
    let anchor = Certificate::decode(&certify(&root, root.signer())).expect("a certificate");
    let rule = Rule::Schema(Arc::new(Schema::compile(SCHEMA).expect("a schema")));
    // Alice's articles, once by her and once by bob, who may write only below his own name.
    for (who, writer, is_accepted) in
        [("alice", &alice, true), ("bob", &bob, true), ("alice", &bob, false), ("bob", &alice, false)]
    {
        let mut packets = HashMap::from([(writer.name().clone(), certify(writer, root.signer()))]);
        let object = name(&format!("/news/{who}/article/v=1"));
        for number in 0..3 {
            let packet_name = object.join_number(component_type::SEGMENT, number);
            let last = Name::default().join_number(component_type::SEGMENT, 2);
            let builder = DataBuilder::new(packet_name.clone()).content(vec![0; 8]);
            let builder = builder.final_block(last.as_ref().component(0).expect("one component"));
            packets.insert(packet_name, signer_of(writer).sign_data(&builder).expect("signed"));
        }
        let domain = Domain { anchors: vec![anchor.clone()], rule: rule.clone() };
        let validator = Validator::new(vec![domain], Revocations::default(), Limits::default());
        let options = SessionOptions { validator: Some(validator), ..SessionOptions::default() };
        let mut host = Host::with_options(options, move |interest, _| {
            packets.get(&interest.name.to_name()).map_or(vec![], |packet| vec![Reply::Data(packet.clone())])
        });
        let segment = object.join_number(component_type::SEGMENT, 1);
        let expressed = host.express(interest(&segment), 1);
        let id = host.with(|session, now, outbox| session.fetch(object, FetchOptions::default(), now, outbox));
        let fetched = fetch_rest(&mut host, id);
        if is_accepted {
            assert!(expressed.is_ok(), "{who}: {expressed:?}");
            assert_eq!(fetched.expect("fetched"), 24);
        } else {
            let is_refusal = |doubt: &Doubt| matches!(doubt, Doubt::Rejected(Rejection::NotPermitted { .. }));
            assert!(
                matches!(&expressed, Err(ExchangeError::Untrusted { doubt, .. }) if is_refusal(doubt)),
                "{expressed:?}"
            );
            assert!(matches!(&fetched, Err(FetchError::Untrusted { doubt, .. }) if is_refusal(doubt)), "{fetched:?}");
        }
    }
}

/// Checks a request that arrives.
fn check(host: &mut Host, wire: &[u8]) -> Result<Name, RequestDoubt> {
    // Nobody answers the registration here.
    while host.session.next_event().is_some() {}
    host.arrives(wire.to_vec());
    let Event::Request(request) = host.event() else { panic!("a request") };
    let id = host.with(|session, now, _| session.check_request(request, now));
    match host.event() {
        Event::Checked { id: checked, request, result } => {
            assert!(checked == id && request.interest().wire == wire);
            result.map_err(|doubt| *doubt)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_signed_request_counts_once_and_only_from_a_key_that_is_trusted() {
    let mut network = Network::new();
    let alice = std::mem::replace(&mut network.producer, Signer::digest());
    let mut host = network.host();
    host.with(|session, now, outbox| session.produce(name("/door"), Default::default(), now, outbox));
    let now_ms = |host: &Host| host.now.unix_ms();
    let open = |number: u8| interest(&name("/door/open")).application_parameters(vec![number]);
    let sign = |signer: &Signer, number: u8, unix_ms: u64| signer.sign_command(&open(number), unix_ms).expect("signed");

    let first = sign(&alice, 1, now_ms(&host));
    assert_eq!(check(&mut host, &first).as_ref(), Ok(alice.key_name().expect("a name")));
    assert_eq!(check(&mut host, &first), Err(RequestDoubt::Replayed));
    let again = byname_wire::interest::with_nonce(&byname_wire::Interest::decode(&first).expect("an Interest"), 7);
    assert_eq!(check(&mut host, &again), Err(RequestDoubt::Replayed));
    let second = sign(&alice, 2, now_ms(&host));
    assert!(check(&mut host, &second).is_ok());
    assert_eq!(check(&mut host, &open(3).encode()), Err(RequestDoubt::Unsigned));
    let mut altered = sign(&alice, 4, now_ms(&host));
    *altered.last_mut().expect("bytes") ^= 1;
    assert_eq!(check(&mut host, &altered), Err(RequestDoubt::Parameters));
    let early = sign(&alice, 5, now_ms(&host) - 30_000);
    assert!(matches!(check(&mut host, &early), Err(RequestDoubt::BeforeStart { .. })));
    let late = sign(&alice, 6, now_ms(&host) + 70_000);
    assert!(matches!(check(&mut host, &late), Err(RequestDoubt::OutsideWindow { .. })));
    for stranger in [signer_of(&key("/net/mallory")), Signer::digest()] {
        let wire = sign(&stranger, 7, now_ms(&host));
        assert!(matches!(check(&mut host, &wire), Err(RequestDoubt::Untrusted(Doubt::Rejected(_)))));
    }
    host.run_for(Duration::from_secs(61));
    assert!(matches!(check(&mut host, &first), Err(RequestDoubt::OutsideWindow { .. })));

    // An application without a validator accepts nobody.
    let mut host = Host::new(|_, _| vec![]);
    host.with(|session, now, outbox| session.produce(name("/door"), Default::default(), now, outbox));
    let wire = sign(&alice, 1, now_ms(&host));
    assert_eq!(check(&mut host, &wire), Err(RequestDoubt::NoValidator));
}

#[test]
fn each_try_of_a_signed_interest_is_signed_again() {
    let asked: Rc<std::cell::RefCell<Vec<(Name, u64)>>> = Rc::default();
    let seen = asked.clone();
    let mut host = Host::new(move |interest, _| {
        assert!(interest.parameters_digest_matches());
        let time_ms = interest.signature.and_then(|signature| signature.info.time_ms).expect("a time");
        seen.borrow_mut().push((interest.name.to_name(), time_ms));
        match seen.borrow().len() {
            0..4 => vec![],
            _ => vec![Reply::Data(DataBuilder::new(interest.name.to_name()).encode())],
        }
    });
    let open = interest(&name("/door/open")).lifetime_ms(1000);
    let id = host.with(|session, now, outbox| session.express_signed(open, 3, now, outbox)).expect("signed");
    host.run_for(Duration::from_millis(1500));
    host.lose_connection();
    host.run_for(Duration::from_secs(10));
    host.connect();
    match host.event() {
        Event::Answer { id: answered, result } => assert!(answered == id && result.is_ok(), "{result:?}"),
        other => panic!("{other:?}"),
    }
    let asked = asked.borrow();
    let times: Vec<u64> = asked.iter().map(|(_, time_ms)| time_ms - asked[0].1).collect();
    assert_eq!(times, [0, 1000, 11_500, 12_500]);
    assert!(asked.windows(2).all(|pair| pair[0].0 != pair[1].0));
}

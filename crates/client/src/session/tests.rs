//! Applications beside a scripted router, in virtual time.

mod fetching;
mod outages;
mod router;
mod trusting;
mod unsendable;

use std::time::Duration;

use byname_mgmt::{ControlParameters, ControlResponse};
use byname_wire::data::DataBuilder;
use byname_wire::name::component_type;
use byname_wire::{Component, Interest, NackReason};

use super::*;
use crate::fetch::Discovery;
use crate::interest;
use crate::management::RegisterOptions;
use crate::reassembly::Incoming;
use router::{Host, Reply, data, name, ok};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn an_interest_is_answered_refused_or_over() {
    let mut host = Host::new(|interest, _| match &*interest.name.to_string() {
        "/answered" => vec![Reply::Data(data("/answered", b"hi"))],
        "/prefix" => vec![Reply::Data(data("/prefix/v=1", b"hi"))],
        "/refused" => vec![Reply::Nack(NackReason::NoRoute)],
        // Data with another name answers nothing.
        _ => vec![Reply::Data(data("/other", b"hi"))],
    });
    let answered = host.express(interest(&name("/answered")), 1);
    assert_eq!(answered.unwrap().data().content, b"hi");
    assert!(matches!(host.express(interest(&name("/prefix")).lifetime_ms(100), 1), Err(ExchangeError::Timeout { .. })));
    assert!(host.express(interest(&name("/prefix")).can_be_prefix(true), 1).is_ok());
    let refused = host.express(interest(&name("/refused")), 3).unwrap_err();
    assert!(matches!(refused, ExchangeError::Nack { reason: NackReason::NoRoute, .. }), "{refused}");
    let began = host.now.elapsed;
    let over = host.express(interest(&name("/silent")).lifetime_ms(500), 3).unwrap_err();
    assert!(matches!(over, ExchangeError::Timeout { tries: 3, .. }), "{over}");
    assert_eq!(host.now.elapsed - began, 3 * SECOND / 2);
    assert_eq!(host.session.waiting(), 0);
}

#[test]
fn a_full_name_is_answered_only_by_its_packet() {
    let wire = data("/a", b"right");
    let digest = byname_wire::digest::sha256(&[&wire]);
    let full = name("/a").join(Component { typ: component_type::IMPLICIT_SHA256_DIGEST, value: &digest });
    let mut wrong = Host::new(|_, _| vec![Reply::Data(data("/a", b"wrong"))]);
    assert!(wrong.express(interest(&full).lifetime_ms(100), 1).is_err());
    let mut right = Host::new(move |_, _| vec![Reply::Data(wire.clone())]);
    assert!(right.express(interest(&full), 1).is_ok());
}

#[test]
fn changed_content_is_refused() {
    let mut host = Host::new(|_, _| {
        let mut wire = data("/a", b"content");
        *wire.last_mut().unwrap() ^= 1;
        vec![Reply::Data(wire)]
    });
    let error = host.express(interest(&name("/a")), 1).unwrap_err();
    assert!(matches!(error, ExchangeError::Untrusted { .. }), "{error}");
}

#[test]
fn a_duplicate_nonce_is_tried_again_with_another() {
    let mut nonces = Vec::new();
    let mut host = Host::new(move |interest, _| {
        nonces.push(interest.nonce);
        assert!(nonces.windows(2).all(|pair| pair[0] != pair[1]));
        vec![if nonces.len() < 3 { Reply::Nack(NackReason::Duplicate) } else { Reply::Data(data("/a", b"")) }]
    });
    assert!(host.express(interest(&name("/a")), 3).is_ok());
    // A router that says so forever does not keep the application busy.
    let mut host = Host::new(|_, _| vec![Reply::Nack(NackReason::Duplicate)]);
    assert!(matches!(host.express(interest(&name("/a")), 3), Err(ExchangeError::Nack { .. })));
}

#[test]
fn prefixes_are_registered_again_after_a_refusal_and_on_each_connection() {
    let mut asked = 0;
    let mut host = Host::new(move |interest, _| {
        asked += usize::from(interest.name.to_string().starts_with("/localhost/nfd/rib/register/"));
        vec![Reply::Data(match asked {
            1 => ok(interest, &ControlResponse::new(403, "not now")),
            _ => ok(interest, &ControlResponse::ok(&ControlParameters::default())),
        })]
    });
    host.with(|session, now, outbox| session.produce(name("/app"), RegisterOptions::default(), now, outbox));
    let refused = host.event();
    assert!(matches!(refused, Event::NotRegistered { error: ManagementError::Refused { code: 403, .. }, .. }));
    assert!(matches!(host.event(), Event::Registered { .. }), "it tries again");
    for _ in 0..3 {
        host.lose_connection();
        host.connect();
        assert!(matches!(host.event(), Event::Registered { .. }), "a new router knows nothing");
    }
    host.arrives(interest(&name("/app/1")).encode());
    let Event::Request(request) = host.event() else { panic!("an Interest of the prefix") };
    assert_eq!((request.prefix(), request.interest().name.to_string()), (&name("/app"), "/app/1".to_owned()));
    host.with(|session, now, outbox| session.withdraw_prefix(&name("/app"), now, outbox));
    host.arrives(interest(&name("/app/2")).encode());
    assert!(host.session.next_event().is_none());
}

#[test]
fn an_interest_survives_its_router() {
    let mut is_first = true;
    let mut host = Host::new(move |_, _| match std::mem::take(&mut is_first) {
        true => vec![],
        false => vec![Reply::Data(data("/a", b"late"))],
    });
    let id = host.with(|session, now, outbox| session.express(interest(&name("/a")).encode(), 1, now, outbox));
    host.run_for(SECOND);
    host.lose_connection();
    host.run_for(SECOND);
    host.connect();
    let Event::Answer { id: answered, result: Ok(packet) } = host.event() else { panic!("the answer") };
    assert_eq!((answered, packet.data().content), (id.unwrap(), &b"late"[..]));
}

#[test]
fn descriptors_are_advertised_again() {
    let (sender, advertised) = std::sync::mpsc::channel();
    let mut host = Host::new(move |interest, _| {
        sender.send(interest.name.prefix(4).to_string()).unwrap();
        vec![Reply::Data(ok(interest, &ControlResponse::new(200, "OK")))]
    });
    let tags = Descriptor::of(["concert"]).unwrap();
    host.with(|session, now, outbox| session.advertise(std::slice::from_ref(&tags), now, outbox)).unwrap();
    assert!(matches!(host.event(), Event::Commanded { result: Ok(_), .. }));
    host.lose_connection();
    host.connect();
    assert!(matches!(host.event(), Event::Commanded { result: Ok(_), .. }));
    assert_eq!(advertised.try_iter().collect::<Vec<_>>(), ["/localhost/nfd/tags/advertise"; 2]);
    host.with(|session, now, outbox| session.withdraw(&[tags], now, outbox)).unwrap();
    assert!(matches!(host.event(), Event::Commanded { result: Ok(_), .. }));
    host.lose_connection();
    host.connect();
    host.run_for(SECOND);
    assert_eq!(advertised.try_iter().collect::<Vec<_>>(), ["/localhost/nfd/tags/withdraw"]);
}

#[test]
fn nonsense_changes_nothing() {
    let mut host = Host::new(|_, _| vec![]);
    host.with(|session, now, outbox| session.produce(name("/app"), RegisterOptions::default(), now, outbox));
    let id = host.with(|session, now, outbox| session.express(interest(&name("/a")).encode(), 1, now, outbox)).unwrap();
    let unasked = DataBuilder::new(name("/b")).encode();
    for packet in [&b""[..], b"\x05", b"\x06\x00", b"\xc1\x00", b"\xff\xff\xff", &unasked] {
        host.arrives(packet.to_vec());
        let nacked = Incoming { nack: Some(NackReason::NoRoute), ..Incoming::bare(packet) };
        host.with(|session, now, outbox| session.on_packet(&nacked, now, outbox));
    }
    assert!(host.session.next_event().is_none());
    host.with(|session, _, _| session.cancel(id));
}

#[test]
fn members_of_a_group_learn_what_others_publish() {
    let mut hosts = ["/alice", "/bob"].map(|node| {
        let mut host = Host::new(|interest, _| match interest.name.to_string().starts_with("/localhost") {
            true => vec![Reply::Data(ok(interest, &ControlResponse::new(200, "OK")))],
            false => vec![],
        });
        let options = crate::sync::SyncOptions::default();
        let id = host.with(|session, now, outbox| session.join(name("/chat"), name(node), options, now, outbox));
        (host, id)
    });
    let [(alice, group), (bob, of_bob)] = &mut hosts;
    alice.run_for(SECOND);
    alice.sent.clear();
    let number = alice.with(|session, now, outbox| session.publish_in(*group, now, outbox));
    assert_eq!(number, Some(1));
    alice.run_for(SECOND / 10);
    bob.run_for(SECOND);
    while bob.session.next_event().is_some() {}
    let told = alice.sent.iter().find(|packet| Interest::decode(packet).is_ok()).expect("a sync Interest").clone();
    assert!(Interest::decode(&told).unwrap().name.to_string().starts_with("/chat/v=3/params-sha256="));
    bob.arrives(told.clone());
    let Some(Event::Updates { group, updates }) = bob.session.next_event() else { panic!("news") };
    assert_eq!((group, updates.len()), (*of_bob, 1));
    assert_eq!((updates[0].node.to_string(), updates[0].first, updates[0].last), ("/alice".to_owned(), 1, 1));
    // Parameters that do not match the digest in the name, and no vector at all, change nothing.
    let mut forged = told;
    *forged.last_mut().unwrap() ^= 1;
    bob.arrives(forged);
    bob.arrives(interest(&name("/chat/v=3")).application_parameters(data("/x", b"\xc9\x01")).encode());
    assert!(bob.session.next_event().is_none());
    assert_eq!(bob.session.group(*of_bob).unwrap().rejected(), 1);
}

#[test]
fn a_search_asks_for_metadata_first() {
    let mut host = Host::new(|interest, _| match &*interest.name.to_string() {
        "/file/32=metadata" => vec![],
        "/file" => vec![Reply::Data(data("/file/v=9/seg=0", b"x"))],
        _ => panic!("{}", interest.name),
    });
    host.with(|session, now, outbox| session.find(name("/file"), Discovery::Auto, SECOND, now, outbox));
    let Event::Found { result: Ok(Object::Segmented(object)), .. } = host.event() else { panic!("it is there") };
    assert_eq!(object, name("/file/v=9"));
    host.with(|session, now, outbox| session.find(name("/file"), Discovery::Rdr, SECOND, now, outbox));
    assert!(matches!(host.event(), Event::Found { result: Err(ExchangeError::Timeout { .. }), .. }));
}

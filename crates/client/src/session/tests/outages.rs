//! Routers that disappear while an application waits, and routers that forget it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use byname_mgmt::{ControlParameters, ControlResponse};
use byname_wire::data::DataBuilder;
use byname_wire::name::component_type;
use byname_wire::{Component, Descriptor, Interest, NackReason};

use super::SECOND;
use super::router::{Host, Reply, data, name, ok};
use crate::fetch::{Discovery, FetchError, FetchOptions, Object};
use crate::interest;
use crate::link::ExchangeError;
use crate::management::{ManagementError, RegisterOptions};
use crate::session::{Event, FindId, Peer};

const DATAGRAMS: Peer = Peer { is_local: false, is_datagram: true };

fn done(interest: &Interest<'_>) -> Vec<Reply> {
    vec![Reply::Data(ok(interest, &ControlResponse::ok(&ControlParameters::default())))]
}

/// The name of a command without its parameters: `rib/register`.
fn command_of(interest: &Interest<'_>) -> Option<String> {
    let name = interest.name;
    let is_command = name.component(1).is_some_and(|nfd| nfd.value == b"nfd");
    is_command.then(|| name.prefix(4).to_string().split('/').skip(3).collect::<Vec<_>>().join("/"))
}

fn outage(host: &mut Host, length: Duration) {
    host.lose_connection();
    host.run_for(length);
    host.connect();
}

fn find(host: &mut Host, how: Discovery) -> FindId {
    host.with(|session, now, outbox| session.find(name("/file"), how, SECOND, now, outbox))
}

#[test]
fn over_datagrams_a_producer_that_only_listens_is_back_soon_after_its_router() {
    let known: Rc<RefCell<BTreeSet<String>>> = Rc::default();
    let router = known.clone();
    let mut host = Host::new(move |interest, _| {
        router.borrow_mut().extend(command_of(interest));
        done(interest)
    });
    host.lose_connection();
    host.connect_to(DATAGRAMS);
    host.with(|session, now, outbox| session.produce(name("/app"), RegisterOptions::default(), now, outbox));
    let tags = Descriptor::of(["concert"]).unwrap();
    host.with(|session, now, outbox| session.advertise(&[tags], now, outbox)).unwrap();
    host.with(|session, now, outbox| session.ask_addresses(now, outbox)).unwrap();
    host.run_for(SECOND);
    while host.session.next_event().is_some() {}
    let everything = BTreeSet::from(["rib/register", "tags/advertise", "tags/locators"].map(str::to_owned));
    for _ in 0..20 {
        assert_eq!(*known.borrow(), everything);
        // The router restarts within a moment, and the application cannot notice.
        known.borrow_mut().clear();
        host.run_for(25 * SECOND);
        assert!(host.session.is_registered(&name("/app")));
    }
    assert!(host.session.next_event().is_none(), "the application hears nothing of this");
    // Each of the three commands at most every 18 s.
    assert!(host.sent.len() <= 3 + 3 * 500 / 18, "{} packets", host.sent.len());
}

#[test]
fn over_datagrams_an_application_hears_that_the_router_refuses_now_and_accepts_later() {
    let refuses = Rc::new(Cell::new(false));
    let is_refused = refuses.clone();
    let mut host = Host::new(move |interest, _| match is_refused.get() {
        true => vec![Reply::Data(ok(interest, &ControlResponse::new(403, "not any more")))],
        false => done(interest),
    });
    host.lose_connection();
    host.connect_to(DATAGRAMS);
    host.with(|session, now, outbox| session.produce(name("/app"), RegisterOptions::default(), now, outbox));
    assert!(matches!(host.event(), Event::Registered { .. }));
    refuses.set(true);
    assert!(matches!(host.event(), Event::NotRegistered { error: ManagementError::Refused { code: 403, .. }, .. }));
    assert!(!host.session.is_registered(&name("/app")));
    refuses.set(false);
    assert!(matches!(host.event(), Event::Registered { .. }));
}

#[test]
fn over_streams_nothing_is_repeated() {
    let mut host = Host::new(|interest, _| done(interest));
    host.with(|session, now, outbox| session.produce(name("/app"), RegisterOptions::default(), now, outbox));
    host.run_for(600 * SECOND);
    assert_eq!(host.sent.len(), 1);
}

#[test]
fn a_search_outlives_an_outage_in_each_of_its_questions() {
    for (how, question) in
        [(Discovery::Auto, "/file/32=metadata"), (Discovery::Auto, "/file"), (Discovery::Prefix, "/file")]
    {
        let is_up = Rc::new(Cell::new(false));
        let has_answers = is_up.clone();
        let mut host = Host::new(move |interest, _| match &*interest.name.to_string() {
            "/file" if question == "/file" && has_answers.get() => {
                vec![Reply::Data(data("/file/v=1/seg=0", b"x"))]
            }
            "/file/32=metadata" if question != "/file" && has_answers.get() => {
                let mut content = Vec::new();
                byname_wire::tlv::push_tlv(&mut content, byname_wire::tlv::types::NAME, name("/file/v=1").value());
                vec![Reply::Data(data("/file/32=metadata/v=1/seg=0", &content))]
            }
            _ => vec![],
        });
        find(&mut host, how);
        // Until the question is on its way.
        let is_asked = |host: &Host| {
            let last = host.sent.last().and_then(|packet| Interest::decode(packet).ok());
            last.is_some_and(|interest| interest.name.to_string() == question)
        };
        while !is_asked(&host) {
            assert!(host.step(host.now.elapsed + 10 * SECOND), "{question} is not asked");
        }
        // Longer than all tries of all questions.
        for _ in 0..5 {
            outage(&mut host, 6 * SECOND);
            host.run_for(SECOND / 10);
        }
        is_up.set(true);
        outage(&mut host, 6 * SECOND);
        match host.event() {
            Event::Found { result: Ok(Object::Segmented(object)), .. } => assert_eq!(object, name("/file/v=1")),
            other => panic!("{question}: {other:?}"),
        }
    }
}

#[test]
fn what_waits_for_a_connection_ends_after_the_longest_outage() {
    let mut host = Host::new(|_, _| vec![]);
    let began = host.now.elapsed;
    let id = host.with(|session, now, outbox| session.express(interest(&name("/a")).encode(), 3, now, outbox)).unwrap();
    find(&mut host, Discovery::Auto);
    let command = host.with(|session, now, outbox| session.command("rib", "x", &[], now, outbox)).unwrap();
    let fetch =
        host.with(|session, now, outbox| session.fetch(name("/file/v=1"), FetchOptions::default(), now, outbox));
    host.lose_connection();
    host.with(|session, now, outbox| session.produce(name("/app"), RegisterOptions::default(), now, outbox));
    host.run_for(59 * SECOND);
    assert!(host.session.next_event().is_none());
    assert!(host.session.take_chunk(fetch, host.now).unwrap().is_none());
    host.run_for(2 * SECOND);
    let mut ended = 0;
    while let Some(event) = host.session.next_event() {
        ended += 1;
        let error = match event {
            Event::Answer { id: answered, result: Err(error) } if answered == id => error,
            Event::Found { result: Err(error), .. } => error,
            Event::Commanded { id, result: Err(ManagementError::Unanswered { error, .. }) } if id == command => error,
            Event::NotRegistered { error: ManagementError::Unanswered { error, .. }, .. } => error,
            other => panic!("{other:?}"),
        };
        assert!(matches!(&error, ExchangeError::Offline { waited, .. } if *waited == 60 * SECOND), "{error}");
    }
    assert_eq!(ended, 4);
    let error = host.session.take_chunk(fetch, host.now).unwrap_err();
    assert!(matches!(error, FetchError::Offline { waited } if waited >= 60 * SECOND), "{error}");
    assert_eq!((host.session.waiting(), host.session.next_deadline(host.now)), (0, None));
    // The router comes back, and the prefix is still wanted.
    assert!(host.now.elapsed - began < 62 * SECOND);
    host.connect();
    host.run_for(SECOND);
    let registers = |packet: &Vec<u8>| Interest::decode(packet).ok().and_then(|interest| command_of(&interest));
    assert_eq!(host.sent.iter().filter_map(registers).next_back().as_deref(), Some("rib/register"));
}

#[test]
fn an_application_may_wait_longer_or_not_at_all() {
    for (outage_max, survives) in [(Duration::ZERO, false), (Duration::MAX, true)] {
        let options = crate::SessionOptions { outage_max, ..Default::default() };
        let mut answers = 0;
        let mut host = Host::with_options(options, move |_, _| {
            answers += 1;
            if answers > 1 { vec![Reply::Data(data("/a", b""))] } else { vec![] }
        });
        let id = host.with(|session, now, outbox| session.express(interest(&name("/a")).encode(), 1, now, outbox));
        outage(&mut host, 3600 * SECOND);
        let Event::Answer { id: answered, result } = host.event() else { panic!("an answer") };
        assert_eq!((answered, result.is_ok()), (id.unwrap(), survives));
    }
}

#[test]
fn a_router_that_ends_again_and_again_does_not_keep_an_application_waiting() {
    let mut host = Host::new(|_, _| vec![]);
    host.with(|session, now, outbox| session.express(interest(&name("/a")).encode(), 1, now, outbox)).unwrap();
    let fetch = host.with(|session, now, outbox| {
        session.fetch(name("/file/v=1"), FetchOptions { tries: 300, ..FetchOptions::default() }, now, outbox)
    });
    for _ in 0..25 {
        host.run_for(2 * SECOND);
        outage(&mut host, SECOND);
    }
    assert!(matches!(host.event(), Event::Answer { result: Err(ExchangeError::Offline { .. }), .. }));
    assert!(matches!(host.session.take_chunk(fetch, host.now), Err(FetchError::Offline { .. })));
}

#[test]
fn a_command_is_signed_again_for_the_router_that_comes_back() {
    let times: Rc<RefCell<Vec<u64>>> = Rc::default();
    let seen = times.clone();
    let mut host = Host::new(move |interest, _| {
        assert!(interest.parameters_digest_matches());
        seen.borrow_mut().extend(interest.signature.as_ref().and_then(|signature| signature.info.time_ms));
        if seen.borrow().len() < 2 { vec![] } else { done(interest) }
    });
    let id = host.with(|session, now, outbox| session.command("tags", "x", b"\x01\x00", now, outbox)).unwrap();
    outage(&mut host, 50 * SECOND);
    match host.event() {
        Event::Commanded { id: answered, result: Ok(response) } => assert_eq!((answered, response.code), (id, 200)),
        other => panic!("{other:?}"),
    }
    assert_eq!(times.borrow()[1] - times.borrow()[0], 50_000);
}

#[test]
fn the_producer_may_be_back_later_than_the_consumer() {
    let back_at = Rc::new(Cell::new(Duration::ZERO));
    let is_back = back_at.clone();
    let mut host = Host::new(move |interest, now| {
        if now < is_back.get() {
            return vec![Reply::Nack(NackReason::NoRoute)];
        }
        match interest.name.component(-1).filter(|last| last.typ == component_type::SEGMENT) {
            Some(_) if is_back.get() > Duration::ZERO => {
                let last: Option<Component<'_>> = interest.name.component(-1);
                let packet = DataBuilder::new(interest.name.to_name()).final_block(last.unwrap());
                vec![Reply::Data(packet.content(b"whole".to_vec()).encode())]
            }
            None if is_back.get() > Duration::ZERO => vec![Reply::Data(data("/a", b"hi"))],
            _ => vec![],
        }
    });
    let fetch =
        host.with(|session, now, outbox| session.fetch(name("/file/v=1"), FetchOptions::default(), now, outbox));
    host.with(|session, now, outbox| session.express(interest(&name("/a")).lifetime_ms(1000).encode(), 3, now, outbox))
        .unwrap();
    host.lose_connection();
    back_at.set(host.now.elapsed + 2 * SECOND);
    host.connect();
    assert!(matches!(host.event(), Event::Answer { result: Ok(_), .. }));
    let end = host.now.elapsed + 30 * SECOND;
    loop {
        if let Some(chunk) = host.session.take_chunk(fetch, host.now).unwrap() {
            break assert_eq!(chunk.content(), b"whole");
        }
        assert!(host.step(end), "it takes forever");
    }
    // Without an outage, a Nack is an answer: a while later, and on a first connection.
    back_at.set(Duration::MAX);
    host.run_for(10 * SECOND);
    assert!(matches!(host.express(interest(&name("/b")), 3), Err(ExchangeError::Nack { .. })));
    let mut first = Host::new(|_, _| vec![Reply::Nack(NackReason::NoRoute)]);
    assert!(matches!(first.express(interest(&name("/b")), 3), Err(ExchangeError::Nack { .. })));
    assert!(first.now.elapsed < 2 * SECOND);
}

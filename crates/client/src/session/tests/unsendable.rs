//! What an application cannot send, and how it learns why.

use std::time::Duration;

use byname_mgmt::{ControlParameters, ControlResponse};
use byname_wire::data::DataBuilder;
use byname_wire::{Component, Descriptor, Name, PACKET_BYTES_MAX};

use super::SECOND;
use super::router::{Host, Reply, name, ok};
use crate::failure::ReplyError;
use crate::fetch::Discovery;
use crate::interest;
use crate::link::ExchangeError;
use crate::management::{ManagementError, RegisterOptions};
use crate::outbox::PacketTooLarge;
use crate::session::Event;
use crate::tags::FanOutLimit;

fn long_name() -> Name {
    name("/long").join(Component::generic(&[7; PACKET_BYTES_MAX - 20]))
}

fn host() -> Host {
    Host::new(|interest, _| vec![Reply::Data(ok(interest, &ControlResponse::ok(&ControlParameters::default())))])
}

#[test]
fn an_interest_that_is_too_large_or_malformed_says_its_name() {
    let mut host = host();
    let large = interest(&name("/a")).application_parameters(vec![0; 9000]).encode();
    let error = host.with(|session, now, outbox| session.express(large, 1, now, outbox)).unwrap_err();
    match &error {
        ExchangeError::TooLarge { name, error: PacketTooLarge { bytes, bytes_max: PACKET_BYTES_MAX } } => {
            assert!(name.to_string().starts_with("/a/params-sha256=") && *bytes > 9000, "{error}");
        }
        other => panic!("{other}"),
    }
    assert!(error.to_string().contains("NDN carries at most 8800"), "{error}");
    let hint = interest(&name("/b")).forwarding_hint(vec![Name::default()]);
    for (wire, named) in [(interest(&Name::default()).encode(), "/"), (b"\x05\x03\x07\x01".to_vec(), "/")] {
        let error = host.with(|session, now, outbox| session.express(wire, 1, now, outbox)).unwrap_err();
        assert!(matches!(&error, ExchangeError::BadInterest { name, .. } if name.to_string() == named), "{error}");
    }
    // A name that can be read although the rest is malformed.
    let mut wire = hint.encode();
    wire.truncate(wire.len() - 1);
    wire[1] -= 1;
    let error = host.with(|session, now, outbox| session.express(wire, 1, now, outbox)).unwrap_err();
    assert!(matches!(&error, ExchangeError::BadInterest { name, .. } if name.to_string() == "/b"), "{error}");
    assert_eq!(host.session.waiting(), 0);
}

#[test]
fn what_the_session_itself_cannot_ask_for_is_an_answer() {
    let mut host = host();
    host.with(|session, now, outbox| session.find(long_name(), Discovery::Auto, SECOND, now, outbox));
    assert!(matches!(host.event(), Event::Found { result: Err(ExchangeError::TooLarge { .. }), .. }));
    let command = host.with(|session, now, outbox| session.command("tags", "x", &[0; 9000], now, outbox)).unwrap();
    match host.event() {
        Event::Commanded { id, result: Err(ManagementError::Unanswered { error, .. }) } => {
            assert!(id == command && matches!(error, ExchangeError::TooLarge { .. }), "{error}");
        }
        other => panic!("{other:?}"),
    }
    host.with(|session, now, outbox| session.produce(long_name(), RegisterOptions::default(), now, outbox));
    match host.event() {
        Event::NotRegistered { prefix, error: ManagementError::Unanswered { error, .. } } => {
            assert!(prefix == long_name() && matches!(error, ExchangeError::TooLarge { .. }), "{error}");
        }
        other => panic!("{other:?}"),
    }
    host.run_for(Duration::from_secs(300));
    assert!(host.sent.is_empty() && host.session.waiting() == 0);
}

#[test]
fn answers_and_messages_that_are_too_large_are_refused() {
    let mut host = host();
    host.with(|session, now, outbox| session.produce(name("/app"), RegisterOptions::default(), now, outbox));
    assert!(matches!(host.event(), Event::Registered { .. }));
    host.arrives(interest(&name("/app/1")).encode());
    let Event::Request(request) = host.event() else { panic!("an Interest") };
    host.sent.clear();
    let large = DataBuilder::new(name("/app/1")).content(vec![0; 9000]);
    let error = host.with(|session, _, outbox| session.reply(&request, &large, outbox)).unwrap_err();
    assert!(matches!(error, ReplyError::TooLarge(PacketTooLarge { bytes: 9001.., .. })), "{error}");
    let (here, tags) = ("1:05:256".parse().unwrap(), Descriptor::of(["x"]).unwrap());
    for len in [9000, PACKET_BYTES_MAX] {
        let payload = vec![0; len];
        let refused = [
            host.with(|session, _, outbox| session.send_to(here, here, &payload, outbox)),
            host.with(|session, _, outbox| session.send_to_tags(&tags, FanOutLimit::All, here, &payload, outbox)),
        ];
        for result in refused {
            assert!(matches!(result, Err(PacketTooLarge { bytes, .. }) if bytes > len), "{result:?}");
        }
    }
    assert!(host.sent.is_empty());
    host.with(|session, _, outbox| session.send_to(here, here, &[0; 8000], outbox)).unwrap();
    assert_eq!(host.sent.len(), 1);
}

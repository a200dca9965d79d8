//! Packets at an application that waits for Data, fetches an object, and is a member of a group. It sends only packets
//! that decode. State vectors: decodes one, encodes it, and decodes the result.
#![no_main]

use std::time::Duration;

use byname_client::fetch::FetchOptions;
use byname_client::management::RegisterOptions;
use byname_client::sync::{StateVector, SyncOptions};
use byname_client::transport::Peer;
use byname_client::{Incoming, Now, Outbox, Session, SessionOptions, interest};
use byname_wire::{Data, Interest, LpPacket, NackReason, Name};
use libfuzzer_sys::fuzz_target;

fn name(uri: &str) -> Name {
    uri.parse().expect("a name")
}

fn vector(bytes: &[u8]) {
    if let Ok(vector) = StateVector::decode(bytes) {
        assert_eq!(StateVector::decode(&vector.encode()), Ok(vector));
    }
}

fuzz_target!(|packets: Vec<(Vec<u8>, u8)>| {
    let mut now = Now { elapsed: Duration::ZERO, unix: Duration::from_secs(1_795_000_000) };
    let mut outbox = Outbox::new(None, 0);
    let mut session = Session::new(SessionOptions::default());
    session.on_connected(Peer { is_local: true, is_datagram: false }, now, &mut outbox);
    session.produce(name("/a"), RegisterOptions::default(), now, &mut outbox);
    session.join(name("/g"), name("/a/me"), SyncOptions::default(), now, &mut outbox);
    let fetch = session.fetch(name("/f"), FetchOptions { window_max: 8, ..FetchOptions::default() }, now, &mut outbox);
    let asked = interest(&name("/d")).can_be_prefix(true).encode();
    session.express(asked, 2, now, &mut outbox).expect("an Interest");
    for (bytes, step) in &packets {
        vector(bytes);
        let nack = (step & 1 == 1).then_some(NackReason::NoRoute);
        let incoming = Incoming { nack, congestion_mark: u64::from(step & 2), ..Incoming::bare(bytes) };
        session.on_packet(&incoming, now, &mut outbox);
        now = now.after(Duration::from_millis(u64::from(*step)));
        session.poll(now, &mut outbox);
        let _ = session.take_chunk(fetch, now);
        while session.next_event().is_some() {}
        for frame in outbox.frames() {
            let packet = LpPacket::decode(frame).expect("a frame").fragment.expect("a packet");
            assert!(Interest::decode(packet).is_ok() || Data::decode(packet).is_ok());
        }
        outbox.clear();
    }
});

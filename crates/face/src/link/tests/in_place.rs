//! Data of 8,000 bytes is not copied between the buffer that a port received it into and its last transmission: the
//! content store uses these buffers [So §2.5].

use std::sync::Arc;

use byname_forward::face_table::{LinkType, Scope};
use byname_forward::tables::{Nexthop, NexthopGroup, Tables};
use byname_forward::worker::{Worker, WorkerConfig};
use byname_lookup::oracle::Oracle;
use byname_lookup::{Change, Control, EntryId};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Name, NameHashKey};

use super::*;

const CONSUMERS: [FaceId; 2] = [FaceId(256), FaceId(257)];
const PRODUCER: FaceId = FaceId(300);
const KEY: NameHashKey = NameHashKey::new([1, 2]);

/// A worker between links, with room for one Data.
struct Router {
    worker: Worker,
    links: Vec<(FaceId, LinkService)>,
}

impl Router {
    fn new() -> Router {
        let mut fib = Oracle::default();
        fib.apply(&[Change::Set(Name::default(), EntryId(0))]).unwrap();
        let tables = Arc::new(Tables::new(fib.query()));
        let nexthops = [Nexthop { face: PRODUCER, cost: 0 }].into();
        tables.set_group(EntryId(0), Some(NexthopGroup { nexthops }));
        let mut worker = Worker::new(WorkerConfig { cs_packets_max: 1, ..WorkerConfig::default() }, KEY, tables, 1);
        let faces = [CONSUMERS[0], CONSUMERS[1], PRODUCER];
        faces.into_iter().for_each(|face| worker.face_up(face, Scope::NonLocal, LinkType::PointToPoint));
        Router { worker, links: faces.map(|face| (face, service(None, 0))).into() }
    }

    fn link(&mut self, face: FaceId) -> &mut LinkService {
        self.links.iter_mut().find(|(id, _)| *id == face).map(|(_, link)| link).expect("it has a link")
    }

    /// Receives a frame. Returns the frames that leave, with their faces.
    fn receive(&mut self, face: FaceId, frame: Packet) -> Vec<(FaceId, Frame)> {
        let (mut input, mut output, mut frames) = (Vec::new(), Vec::new(), Vec::new());
        self.link(face).receive_owned(Ticks(0), face, frame, &mut input);
        self.worker.poll(Ticks(0), &mut input, &mut output);
        for mut outgoing in output {
            let (to, mut sent) = (outgoing.face, Vec::new());
            self.link(to).send(Ticks(0), &mut outgoing, 0, &mut sent);
            frames.extend(sent.into_iter().map(|frame| (to, frame)));
        }
        frames
    }
}

fn interest(uri: &str, nonce: u32) -> Packet {
    let token = PitToken::new(&nonce.to_be_bytes()).unwrap();
    framed(token, &InterestBuilder::new(uri.parse().unwrap(), nonce).encode())
}

fn content(uri: &str) -> Vec<u8> {
    DataBuilder::new(uri.parse().unwrap()).freshness_ms(1000).content(vec![7; 8000]).encode()
}

fn data(uri: &str) -> Packet {
    framed(PitToken::new(b"back").unwrap(), &content(uri))
}

/// A packet with a link header.
fn framed(pit_token: PitToken, packet: &[u8]) -> Packet {
    let mut frame = Vec::new();
    LpPacket { pit_token, fragment: Some(packet), ..LpPacket::default() }.encode(&mut frame);
    Packet::copy_from(&frame)
}

/// Address of the network packet in each frame.
fn places(frames: &[(FaceId, Frame)]) -> Vec<*const u8> {
    frames.iter().map(|(_, frame)| frame.parts().1.as_ptr()).collect()
}

#[test]
fn data_stays_where_it_was_received_until_nobody_sends_it() {
    let mut router = Router::new();
    for (consumer, nonce) in CONSUMERS.into_iter().zip(1..) {
        router.receive(consumer, interest("/a", nonce));
    }
    let received = data("/a");
    let place = received.as_ptr_range();
    // The Data goes to all pending faces, and is kept.
    let sent = router.receive(PRODUCER, received);
    assert_eq!(sent.iter().map(|(face, _)| *face).collect::<Vec<_>>(), CONSUMERS);
    let inside = places(&sent)[0];
    assert!(place.contains(&inside), "behind the link header that it came with");
    assert_eq!(places(&sent), [inside; 2]);
    // The content store answers while the ports still hold the first two frames.
    let hit = router.receive(CONSUMERS[0], interest("/a", 3));
    assert_eq!(places(&hit), [inside]);
    drop(sent);
    // Another Data evicts it from the store. The frame still sends it from the same buffer.
    router.receive(CONSUMERS[0], interest("/b", 4));
    let other = router.receive(PRODUCER, data("/b"));
    assert_eq!(router.worker.cs_info().packets, 1);
    assert_ne!(places(&other), [inside]);
    assert_eq!(places(&hit), [inside]);
    assert_eq!(hit[0].1.parts().1, content("/a"));
    assert_eq!(router.receive(CONSUMERS[0], interest("/a", 5))[0].0, PRODUCER, "it is in no store any more");
    // Then the buffer returns to the pool.
    drop(hit);
    let next = data("/c");
    assert_eq!(next.as_ptr_range(), place);
}

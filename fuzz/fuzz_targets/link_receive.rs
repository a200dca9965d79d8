//! `LinkService`: receives any frames from several endpoints while time passes, and carries packets between two
//! services. Memory for incomplete packets must stay within the budget and be returned. Frames must fit the MTU. Over a
//! link without loss, every packet must arrive unchanged.
#![no_main]

use std::time::Duration;

use byname_face::LinkFlags;
use byname_face::link::{Frame, LinkConfig, LinkService, MTU_MIN, ReassemblyBudget};
use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received, Ticks};
use byname_wire::{LpPacket, NackReason, PACKET_BYTES_MAX, PitToken, tagnet, tlv};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

const FACE: FaceId = FaceId(256);
const BUDGET_BYTES: usize = 64 << 10;

#[derive(Arbitrary, Debug)]
enum Action {
    Bytes { endpoint: u8, bytes: Vec<u8> },
    Fragment { endpoint: u8, sequence: u8, index: u16, count: u16, tx: Option<u8>, len: u16 },
    Acks { acks: Vec<u8> },
    Send { interest: bool, len: u16, token: u8, nack: bool, mark: u8, queue_bytes: u32, lose: u8 },
    Wait { ms: u16 },
    Configure { mtu: Option<u16>, flags: u8 },
}

#[derive(Arbitrary, Debug)]
struct Input {
    mtu: Option<u16>,
    flags: u8,
    actions: Vec<Action>,
}

fn config(mtu: Option<u16>, flags: u8) -> LinkConfig {
    LinkConfig {
        mtu: mtu.map(|mtu| usize::from(mtu).max(MTU_MIN as usize)),
        flags: LinkFlags::default().masked(u64::from(flags), u64::MAX),
        ..LinkConfig::default()
    }
}

/// About `len` bytes that begin like an Interest or Data.
fn network_packet(interest: bool, len: usize) -> Packet {
    let mut wire = Vec::new();
    tlv::push_tlv(&mut wire, if interest { 5 } else { 6 }, &vec![7; len.min(PACKET_BYTES_MAX - 4)]);
    Packet::copy_from(&wire)
}

fn check_received(received: &[Received]) {
    for packet in received {
        assert_eq!(packet.face, FACE);
        assert!(packet.packet.len() <= PACKET_BYTES_MAX);
        assert!(matches!(packet.packet[0], 5 | 6) || tagnet::is_tagnet(&packet.packet));
        assert_eq!(tlv::element_len(&packet.packet, PACKET_BYTES_MAX), Ok(Some(packet.packet.len())));
    }
}

/// Hands frames of `from` to `to`, except those that `lose` selects. Returns the received packets.
fn carry(now: Ticks, from: &LinkConfig, frames: &mut Vec<Frame>, to: &mut LinkService, lose: u8) -> Vec<Received> {
    let mut received = Vec::new();
    for (i, frame) in frames.drain(..).enumerate() {
        assert!(!frame.is_empty() && from.mtu.is_none_or(|mtu| frame.len() <= mtu), "{} bytes", frame.len());
        let mut bytes = Vec::new();
        frame.write_to(&mut bytes);
        assert!(matches!(bytes[0], 5 | 6) || LpPacket::decode(&bytes).is_ok());
        if lose == 0 || i % usize::from(lose) != 0 {
            to.receive(now, FACE, &bytes, &mut received);
        }
    }
    check_received(&received);
    received
}

fuzz_target!(|input: Input| {
    let budget = ReassemblyBudget::new(BUDGET_BYTES);
    // Two ends of a link, and a service that receives frames from strangers.
    let mut a = LinkService::new(config(input.mtu, input.flags), ReassemblyBudget::default());
    let mut b = LinkService::new(config(input.mtu, input.flags), ReassemblyBudget::default());
    let mut hostile = LinkService::new(config(input.mtu, input.flags), budget.clone());
    let mut now = Ticks::from_ms(1000);
    let mut frames = Vec::new();
    let mut received = Vec::new();
    let mut lossless = true;
    for action in input.actions.into_iter().take(100) {
        match action {
            Action::Bytes { endpoint, bytes } => {
                hostile.receive_from(now, FACE, endpoint.into(), &bytes, &mut received);
            }
            Action::Fragment { endpoint, sequence, index, count, tx, len } => {
                let bytes = network_packet(true, usize::from(len));
                let lp = LpPacket {
                    fragment: Some(&bytes[..bytes.len() / (1 + usize::from(count % 8))]).filter(|f| !f.is_empty()),
                    sequence: Some(u64::from(sequence)),
                    frag_index: u64::from(index),
                    frag_count: u64::from(count),
                    tx_sequence: tx.map(u64::from),
                    ..LpPacket::default()
                };
                let mut frame = Vec::new();
                lp.encode(&mut frame);
                hostile.receive_from(now, FACE, endpoint.into(), &frame, &mut received);
            }
            Action::Acks { acks } => {
                let lp = LpPacket { acks: acks.iter().map(|n| u64::from(*n)).collect(), ..LpPacket::default() };
                let mut frame = Vec::new();
                lp.encode(&mut frame);
                hostile.receive(now, FACE, &frame, &mut received);
            }
            Action::Send { interest, len, token, nack, mark, queue_bytes, lose } => {
                let packet = network_packet(interest, usize::from(len));
                let fields = LinkFields {
                    pit_token: PitToken::new(&vec![token; usize::from(token % 33)]).expect("at most 32 bytes"),
                    nack: (nack && interest).then_some(NackReason::NoRoute),
                    congestion_mark: mark.into(),
                    ..LinkFields::default()
                };
                let outgoing = || Outgoing { face: FACE, fields: fields.clone(), packet: packet.clone() };
                hostile.send(now, &mut outgoing(), queue_bytes.into(), &mut frames);
                frames.clear();

                let drops = a.counters.out_drops;
                a.send(now, &mut outgoing(), queue_bytes.into(), &mut frames);
                lossless &= lose == 0;
                let out = carry(now, a.config(), &mut frames, &mut b, lose);
                if lossless && a.counters.out_drops == drops {
                    // Frames that reliability resends may arrive at the same time.
                    let same = out.iter().filter(|r| *r.packet == *packet && r.fields.nack == fields.nack);
                    let same = same.filter(|r| r.fields.pit_token == fields.pit_token);
                    assert_eq!(same.count(), 1);
                }
                b.flush_reliability(now, &mut frames);
                carry(now, b.config(), &mut frames, &mut a, 0);
            }
            Action::Wait { ms } => {
                now = now + Duration::from_millis(ms.into());
                for link in [&mut a, &mut b, &mut hostile] {
                    if link.next_deadline().is_some_and(|deadline| deadline <= now) {
                        link.on_deadline(now, &mut frames);
                    }
                }
                frames.clear();
                lossless = false;
            }
            Action::Configure { mtu, flags } => {
                hostile.set_config(config(mtu, flags));
            }
        }
        check_received(&received);
        received.clear();
        assert!(budget.left_bytes() <= BUDGET_BYTES);
    }
    // All incomplete packets time out, and their memory is returned.
    for _ in 0..1000 {
        let Some(deadline) = hostile.next_deadline() else { break };
        now = now.max(deadline);
        hostile.on_deadline(now, &mut frames);
        frames.clear();
    }
    assert_eq!(hostile.next_deadline(), None);
    assert_eq!(budget.left_bytes(), BUDGET_BYTES);
});

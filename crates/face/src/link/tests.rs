//! Round trips and hostile fragments through whole link services.

mod in_place;

use std::time::Duration;

use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received, Ticks};
use byname_wire::{LpPacket, NackReason, PACKET_BYTES_MAX, PitToken, tlv};
use proptest::prelude::*;

use super::*;

const FACE: FaceId = FaceId(300);

fn service(mtu: Option<usize>, flags: u64) -> LinkService {
    let flags = LinkFlags::default().masked(flags, u64::MAX);
    LinkService::new(LinkConfig { mtu, flags, ..LinkConfig::default() }, ReassemblyBudget::default())
}

/// An element of `len` bytes in total, recognizable by `seed`.
fn network_packet(typ: u64, len: usize, seed: u8) -> Packet {
    let header = [2, 4, 6].into_iter().find(|h| 1 + tlv::number_len((len - h) as u64) == *h).unwrap();
    let value: Vec<u8> = (0..len - header).map(|i| seed.wrapping_add((i % 251) as u8)).collect();
    let mut wire = Vec::new();
    tlv::push_tlv(&mut wire, typ, &value);
    assert_eq!(wire.len(), len);
    Packet::copy_from(&wire)
}

fn send(link: &mut LinkService, now: Ticks, fields: LinkFields, packet: &Packet) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    link.send(now, &mut Outgoing { face: FACE, fields, packet: packet.clone() }, 0, &mut frames);
    bytes(&frames)
}

fn bytes(frames: &[Frame]) -> Vec<Vec<u8>> {
    let of = |frame: &Frame| {
        let mut out = Vec::new();
        frame.write_to(&mut out);
        assert_eq!(out.len(), frame.len());
        out
    };
    frames.iter().map(of).collect()
}

fn receive(link: &mut LinkService, now: Ticks, frame: &[u8]) -> Vec<Received> {
    let mut out = Vec::new();
    link.receive(now, FACE, frame, &mut out);
    out
}

fn fragment(sequence: u64, index: u64, count: u64, payload: &[u8]) -> Vec<u8> {
    let lp = LpPacket {
        sequence: Some(sequence),
        frag_index: index,
        frag_count: count,
        fragment: Some(payload),
        ..LpPacket::default()
    };
    let mut out = Vec::new();
    lp.encode(&mut out);
    out
}

#[test]
fn a_packet_without_fields_goes_bare_and_comes_back_whole() {
    let (mut a, mut b) = (service(Some(1400), 0), service(Some(1400), 0));
    // Interest, Data, and packets addressed by tags and by a locator.
    for typ in [5, 6, 0xc1, 0xc3] {
        let packet = network_packet(typ, 100, 1);
        let frames = send(&mut a, Ticks(0), LinkFields::default(), &packet);
        assert_eq!(frames, [packet.to_vec()]);
        let received = receive(&mut b, Ticks(0), &frames[0]);
        assert_eq!(&*received[0].packet, &*packet);
        assert_eq!(received[0].face, FACE);
    }
    assert_eq!((a.counters.out_bytes, b.counters.in_bytes), (400, 400));
}

#[test]
fn fields_travel_with_their_packet() {
    let (mut a, mut b) = (service(None, 1), service(None, 1));
    let fields = LinkFields {
        pit_token: PitToken::new(&[1, 2, 3, 4, 5, 6]).unwrap(),
        nack: Some(NackReason::NoRoute),
        incoming_face_id: Some(FaceId(77)),
        congestion_mark: 1,
        non_discovery: true,
        ..LinkFields::default()
    };
    let frames = send(&mut a, Ticks(0), fields.clone(), &network_packet(5, 60, 1));
    let lp = LpPacket::decode(&frames[0]).unwrap();
    assert_eq!(lp.incoming_face_id, Some(FaceId(77)));
    let received = receive(&mut b, Ticks(0), &frames[0]).remove(0).fields;
    assert_eq!(received.pit_token, fields.pit_token);
    assert_eq!(received.nack, fields.nack);
    assert_eq!((received.congestion_mark, received.non_discovery), (1, true));
    assert_eq!(received.incoming_face_id, None, "what a peer says of its own faces means nothing here");
}

/// Frames that have no field but a short token have a way of their own, which must not differ from that of all others.
#[test]
fn a_token_alone_travels_as_any_field() {
    for len in [2, 3, 240, 243, 244, 252, 253, 1000, PACKET_BYTES_MAX] {
        for token in [&[7][..], &[1, 2, 3, 4, 5, 6], &[0; 8], &[9; 9], &[8; 32]] {
            let packet = network_packet(6, len, 3);
            let pit_token = PitToken::new(token).unwrap();
            let mut expected = Vec::new();
            LpPacket { pit_token, fragment: Some(&packet), ..LpPacket::default() }.encode(&mut expected);
            for mtu in [None, Some(expected.len()), Some(expected.len() + SHORT_HEADER_MAX)] {
                let (mut sender, mut receiver) = (service(mtu, 0), service(None, 0));
                let frames = send(&mut sender, Ticks(0), LinkFields { pit_token, ..LinkFields::default() }, &packet);
                assert_eq!(frames, [&expected[..]], "{len} bytes, {token:?}, {mtu:?}");
                assert_eq!(sender.counters.out_bytes, expected.len() as u64);
                let received = receive(&mut receiver, Ticks(0), &frames[0]);
                assert_eq!((received.len(), &received[0].packet[..]), (1, &packet[..]));
                assert_eq!((received[0].face, received[0].fields.pit_token), (FACE, pit_token));
                let mut answers = Vec::new();
                assert!(receiver.receive_answer(FACE, &frames[0], &mut answers));
                assert_eq!((&answers[0].packet[..], answers[0].fields.pit_token), (&packet[..], pit_token));
            }
        }
    }
}

#[test]
fn local_fields_pass_only_where_enabled() {
    let mut wire = Vec::new();
    let packet = network_packet(5, 60, 1);
    LpPacket {
        next_hop_face_id: Some(FaceId(9)),
        cache_policy: Some(1),
        fragment: Some(&packet),
        ..LpPacket::default()
    }
    .encode(&mut wire);
    let mut link = service(None, 0);
    let closed = receive(&mut link, Ticks(0), &wire).remove(0).fields;
    assert_eq!((closed.next_hop_face_id, closed.no_cache), (None, false));
    link.set_config(LinkConfig {
        flags: LinkFlags { local_fields: true, ..Default::default() },
        ..link.config().clone()
    });
    let open = receive(&mut link, Ticks(0), &wire).remove(0).fields;
    assert_eq!((open.next_hop_face_id, open.no_cache), (Some(FaceId(9)), true));

    let fields = LinkFields { incoming_face_id: Some(FaceId(8)), ..LinkFields::default() };
    assert_eq!(send(&mut service(None, 0), Ticks(0), fields, &packet), [packet.to_vec()]);
}

#[test]
fn what_is_no_packet_is_counted_and_dropped() {
    let mut link = service(None, 0);
    let nacked_data = {
        let mut out = Vec::new();
        let data = network_packet(6, 60, 1);
        LpPacket { nack: Some(NackReason::None), fragment: Some(&data), ..LpPacket::default() }.encode(&mut out);
        out
    };
    let hostile: [&[u8]; 10] = [
        &[],
        &[5],
        &[5, 3, 1, 2],
        &[5, 1, 1, 2],
        &[7, 0],
        &[0x64, 255, 255, 255, 255, 255, 255, 255, 255, 255],
        &[0x64, 2, 0x50, 5],
        &[0x64, 4, 0x50, 2, 9, 0],
        &[5, 254, 255, 255, 255, 255],
        &nacked_data,
    ];
    for frame in hostile {
        assert!(receive(&mut link, Ticks(0), frame).is_empty(), "{frame:?}");
    }
    assert_eq!(link.counters.in_malformed, hostile.len() as u64);
    assert!(receive(&mut link, Ticks(0), &[0x64, 0]).is_empty(), "an IDLE frame");
    assert_eq!(link.counters.in_malformed, hostile.len() as u64);
}

proptest! {
    #[test]
    fn fragments_in_any_order_make_the_packet_again(
        len in 3..=PACKET_BYTES_MAX,
        mtu in 64..3000usize,
        token in proptest::collection::vec(any::<u8>(), 0..=8),
        order in any::<u64>(),
        reliable in any::<bool>(),
    ) {
        let flags = if reliable { 2 } else { 0 };
        let (mut a, mut b) = (service(Some(mtu), flags), service(Some(mtu), flags));
        // No TLV has 255 or 256 bytes in total: from 253 on, its length field takes three bytes.
        let packet = network_packet(6, if matches!(len, 255 | 256) { 257 } else { len }, 7);
        let fields = LinkFields { pit_token: PitToken::new(&token).unwrap(), ..LinkFields::default() };
        let mut frames = send(&mut a, Ticks(0), fields, &packet);
        if frames.is_empty() {
            prop_assert_eq!(a.counters.out_drops, 1);
            prop_assert!(packet.len().div_ceil(mtu - 60.min(mtu - 1)) as u64 > FRAGMENTS_MAX / 2);
            return Ok(());
        }
        for frame in &frames {
            prop_assert!(frame.len() <= mtu);
        }
        frames.sort_by_key(|f| f.iter().fold(order, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3)));
        let received: Vec<_> = frames.iter().flat_map(|f| receive(&mut b, Ticks(0), f)).collect();
        prop_assert_eq!(received.len(), 1);
        prop_assert_eq!(&*received[0].packet, &*packet);
        prop_assert_eq!(received[0].fields.pit_token.as_slice(), &token[..]);
        prop_assert_eq!(b.budget.left_bytes(), ReassemblyBudget::default().left_bytes());
    }

    #[test]
    fn hostile_frames_neither_panic_nor_leak(
        frames in proptest::collection::vec((0..40u64, 0..12u64, 0..12u64, 1..3000usize, any::<bool>()), 1..300),
    ) {
        let budget = ReassemblyBudget::new(64 << 10);
        let flags = LinkFlags { reliability: true, ..LinkFlags::default() };
        let mut link = LinkService::new(LinkConfig { flags, ..LinkConfig::default() }, budget.clone());
        let mut out = Vec::new();
        for (step, (sequence, index, count, len, tx)) in frames.into_iter().enumerate() {
            let mut frame = Vec::new();
            let payload = vec![5; len];
            LpPacket {
                sequence: Some(sequence),
                frag_index: index,
                frag_count: count,
                tx_sequence: tx.then_some(sequence),
                acks: [sequence].into_iter().collect(),
                fragment: Some(&payload),
                ..LpPacket::default()
            }
            .encode(&mut frame);
            let now = Ticks::from_ms(step as u64 * 7);
            link.receive(now, FACE, &frame, &mut out);
            link.on_deadline(now, &mut Vec::new());
        }
        drop(link);
        prop_assert_eq!(budget.left_bytes(), 64 << 10);
    }
}

#[test]
fn a_fragment_that_promises_millions_reserves_nothing() {
    let mut link = service(None, 0);
    for count in [FRAGMENTS_MAX + 1, 1 << 20, u64::MAX] {
        assert!(receive(&mut link, Ticks(0), &fragment(5, 0, count, b"x")).is_empty());
    }
    assert!(receive(&mut link, Ticks(0), &fragment(5, 399, 400, b"x")).is_empty());
    assert_eq!(link.counters.in_malformed, 3);
    assert!(ReassemblyBudget::default().left_bytes() - link.budget.left_bytes() < 1024);
}

#[test]
fn a_reassembly_bomb_is_dropped() {
    let mut link = service(None, 0);
    let piece = vec![6; 4000];
    for index in 0..3 {
        assert!(receive(&mut link, Ticks(0), &fragment(index, index, 400, &piece)).is_empty());
    }
    assert_eq!(link.counters.in_malformed, 1, "the third goes past the longest packet");
    assert_eq!(link.next_deadline(), None);
}

#[test]
fn inconsistent_and_duplicate_fragments_are_refused() {
    let mut link = service(None, 0);
    let packet = network_packet(6, 20, 3);
    assert!(receive(&mut link, Ticks(0), &fragment(10, 0, 2, &packet[..10])).is_empty());
    assert!(receive(&mut link, Ticks(0), &fragment(10, 0, 2, &packet[..10])).is_empty());
    assert_eq!(link.counters.in_malformed, 1, "a duplicate leaves what is there");
    let whole = receive(&mut link, Ticks(0), &fragment(11, 1, 2, &packet[10..]));
    assert_eq!(&*whole[0].packet, &*packet);

    assert!(receive(&mut link, Ticks(0), &fragment(20, 0, 2, &packet[..10])).is_empty());
    assert!(receive(&mut link, Ticks(0), &fragment(21, 1, 3, &packet[10..])).is_empty());
    assert!(receive(&mut link, Ticks(0), &fragment(21, 1, 2, &packet[10..])).is_empty(), "both are gone");
    assert_eq!(link.counters.in_malformed, 2);
}

#[test]
fn peers_of_one_face_may_use_the_same_sequences() {
    let mut link = service(None, 0);
    let packets = [network_packet(6, 20, 3), network_packet(6, 20, 4)];
    let mut out = Vec::new();
    for (index, range) in [(0, 0..10), (1, 10..20)] {
        for (endpoint, packet) in (0..).zip(&packets) {
            link.receive_from(Ticks(0), FACE, endpoint, &fragment(index, index, 2, &packet[range.clone()]), &mut out);
        }
    }
    assert!(out.iter().map(|r| &*r.packet).eq(packets.iter().map(|p| &**p)));
}

#[test]
fn incomplete_packets_are_bounded_in_number_and_time() {
    let mut link = service(None, 0);
    for n in 0..1000 {
        assert!(receive(&mut link, Ticks::from_ms(n / 10), &fragment(n * 10, 0, 2, &[6, 8, 1])).is_empty());
    }
    let partials = reassembly::PARTIALS_MAX as u64;
    assert_eq!(link.counters.in_reassembly_timeouts, 1000 - partials);
    let deadline = link.next_deadline().unwrap();
    assert_eq!(deadline, Ticks::from_ms((1000 - partials) / 10) + reassembly::TIMEOUT);
    link.on_deadline(Ticks::from_ms(99) + reassembly::TIMEOUT, &mut Vec::new());
    assert_eq!(link.counters.in_reassembly_timeouts, 1000);
    assert_eq!(link.next_deadline(), None);
    assert_eq!(link.budget.left_bytes(), ReassemblyBudget::default().left_bytes());
}

#[test]
fn faces_share_one_budget() {
    let budget = ReassemblyBudget::new(10_000);
    let mut links: Vec<_> = (0..100).map(|_| LinkService::new(LinkConfig::default(), budget.clone())).collect();
    for link in &mut links {
        receive(link, Ticks(0), &fragment(0, 0, 2, &[6; 600]));
    }
    let kept = links.iter().filter(|l| l.next_deadline().is_some()).count();
    assert!((8..=15).contains(&kept), "{kept}");
    drop(links);
    assert_eq!(budget.left_bytes(), 10_000);
}

/// Carries frames both ways until nothing moves. Loses the frames that `lose` selects.
fn exchange(
    a: &mut LinkService,
    b: &mut LinkService,
    mut in_flight: Vec<Vec<u8>>,
    mut lose: impl FnMut(&LpPacket<'_>) -> bool,
) -> Vec<Received> {
    let (mut now, mut delivered) = (Ticks(0), Vec::new());
    for _ in 0..2000 {
        for frame in in_flight.drain(..) {
            if !lose(&LpPacket::decode(&frame).unwrap()) {
                delivered.extend(receive(b, now, &frame));
            }
        }
        let Some(next) = [a.next_deadline(), b.next_deadline()].into_iter().flatten().min() else { return delivered };
        now = next.max(now);
        let mut back = Vec::new();
        b.on_deadline(now, &mut back);
        for frame in bytes(&back) {
            assert!(receive(a, now, &frame).is_empty());
        }
        let mut forth = Vec::new();
        a.on_deadline(now, &mut forth);
        in_flight = bytes(&forth);
    }
    panic!("the link never comes to rest");
}

#[test]
fn a_reliable_link_delivers_each_packet_once_in_spite_of_loss() {
    let (mut a, mut b) = (service(Some(500), 2), service(Some(500), 2));
    let packets: Vec<_> = (0..50).map(|n| network_packet(6, 1200, n)).collect();
    let frames: Vec<_> = packets.iter().flat_map(|p| send(&mut a, Ticks(0), LinkFields::default(), p)).collect();
    assert_eq!(frames.len(), 150);
    let mut n = 0;
    let received = exchange(&mut a, &mut b, frames, |_| {
        n += 1;
        n % 5 == 0
    });
    let mut got: Vec<_> = received.iter().map(|r| r.packet.to_vec()).collect();
    got.sort();
    assert_eq!(got, packets.iter().map(|p| p.to_vec()).collect::<Vec<_>>());
    assert!(a.counters.retransmissions >= 30, "{}", a.counters.retransmissions);
}

#[test]
fn a_dead_link_is_given_up_after_three_retransmissions() {
    let (mut a, mut b) = (service(Some(500), 2), service(Some(500), 2));
    let frames = send(&mut a, Ticks(0), LinkFields::default(), &network_packet(6, 1200, 1));
    assert!(exchange(&mut a, &mut b, frames, |_| true).is_empty());
    assert_eq!(a.counters.retransmissions, 9);
    assert_eq!(a.next_deadline(), None);
}

#[test]
fn three_acks_that_overtake_a_frame_show_it_lost_at_once() {
    let (mut a, mut b) = (service(Some(1400), 2), service(Some(1400), 2));
    let frames: Vec<_> =
        (0..4).flat_map(|n| send(&mut a, Ticks(0), LinkFields::default(), &network_packet(5, 60, n))).collect();
    for frame in &frames[1..] {
        receive(&mut b, Ticks(0), frame);
    }
    let mut acks = Vec::new();
    b.on_deadline(Ticks::from_ms(5), &mut acks);
    receive(&mut a, Ticks::from_ms(5), &bytes(&acks)[0]);
    assert!(a.next_deadline().is_some_and(|at| at <= Ticks::from_ms(5)));
    let mut again = Vec::new();
    a.on_deadline(Ticks::from_ms(5), &mut again);
    assert_eq!(receive(&mut b, Ticks::from_ms(5), &bytes(&again)[0]).len(), 1);
    assert_eq!(a.counters.retransmissions, 1);
}

#[test]
fn acks_ride_on_packets_or_go_alone_after_five_ms() {
    let (mut a, mut b) = (service(Some(1400), 2), service(Some(1400), 2));
    let packet = network_packet(5, 60, 1);
    let frames = send(&mut a, Ticks(0), LinkFields::default(), &packet);
    receive(&mut b, Ticks(0), &frames[0]);
    let reply = send(&mut b, Ticks::from_ms(1), LinkFields::default(), &packet);
    assert_eq!(LpPacket::decode(&reply[0]).unwrap().acks.as_slice(), [0]);
    receive(&mut a, Ticks::from_ms(1), &reply[0]);
    assert_eq!(a.next_deadline(), Some(Ticks::from_ms(6)));
    let mut idle = Vec::new();
    a.on_deadline(Ticks::from_ms(6), &mut idle);
    let idle = bytes(&idle);
    let lp = LpPacket::decode(&idle[0]).unwrap();
    assert_eq!((lp.fragment, lp.acks.as_slice()), (None, &[0][..]));
    receive(&mut b, Ticks::from_ms(6), &idle[0]);
    assert_eq!((a.next_deadline(), b.next_deadline()), (None, None));
}

#[test]
fn a_long_queue_marks_packets() {
    let mut link = service(None, 4);
    let packet = network_packet(6, 60, 1);
    let mut marks = 0;
    for ms in 0..400 {
        let mut frames = Vec::new();
        let mut outgoing = Outgoing { face: FACE, fields: LinkFields::default(), packet: packet.clone() };
        link.send(Ticks::from_ms(ms), &mut outgoing, 100_000, &mut frames);
        marks += LpPacket::decode(&bytes(&frames)[0]).unwrap().congestion_mark;
    }
    assert_eq!(marks, 6);
    assert_eq!(link.counters.congestion_marks, 6);
    assert_eq!(link.config().base_congestion_marking_interval, Duration::from_millis(100));
}

#[test]
fn an_announcement_that_does_not_fit_stays_behind() {
    let mut link = service(Some(200), 0);
    let fields = LinkFields { prefix_announcement: Some(network_packet(6, 300, 1)), ..LinkFields::default() };
    let frames = send(&mut link, Ticks(0), fields, &network_packet(6, 500, 2));
    let mut peer = service(Some(200), 0);
    let received: Vec<_> = frames.iter().flat_map(|f| receive(&mut peer, Ticks(0), f)).collect();
    assert_eq!(received[0].packet.len(), 500);
    assert!(received[0].fields.prefix_announcement.is_none());
}

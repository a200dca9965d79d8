use super::*;
use crate::data::DataBuilder;
use crate::name::Name;

const INTEREST_WIRE: &[u8] = &[0x05, 5, 0x07, 3, 8, 1, b'a'];
const FRAGMENT: &[u8] = &[0x50, 7, 0x05, 5, 0x07, 3, 8, 1, b'a'];
const PIT_TOKEN: &[u8] = &[0x62, 1, 9];
const ACK: &[u8] = &[0xfd, 3, 0x44, 8, 0, 0, 0, 0, 0, 0, 0, 1];

fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let mut wire = vec![];
    tlv::push_tlv(&mut wire, types::LP_PACKET, &parts.concat());
    wire
}

fn error(parts: &[&[u8]]) -> Option<DecodeError> {
    LpPacket::decode(&frame(parts)).err()
}

#[test]
fn bare_packets_have_no_fields() {
    for wire in [INTEREST_WIRE, &[0x06, 0]] {
        let packet = LpPacket::decode(wire).unwrap();
        assert_eq!(packet, LpPacket { fragment: Some(wire), ..LpPacket::default() });
        assert_eq!(packet.header_len(wire.len()), 0);
        let mut out = vec![];
        packet.encode(&mut out);
        assert_eq!(out, wire);
    }
}

#[test]
fn every_field_round_trips() {
    let announcement = DataBuilder::new("/p".parse::<Name>().unwrap()).content(vec![0; 300]).encode();
    let full = LpPacket {
        fragment: Some(INTEREST_WIRE),
        sequence: Some(u64::MAX),
        frag_index: 299,
        frag_count: 300,
        pit_token: PitToken::new(&[7; 32]).unwrap(),
        nack: Some(NackReason::NoRoute),
        next_hop_face_id: Some(FaceId(256)),
        incoming_face_id: Some(FaceId(70_000)),
        cache_policy: Some(1),
        congestion_mark: 1,
        acks: [1, 2, u64::MAX].into_iter().collect(),
        tx_sequence: Some(5),
        non_discovery: true,
        prefix_announcement: Some(&announcement),
    };
    let d = LpPacket::default;
    for packet in [
        LpPacket { sequence: full.sequence, ..d() },
        LpPacket { frag_index: 1, frag_count: 2, ..d() },
        LpPacket { pit_token: full.pit_token, ..d() },
        LpPacket { nack: full.nack, ..d() },
        LpPacket { nack: Some(NackReason::None), ..d() },
        LpPacket { next_hop_face_id: full.next_hop_face_id, ..d() },
        LpPacket { incoming_face_id: full.incoming_face_id, ..d() },
        LpPacket { cache_policy: full.cache_policy, ..d() },
        LpPacket { congestion_mark: 1, ..d() },
        LpPacket { acks: full.acks.clone(), ..d() },
        LpPacket { tx_sequence: full.tx_sequence, ..d() },
        LpPacket { non_discovery: true, ..d() },
        LpPacket { prefix_announcement: full.prefix_announcement, ..d() },
        full,
    ] {
        for fragment in [Some(INTEREST_WIRE), None] {
            let packet = LpPacket { fragment, ..packet.clone() };
            let mut out = vec![];
            packet.encode(&mut out);
            let fragment_len = fragment.map_or(0, <[u8]>::len);
            assert_eq!(out.len(), packet.header_len(fragment_len) + fragment_len);
            assert_eq!(LpPacket::decode(&out).unwrap(), packet);
        }
    }
}

#[test]
fn header_lengths_are_exact_at_each_size_of_length() {
    let packet = LpPacket { congestion_mark: 1, ..LpPacket::default() };
    for fragment_len in [1, 240, 245, 246, 252, 253, 8800, 65_530, 65_536] {
        let mut out = vec![];
        packet.encode_header(fragment_len, &mut out);
        assert_eq!(out.len(), packet.header_len(fragment_len));
        assert_eq!(
            tlv::element_len(&[&out[..], &vec![5; fragment_len]].concat(), usize::MAX),
            Ok(Some(out.len() + fragment_len))
        );
    }
}

#[test]
fn a_default_frame_without_fragment_is_nothing() {
    let mut out = vec![];
    LpPacket::default().encode(&mut out);
    assert!(out.is_empty());
    // IDLE, as a peer may send it.
    assert_eq!(LpPacket::decode(&[0x64, 0]), Ok(LpPacket::default()));
}

#[test]
fn order_and_repetition() {
    let unexpected = |typ| Some(DecodeError::UnexpectedCritical(typ));
    assert_eq!(error(&[PIT_TOKEN, ACK, ACK, FRAGMENT]), None);
    assert_eq!(error(&[FRAGMENT, PIT_TOKEN]), unexpected(field::PIT_TOKEN));
    assert_eq!(error(&[FRAGMENT, FRAGMENT]), unexpected(field::FRAGMENT));
    assert_eq!(error(&[FRAGMENT, &[0xfd, 3, 0x54, 0]]), unexpected(0x354));
    assert_eq!(error(&[PIT_TOKEN, PIT_TOKEN]), unexpected(field::PIT_TOKEN));
    assert_eq!(error(&[ACK, PIT_TOKEN]), unexpected(field::PIT_TOKEN));
    assert_eq!(error(&[ACK, &[0xfd, 3, 0x4c, 0], ACK]), unexpected(field::ACK));
}

#[test]
fn unknown_fields() {
    for typ in [800u64 + 4, 956] {
        let mut element = vec![];
        tlv::push_tlv(&mut element, typ, &[1, 2]);
        assert_eq!(error(&[&element, FRAGMENT]), None, "{typ}");
        assert_eq!(error(&[&element, &element]), Some(DecodeError::UnexpectedCritical(typ)));
    }
    for typ in [0x40, 0x54, 0x63, 0x65, 300, 796, 801, 802, 803, 957, 960, 0x1_0000] {
        let mut element = vec![];
        tlv::push_tlv(&mut element, typ, &[1, 2]);
        assert_eq!(error(&[&element]), Some(DecodeError::UnexpectedCritical(typ)));
    }
}

#[test]
fn malformed_values() {
    let bad = |typ| Some(DecodeError::BadValue(typ));
    for typ in [field::SEQUENCE, field::ACK, field::TX_SEQUENCE] {
        for len in [0, 1, 7, 9] {
            let mut element = vec![];
            tlv::push_tlv(&mut element, typ, &vec![0; len]);
            assert_eq!(error(&[&element]), bad(typ));
        }
    }
    assert_eq!(error(&[&[0x50, 0]]), bad(field::FRAGMENT));
    assert_eq!(error(&[&[0x62, 0]]), bad(field::PIT_TOKEN));
    assert_eq!(error(&[&[&[0x62, 33][..], &[0; 33]].concat()]), bad(field::PIT_TOKEN));
    assert_eq!(error(&[&[0x52, 1, 1]]), bad(field::FRAG_INDEX));
    assert_eq!(error(&[&[0x52, 1, 2], &[0x53, 1, 2]]), bad(field::FRAG_INDEX));
    assert_eq!(error(&[&[0x53, 1, 0]]), bad(field::FRAG_INDEX));
    assert_eq!(error(&[&[0x53, 3, 0, 0, 0]]), bad(field::FRAG_COUNT));
    assert_eq!(error(&[&[0xfd, 3, 0x4c, 1, 0]]), bad(field::NON_DISCOVERY));
    assert_eq!(error(&[&[0xfd, 3, 0x50, 2, 5, 0]]), bad(field::PREFIX_ANNOUNCEMENT));
    assert_eq!(error(&[&[0xfd, 3, 0x34, 0]]), Some(DecodeError::Missing(field::CACHE_POLICY_TYPE)));
    assert_eq!(error(&[&[0xfd, 3, 0x20, 4, 0xfd, 3, 0x21, 0]]), bad(field::NACK_REASON));
}

#[test]
fn nack_reasons() {
    let reason = |n: u8| {
        let wire = frame(&[&[0xfd, 3, 0x20, 5, 0xfd, 3, 0x21, 1, n], FRAGMENT]);
        LpPacket::decode(&wire).unwrap().nack
    };
    assert_eq!(reason(50), Some(NackReason::Congestion));
    assert_eq!(reason(100), Some(NackReason::Duplicate));
    assert_eq!(reason(150), Some(NackReason::NoRoute));
    assert_eq!(reason(0), Some(NackReason::None));
    assert_eq!(reason(7), Some(NackReason::None));
    for n in [0, 50, 100, 150] {
        assert_eq!(NackReason::from_number(n).number(), n);
    }
}

#[test]
fn frames_in_frames_are_refused() {
    let inner = frame(&[FRAGMENT]);
    let mut outer_fragment = vec![];
    tlv::push_tlv(&mut outer_fragment, field::FRAGMENT, &inner);
    assert_eq!(error(&[&outer_fragment]), Some(DecodeError::BadValue(field::FRAGMENT)));
    // The bytes of a later fragment mean nothing by themselves.
    assert_eq!(error(&[&[0x52, 1, 1], &[0x53, 1, 2], &outer_fragment]), None);
}

#[test]
fn other_frames_are_refused() {
    assert_eq!(LpPacket::decode(&[]), Err(DecodeError::Truncated));
    assert_eq!(LpPacket::decode(&[0x64]), Err(DecodeError::Truncated));
    assert_eq!(LpPacket::decode(&[0x07, 0]), Err(DecodeError::Missing(types::LP_PACKET)));
    assert_eq!(LpPacket::decode(&[0x64, 0, 0]), Err(DecodeError::Trailing));
    assert_eq!(LpPacket::decode(&vec![0x64; FRAME_BYTES_MAX + 1]), Err(DecodeError::TooLarge));
    assert_eq!(error(&vec![ACK; ACKS_MAX]), None);
    assert_eq!(error(&vec![ACK; ACKS_MAX + 1]), Some(DecodeError::TooLarge));
}

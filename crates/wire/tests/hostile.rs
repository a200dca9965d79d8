//! Input that someone sends on purpose.

use byname_wire::signature::SignatureInfo;
use byname_wire::tagnet::{LocatorPacket, TagPacket};
use byname_wire::{Data, DecodeError, Interest, LpPacket, NameRef, PACKET_BYTES_MAX, lp, tlv};

/// Runs every decoder; none may accept `wire`.
fn refused_by_all(wire: &[u8]) {
    assert!(Interest::decode(wire).is_err());
    assert!(Data::decode(wire).is_err());
    assert!(TagPacket::decode(wire).is_err());
    assert!(LocatorPacket::decode(wire).is_err());
    // A bare packet is a valid frame. The decoder of its type refuses it.
    if !lp::is_bare(wire) {
        assert!(LpPacket::decode(wire).is_err());
    }
}

fn element(typ: u64, value: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    tlv::push_tlv(&mut out, typ, value);
    out
}

#[test]
fn nine_byte_lengths_at_every_level() {
    for len in [u64::MAX, u64::MAX - 1, u64::MAX - 9, 1 << 63, (1 << 63) - 1, 1 << 32, u64::from(u32::MAX)] {
        let mut header = vec![];
        tlv::push_number(&mut header, len);
        for typ in [5u8, 6, 0x64, 0xc1, 0xc3] {
            let huge = [&[typ], &header[..], &[7, 3, 8, 1, b'a']].concat();
            refused_by_all(&huge);
            assert_eq!(tlv::element_len(&huge, PACKET_BYTES_MAX), Err(DecodeError::TooLarge));
            for inner in [7u8, 8, 0x12, 0x14, 0x15, 0x16, 0x17, 0x1e, 0x22, 0x24, 0x50, 0x62, 0xc5, 0xcd] {
                let inner = [&[inner], &header[..], b"value"].concat();
                refused_by_all(&element(typ.into(), &inner));
                refused_by_all(&element(typ.into(), &[&element(7, &[8, 1, b'a'])[..], &inner].concat()));
                refused_by_all(&element(typ.into(), &element(7, &inner)));
            }
        }
        assert!(NameRef::new(&[&[8], &header[..]].concat()).is_err());
        assert!(SignatureInfo::decode(&[&[0x1c], &header[..]].concat()).is_err());
    }
}

#[test]
fn deep_nesting_costs_nothing() {
    // Decoders do not recurse: a packet of nested elements is skipped or an error.
    for typ in [0x1e, 0x24, 0x15, 0x64, 0x50, 0xf0] {
        let mut wire = vec![];
        while wire.len() < PACKET_BYTES_MAX - 100 {
            wire = element(typ, &wire);
        }
        let interest = element(5, &[&element(7, &[8, 1, b'a'])[..], &element(typ, &wire)].concat());
        let _ = Interest::decode(&interest);
        let _ = LpPacket::decode(&element(0x64, &element(0x50, &wire)));
        refused_by_all(&element(6, &wire));
    }
}

#[test]
fn lengths_that_disagree_with_their_parents() {
    let good = element(5, &[&element(7, &[8, 1, b'a'])[..], &[0x0a, 4, 1, 2, 3, 4]].concat());
    assert!(Interest::decode(&good).is_ok());
    // Set each byte of each length to every value. A packet is accepted only if all levels agree.
    for at in [1, 3, 5, 8] {
        for len in (0..=255).filter(|&len| len != good[at]) {
            let mut wire = good.clone();
            wire[at] = len;
            // With a length of 9, the name includes the Nonce as a component of type 10.
            let is_another_packet = (at, len) == (3, 9);
            assert_eq!(Interest::decode(&wire).is_ok(), is_another_packet, "byte {at} = {len}");
        }
    }
}

#[test]
fn ten_thousand_components() {
    let name = element(7, &[8, 0].repeat(10_000));
    let interest = element(5, &name);
    assert_eq!(Interest::decode(&interest).err(), Some(DecodeError::TooLarge));
    let fits = element(5, &element(7, &[8, 0].repeat(4_000)));
    assert_eq!(Interest::decode(&fits).err(), Some(DecodeError::TooManyComponents));
    let hint = element(5, &[&element(7, &[8, 0])[..], &element(0x1e, &element(7, &[8, 0].repeat(4_000)))].concat());
    assert_eq!(Interest::decode(&hint).err(), Some(DecodeError::TooManyComponents));
    for (count, expected) in [(128, None), (129, Some(DecodeError::TooManyComponents))] {
        let interest = element(5, &element(7, &[8, 0].repeat(count)));
        assert_eq!(Interest::decode(&interest).err(), expected);
    }
}

#[test]
fn zero_length_everything() {
    for typ in 1..=255 {
        let empty = element(typ, &[]);
        assert!(Interest::decode(&empty).is_err());
        assert!(Data::decode(&empty).is_err());
        for outer in [5, 6, 0xc1, 0xc3] {
            refused_by_all(&element(outer, &empty));
            refused_by_all(&element(outer, &empty.repeat(100)));
        }
    }
    for wire in [&[][..], &[0], &[5], &[6], &[0x64], &[0xc1], &[0xc3], &[253], &[255; 9]] {
        refused_by_all(wire);
    }
}

#[test]
fn truncations_are_refused() {
    let good = element(6, &[&element(7, &[8, 1, b'a'])[..], &[0x16, 3, 0x1b, 1, 0], &[0x17, 1, 0]].concat());
    assert!(Data::decode(&good).is_ok());
    for cut in 0..good.len() {
        assert!(Data::decode(&good[..cut]).is_err());
        assert!(LpPacket::decode(&element(0x64, &element(0x50, &good))[..cut]).is_err());
    }
}

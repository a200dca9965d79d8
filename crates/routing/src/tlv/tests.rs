//! Tests of messages. The bytes follow ndnd's encoder (dv/tlv/zz_generated.go, std/ndn/svs/v3/zz_generated.go).

use super::*;
use crate::version::{Dv2, Main};

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

#[test]
fn an_advertisement_has_ndnds_bytes() {
    let (a, b) = (name("/n/a"), name("/n/b"));
    let content = encode_advertisement([(a.as_ref(), b.as_ref(), 1, 16)]);
    let expected = [
        &[0xca, 26][..],
        &[0xcc, 8, 0x07, 6, 8, 1, b'n', 8, 1, b'a'],
        &[0xce, 8, 0x07, 6, 8, 1, b'n', 8, 1, b'b'],
        &[0xd0, 1, 1, 0xd2, 1, 16],
    ];
    assert_eq!(content, expected.concat());
    let entry = AdvEntry { destination: a.as_ref(), next_hop: b.as_ref(), cost: 1, other_cost: 16 };
    assert_eq!(decode_advertisement(&content, 1), Ok(vec![entry]));
    assert_eq!(decode_advertisement(&content, 0), Err(DecodeError::TooLarge));
    for cut in 1..content.len() {
        assert!(decode_advertisement(&content[..cut], 1).is_err(), "{cut}");
    }
    assert_eq!(decode_advertisement(&[], 9), Ok(vec![]));
}

#[test]
fn prefix_changes_have_ndnds_bytes() {
    let (router, a, b) = (name("/n/r"), name("/a"), name("/b"));
    let content = encode_prefix_ops(&Main, router.as_ref(), true, [(a.as_ref(), 300)], [b.as_ref()]);
    let expected = [
        &[0xcc, 8, 0x07, 6, 8, 1, b'n', 8, 1, b'r'][..],
        &[253, 1, 0x2e, 0],
        &[253, 1, 0x30, 9, 0x07, 3, 8, 1, b'a', 0xd0, 2, 1, 44],
        &[253, 1, 0x32, 5, 0x07, 3, 8, 1, b'b'],
    ];
    assert_eq!(content, expected.concat());
    let mut ops = Vec::new();
    assert_eq!(decode_prefix_ops(&Main, &content, |op| ops.push(op)), Ok(router.clone()));
    assert_eq!(ops, [PrefixOp::Reset, PrefixOp::Add(a.clone(), 300), PrefixOp::Remove(b)]);
    for cut in [0, 1, 9, 11, 13, 20, content.len() - 1] {
        assert!(decode_prefix_ops(&Main, &content[..cut], |_| ()).is_err(), "{cut}");
    }

    let content = encode_prefix_ops(&Dv2, router.as_ref(), false, [(a.as_ref(), 300)], []);
    let mut ops = Vec::new();
    decode_prefix_ops(&Dv2, &content, |op| ops.push(op)).unwrap();
    assert_eq!(ops, [PrefixOp::Add(a, 0)]);
    assert_eq!(decode_prefix_ops(&Main, &content, |_| ()), Err(DecodeError::Missing(COST)));
}

#[test]
fn a_state_vector_has_ndnds_bytes() {
    let a = name("/a");
    let mut entries = Vec::new();
    let starts = [SeqNoEntry { boot: 0x6000_0000, seq: 5 }];
    push_state_entry(&mut entries, a.as_ref(), starts);
    let content = encode_state_vector(&entries);
    let expected = [&[0xc9, 18, 0xca, 16, 0x07, 3, 8, 1, b'a'][..], &[0xd2, 9, 0xd4, 4, 0x60, 0, 0, 0, 0xd6, 1, 5]];
    assert_eq!(content, expected.concat());
    assert_eq!(decode_state_vector(&content), Ok(vec![(a.as_ref(), starts[0])]));
    for cut in 0..content.len() {
        assert!(decode_state_vector(&content[..cut]).is_err(), "{cut}");
    }
}

#[test]
fn unknown_elements_are_skipped_unless_they_are_critical() {
    let mut content = encode_advertisement([(name("/a").as_ref(), name("/b").as_ref(), 0, 16)]);
    tlv::push_tlv(&mut content, 0xf0, &[1]);
    assert_eq!(decode_advertisement(&content, 9).unwrap().len(), 1);
    tlv::push_tlv(&mut content, 0xf1, &[1]);
    assert_eq!(decode_advertisement(&content, 9), Err(DecodeError::UnexpectedCritical(0xf1)));
}

#[test]
fn metadata_names_the_last_version() {
    let version = name("/a/32=SNAP/v=50");
    let content = encode_metadata(version.as_ref(), 3);
    assert_eq!(content[content.len() - 5..], [0x1a, 3, 50, 1, 3]);
    assert_eq!(decode_metadata(&content), Ok(version));
    assert!(decode_metadata(&[]).is_err());
}

#[test]
fn the_status_has_ndnds_bytes() {
    let content = encode_status("v", name("/n").as_ref(), name("/r").as_ref(), [1, 2, 300]);
    let expected = [
        &[253, 1, 0x91, 1, b'v'][..],
        &[253, 1, 0x93, 5, 0x07, 3, 8, 1, b'n'],
        &[253, 1, 0x95, 5, 0x07, 3, 8, 1, b'r'],
        &[253, 1, 0x97, 1, 1, 253, 1, 0x99, 1, 2, 253, 1, 0x9b, 2, 1, 44],
    ];
    assert_eq!(content, expected.concat());
}

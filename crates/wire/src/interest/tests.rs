use super::*;
use crate::signature::SignatureType;

const NAME: &[u8] = &[0x07, 3, 8, 1, b'a'];
const CAN_BE_PREFIX: &[u8] = &[0x21, 0];
const MUST_BE_FRESH: &[u8] = &[0x12, 0];
const HINT: &[u8] = &[0x1e, 5, 0x07, 3, 8, 1, b'h'];
const NONCE: &[u8] = &[0x0a, 4, 1, 2, 3, 4];
const LIFETIME: &[u8] = &[0x0c, 1, 100];
const HOP_LIMIT: &[u8] = &[0x22, 1, 9];
const SKIPPABLE: &[u8] = &[0xf0, 1, 1];

fn packet(parts: &[&[u8]]) -> Vec<u8> {
    let mut wire = vec![];
    tlv::push_tlv(&mut wire, types::INTEREST, &parts.concat());
    wire
}

fn error(parts: &[&[u8]]) -> Option<DecodeError> {
    Interest::decode(&packet(parts)).err()
}

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

#[test]
fn all_fields() {
    let wire = packet(&[NAME, CAN_BE_PREFIX, MUST_BE_FRESH, HINT, NONCE, LIFETIME, SKIPPABLE, HOP_LIMIT]);
    let interest = Interest::decode(&wire).unwrap();
    assert_eq!(interest.name.to_string(), "/a");
    assert_eq!(&wire[interest.name_offset..][..3], interest.name.value());
    assert!(interest.can_be_prefix && interest.must_be_fresh);
    assert_eq!(interest.forwarding_hint().map(|n| n.to_string()).collect::<Vec<_>>(), ["/h"]);
    assert_eq!(interest.nonce, Some(0x0102_0304));
    assert_eq!((interest.lifetime_ms, interest.lifetime_or_default_ms()), (Some(100), 100));
    let hop_limit = interest.hop_limit.unwrap();
    assert_eq!((hop_limit.value, wire[hop_limit.offset]), (9, 9));
    assert!(interest.parameters_digest_matches());
}

#[test]
fn the_smallest_interest() {
    let wire = packet(&[NAME]);
    let interest = Interest::decode(&wire).unwrap();
    assert!(!interest.can_be_prefix && !interest.must_be_fresh);
    assert_eq!(interest.forwarding_hint().count(), 0);
    assert_eq!((interest.nonce, interest.hop_limit, interest.lifetime_ms), (None, None, None));
    assert_eq!(interest.lifetime_or_default_ms(), DEFAULT_LIFETIME_MS);
}

#[test]
fn order_and_evolvability() {
    let unexpected = |typ| Some(DecodeError::UnexpectedCritical(typ));
    assert_eq!(error(&[]), Some(DecodeError::Missing(types::NAME)));
    assert_eq!(error(&[SKIPPABLE, NAME]), Some(DecodeError::Missing(types::NAME)));
    assert_eq!(error(&[&[0x07, 0]]), Some(DecodeError::BadValue(types::NAME)));
    assert_eq!(error(&[NAME, NAME]), unexpected(types::NAME));
    assert_eq!(error(&[NAME, CAN_BE_PREFIX, CAN_BE_PREFIX]), unexpected(types::CAN_BE_PREFIX));
    assert_eq!(error(&[NAME, MUST_BE_FRESH, CAN_BE_PREFIX]), unexpected(types::CAN_BE_PREFIX));
    assert_eq!(error(&[NAME, NONCE, HINT]), unexpected(types::FORWARDING_HINT));
    assert_eq!(error(&[NAME, LIFETIME, NONCE]), unexpected(types::NONCE));
    assert_eq!(error(&[NAME, HOP_LIMIT, LIFETIME]), unexpected(types::INTEREST_LIFETIME));
    assert_eq!(error(&[NAME, &[0xf1, 0]]), unexpected(0xf1));
    assert_eq!(error(&[NAME, &[0x1f, 0]]), unexpected(0x1f));
    // HopLimit is not critical: a second one is skipped.
    let wire = packet(&[NAME, HOP_LIMIT, &[0x22, 1, 8]]);
    assert_eq!(Interest::decode(&wire).unwrap().hop_limit.unwrap().value, 9);
}

#[test]
fn malformed_values() {
    for (element, typ) in [
        (&[0x21, 1, 0][..], types::CAN_BE_PREFIX),
        (&[0x12, 1, 0], types::MUST_BE_FRESH),
        (&[0x0a, 3, 1, 2, 3], types::NONCE),
        (&[0x0a, 5, 1, 2, 3, 4, 5], types::NONCE),
        (&[0x0c, 3, 1, 2, 3], types::INTEREST_LIFETIME),
        (&[0x0c, 0], types::INTEREST_LIFETIME),
        (&[0x22, 0], types::HOP_LIMIT),
        (&[0x22, 2, 1, 1], types::HOP_LIMIT),
    ] {
        assert_eq!(error(&[NAME, element]), Some(DecodeError::BadValue(typ)));
    }
    assert_eq!(error(&[NAME, &[0x1e, 2, 0x07, 1]]), Some(DecodeError::Truncated));
    assert_eq!(error(&[NAME, &[0x1e, 2, 0x1f, 0]]), Some(DecodeError::UnexpectedCritical(0x1f)));
    assert_eq!(error(&[NAME, &[0x1e, 0]]), None);
}

#[test]
fn parameters_and_their_digest_belong_together() {
    let plain = InterestBuilder::new(name("/a"), 1);
    let wire = plain.clone().application_parameters(vec![1, 2, 3]).encode();
    let interest = Interest::decode(&wire).unwrap();
    assert_eq!(interest.application_parameters, Some(&[1, 2, 3][..]));
    assert_eq!(interest.name.len(), 2);
    assert!(interest.parameters_digest_matches());
    assert!(interest.signature.is_none());

    let mut forged = wire.clone();
    *forged.last_mut().unwrap() ^= 1;
    assert!(!Interest::decode(&forged).unwrap().parameters_digest_matches());

    // A digest without parameters, parameters without a digest, two digests.
    let digest_only = InterestBuilder::new(interest.name.to_name(), 1).encode();
    assert_eq!(Interest::decode(&digest_only).err(), Some(DecodeError::BadValue(types::NAME)));
    assert_eq!(error(&[NAME, &[0x24, 0]]), Some(DecodeError::BadValue(types::NAME)));
    let mut two = vec![];
    let component = interest.name.component(1).unwrap();
    tlv::push_tlv(&mut two, types::NAME, Name::from_components([component, component]).value());
    assert_eq!(error(&[&two, &[0x24, 0]]), Some(DecodeError::BadValue(types::NAME)));

    // A stale digest is replaced.
    let again = InterestBuilder::new(interest.name.to_name(), 1).application_parameters(vec![4]).encode();
    let again = Interest::decode(&again).unwrap();
    assert!(again.parameters_digest_matches() && again.name.len() == 2);
}

#[test]
fn signed_interests() {
    let info = SignatureInfo {
        nonce: Some(&[1; 8]),
        time_ms: Some(1_700_000_000_000),
        ..SignatureInfo::new(SignatureType::DigestSha256)
    };
    let builder = InterestBuilder::new(name("/localhost/nfd/rib/register/x"), 1).lifetime_ms(1000);
    let wire = builder.encode_signed(&info, |signed| digest::sha256(signed).to_vec());
    let interest = Interest::decode(&wire).unwrap();
    assert!(interest.parameters_digest_matches());
    let signature = interest.signature.unwrap();
    assert_eq!(signature.info, info);
    assert_eq!(signature.signed[0], name("/localhost/nfd/rib/register/x").value());
    assert!(signature.signed[1].starts_with(&[0x24, 0, 0x2c]));
    assert_eq!(signature.value, digest::sha256(&signature.signed));
}

#[test]
fn the_digest_is_last_in_a_signed_name() {
    let info = SignatureInfo::new(SignatureType::DigestSha256);
    let wire = InterestBuilder::new(name("/a"), 1).encode_signed(&info, |_| vec![1]);
    let interest = Interest::decode(&wire).unwrap();
    assert!(interest.signature.is_some());
    let moved = interest.name.to_name().join(Component::generic(b"b"));
    let mut element = vec![];
    tlv::push_tlv(&mut element, types::NAME, moved.value());
    let parts = packet(&[&element, interest.parameter_elements]);
    let unsigned = Interest::decode(&parts).unwrap();
    assert!(unsigned.signature.is_none() && unsigned.parameters_digest_matches());
}

#[test]
fn a_nonce_is_set_in_its_place() {
    for parts in [
        &[NAME][..],
        &[NAME, NONCE],
        &[NAME, CAN_BE_PREFIX, SKIPPABLE, MUST_BE_FRESH, HINT],
        &[NAME, SKIPPABLE, LIFETIME, HOP_LIMIT],
        &[NAME, SKIPPABLE, HOP_LIMIT, SKIPPABLE],
        &[NAME, CAN_BE_PREFIX, NONCE, LIFETIME, SKIPPABLE],
    ] {
        let wire = packet(parts);
        let before = Interest::decode(&wire).unwrap();
        let copy = with_nonce(&before, 0xdead_beef);
        let after = Interest::decode(&copy).unwrap();
        assert_eq!(after.nonce, Some(0xdead_beef));
        assert_eq!(copy.len(), wire.len() + if before.nonce.is_some() { 0 } else { 6 });
        assert_eq!(after.name, before.name);
        assert_eq!((after.can_be_prefix, after.must_be_fresh), (before.can_be_prefix, before.must_be_fresh));
        assert_eq!(
            (after.lifetime_ms, after.forwarding_hint_value),
            (before.lifetime_ms, before.forwarding_hint_value)
        );
        assert_eq!(after.hop_limit.map(|h| h.value), before.hop_limit.map(|h| h.value));
    }
}

#[test]
fn built_interests_decode() {
    let wire = InterestBuilder::new(name("/a/b"), 7)
        .can_be_prefix(true)
        .must_be_fresh(true)
        .forwarding_hint(vec![name("/h/1"), name("/h/2")])
        .lifetime_ms(u64::MAX)
        .hop_limit(0)
        .encode();
    let interest = Interest::decode(&wire).unwrap();
    assert_eq!(interest.forwarding_hint().map(|n| n.to_name()).collect::<Vec<_>>(), [name("/h/1"), name("/h/2")]);
    assert_eq!((interest.nonce, interest.lifetime_ms), (Some(7), Some(u64::MAX)));
    assert_eq!(interest.hop_limit.unwrap().value, 0);
    assert!(interest.can_be_prefix && interest.must_be_fresh);
    let large = InterestBuilder::new(name("/a"), 1).application_parameters(vec![0; 9000]).encode();
    assert_eq!(Interest::decode(&large).err(), Some(DecodeError::TooLarge));
}

#[test]
fn the_largest_interests_leave_room_for_a_nonce() {
    let of_len = |len: usize, parts: &[&[u8]]| {
        let used: usize = parts.iter().map(|part| part.len()).sum();
        let padding = vec![0; len - 4 - used - 4];
        let mut element = vec![];
        tlv::push_tlv(&mut element, 0xf0, &padding);
        let wire = packet(&[&parts.concat()[..], &element]);
        assert_eq!(wire.len(), len);
        wire
    };
    let wire = of_len(PACKET_BYTES_MAX, &[NAME, NONCE]);
    assert_eq!(with_nonce(&Interest::decode(&wire).unwrap(), 1).len(), PACKET_BYTES_MAX);
    let wire = of_len(PACKET_BYTES_MAX - 6, &[NAME]);
    let copy = with_nonce(&Interest::decode(&wire).unwrap(), 1);
    assert_eq!((copy.len(), Interest::decode(&copy).unwrap().nonce), (PACKET_BYTES_MAX, Some(1)));
    for len in PACKET_BYTES_MAX - 5..=PACKET_BYTES_MAX {
        assert_eq!(Interest::decode(&of_len(len, &[NAME])).err(), Some(DecodeError::TooLarge));
    }
}

#[test]
fn the_lifetime_is_read_without_decoding() {
    for fields in [&[][..], &[CAN_BE_PREFIX, MUST_BE_FRESH, HINT, NONCE], &[NONCE, LIFETIME, SKIPPABLE, HOP_LIMIT]] {
        let wire = packet(&[&[NAME], fields].concat());
        let decoded = Interest::decode(&wire).unwrap();
        assert_eq!(peek_lifetime_ms(&wire), Some(decoded.lifetime_or_default_ms()));
    }
    assert_eq!(peek_lifetime_ms(&packet(&[NAME, HOP_LIMIT, LIFETIME])), Some(DEFAULT_LIFETIME_MS), "out of order");
    assert_eq!(peek_lifetime_ms(&packet(&[NAME, &[0x0c, 3, 1, 2, 3]])), None);
    assert_eq!(peek_lifetime_ms(&[6, 1, 1]), None);
    assert_eq!(peek_lifetime_ms(&[]), None);
}

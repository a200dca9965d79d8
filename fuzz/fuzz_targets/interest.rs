//! Interests: decodes a packet, builds it again from its fields, and decodes the result. The fields must be the same.
#![no_main]

use byname_wire::interest::{InterestBuilder, with_nonce};
use byname_wire::{Interest, PACKET_BYTES_MAX};
use libfuzzer_sys::fuzz_target;

fn assert_same_but_nonce(a: &Interest<'_>, b: &Interest<'_>) {
    assert_eq!((a.can_be_prefix, a.must_be_fresh, a.lifetime_ms), (b.can_be_prefix, b.must_be_fresh, b.lifetime_ms));
    assert!(a.forwarding_hint().eq(b.forwarding_hint()));
    assert_eq!(a.hop_limit.map(|h| h.value), b.hop_limit.map(|h| h.value));
    assert_eq!(a.application_parameters, b.application_parameters);
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(interest) = Interest::decode(bytes) else { return };
    assert_eq!(&bytes[interest.name_offset..][..interest.name.value().len()], interest.name.value());
    if let Some(hop_limit) = interest.hop_limit {
        assert_eq!(bytes[hop_limit.offset], hop_limit.value);
    }
    if let Some(signature) = interest.signature {
        assert!(interest.name.value().starts_with(signature.signed[0]));
        assert!(signature.signed[1].starts_with(&[0x24]));
    }

    let copy = with_nonce(&interest, 0x0102_0304);
    let again = Interest::decode(&copy).expect("a nonce does no harm");
    assert_eq!((again.nonce, again.name, again.signature), (Some(0x0102_0304), interest.name, interest.signature));
    assert_eq!(again.parameters_digest_matches(), interest.parameters_digest_matches());
    assert_same_but_nonce(&interest, &again);

    let mut builder = InterestBuilder::new(interest.name.to_name(), 7)
        .can_be_prefix(interest.can_be_prefix)
        .must_be_fresh(interest.must_be_fresh)
        .forwarding_hint(interest.forwarding_hint().map(|name| name.to_name()).collect());
    if let Some(ms) = interest.lifetime_ms {
        builder = builder.lifetime_ms(ms);
    }
    if let Some(hop_limit) = interest.hop_limit {
        builder = builder.hop_limit(hop_limit.value);
    }
    if let Some(parameters) = interest.application_parameters {
        builder = builder.application_parameters(parameters.to_vec());
    }
    let built = builder.encode();
    if built.len() <= PACKET_BYTES_MAX {
        let again = Interest::decode(&built).expect("what is built decodes");
        assert!(again.parameters_digest_matches());
        assert_same_but_nonce(&interest, &again);
    }
});

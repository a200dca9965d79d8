//! Packets in files, with their origin and their expected decoding.

use std::fmt::Write;

use byname_wire::digest::sha256;
use byname_wire::signature::{KeyLocator, Signature, SignatureType};
use byname_wire::tagnet::{LocatorPacket, TagPacket, TagSet, types};
use byname_wire::{Data, DecodeError, Interest, LpPacket, Name, NameRef, lp};

/// Key of the vectors signed with HMAC.
const HMAC_KEY: &[u8] = b"byname vector key";

/// Public key of the vectors signed with ECDSA: an uncompressed point on P-256.
const ECDSA_KEY: &str = "04471c3e758c4904285bba7e53118ed0f524adeb0757d25bd2f8e7b0d76dfa714c\
                         dd520f7aca8a8b917acc37f51de8f0c9bbe3ad858382e702dc25a12d09f7a858";

struct Vector {
    line: usize,
    wire: Vec<u8>,
    expected: String,
}

fn vectors(file: &str) -> Vec<Vector> {
    let path = format!("{}/tests/vectors/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let mut wire = String::new();
    let mut vectors = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if let Some(part) = line.strip_prefix("wire") {
            wire.push_str(part.trim());
        } else if let Some(expected) = line.strip_prefix("is ") {
            vectors.push(Vector { line: i + 1, wire: unhex(&wire), expected: expected.to_owned() });
            wire.clear();
        } else {
            assert!(line.is_empty() || line.starts_with('#'), "{path}:{}: {line}", i + 1);
        }
    }
    assert!(vectors.len() > 10, "{path} has too few vectors");
    vectors
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2));
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Runs all vectors of a file; `describe` renders what was decoded.
fn check(file: &str, describe: impl Fn(&[u8]) -> Result<String, DecodeError>) {
    for vector in vectors(file) {
        let got = describe(&vector.wire).unwrap_or_else(|error| format!("error {error}"));
        assert_eq!(got, vector.expected, "{file}:{}", vector.line);
        if file != "name.txt" && !vector.expected.starts_with("error") {
            // A truncated element never decodes, except for bare packets in frames.
            let is_bare = |cut: &[u8]| file == "lp.txt" && lp::is_bare(cut);
            let mut cuts = (1..vector.wire.len()).map(|len| &vector.wire[..len]);
            assert!(cuts.all(|cut| is_bare(cut) || describe(cut).is_err()), "{file}:{}", vector.line);
        }
    }
}

/// Describes a signature, and says whether it verifies, for algorithms that need no certificate.
fn describe_signature(signature: &Signature<'_>) -> String {
    let mut text = format!(" signature={:?}", signature.info.typ);
    match signature.info.key_locator {
        Some(KeyLocator::Name(name)) => write!(text, " key={name}").unwrap(),
        Some(KeyLocator::Digest(digest)) => write!(text, " key-digest={}", hex(digest)).unwrap(),
        None => {}
    }
    if let Some(time_ms) = signature.info.time_ms {
        write!(text, " time={time_ms}").unwrap();
    }
    if let Some(nonce) = signature.info.nonce {
        write!(text, " signature-nonce={}", hex(nonce)).unwrap();
    }
    let signed = signature.signed.concat();
    let verified = match signature.info.typ {
        SignatureType::DigestSha256 => sha256(&signature.signed) == signature.value,
        SignatureType::HmacWithSha256 => {
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, HMAC_KEY);
            ring::hmac::verify(&key, &signed, signature.value).is_ok()
        }
        SignatureType::Sha256WithEcdsa => {
            let algorithm = &ring::signature::ECDSA_P256_SHA256_ASN1;
            let key = ring::signature::UnparsedPublicKey::new(algorithm, unhex(ECDSA_KEY));
            key.verify(&signed, signature.value).is_ok()
        }
        _ => false,
    };
    if verified {
        text.push_str(" verified");
    }
    text
}

#[test]
fn interests() {
    check("interest.txt", |wire| {
        let interest = Interest::decode(wire)?;
        let mut text = interest.name.to_string();
        assert_eq!(&wire[interest.name_offset..][..interest.name.value().len()], interest.name.value());
        for (flag, is_set) in [(" can-be-prefix", interest.can_be_prefix), (" must-be-fresh", interest.must_be_fresh)] {
            text.push_str(if is_set { flag } else { "" });
        }
        for name in interest.forwarding_hint() {
            write!(text, " hint={name}").unwrap();
        }
        if let Some(nonce) = interest.nonce {
            write!(text, " nonce={nonce:08x}").unwrap();
        }
        if let Some(ms) = interest.lifetime_ms {
            write!(text, " lifetime={ms}").unwrap();
        }
        if let Some(hop_limit) = interest.hop_limit {
            assert_eq!(wire[hop_limit.offset], hop_limit.value);
            write!(text, " hops={}", hop_limit.value).unwrap();
        }
        if let Some(parameters) = interest.application_parameters {
            write!(text, " parameters={}", hex(parameters)).unwrap();
        }
        if !interest.parameters_digest_matches() {
            text.push_str(" digest-differs");
        }
        text.push_str(&interest.signature.map_or(String::new(), |signature| describe_signature(&signature)));
        Ok(text)
    });
}

#[test]
fn data() {
    check("data.txt", |wire| {
        let data = Data::decode(wire)?;
        let mut text = data.name.to_string();
        assert_eq!(&wire[data.name_offset..][..data.name.value().len()], data.name.value());
        if data.content_type != 0 {
            write!(text, " type={}", data.content_type).unwrap();
        }
        if data.freshness_ms != 0 {
            write!(text, " freshness={}", data.freshness_ms).unwrap();
        }
        if let Some(component) = data.final_block {
            write!(text, " final={component}").unwrap();
        }
        if !data.content.is_empty() {
            write!(text, " content={}", hex(data.content)).unwrap();
        }
        Ok(text + &describe_signature(&data.signature))
    });
}

#[test]
fn frames() {
    check("lp.txt", |wire| {
        let packet = LpPacket::decode(wire)?;
        let mut parts = Vec::new();
        parts.extend(packet.sequence.map(|n| format!("sequence={n}")));
        if packet.frag_count > 1 {
            parts.push(format!("fragment-{}-of-{}", packet.frag_index, packet.frag_count));
        }
        if !packet.pit_token.is_empty() {
            parts.push(format!("token={}", hex(packet.pit_token.as_slice())));
        }
        parts.extend(packet.nack.map(|reason| format!("nack={reason:?}")));
        parts.extend(packet.incoming_face_id.map(|id| format!("incoming={id}")));
        parts.extend(packet.next_hop_face_id.map(|id| format!("next-hop={id}")));
        parts.extend(packet.cache_policy.map(|typ| format!("cache-policy={typ}")));
        if packet.congestion_mark != 0 {
            parts.push(format!("mark={}", packet.congestion_mark));
        }
        parts.extend(packet.acks.iter().map(|n| format!("ack={n}")));
        parts.extend(packet.tx_sequence.map(|n| format!("tx-sequence={n}")));
        parts.extend(packet.non_discovery.then(|| "non-discovery".to_owned()));
        parts.extend(packet.prefix_announcement.map(|data| format!("announcement={}", hex(data))));
        parts.push(packet.fragment.map_or("idle".to_owned(), |fragment| format!("fragment={}", hex(fragment))));
        Ok(parts.join(" "))
    });
}

#[test]
fn tagnet_packets() {
    let rest = |hops: u8, source: Option<_>, payload: &[u8]| {
        let mut text = format!(" hops={hops}");
        if let Some(source) = source {
            write!(text, " source={source}").unwrap();
        }
        if !payload.is_empty() {
            write!(text, " payload={}", hex(payload)).unwrap();
        }
        text
    };
    check("tagnet.txt", |wire| {
        if u64::from(wire[0]) == types::LOCATOR_PACKET {
            let packet = LocatorPacket::decode(wire)?;
            assert_eq!(wire[packet.hop_limit.offset], packet.hop_limit.value);
            let rest = rest(packet.hop_limit.value, packet.source, packet.payload);
            return Ok(format!("to {}{rest}", packet.destination));
        }
        let packet = TagPacket::decode(wire)?;
        assert_eq!(wire[packet.hop_limit.offset], packet.hop_limit.value);
        let tags = match packet.tags {
            TagSet::Tags(tags) => {
                let digests: Vec<String> = tags.iter().map(|tag| format!("{:08x}", tag.0)).collect();
                format!("tags={}", digests.join(","))
            }
            TagSet::Filter(filter) => {
                let bits: Vec<String> = filter.ones().map(|bit| bit.to_string()).collect();
                format!("filter={}", bits.join(","))
            }
        };
        let mut text = format!("to tree={} {tags}", packet.tree.0);
        if let Some(fan_out) = packet.fan_out {
            assert_eq!(wire[fan_out.offset..][..2], fan_out.limit.get().to_be_bytes());
            write!(text, " fan-out={}", fan_out.limit).unwrap();
        }
        Ok(text + &rest(packet.hop_limit.value, packet.source, packet.payload))
    });
}

#[test]
fn names() {
    check("name.txt", |wire| {
        let uri = NameRef::new(wire)?.to_string();
        assert_eq!(uri.parse::<Name>().unwrap().value(), wire);
        Ok(uri)
    });
}

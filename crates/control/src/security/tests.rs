//! Tests with genuine, forged, replayed and stale commands. Some keys are generated here by ring; some certificates are
//! in the form of ndn-cxx and python-ndn.

use byname_forward::face_table::Scope;
use byname_wire::data::{DataBuilder, content_type};
use byname_wire::digest::sha256;
use byname_wire::interest::InterestBuilder;
use byname_wire::signature::{KeyLocator, SignatureInfo, SignatureType};
use byname_wire::tlv::{push_nested, push_nni, push_tlv, types};
use byname_wire::{Component, Interest, Name};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};

use super::*;

mod restart;

const NOW_MS: u64 = 1_795_000_000_000;

fn name(uri: &str) -> Name {
    uri.parse().expect("a name written in this file")
}

fn command() -> InterestBuilder {
    InterestBuilder::new(name("/localhost/nfd/rib/register/params"), 1)
}

/// Returns the key with which a command was accepted.
fn authorize(authorizer: &mut Authorizer, wire: &[u8], scope: Scope) -> Result<Option<Name>, Refusal> {
    authorize_at(authorizer, wire, scope, NOW_MS)
}

fn authorize_at(authorizer: &mut Authorizer, wire: &[u8], scope: Scope, at_ms: u64) -> Result<Option<Name>, Refusal> {
    let interest = Interest::decode(wire).expect("an Interest");
    authorizer.authorize(&interest, Module::Rib, scope, at_ms, None).map(|authorized| authorized.key_name)
}

/// Encodes a SubjectPublicKeyInfo in DER, from the content of an algorithm identifier and a key.
fn spki(algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![tag];
        match content.len() {
            len @ 0..128 => out.push(len as u8),
            len @ 128..256 => out.extend([0x81, len as u8]),
            len => out.extend([0x82, (len >> 8) as u8, len as u8]),
        }
        out.extend(content);
        out
    }
    let bits = [&[0][..], key].concat();
    element(0x30, &[element(0x30, algorithm), element(0x03, &bits)].concat())
}

const P256_ALGORITHM: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
const P384_ALGORITHM: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22";
const ED25519_ALGORITHM: &[u8] = b"\x06\x03\x2b\x65\x70";
const RSA_ALGORITHM: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";

/// A certificate of `spki` for `/alice/KEY/1`, valid in 2026. Its signature is never verified.
fn certificate_packet(spki: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    push_nested(&mut packet, types::DATA, |out| {
        push_tlv(out, types::NAME, name("/alice/KEY/1/self/v=1").value());
        push_nested(out, types::META_INFO, |out| {
            push_nni(out, types::CONTENT_TYPE, content_type::KEY);
            push_nni(out, types::FRESHNESS_PERIOD, 3_600_000);
        });
        push_tlv(out, types::CONTENT, spki);
        push_nested(out, types::SIGNATURE_INFO, |out| {
            push_nni(out, types::SIGNATURE_TYPE, 3);
            push_nested(out, types::KEY_LOCATOR, |out| {
                push_tlv(out, types::NAME, name("/alice/KEY/1").value());
            });
            push_nested(out, 0xfd, |out| {
                push_tlv(out, 0xfe, b"20260101T000000");
                push_tlv(out, 0xff, b"20270101T000000");
            });
        });
        push_tlv(out, types::SIGNATURE_VALUE, &[0; 70]);
    });
    packet
}

fn certificate(spki: &[u8]) -> Certificate {
    Certificate::decode(&certificate_packet(spki)).expect("a certificate")
}

fn trusting(certificate: Certificate) -> Authorizer {
    let signer = TrustedSigner::Certificate(Box::new(certificate));
    let rule = Rule { remote: true, signer, modules: vec![Module::Rib], prefixes: None };
    Authorizer::new(vec![rule], TimeWindow::default())
}

fn p256_signer() -> (Signer, Certificate) {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).expect("a key");
    let pair =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref(), &random).expect("its own form");
    let certificate = certificate(&spki(P256_ALGORITHM, pair.public_key().as_ref()));
    (Signer::from_pkcs8(name("/alice/KEY/1"), pkcs8.as_ref()).expect("a key"), certificate)
}

/// A command in the v0.2 format, as python-ndn's `NDNApp` sends it.
fn old_format(time: &[u8], nonce: &[u8]) -> Vec<u8> {
    let mut info = Vec::new();
    SignatureInfo { typ: SignatureType::DigestSha256, key_locator: None, nonce: None, time_ms: None, seq_num: None }
        .push(&mut info, types::SIGNATURE_INFO);
    let unsigned = name("/localhost/nfd/rib/register/params")
        .join(Component::generic(time))
        .join(Component::generic(nonce))
        .join(Component::generic(&info));
    let mut value = Vec::new();
    push_tlv(&mut value, types::SIGNATURE_VALUE, &sha256(&[unsigned.value()]));
    InterestBuilder::new(unsigned.join(Component::generic(&value)), 1).encode()
}

#[test]
fn anyone_on_this_host_and_nobody_else() {
    let mut authorizer = Authorizer::local_only();
    let first = Signer::digest().sign_command(&command(), NOW_MS).expect("signed");
    assert_eq!(authorize(&mut authorizer, &first, Scope::NonLocal), Err(Refusal::NoRule));
    assert_eq!(authorize(&mut authorizer, &first, Scope::Local), Ok(None));
    assert!(!authorizer.serves_remote(Module::Rib));
    assert_eq!(authorizer.refusals().of(Refusal::NoRule), 1);
    assert_eq!(authorizer.refusals().total(), 1);
}

#[test]
fn many_clients_sign_with_one_digest_in_one_millisecond() {
    let mut authorizer = Authorizer::local_only();
    for _ in 0..1000 {
        let wire = Signer::digest().sign_command(&command(), NOW_MS).expect("signed");
        assert!(authorize(&mut authorizer, &wire, Scope::Local).is_ok());
    }
}

#[test]
fn a_replay_is_refused_and_counted() {
    let mut authorizer = Authorizer::local_only();
    let wire = Signer::digest().sign_command(&command(), NOW_MS).expect("signed");
    assert!(authorize(&mut authorizer, &wire, Scope::Local).is_ok());
    for _ in 0..3 {
        assert_eq!(authorize(&mut authorizer, &wire, Scope::Local), Err(Refusal::Replayed));
    }
    // The Interest's own Nonce is not signed.
    let interest = Interest::decode(&wire).expect("an Interest");
    let again = byname_wire::interest::with_nonce(&interest, 77);
    assert_eq!(authorize(&mut authorizer, &again, Scope::Local), Err(Refusal::Replayed));
    assert_eq!(authorizer.refusals().of(Refusal::Replayed), 4);
}

#[test]
fn every_altered_byte_is_noticed() {
    let wire = Signer::digest().sign_command(&command(), NOW_MS).expect("signed");
    for i in 0..wire.len() {
        let mut altered = wire.clone();
        altered[i] ^= 1;
        let Ok(interest) = Interest::decode(&altered) else { continue };
        let outcome = Authorizer::local_only().authorize(&interest, Module::Rib, Scope::Local, NOW_MS, None);
        // Neither the digest nor the signature covers Nonce, lifetime and similar fields.
        let original = Interest::decode(&wire).expect("an Interest");
        let same = original.name == interest.name
            && original.application_parameters == interest.application_parameters
            && original.signature == interest.signature;
        assert_eq!(outcome.is_ok(), same, "byte {i}: {outcome:?}");
    }
}

#[test]
fn the_older_format_is_accepted_once() {
    let mut authorizer = Authorizer::local_only();
    let wire = old_format(&NOW_MS.to_be_bytes(), &[7; 8]);
    assert!(authorize(&mut authorizer, &wire, Scope::Local).is_ok());
    assert_eq!(authorize(&mut authorizer, &wire, Scope::Local), Err(Refusal::Replayed));
    let other = old_format(&NOW_MS.to_be_bytes(), &[8; 8]);
    assert!(authorize(&mut authorizer, &other, Scope::Local).is_ok());
}

#[test]
fn the_older_format_is_refused_when_forged_stale_or_cut() {
    let mut authorizer = Authorizer::local_only();
    let mut forged = old_format(&NOW_MS.to_be_bytes(), &[7; 8]);
    let at = forged.windows(6).position(|w| w == b"params").expect("in the name");
    forged[at] ^= 1;
    assert_eq!(authorize(&mut authorizer, &forged, Scope::Local), Err(Refusal::BadSignature));
    let stale = old_format(&(NOW_MS - 121_000).to_be_bytes(), &[7; 8]);
    assert_eq!(authorize(&mut authorizer, &stale, Scope::Local), Err(Refusal::TooOld));
    let no_number = old_format(&[1, 2, 3], &[7; 8]);
    assert_eq!(authorize(&mut authorizer, &no_number, Scope::Local), Err(Refusal::Malformed));
    let bare = command().encode();
    assert_eq!(authorize(&mut authorizer, &bare, Scope::Local), Err(Refusal::Unsigned));
    let long = InterestBuilder::new(name("/localhost/nfd/rib/register/p/a/b/c/d/e"), 1).encode();
    assert_eq!(authorize(&mut authorizer, &long, Scope::Local), Err(Refusal::Unsigned));
}

#[test]
fn clocks_are_compared() {
    let mut authorizer = Authorizer::local_only();
    for (offset_ms, expected) in [
        (-121_000, Err(Refusal::TooOld)),
        (-119_000, Ok(())),
        (0, Ok(())),
        (3_599_000, Ok(())),
        (3_601_000, Err(Refusal::TooFarAhead)),
    ] {
        let at = NOW_MS.saturating_add_signed(offset_ms);
        let wire = Signer::digest().sign_command(&command(), at).expect("signed");
        assert_eq!(authorize(&mut authorizer, &wire, Scope::Local).map(|_| ()), expected, "{offset_ms}");
    }
    let never = Signer::digest().sign_command(&command(), u64::MAX).expect("signed");
    assert_eq!(authorize(&mut authorizer, &never, Scope::Local), Err(Refusal::TooFarAhead));
}

#[test]
fn each_algorithm_verifies_and_each_forgery_fails() {
    let random = SystemRandom::new();
    let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).expect("a key");
    let ed25519_pair = Ed25519KeyPair::from_pkcs8(ed25519.as_ref()).expect("its own form");
    let rsa = include_bytes!("vectors/rsa2048.pk8");
    let rsa_pair = ring::signature::RsaKeyPair::from_pkcs8(rsa).expect("a key");
    let key_name = || name("/alice/KEY/1");
    let signers = [
        p256_signer(),
        (
            Signer::from_pkcs8(key_name(), ed25519.as_ref()).expect("a key"),
            certificate(&spki(ED25519_ALGORITHM, ed25519_pair.public_key().as_ref())),
        ),
        (
            Signer::from_pkcs8(key_name(), rsa).expect("a key"),
            certificate(&spki(RSA_ALGORITHM, rsa_pair.public_key().as_ref())),
        ),
    ];
    let (stranger, _) = p256_signer();
    for (signer, certificate) in signers {
        let kind = format!("{:?}", certificate.key);
        let mut authorizer = trusting(certificate);
        let wire = signer.sign_command(&command(), NOW_MS).expect("signed");
        let accepted = authorize(&mut authorizer, &wire, Scope::NonLocal);
        assert_eq!(accepted, Ok(Some(key_name())), "{kind}");
        assert_eq!(authorize(&mut authorizer, &wire, Scope::NonLocal), Err(Refusal::Replayed), "{kind}");

        let forged = stranger.sign_command(&command(), NOW_MS).expect("signed");
        assert_eq!(authorize(&mut authorizer, &forged, Scope::NonLocal), Err(Refusal::BadSignature), "{kind}");
        let digest = Signer::digest().sign_command(&command(), NOW_MS).expect("signed");
        assert_eq!(authorize(&mut authorizer, &digest, Scope::NonLocal), Err(Refusal::UntrustedSigner), "{kind}");
        let hmac = Signer::hmac(key_name(), b"guess").sign_command(&command(), NOW_MS).expect("signed");
        assert_eq!(authorize(&mut authorizer, &hmac, Scope::NonLocal), Err(Refusal::BadSignature), "{kind}");
    }
}

/// Keys of OpenSSL 3, and their signatures of the message `NDN`: `openssl ecparam -name secp384r1 -genkey`, and `-name
/// prime256v1 -param_enc explicit` as in certificates of early ndn-cxx; `openssl dgst -sha256 -sign`.
#[test]
fn keys_and_signatures_of_openssl_verify() {
    let vectors: [(&[u8], &[u8], &str); 2] = [
        (include_bytes!("vectors/p384.spki"), include_bytes!("vectors/p384.sig"), "ECDSA P-384"),
        (include_bytes!("vectors/p256_explicit.spki"), include_bytes!("vectors/p256_explicit.sig"), "ECDSA P-256"),
    ];
    for (spki, value, kind) in vectors {
        let key = VerifyingKey::from_spki(spki).expect("a key");
        assert_eq!(format!("{key:?}"), kind);
        assert!(key.verifies(SignatureType::Sha256WithEcdsa, &[b"N", b"DN"], value));
        assert!(!key.verifies(SignatureType::Sha256WithEcdsa, &[b"N", b"DM"], value));
        assert!(!key.verifies(SignatureType::Sha256WithRsa, &[b"N", b"DN"], value));
    }
}

/// Vectors signed by python-ndn 0.5.2: `make_command` (v0.2) and `make_command_v2` with a signer (v0.3), for
/// `/localhost/nfd/rib/register` at [`NOW_MS`], and certificates by its `self_sign`. The private keys no longer exist.
#[test]
fn commands_and_certificates_of_python_ndn() {
    let digests: [&[u8]; 2] = [
        include_bytes!("vectors/python_ndn_v02_digest.interest"),
        include_bytes!("vectors/python_ndn_v03_digest.interest"),
    ];
    for wire in digests {
        let mut authorizer = Authorizer::local_only();
        assert_eq!(authorize(&mut authorizer, wire, Scope::Local), Ok(None));
        assert_eq!(authorize(&mut authorizer, wire, Scope::Local), Err(Refusal::Replayed));
    }
    let key_name = name("/alice/KEY/%01");
    let certificates: [(&[u8], &[u8], &str); 3] = [
        (
            include_bytes!("vectors/python_ndn_ecdsa.ndncert"),
            include_bytes!("vectors/python_ndn_ecdsa.interest"),
            "ECDSA P-256",
        ),
        (include_bytes!("vectors/python_ndn_rsa.ndncert"), include_bytes!("vectors/python_ndn_rsa.interest"), "RSA"),
        (
            include_bytes!("vectors/python_ndn_ed25519.ndncert"),
            include_bytes!("vectors/python_ndn_ed25519.interest"),
            "Ed25519",
        ),
    ];
    for (certificate, wire, kind) in certificates {
        let certificate = Certificate::decode(certificate).expect(kind);
        assert_eq!(format!("{:?}", certificate.key), kind);
        assert_eq!(certificate.key_name, key_name);
        let mut authorizer = trusting(certificate);
        let accepted = authorize(&mut authorizer, wire, Scope::NonLocal);
        assert_eq!(accepted, Ok(Some(key_name.clone())), "{kind}");
    }
    let key = VerifyingKey::from_hmac_secret(b"a secret of 22 octets");
    let signer = TrustedSigner::Hmac { key_name: key_name.clone(), key };
    let rule = Rule { remote: true, signer, modules: vec![Module::Rib], prefixes: None };
    let mut authorizer = Authorizer::new(vec![rule], TimeWindow::default());
    let wire = include_bytes!("vectors/python_ndn_hmac.interest");
    assert!(authorize(&mut authorizer, wire, Scope::NonLocal).is_ok());
}

#[test]
fn shared_secrets_verify() {
    let key_name = name("/home/KEY/1");
    let key = VerifyingKey::from_hmac_secret(b"secret");
    let signer = TrustedSigner::Hmac { key_name: key_name.clone(), key };
    let mut authorizer = Authorizer::new(
        vec![Rule { remote: true, signer, modules: vec![Module::Rib], prefixes: None }],
        TimeWindow::default(),
    );
    let good = Signer::hmac(key_name.clone(), b"secret").sign_command(&command(), NOW_MS).expect("signed");
    assert_eq!(authorize(&mut authorizer, &good, Scope::NonLocal), Ok(Some(key_name.clone())));
    let bad = Signer::hmac(key_name, b"other").sign_command(&command(), NOW_MS).expect("signed");
    assert_eq!(authorize(&mut authorizer, &bad, Scope::NonLocal), Err(Refusal::BadSignature));
}

#[test]
fn a_certificate_is_in_force_in_its_time_only() {
    let (signer, certificate) = p256_signer();
    assert_eq!(certificate.key_name, name("/alice/KEY/1"));
    let (before, after) = (certificate.not_before_ms, certificate.not_after_ms);
    let mut authorizer = trusting(certificate);
    for (at, expected) in [
        (before - 1, Err(Refusal::CertificateExpired)),
        (before, Ok(())),
        (after, Ok(())),
        (after + 1, Err(Refusal::CertificateExpired)),
    ] {
        let wire = signer.sign_command(&command(), at).expect("signed");
        assert_eq!(authorize_at(&mut authorizer, &wire, Scope::NonLocal, at).map(|_| ()), expected, "{at}");
    }
}

#[test]
fn rights_are_per_module() {
    let (signer, certificate) = p256_signer();
    let mut authorizer = trusting(certificate);
    let wire = signer.sign_command(&command(), NOW_MS).expect("signed");
    let interest = Interest::decode(&wire).expect("an Interest");
    for module in [Module::Faces, Module::Fib, Module::Cs, Module::StrategyChoice] {
        assert_eq!(authorizer.authorize(&interest, module, Scope::Local, NOW_MS, None), Err(Refusal::NoRule));
    }
    assert!(authorizer.authorize(&interest, Module::Rib, Scope::Local, NOW_MS, None).is_ok());
}

#[test]
fn a_key_must_give_a_time() {
    let (_, certificate) = p256_signer();
    let secret = b"secret";
    let key_name = name("/home/KEY/1");
    let info = SignatureInfo {
        typ: SignatureType::HmacWithSha256,
        key_locator: Some(KeyLocator::Name(key_name.as_ref())),
        nonce: Some(&[1; 8]),
        time_ms: None,
        seq_num: None,
    };
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
    let wire = command().encode_signed(&info, |signed| ring::hmac::sign(&key, &signed.concat()).as_ref().to_vec());
    let hmac = TrustedSigner::Hmac { key_name: key_name.clone(), key: VerifyingKey::from_hmac_secret(secret) };
    let rules = [hmac, TrustedSigner::Certificate(Box::new(certificate))].map(|signer| Rule {
        remote: true,
        signer,
        modules: vec![Module::Rib],
        prefixes: None,
    });
    let mut authorizer = Authorizer::new(rules.into(), TimeWindow::default());
    assert_eq!(authorize(&mut authorizer, &wire, Scope::NonLocal), Err(Refusal::NoTime));
}

#[test]
fn unknown_keys_pass_where_anyone_may() {
    let (signer, _) = p256_signer();
    let wire = signer.sign_command(&command(), NOW_MS).expect("signed");
    assert!(authorize(&mut Authorizer::local_only(), &wire, Scope::Local).is_ok());
}

#[test]
fn announcements_are_checked_like_commands() {
    let announcement = DataBuilder::new(name("/app/32=PA/v=1/seg=0")).content_type(content_type::PREFIX_ANN);
    let (signer, certificate) = p256_signer();
    let mut anchored = trusting(certificate);
    let mut open = Authorizer::local_only();
    for (signer, anchored_takes) in [(&Signer::digest(), false), (&signer, true)] {
        let wire = signer.sign_data(&announcement).expect("signed");
        let data = Data::decode(&wire).expect("Data");
        assert!(open.authorize_announcement(&data, Scope::Local, NOW_MS, None).is_ok());
        assert!(open.authorize_announcement(&data, Scope::NonLocal, NOW_MS, None).is_err());
        assert_eq!(anchored.authorize_announcement(&data, Scope::NonLocal, NOW_MS, None).is_ok(), anchored_takes);
    }
    let mut forged = Signer::digest().sign_data(&announcement).expect("signed");
    *forged.last_mut().expect("not empty") ^= 1;
    let forged = Data::decode(&forged).expect("Data");
    assert_eq!(open.authorize_announcement(&forged, Scope::Local, NOW_MS, None), Err(Refusal::BadSignature));
}

#[test]
fn keys_of_hostile_sizes_are_errors() {
    let empty: &[u8] = &[];
    for algorithm in [P256_ALGORITHM, P384_ALGORITHM, ED25519_ALGORITHM, RSA_ALGORITHM, empty, b"\x06\x00"] {
        for len in [0, 1, 31, 33, 64, 66, 97, 127, 128, 8000] {
            let der = spki(algorithm, &vec![0xff; len]);
            if let Ok(key) = VerifyingKey::from_spki(&der) {
                // The length is right, but the point is not on the curve. The key then verifies nothing.
                for typ in [SignatureType::Sha256WithEcdsa, SignatureType::Ed25519, SignatureType::Sha256WithRsa] {
                    assert!(!key.verifies(typ, &[b"message"], &[]));
                    assert!(!key.verifies(typ, &[b"message"], &[0; 64]));
                }
            }
        }
    }
    let good = spki(P256_ALGORITHM, &[4; 65]);
    for cut in 0..good.len() {
        assert!(VerifyingKey::from_spki(&good[..cut]).is_err());
        assert!(Certificate::decode(&certificate_packet(&good[..cut])).is_err());
    }
    let packet = certificate_packet(&good);
    for cut in 0..packet.len() {
        assert!(Certificate::decode(&packet[..cut]).is_err());
    }
}

proptest::proptest! {
    #[test]
    fn bytes_of_strangers_never_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
        let _ = Certificate::decode(&bytes);
        let _ = Certificate::decode(&certificate_packet(&bytes));
        if let Ok(key) = VerifyingKey::from_spki(&bytes) {
            key.verifies(SignatureType::Sha256WithEcdsa, &[&bytes], &bytes);
        }
        // Place the bytes in the last components of a name, where the older format has its signature.
        let (info, value) = bytes.split_at(bytes.len() / 2);
        let name = name("/localhost/nfd/rib/register/p/1/2")
            .join(Component::generic(info))
            .join(Component::generic(value));
        let wire = InterestBuilder::new(name, 1).encode();
        assert!(authorize(&mut Authorizer::local_only(), &wire, Scope::Local).is_err());
    }
}

#[test]
fn a_certificate_file_is_a_packet_or_base64() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, certificate) = p256_signer();
    let packet = certificate_packet(&spki(P256_ALGORITHM, &[4; 65]));
    let bare = folder.path().join("bare.ndncert");
    std::fs::write(&bare, &packet).expect("written");
    let text = folder.path().join("text.ndncert");
    let lines: Vec<String> = data_encoding::BASE64
        .encode(&packet)
        .as_bytes()
        .chunks(64)
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect();
    std::fs::write(&text, lines.join("\n") + "\n").expect("written");
    for path in [&bare, &text] {
        assert_eq!(Certificate::load(path).expect("a certificate").name, certificate.name);
    }
    let garbage = folder.path().join("garbage.ndncert");
    std::fs::write(&garbage, "-----BEGIN CERTIFICATE-----").expect("written");
    assert!(matches!(Certificate::load(&garbage), Err(CertificateError::Encoding)));
    assert!(matches!(Certificate::load(&folder.path().join("none")), Err(CertificateError::Read { .. })));
}

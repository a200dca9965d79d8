//! Generates keys and their self-signed certificates [NDN Packet Specification v0.3, "Certificate"].

use std::time::Duration;

use byname_wire::data::content_type;
use byname_wire::name::component_type;
use byname_wire::signature::SignatureType;
use byname_wire::tlv::{push_nested, push_nni, push_tlv, types};
use byname_wire::{Component, Name};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

use super::certificate::{NOT_AFTER, NOT_BEFORE, format_iso};
use super::keys::wrapped_base64;
use super::{Signer, SignerError};

/// FreshnessPeriod of certificates in ms, as in ndn-cxx.
const FRESHNESS_MS: u64 = 3_600_000;
/// Bytes before the P-256 point in a SubjectPublicKeyInfo: lengths, id-ecPublicKey and secp256r1.
const P256_SPKI_START: &[u8] =
    b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00";

/// A newly generated ECDSA P-256 key.
pub struct NewKey {
    name: Name,
    pkcs8: Vec<u8>,
    spki: Vec<u8>,
    signer: Signer,
}

impl NewKey {
    /// Generates a key with the name `/<identity>/KEY/<8 random bytes>`.
    ///
    /// # Errors
    /// If the system provides no randomness.
    pub fn generate(identity: &Name) -> Result<Self, SignerError> {
        let random = SystemRandom::new();
        let mut id = [0; 8];
        random.fill(&mut id).map_err(|_| SignerError::Sign)?;
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(|_| SignerError::Sign)?;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).map_err(|_| SignerError::Key)?;
        let name = identity.join(Component::generic(b"KEY")).join(Component::generic(&id));
        Ok(NewKey {
            spki: [P256_SPKI_START, pair.public_key().as_ref()].concat(),
            signer: Signer::from_pkcs8(name.clone(), pkcs8.as_ref())?,
            pkcs8: pkcs8.as_ref().to_vec(),
            name,
        })
    }

    /// The key's name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The private key in PKCS#8.
    pub fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// A self-signed certificate in base64, as from `ndnsec cert-dump`. `now` is its version. It is valid from `from`
    /// to `until`. All times are since the Unix epoch.
    ///
    /// # Errors
    /// [`SignerError::Sign`].
    pub fn certificate(&self, now: Duration, (from, until): (Duration, Duration)) -> Result<String, SignerError> {
        let version = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let name = self.name.join(Component::generic(b"self")).join_number(component_type::VERSION, version);
        let mut signed = Vec::new();
        push_tlv(&mut signed, types::NAME, name.value());
        push_nested(&mut signed, types::META_INFO, |out| {
            push_nni(out, types::CONTENT_TYPE, content_type::KEY);
            push_nni(out, types::FRESHNESS_PERIOD, FRESHNESS_MS);
        });
        push_tlv(&mut signed, types::CONTENT, &self.spki);
        push_nested(&mut signed, types::SIGNATURE_INFO, |out| {
            push_nni(out, types::SIGNATURE_TYPE, SignatureType::Sha256WithEcdsa.number());
            push_nested(out, types::KEY_LOCATOR, |out| push_tlv(out, types::NAME, self.name.value()));
            push_nested(out, types::VALIDITY_PERIOD, |out| {
                push_tlv(out, NOT_BEFORE, format_iso(from).as_bytes());
                push_tlv(out, NOT_AFTER, format_iso(until).as_bytes());
            });
        });
        let mut failure = None;
        let value = self.signer.sign(&[&signed], &mut failure);
        push_tlv(&mut signed, types::SIGNATURE_VALUE, &value);
        let mut packet = Vec::new();
        push_tlv(&mut packet, types::DATA, &signed);
        failure.map_or(Ok(wrapped_base64(&packet)), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Certificate;
    use super::*;
    use byname_wire::Data;

    #[test]
    fn a_new_keys_certificate_verifies_with_itself() {
        let key = NewKey::generate(&"/net/alice".parse().expect("a name")).expect("randomness");
        let moments = [100, 200, 300].map(|s| Duration::from_secs(1_795_000_000 + s));
        let text = key.certificate(moments[1], (moments[0], moments[2])).expect("signed");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("alice.ndncert");
        std::fs::write(&path, &text).expect("written");
        let certificate = Certificate::load(&path).expect("a certificate");
        assert_eq!(certificate.key_name, *key.name());
        let ms = |s: u64| (1_795_000_000 + s) * 1_000;
        let valid = [ms(99), ms(100), ms(300), ms(301)].map(|at| certificate.is_valid_at(at));
        assert_eq!(valid, [false, true, true, false]);
        let base64: String = text.split_whitespace().collect();
        let wire = data_encoding::BASE64.decode(base64.as_bytes()).expect("base64");
        let data = Data::decode(&wire).expect("Data");
        let typ = data.signature.info.typ;
        assert!(certificate.key.verifies(typ, &data.signature.signed, data.signature.value));
    }
}

//! Generates keys and their self-signed certificates [NDN Packet Specification v0.3, "Certificate"].

use std::time::Duration;

use byname_wire::{Component, Name};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair};

use super::keys::wrapped_base64;
use super::{KEY_COMPONENT, KeyType, Signer, SignerError, Terms, issue};

/// A newly generated key.
pub struct NewKey {
    name: Name,
    pkcs8: Vec<u8>,
    spki: Vec<u8>,
    signer: Signer,
}

impl NewKey {
    /// Generates a key of this type with the name `/<identity>/KEY/<8 random bytes>`.
    ///
    /// # Errors
    /// If the system provides no randomness, or for RSA: `ring` can use RSA keys, but does not make them.
    pub fn generate(identity: &Name, typ: KeyType) -> Result<Self, SignerError> {
        let random = SystemRandom::new();
        let mut id = [0; 8];
        random.fill(&mut id).map_err(|_| SignerError::Sign)?;
        let pkcs8 = match typ {
            KeyType::Ecdsa => EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random),
            KeyType::Ed25519 => Ed25519KeyPair::generate_pkcs8(&random),
            KeyType::Rsa => return Err(SignerError::Generate),
        };
        let pkcs8 = pkcs8.map_err(|_| SignerError::Sign)?.as_ref().to_vec();
        let name = identity.join(KEY_COMPONENT).join(Component::generic(&id));
        let signer = Signer::from_pkcs8(name.clone(), &pkcs8)?;
        let spki = signer.spki().ok_or(SignerError::Key)?;
        Ok(NewKey { spki, signer, pkcs8, name })
    }

    /// The key's name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The private key in PKCS#8.
    pub fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// The public key: a SubjectPublicKeyInfo in DER.
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    /// Signs with this key.
    pub fn signer(&self) -> &Signer {
        &self.signer
    }

    /// A self-signed certificate in base64, as from `ndnsec cert-dump`. `now` is its version. It is valid from `from`
    /// to `until`. All times are since the Unix epoch.
    ///
    /// # Errors
    /// [`SignerError::Sign`].
    pub fn certificate(&self, now: Duration, valid: (Duration, Duration)) -> Result<String, SignerError> {
        let version = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let terms = Terms { issuer: Component::generic(b"self"), version, valid };
        Ok(wrapped_base64(&issue(&self.name, &self.spki, &self.signer, terms)?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Certificate;
    use super::*;
    use byname_wire::Data;

    #[test]
    fn a_new_keys_certificate_verifies_with_itself() {
        for typ in [KeyType::Ecdsa, KeyType::Ed25519] {
            verifies_with_itself(typ);
        }
        let refused = NewKey::generate(&Name::default(), KeyType::Rsa).err();
        assert_eq!(refused, Some(SignerError::Generate));
    }

    fn verifies_with_itself(key_type: KeyType) {
        let key = NewKey::generate(&"/net/alice".parse().expect("a name"), key_type).expect("randomness");
        let moments = [100, 200, 300].map(|s| Duration::from_secs(1_795_000_000 + s));
        let text = key.certificate(moments[1], (moments[0], moments[2])).expect("signed");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("alice.ndncert");
        std::fs::write(&path, &text).expect("written");
        let certificate = Certificate::load(&path).expect("a certificate");
        assert_eq!(certificate.key_name, *key.name());
        assert_eq!(certificate.key.key_type(), Some(key_type));
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

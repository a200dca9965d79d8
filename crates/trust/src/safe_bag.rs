//! SafeBag: a certificate with its private key, encrypted by a passphrase [ndn-cxx, "SafeBag Format"].
//!
//! `ndnsec export` writes it in base64, and `ndnsec import` reads it. The key is a PKCS#8 EncryptedPrivateKeyInfo
//! [RFC 5958 §3] with PBES2 [RFC 8018 §6.2]: here AES-256-CBC and PBKDF2 with HMAC-SHA-256.

use byname_wire::tlv::{self, DecodeError, Reader, push_nested, push_tlv, types};
use pkcs8::pkcs5::EncryptionScheme;
use pkcs8::pkcs5::pbes2::{Kdf, Parameters};
use pkcs8::{EncryptedPrivateKeyInfoRef, PrivateKeyInfoRef, SecretDocument};
use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;

use super::{Certificate, CertificateError, Signer, SignerError, certificate::SAFE_BAG};

const ENCRYPTED_KEY: u64 = 0x81;
/// Iterations of PBKDF2 for new bags, as OWASP recommends for HMAC-SHA-256.
const ITERATIONS: u32 = 600_000;
/// Most iterations of a bag to open, and most memory for it in bytes. A stranger may have made the bag.
const ITERATIONS_MAX: u32 = 20_000_000;
const MEMORY_BYTES_MAX: u64 = 256 << 20;

/// Why a bag cannot be made or opened.
#[derive(Debug, Error)]
pub enum SafeBagError {
    /// The bag is malformed.
    #[error("not a SafeBag, as `ndnsec export` writes it: {0}")]
    Decode(#[from] DecodeError),
    /// The certificate in the bag cannot be used.
    #[error("the certificate in the bag: {0}")]
    Certificate(#[from] CertificateError),
    /// The key's encryption is not supported.
    #[error("the key in the bag is not encrypted with PBES2, or in a way that takes too much time or memory")]
    Scheme,
    /// The key cannot be decrypted.
    #[error("the passphrase is wrong, or the key in the bag is damaged")]
    Passphrase,
    /// The key is of a type that cannot be used.
    #[error(transparent)]
    Key(#[from] SignerError),
    /// The key and the certificate do not belong together.
    #[error("the private key is not that of the certificate {0}")]
    Mismatch(byname_wire::Name),
}

/// A certificate with its encrypted private key.
#[derive(Debug)]
pub struct SafeBag {
    /// The certificate.
    pub certificate: Certificate,
    /// An EncryptedPrivateKeyInfo in DER.
    encrypted_key: Vec<u8>,
}

impl SafeBag {
    /// Encrypts a private key in PKCS#8 by a passphrase.
    ///
    /// # Errors
    /// If the key cannot be used, or is not that of the certificate.
    pub fn seal(certificate: Certificate, pkcs8: &[u8], passphrase: &[u8]) -> Result<Self, SafeBagError> {
        belongs(&certificate, pkcs8)?;
        let random = SystemRandom::new();
        let (mut salt, mut iv) = ([0; 16], [0; 16]);
        random.fill(&mut salt).and_then(|()| random.fill(&mut iv)).map_err(|_| SignerError::Sign)?;
        let key = PrivateKeyInfoRef::try_from(pkcs8).map_err(|_| SignerError::Key)?;
        let parameters = Parameters::generate_pbkdf2_sha256_aes256cbc(ITERATIONS, &salt, iv);
        let parameters = parameters.map_err(|_| SafeBagError::Scheme)?;
        let sealed = key.encrypt_with_params(parameters, passphrase).map_err(|_| SignerError::Key)?;
        Ok(SafeBag { certificate, encrypted_key: sealed.as_bytes().to_vec() })
    }

    /// Decrypts the private key. Returns it in PKCS#8, in memory that is overwritten when it is freed.
    ///
    /// # Errors
    /// If the passphrase is wrong, the key cannot be used, or it is not that of the certificate.
    pub fn open(&self, passphrase: &[u8]) -> Result<SecretDocument, SafeBagError> {
        let info = EncryptedPrivateKeyInfoRef::try_from(self.encrypted_key.as_slice());
        let info = info.map_err(|_| SafeBagError::Scheme)?;
        let is_bearable = match &info.encryption_algorithm {
            EncryptionScheme::Pbes2(parameters) => is_bearable(&parameters.kdf),
            _ => false,
        };
        if !is_bearable {
            return Err(SafeBagError::Scheme);
        }
        let key = info.decrypt(passphrase).map_err(|_| SafeBagError::Passphrase)?;
        belongs(&self.certificate, key.as_bytes())?;
        Ok(key)
    }

    /// Decodes a bag.
    ///
    /// # Errors
    /// If it has other elements than a certificate and an encrypted key.
    pub fn decode(wire: &[u8]) -> Result<Self, SafeBagError> {
        let mut reader = Reader::new(tlv::decode_only(wire, SAFE_BAG)?);
        let mut next = |typ| match reader.next_tlv()? {
            Some(tlv) if tlv.typ == typ => Ok(tlv),
            Some(tlv) => Err(DecodeError::UnexpectedCritical(tlv.typ)),
            None => Err(DecodeError::Missing(typ)),
        };
        let (certificate, key) = (next(types::DATA)?, next(ENCRYPTED_KEY)?);
        if let Some(tlv) = reader.next_tlv()? {
            return Err(DecodeError::UnexpectedCritical(tlv.typ).into());
        }
        Ok(SafeBag { certificate: Certificate::decode(certificate.wire)?, encrypted_key: key.value.to_vec() })
    }

    /// Encodes the bag.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_nested(&mut out, SAFE_BAG, |out| {
            out.extend_from_slice(&self.certificate.packet);
            push_tlv(out, ENCRYPTED_KEY, &self.encrypted_key);
        });
        out
    }
}

/// Whether deriving the key takes bounded time and memory.
fn is_bearable(kdf: &Kdf) -> bool {
    match kdf {
        Kdf::Pbkdf2(parameters) => parameters.iteration_count <= ITERATIONS_MAX,
        Kdf::Scrypt(parameters) => {
            let blocks = u64::from(parameters.block_size) * 128;
            let memory = parameters.cost_parameter.checked_mul(blocks);
            memory.is_some_and(|bytes| bytes <= MEMORY_BYTES_MAX) && parameters.parallelization <= 16
        }
        _ => false,
    }
}

fn belongs(certificate: &Certificate, pkcs8: &[u8]) -> Result<(), SafeBagError> {
    let signer = Signer::from_pkcs8(certificate.key_name.clone(), pkcs8)?;
    let mut failure = None;
    let signature = signer.sign(&[b"byname"], &mut failure);
    let verifies = certificate.key.verifies(signer.info(None, None).typ, &[b"byname"], &signature);
    match failure {
        Some(error) => Err(error.into()),
        None if verifies => Ok(()),
        None => Err(SafeBagError::Mismatch(certificate.name.clone())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use byname_wire::Component;

    use super::super::{KeyType, NewKey, Terms, issue};
    use super::*;

    fn pair() -> (Certificate, NewKey) {
        let key = NewKey::generate(&"/net/alice".parse().expect("a name"), KeyType::Ecdsa).expect("a key");
        let valid = (Duration::from_secs(1_700_000_000), Duration::from_secs(1_800_000_000));
        let terms = Terms { issuer: Component::generic(b"self"), version: 7, valid };
        let packet = issue(key.name(), key.spki(), key.signer(), terms).expect("signed");
        (Certificate::decode(&packet).expect("a certificate"), key)
    }

    #[test]
    fn a_sealed_key_opens_with_its_passphrase_only() {
        let (certificate, key) = pair();
        let (_, other) = pair();
        let bag = SafeBag::seal(certificate.clone(), key.pkcs8(), b"secret").expect("sealed");
        let bag = SafeBag::decode(&bag.encode()).expect("decoded");
        assert_eq!(bag.open(b"secret").expect("opened").as_bytes(), key.pkcs8());
        assert!(matches!(bag.open(b"Secret"), Err(SafeBagError::Passphrase)));
        assert!(matches!(SafeBag::seal(certificate, other.pkcs8(), b"x"), Err(SafeBagError::Mismatch(_))));
    }

    #[test]
    fn a_bag_of_openssl_opens() {
        let text: String = include_str!("vectors/openssl.safebag").split_whitespace().collect();
        let wire = data_encoding::BASE64.decode(text.as_bytes()).expect("base64");
        let bag = SafeBag::decode(&wire).expect("a bag");
        assert_eq!(bag.certificate.identity().to_string(), "/example/alice");
        bag.open(b"correct horse").expect("opened");
        assert!(matches!(bag.open(b""), Err(SafeBagError::Passphrase)));
        for cut in 0..wire.len() {
            assert!(SafeBag::decode(&wire[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn bags_that_would_take_hours_are_refused() {
        let parameters = |iterations| {
            let parameters = Parameters::generate_pbkdf2_sha256_aes256cbc(iterations, &[1; 16], [2; 16]);
            parameters.expect("parameters").kdf
        };
        assert!(is_bearable(&parameters(ITERATIONS)));
        assert!(!is_bearable(&parameters(ITERATIONS_MAX + 1)));
    }
}

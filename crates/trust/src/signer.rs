//! Signs the router's answers, and the commands that `byname` sends as a client.

use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::signature::{KeyLocator, SignatureInfo, SignatureType};
use byname_wire::{Name, digest};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use thiserror::Error;

use super::keys::{self, EC_PUBLIC_KEY, ED25519, P256};

/// Why a signer cannot be created, or cannot sign.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SignerError {
    /// The private key is not PKCS#8, or its algorithm is not supported.
    #[error(
        "the private key is not PKCS#8 of ECDSA P-256, Ed25519 or RSA; `byname keygen` makes one, and so does \
         `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256`"
    )]
    Key,
    /// The system provides no randomness, or the key refuses to sign.
    #[error("the key cannot sign")]
    Sign,
    /// Keys of this type cannot be made here.
    #[error("RSA keys are not made here; make one with `openssl genrsa`, or take --type ecdsa or ed25519")]
    Generate,
}

enum Key {
    Digest,
    Ecdsa(Box<EcdsaKeyPair>),
    Ed25519(Box<Ed25519KeyPair>),
    Rsa(Box<RsaKeyPair>),
    Hmac(ring::hmac::Key),
}

/// Signs Data and commands.
pub struct Signer {
    key: Key,
    /// Name in the KeyLocator. `None` for plain digests.
    key_name: Option<Name>,
    random: SystemRandom,
}

impl Signer {
    /// DigestSha256: protects integrity only. Commands to management on this host need no more.
    pub fn digest() -> Self {
        Signer { key: Key::Digest, key_name: None, random: SystemRandom::new() }
    }

    /// A signer with a private key in PKCS#8: ECDSA P-256, Ed25519 or RSA. P-384 is missing: NDN signs with SHA-256,
    /// and `ring` can verify but not create P-384 signatures over SHA-256.
    ///
    /// # Errors
    /// [`SignerError::Key`] for anything else.
    pub fn from_pkcs8(key_name: Name, pkcs8: &[u8]) -> Result<Self, SignerError> {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8, &random)
            .map(|k| Key::Ecdsa(Box::new(k)))
            .or_else(|_| Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8).map(|k| Key::Ed25519(Box::new(k))))
            .or_else(|_| RsaKeyPair::from_pkcs8(pkcs8).map(|k| Key::Rsa(Box::new(k))))
            .map_err(|_| SignerError::Key)?;
        Ok(Signer { key, key_name: Some(key_name), random })
    }

    /// A signer with a shared secret.
    pub fn hmac(key_name: Name, secret: &[u8]) -> Self {
        let key = Key::Hmac(ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret));
        Signer { key, key_name: Some(key_name), random: SystemRandom::new() }
    }

    /// The name in the KeyLocator. `None` for plain digests.
    pub fn key_name(&self) -> Option<&Name> {
        self.key_name.as_ref()
    }

    /// The same key under another name in the KeyLocator, such as that of its certificate.
    pub fn named(self, key_name: Name) -> Self {
        Signer { key_name: Some(key_name), ..self }
    }

    /// The public key, as a SubjectPublicKeyInfo in DER. `None` for digests and shared secrets.
    pub fn spki(&self) -> Option<Vec<u8>> {
        match &self.key {
            Key::Digest | Key::Hmac(_) => None,
            Key::Ecdsa(key) => keys::spki(EC_PUBLIC_KEY, Some(P256), key.public_key().as_ref()),
            Key::Ed25519(key) => keys::spki(ED25519, None, key.public_key().as_ref()),
            Key::Rsa(key) => keys::rsa_spki(key.public_key().as_ref()),
        }
    }

    /// Encodes and signs a Data packet.
    ///
    /// # Errors
    /// [`SignerError::Sign`].
    pub fn sign_data(&self, data: &DataBuilder) -> Result<Vec<u8>, SignerError> {
        let info = self.info(None, None);
        let mut failure = None;
        let wire = data.encode_signed(&info, |signed| self.sign(&[signed], &mut failure));
        failure.map_or(Ok(wire), Err)
    }

    /// Encodes and signs a command in the v0.3 signed Interest format. Its SignatureNonce is 8 random bytes; its
    /// SignatureTime is `unix_ms`.
    ///
    /// # Errors
    /// [`SignerError::Sign`].
    pub fn sign_command(&self, interest: &InterestBuilder, unix_ms: u64) -> Result<Vec<u8>, SignerError> {
        let mut nonce = [0; 8];
        self.random.fill(&mut nonce).map_err(|_| SignerError::Sign)?;
        let info = self.info(Some(&nonce), Some(unix_ms));
        let mut failure = None;
        let wire = interest.encode_signed(&info, |signed| self.sign(signed, &mut failure));
        failure.map_or(Ok(wire), Err)
    }

    pub(super) fn info<'a>(&'a self, nonce: Option<&'a [u8]>, time_ms: Option<u64>) -> SignatureInfo<'a> {
        let typ = match &self.key {
            Key::Digest => SignatureType::DigestSha256,
            Key::Ecdsa(_) => SignatureType::Sha256WithEcdsa,
            Key::Ed25519(_) => SignatureType::Ed25519,
            Key::Rsa(_) => SignatureType::Sha256WithRsa,
            Key::Hmac(_) => SignatureType::HmacWithSha256,
        };
        let key_locator = self.key_name.as_ref().map(|name| KeyLocator::Name(name.as_ref()));
        SignatureInfo { typ, key_locator, nonce, time_ms, seq_num: None }
    }

    pub(super) fn sign(&self, signed: &[&[u8]], failure: &mut Option<SignerError>) -> Vec<u8> {
        let mut or_fail = |outcome: Result<Vec<u8>, ring::error::Unspecified>| {
            outcome.unwrap_or_else(|_| {
                *failure = Some(SignerError::Sign);
                Vec::new()
            })
        };
        match &self.key {
            Key::Digest => digest::sha256(signed).to_vec(),
            Key::Ecdsa(key) => or_fail(key.sign(&self.random, &signed.concat()).map(|s| s.as_ref().to_vec())),
            Key::Ed25519(key) => key.sign(&signed.concat()).as_ref().to_vec(),
            Key::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                let outcome = key.sign(&RSA_PKCS1_SHA256, &self.random, &signed.concat(), &mut signature);
                or_fail(outcome.map(|()| signature))
            }
            Key::Hmac(key) => ring::hmac::sign(key, &signed.concat()).as_ref().to_vec(),
        }
    }
}

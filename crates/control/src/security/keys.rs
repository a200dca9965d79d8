//! Keys that verify signatures, read from SubjectPublicKeyInfo [RFC 5280 §4.1.2.7].

use byname_wire::signature::SignatureType;
use der::asn1::ObjectIdentifier;
use ring::{hmac, signature};
use spki::SubjectPublicKeyInfoRef;
use thiserror::Error;

/// id-ecPublicKey [RFC 5480].
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
/// secp256r1, also known as P-256.
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
/// secp384r1, also known as P-384.
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
/// rsaEncryption [RFC 8017].
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
/// id-Ed25519 [RFC 8410].
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// Octets of an uncompressed point.
const P256_POINT_BYTES: usize = 65;
const P384_POINT_BYTES: usize = 97;

/// Why octets are not a key that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyError {
    /// Not a SubjectPublicKeyInfo.
    #[error("not a SubjectPublicKeyInfo in DER: {0}")]
    Der(String),
    /// A kind of key that is not supported.
    #[error("keys of algorithm {0} are not supported; use ECDSA P-256 or P-384, RSA or Ed25519")]
    Algorithm(String),
    /// An elliptic curve that is not supported.
    #[error("the elliptic curve is not supported; use P-256 or P-384")]
    Curve,
    /// A key of a length that its algorithm does not have, or that is too weak.
    #[error("a key of {bits} bits is not supported; RSA keys have 2048 to 8192 bits, Ed25519 keys 256")]
    Length {
        /// Its length.
        bits: usize,
    },
}

/// A key that verifies signatures.
#[derive(Clone)]
pub enum VerifyingKey {
    /// ECDSA on P-256: the uncompressed point.
    EcdsaP256(Box<[u8]>),
    /// ECDSA on P-384: the uncompressed point.
    EcdsaP384(Box<[u8]>),
    /// RSA PKCS#1 v1.5: an RSAPublicKey in DER.
    Rsa(Box<[u8]>),
    /// Ed25519: the public key.
    Ed25519([u8; 32]),
    /// HMAC with SHA-256.
    Hmac(hmac::Key),
}

impl VerifyingKey {
    /// Reads a SubjectPublicKeyInfo in DER.
    ///
    /// Certificates of early ndn-cxx spell out the parameters of their curve; those keys are
    /// taken by the length of the point, and the parameters are not looked at.
    pub fn from_spki(octets: &[u8]) -> Result<Self, KeyError> {
        let spki = SubjectPublicKeyInfoRef::try_from(octets).map_err(|e| KeyError::Der(e.to_string()))?;
        let key = spki.subject_public_key.as_bytes().ok_or_else(|| KeyError::Der("a key of odd bits".to_owned()))?;
        match spki.algorithm.oid {
            EC_PUBLIC_KEY => VerifyingKey::from_point(spki.algorithm.parameters_oid().ok(), key),
            RSA => {
                let bits = rsa_bits(key)?;
                if !(2048..=8192).contains(&bits) {
                    return Err(KeyError::Length { bits });
                }
                Ok(VerifyingKey::Rsa(key.into()))
            }
            ED25519 => {
                let key = key.try_into().map_err(|_| KeyError::Length { bits: key.len().saturating_mul(8) })?;
                Ok(VerifyingKey::Ed25519(key))
            }
            other => Err(KeyError::Algorithm(other.to_string())),
        }
    }

    /// A shared secret.
    pub fn from_hmac_secret(secret: &[u8]) -> Self {
        VerifyingKey::Hmac(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    fn from_point(curve: Option<ObjectIdentifier>, point: &[u8]) -> Result<Self, KeyError> {
        match (curve, point.len()) {
            (Some(P256) | None, P256_POINT_BYTES) => Ok(VerifyingKey::EcdsaP256(point.into())),
            (Some(P384) | None, P384_POINT_BYTES) => Ok(VerifyingKey::EcdsaP384(point.into())),
            _ => Err(KeyError::Curve),
        }
    }

    /// Whether `value` is this key's signature, of this type, of `signed` (the concatenation).
    pub fn verifies(&self, typ: SignatureType, signed: &[&[u8]], value: &[u8]) -> bool {
        let public = |algorithm: &'static dyn signature::VerificationAlgorithm, key: &[u8]| {
            signature::UnparsedPublicKey::new(algorithm, key).verify(&signed.concat(), value).is_ok()
        };
        match (self, typ) {
            (VerifyingKey::EcdsaP256(key), SignatureType::Sha256WithEcdsa) => {
                public(&signature::ECDSA_P256_SHA256_ASN1, key)
            }
            (VerifyingKey::EcdsaP384(key), SignatureType::Sha256WithEcdsa) => {
                public(&signature::ECDSA_P384_SHA256_ASN1, key)
            }
            (VerifyingKey::Rsa(key), SignatureType::Sha256WithRsa) => {
                public(&signature::RSA_PKCS1_2048_8192_SHA256, key)
            }
            (VerifyingKey::Ed25519(key), SignatureType::Ed25519) => public(&signature::ED25519, key),
            (VerifyingKey::Hmac(key), SignatureType::HmacWithSha256) => {
                hmac::verify(key, &signed.concat(), value).is_ok()
            }
            // A key signs in one way: an HMAC made with a public key proves nothing.
            _ => false,
        }
    }
}

impl std::fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            VerifyingKey::EcdsaP256(_) => "ECDSA P-256",
            VerifyingKey::EcdsaP384(_) => "ECDSA P-384",
            VerifyingKey::Rsa(_) => "RSA",
            VerifyingKey::Ed25519(_) => "Ed25519",
            VerifyingKey::Hmac(_) => "HMAC",
        })
    }
}

/// Bits of the modulus of an RSAPublicKey [RFC 8017 A.1.1].
fn rsa_bits(key: &[u8]) -> Result<usize, KeyError> {
    use der::asn1::UintRef;
    use der::{Decode, Reader, SliceReader};
    let malformed = |e: der::Error| KeyError::Der(e.to_string());
    let mut reader = SliceReader::new(key).map_err(malformed)?;
    let modulus = reader
        .sequence(|inner| {
            let modulus = UintRef::decode(inner)?;
            let _exponent = UintRef::decode(inner)?;
            Ok::<_, der::Error>(modulus.as_bytes())
        })
        .map_err(malformed)?;
    let leading = modulus.first().map_or(0, |octet| octet.leading_zeros() as usize);
    Ok(modulus.len().saturating_mul(8).saturating_sub(leading))
}

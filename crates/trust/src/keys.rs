//! Keys that verify signatures, decoded from SubjectPublicKeyInfo [RFC 5280 §4.1.2.7].

use std::io::Read;
use std::path::Path;

use byname_wire::signature::SignatureType;
use der::Encode;
use der::asn1::{AnyRef, BitStringRef, ObjectIdentifier};
use ring::{hmac, signature};
use spki::{AlgorithmIdentifier, SubjectPublicKeyInfoRef};
use thiserror::Error;

/// id-ecPublicKey [RFC 5480].
pub(super) const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
/// secp256r1, also known as P-256.
pub(super) const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
/// secp384r1, also known as P-384.
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
/// rsaEncryption [RFC 8017].
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
/// id-Ed25519 [RFC 8410].
pub(super) const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";

/// Length of an uncompressed point, in bytes.
const P256_POINT_BYTES: usize = 65;
const P384_POINT_BYTES: usize = 97;

/// Why a key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyError {
    /// Not a SubjectPublicKeyInfo.
    #[error("not a SubjectPublicKeyInfo in DER: {0}")]
    Der(String),
    /// The algorithm is not supported.
    #[error("keys of algorithm {0} are not supported; use ECDSA P-256 or P-384, RSA or Ed25519")]
    Algorithm(String),
    /// The elliptic curve is not supported.
    #[error("the elliptic curve is not supported; use P-256 or P-384")]
    Curve,
    /// The key's length is wrong for its algorithm, or too short.
    #[error("a key of {bits} bits is not supported; RSA keys have 2048 to 8192 bits, Ed25519 keys 256")]
    Length {
        /// Length in bits.
        bits: usize,
    },
}

/// The algorithm of a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyType {
    /// ECDSA on P-256 or P-384.
    Ecdsa,
    /// Ed25519.
    Ed25519,
    /// RSA with 2048 to 8192 bits.
    Rsa,
}

impl KeyType {
    /// All types.
    pub const ALL: [KeyType; 3] = [KeyType::Ecdsa, KeyType::Ed25519, KeyType::Rsa];
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
    /// Decodes a SubjectPublicKeyInfo in DER.
    ///
    /// Certificates of early ndn-cxx contain explicit curve parameters. These are ignored; the length of the point
    /// determines the curve.
    pub fn from_spki(bytes: &[u8]) -> Result<Self, KeyError> {
        let spki = SubjectPublicKeyInfoRef::try_from(bytes).map_err(|e| KeyError::Der(e.to_string()))?;
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

    /// The algorithm. `None` for a shared secret.
    pub fn key_type(&self) -> Option<KeyType> {
        match self {
            VerifyingKey::EcdsaP256(_) | VerifyingKey::EcdsaP384(_) => Some(KeyType::Ecdsa),
            VerifyingKey::Rsa(_) => Some(KeyType::Rsa),
            VerifyingKey::Ed25519(_) => Some(KeyType::Ed25519),
            VerifyingKey::Hmac(_) => None,
        }
    }

    /// A key for HMACs with a shared secret.
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

    /// Whether `value` is this key's signature of type `typ` over the concatenation of `signed`.
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
            // Each key has one signature type. An HMAC computed with a public key proves nothing.
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

/// Largest private key file, in bytes: an RSA key of 8192 bits in PEM, with room to spare.
const KEY_FILE_BYTES_MAX: u64 = 64 << 10;

/// Reads a private key file: PKCS#8 in DER or PEM. Returns the DER.
///
/// # Errors
/// If the file cannot be read, or holds neither.
pub fn read_private_key(path: &Path) -> std::io::Result<Vec<u8>> {
    /// First byte of a structured DER element.
    const SEQUENCE: u8 = 0x30;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(KEY_FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    if bytes.first() == Some(&SEQUENCE) {
        return Ok(bytes);
    }
    let not_pem = || {
        let problem = "neither PKCS#8 in PEM nor in DER; `openssl pkcs8 -topk8 -nocrypt -in FILE` writes it so";
        std::io::Error::new(std::io::ErrorKind::InvalidData, problem)
    };
    let text = String::from_utf8(bytes).map_err(|_| not_pem())?;
    let mut lines = text.lines().map(str::trim).skip_while(|line| *line != PEM_BEGIN).skip(1);
    let base64: String = lines.by_ref().take_while(|line| *line != PEM_END).collect();
    Some(base64)
        .filter(|base64| !base64.is_empty())
        .and_then(|base64| data_encoding::BASE64.decode(base64.as_bytes()).ok())
        .ok_or_else(not_pem)
}

/// Encodes a PKCS#8 private key in PEM.
pub fn pem(pkcs8: &[u8]) -> String {
    format!("{PEM_BEGIN}\n{}{PEM_END}\n", wrapped_base64(pkcs8))
}

/// Encodes bytes in base64, in lines of 64 characters.
pub fn wrapped_base64(bytes: &[u8]) -> String {
    let base64 = data_encoding::BASE64.encode(bytes);
    let lines = base64.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).expect("base64 is ASCII"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// A SubjectPublicKeyInfo in DER. `curve` is the algorithm's parameter.
pub(super) fn spki(algorithm: ObjectIdentifier, curve: Option<ObjectIdentifier>, key: &[u8]) -> Option<Vec<u8>> {
    let parameters = curve.as_ref().map(AnyRef::from);
    encode_spki(AlgorithmIdentifier { oid: algorithm, parameters }, key)
}

/// The SubjectPublicKeyInfo of an RSAPublicKey in DER.
pub(super) fn rsa_spki(key: &[u8]) -> Option<Vec<u8>> {
    encode_spki(AlgorithmIdentifier { oid: RSA, parameters: Some(AnyRef::NULL) }, key)
}

fn encode_spki(algorithm: AlgorithmIdentifier<AnyRef<'_>>, key: &[u8]) -> Option<Vec<u8>> {
    let subject_public_key = BitStringRef::from_bytes(key).ok()?;
    SubjectPublicKeyInfoRef { algorithm, subject_public_key }.to_der().ok()
}

/// Number of bits in the modulus of an RSAPublicKey [RFC 8017 A.1.1].
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
    let leading = modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
    Ok(modulus.len().saturating_mul(8).saturating_sub(leading))
}

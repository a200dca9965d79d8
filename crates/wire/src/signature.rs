//! Signature elements of Data and of signed Interests: parsed and written, not computed.

use crate::name::NameRef;
use crate::tlv::DecodeError;

/// SignatureType numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SignatureType {
    /// A plain SHA-256 digest: integrity, no authenticity.
    DigestSha256,
    /// RSA PKCS#1 v1.5 with SHA-256.
    Sha256WithRsa,
    /// ECDSA with SHA-256.
    Sha256WithEcdsa,
    /// HMAC with SHA-256.
    HmacWithSha256,
    /// Ed25519.
    Ed25519,
    /// NullSignature (200) or any other.
    Other(u64),
}

impl SignatureType {
    /// From the number in the packet.
    pub fn from_number(_n: u64) -> Self {
        todo!()
    }
    /// The number in the packet.
    pub fn number(self) -> u64 {
        todo!()
    }
}

/// Where the verifier finds the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLocator<'a> {
    /// Name of a key or certificate.
    Name(NameRef<'a>),
    /// SHA-256 of a key.
    Digest(&'a [u8]),
}

/// SignatureInfo or InterestSignatureInfo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignatureInfo<'a> {
    /// The algorithm.
    pub typ: SignatureType,
    /// The key, if named.
    pub key_locator: Option<KeyLocator<'a>>,
    /// SignatureNonce (Interests only).
    pub nonce: Option<&'a [u8]>,
    /// SignatureTime, ms since the Unix epoch (Interests only).
    pub time_ms: Option<u64>,
    /// SignatureSeqNum (Interests only).
    pub seq_num: Option<u64>,
}

impl<'a> SignatureInfo<'a> {
    /// Decodes the TLV-VALUE of either element.
    pub fn decode(_value: &'a [u8]) -> Result<Self, DecodeError> {
        todo!()
    }
    /// Appends the element; `typ` is SIGNATURE_INFO or INTEREST_SIGNATURE_INFO.
    pub fn push(&self, _out: &mut Vec<u8>, _typ: u64) {
        todo!()
    }
}

/// A signature with the octets it covers (their concatenation).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature<'a> {
    /// Algorithm, key, and for Interests nonce and time.
    pub info: SignatureInfo<'a>,
    /// The signature's octets.
    pub value: &'a [u8],
    /// What is signed: one stretch in Data (the second is empty), two in Interests.
    pub signed: [&'a [u8]; 2],
}

//! Signature elements of Data and signed Interests. This module parses and writes them; it computes
//! no signatures.

use crate::name::NameRef;
use crate::tlv::{self, DecodeError, Reader, types};

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
    pub fn from_number(n: u64) -> Self {
        match n {
            0 => SignatureType::DigestSha256,
            1 => SignatureType::Sha256WithRsa,
            3 => SignatureType::Sha256WithEcdsa,
            4 => SignatureType::HmacWithSha256,
            5 => SignatureType::Ed25519,
            other => SignatureType::Other(other),
        }
    }
    /// The number in the packet.
    pub fn number(self) -> u64 {
        match self {
            SignatureType::DigestSha256 => 0,
            SignatureType::Sha256WithRsa => 1,
            SignatureType::Sha256WithEcdsa => 3,
            SignatureType::HmacWithSha256 => 4,
            SignatureType::Ed25519 => 5,
            SignatureType::Other(n) => n,
        }
    }
}

/// The place at which the verifier finds the key.
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
    /// An info of this type and nothing else.
    pub fn new(typ: SignatureType) -> Self {
        SignatureInfo { typ, key_locator: None, nonce: None, time_ms: None, seq_num: None }
    }

    /// Decodes the TLV-VALUE of either element.
    ///
    /// SignatureType comes first and KeyLocator, if present, second. The others may stand in any
    /// order. As in ndn-cxx, the first of a repeated element counts.
    pub fn decode(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let mut typ = None;
        let mut info = SignatureInfo::new(SignatureType::DigestSha256);
        let mut key_locator_seen = false;
        while let Some(tlv) = reader.next_tlv()? {
            match tlv.typ {
                types::SIGNATURE_TYPE if typ.is_none() && !key_locator_seen => {
                    typ = Some(SignatureType::from_number(tlv::decode_nni(tlv.typ, tlv.value)?));
                }
                types::KEY_LOCATOR if !key_locator_seen => {
                    info.key_locator = KeyLocator::decode(tlv.value)?;
                    key_locator_seen = true;
                }
                types::SIGNATURE_NONCE => {
                    if tlv.value.is_empty() {
                        return Err(DecodeError::BadValue(tlv.typ));
                    }
                    info.nonce.get_or_insert(tlv.value);
                }
                types::SIGNATURE_TIME => {
                    info.time_ms.get_or_insert(tlv::decode_nni(tlv.typ, tlv.value)?);
                }
                types::SIGNATURE_SEQ_NUM => {
                    info.seq_num.get_or_insert(tlv::decode_nni(tlv.typ, tlv.value)?);
                }
                // Every certificate has this element. It was meant to be skippable, but its number
                // is odd by mistake.
                types::VALIDITY_PERIOD => {}
                other if tlv::is_critical(other) => return Err(DecodeError::UnexpectedCritical(other)),
                _ => {}
            }
        }
        info.typ = typ.ok_or(DecodeError::Missing(types::SIGNATURE_TYPE))?;
        Ok(info)
    }

    /// Appends the element; `typ` is SIGNATURE_INFO or INTEREST_SIGNATURE_INFO.
    pub fn push(&self, out: &mut Vec<u8>, typ: u64) {
        tlv::push_nested(out, typ, |out| {
            tlv::push_nni(out, types::SIGNATURE_TYPE, self.typ.number());
            match self.key_locator {
                Some(KeyLocator::Name(name)) => {
                    tlv::push_nested(out, types::KEY_LOCATOR, |out| tlv::push_tlv(out, types::NAME, name.value()));
                }
                Some(KeyLocator::Digest(digest)) => {
                    tlv::push_nested(out, types::KEY_LOCATOR, |out| tlv::push_tlv(out, types::KEY_DIGEST, digest));
                }
                None => {}
            }
            if let Some(nonce) = self.nonce {
                tlv::push_tlv(out, types::SIGNATURE_NONCE, nonce);
            }
            if let Some(time_ms) = self.time_ms {
                tlv::push_nni(out, types::SIGNATURE_TIME, time_ms);
            }
            if let Some(seq_num) = self.seq_num {
                tlv::push_nni(out, types::SIGNATURE_SEQ_NUM, seq_num);
            }
        });
    }
}

impl<'a> KeyLocator<'a> {
    /// Decodes the TLV-VALUE. `None` if it is empty or of an unknown kind.
    fn decode(value: &'a [u8]) -> Result<Option<Self>, DecodeError> {
        let Some(tlv) = Reader::new(value).next_tlv()? else { return Ok(None) };
        Ok(match tlv.typ {
            types::NAME => Some(KeyLocator::Name(NameRef::new(tlv.value)?)),
            types::KEY_DIGEST => Some(KeyLocator::Digest(tlv.value)),
            _ => None,
        })
    }
}

/// A signature with the bytes it covers (their concatenation).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature<'a> {
    /// Algorithm, key, and for Interests nonce and time.
    pub info: SignatureInfo<'a>,
    /// The signature's bytes.
    pub value: &'a [u8],
    /// The signed bytes: one piece in Data (the second is empty), two in Interests.
    pub signed: [&'a [u8]; 2],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;

    fn round_trip(info: SignatureInfo<'_>) {
        let mut wire = vec![];
        info.push(&mut wire, types::INTEREST_SIGNATURE_INFO);
        let value = tlv::decode_only(&wire, types::INTEREST_SIGNATURE_INFO).unwrap();
        assert_eq!(SignatureInfo::decode(value), Ok(info));
    }

    #[test]
    fn infos_round_trip() {
        let key: Name = "/key/8=1".parse().unwrap();
        for n in [0, 1, 2, 3, 4, 5, 200, 70_000] {
            round_trip(SignatureInfo::new(SignatureType::from_number(n)));
        }
        let full = SignatureInfo {
            typ: SignatureType::Sha256WithEcdsa,
            key_locator: Some(KeyLocator::Name(key.as_ref())),
            nonce: Some(&[1, 2, 3, 4, 5, 6, 7, 8]),
            time_ms: Some(1_700_000_000_000),
            seq_num: Some(7),
        };
        round_trip(full);
        round_trip(SignatureInfo { key_locator: Some(KeyLocator::Digest(&[9; 32])), ..full });
    }

    #[test]
    fn order_and_evolvability() {
        const TYPE: &[u8] = &[0x1b, 1, 3];
        const KEY: &[u8] = &[0x1c, 2, 0x07, 0];
        let decode = |parts: &[&[u8]]| SignatureInfo::decode(&parts.concat()).map(|info| info.typ);
        let ecdsa = Ok(SignatureType::Sha256WithEcdsa);
        assert_eq!(decode(&[TYPE, KEY]), ecdsa);
        assert_eq!(decode(&[TYPE, &[0x1c, 0]]), ecdsa);
        assert_eq!(decode(&[TYPE, &[0xfd, 0, 0xfd, 0]]), ecdsa);
        assert_eq!(decode(&[&[0x28, 1, 5], TYPE, &[0xf0, 0]]), ecdsa);
        assert_eq!(decode(&[KEY, TYPE]), Err(DecodeError::UnexpectedCritical(types::SIGNATURE_TYPE)));
        assert_eq!(decode(&[TYPE, TYPE]), Err(DecodeError::UnexpectedCritical(types::SIGNATURE_TYPE)));
        assert_eq!(decode(&[TYPE, KEY, KEY]), Err(DecodeError::UnexpectedCritical(types::KEY_LOCATOR)));
        assert_eq!(decode(&[TYPE, &[0xf1, 0]]), Err(DecodeError::UnexpectedCritical(0xf1)));
        assert_eq!(decode(&[TYPE, &[0x26, 0]]), Err(DecodeError::BadValue(types::SIGNATURE_NONCE)));
        assert_eq!(decode(&[&[0x1b, 3, 0, 0, 0]]), Err(DecodeError::BadValue(types::SIGNATURE_TYPE)));
        assert_eq!(decode(&[]), Err(DecodeError::Missing(types::SIGNATURE_TYPE)));
    }
}

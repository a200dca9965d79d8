//! Data packets.

use crate::PACKET_BYTES_MAX;
use crate::digest::{self, Sha256Digest};
use crate::name::{Component, Name, NameRef, NameShape};
use crate::name_hash::PrefixHashes;
use crate::signature::{Signature, SignatureInfo, SignatureType};
use crate::tlv::{self, DecodeError, Reader, types};

/// ContentType numbers.
pub mod content_type {
    #![allow(missing_docs)]
    pub const BLOB: u64 = 0;
    pub const LINK: u64 = 1;
    pub const KEY: u64 = 2;
    pub const NACK: u64 = 3;
    pub const PREFIX_ANN: u64 = 5;
}

/// A parsed Data packet. All borrows are from the packet.
#[derive(Debug, Clone, Copy)]
pub struct Data<'a> {
    /// The whole packet.
    pub wire: &'a [u8],
    /// Its name.
    pub name: NameRef<'a>,
    /// Offset of the name's TLV-VALUE in `wire`.
    pub name_offset: usize,
    /// ContentType; [`content_type::BLOB`] when absent.
    pub content_type: u64,
    /// FreshnessPeriod; 0 when absent: never fresh.
    pub freshness_ms: u64,
    /// FinalBlockId.
    pub final_block: Option<Component<'a>>,
    /// Content; empty when absent.
    pub content: &'a [u8],
    /// The signature.
    pub signature: Signature<'a>,
}

impl<'a> Data<'a> {
    /// Parses one Data element that fills `wire`.
    pub fn decode(wire: &'a [u8]) -> Result<Self, DecodeError> {
        Self::decode_and(wire, |_, _| ())
    }

    /// Parses like [`Data::decode`], and notes in `hashes` where each name component ends, for
    /// [`PrefixHashes::fill_noted_burst_where`].
    // Inlined: callers use few of the fields, so the compiler leaves out the rest.
    #[inline(always)]
    pub fn decode_noting(wire: &'a [u8], hashes: &mut PrefixHashes) -> Result<Self, DecodeError> {
        hashes.note_end(0, 0);
        Self::decode_and(wire, |depth, end| hashes.note_end(depth, end))
    }

    #[inline(always)]
    fn decode_and(wire: &'a [u8], note: impl FnMut(usize, usize)) -> Result<Self, DecodeError> {
        if wire.len() > PACKET_BYTES_MAX {
            return Err(DecodeError::TooLarge);
        }
        let value = tlv::decode_only(wire, types::DATA)?;
        let mut reader = Reader::new(value);
        let name_tlv = reader.next_tlv()?.filter(|tlv| tlv.typ == types::NAME);
        let name_tlv = name_tlv.ok_or(DecodeError::Missing(types::NAME))?;
        NameShape::check(name_tlv.value, note)?;
        let name = NameRef::from_checked(name_tlv.value);
        let name_offset = wire.len() - reader.rest().len() - name_tlv.value.len();

        let mut meta = MetaInfo::default();
        let mut content = &[][..];
        let mut info = None;
        let mut signature_value = None;
        let mut signed = &[][..];
        // Position in the order that the specification gives.
        let mut stage = 0;
        while let Some(tlv) = reader.next_tlv()? {
            match tlv.typ {
                types::META_INFO if stage < 1 => {
                    meta = MetaInfo::decode(tlv.value)?;
                    stage = 1;
                }
                types::CONTENT if stage < 2 => {
                    content = tlv.value;
                    stage = 2;
                }
                types::SIGNATURE_INFO if stage < 3 => {
                    info = Some(SignatureInfo::decode(tlv.value)?);
                    stage = 3;
                }
                types::SIGNATURE_VALUE if stage < 4 => {
                    signature_value = Some(tlv.value);
                    signed = &value[..value.len() - reader.rest().len() - tlv.wire.len()];
                    stage = 4;
                }
                typ if tlv::is_critical(typ) => return Err(DecodeError::UnexpectedCritical(typ)),
                _ => {}
            }
        }
        let info = info.ok_or(DecodeError::Missing(types::SIGNATURE_INFO))?;
        let signature_value = signature_value.ok_or(DecodeError::Missing(types::SIGNATURE_VALUE))?;
        Ok(Data {
            wire,
            name,
            name_offset,
            content_type: meta.content_type,
            freshness_ms: meta.freshness_ms,
            final_block: meta.final_block,
            content,
            signature: Signature { info, value: signature_value, signed: [signed, &[]] },
        })
    }
    /// SHA-256 of the whole packet: the implicit digest component of its full name.
    pub fn implicit_digest(&self) -> Sha256Digest {
        digest::sha256(&[self.wire])
    }
}

#[derive(Default)]
struct MetaInfo<'a> {
    content_type: u64,
    freshness_ms: u64,
    final_block: Option<Component<'a>>,
}

impl<'a> MetaInfo<'a> {
    fn decode(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut meta = MetaInfo::default();
        let mut reader = Reader::new(value);
        let mut stage = 0;
        while let Some(tlv) = reader.next_tlv()? {
            match tlv.typ {
                types::CONTENT_TYPE if stage < 1 => {
                    meta.content_type = tlv::decode_nni(tlv.typ, tlv.value)?;
                    stage = 1;
                }
                types::FRESHNESS_PERIOD if stage < 2 => {
                    meta.freshness_ms = tlv::decode_nni(tlv.typ, tlv.value)?;
                    stage = 2;
                }
                types::FINAL_BLOCK_ID if stage < 3 => {
                    let name = NameRef::new(tlv.value)?;
                    let mut components = name.components();
                    meta.final_block = components.next();
                    if meta.final_block.is_none() || components.next().is_some() {
                        return Err(DecodeError::BadValue(tlv.typ));
                    }
                    stage = 3;
                }
                // Application-defined metadata of ndn-cxx, of either parity.
                128..=252 => {}
                typ if tlv::is_critical(typ) => return Err(DecodeError::UnexpectedCritical(typ)),
                _ => {}
            }
        }
        Ok(meta)
    }
}

/// Builds Data.
#[derive(Debug, Clone)]
pub struct DataBuilder {
    name: Name,
    content_type: u64,
    freshness_ms: u64,
    final_block: Option<(u16, Vec<u8>)>,
    content: Vec<u8>,
}

impl DataBuilder {
    /// A Data packet of this name.
    pub fn new(name: Name) -> Self {
        DataBuilder { name, content_type: content_type::BLOB, freshness_ms: 0, final_block: None, content: Vec::new() }
    }
    /// Sets ContentType.
    pub fn content_type(mut self, typ: u64) -> Self {
        self.content_type = typ;
        self
    }
    /// Sets FreshnessPeriod.
    pub fn freshness_ms(mut self, ms: u64) -> Self {
        self.freshness_ms = ms;
        self
    }
    /// Sets FinalBlockId.
    pub fn final_block(mut self, component: Component<'_>) -> Self {
        self.final_block = Some((component.typ, component.value.to_vec()));
        self
    }
    /// Sets Content.
    pub fn content(mut self, content: Vec<u8>) -> Self {
        self.content = content;
        self
    }
    /// Encodes the packet. `sign` gets the bytes to sign and returns the signature value.
    pub fn encode_signed(&self, info: &SignatureInfo<'_>, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.name.value().len() + self.content.len() + 128);
        tlv::push_tlv(&mut value, types::NAME, self.name.value());
        self.push_meta_info(&mut value);
        tlv::push_tlv(&mut value, types::CONTENT, &self.content);
        info.push(&mut value, types::SIGNATURE_INFO);
        let signature = sign(&value);
        tlv::push_tlv(&mut value, types::SIGNATURE_VALUE, &signature);
        let mut wire = Vec::with_capacity(value.len() + 4);
        tlv::push_tlv(&mut wire, types::DATA, &value);
        wire
    }
    /// Encodes the packet, signed with DigestSha256.
    pub fn encode(&self) -> Vec<u8> {
        let info = SignatureInfo::new(SignatureType::DigestSha256);
        self.encode_signed(&info, |signed| digest::sha256(&[signed]).to_vec())
    }

    fn push_meta_info(&self, out: &mut Vec<u8>) {
        if self.content_type == content_type::BLOB && self.freshness_ms == 0 && self.final_block.is_none() {
            return;
        }
        tlv::push_nested(out, types::META_INFO, |out| {
            if self.content_type != content_type::BLOB {
                tlv::push_nni(out, types::CONTENT_TYPE, self.content_type);
            }
            if self.freshness_ms != 0 {
                tlv::push_nni(out, types::FRESHNESS_PERIOD, self.freshness_ms);
            }
            if let Some((typ, value)) = &self.final_block {
                tlv::push_nested(out, types::FINAL_BLOCK_ID, |out| Component { typ: *typ, value }.push(out));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &[u8] = &[0x07, 3, 8, 1, b'a'];
    const META: &[u8] = &[0x14, 0];
    const CONTENT: &[u8] = &[0x15, 1, 9];
    const INFO: &[u8] = &[0x16, 3, 0x1b, 1, 0];
    const VALUE: &[u8] = &[0x17, 1, 7];

    fn packet(parts: &[&[u8]]) -> Vec<u8> {
        let mut wire = vec![];
        tlv::push_tlv(&mut wire, types::DATA, &parts.concat());
        wire
    }

    fn error(parts: &[&[u8]]) -> Option<DecodeError> {
        Data::decode(&packet(parts)).err()
    }

    #[test]
    fn built_data_decodes() {
        let name: Name = "/a/b/seg=3".parse().unwrap();
        let last = name.as_ref().component(-1).unwrap();
        let builder = DataBuilder::new(name.clone())
            .content_type(content_type::KEY)
            .freshness_ms(10_000)
            .final_block(last)
            .content(vec![5; 1000]);
        let wire = builder.encode();
        let data = Data::decode(&wire).unwrap();
        assert_eq!(data.name, name.as_ref());
        assert_eq!(&wire[data.name_offset..][..name.value().len()], name.value());
        assert_eq!((data.content_type, data.freshness_ms), (content_type::KEY, 10_000));
        assert_eq!(data.final_block, Some(last));
        assert_eq!(data.content, [5; 1000]);
        assert_eq!(data.signature.value, digest::sha256(&data.signature.signed));
        assert_eq!(data.implicit_digest(), digest::sha256(&[&wire]));
    }

    #[test]
    fn the_smallest_data() {
        let wire = packet(&[NAME, INFO, VALUE]);
        let data = Data::decode(&wire).unwrap();
        assert_eq!((data.content_type, data.freshness_ms, data.final_block), (0, 0, None));
        assert!(data.content.is_empty());
        assert_eq!(data.signature.signed, [&[NAME, INFO].concat()[..], &[]]);
        assert_eq!(data.signature.value, [7]);
        assert_eq!(error(&[&[0x07, 0], INFO, VALUE]), None);
    }

    #[test]
    fn order_and_evolvability() {
        assert_eq!(error(&[NAME, META, CONTENT, INFO, VALUE]), None);
        assert_eq!(error(&[NAME, &[0xf0, 0], META, CONTENT, INFO, VALUE, &[0xf0, 0]]), None);
        assert_eq!(error(&[NAME, INFO, VALUE, &[0xf1, 0]]), Some(DecodeError::UnexpectedCritical(0xf1)));
        assert_eq!(error(&[NAME, CONTENT, META, INFO, VALUE]), Some(DecodeError::UnexpectedCritical(types::META_INFO)));
        assert_eq!(error(&[NAME, META, META, INFO, VALUE]), Some(DecodeError::UnexpectedCritical(types::META_INFO)));
        assert_eq!(error(&[NAME, VALUE, INFO]), Some(DecodeError::UnexpectedCritical(types::SIGNATURE_INFO)));
        assert_eq!(error(&[NAME, NAME, INFO, VALUE]), Some(DecodeError::UnexpectedCritical(types::NAME)));
        assert_eq!(error(&[META, INFO, VALUE]), Some(DecodeError::Missing(types::NAME)));
        assert_eq!(error(&[NAME, VALUE]), Some(DecodeError::Missing(types::SIGNATURE_INFO)));
        assert_eq!(error(&[NAME, INFO]), Some(DecodeError::Missing(types::SIGNATURE_VALUE)));
        assert_eq!(error(&[]), Some(DecodeError::Missing(types::NAME)));
    }

    #[test]
    fn meta_info_is_checked() {
        let meta = |value: &[u8]| {
            let mut element = vec![];
            tlv::push_tlv(&mut element, types::META_INFO, value);
            error(&[NAME, &element, INFO, VALUE])
        };
        assert_eq!(meta(&[0x18, 1, 2, 0x19, 2, 1, 0, 0x1a, 3, 8, 1, 0]), None);
        assert_eq!(meta(&[0x81, 0, 0x82, 0]), None);
        assert_eq!(meta(&[0x19, 1, 2, 0x18, 1, 1]), Some(DecodeError::UnexpectedCritical(types::CONTENT_TYPE)));
        assert_eq!(meta(&[0x19, 3, 2, 0, 0]), Some(DecodeError::BadValue(types::FRESHNESS_PERIOD)));
        assert_eq!(meta(&[0x1a, 0]), Some(DecodeError::BadValue(types::FINAL_BLOCK_ID)));
        assert_eq!(meta(&[0x1a, 4, 8, 0, 8, 0]), Some(DecodeError::BadValue(types::FINAL_BLOCK_ID)));
        assert_eq!(meta(&[0x1d, 0]), Some(DecodeError::UnexpectedCritical(0x1d)));
    }

    #[test]
    fn the_element_must_fill_the_buffer() {
        let mut wire = packet(&[NAME, INFO, VALUE]);
        wire.push(0);
        assert_eq!(Data::decode(&wire).err(), Some(DecodeError::Trailing));
        wire.truncate(wire.len() - 2);
        assert_eq!(Data::decode(&wire).err(), Some(DecodeError::Truncated));
        assert_eq!(Data::decode(&[]).err(), Some(DecodeError::Truncated));
        assert_eq!(Data::decode(&[5, 0]).err(), Some(DecodeError::Missing(types::DATA)));
        let large = DataBuilder::new(Name::default()).content(vec![0; 9000]).encode();
        assert_eq!(Data::decode(&large).err(), Some(DecodeError::TooLarge));
    }
}

//! Data packets.

use crate::digest::Sha256Digest;
use crate::name::{Component, Name, NameRef};
use crate::signature::{Signature, SignatureInfo};
use crate::tlv::DecodeError;

/// ContentType numbers.
pub mod content_type {
    #![allow(missing_docs)]
    pub const BLOB: u64 = 0;
    pub const LINK: u64 = 1;
    pub const KEY: u64 = 2;
    pub const NACK: u64 = 3;
    pub const PREFIX_ANN: u64 = 5;
}

/// A parsed Data; all borrows are from the packet.
#[derive(Debug, Clone, Copy)]
pub struct Data<'a> {
    /// The whole packet.
    pub wire: &'a [u8],
    /// Its name.
    pub name: NameRef<'a>,
    /// Where the name's TLV-VALUE begins in `wire`.
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
    pub fn decode(_wire: &'a [u8]) -> Result<Self, DecodeError> {
        todo!()
    }
    /// SHA-256 of the whole packet: the implicit digest component of its full name.
    pub fn implicit_digest(&self) -> Sha256Digest {
        crate::digest::sha256(&[self.wire])
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
    /// The packet; `sign` gets the signed octets and returns the signature value.
    pub fn encode_signed(&self, _info: &SignatureInfo<'_>, _sign: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
        todo!()
    }
    /// The packet, signed with DigestSha256.
    pub fn encode(&self) -> Vec<u8> {
        todo!()
    }
}

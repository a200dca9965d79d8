//! Packets to all applications that advertised a subset of the packet's tags.

use std::num::NonZeroU16;

use super::address::{Address, decode_tree};
use super::{DEFAULT_HOP_LIMIT, Elements, types};
use crate::interest::HopLimit;
use crate::locator::TreeId;
use crate::tagset::{Descriptor, Filter, TAGS_MAX, TagDigest};
use crate::tlv::{self, DecodeError};

/// Length of a tag's digest in bytes.
const DIGEST_LEN: usize = size_of::<u32>();
/// Length of a filter in bytes.
const FILTER_LEN: usize = size_of::<[u64; 3]>();

/// A parsed tag-addressed packet. All borrows are from the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagPacket<'a> {
    /// HopLimit, and where its byte stands.
    pub hop_limit: HopLimit,
    /// The tree that it travels on.
    pub tree: TreeId,
    /// Offset of the tree's number in the packet. A number below 256 is one byte.
    pub tree_offset: usize,
    /// The set of tags that it is addressed to.
    pub tags: TagSet<'a>,
    /// Maximum number of applications that it may reach. `None` means no limit.
    pub fan_out: Option<FanOut>,
    /// The application that answers go to.
    pub source: Option<Address>,
    /// The payload.
    pub payload: &'a [u8],
}

/// Fan-out limit, which routers lower in place: two bytes, big endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FanOut {
    /// Maximum number of applications.
    pub limit: NonZeroU16,
    /// Offset of the two bytes in the packet.
    pub offset: usize,
}

/// A set of tags as it stands in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagSet<'a> {
    /// As digests.
    Tags(TagList<'a>),
    /// As a filter only.
    Filter(Filter),
}

/// The digests of tags in a packet: at most [`TAGS_MAX`], ascending and distinct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagList<'a>(&'a [[u8; DIGEST_LEN]]);

impl<'a> TagList<'a> {
    /// Reads the value of a Tags element.
    ///
    /// # Errors
    /// If these are not at most [`TAGS_MAX`] ascending digests.
    pub fn decode(value: &'a [u8]) -> Result<Self, DecodeError> {
        let (digests, rest) = value.as_chunks();
        // Big-endian digests compare like their bytes.
        if !rest.is_empty() || digests.len() > TAGS_MAX || !digests.is_sorted_by(|a, b| a < b) {
            return Err(DecodeError::BadValue(types::TAGS));
        }
        Ok(TagList(digests))
    }

    /// The set of tags with these digests.
    pub fn descriptor(&self) -> Descriptor {
        Descriptor::from_digests(self.iter()).expect("no more than a descriptor has")
    }

    /// The digests.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = TagDigest> {
        self.0.iter().map(|bytes| TagDigest(u32::from_be_bytes(*bytes)))
    }
}

impl<'a> TagPacket<'a> {
    /// Parses one tag-addressed packet that fills `wire`.
    ///
    /// # Errors
    /// If an element is missing, malformed, or unknown and critical, as `docs/tagset.md` specifies.
    pub fn decode(wire: &'a [u8]) -> Result<Self, DecodeError> {
        let mut elements = Elements::of_packet(wire, types::TAG_PACKET)?;
        let hop_limit = elements.hop_limit()?;
        let (tree, tree_offset) = elements.require(types::TREE)?;
        let tree = decode_tree(tree)?;
        let tags = match elements.take(types::TAGS)? {
            Some((value, _)) => TagSet::Tags(TagList::decode(value)?),
            None => TagSet::Filter(decode_filter(elements.require(types::FILTER)?.0)?),
        };
        let fan_out = elements.take(types::FAN_OUT)?.map(|(value, offset)| decode_fan_out(value, offset));
        let fan_out = fan_out.transpose()?;
        let source = elements.take(types::SOURCE)?.map(|(value, _)| Address::decode(value)).transpose()?;
        let payload = elements.take(types::PAYLOAD)?.map_or(&[][..], |(value, _)| value);
        elements.finish()?;
        Ok(TagPacket { hop_limit, tree, tree_offset, tags, fan_out, source, payload })
    }
}

fn decode_filter(value: &[u8]) -> Result<Filter, DecodeError> {
    let (words, rest) = value.as_chunks();
    let words = <[[u8; 8]; 3]>::try_from(words).ok().filter(|_| rest.is_empty());
    let filter = words.and_then(|words| Filter::from_words(words.map(u64::from_be_bytes)));
    filter.ok_or(DecodeError::BadValue(types::FILTER))
}

fn decode_fan_out(value: &[u8], offset: usize) -> Result<FanOut, DecodeError> {
    let limit = value.try_into().ok().map(u16::from_be_bytes).and_then(NonZeroU16::new);
    limit.map(|limit| FanOut { limit, offset }).ok_or(DecodeError::BadValue(types::FAN_OUT))
}

/// Builds tag-addressed packets.
#[derive(Debug, Clone)]
pub struct TagPacketBuilder<'a> {
    hop_limit: u8,
    tree: TreeId,
    typ: u64,
    /// The value of the Tags or Filter element.
    value: Vec<u8>,
    fan_out: Option<NonZeroU16>,
    source: Option<Address>,
    payload: &'a [u8],
}

impl<'a> TagPacketBuilder<'a> {
    /// An empty packet on this tree, to all who advertised a subset of `descriptor`.
    pub fn new(tree: TreeId, descriptor: &Descriptor) -> Self {
        let value = descriptor.tags().iter().flat_map(|tag| tag.0.to_be_bytes()).collect();
        Self::with(tree, types::TAGS, value)
    }
    /// An empty packet that carries only a filter. Routers do not learn its tags, so they match
    /// filters and accept their false positives.
    pub fn of_filter(tree: TreeId, filter: Filter) -> Self {
        let mut value = Vec::with_capacity(FILTER_LEN);
        filter.words().iter().for_each(|word| value.extend_from_slice(&word.to_be_bytes()));
        Self::with(tree, types::FILTER, value)
    }
    /// Sets HopLimit.
    pub fn hop_limit(mut self, hops: u8) -> Self {
        self.hop_limit = hops;
        self
    }
    /// Limits how many applications it may reach.
    pub fn fan_out(mut self, limit: NonZeroU16) -> Self {
        self.fan_out = Some(limit);
        self
    }
    /// Sets the address that answers go to.
    pub fn source(mut self, source: Address) -> Self {
        self.source = Some(source);
        self
    }
    /// Sets the payload.
    pub fn payload(mut self, payload: &'a [u8]) -> Self {
        self.payload = payload;
        self
    }
    /// The packet.
    pub fn encode(&self) -> Vec<u8> {
        let mut wire = Vec::with_capacity(self.value.len() + self.payload.len() + 64);
        tlv::push_nested(&mut wire, types::TAG_PACKET, |out| {
            tlv::push_tlv(out, types::HOP_LIMIT, &[self.hop_limit]);
            tlv::push_nni(out, types::TREE, self.tree.0.into());
            tlv::push_tlv(out, self.typ, &self.value);
            if let Some(limit) = self.fan_out {
                tlv::push_tlv(out, types::FAN_OUT, &limit.get().to_be_bytes());
            }
            if let Some(source) = self.source {
                source.push(out, types::SOURCE);
            }
            if !self.payload.is_empty() {
                tlv::push_tlv(out, types::PAYLOAD, self.payload);
            }
        });
        wire
    }

    fn with(tree: TreeId, typ: u64, value: Vec<u8>) -> Self {
        TagPacketBuilder { hop_limit: DEFAULT_HOP_LIMIT, tree, typ, value, fan_out: None, source: None, payload: &[] }
    }
}

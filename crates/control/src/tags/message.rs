//! What applications and routers say to each other about descriptors, as `docs/tagset.md` specifies
//! it: elements in the ApplicationParameters of commands, and in the bodies of answers.

use byname_wire::tagnet::{Address, TagList, types as tagnet};
use byname_wire::tlv::{self, Reader};
use byname_wire::{DecodeError, Descriptor, TreeId};

/// TLV-TYPE numbers, besides those of packets.
pub mod types {
    #![allow(missing_docs)]
    pub const SESSION: u64 = 0xd5;
    pub const SEQUENCE: u64 = 0xd7;
    pub const ADVERTISED: u64 = 0xd9;
    pub const WITHDRAWN: u64 = 0xdb;
    pub const LOCATORS: u64 = 0xdd;
}

/// Octets of descriptors that one command holds at most: with names, digests and a signature around
/// them it remains a packet.
const DESCRIPTORS_BYTES_MAX: usize = 6000;

/// Descriptors, as many as one command holds.
#[derive(Debug, Default)]
pub struct DescriptorList(Vec<u8>);

impl DescriptorList {
    /// Appends a descriptor, if there is room for it.
    pub fn push(&mut self, descriptor: &Descriptor) -> bool {
        let len = tlv::element_size(tagnet::TAGS, size_of_val(descriptor.tags()));
        let fits = self.0.len() + len <= DESCRIPTORS_BYTES_MAX;
        if fits {
            tlv::push_nested(&mut self.0, tagnet::TAGS, |out| {
                descriptor.tags().iter().for_each(|tag| out.extend_from_slice(&tag.0.to_be_bytes()));
            });
        }
        fits
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The elements.
    pub fn octets(&self) -> &[u8] {
        &self.0
    }
}

/// Reads a list of descriptors.
///
/// # Errors
/// If there is anything else among them, or one that is malformed.
pub fn decode_descriptors(octets: &[u8]) -> Result<Vec<Descriptor>, DecodeError> {
    let mut reader = Reader::new(octets);
    let mut descriptors = Vec::new();
    while let Some(element) = reader.next_tlv()? {
        match element.typ {
            tagnet::TAGS => descriptors.push(TagList::decode(element.value)?.descriptor()),
            typ if tlv::is_critical(typ) => return Err(DecodeError::UnexpectedCritical(typ)),
            _ => {}
        }
    }
    Ok(descriptors)
}

/// What a router tells a neighbour on a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The tree.
    pub tree: TreeId,
    /// Grows when the sender begins again from nothing.
    pub session: u64,
    /// Grows with each update of a session.
    pub sequence: u64,
    /// Descriptors that are advertised beyond the sender.
    pub advertised: Vec<Descriptor>,
    /// Descriptors that no longer are.
    pub withdrawn: Vec<Descriptor>,
}

impl Update {
    /// Encodes an update from lists.
    pub fn encode(
        tree: TreeId,
        session: u64,
        sequence: u64,
        advertised: &DescriptorList,
        withdrawn: &DescriptorList,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(advertised.0.len() + withdrawn.0.len() + 40);
        tlv::push_nni(&mut out, tagnet::TREE, tree.0.into());
        tlv::push_nni(&mut out, types::SESSION, session);
        tlv::push_nni(&mut out, types::SEQUENCE, sequence);
        tlv::push_tlv(&mut out, types::ADVERTISED, advertised.octets());
        tlv::push_tlv(&mut out, types::WITHDRAWN, withdrawn.octets());
        out
    }

    /// Reads an update.
    ///
    /// # Errors
    /// If an element is missing or malformed.
    pub fn decode(octets: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(octets);
        let mut require = |typ| match reader.next_tlv()? {
            Some(element) if element.typ == typ => Ok(element.value),
            _ => Err(DecodeError::Missing(typ)),
        };
        let tree = tlv::decode_nni(tagnet::TREE, require(tagnet::TREE)?)?;
        Ok(Update {
            tree: TreeId(u32::try_from(tree).map_err(|_| DecodeError::BadValue(tagnet::TREE))?),
            session: tlv::decode_nni(types::SESSION, require(types::SESSION)?)?,
            sequence: tlv::decode_nni(types::SEQUENCE, require(types::SEQUENCE)?)?,
            advertised: decode_descriptors(require(types::ADVERTISED)?)?,
            withdrawn: decode_descriptors(require(types::WITHDRAWN)?)?,
        })
    }
}

/// The body of an answer to an update: from which session on the receiver knows what it was told.
pub fn encode_session(session: u64) -> Vec<u8> {
    let mut out = Vec::new();
    tlv::push_nni(&mut out, types::SESSION, session);
    out
}

/// Reads the body of an answer to an update.
///
/// # Errors
/// If it is anything else.
pub fn decode_session(body: &[u8]) -> Result<u64, DecodeError> {
    tlv::decode_nni(types::SESSION, tlv::decode_only(body, types::SESSION)?)
}

/// The body of an answer to `tags/locators`: an address on each tree.
pub fn encode_locators(addresses: &[Address]) -> Vec<u8> {
    let mut out = Vec::new();
    tlv::push_nested(&mut out, types::LOCATORS, |out| {
        addresses.iter().for_each(|address| address.push(out, tagnet::SOURCE));
    });
    out
}

/// Reads the body of an answer to `tags/locators`.
///
/// # Errors
/// If it is anything else.
pub fn decode_locators(body: &[u8]) -> Result<Vec<Address>, DecodeError> {
    let mut reader = Reader::new(tlv::decode_only(body, types::LOCATORS)?);
    let mut addresses = Vec::new();
    while let Some(element) = reader.next_tlv()? {
        if element.typ == tagnet::SOURCE {
            addresses.push(Address::decode(element.value)?);
        }
    }
    Ok(addresses)
}

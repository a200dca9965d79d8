//! Messages between applications and routers about descriptors, specified in `docs/tagset.md`. They are TLV elements in
//! the ApplicationParameters of commands and in the bodies of answers.

use byname_wire::tagnet::{Address, TagList, types as tagnet};
use byname_wire::tlv::{self, Reader};
use byname_wire::{DecodeError, Descriptor, TreeId};

/// TLV-TYPE numbers beyond those of packets.
pub mod types {
    #![allow(missing_docs)]
    pub const SESSION: u64 = 0xd5;
    pub const SEQUENCE: u64 = 0xd7;
    pub const ADVERTISED: u64 = 0xd9;
    pub const WITHDRAWN: u64 = 0xdb;
    pub const LOCATORS: u64 = 0xdd;
    pub const ECHO: u64 = 0xdf;
    pub const COMPLETE: u64 = 0xf9;
}

/// Most bytes of descriptors in one command. With names, digests and a signature, it still fits in a packet.
const DESCRIPTORS_BYTES_MAX: usize = 6000;

/// A list of descriptors that fits in one command.
#[derive(Debug, Default)]
pub struct DescriptorList(Vec<u8>);

impl DescriptorList {
    /// Appends a descriptor. Returns false if there is no room.
    pub fn push(&mut self, descriptor: &Descriptor) -> bool {
        self.push_beside(descriptor, &DescriptorList::default())
    }

    /// Appends a descriptor if there is room for both lists in one command. Returns false if not.
    pub fn push_beside(&mut self, descriptor: &Descriptor, other: &DescriptorList) -> bool {
        let len = tlv::element_size(tagnet::TAGS, size_of_val(descriptor.tags()));
        let fits = self.0.len() + other.0.len() + len <= DESCRIPTORS_BYTES_MAX;
        if fits {
            tlv::push_nested(&mut self.0, tagnet::TAGS, |out| {
                descriptor.tags().iter().for_each(|tag| out.extend_from_slice(&tag.0.to_be_bytes()));
            });
        }
        fits
    }

    /// Lists that have all these descriptors, as few as possible.
    pub fn split(descriptors: &[Descriptor]) -> Vec<DescriptorList> {
        let mut lists: Vec<DescriptorList> = Vec::new();
        for descriptor in descriptors {
            if !lists.last_mut().is_some_and(|list| list.push(descriptor)) {
                let mut list = DescriptorList::default();
                // A descriptor of the largest size fits in an empty list.
                list.push(descriptor);
                lists.push(list);
            }
        }
        lists
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The encoded list.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Decodes a list of descriptors.
///
/// # Errors
/// If a descriptor is malformed, or the list has another critical element.
pub fn decode_descriptors(bytes: &[u8]) -> Result<Vec<Descriptor>, DecodeError> {
    let mut reader = Reader::new(bytes);
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

/// An update from a router to a neighbour on a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The tree.
    pub tree: TreeId,
    /// Session of the sender. A larger one begins again with no descriptors.
    pub session: u64,
    /// Number of the update within its session, rising.
    pub sequence: u64,
    /// The receiver's session from its last answer; 0 before the first answer.
    pub echo: u64,
    /// Descriptors that the sender now advertises.
    pub advertised: Vec<Descriptor>,
    /// Descriptors that it no longer advertises.
    pub withdrawn: Vec<Descriptor>,
    /// Whether the sender has told all that it knows, and its other neighbours on the tree have said the same of them.
    pub is_complete: bool,
}

impl Update {
    /// Encodes an update from lists.
    pub fn encode(
        tree: TreeId,
        session: u64,
        sequence: u64,
        echo: u64,
        advertised: &DescriptorList,
        withdrawn: &DescriptorList,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(advertised.0.len() + withdrawn.0.len() + 40);
        tlv::push_nni(&mut out, tagnet::TREE, tree.0.into());
        tlv::push_nni(&mut out, types::SESSION, session);
        tlv::push_nni(&mut out, types::SEQUENCE, sequence);
        tlv::push_nni(&mut out, types::ECHO, echo);
        tlv::push_tlv(&mut out, types::ADVERTISED, advertised.bytes());
        tlv::push_tlv(&mut out, types::WITHDRAWN, withdrawn.bytes());
        out
    }

    /// Says at the end of an encoded update that the sender has told all.
    pub fn push_complete(parameters: &mut Vec<u8>) {
        tlv::push_tlv(parameters, types::COMPLETE, &[]);
    }

    /// Decodes an update.
    ///
    /// # Errors
    /// If an element is missing or malformed.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let mut require = |typ| match reader.next_tlv()? {
            Some(element) if element.typ == typ => Ok(element.value),
            _ => Err(DecodeError::Missing(typ)),
        };
        let tree = tlv::decode_nni(tagnet::TREE, require(tagnet::TREE)?)?;
        Ok(Update {
            tree: TreeId(u32::try_from(tree).map_err(|_| DecodeError::BadValue(tagnet::TREE))?),
            session: tlv::decode_nni(types::SESSION, require(types::SESSION)?)?,
            sequence: tlv::decode_nni(types::SEQUENCE, require(types::SEQUENCE)?)?,
            echo: tlv::decode_nni(types::ECHO, require(types::ECHO)?)?,
            advertised: decode_descriptors(require(types::ADVERTISED)?)?,
            withdrawn: decode_descriptors(require(types::WITHDRAWN)?)?,
            is_complete: match reader.next_tlv()? {
                Some(element) if element.typ == types::COMPLETE => true,
                Some(element) if tlv::is_critical(element.typ) => {
                    return Err(DecodeError::UnexpectedCritical(element.typ));
                }
                _ => false,
            },
        })
    }
}

/// Encodes the body of an answer to an update: the receiver's session. While it stays the same, the receiver remembers
/// earlier updates.
pub fn encode_session(session: u64) -> Vec<u8> {
    let mut out = Vec::new();
    tlv::push_nni(&mut out, types::SESSION, session);
    out
}

/// Decodes the body of an answer to an update.
///
/// # Errors
/// If the body is anything else.
pub fn decode_session(body: &[u8]) -> Result<u64, DecodeError> {
    tlv::decode_nni(types::SESSION, tlv::decode_only(body, types::SESSION)?)
}

/// Encodes the body of an answer to `tags/locators`: an address on each tree.
pub fn encode_locators(addresses: &[Address]) -> Vec<u8> {
    let mut out = Vec::new();
    tlv::push_nested(&mut out, types::LOCATORS, |out| {
        addresses.iter().for_each(|address| address.push(out, tagnet::SOURCE));
    });
    out
}

/// Decodes the body of an answer to `tags/locators`.
///
/// # Errors
/// If the body is malformed.
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

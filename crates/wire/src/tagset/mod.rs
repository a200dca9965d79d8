//! Descriptors: sets of tags, and the Bloom filters that stand for them [TagNet §2.2].
//!
//! All nodes must agree on this module, and `docs/tagset.md` specifies it with test vectors. A
//! tag's digest is the first 32 bits of its SHA-256. The digest alone determines the tag's seven
//! bits of a filter. A packet may therefore carry digests, a filter, or both, and every node can
//! compute the filter from the digests.
//!
//! Differs: in the paper each of seven hash functions chooses among all 192 bits. Our filters are
//! *partitioned*: function i chooses among bits 27 i to 27 i + 26, and three bits are never set.
//! False positives are about as frequent. In return a router can find the known tags of a filter
//! without trying all of them.
//!
//! The functions are public, so anybody can make two tags with one digest, or a filter that holds
//! every tag. The sender of such a packet only addresses other people's descriptors, which
//! everybody may do.

mod descriptor;
mod filter;

use std::fmt;

pub use descriptor::{Descriptor, DescriptorError, TAGS_MAX};
pub use filter::{FILTER_BITS, FUNCTIONS, Filter, PART_BITS};

use crate::digest::sha256;
use crate::name::NameRef;

/// A tag's representation on the wire: the first 32 bits of its SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TagDigest(pub u32);

impl TagDigest {
    /// The digest of a tag. A tag may be any bytes. Text is UTF-8; this function does not normalize
    /// it.
    pub fn of(tag: &[u8]) -> Self {
        Self::of_parts(&[tag])
    }

    /// The digest of the tag that stands for a name's component at `position`, counted from 1. The
    /// tag is the position in decimal, a colon, and the component's value: `1:org` [TagNet §2.1].
    pub fn of_component(position: usize, value: &[u8]) -> Self {
        Self::of_parts(&[position.to_string().as_bytes(), b":", value])
    }

    /// The digests of the components of a hierarchical name, as tags, first component first. The
    /// digests of a prefix are a subset of the name's, so the largest subset is the longest prefix.
    ///
    /// The paper has no component types, so they are left out: `/8=a` and `/32=a` give the same
    /// tag.
    pub fn of_name(name: NameRef<'_>) -> impl Iterator<Item = TagDigest> {
        name.components().enumerate().map(|(i, component)| Self::of_component(i + 1, component.value))
    }

    fn of_parts(parts: &[&[u8]]) -> Self {
        let [a, b, c, d, ..] = sha256(parts);
        TagDigest(u32::from_be_bytes([a, b, c, d]))
    }
}

impl fmt::Debug for TagDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TagDigest({:08x})", self.0)
    }
}

#[cfg(test)]
mod tests;

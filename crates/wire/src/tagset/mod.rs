//! Descriptors: sets of tags, and the Bloom filters that stand for them [TagNet §2.2].
//!
//! What every node must agree on, and `docs/tagset.md` specifies with vectors: a tag's digest is
//! the first 32 bits of its SHA-256, and seven bits of a filter follow from the digest alone.
//! So a packet may carry digests, a filter, or both, and a filter can always be made from digests.
//!
//! Differs: the paper's filters let each of seven hash functions choose among all 192 bits. Ours
//! are *partitioned*: function i chooses among bits 27 i to 27 i + 26, and three bits are never
//! set. A foreign tag is taken for one of a filter's own about as often, and which known tags a
//! filter holds can be found without trying them all.
//!
//! The functions are public, so that anybody can make two tags that share a digest, or a filter
//! that holds every tag: no more than addressing his packet to others' descriptors, which he may.

mod descriptor;
mod filter;

use std::fmt;

pub use descriptor::{Descriptor, DescriptorError, TAGS_MAX};
pub use filter::{FILTER_BITS, FUNCTIONS, Filter, PART_BITS};

use crate::digest::sha256;
use crate::name::NameRef;

/// What stands for a tag on the wire: the first 32 bits of its SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TagDigest(pub u32);

impl TagDigest {
    /// The digest of a tag, any octets; text is UTF-8, and not normalized here.
    pub fn of(tag: &[u8]) -> Self {
        Self::of_parts(&[tag])
    }

    /// The digest of the tag that stands for a name's component at `position`, counted from 1:
    /// the position in decimal, a colon, the component's value, as in `1:org` [TagNet §2.1].
    pub fn of_component(position: usize, value: &[u8]) -> Self {
        Self::of_parts(&[position.to_string().as_bytes(), b":", value])
    }

    /// The digests of a hierarchical name's components, as tags, from the first on. A prefix's
    /// are a subset of the name's, so that the largest subset is the longest prefix.
    ///
    /// Components' types are left out, as the paper has none: `/8=a` and `/32=a` are one.
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

//! A set of tags.

use thiserror::Error;

use super::{Filter, TagDigest};
use crate::name::NameRef;

/// Maximum number of tags of a descriptor, on the wire and in tables.
pub const TAGS_MAX: usize = 32;

/// Tags that do not form a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DescriptorError {
    /// More tags than [`TAGS_MAX`].
    #[error("a descriptor has at most {TAGS_MAX} tags")]
    TooManyTags,
}

/// A set of tags, stored as their digests. The empty set is a valid descriptor, and a subset of
/// every other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Descriptor {
    /// Ascending and distinct.
    tags: Box<[TagDigest]>,
}

impl Descriptor {
    /// The descriptor of these tags, in any order. A repeated tag counts once.
    ///
    /// ```
    /// use byname_wire::tagset::Descriptor;
    /// let advertised = Descriptor::of(["concert", "classical"]).unwrap();
    /// let asked = Descriptor::of(["classical", "Beethoven", "ninth", "concert"]).unwrap();
    /// assert!(advertised.is_subset(&asked));
    /// ```
    ///
    /// # Errors
    /// If there are more than [`TAGS_MAX`].
    pub fn of<T: AsRef<[u8]>>(tags: impl IntoIterator<Item = T>) -> Result<Self, DescriptorError> {
        Self::from_digests(tags.into_iter().map(|tag| TagDigest::of(tag.as_ref())))
    }

    /// The descriptor that a hierarchical name stands for [TagNet §2.1].
    ///
    /// # Errors
    /// If it has more than [`TAGS_MAX`] components.
    pub fn of_name(name: NameRef<'_>) -> Result<Self, DescriptorError> {
        Self::from_digests(TagDigest::of_name(name))
    }

    /// The descriptor of the tags with these digests, in any order. A repeated digest counts once.
    ///
    /// # Errors
    /// If there are more than [`TAGS_MAX`].
    pub fn from_digests(digests: impl IntoIterator<Item = TagDigest>) -> Result<Self, DescriptorError> {
        // Keep at most the limit, so that a sender of more causes an error and no large allocation.
        let mut tags = Vec::new();
        for digest in digests {
            if let Err(place) = tags.binary_search(&digest) {
                if tags.len() == TAGS_MAX {
                    return Err(DescriptorError::TooManyTags);
                }
                tags.insert(place, digest);
            }
        }
        Ok(Descriptor { tags: tags.into() })
    }

    /// The tags' digests, ascending and distinct.
    pub fn tags(&self) -> &[TagDigest] {
        &self.tags
    }

    /// The filter that stands for the set.
    pub fn filter(&self) -> Filter {
        Filter::of(&self.tags)
    }

    /// Whether `other` has every tag of this descriptor.
    pub fn is_subset(&self, other: &Descriptor) -> bool {
        is_subset(&self.tags, &other.tags)
    }
}

/// Whether `large` has every element of `small`. Both ascend.
pub(super) fn is_subset(small: &[TagDigest], large: &[TagDigest]) -> bool {
    let mut large = large.iter();
    small.iter().all(|tag| large.by_ref().any(|other| other == tag))
}

//! Sets of tags as keys [TagNet §2.1].
//!
//! A set has one spelling: its tags in the order of their bytes, each once, as components of a URI. Routers know a set by the
//! digests of its tags. Two sets can have the same digests, and are one to routers then.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use byname_wire::name::component_type;
use byname_wire::tagset::TAGS_MAX;
use byname_wire::{Component, Descriptor, Name, NameRef};
use thiserror::Error;

/// Longest tag, in bytes.
pub const TAG_BYTES_MAX: usize = 255;
/// Longest spelling of a set, in bytes.
pub const SET_BYTES_MAX: usize = 4_096;

/// A set of tags. Packets have it if their tags include all of these.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TagSet {
    tags: BTreeSet<String>,
}

/// Tags that are no set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadTags {
    /// There are none, or too many.
    #[error("a set has 1 to {TAGS_MAX} tags, not {0}")]
    Count(usize),
    /// A tag is empty or too long.
    #[error("a tag has 1 to {TAG_BYTES_MAX} bytes, not {0}")]
    Tag(usize),
    /// A tag has a character that no line can have.
    #[error("a tag has no control characters")]
    Control,
    /// All tags together are too long.
    #[error("a set has at most {SET_BYTES_MAX} bytes, as a URI, not {0}")]
    Long(usize),
    /// It is written in another way.
    #[error("the tags are not in their order, as components of a URI in the usual form")]
    Spelling,
}

impl TagSet {
    /// A set of these tags, in any order. A repeated tag counts once.
    ///
    /// # Errors
    /// They are too many or too long, or not text that fits in a line.
    pub fn new(tags: impl IntoIterator<Item = String>) -> Result<Self, BadTags> {
        let tags: BTreeSet<String> = tags.into_iter().collect();
        if tags.is_empty() || tags.len() > TAGS_MAX {
            return Err(BadTags::Count(tags.len()));
        }
        if let Some(tag) = tags.iter().find(|tag| tag.is_empty() || tag.len() > TAG_BYTES_MAX) {
            return Err(BadTags::Tag(tag.len()));
        }
        if tags.iter().any(|tag| tag.contains(char::is_control)) {
            return Err(BadTags::Control);
        }
        let set = TagSet { tags };
        match set.to_string().len() {
            0..=SET_BYTES_MAX => Ok(set),
            long => Err(BadTags::Long(long)),
        }
    }

    /// The set whose tags are the components of a name, in any order.
    ///
    /// # Errors
    /// As [`TagSet::new`], and for components that are no text or have a type of their own.
    pub fn of_components(name: NameRef<'_>) -> Result<Self, BadTags> {
        let tag = |component: Component<'_>| match component.typ {
            component_type::GENERIC => String::from_utf8(component.value.to_vec()).ok(),
            _ => None,
        };
        let tags: Option<Vec<String>> = name.components().map(tag).collect();
        TagSet::new(tags.ok_or(BadTags::Spelling)?)
    }

    /// A name whose components are the tags, in their order.
    pub fn to_name(&self) -> Name {
        Name::from_components(self.tags().map(|tag| Component::generic(tag.as_bytes())))
    }

    /// The tags, in their order.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.tags.iter().map(String::as_str)
    }

    /// How routers know it.
    pub fn descriptor(&self) -> Descriptor {
        Descriptor::of(&self.tags).expect("a set has at most TAGS_MAX tags")
    }
}

impl fmt::Display for TagSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tags.iter().try_for_each(|tag| write!(f, "/{}", Component::generic(tag.as_bytes())))
    }
}

/// Accepts one spelling only, so that no set has two keys.
impl FromStr for TagSet {
    type Err = BadTags;

    fn from_str(uri: &str) -> Result<Self, BadTags> {
        if uri.len() > SET_BYTES_MAX {
            return Err(BadTags::Long(uri.len()));
        }
        let name: Name = uri.parse().map_err(|_| BadTags::Spelling)?;
        let set = TagSet::of_components(name.as_ref())?;
        if set.to_string() == uri { Ok(set) } else { Err(BadTags::Spelling) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(tags: &[&str]) -> Result<TagSet, BadTags> {
        TagSet::new(tags.iter().map(|tag| (*tag).to_owned()))
    }

    #[test]
    fn a_set_has_one_spelling() {
        let concert = set(&["concert", "classical", "concert"]).unwrap();
        assert_eq!(concert.to_string(), "/classical/concert");
        assert_eq!(concert.descriptor(), Descriptor::of(["concert", "classical"]).unwrap());
        for tags in [&["a"][..], &["a,b c", "ä", "/", "%", ".", "..", "32=x"]] {
            let set = set(tags).unwrap();
            assert_eq!(set.to_string().parse(), Ok(set));
        }
        for other in ["/b/a", "/a/a", "a", "/a/", "//a", "/%61", "/32=a", "/v=1", "/%FF", "/ä"] {
            assert_eq!(other.parse::<TagSet>(), Err(BadTags::Spelling), "{other}");
        }
    }

    #[test]
    fn sets_that_are_too_large_are_refused() {
        let many: Vec<String> = (0..40).map(|tag| format!("{tag}")).collect();
        assert_eq!(TagSet::new(many.clone()), Err(BadTags::Count(40)));
        assert_eq!(TagSet::new(many[..TAGS_MAX].to_vec()).map(|set| set.tags().count()), Ok(TAGS_MAX));
        assert_eq!((set(&[]), "/".parse::<TagSet>()), (Err(BadTags::Count(0)), Err(BadTags::Count(0))));
        assert_eq!(set(&["a", ""]), Err(BadTags::Tag(0)));
        assert_eq!("/...".parse::<TagSet>(), Err(BadTags::Tag(0)));
        assert_eq!(set(&[&"a".repeat(256)]), Err(BadTags::Tag(256)));
        assert_eq!((set(&["a\nb"]), "/%00".parse::<TagSet>()), (Err(BadTags::Control), Err(BadTags::Control)));
        let long = (0..20).map(|tag| format!("{tag:0255}"));
        assert_eq!(TagSet::new(long), Err(BadTags::Long(20 * 256)));
        assert_eq!("/".repeat(5_000).parse::<TagSet>(), Err(BadTags::Long(5_000)));
    }
}

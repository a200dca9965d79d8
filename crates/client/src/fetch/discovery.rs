//! Version discovery: finds the segments of the object whose name the user typed.
//!
//! The first attempt asks for RDR metadata (`<name>/32=metadata`), as ndn-cxx's catchunks, NDNts and ndnd publish it.
//! The second one is an Interest that Data with longer names may answer.

use std::time::Duration;

use byname_wire::interest::InterestBuilder;
use byname_wire::name::component_type;
use byname_wire::tlv::{Reader, types};
use byname_wire::{Component, Data, DecodeError, Name, NameRef};

use crate::clock::as_ms;
use crate::link::DataPacket;

/// Value of the keyword component of metadata names.
pub const METADATA_KEYWORD: &[u8] = b"metadata";

/// Ways to find the version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Discovery {
    /// Metadata first, then prefix.
    #[default]
    Auto,
    /// RDR metadata only.
    Rdr,
    /// An Interest with CanBePrefix only.
    Prefix,
    /// No discovery: the segments are under the given name.
    None,
}

impl Discovery {
    /// All ways.
    pub const ALL: [Discovery; 4] = [Discovery::Auto, Discovery::Rdr, Discovery::Prefix, Discovery::None];

    /// The word for it in options.
    pub fn word(self) -> &'static str {
        match self {
            Discovery::Auto => "auto",
            Discovery::Rdr => "rdr",
            Discovery::Prefix => "prefix",
            Discovery::None => "none",
        }
    }

    /// What it does, in a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Discovery::Auto => "Metadata first, then prefix",
            Discovery::Rdr => "RDR metadata only",
            Discovery::Prefix => "An Interest with CanBePrefix only",
            Discovery::None => "No discovery: the segments are under the given name",
        }
    }
}

/// The object to fetch.
#[derive(Debug)]
pub enum Object {
    /// Segments under this name, from number 0.
    Segmented(Name),
    /// A single packet, which has already arrived.
    Single(DataPacket),
}

impl Object {
    /// The name, with the version if it has one.
    pub fn name(&self) -> Name {
        match self {
            Object::Segmented(name) => name.clone(),
            Object::Single(packet) => packet.data().name.to_name(),
        }
    }
}

/// A question that may find the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    Metadata,
    Prefix,
    /// The name is that of one packet.
    Exact,
}

/// The questions to ask for `name`, one after the other. If there is none, the segments are under `name` itself.
pub(crate) fn questions(name: NameRef<'_>, how: Discovery) -> &'static [Question] {
    let last = name.component(-1).map(|component| component.typ);
    let is_exact = matches!(last, Some(component_type::SEGMENT | component_type::IMPLICIT_SHA256_DIGEST));
    match how {
        Discovery::None => &[],
        Discovery::Auto if is_exact => &[Question::Exact],
        Discovery::Auto if last == Some(component_type::VERSION) => &[],
        Discovery::Auto => &[Question::Metadata, Question::Prefix],
        Discovery::Rdr => &[Question::Metadata],
        Discovery::Prefix => &[Question::Prefix],
    }
}

impl Question {
    /// The Interest that asks for `name`.
    pub fn interest(self, name: &Name, lifetime: Duration) -> InterestBuilder {
        let (name, is_prefix) = match self {
            Question::Metadata => (metadata_name(name), true),
            Question::Prefix => (name.clone(), true),
            Question::Exact => (name.clone(), false),
        };
        let interest = InterestBuilder::new(name, rand::random()).can_be_prefix(is_prefix).must_be_fresh(is_prefix);
        interest.lifetime_ms(as_ms(lifetime))
    }

    /// The object that an answer describes.
    ///
    /// # Errors
    /// The content of metadata is malformed.
    pub fn object(self, name: &Name, answer: DataPacket) -> Result<Object, DecodeError> {
        if self == Question::Metadata {
            return versioned_name(answer.data().content).map(Object::Segmented);
        }
        Ok(match segments_of(&answer.data(), name.as_ref()) {
            Some(object) => Object::Segmented(object),
            None => Object::Single(answer),
        })
    }
}

/// Name of the metadata of `name`.
pub fn metadata_name(name: &Name) -> Name {
    name.join(Component { typ: component_type::KEYWORD, value: METADATA_KEYWORD })
}

/// Returns the first Name element in the content of a metadata packet.
fn versioned_name(content: &[u8]) -> Result<Name, DecodeError> {
    let mut reader = Reader::new(content);
    while let Some(element) = reader.next_tlv()? {
        if element.typ == types::NAME {
            return Ok(NameRef::new(element.value)?.to_name());
        }
    }
    Err(DecodeError::Missing(types::NAME))
}

/// Returns the common name of all segments, if `data`, the answer to an Interest for `name`, is a segment.
fn segments_of(data: &Data<'_>, name: NameRef<'_>) -> Option<Name> {
    let is_segment = data.name.component(-1)?.typ == component_type::SEGMENT && data.name.len() > name.len();
    is_segment.then(|| data.name.prefix(data.name.len() - 1).to_name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use byname_wire::data::DataBuilder;

    #[test]
    fn metadata_holds_the_first_name() {
        let name: Name = "/a/v=7".parse().unwrap();
        let mut content = vec![0xf0, 0x01, 0x00];
        byname_wire::tlv::push_tlv(&mut content, types::NAME, name.value());
        assert_eq!(versioned_name(&content).unwrap(), name);
        assert!(versioned_name(&[]).is_err());
        assert!(versioned_name(&[0x07, 0x05, 0x08]).is_err());
        assert_eq!(metadata_name(&"/a".parse().unwrap()).to_string(), "/a/32=metadata");
    }

    #[test]
    fn asks_only_when_the_version_is_missing() {
        let asked = |name: &str, how| questions(name.parse::<Name>().unwrap().as_ref(), how);
        assert_eq!(asked("/a", Discovery::Auto), [Question::Metadata, Question::Prefix]);
        assert_eq!(asked("/a/v=1", Discovery::Auto), []);
        assert_eq!(asked("/a/v=1", Discovery::Rdr), [Question::Metadata]);
        assert_eq!(asked("/a/v=1/seg=4", Discovery::Auto), [Question::Exact]);
        assert_eq!(asked("/a", Discovery::None), []);
    }

    #[test]
    fn tells_segments_from_single_packets() {
        let segments = |data: &str, asked: &str| {
            let wire = DataBuilder::new(data.parse().unwrap()).encode();
            let asked: Name = asked.parse().unwrap();
            segments_of(&Data::decode(&wire).unwrap(), asked.as_ref()).map(|name| name.to_string())
        };
        assert_eq!(segments("/a/v=1/seg=0", "/a").as_deref(), Some("/a/v=1"));
        assert_eq!(segments("/a/seg=3", "/a").as_deref(), Some("/a"));
        assert_eq!(segments("/a/b", "/a"), None);
        assert_eq!(segments("/a/seg=0", "/a/seg=0"), None);
    }
}

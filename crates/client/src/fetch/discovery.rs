//! Version discovery: finds the segments of the object whose name the user typed.
//!
//! The first attempt asks for RDR metadata (`<name>/32=metadata`), as ndn-cxx's catchunks, NDNts and ndnd publish it.
//! The second one is an Interest that Data with longer names may answer.

use std::time::Duration;

use byname_wire::interest::InterestBuilder;
use byname_wire::name::component_type;
use byname_wire::tlv::{Reader, types};
use byname_wire::{Component, Data, Name, NameRef};

use crate::link::{DataPacket, ExchangeError, Link};

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

/// Finds the object that `name` stands for.
pub fn discover(client: &mut Link, name: &Name, how: Discovery, lifetime: Duration) -> Result<Object, ExchangeError> {
    let last = name.as_ref().component(-1).map(|component| component.typ);
    let is_exact = matches!(last, Some(component_type::SEGMENT | component_type::IMPLICIT_SHA256_DIGEST));
    if is_exact && how == Discovery::Auto {
        return by_prefix(client, name, lifetime, false);
    }
    match how {
        Discovery::None => Ok(Object::Segmented(name.clone())),
        Discovery::Auto if last == Some(component_type::VERSION) => Ok(Object::Segmented(name.clone())),
        Discovery::Rdr => by_metadata(client, name, lifetime),
        Discovery::Prefix => by_prefix(client, name, lifetime, true),
        Discovery::Auto => match by_metadata(client, name, lifetime) {
            Err(ExchangeError::Timeout { .. } | ExchangeError::Nack { .. } | ExchangeError::Malformed { .. }) => {
                by_prefix(client, name, lifetime, true)
            }
            other => other,
        },
    }
}

/// Name of the metadata of `name`.
pub fn metadata_name(name: &Name) -> Name {
    name.join(Component { typ: component_type::KEYWORD, value: METADATA_KEYWORD })
}

fn by_metadata(client: &mut Link, name: &Name, lifetime: Duration) -> Result<Object, ExchangeError> {
    let interest = InterestBuilder::new(metadata_name(name), rand::random())
        .can_be_prefix(true)
        .must_be_fresh(true)
        .lifetime_ms(lifetime.as_millis() as u64)
        .encode();
    let answer = client.exchange(&interest, 2)?;
    let data = answer.data();
    match versioned_name(data.content) {
        Ok(versioned) => Ok(Object::Segmented(versioned)),
        Err(error) => Err(ExchangeError::Malformed { name: data.name.to_name(), error }),
    }
}

/// Returns the first Name element in the content of a metadata packet.
fn versioned_name(content: &[u8]) -> Result<Name, byname_wire::DecodeError> {
    let mut reader = Reader::new(content);
    while let Some(element) = reader.next_tlv()? {
        if element.typ == types::NAME {
            return Ok(NameRef::new(element.value)?.to_name());
        }
    }
    Err(byname_wire::DecodeError::Missing(types::NAME))
}

fn by_prefix(client: &mut Link, name: &Name, lifetime: Duration, prefix: bool) -> Result<Object, ExchangeError> {
    let interest = InterestBuilder::new(name.clone(), rand::random())
        .can_be_prefix(prefix)
        .must_be_fresh(prefix)
        .lifetime_ms(lifetime.as_millis() as u64)
        .encode();
    let answer = client.exchange(&interest, 2)?;
    match segments_of(&answer.data(), name.as_ref()) {
        Some(object) => Ok(Object::Segmented(object)),
        None => Ok(Object::Single(answer)),
    }
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

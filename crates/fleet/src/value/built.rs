//! Values about tables that a builder makes files of.

use std::borrow::Cow;
use std::collections::HashSet;

use byname_lookup::file::secret::{SECRET_BYTES, Secret};
use byname_wire::name::component_type;
use byname_wire::{Name, NameRef};
use serde::{Deserialize, Serialize};

use super::{BadValue, Route, TableKind, Value};
use crate::label::Label;
use crate::table::Digest;
use crate::table::content::State;
use crate::tags::{BadTags, TagSet};

/// Most bits of a flat name's checksum.
pub const CHECK_BITS_MAX: u32 = 16;

/// What belongs to a table of flat names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlatNames {
    /// The names are the component after this prefix, which is a URI.
    pub prefix: String,
    /// Bits of each name's checksum: an unknown name passes as known with odds of 2^-bits. 0: always.
    pub check_bits: u32,
}

impl FlatNames {
    /// The prefix.
    ///
    /// # Errors
    /// It is no name.
    pub fn prefix(&self) -> Result<Name, BadValue> {
        let name = self.prefix.parse::<Name>().ok().filter(|name| name.to_string() == self.prefix);
        name.ok_or_else(|| BadValue::Row(format!("{:?} is no prefix of flat names", self.prefix)))
    }

    pub(super) fn check(&self) -> Result<(), BadValue> {
        if self.check_bits > CHECK_BITS_MAX {
            return Err(BadValue::Row(format!(
                "a checksum has at most {CHECK_BITS_MAX} bits, not {}",
                self.check_bits
            )));
        }
        self.prefix().map(drop)
    }
}

/// A file that is a few lines away from the one before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FromBefore {
    /// Name of the list of the earlier file's blocks.
    #[serde(with = "super::digest_text")]
    pub blocks: Digest,
    /// Name of the patch that leads from there to this file.
    #[serde(with = "super::digest_text")]
    pub patch: Digest,
}

/// `want/built/TABLE`: the file that a builder has made of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuiltHead {
    /// What the file has: not [`TableKind::Routes`].
    pub kind: TableKind,
    /// What belongs to flat names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flat: Option<FlatNames>,
    /// Epoch of the table's state that the file was made of.
    pub epoch: u64,
    /// Number of the last delta that the file has.
    pub sequence: u64,
    /// Stands for that state.
    #[serde(with = "super::digest_text")]
    pub state: Digest,
    /// Name of the list of the file's blocks.
    #[serde(with = "super::digest_text")]
    pub blocks: Digest,
    /// What differs from the file before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<FromBefore>,
    /// Length of the file, in bytes.
    pub bytes: u64,
    /// Rules or names in it.
    pub rows: u64,
    /// What the blocks do not have.
    #[serde(with = "secret_text")]
    pub secret: Secret,
}

impl BuiltHead {
    /// The state of the table that the file stands for.
    pub fn state(&self) -> State {
        State { epoch: self.epoch, sequence: self.sequence, digest: self.state }
    }

    /// The name of the file. Another file has another name.
    pub fn file_name(&self, table: &Label) -> String {
        self.file_name_of(table, self.blocks, &self.secret)
    }

    /// The name of another file of this kind.
    pub fn file_name_of(&self, table: &Label, blocks: Digest, secret: &Secret) -> String {
        let digest = byname_wire::digest::sha256(&[&blocks.0, secret.bytes()]);
        let digits: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let end = match self.kind {
            TableKind::Flat => "flat",
            TableKind::Tags => "tags",
            TableKind::Routes | TableKind::Built => "table",
        };
        format!("{table}-{digits}.{end}")
    }
}

impl Value for BuiltHead {
    fn check(&self) -> Result<(), BadValue> {
        check_kind(self.kind, self.flat.as_ref())?;
        match self.kind {
            TableKind::Routes => Err(BadValue::Row("nobody builds files of tables of this kind".to_owned())),
            TableKind::Built | TableKind::Flat | TableKind::Tags => Ok(()),
        }
    }
}

/// The key of the builder that leads. Later versions may say more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuilderReport {
    /// Who it is, for people.
    pub by: String,
    /// Why a table is not built.
    #[serde(default)]
    pub waits: Option<String>,
}

impl Value for BuilderReport {}

/// What a table is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableForm {
    /// What its rows are.
    pub kind: TableKind,
    /// What belongs to flat names.
    pub flat: Option<FlatNames>,
}

impl TableForm {
    /// Rules that routers have as routes.
    pub fn routes() -> Self {
        TableForm { kind: TableKind::Routes, flat: None }
    }

    /// Whether both are of flat names with the same prefix.
    pub fn same_prefix(&self, other: Option<&FlatNames>) -> bool {
        self.flat.as_ref().zip(other).is_some_and(|(one, other)| one.prefix == other.prefix)
    }

    /// The key of a row that is written with this name. Tags may be in any order there.
    ///
    /// # Errors
    /// They are no set of tags.
    pub fn key<'n>(&self, name: NameRef<'n>) -> Result<Cow<'n, [u8]>, BadValue> {
        match self.kind {
            TableKind::Tags => {
                let set = TagSet::of_components(name).map_err(|error| BadValue::Row(error.to_string()))?;
                Ok(set.to_name().value().to_vec().into())
            }
            TableKind::Routes | TableKind::Built | TableKind::Flat => Ok(Cow::Borrowed(name.value())),
        }
    }

    /// Reads rows, one after the other.
    ///
    /// # Errors
    /// The kind and the prefix contradict each other.
    pub fn check(&self) -> Result<RowCheck, BadValue> {
        check_kind(self.kind, self.flat.as_ref())?;
        Ok(RowCheck { kind: self.kind, known: HashSet::new() })
    }
}

/// Says which rows a table may have.
#[derive(Debug)]
pub struct RowCheck {
    kind: TableKind,
    /// Values that are good. There are few different ones.
    known: HashSet<Box<[u8]>>,
}

impl RowCheck {
    /// Reads a row.
    ///
    /// # Errors
    /// The key is no name, or the value no route, or the table cannot have such a row.
    pub fn row(&mut self, key: &[u8], value: &[u8]) -> Result<(), BadValue> {
        match self.kind {
            TableKind::Flat => drop(flat_name(key)?),
            TableKind::Tags => drop(tag_set(key)?),
            TableKind::Routes | TableKind::Built => {
                NameRef::new(key).map_err(|error| BadValue::Row(error.to_string()))?;
            }
        }
        if self.known.contains(value) {
            return Ok(());
        }
        let route = Route::decode(value)?;
        if self.kind != TableKind::Routes && (!route.inherit || route.capture) {
            let text = "rules of a built table forward as their groups do: leave --no-inherit and --capture out";
            return Err(BadValue::Row(text.to_owned()));
        }
        self.known.insert(value.into());
        Ok(())
    }
}

/// Whether a table of this kind has what belongs to it, and nothing else.
pub(super) fn check_kind(kind: TableKind, flat: Option<&FlatNames>) -> Result<(), BadValue> {
    match (kind, flat) {
        (TableKind::Flat, Some(flat)) => flat.check(),
        (TableKind::Routes | TableKind::Built | TableKind::Tags, None) => Ok(()),
        (TableKind::Flat, None) => Err(BadValue::Row("the prefix of its flat names is missing".to_owned())),
        (_, Some(_)) => Err(BadValue::Row("it has a prefix of flat names, and is no table of these".to_owned())),
    }
}

/// The flat name of a row: its key is a name of one generic component.
///
/// # Errors
/// It is another one.
pub fn flat_name(key: &[u8]) -> Result<&[u8], BadValue> {
    let name = NameRef::new(key).map_err(|error| BadValue::Row(error.to_string()))?;
    let component = name.component(0).filter(|component| name.len() == 1 && component.typ == component_type::GENERIC);
    component.map(|component| component.value).ok_or_else(|| BadValue::Row("a flat name is one component".to_owned()))
}

/// The set of tags of a row.
///
/// # Errors
/// Its key is no set, or not in the order that keys have.
pub fn tag_set(key: &[u8]) -> Result<TagSet, BadValue> {
    let bad = |error: &dyn std::fmt::Display| BadValue::Row(error.to_string());
    let name = NameRef::new(key).map_err(|error| bad(&error))?;
    let set = TagSet::of_components(name).map_err(|error| bad(&error))?;
    if *set.to_name().value() == *key { Ok(set) } else { Err(bad(&BadTags::Spelling)) }
}

/// Secrets as text.
mod secret_text {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use super::{SECRET_BYTES, Secret};

    pub fn serialize<S: Serializer>(secret: &Secret, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&secret.bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        let text = String::deserialize(from)?;
        let bad = || de::Error::custom(format!("a secret has {} hexadecimal digits", 2 * SECRET_BYTES));
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(bad()) };
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let bytes =
            pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect::<Option<Vec<u8>>>();
        let bytes = bytes.and_then(|bytes| <[u8; SECRET_BYTES]>::try_from(bytes).ok());
        bytes.map(Secret::new).ok_or_else(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> BuiltHead {
        BuiltHead {
            kind: TableKind::Flat,
            flat: Some(FlatNames { prefix: "/objects".to_owned(), check_bits: 8 }),
            epoch: 3,
            sequence: 7,
            state: Digest::of(b"state"),
            blocks: Digest::of(b"blocks"),
            patch: Some(FromBefore { blocks: Digest::of(b"earlier"), patch: Digest::of(b"patch") }),
            bytes: 4_096,
            rows: 5,
            secret: Secret::new(*b"0123456789abcdefABCD\xff\x00\x80\x7f"),
        }
    }

    #[test]
    fn heads_come_back_as_they_were_and_wrong_ones_are_refused() {
        let head = head();
        assert_eq!(BuiltHead::decode(&head.encode()).as_ref(), Ok(&head));
        let plain = BuiltHead { kind: TableKind::Built, flat: None, patch: None, ..head.clone() };
        assert_eq!(BuiltHead::decode(&plain.encode()).as_ref(), Ok(&plain));
        let flat = |prefix: &str, check_bits| Some(FlatNames { prefix: prefix.to_owned(), check_bits });
        for wrong in [
            BuiltHead { kind: TableKind::Routes, flat: None, ..head.clone() },
            BuiltHead { kind: TableKind::Built, ..head.clone() },
            BuiltHead { flat: None, ..head.clone() },
            BuiltHead { flat: flat("objects", 8), ..head.clone() },
            BuiltHead { flat: flat("/objects/", 8), ..head.clone() },
            BuiltHead { flat: flat("/objects", 17), ..head.clone() },
        ] {
            assert!(matches!(BuiltHead::decode(&wrong.encode()), Err(BadValue::Row(_))), "{wrong:?}");
        }
        let text = String::from_utf8(plain.encode()).unwrap();
        for (from, to) in [("303132", "3031"), ("303132", "30313g"), ("303132", "30313132")] {
            assert!(matches!(BuiltHead::decode(text.replace(from, to).as_bytes()), Err(BadValue::Json(_))), "{to}");
        }
    }

    #[test]
    fn another_file_has_another_name() {
        let (table, one) = ("world".parse().unwrap(), head());
        let others = [
            BuiltHead { blocks: Digest::of(b"others"), ..one.clone() },
            BuiltHead { secret: Secret::new([0; SECRET_BYTES]), ..one.clone() },
            BuiltHead { kind: TableKind::Built, flat: None, ..one.clone() },
        ];
        for other in &others {
            assert_ne!(other.file_name(&table), one.file_name(&table));
        }
        assert!(one.file_name(&table).starts_with("world-") && one.file_name(&table).ends_with(".flat"));
        assert!(others[2].file_name(&table).ends_with(".table"));
    }

    #[test]
    fn rows_of_tags_have_one_key() {
        let form = TableForm { kind: TableKind::Tags, flat: None };
        let leads = |capture| Route { group: "west".parse().unwrap(), inherit: true, capture }.encode();
        let route = &leads(false);
        let name = |uri: &str| uri.parse::<Name>().unwrap();
        let mut check = form.check().unwrap();
        for uri in ["/a/b", "/b/a", "/b/a/b"] {
            let written = name(uri);
            let key = form.key(written.as_ref()).unwrap();
            assert_eq!(*key, *name("/a/b").value());
            assert_eq!((check.row(&key, route), tag_set(&key)), (Ok(()), Ok("/a/b".parse().unwrap())));
        }
        // Longer components come later in the order of names, and tags are in the order of their bytes.
        assert_eq!(*form.key(name("/z/aa").as_ref()).unwrap(), *name("/aa/z").value());
        for other in ["/", "/b/a", "/a/a", "/32=a", "/%FF"] {
            assert!(matches!(check.row(name(other).value(), route), Err(BadValue::Row(_))), "{other}");
        }
        for other in ["/", "/32=a", "/%FF", "/%00"] {
            assert!(form.key(name(other).as_ref()).is_err(), "{other}");
        }
        assert!(check.row(name("/a").value(), &leads(true)).is_err());
        let built = BuiltHead { kind: TableKind::Tags, flat: None, ..head() };
        assert_eq!(BuiltHead::decode(&built.encode()).as_ref(), Ok(&built));
        assert!(BuiltHead::decode(&BuiltHead { flat: head().flat, ..built.clone() }.encode()).is_err());
        assert!(built.file_name(&"world".parse().unwrap()).ends_with(".tags"));
    }

    #[test]
    fn flat_names_are_one_generic_component() {
        let value = |uri: &str| uri.parse::<Name>().unwrap();
        assert_eq!(flat_name(value("/report.pdf").value()), Ok(&b"report.pdf"[..]));
        for other in ["/", "/a/b", "/32=a"] {
            assert!(flat_name(value(other).value()).is_err(), "{other}");
        }
        assert!(flat_name(b"\x08").is_err());
    }
}

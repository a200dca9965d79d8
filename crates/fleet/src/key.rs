//! Keys of a fleet in etcd.
//!
//! All keys of one fleet begin with `/byname/FLEET/`. Those below `want/` are the intent, which agents watch. Others are
//! apart, so that reports of agents do not wake all agents.

use std::fmt;

use byname_wire::Name;
use thiserror::Error;

use crate::label::{BadLabel, Label};
use crate::tags::{BadTags, TagSet};

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 9_000;

/// Where the keys of one fleet are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    prefix: String,
}

/// A key of the intent, which is below `want/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Written with every change.
    Head,
    /// Up to which revision routes may be removed.
    Settled,
    /// Address of a link, as this node reaches it.
    Link {
        /// The node.
        node: Label,
        /// The link.
        link: Label,
    },
    /// Exists while this link has failed.
    Down {
        /// The node.
        node: Label,
        /// The link.
        link: Label,
    },
    /// Links of a group at a node.
    Group {
        /// The group.
        group: Label,
        /// The node.
        node: Label,
    },
    /// Group of a prefix.
    Route(Name),
    /// Strategy of a prefix.
    Strategy(Name),
    /// Group of packets with these tags.
    Tags(TagSet),
    /// Rules of routing, at this node or at all nodes.
    Policy(Option<Label>),
    /// Which state a table has.
    Table(Label),
    /// Changes of a table.
    Delta {
        /// The table.
        table: Label,
        /// Number of the delta, from 1.
        sequence: u64,
    },
    /// The file that a builder has made of a table.
    Built(Label),
}

/// A key that is not of the intent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadKey {
    /// It is too long.
    #[error("the key has {0} bytes, more than {KEY_BYTES_MAX}")]
    Long(usize),
    /// It is not text.
    #[error("the key is not UTF-8")]
    NotText,
    /// There are no such keys.
    #[error("there are no keys of this kind")]
    Unknown,
    /// A node, link or group has another name.
    #[error(transparent)]
    Label(#[from] BadLabel),
    /// The prefix is not the URI of a name, or not as byname would write it.
    #[error("the prefix is not the URI of a name in the usual form")]
    Prefix,
    /// The tags are no set, or not as byname would write it.
    #[error(transparent)]
    Tags(#[from] BadTags),
}

impl Space {
    /// The keys of this fleet.
    pub fn new(fleet: &Label) -> Self {
        Space { prefix: format!("/byname/{fleet}/") }
    }

    /// What all keys of the intent begin with.
    pub fn want(&self) -> Vec<u8> {
        format!("{}want/", self.prefix).into_bytes()
    }

    /// A key of the intent.
    pub fn key(&self, key: &Key) -> Vec<u8> {
        format!("{}want/{key}", self.prefix).into_bytes()
    }

    /// The key that only one writer has.
    pub fn leader(&self) -> Vec<u8> {
        format!("{}leader", self.prefix).into_bytes()
    }

    /// The key that only one builder has.
    pub fn builder(&self) -> Vec<u8> {
        format!("{}builder", self.prefix).into_bytes()
    }

    /// What the keys of all nodes begin with.
    pub fn nodes(&self) -> Vec<u8> {
        format!("{}nodes/", self.prefix).into_bytes()
    }

    /// What the agent of this node reports.
    pub fn node(&self, node: &Label) -> Vec<u8> {
        format!("{}nodes/{node}", self.prefix).into_bytes()
    }

    /// The node whose report this is.
    ///
    /// # Errors
    /// It is no such key.
    pub fn node_of(&self, key: &[u8]) -> Result<Label, BadKey> {
        let text = std::str::from_utf8(key).map_err(|_| BadKey::NotText)?;
        let label = text.strip_prefix(&self.prefix).and_then(|rest| rest.strip_prefix("nodes/"));
        Ok(label.ok_or(BadKey::Unknown)?.parse()?)
    }

    /// Reads a key of the intent.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(&self, key: &[u8]) -> Result<Key, BadKey> {
        if key.len() > KEY_BYTES_MAX {
            return Err(BadKey::Long(key.len()));
        }
        let text = std::str::from_utf8(key).map_err(|_| BadKey::NotText)?;
        let rest = text.strip_prefix(&self.prefix).and_then(|rest| rest.strip_prefix("want/"));
        let rest = rest.ok_or(BadKey::Unknown)?;
        let (kind, of) = rest.split_once('/').unwrap_or((rest, ""));
        let two = || -> Result<(Label, Label), BadKey> {
            let (first, second) = of.split_once('/').ok_or(BadKey::Unknown)?;
            Ok((first.parse()?, second.parse()?))
        };
        match (kind, of) {
            _ if rest == "head" => Ok(Key::Head),
            _ if rest == "settled" => Ok(Key::Settled),
            _ if rest == "policy" => Ok(Key::Policy(None)),
            ("policies", _) => Ok(Key::Policy(Some(of.parse()?))),
            ("links", _) => two().map(|(node, link)| Key::Link { node, link }),
            ("down", _) => two().map(|(node, link)| Key::Down { node, link }),
            ("groups", _) => two().map(|(group, node)| Key::Group { group, node }),
            ("routes", _) => prefix_of(&rest["routes".len()..]).map(Key::Route),
            ("strategies", _) => prefix_of(&rest["strategies".len()..]).map(Key::Strategy),
            ("tags", _) => Ok(Key::Tags(rest["tags".len()..].parse()?)),
            ("tables", _) => table_key(of),
            ("built", _) => Ok(Key::Built(of.parse()?)),
            _ => Err(BadKey::Unknown),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Head => f.write_str("head"),
            Key::Settled => f.write_str("settled"),
            Key::Link { node, link } => write!(f, "links/{node}/{link}"),
            Key::Down { node, link } => write!(f, "down/{node}/{link}"),
            Key::Group { group, node } => write!(f, "groups/{group}/{node}"),
            Key::Route(prefix) => write!(f, "routes{prefix}"),
            Key::Strategy(prefix) => write!(f, "strategies{prefix}"),
            Key::Policy(None) => f.write_str("policy"),
            Key::Policy(Some(node)) => write!(f, "policies/{node}"),
            Key::Tags(set) => write!(f, "tags{set}"),
            Key::Table(table) => write!(f, "tables/{table}/head"),
            Key::Built(table) => write!(f, "built/{table}"),
            // Keys are in the order of the deltas.
            Key::Delta { table, sequence } => write!(f, "tables/{table}/deltas/{sequence:020}"),
        }
    }
}

fn table_key(of: &str) -> Result<Key, BadKey> {
    let (table, rest) = of.split_once('/').ok_or(BadKey::Unknown)?;
    if rest == "head" {
        return Ok(Key::Table(table.parse()?));
    }
    let digits = rest.strip_prefix("deltas/").filter(|digits| digits.len() == 20).ok_or(BadKey::Unknown)?;
    let sequence = if digits.bytes().all(|digit| digit.is_ascii_digit()) { digits.parse().ok() } else { None };
    Ok(Key::Delta { table: table.parse()?, sequence: sequence.ok_or(BadKey::Unknown)? })
}

/// Accepts one spelling only, so that no prefix has two keys.
fn prefix_of(uri: &str) -> Result<Name, BadKey> {
    let name: Name = uri.parse().map_err(|_| BadKey::Prefix)?;
    if name.to_string() == uri { Ok(name) } else { Err(BadKey::Prefix) }
}

/// The end of the range of keys that begin with `prefix`.
pub fn range_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return end;
        }
    }
    // etcd's word for "all keys from there".
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Space {
        Space::new(&"main".parse().unwrap())
    }

    #[test]
    fn keys_come_back_as_they_were() {
        let label = |text: &str| text.parse::<Label>().unwrap();
        let mut keys = vec![Key::Head, Key::Settled];
        keys.push(Key::Link { node: label("r1"), link: label("to-r2") });
        keys.push(Key::Down { node: label("r1"), link: label("to-r2") });
        keys.push(Key::Group { group: label("west"), node: label("r1") });
        keys.push(Key::Table(label("video")));
        keys.push(Key::Built(label("video")));
        keys.extend([Key::Policy(None), Key::Policy(Some(label("r1")))]);
        keys.extend([0, 1, u64::MAX].map(|sequence| Key::Delta { table: label("video"), sequence }));
        for prefix in ["/", "/a/b", "/%00/%2F/%C3%A4", "/a/32=fleet/v=3", "/..."] {
            keys.push(Key::Route(prefix.parse().unwrap()));
            keys.push(Key::Strategy(prefix.parse().unwrap()));
        }
        for tags in ["/concert", "/a/b%2Fc/%C3%A4"] {
            keys.push(Key::Tags(tags.parse().unwrap()));
        }
        for key in keys {
            assert_eq!(space().decode(&space().key(&key)), Ok(key));
        }
        assert_eq!(space().node_of(&space().node(&label("r1"))), Ok(label("r1")));
    }

    #[test]
    fn other_keys_are_refused() {
        let decode = |text: &str| space().decode(format!("/byname/main/want/{text}").as_bytes());
        for unknown in ["", "x", "heads", "head/", "settled/x", "links", "links/r1", "routesx", "policy/r1"] {
            assert_eq!(decode(unknown), Err(BadKey::Unknown), "{unknown}");
        }
        let long = format!("tables/t/deltas/{}", "9".repeat(20));
        for unknown in
            ["tables/t", "tables/t/heads", "tables/t/deltas/1", "tables/t/deltas/+0000000000000000001", &long]
        {
            assert_eq!(decode(unknown), Err(BadKey::Unknown), "{unknown}");
        }
        for label in [
            "tables/T/head",
            "built",
            "built/a/b",
            "links/r1/A",
            "down//x",
            "groups/west/r1/x",
            "links/../x",
            "policies",
            "policies/r1/x",
        ] {
            assert_eq!(decode(label), Err(BadKey::Label(BadLabel)), "{label}");
        }
        // Two spellings of one name.
        for prefix in ["routes", "routes//a", "routes/a/", "routes/%61", "routes/%2f", "strategies/ä"] {
            assert_eq!(decode(prefix), Err(BadKey::Prefix), "{prefix}");
        }
        for (tags, why) in [("", BadTags::Count(0)), ("/b/a", BadTags::Spelling), ("/...", BadTags::Tag(0))] {
            assert_eq!(decode(&format!("tags{tags}")), Err(BadKey::Tags(why)), "{tags}");
        }
        assert_eq!(space().decode(b"/byname/other/want/head"), Err(BadKey::Unknown));
        assert_eq!(space().decode(b"/byname/main/want/\xff"), Err(BadKey::NotText));
        assert_eq!(space().decode(&[b'a'; 9_001]), Err(BadKey::Long(9_001)));
        assert_eq!(space().node_of(b"/byname/main/nodes/R"), Err(BadKey::Label(BadLabel)));
    }

    #[test]
    fn ranges_end_after_the_last_key() {
        assert_eq!(range_end(b"/a/"), b"/a0");
        assert_eq!(range_end(b"a\xff"), b"b");
        assert_eq!(range_end(b"\xff"), b"\0");
    }
}

//! Values of a fleet's keys, in JSON.
//!
//! An agent must not misread an intent, so it refuses fields that it does not know. It then holds what it has.

mod built;

use std::collections::BTreeMap;

use byname_routing::policy::{Policy, PolicyError, PolicyRule};
use byname_wire::Name;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::label::Label;
use crate::table::content::State;
use crate::table::{Digest, Rows};

pub use built::{
    BuilderReport, BuiltHead, CHECK_BITS_MAX, FlatNames, FromBefore, RowCheck, TableForm, flat_name, tag_set,
};

/// Longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 10;
/// Most links of a group at a node.
pub const NEXTHOPS_MAX: usize = 64;
/// Longest address of a link, in bytes.
pub const URI_BYTES_MAX: usize = 256;
/// The format of an intent, in `want/head`.
pub const FORMAT: u64 = 1;

/// A value that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadValue {
    /// It is too long.
    #[error("the value has {0} bytes, more than {VALUE_BYTES_MAX}")]
    Long(usize),
    /// It is not JSON of the right shape.
    #[error("the value cannot be read: {0}")]
    Json(String),
    /// It is of another version of byname.
    #[error("the intent has format {0}; this version of byname knows format {FORMAT}")]
    Format(u64),
    /// A group has no links, or too many.
    #[error("a group has 1 to {NEXTHOPS_MAX} links, not {0}")]
    Nexthops(usize),
    /// A link's address is not one.
    #[error("{0:?} is no FaceUri of at most {URI_BYTES_MAX} visible characters")]
    Uri(String),
    /// A strategy's name is not one.
    #[error("{0:?} is no name of a strategy")]
    Strategy(String),
    /// A policy has no rules, or a rule is none, or is written in another way.
    #[error("no policy: {0}")]
    Policy(String),
    /// A table's deltas are too many, or end before they begin.
    #[error("a table has deltas {base} to {last}; there may be {DELTAS_MAX} at a time")]
    Deltas {
        /// The manifest has all up to this one.
        base: u64,
        /// The last one.
        last: u64,
    },
    /// A row of a table is not what its kind says.
    #[error("a row of the table cannot be read: {0}")]
    Row(String),
}

/// The value of a key, with the conditions on it.
pub trait Value: Serialize + DeserializeOwned {
    /// Checks what JSON does not say.
    ///
    /// # Errors
    /// A condition does not hold.
    fn check(&self) -> Result<(), BadValue> {
        Ok(())
    }

    /// Reads the value.
    ///
    /// # Errors
    /// It is damaged, or from another version.
    fn decode(bytes: &[u8]) -> Result<Self, BadValue> {
        if bytes.len() > VALUE_BYTES_MAX {
            return Err(BadValue::Long(bytes.len()));
        }
        let value: Self = serde_json::from_slice(bytes).map_err(|error| BadValue::Json(error.to_string()))?;
        value.check()?;
        Ok(value)
    }

    /// Writes the value.
    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("these types have no maps with other keys than text")
    }
}

/// `want/head`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// [`FORMAT`].
    pub format: u64,
    /// The last writer, for people.
    pub by: String,
}

/// `want/settled`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settled {
    /// Live nodes have all routes of this revision of the intent.
    pub revision: i64,
}

/// `want/links/NODE/LINK`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Address of the neighbour, in canonical form.
    pub uri: String,
}

/// `want/down/NODE/LINK`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Down {
    /// Why, for people.
    pub reason: String,
}

/// `want/groups/GROUP/NODE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The links and their costs.
    pub nexthops: Vec<Nexthop>,
}

/// A link in a [`Group`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nexthop {
    /// The link.
    #[serde(with = "label_text")]
    pub link: Label,
    /// Cost of the routes over it. Strategies prefer low costs.
    pub cost: u64,
}

/// `want/routes/…`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The group that the prefix leads to.
    #[serde(with = "label_text")]
    pub group: Label,
    /// Longer prefixes inherit the routes.
    pub inherit: bool,
    /// This prefix and longer ones inherit nothing from shorter ones.
    pub capture: bool,
}

/// `want/strategies/…`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strategy {
    /// Name of the strategy, as a URI.
    pub strategy: String,
}

/// `want/tags/…`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TagRoute {
    /// The group that packets with these tags are led to: to all of its links.
    #[serde(with = "label_text")]
    pub group: Label,
}

/// `want/policy` and `want/policies/NODE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRules {
    /// Rules of `[routing] policy`, as [`PolicyRule`] writes them.
    pub rules: Vec<String>,
}

impl PolicyRules {
    /// Rules in any spelling.
    ///
    /// # Errors
    /// One is no rule, or there are none or too many.
    pub fn parse(rules: &[String]) -> Result<Self, BadValue> {
        let bad = |error: PolicyError| BadValue::Policy(error.to_string());
        let policy = Policy::parse(rules.iter().map(String::as_str)).map_err(bad)?;
        if policy.rules().is_empty() {
            return Err(BadValue::Policy("it has no rules".to_owned()));
        }
        Ok(PolicyRules { rules: policy.rules().iter().map(PolicyRule::to_string).collect() })
    }
}

/// Most deltas of a table that no manifest has.
pub const DELTAS_MAX: u64 = 64;

/// What the rows of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableKind {
    /// The key is the TLV-VALUE of a prefix, and the value is a [`Route`].
    Routes,
    /// As [`TableKind::Routes`]. A builder makes one file of all rules, which routers use without the names.
    Built,
    /// The key is the TLV-VALUE of a name of one component, which is a flat name. A builder makes a file of them.
    Flat,
    /// The key is the TLV-VALUE of a name whose components are a set of tags, in their order. A builder makes a file of them.
    Tags,
}

/// `want/tables/TABLE/head`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableHead {
    /// What the rows are.
    pub kind: TableKind,
    /// What belongs to flat names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flat: Option<FlatNames>,
    /// Counts whole tables that were loaded.
    pub epoch: u64,
    /// Name of the manifest.
    #[serde(with = "digest_text")]
    pub manifest: Digest,
    /// The manifest has all deltas up to this one.
    pub base: u64,
    /// The state that the manifest has.
    #[serde(with = "digest_text")]
    pub base_state: Digest,
    /// The last delta.
    pub last: u64,
    /// The state after it.
    #[serde(with = "digest_text")]
    pub state: Digest,
}

impl TableHead {
    /// The state that a node should have.
    pub fn state(&self) -> State {
        State { epoch: self.epoch, sequence: self.last, digest: self.state }
    }

    /// The state of the manifest.
    pub fn base_state(&self) -> State {
        State { epoch: self.epoch, sequence: self.base, digest: self.base_state }
    }
}

impl Value for TableHead {
    fn check(&self) -> Result<(), BadValue> {
        built::check_kind(self.kind, self.flat.as_ref())?;
        let TableHead { base, last, .. } = *self;
        let good = base <= last && last - base <= DELTAS_MAX && (base != last || self.base_state == self.state);
        if good { Ok(()) } else { Err(BadValue::Deltas { base, last }) }
    }
}

/// Reads rows of a table of routes.
///
/// # Errors
/// A key is no name, or a value no route.
pub fn check_rows(rows: &Rows) -> Result<(), BadValue> {
    // There are few different values.
    let mut known: std::collections::BTreeSet<&[u8]> = std::collections::BTreeSet::new();
    for (key, value) in rows {
        row_prefix(key)?;
        if !known.contains(&value[..]) {
            Route::decode(value)?;
            known.insert(value);
        }
    }
    Ok(())
}

/// The prefix of a row.
///
/// # Errors
/// It is no name.
pub fn row_prefix(key: &[u8]) -> Result<Name, BadValue> {
    let name = byname_wire::NameRef::new(key).map_err(|error| BadValue::Row(error.to_string()))?;
    Ok(name.to_name())
}

/// How far a node is with a table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TableReport {
    /// Epoch of what it has.
    pub epoch: u64,
    /// The last delta that it has.
    pub sequence: u64,
    /// Rows.
    pub rows: u64,
    /// Why it does not have what the head says.
    pub waits: Option<String>,
}

/// `nodes/NODE`: what an agent reports. Later versions may report more.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// byname's version.
    pub version: String,
    /// Where the agent's router is.
    pub router: String,
    /// Whether the router answers.
    pub connected: bool,
    /// Revision of the intent that the agent has read.
    pub seen: i64,
    /// Revision of which the router has every route.
    pub added: i64,
    /// Revision that the router's tables are equal to.
    pub applied: i64,
    /// Routes of the fleet in the router.
    pub routes: u64,
    /// Ways of the fleet for sets of tags in the router.
    #[serde(default)]
    pub tags: u64,
    /// Changes that the router refused, and that are tried again.
    pub failing: u64,
    /// The last refusal.
    pub failure: Option<String>,
    /// Why the agent changes nothing.
    pub held: Option<String>,
    /// Links that groups name, and that this node does not have.
    pub missing_links: u64,
    /// Removals for which the agent did not wait any longer.
    pub unsettled: u64,
    /// Prefixes and sets of tags whose routes or strategy were not as the agent knew them when it compared.
    pub drift: u64,
    /// How often the agent has read the whole intent.
    pub reads: u64,
    /// How far it is with each table.
    pub tables: BTreeMap<String, TableReport>,
    /// Chunks and manifests that it has fetched from others.
    pub chunks_fetched: u64,
}

impl Value for Head {
    fn check(&self) -> Result<(), BadValue> {
        if self.format == FORMAT { Ok(()) } else { Err(BadValue::Format(self.format)) }
    }
}
impl Value for Settled {}
impl Value for Down {}
impl Value for Route {}
impl Value for TagRoute {}
impl Value for Report {}

impl Value for PolicyRules {
    /// One spelling only: the agent writes these rules into the settings of its router, with nothing between quotes that it
    /// would have to escape.
    fn check(&self) -> Result<(), BadValue> {
        let usual = PolicyRules::parse(&self.rules)?;
        let other = self.rules.iter().zip(&usual.rules).find(|(rule, usual)| rule != usual);
        other.map_or(Ok(()), |(rule, usual)| Err(BadValue::Policy(format!("{rule:?} is not written {usual:?}"))))
    }
}

impl Value for Link {
    fn check(&self) -> Result<(), BadValue> {
        let visible = self.uri.bytes().all(|byte| byte.is_ascii_graphic());
        let well_formed = visible && self.uri.len() <= URI_BYTES_MAX && self.uri.contains("://");
        if well_formed { Ok(()) } else { Err(BadValue::Uri(self.uri.chars().take(URI_BYTES_MAX).collect())) }
    }
}

impl Value for Group {
    fn check(&self) -> Result<(), BadValue> {
        let count = self.nexthops.len();
        if (1..=NEXTHOPS_MAX).contains(&count) { Ok(()) } else { Err(BadValue::Nexthops(count)) }
    }
}

impl Value for Strategy {
    fn check(&self) -> Result<(), BadValue> {
        self.name().map(drop)
    }
}

impl Strategy {
    /// Name of the strategy.
    ///
    /// # Errors
    /// It is none.
    pub fn name(&self) -> Result<Name, BadValue> {
        let name = self.strategy.parse::<Name>().ok().filter(|name| !name.as_ref().is_empty());
        name.ok_or_else(|| BadValue::Strategy(self.strategy.chars().take(URI_BYTES_MAX).collect()))
    }
}

/// Digests as text.
mod digest_text {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::table::Digest;

    pub fn serialize<S: Serializer>(digest: &Digest, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(digest)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Digest, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// Labels as text.
mod label_text {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::label::Label;

    pub fn serialize<S: Serializer>(label: &Label, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(label.as_str())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Label, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were() {
        let group = Group { nexthops: vec![Nexthop { link: "to-r2".parse().unwrap(), cost: u64::MAX }] };
        assert_eq!(Group::decode(&group.encode()), Ok(group));
        let route = Route { group: "west".parse().unwrap(), inherit: true, capture: false };
        assert_eq!(Route::decode(&route.encode()), Ok(route));
        let words =
            ["accept  deny prefix /a%20b neighbor /net/r1".to_owned(), "prefer cost 3 origin /net/r2".to_owned()];
        let policy = PolicyRules::parse(&words).unwrap();
        assert_eq!(policy.rules, ["accept deny prefix /a%20b neighbour /net/r1", "prefer cost 3 origin /net/r2"]);
        assert_eq!(PolicyRules::decode(&policy.encode()), Ok(policy));
        let (base_state, state) = (Digest::of(b"base"), Digest::of(b"state"));
        let kind = TableKind::Routes;
        let head =
            TableHead { kind, flat: None, epoch: 7, manifest: Digest::of(b"m"), base: 3, base_state, last: 67, state };
        assert_eq!(TableHead::decode(&head.encode()).as_ref(), Ok(&head));
        for (base, last) in [(4, 3), (3, 68), (67, 67)] {
            let head = TableHead { base, last, ..head.clone() };
            assert_eq!(TableHead::decode(&head.encode()), Err(BadValue::Deltas { base, last }));
        }
    }

    #[test]
    fn damaged_values_are_refused() {
        assert_eq!(Head::decode(br#"{"format":2,"by":""}"#), Err(BadValue::Format(2)));
        assert_eq!(Group::decode(br#"{"nexthops":[]}"#), Err(BadValue::Nexthops(0)));
        assert_eq!(Down::decode(&[b' '; VALUE_BYTES_MAX + 1]), Err(BadValue::Long(VALUE_BYTES_MAX + 1)));
        for uri in ["", "udp4", "udp4://a b", "udp4://ä", &format!("udp4://{}", "a".repeat(256))] {
            assert!(matches!(Link::decode(&Link { uri: uri.to_owned() }.encode()), Err(BadValue::Uri(_))), "{uri}");
        }
        for name in ["", "/", "/%zz"] {
            let strategy = Strategy { strategy: name.to_owned() };
            assert!(matches!(Strategy::decode(&strategy.encode()), Err(BadValue::Strategy(_))), "{name}");
        }
        let policy = |rules: &[&str]| PolicyRules { rules: rules.iter().map(|rule| (*rule).to_owned()).collect() };
        for rules in [
            &[][..],
            &["announce deny", ""],
            &["announce  deny"],
            &["announce deny\n"],
            &["accept deny prefix /%61"],
            &["accept deny prefix /\""],
            &["accept deny neighbor /net/r1"],
            &["prefer cost 16"],
            &["announce deny origin /net/r1"],
            &["announce deny"; 1_025],
        ] {
            assert!(matches!(PolicyRules::decode(&policy(rules).encode()), Err(BadValue::Policy(_))), "{rules:?}");
        }
        assert!(matches!(PolicyRules::decode(br#"{"rules":["announce deny"],"x":1}"#), Err(BadValue::Json(_))));
        // Unknown fields, other types, bytes that are no text, and text after the end.
        for json in [
            &br#"{"group":"west","inherit":true,"capture":false,"new":1}"#[..],
            br#"{"group":"West","inherit":true,"capture":false}"#,
            br#"{"group":"west","inherit":1,"capture":false}"#,
            b"{\"group\":\"\xff\"}",
            br#"{"group":"west","inherit":true,"capture":false}x"#,
            b"",
        ] {
            assert!(matches!(Route::decode(json), Err(BadValue::Json(_))), "{json:?}");
        }
    }
}

//! Changes of the intent: their words, and what they write.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::Context;
use byname_fleet::etcd::Connection;
use byname_fleet::etcd::messages::RangeRequest;
use byname_fleet::key::{Key, Space, range_end};
use byname_fleet::label::Label;
use byname_fleet::tags::TagSet;
use byname_fleet::value::{
    BadValue, Down, Group, Link, Nexthop, PolicyRules, Route, Strategy, TagRoute, VALUE_BYTES_MAX, Value,
};
use byname_fleet::writer::Write;
use byname_wire::Name;
use clap::{Parser, Subcommand};

use super::parse_label;
use crate::batch::lines::{Lines, words};
use crate::exit::{self, Failure};
use crate::manage::face_uri::canonical;
use crate::manage::strategy::parse_strategy;
use crate::tools::parse_name;

/// One change of the intent.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Change {
    /// Name the address of a neighbour, or say that a link has failed
    #[command(subcommand)]
    Link(LinkChange),
    /// Set the links that a group has at a node
    #[command(subcommand)]
    Group(GroupChange),
    /// Lead a prefix to a group
    #[command(subcommand)]
    Route(RouteChange),
    /// Choose the strategy of a prefix, at all nodes
    #[command(subcommand)]
    Strategy(StrategyChange),
    /// Lead packets with some tags to a group
    #[command(subcommand)]
    Tag(TagChange),
    /// Set the rules by which routers announce, accept and prefer ways
    #[command(subcommand)]
    Policy(PolicyChange),
}

#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum LinkChange {
    /// Add a link, or change its address
    Add {
        /// The node whose link it is
        #[arg(value_parser = parse_label)]
        node: Label,
        /// Name of the link
        #[arg(value_parser = parse_label)]
        link: Label,
        /// Address of the neighbour, such as udp4://192.0.2.2:6363
        uri: String,
    },
    /// Remove a link
    Remove {
        /// The node whose link it is
        #[arg(value_parser = parse_label)]
        node: Label,
        /// Name of the link
        #[arg(value_parser = parse_label)]
        link: Label,
    },
    /// A link has failed: use others of its groups
    Down {
        /// The node whose link it is
        #[arg(value_parser = parse_label)]
        node: Label,
        /// Name of the link
        #[arg(value_parser = parse_label)]
        link: Label,
        /// Why, for people
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// A link works again
    Up {
        /// The node whose link it is
        #[arg(value_parser = parse_label)]
        node: Label,
        /// Name of the link
        #[arg(value_parser = parse_label)]
        link: Label,
    },
}

#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum GroupChange {
    /// Set all links of a group at a node
    Set {
        /// Name of the group
        #[arg(value_parser = parse_label)]
        group: Label,
        /// The node
        #[arg(value_parser = parse_label)]
        node: Label,
        /// Links of that node with their costs: to-r2:10, or to-r2 for the cost 0
        #[arg(required = true, value_name = "LINK[:COST]", value_parser = parse_nexthop)]
        links: Vec<Nexthop>,
    },
    /// Remove a group at a node; its routes are not there any more
    Remove {
        /// Name of the group
        #[arg(value_parser = parse_label)]
        group: Label,
        /// The node
        #[arg(value_parser = parse_label)]
        node: Label,
    },
}

#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum RouteChange {
    /// Add a route, or change it
    Add {
        /// The prefix
        #[arg(value_parser = parse_name)]
        prefix: Name,
        /// The group that it leads to
        #[arg(value_parser = parse_label)]
        group: Label,
        /// Do not pass this route on to longer prefixes that have their own routes
        #[arg(long)]
        no_inherit: bool,
        /// Do not take over routes of shorter prefixes, for this prefix and longer ones
        #[arg(long)]
        capture: bool,
    },
    /// Remove a route
    Remove {
        /// The prefix
        #[arg(value_parser = parse_name)]
        prefix: Name,
    },
}

#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum StrategyChange {
    /// Set the strategy of a prefix
    Set {
        /// The prefix
        #[arg(value_parser = parse_name)]
        prefix: Name,
        /// Name of the strategy, or its last part, such as multicast
        #[arg(value_parser = parse_strategy)]
        strategy: Name,
    },
    /// Leave the strategy of a prefix to each router again
    Unset {
        /// The prefix
        #[arg(value_parser = parse_name)]
        prefix: Name,
    },
}

#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum TagChange {
    /// Lead packets whose tags include these to all links of a group, or change the group
    Add {
        /// The group that they are led to
        #[arg(value_parser = parse_label)]
        group: Label,
        /// The tags, in any order: a packet must have all of them
        #[arg(required = true, value_name = "TAG")]
        tags: Vec<String>,
    },
    /// Do not lead packets with exactly these tags to a group any more
    Remove {
        /// The tags, in any order
        #[arg(required = true, value_name = "TAG")]
        tags: Vec<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum PolicyChange {
    /// Set all rules of a node, or of all nodes; a router has its own rules, then those of its node, then those of all nodes, and the
    /// first that fits decides
    Set {
        /// Rules as in `[routing] policy`, such as 'accept deny origin /example/r9'
        #[arg(required = true, value_name = "RULE")]
        rules: Vec<String>,
        /// The node [default: all nodes]
        #[arg(long, value_parser = parse_label)]
        node: Option<Label>,
    },
    /// Remove the rules of a node, or those of all nodes
    Remove {
        /// The node [default: all nodes]
        #[arg(long, value_parser = parse_label)]
        node: Option<Label>,
    },
}

/// A line of a file.
#[derive(Debug, Parser)]
#[command(name = "byname fleet", disable_help_flag = true, disable_help_subcommand = true)]
struct Line {
    #[command(subcommand)]
    change: Change,
}

/// A word that is a line of its own: what follows is written when all live nodes have what was before.
const WAIT: &str = "wait";

/// The changes in a file, or on standard input, in steps: each is written when all live nodes have the one before.
pub fn from_file(file: &Path) -> anyhow::Result<Vec<Vec<Change>>> {
    let (input, name): (Box<dyn Read>, String) = if file == Path::new("-") {
        (Box::new(io::stdin()), "standard input".to_owned())
    } else {
        let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
        (Box::new(opened), file.display().to_string())
    };
    let mut lines = Lines::new(input);
    let (mut steps, mut step) = (Vec::new(), Vec::new());
    while let Some((number, line)) = lines.next().with_context(|| format!("cannot read {name}"))? {
        let at = |reason: String| Failure::new(exit::USAGE, format!("{name}, line {number}: {reason}"));
        let parsed = line.and_then(|line| words(line, parse)).map_err(|error| at(error.to_string()))?;
        match parsed.map_err(at)? {
            Words::Nothing => {}
            Words::Change(change) => step.push(change),
            Words::Wait => steps.push(std::mem::take(&mut step)),
        }
    }
    steps.push(step);
    steps.retain(|step| !step.is_empty());
    Ok(steps)
}

/// What a line of a file says.
#[derive(Debug, PartialEq)]
enum Words {
    Nothing,
    Change(Change),
    Wait,
}

fn parse(words: &[&str]) -> Result<Words, String> {
    if words.is_empty() {
        return Ok(Words::Nothing);
    }
    if words == [WAIT] {
        return Ok(Words::Wait);
    }
    let line = ["byname fleet"].iter().chain(words);
    Line::try_parse_from(line).map(|line| Words::Change(line.change)).map_err(|error| {
        let text = error.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        text.split("\n\n").next().unwrap_or_default().replace('\n', " ")
    })
}

fn parse_nexthop(text: &str) -> Result<Nexthop, String> {
    let (link, cost) = text.split_once(':').unwrap_or((text, "0"));
    let cost = cost.parse().map_err(|_| format!("the cost '{cost}' is no number"))?;
    Ok(Nexthop { link: parse_label(link)?, cost })
}

impl Change {
    /// What it writes.
    pub fn write(&self) -> anyhow::Result<Write> {
        let put = |key, value: Vec<u8>| Write { key, value: Some(value) };
        Ok(match self.clone() {
            Change::Link(LinkChange::Add { node, link, uri }) => {
                let value = Link { uri: canonical(&uri)? };
                value.check().map_err(|error| Failure::new(exit::USAGE, error.to_string()))?;
                put(Key::Link { node, link }, value.encode())
            }
            Change::Link(LinkChange::Down { node, link, reason }) => {
                put(Key::Down { node, link }, Down { reason }.encode())
            }
            Change::Group(GroupChange::Set { group, node, links }) => {
                let value = Group { nexthops: links };
                value.check().map_err(|error| Failure::new(exit::USAGE, error.to_string()))?;
                put(Key::Group { group, node }, value.encode())
            }
            Change::Route(RouteChange::Add { prefix, group, no_inherit, capture }) => {
                put(Key::Route(prefix), Route { group, inherit: !no_inherit, capture }.encode())
            }
            Change::Strategy(StrategyChange::Set { prefix, strategy }) => {
                put(Key::Strategy(prefix), Strategy { strategy: strategy.to_string() }.encode())
            }
            Change::Policy(PolicyChange::Set { rules, node }) => {
                let value =
                    PolicyRules::parse(&rules).map_err(|error| Failure::new(exit::USAGE, error.to_string()))?.encode();
                if value.len() > VALUE_BYTES_MAX {
                    return Err(Failure::new(exit::USAGE, BadValue::Long(value.len()).to_string()).into());
                }
                put(Key::Policy(node), value)
            }
            Change::Tag(TagChange::Add { group, .. }) => put(self.key()?, TagRoute { group }.encode()),
            _ => Write { key: self.key()?, value: None },
        })
    }

    fn key(&self) -> anyhow::Result<Key> {
        Ok(match self.clone() {
            Change::Link(LinkChange::Add { node, link, .. } | LinkChange::Remove { node, link }) => {
                Key::Link { node, link }
            }
            Change::Link(LinkChange::Down { node, link, .. } | LinkChange::Up { node, link }) => {
                Key::Down { node, link }
            }
            Change::Group(GroupChange::Set { group, node, .. } | GroupChange::Remove { group, node }) => {
                Key::Group { group, node }
            }
            Change::Route(RouteChange::Add { prefix, .. } | RouteChange::Remove { prefix }) => Key::Route(prefix),
            Change::Strategy(StrategyChange::Set { prefix, .. } | StrategyChange::Unset { prefix }) => {
                Key::Strategy(prefix)
            }
            Change::Policy(PolicyChange::Set { node, .. } | PolicyChange::Remove { node }) => Key::Policy(node),
            Change::Tag(TagChange::Add { tags, .. } | TagChange::Remove { tags }) => {
                Key::Tags(TagSet::new(tags).map_err(|error| Failure::new(exit::USAGE, error.to_string()))?)
            }
        })
    }

    /// Checks that a single change names what exists: most typing errors show here.
    pub async fn check(&self, connection: &Connection, space: &Space) -> anyhow::Result<()> {
        match self {
            Change::Link(LinkChange::Add { .. })
            | Change::Strategy(StrategyChange::Set { .. })
            | Change::Policy(PolicyChange::Set { .. }) => Ok(()),
            Change::Link(LinkChange::Down { node, link, .. }) => {
                let key = Key::Link { node: node.clone(), link: link.clone() };
                let there = exists(connection, space.key(&key), Vec::new()).await?;
                missing(there, || format!("node {node} has no link {link}: see `byname fleet show`"))
            }
            Change::Group(GroupChange::Set { node, links, .. }) => {
                for Nexthop { link, .. } in links {
                    let key = Key::Link { node: node.clone(), link: link.clone() };
                    let there = exists(connection, space.key(&key), Vec::new()).await?;
                    let advice = format!("add it by `byname fleet link add {node} {link} udp4://ADDRESS`");
                    missing(there, || format!("node {node} has no link {link}: {advice}"))?;
                }
                Ok(())
            }
            Change::Route(RouteChange::Add { group, .. }) | Change::Tag(TagChange::Add { group, .. }) => {
                let mut first = space.want();
                first.extend(format!("groups/{group}/").as_bytes());
                let end = range_end(&first);
                let there = exists(connection, first, end).await?;
                let advice = format!("set its links by `byname fleet group set {group} NODE LINK:COST`");
                missing(there, || format!("no node has a group {group}: {advice}"))
            }
            // Removals.
            _ => {
                let there = exists(connection, space.key(&self.key()?), Vec::new()).await?;
                missing(there, || "the intent does not have this: see `byname fleet show`".to_owned())
            }
        }
    }
}

fn missing(there: bool, message: impl FnOnce() -> String) -> anyhow::Result<()> {
    if there { Ok(()) } else { Err(Failure::new(exit::NOT_FOUND, message()).into()) }
}

async fn exists(connection: &Connection, key: Vec<u8>, range_end: Vec<u8>) -> anyhow::Result<bool> {
    let request = RangeRequest { key, range_end, limit: 1, revision: 0 };
    Ok(!connection.range(request).await?.kvs.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(line: &str) -> Result<(String, Option<String>), String> {
        let Words::Change(change) = parse(&line.split(' ').collect::<Vec<_>>())? else { return Err("none".to_owned()) };
        let Write { key, value } = change.write().map_err(|error| error.to_string())?;
        Ok((key.to_string(), value.map(|value| String::from_utf8(value).expect("JSON"))))
    }

    #[test]
    fn a_file_has_steps() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lines");
        let steps = |text: &str| {
            std::fs::write(&path, text).expect("write");
            from_file(&path).map(|steps| steps.iter().map(Vec::len).collect::<Vec<_>>())
        };
        let (up, down) = ("link up r1 a\n", "link down r1 a\n");
        assert_eq!(steps(&format!("# c\n{up}\n{down}wait\n{up}")).expect("good"), [2, 1]);
        assert_eq!(steps("wait for all\n").expect_err("words").to_string().lines().count(), 1);
        assert_eq!(steps(&format!("wait\n{up}wait\n\nwait\n")).expect("good"), [1]);
        assert_eq!(steps("").expect("good"), [0; 0]);
    }

    #[test]
    fn lines_write_keys() {
        for (line, key, value) in [
            ("link add r1 to-r2 udp://192.0.2.2", "links/r1/to-r2", Some(r#"{"uri":"udp4://192.0.2.2:6363"}"#)),
            ("link remove r1 to-r2", "links/r1/to-r2", None),
            ("link down r1 to-r2 --reason works", "down/r1/to-r2", Some(r#"{"reason":"works"}"#)),
            ("link up r1 to-r2", "down/r1/to-r2", None),
            (
                "group set west r1 a:10 b",
                "groups/west/r1",
                Some(r#"{"nexthops":[{"link":"a","cost":10},{"link":"b","cost":0}]}"#),
            ),
            ("group remove west r1", "groups/west/r1", None),
            (
                "route add /a/%62 west --capture",
                "routes/a/b",
                Some(r#"{"group":"west","inherit":true,"capture":true}"#),
            ),
            ("route remove /", "routes/", None),
            ("strategy set /a multicast", "strategies/a", Some(r#"{"strategy":"/localhost/nfd/strategy/multicast"}"#)),
            ("strategy unset /a", "strategies/a", None),
            ("tag add west concert a/b concert", "tags/a%2Fb/concert", Some(r#"{"group":"west"}"#)),
            ("tag remove b a", "tags/a/b", None),
            ("policy remove", "policy", None),
            ("policy remove --node r1", "policies/r1", None),
        ] {
            assert_eq!(write(line), Ok((key.to_owned(), value.map(str::to_owned))), "{line}");
        }
    }

    #[test]
    fn rules_are_checked_and_written_in_one_way() {
        let set = |words: &[&str]| {
            let words: Vec<&str> = ["policy", "set"].iter().chain(words).copied().collect();
            let Words::Change(change) = parse(&words)? else { return Err("none".to_owned()) };
            let Write { key, value } = change.write().map_err(|error| error.to_string())?;
            Ok((key.to_string(), String::from_utf8(value.expect("rules")).expect("JSON")))
        };
        let (key, value) = set(&["accept  deny prefix /%61", "prefer cost 3", "--node", "r1"]).expect("rules");
        assert_eq!((&*key, &*value), ("policies/r1", r#"{"rules":["accept deny prefix /a","prefer cost 3"]}"#));
        assert_eq!(set(&["announce deny"]).expect("rules").0, "policy");
        for (rules, part) in [
            (&["deny all"][..], "begins with \"deny\""),
            (&["prefer cost 99"], "a cost from 0 to 15"),
            (&["announce deny"; 1025], "more than 1024 rules"),
            (&[&format!("announce deny prefix /{}", "x".repeat(2_000))[..]; 40], "more than 65536"),
            (&[], "<RULE>"),
        ] {
            let error = set(rules).expect_err("no rules");
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn tags_have_limits() {
        let tags: Vec<String> = (0..33).map(|tag| tag.to_string()).collect();
        assert_eq!(
            write(&format!("tag add west {}", tags.join(" "))),
            Err("a set has 1 to 32 tags, not 33".to_owned())
        );
        assert_eq!(
            write(&format!("tag remove {}", "x".repeat(256))),
            Err("a tag has 1 to 255 bytes, not 256".to_owned())
        );
    }

    #[test]
    fn mistakes_are_explained() {
        for (line, part) in [
            ("route add a west", "try '/a'"),
            ("route add /a West", "lower-case"),
            ("group set west r1", "LINK[:COST]"),
            ("group set west r1 a:b", "the cost 'b' is no number"),
            ("link add r1 x 192.0.2.2", "no FaceUri"),
            ("status", "unrecognized subcommand"),
            ("tag add west", "<TAG>"),
            ("tag remove", "<TAG>"),
        ] {
            let error = write(line).unwrap_err();
            assert!(error.contains(part) && !error.contains('\n'), "{line}: {error}");
        }
    }
}

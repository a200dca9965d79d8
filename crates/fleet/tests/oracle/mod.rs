//! The oracle of the tests of a fleet: the routes of a node for a whole revision of the intent, computed from scratch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use byname_fleet::intent::built::label_of;
use byname_fleet::table::{Digest, Rows};
use byname_fleet::tags::TagSet;
use byname_fleet::value::{BuiltHead, Group, Link, Nexthop, Route, TableHead, TagRoute, Value};
use byname_wire::{Descriptor, Name};

/// All keys with their values, and the revisions in which they were written.
pub type Keys = BTreeMap<Vec<u8>, (Vec<u8>, i64)>;
/// Routes of a node: prefix, address of the nexthop, and cost.
pub type Table = BTreeSet<(Name, Arc<str>, u64)>;

/// Ways of sets of tags are in a table as routes of this name, which no prefix of a test has. They have no cost.
pub fn name_of(tags: &Descriptor) -> Name {
    let digests: String = tags.tags().iter().map(|tag| format!("{:08x}", tag.0)).collect();
    format!("/32=tags/{digests}").parse().unwrap()
}

/// Files that a router uses are in a table as routes of this name, to nowhere.
pub fn name_of_file(file: &str) -> Name {
    format!("/32=file/{file}").parse().unwrap()
}

/// The routes of a node. `rows` are those of the table `t`, by its states. `None`: agents must hold what they have.
pub fn table(keys: &Keys, node: &str, rows: &BTreeMap<Digest, Rows>) -> Option<Table> {
    let value = |key: String| keys.get(format!("/byname/main/want/{key}").as_bytes()).map(|(value, _)| &value[..]);
    value("head".to_owned())?;
    let mut table = Table::new();
    let mut routes = BTreeMap::new();
    for (key, (bytes, _)) in keys {
        let Some(prefix) = key.strip_prefix(b"/byname/main/want/routes") else { continue };
        let prefix: Name = std::str::from_utf8(prefix).unwrap().parse().unwrap();
        routes.insert(prefix, Route::decode(bytes).ok()?);
    }
    if let Some(head) = value("tables/t/head".to_owned()) {
        let head = TableHead::decode(head).unwrap();
        // A delta that was lost: agents hold, unless they have been further already.
        for sequence in head.base + 1..=head.last {
            value(format!("tables/t/deltas/{sequence:020}"))?;
        }
        for (key, value) in &rows[&head.state] {
            let prefix = byname_wire::NameRef::new(key).unwrap().to_name();
            routes.entry(prefix).or_insert_with(|| Route::decode(value).unwrap());
        }
    }
    let mut led: Vec<_> = routes.into_iter().map(|(prefix, route)| (prefix, route.group, true)).collect();
    for (key, (bytes, _)) in keys {
        let Some(set) = key.strip_prefix(b"/byname/main/want/tags") else { continue };
        let set: TagSet = std::str::from_utf8(set).unwrap().parse().unwrap();
        led.push((name_of(&set.descriptor()), TagRoute::decode(bytes).ok()?.group, false));
    }
    let files =
        keys.iter().filter_map(|(key, (bytes, _))| Some((key.strip_prefix(b"/byname/main/want/built/")?, bytes)));
    for (of, bytes) in files {
        let file = BuiltHead::decode(bytes).unwrap().file_name(&std::str::from_utf8(of).unwrap().parse().unwrap());
        table.insert((name_of_file(&file), "".into(), 0));
    }
    if !table.is_empty() {
        // Labels of files are names of groups.
        let groups = keys.keys().filter_map(|key| key.strip_prefix(b"/byname/main/want/groups/"));
        let groups = groups.filter_map(|key| std::str::from_utf8(key).unwrap().split_once('/'));
        let here = groups.filter(|(_, of)| *of == node).map(|(group, _)| group.parse().unwrap());
        led.extend(here.map(|group| (label_of(&group), group, true)));
    }
    for (prefix, group, has_cost) in led {
        let Some(group) = value(format!("groups/{group}/{node}")) else { continue };
        let group = Group::decode(group).unwrap();
        let ways: Vec<_> = group
            .nexthops
            .iter()
            .filter_map(|Nexthop { link, cost }| {
                let uri = Link::decode(value(format!("links/{node}/{link}"))?).unwrap().uri;
                Some((uri, *cost, value(format!("down/{node}/{link}")).is_none()))
            })
            .collect();
        let any_up = ways.iter().any(|(_, _, up)| *up);
        for (uri, cost, _) in ways.iter().filter(|(_, _, up)| *up || !any_up) {
            table.insert((prefix.clone(), uri.as_str().into(), if has_cost { *cost } else { 0 }));
        }
    }
    Some(table)
}

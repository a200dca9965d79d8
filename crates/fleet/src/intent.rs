//! The intent of a fleet, as one node needs it: a copy of the keys below `want/`.
//!
//! Routes and sets of tags are kept for all nodes, since they are the same everywhere. Links and groups are kept for this node only. Routes of
//! tables are those of prefixes that have no key of their own.

pub mod built;
mod tables;
mod tags;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use byname_wire::{Descriptor, Name};

use crate::key::{BadKey, Key, Space};
use crate::label::Label;
use crate::table::{Digest, Rows};
use crate::value::{
    BadValue, BuiltHead, Down, Group, Head, Link, Nexthop, PolicyRules, Route, Settled, Strategy, TableReport,
    TagRoute, Value,
};
pub use built::{Kept, UsedFile, WantedFile};
use tables::Tables;
pub use tables::{TABLES_MAX, Wanted};
use tags::Tags;

/// Bits of a route's flags, as in the management protocol.
const INHERIT: u64 = byname_mgmt::route_flags::CHILD_INHERIT;
const CAPTURE: u64 = byname_mgmt::route_flags::CAPTURE;

/// What belongs to a route besides its prefix and nexthop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Cost.
    pub cost: u64,
    /// Flags of the management protocol.
    pub flags: u64,
}

/// A way of a set of tags that the router was told. It has no cost.
pub const TOLD: Attributes = Attributes { cost: 0, flags: 0 };
/// A way of a set of tags that the router has from an earlier process of its own. It goes unless the router is told it again.
pub const TOLD_BEFORE: Attributes = Attributes { cost: 1, flags: 0 };

/// Routes of one prefix, or of one set of tags, by the address of the nexthop.
pub type Routes = BTreeMap<Arc<str>, Attributes>;

/// What a change of keys may concern.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The routes of a prefix.
    Routes(Name),
    /// Where packets with these tags go.
    Tags(Arc<Descriptor>),
    /// The strategy of a prefix.
    Strategy(Name),
    /// Files of tables, and rules of routing: settings of the router. They come last, since the rules of files need routes.
    Files,
}

/// What some changes of keys concern.
#[derive(Debug, Default)]
pub struct Touched {
    /// Routes and strategies that may have changed.
    pub subjects: BTreeSet<Subject>,
    /// Addresses of links whose state may have changed.
    pub links: BTreeSet<Arc<str>>,
}

/// A group, as this node knows it.
#[derive(Debug, Default)]
struct GroupHere {
    nexthops: Vec<Nexthop>,
    /// Prefixes that lead to it, whether or not it has links here.
    prefixes: BTreeSet<Name>,
}

/// The intent.
#[derive(Debug)]
pub struct Intent {
    space: Space,
    node: Label,
    keys_max: usize,
    has_head: bool,
    settled: i64,
    links: BTreeMap<Label, Arc<str>>,
    down: BTreeSet<Label>,
    groups: BTreeMap<Label, GroupHere>,
    routes: BTreeMap<Name, Route>,
    strategies: BTreeMap<Name, Name>,
    tags: Tags,
    /// Rules of this node, and of all nodes.
    policies: (Vec<String>, Vec<String>),
    tables: Tables,
    built: built::Built,
    /// Keys that cannot be read, and why.
    damaged: BTreeMap<Vec<u8>, String>,
    /// Whether there were more keys than there may be. Some are missing here then.
    too_many: bool,
}

impl Intent {
    /// No intent, for this node. There may be so many keys.
    pub fn new(space: Space, node: Label, keys_max: usize) -> Self {
        Intent {
            space,
            node,
            keys_max,
            has_head: false,
            settled: 0,
            links: BTreeMap::new(),
            down: BTreeSet::new(),
            groups: BTreeMap::new(),
            routes: BTreeMap::new(),
            strategies: BTreeMap::new(),
            tags: Tags::default(),
            policies: Default::default(),
            tables: Tables::default(),
            built: built::Built::default(),
            damaged: BTreeMap::new(),
            too_many: false,
        }
    }

    /// Forgets all keys. Rows of tables are kept until [`Intent::advance`]: most are those that the next keys speak of.
    pub fn clear(&mut self) {
        let mut tables = std::mem::take(&mut self.tables);
        tables.clear();
        let mut built = std::mem::take(&mut self.built);
        built.clear();
        *self = Intent { tables, built, ..Intent::new(self.space.clone(), self.node.clone(), self.keys_max) };
    }

    /// Brings tables to what their heads say, after keys have changed.
    pub fn advance(&mut self, touched: &mut Touched) {
        let mut changed = BTreeSet::new();
        self.tables.advance(&mut changed);
        touched.subjects.extend(changed.into_iter().map(Subject::Routes));
    }

    /// Manifests that must be fetched. The intent is held until they are here.
    pub fn wanted(&self) -> impl Iterator<Item = Wanted> {
        self.tables.wanted()
    }

    /// A manifest that was wanted is here, with all rows of its chunks.
    pub fn loaded(&mut self, wanted: &Wanted, rows: Rows, touched: &mut Touched) {
        let mut changed = BTreeSet::new();
        self.tables.loaded(wanted, rows, &mut changed);
        touched.subjects.extend(changed.into_iter().map(Subject::Routes));
    }

    /// Why a manifest that is wanted is not here yet.
    pub fn not_loaded(&mut self, wanted: &Wanted, why: String) {
        self.tables.not_loaded(wanted, why);
    }

    /// Files of tables that must be brought here. The intent is held until they are.
    pub fn wanted_files(&self) -> impl Iterator<Item = WantedFile> {
        self.built.wanted()
    }

    /// A file that was wanted is here, or this is why it is not here yet.
    pub fn brought(&mut self, file: &WantedFile, result: Result<Kept, String>, touched: &mut Touched) {
        self.built.brought(file.name(), result);
        touched.subjects.insert(Subject::Files);
    }

    /// The router does not take these files: they are compared with their blocks again.
    pub fn doubt_files(&mut self) {
        self.built.doubt();
    }

    /// Where the file of a table is, if it is here.
    pub fn kept(&self, table: &Label) -> Option<(WantedFile, &Kept)> {
        self.built.kept(table)
    }

    /// The rules of routing that this router should have after its own. The first that fits decides, and those of this node come
    /// before those of all nodes.
    pub fn policy(&self) -> Vec<String> {
        self.policies.0.iter().chain(&self.policies.1).cloned().collect()
    }

    fn set_policy(&mut self, node: Option<Label>, rules: Vec<String>, touched: &mut Touched) {
        match node {
            None => self.policies.1 = rules,
            Some(node) if node == self.node => self.policies.0 = rules,
            // Another node reads it.
            Some(_) => return,
        }
        touched.subjects.insert(Subject::Files);
    }

    /// The files that the router should use.
    pub fn files(&self) -> Vec<UsedFile> {
        self.built.files()
    }

    /// Lists of the blocks of all files, and patches that lead to them.
    pub fn lists_of_blocks(&self) -> impl Iterator<Item = Digest> {
        let patch = |head: &BuiltHead| head.patch.as_ref().map(|patch| patch.patch);
        self.built.heads().flat_map(move |head| [Some(head.blocks), patch(head)]).flatten()
    }

    /// Labels of groups that have links here.
    pub fn labels(&self) -> impl Iterator<Item = Name> {
        let groups = if self.built.len() == 0 { None } else { Some(&self.groups) };
        groups
            .into_iter()
            .flatten()
            .filter(|(_, here)| !here.nexthops.is_empty())
            .map(|(group, _)| built::label_of(group))
    }

    /// Names of the manifests of all tables.
    pub fn manifests(&self) -> impl Iterator<Item = Digest> {
        self.tables.manifests()
    }

    /// How far this node is with each table.
    pub fn tables(&self) -> BTreeMap<String, TableReport> {
        let mut report = self.tables.report();
        self.built.report(&mut report);
        report
    }

    /// Why this intent must not be applied.
    pub fn held(&self) -> Option<String> {
        if self.too_many {
            return Some(format!("the intent has more than {} keys (see --keys-max)", self.keys_max));
        }
        if let Some((key, why)) = self.damaged.first_key_value() {
            let others = match self.damaged.len() {
                1 => String::new(),
                count => format!(" ({} more keys are damaged)", count - 1),
            };
            return Some(format!("{}: {why}{others}", key.escape_ascii()));
        }
        if !self.has_head {
            return Some("there is no intent yet: want/head does not exist".to_owned());
        }
        self.tables.waits().map(|(table, why)| format!("table {table}: {why}")).or_else(|| self.built.waits())
    }

    /// Whether an intent exists.
    pub fn has_head(&self) -> bool {
        self.has_head
    }

    /// Live nodes have all routes of this revision.
    pub fn settled(&self) -> i64 {
        self.settled
    }

    /// Whether a change of this key is a change of the intent. That of `want/settled` is none.
    pub fn counts(&self, key: &[u8]) -> bool {
        !matches!(self.space.decode(key), Ok(Key::Settled))
    }

    /// A key was written.
    pub fn put(&mut self, key: &[u8], value: &[u8], touched: &mut Touched) {
        let done = match self.space.decode(key) {
            Ok(decoded) => self.set(decoded, value, touched).map_err(|error| error.to_string()),
            Err(error) => Err(BadKey::to_string(&error)),
        };
        match done {
            Ok(()) => drop(self.damaged.remove(key)),
            Err(why) if self.has_room() => drop(self.damaged.insert(key.to_vec(), why)),
            Err(_) => self.too_many = true,
        }
    }

    /// A key was deleted.
    pub fn delete(&mut self, key: &[u8], touched: &mut Touched) {
        self.damaged.remove(key);
        let Ok(decoded) = self.space.decode(key) else { return };
        match decoded {
            Key::Head => self.has_head = false,
            Key::Settled => self.settled = 0,
            Key::Link { node, link } if node == self.node => {
                touched.links.extend(self.links.remove(&link));
                self.touch_link(&link, touched);
            }
            Key::Down { node, link } if node == self.node => {
                self.down.remove(&link);
                self.touch_link(&link, touched);
            }
            Key::Group { group, node } if node == self.node => self.set_group(group, Vec::new(), touched),
            Key::Link { .. } | Key::Down { .. } | Key::Group { .. } => {}
            Key::Route(prefix) => self.set_route(prefix, None, touched),
            Key::Strategy(prefix) => {
                self.strategies.remove(&prefix);
                touched.subjects.insert(Subject::Strategy(prefix));
            }
            Key::Policy(node) => self.set_policy(node, Vec::new(), touched),
            Key::Tags(set) => {
                touched.subjects.insert(Subject::Tags(self.tags.set(set, None)));
            }
            Key::Table(table) => self.tables.delete_head(&table),
            Key::Delta { table, sequence } => self.tables.delete_delta(&table, sequence),
            Key::Built(table) => {
                self.built.delete(&table);
                self.touch_built(touched);
            }
        }
    }

    fn set(&mut self, key: Key, value: &[u8], touched: &mut Touched) -> Result<(), BadValue> {
        match key {
            Key::Head => {
                Head::decode(value)?;
                self.has_head = true;
            }
            Key::Settled => self.settled = Settled::decode(value)?.revision,
            Key::Link { node, link } if node == self.node => {
                let uri: Arc<str> = Link::decode(value)?.uri.into();
                if self.links.contains_key(&link) || self.takes_room() {
                    touched.links.extend(self.links.insert(link.clone(), uri));
                    self.touch_link(&link, touched);
                }
            }
            Key::Down { node, link } if node == self.node => {
                Down::decode(value)?;
                if self.down.contains(&link) || self.takes_room() {
                    self.down.insert(link.clone());
                    self.touch_link(&link, touched);
                }
            }
            Key::Group { group, node } if node == self.node => {
                let nexthops = Group::decode(value)?.nexthops;
                if self.groups.contains_key(&group) || self.takes_room() {
                    self.set_group(group, nexthops, touched);
                }
            }
            // Other nodes read these.
            Key::Link { .. } | Key::Down { .. } | Key::Group { .. } => {}
            Key::Route(prefix) => {
                let route = Route::decode(value)?;
                if self.routes.contains_key(&prefix) || self.takes_room() {
                    self.set_route(prefix, Some(route), touched);
                }
            }
            Key::Strategy(prefix) => {
                let name = Strategy::decode(value)?.name()?;
                if self.strategies.contains_key(&prefix) || self.takes_room() {
                    self.strategies.insert(prefix.clone(), name);
                    touched.subjects.insert(Subject::Strategy(prefix));
                }
            }
            Key::Policy(Some(node)) if node != self.node => {}
            Key::Policy(node) => self.set_policy(node, PolicyRules::decode(value)?.rules, touched),
            Key::Tags(set) => {
                let group = TagRoute::decode(value)?.group;
                if self.tags.contains(&set) || self.takes_room() {
                    touched.subjects.insert(Subject::Tags(self.tags.set(set, Some(group))));
                }
            }
            Key::Table(table) => self.too_many |= !self.tables.set_head(table, value)?,
            Key::Delta { table, sequence } => self.too_many |= !self.tables.set_delta(table, sequence, value)?,
            Key::Built(table) => {
                if self.built.len() < TABLES_MAX {
                    self.built.set(table, value)?;
                } else {
                    self.too_many = true;
                }
                self.touch_built(touched);
            }
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        // A group may exist for its prefixes alone, so these count twice. That is on the safe side.
        let kept = self.links.len() + self.down.len() + self.routes.len() + self.strategies.len() + self.damaged.len();
        kept + self.groups.len() + self.tags.len() + self.tables.keys() < self.keys_max
    }

    /// Whether there is room for one more key. If not, the intent is held.
    fn takes_room(&mut self) -> bool {
        let room = self.has_room();
        self.too_many |= !room;
        room
    }

    /// Files, and the labels that they may need.
    fn touch_built(&self, touched: &mut Touched) {
        touched.subjects.insert(Subject::Files);
        touched.subjects.extend(self.groups.keys().map(built::label_of).map(Subject::Routes));
    }

    fn set_group(&mut self, group: Label, nexthops: Vec<Nexthop>, touched: &mut Touched) {
        let here = self.groups.entry(group.clone()).or_default();
        here.nexthops = nexthops;
        touched.subjects.extend(here.prefixes.iter().cloned().map(Subject::Routes));
        touched.subjects.extend(self.tables.prefixes_to(|to| *to == group).map(Subject::Routes));
        touched.subjects.extend(self.tags.to(|to| *to == group).map(Subject::Tags));
        touched.subjects.insert(Subject::Routes(built::label_of(&group)));
        self.forget_group(&group);
    }

    fn set_route(&mut self, prefix: Name, route: Option<Route>, touched: &mut Touched) {
        let after = route.as_ref().map(|route| route.group.clone());
        let before = match route {
            Some(route) => self.routes.insert(prefix.clone(), route),
            None => self.routes.remove(&prefix),
        };
        if let Some(before) = before
            && let Some(here) = self.groups.get_mut(&before.group)
        {
            here.prefixes.remove(&prefix);
            self.forget_group(&before.group);
        }
        if let Some(group) = after {
            self.groups.entry(group).or_default().prefixes.insert(prefix.clone());
        }
        touched.subjects.insert(Subject::Routes(prefix));
    }

    fn forget_group(&mut self, group: &Label) {
        if self.groups.get(group).is_some_and(|here| here.nexthops.is_empty() && here.prefixes.is_empty()) {
            self.groups.remove(group);
        }
    }

    fn touch_link(&self, link: &Label, touched: &mut Touched) {
        touched.links.extend(self.links.get(link).cloned());
        let uses = |here: &GroupHere| here.nexthops.iter().any(|nexthop| nexthop.link == *link);
        for (group, here) in self.groups.iter().filter(|(_, here)| uses(here)) {
            touched.subjects.extend(here.prefixes.iter().cloned().map(Subject::Routes));
            touched.subjects.insert(Subject::Routes(built::label_of(group)));
        }
        let of_tables = self.tables.prefixes_to(|group| self.groups.get(group).is_some_and(uses));
        touched.subjects.extend(of_tables.map(Subject::Routes));
        let of_tags = self.tags.to(|group| self.groups.get(group).is_some_and(uses));
        touched.subjects.extend(of_tags.map(Subject::Tags));
    }

    /// The routes that this node should have for a prefix. Links that have failed are left out, unless all have.
    pub fn routes_of(&self, prefix: &Name) -> Routes {
        if let Some(group) = built::group_of(prefix) {
            // Nothing of shorter names: a group is what it says.
            return if self.built.len() == 0 { Routes::new() } else { self.routes_to(&group, CAPTURE) };
        }
        let Some(route) = self.routes.get(prefix).or_else(|| self.tables.route(prefix)) else { return Routes::new() };
        let flags = if route.inherit { INHERIT } else { 0 } | if route.capture { CAPTURE } else { 0 };
        self.routes_to(&route.group, flags)
    }

    /// Whether there are sets of tags.
    pub fn has_tags(&self) -> bool {
        self.tags.len() > 0
    }

    /// Where this node should send packets with these tags: to all links of the groups. Links that have failed are left out, as
    /// those of routes.
    pub fn ways_of(&self, descriptor: &Descriptor) -> Routes {
        let ways = self.tags.groups_of(descriptor).flat_map(|group| self.routes_to(group, 0));
        // Tags have no costs.
        ways.map(|(uri, _)| (uri, TOLD)).collect()
    }

    fn routes_to(&self, group: &Label, flags: u64) -> Routes {
        let Some(here) = self.groups.get(group) else { return Routes::new() };
        let mut routes = Routes::new();
        let any_up = here.nexthops.iter().any(|nexthop| self.is_up(&nexthop.link));
        for nexthop in here.nexthops.iter().filter(|nexthop| !any_up || self.is_up(&nexthop.link)) {
            let Some(uri) = self.links.get(&nexthop.link) else { continue };
            let attributes = routes.entry(uri.clone()).or_insert(Attributes { cost: nexthop.cost, flags });
            attributes.cost = attributes.cost.min(nexthop.cost);
        }
        routes
    }

    fn is_up(&self, link: &Label) -> bool {
        self.links.contains_key(link) && !self.down.contains(link)
    }

    /// The strategy that a prefix should have, if the intent has one for it.
    pub fn strategy_of(&self, prefix: &Name) -> Option<&Name> {
        self.strategies.get(prefix)
    }

    /// Whether the link with this address has failed: some link has the address, and all that have it have failed.
    pub fn has_failed(&self, uri: &str) -> bool {
        let mut links = self.links.iter().filter(|(_, of)| &***of == uri).map(|(link, _)| link).peekable();
        links.peek().is_some() && links.all(|link| self.down.contains(link))
    }

    /// Addresses of this node's links.
    pub fn addresses(&self) -> impl Iterator<Item = &Arc<str>> {
        self.links.values()
    }

    /// All that the intent speaks of.
    pub fn subjects(&self) -> impl Iterator<Item = Subject> {
        let routes = self.routes.keys().cloned().map(Subject::Routes);
        let of_tables = self.tables.prefixes_to(|_| true).map(Subject::Routes);
        let of_files = self.labels().map(Subject::Routes).chain([Subject::Files]);
        let tags = self.tags.to(|_| true).map(Subject::Tags);
        let strategies = self.strategies.keys().cloned().map(Subject::Strategy);
        routes.chain(of_tables).chain(tags).chain(of_files).chain(strategies)
    }

    /// Number of links that groups name and that this node does not have.
    pub fn missing_links(&self) -> u64 {
        let named = self.groups.values().flat_map(|here| &here.nexthops);
        let missing: BTreeSet<&Label> =
            named.map(|nexthop| &nexthop.link).filter(|link| !self.links.contains_key(*link)).collect();
        missing.len() as u64
    }
}

//! Writes the RIB's results into the FIB that workers read, and the results of tag routing into the FIB of descriptors.
//!
//! Rules with the same nexthops share one group, so that only distinct groups cost memory. Changes are collected until
//! [`FibWriter::commit`]. A group is published before a rule refers to it. Its id is reused only when no worker can
//! hold it any more. Removed rules and groups are freed together after many commits, because waiting for workers costs
//! more than a change.
//!
//! Where workers run on several memory nodes, each node has a replica of the FIB of names: an engine of its own, with
//! its memory on that node [So §2.4; Hasegawa]. Each change goes to all engines before the commit returns, so all
//! replicas have the same rules. This costs the memory and the work of one more engine for each further node.

pub mod bulk;
pub mod flat;
pub mod partition;
mod rebuild;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;

use byname_face::nodes::on_node;
use byname_forward::FaceId;
use byname_forward::tables::{GROUPS_MAX, Nexthop, NexthopGroup, Tables, TreeFace};
use byname_lookup::prefix::binary_search::{self, BinarySearch};
use byname_lookup::prefix::compact::{self, Compact};
use byname_lookup::prefix::learned::Learned;
use byname_lookup::prefix::level_pulling::{self, LevelPulling};
use byname_lookup::prefix::namespaces::changes::Changes;
use byname_lookup::prefix::two_stage::{self, StartDepth};
use byname_lookup::prefix::{LongestFirst, TwoStage, longest_first};
use byname_lookup::tagset::TagsetFib;
use byname_lookup::{BuildError, Change, Control, EntryId, PrefixFib, Update};
use byname_wire::{Descriptor, Name, NameHashKey, NameRef};
use serde::Deserialize;
use smallvec::SmallVec;

pub use rebuild::{Place, fill};

/// Control half of any prefix engine.
pub type FibEngine = Engine<Names>;
/// Control half of any tag-set engine.
pub type TagFibEngine = Engine<TagSets>;
/// Control half of an engine of this family.
pub type Engine<F> = Box<dyn Control<<F as Family>::Key, Query = <F as Family>::Query> + Send>;

/// A kind of FIB: its keys, its nexthops, and its tables for workers.
pub trait Family {
    /// Key of a rule.
    type Key: Clone + Eq + Hash;
    /// A borrowed key.
    type KeyRef<'k>: Copy;
    /// The half that workers read.
    type Query: ?Sized;
    /// One nexthop.
    type Nexthop: Copy + Eq + Hash;

    /// Converts a borrowed key into an owned one.
    fn key(key: Self::KeyRef<'_>) -> Self::Key;
    /// The key as text, for logs.
    fn text(key: &Self::Key) -> impl Display;
    /// The face of a nexthop.
    fn face(nexthop: &Self::Nexthop) -> FaceId;
    /// Whether the nexthops are in the order of a group, each once.
    fn is_in_order(nexthops: &[Self::Nexthop]) -> bool;
    /// Publishes a new query half of a replica.
    fn replace(tables: &Tables, replica: usize, query: Arc<Self::Query>);
    /// Sets or clears the group of an entry.
    fn set_group(tables: &Tables, entry: EntryId, group: Option<NexthopGroup<Self::Nexthop>>);
}

/// Names, forwarded by their longest prefix.
#[derive(Debug)]
pub enum Names {}

impl Family for Names {
    type Key = Name;
    type KeyRef<'k> = NameRef<'k>;
    type Query = dyn PrefixFib;
    type Nexthop = Nexthop;

    fn key(key: NameRef<'_>) -> Name {
        key.to_name()
    }
    fn text(key: &Name) -> impl Display {
        key.as_ref()
    }
    fn face(nexthop: &Nexthop) -> FaceId {
        nexthop.face
    }
    fn is_in_order(nexthops: &[Nexthop]) -> bool {
        nexthops.is_sorted_by_key(|n| (n.cost, n.face))
    }
    fn replace(tables: &Tables, replica: usize, query: Arc<dyn PrefixFib>) {
        tables.replace_replica(replica, query);
    }
    fn set_group(tables: &Tables, entry: EntryId, group: Option<NexthopGroup>) {
        tables.set_group(entry, group);
    }
}

/// Descriptors: a packet matches those that are subsets of its tags [TagNet §2.2].
#[derive(Debug)]
pub enum TagSets {}

impl Family for TagSets {
    type Key = Descriptor;
    type KeyRef<'k> = &'k Descriptor;
    type Query = dyn TagsetFib;
    type Nexthop = TreeFace;

    fn key(key: &Descriptor) -> Descriptor {
        key.clone()
    }
    fn text(key: &Descriptor) -> impl Display {
        format!("{:?}", key.tags())
    }
    fn face(nexthop: &TreeFace) -> FaceId {
        nexthop.face
    }
    fn is_in_order(nexthops: &[TreeFace]) -> bool {
        nexthops.is_sorted_by(|a, b| a < b)
    }
    fn replace(tables: &Tables, _replica: usize, query: Arc<dyn TagsetFib>) {
        // There is only one.
        tables.replace_tag_fib(query);
    }
    fn set_group(tables: &Tables, entry: EntryId, group: Option<NexthopGroup<TreeFace>>) {
        tables.set_tag_group(entry, group);
    }
}

/// Engines available for the FIB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FibEngineKind {
    /// [`Compact`].
    #[default]
    Compact,
    /// [`Compact`] in its exact mode.
    CompactExact,
    /// [`LongestFirst`].
    LongestFirst,
    /// [`TwoStage`].
    TwoStage,
    /// [`BinarySearch`].
    BinarySearch,
    /// [`LevelPulling`].
    LevelPulling,
    /// [`Learned`].
    Learned,
}

/// Parameters of single engines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FibParameters {
    /// M of [`TwoStage`]: the depth at which its lookups start [So §2.3].
    pub start_depth: StartDepth,
    /// T of [`LevelPulling`]: a prefix with more children than this is a starting point.
    pub children: u32,
}

impl Default for FibParameters {
    fn default() -> Self {
        FibParameters { start_depth: StartDepth::default(), children: level_pulling::Options::default().children }
    }
}

impl FibEngineKind {
    /// All of them.
    pub const ALL: [FibEngineKind; 7] = [
        FibEngineKind::Compact,
        FibEngineKind::CompactExact,
        FibEngineKind::LongestFirst,
        FibEngineKind::TwoStage,
        FibEngineKind::BinarySearch,
        FibEngineKind::LevelPulling,
        FibEngineKind::Learned,
    ];

    /// An empty engine for at most `rules_max` rules, for names hashed under `key`.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn build(self, key: NameHashKey, rules_max: usize) -> Result<FibEngine, BuildError> {
        self.build_with(key, rules_max, &FibParameters::default())
    }

    /// As [`FibEngineKind::build`], with these parameters.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn build_with(
        self,
        key: NameHashKey,
        rules_max: usize,
        &FibParameters { start_depth, children }: &FibParameters,
    ) -> Result<FibEngine, BuildError> {
        let compact = |exact| Compact::new(key, &compact::Options { rules_max, exact, ..compact::Options::default() });
        let table = longest_first::Options { rules_max, ..longest_first::Options::default() };
        // The prefetch that suits bursts, which workers look up.
        let tables = binary_search::Options {
            rules_max,
            prefetch: binary_search::Prefetch::Burst,
            ..binary_search::Options::default()
        };
        Ok(match self {
            FibEngineKind::Compact => Box::new(compact(false)?),
            FibEngineKind::CompactExact => Box::new(compact(true)?),
            FibEngineKind::LongestFirst => Box::new(LongestFirst::with_options(key, table)?),
            FibEngineKind::TwoStage => {
                Box::new(TwoStage::with_options(key, two_stage::Options { table, start_depth })?)
            }
            FibEngineKind::BinarySearch => Box::new(BinarySearch::new(key, tables)?),
            FibEngineKind::LevelPulling => {
                let options = level_pulling::Options { tables, children, ..level_pulling::Options::default() };
                Box::new(LevelPulling::new(key, options)?)
            }
            FibEngineKind::Learned => Box::new(Learned::new(key, rules_max)),
        })
    }
}

/// Most changes applied at once, which bounds their memory.
const BATCH_MAX: usize = 4096;
/// Most unreclaimed removals before a commit waits for workers, which bounds the unused memory.
const UNRECLAIMED_MAX: usize = 4096;

/// A group of nexthops that rules share.
struct Group<N> {
    /// `None` if the id is free or retired.
    nexthops: Option<Arc<[N]>>,
    /// Number of rules that use it.
    rules: u32,
}

/// An engine, and the memory node for what it writes; `None` if it may be on any.
pub struct Replica<F: Family = Names> {
    /// The engine.
    pub engine: Engine<F>,
    /// Number of the node.
    pub node: Option<u32>,
}

/// The only writer of a FIB.
pub struct FibWriter<F: Family = Names> {
    /// At least one, each with its number in the tables. All have the same rules.
    replicas: Vec<(usize, Replica<F>)>,
    tables: Arc<Tables>,
    ids: HashMap<Arc<[F::Nexthop]>, EntryId>,
    /// Indexed by id.
    groups: Vec<Group<F::Nexthop>>,
    /// Faces that workers do not use while others lead to the same names.
    suspended: BTreeSet<FaceId>,
    free: Vec<EntryId>,
    /// Ids that no rule uses once the pending changes are applied.
    retired: Vec<EntryId>,
    /// Ids that no rule uses any more, although workers may still hold them.
    unreclaimed: Vec<EntryId>,
    pending: Vec<Change<F::Key>>,
    /// Pending changes that remove a rule or an entry.
    takes_out: usize,
    /// Removals since the last reclaim.
    taken_out: usize,
    /// Whether a worker may still read the previous query half.
    replaced: bool,
    /// Query halves of replaced engines that workers may still have.
    outlived: Vec<Arc<F::Query>>,
    /// The latest change of each rule since engines began to be filled: its new group, or `None` for a removal.
    noted: Option<HashMap<F::Key, Option<EntryId>>>,
    /// Rules that others follow.
    watched: HashSet<F::Key>,
    /// Those that may lead elsewhere since [`FibWriter::take_changed`].
    changed: HashSet<F::Key>,
    rules: usize,
    failures: u64,
}

impl<F: Family> FibWriter<F> {
    /// A writer for `engine`, whose query half is in `tables`.
    pub fn new(engine: Engine<F>, tables: Arc<Tables>) -> Self {
        FibWriter::replicated(vec![Replica { engine, node: None }], tables)
    }

    /// A writer for replicas that have no rules yet. Their query halves are in `tables`, in the same order.
    ///
    /// # Panics
    /// If there are none.
    pub fn replicated(replicas: Vec<Replica<F>>, tables: Arc<Tables>) -> Self {
        assert!(!replicas.is_empty(), "a FIB has an engine");
        FibWriter {
            replicas: replicas.into_iter().enumerate().collect(),
            tables,
            ids: HashMap::new(),
            groups: Vec::new(),
            suspended: BTreeSet::new(),
            free: Vec::new(),
            retired: Vec::new(),
            unreclaimed: Vec::new(),
            pending: Vec::new(),
            takes_out: 0,
            taken_out: 0,
            replaced: false,
            outlived: Vec::new(),
            noted: None,
            watched: HashSet::new(),
            changed: HashSet::new(),
            rules: 0,
            failures: 0,
        }
    }

    /// Number of rules in the FIB.
    pub fn len(&self) -> usize {
        self.rules
    }

    /// Whether the FIB has no rules.
    pub fn is_empty(&self) -> bool {
        self.rules == 0
    }

    /// Number of changes that the FIB refused because it was full: too many groups, rules or colliding names.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// Whether an id is available for another distinct group.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty() || !self.unreclaimed.is_empty() || self.groups.len() < GROUPS_MAX as usize
    }

    /// The tables that this writer publishes to.
    pub fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    /// The nexthops of a group, in their order.
    pub fn nexthops(&self, group: EntryId) -> &[F::Nexthop] {
        self.groups[group.0 as usize].nexthops.as_deref().unwrap_or_default()
    }

    /// Sets the nexthops of the rule for `key`, or removes the rule if `nexthops` is empty. `nexthops` has each face
    /// once, in the order of [`NexthopGroup`]. `current` is the group of the rule, which this call updates.
    pub fn set(&mut self, key: F::KeyRef<'_>, current: &mut Option<EntryId>, nexthops: &[F::Nexthop]) {
        debug_assert!(F::is_in_order(nexthops));
        if nexthops.is_empty() {
            self.clear(key, current);
            return;
        }
        let is_new = current.is_none();
        if self.hold(current, nexthops)
            && let Some(group) = *current
        {
            self.rules += usize::from(is_new);
            self.push(Change::Set(F::key(key), group));
        }
    }

    /// As [`FibWriter::set`], for a rule that the engine has by itself, and that it leads to the group in `current` when this
    /// returns. Returns whether that is another one than before.
    pub fn hold(&mut self, current: &mut Option<EntryId>, nexthops: &[F::Nexthop]) -> bool {
        if current.map_or(&[][..], |group| self.nexthops(group)) == nexthops {
            return false;
        }
        let group = if nexthops.is_empty() { None } else { self.intern(nexthops) };
        match group {
            Some(group) => self.groups[group.0 as usize].rules += 1,
            None if nexthops.is_empty() => {}
            None => {
                self.failures += 1;
                tracing::error!("the FIB has no room for one more distinct group of nexthops");
                return false;
            }
        }
        if let Some(old) = std::mem::replace(current, group) {
            self.release(old);
        }
        true
    }

    /// From now on, [`FibWriter::take_changed`] tells of rules with these keys, and of no others.
    pub fn watch(&mut self, keys: impl IntoIterator<Item = F::Key>) {
        self.watched = keys.into_iter().collect();
        self.changed.retain(|key| self.watched.contains(key));
    }

    /// Watched rules that may lead elsewhere since the last call.
    pub fn take_changed(&mut self) -> impl Iterator<Item = F::Key> + use<F> {
        std::mem::take(&mut self.changed).into_iter()
    }

    /// Removes the rule for `key`.
    pub fn clear(&mut self, key: F::KeyRef<'_>, current: &mut Option<EntryId>) {
        if let Some(old) = current.take() {
            self.release(old);
            self.rules -= 1;
            self.push(Change::Remove(F::key(key)));
        }
    }

    /// Removes a face from all groups at once. Rules keep their groups until they are set again. The cost therefore
    /// depends on the number of groups, not on millions of rules.
    pub fn detach_face(&mut self, face: FaceId) {
        for id in self.groups_of(face) {
            let others: Vec<_> = self.nexthops(id).iter().filter(|n| F::face(n) != face).copied().collect();
            self.publish(id, &others);
        }
    }

    /// Lets workers use this face only for rules that have no other nexthop. Rules keep their groups, and new groups are
    /// affected, too. Returns the number of groups that have changed. As with [`FibWriter::detach_face`], the cost does
    /// not depend on the number of rules.
    pub fn suspend_face(&mut self, face: FaceId) -> usize {
        if !self.suspended.insert(face) {
            return 0;
        }
        self.publish_groups_of(face)
    }

    /// Ends [`FibWriter::suspend_face`]. Returns the number of groups that have changed.
    pub fn resume_face(&mut self, face: FaceId) -> usize {
        if !self.suspended.remove(&face) {
            return 0;
        }
        self.publish_groups_of(face)
    }

    fn publish_groups_of(&mut self, face: FaceId) -> usize {
        self.changed.extend(self.watched.iter().cloned());
        let ids = self.groups_of(face);
        ids.iter().for_each(|id| self.publish(*id, self.nexthops(*id)));
        ids.len()
    }

    /// The groups with this face.
    fn groups_of(&self, face: FaceId) -> Vec<EntryId> {
        let leads_to = |group: &Group<F::Nexthop>| {
            group.nexthops.iter().flat_map(|nexthops| &**nexthops).any(|n| F::face(n) == face)
        };
        (0..).zip(&self.groups).filter(|(_, group)| leads_to(group)).map(|(id, _)| EntryId(id)).collect()
    }

    /// Lets workers see the nexthops of a group, without those that are suspended. If all are, workers see them all:
    /// nothing is lost by trying.
    fn publish(&self, id: EntryId, nexthops: &[F::Nexthop]) {
        let is_used = |nexthop: &&F::Nexthop| !self.suspended.contains(&F::face(nexthop));
        let used: Box<[_]> = nexthops.iter().filter(is_used).copied().collect();
        let nexthops = if used.is_empty() { nexthops.into() } else { used };
        F::set_group(&self.tables, id, Some(NexthopGroup { nexthops }));
    }

    /// Makes room for this many more rules, so that the engines need not grow again and again. All changes so far become
    /// visible.
    pub fn expect(&mut self, rules: usize) {
        self.commit();
        if self.replaced {
            self.reclaim();
        }
        for (_, Replica { engine, node }) in &mut self.replicas {
            if let Err(error) = on_node(*node, || engine.expect(rules)) {
                tracing::debug!(%error, rules, "no room is made for rules that come");
            }
        }
    }

    /// Makes all changes so far visible to workers. Removed entries are freed at once if no worker is in a burst, and
    /// otherwise by a later commit.
    pub fn commit(&mut self) {
        self.free_outlived();
        if self.pending.is_empty() && self.retired.is_empty() {
            return;
        }
        let changes = std::mem::take(&mut self.pending);
        if !changes.is_empty() && self.apply(&changes).is_err() {
            // Freeing removed entries may make the room that is missing.
            self.reclaim();
            for change in &changes {
                if let Err((before, error)) = self.apply(std::slice::from_ref(change)) {
                    self.note_failure(change, &error);
                    if before > 0 {
                        self.forget(change);
                    }
                }
            }
        }
        self.pending = changes;
        self.pending.clear();
        self.unreclaimed.append(&mut self.retired);
        self.taken_out += std::mem::take(&mut self.takes_out);
        if self.taken_out > 0 || self.replaced {
            let tables = self.tables.clone();
            let grace = tables.grace();
            if grace.passed() {
                self.free_unreclaimed();
            } else if self.taken_out >= UNRECLAIMED_MAX {
                grace.wait();
                self.free_unreclaimed();
            }
        }
    }

    /// Applies changes to all replicas. If one of them refuses, returns how many before it have the changes.
    fn apply(&mut self, changes: &[Change<F::Key>]) -> Result<(), (usize, BuildError)> {
        if self.replaced {
            // An engine can change only the query half that it returned last.
            self.reclaim();
        }
        let (mut queries, mut refused) = (SmallVec::<[_; 1]>::new(), Ok(()));
        for (before, (number, Replica { engine, node })) in self.replicas.iter_mut().enumerate() {
            match on_node(*node, || engine.apply(changes)) {
                Ok(Update::Replace(query)) => queries.push((*number, query)),
                Ok(Update::Patched) => {}
                Err(error) => {
                    refused = Err((before, error));
                    break;
                }
            }
        }
        for (number, query) in queries {
            F::replace(&self.tables, number, query);
            self.replaced = true;
        }
        refused
    }

    /// Removes a rule that only some replicas have taken, so that all answer alike.
    fn forget(&mut self, change: &Change<F::Key>) {
        let (Change::Set(key, _) | Change::Remove(key)) = change;
        let removal = Change::Remove(key.clone());
        if let Err((_, error)) = self.apply(std::slice::from_ref(&removal)) {
            tracing::error!(key = %F::text(key), %error, "replicas of the FIB differ");
        }
    }

    fn note_failure(&mut self, change: &Change<F::Key>, error: &BuildError) {
        self.failures += 1;
        let (Change::Set(key, _) | Change::Remove(key)) = change;
        tracing::error!(key = %F::text(key), %error, "the FIB refuses a rule");
    }

    /// Waits until no worker can see removed entries, at most one burst, and frees them.
    fn reclaim(&mut self) {
        self.tables.grace().wait();
        self.free_unreclaimed();
    }

    /// Must follow a grace period that began after the last change.
    fn free_unreclaimed(&mut self) {
        self.replicas.iter_mut().for_each(|(_, replica)| replica.engine.reclaim());
        self.taken_out = 0;
        self.replaced = false;
        for id in self.unreclaimed.drain(..) {
            F::set_group(&self.tables, id, None);
            self.free.push(id);
        }
    }

    fn intern(&mut self, nexthops: &[F::Nexthop]) -> Option<EntryId> {
        if let Some(id) = self.ids.get(nexthops) {
            return Some(*id);
        }
        let exhausted = self.free.is_empty() && self.groups.len() == GROUPS_MAX as usize;
        if exhausted && !self.unreclaimed.is_empty() {
            self.reclaim();
        }
        let id = match self.free.pop() {
            Some(id) => id,
            None if self.groups.len() < GROUPS_MAX as usize => {
                self.groups.push(Group { nexthops: None, rules: 0 });
                EntryId(self.groups.len() as u32 - 1)
            }
            None => return None,
        };
        let nexthops: Arc<[F::Nexthop]> = nexthops.into();
        self.publish(id, &nexthops);
        self.groups[id.0 as usize].nexthops = Some(nexthops.clone());
        self.ids.insert(nexthops, id);
        Some(id)
    }

    fn release(&mut self, id: EntryId) {
        self.takes_out += 1;
        let group = &mut self.groups[id.0 as usize];
        group.rules -= 1;
        if group.rules == 0
            && let Some(nexthops) = group.nexthops.take()
        {
            self.ids.remove(&*nexthops);
            self.retired.push(id);
        }
    }

    fn push(&mut self, change: Change<F::Key>) {
        if let Some(noted) = &mut self.noted {
            let (key, group) = match &change {
                Change::Set(key, group) => (key, Some(*group)),
                Change::Remove(key) => (key, None),
            };
            noted.insert(key.clone(), group);
        }
        let (Change::Set(key, _) | Change::Remove(key)) = &change;
        if self.watched.contains(key) {
            self.changed.insert(key.clone());
        }
        self.pending.push(change);
        if self.pending.len() >= BATCH_MAX {
            self.commit();
        }
    }
}

impl FibWriter<Names> {
    /// In each engine, the key and the changes of the flat namespace with this prefix, if there is one.
    pub fn flat_changes(&self, prefix: NameRef<'_>) -> Vec<(NameHashKey, Arc<Changes>)> {
        let of_engine = |(_, replica): &(usize, Replica)| {
            let query = replica.engine.query();
            query.flat_changes(prefix).map(|(key, changes)| (*key, changes.clone()))
        };
        self.replicas.iter().filter_map(of_engine).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use byname_lookup::oracle::Oracle;
    use byname_lookup::prefix::LongestFirst;
    use byname_wire::{NameHashKey, NameView, PrefixHashes};

    use super::*;

    fn nexthops(faces: &[u64]) -> Vec<Nexthop> {
        faces.iter().map(|&face| Nexthop { face: FaceId(face), cost: 1 }).collect()
    }

    fn writer() -> FibWriter {
        let engine = Oracle::new();
        let tables = Arc::new(Tables::new(engine.query()));
        FibWriter::new(Box::new(engine), tables)
    }

    #[test]
    fn rules_that_forward_alike_share_a_group_until_the_last_is_gone() {
        let mut fib = writer();
        let names: Vec<Name> = ["/a", "/b"].map(|n| n.parse().expect("a name")).into();
        let mut groups = [None, None];
        for (name, group) in names.iter().zip(&mut groups) {
            fib.set(name.as_ref(), group, &nexthops(&[256]));
        }
        fib.commit();
        assert_eq!((groups[0], fib.len()), (groups[1], 2));
        let id = groups[0].expect("set");
        assert_eq!(*fib.tables().group(id).expect("set").nexthops, nexthops(&[256]));

        fib.set(names[0].as_ref(), &mut groups[0], &nexthops(&[257, 258]));
        fib.commit();
        assert!(fib.tables().group(id).is_some());
        fib.detach_face(FaceId(257));
        assert_eq!(*fib.tables().group(groups[0].expect("set")).expect("set").nexthops, nexthops(&[258]));
        fib.clear(names[1].as_ref(), &mut groups[1]);
        assert!(fib.tables().group(id).is_some(), "a worker may still find the rule");
        fib.commit();
        assert!(fib.tables().group(id).is_none());
        fib.set(names[1].as_ref(), &mut groups[1], &nexthops(&[259]));
        assert_eq!(groups[1], Some(id), "ids are used again");
        assert_eq!(fib.failures(), 0);
    }

    #[test]
    fn watched_rules_are_told_when_they_may_lead_elsewhere() {
        let mut fib = writer();
        let names: Vec<Name> = ["/a", "/b"].map(|n| n.parse().expect("a name")).into();
        let (mut a, mut b) = (None, None);
        fib.watch([names[0].clone()]);
        let told = |fib: &mut FibWriter| fib.take_changed().collect::<Vec<_>>();
        fib.set(names[0].as_ref(), &mut a, &nexthops(&[256, 257]));
        fib.set(names[1].as_ref(), &mut b, &nexthops(&[256]));
        assert_eq!((told(&mut fib), told(&mut fib)), (vec![names[0].clone()], vec![]));
        fib.set(names[0].as_ref(), &mut a, &nexthops(&[256, 257]));
        assert_eq!(told(&mut fib), [], "nothing has changed");
        fib.suspend_face(FaceId(256));
        assert_eq!(told(&mut fib), [names[0].clone()]);
        fib.resume_face(FaceId(256));
        fib.clear(names[0].as_ref(), &mut a);
        assert_eq!(told(&mut fib), [names[0].clone()]);
        fib.watch([]);
        fib.set(names[0].as_ref(), &mut a, &nexthops(&[256]));
        assert_eq!(told(&mut fib), []);
    }

    #[test]
    fn groups_that_are_held_without_a_rule_are_freed_too() {
        let mut fib = writer();
        let mut held = None;
        assert!(!fib.hold(&mut held, &[]) && fib.hold(&mut held, &nexthops(&[256])));
        let first = held.expect("held");
        assert!(!fib.hold(&mut held, &nexthops(&[256])) && fib.hold(&mut held, &nexthops(&[257])));
        assert_eq!(*fib.tables().group(held.expect("held")).expect("set").nexthops, nexthops(&[257]));
        assert!(fib.tables().group(first).is_some(), "a worker may still find it");
        fib.commit();
        assert!(fib.tables().group(first).is_none());
        assert!(fib.hold(&mut held, &[]) && held.is_none());
        fib.commit();
        assert_eq!((fib.len(), fib.failures(), fib.tables().group(first).is_none()), (0, 0, true));
    }

    #[test]
    fn a_suspended_face_is_out_of_all_groups_that_have_others() {
        let engine = LongestFirst::new(NameHashKey::new([1, 2]), 1 << 17);
        let tables = Arc::new(Tables::new(engine.query()));
        let mut fib: FibWriter = FibWriter::new(Box::new(engine), tables);
        let names: Vec<Name> = (0..100_000).map(|i| format!("/a/{i}").parse().expect("a name")).collect();
        let (mut groups, mut alone, mut late) = (vec![None; names.len()], None, None);
        for (name, group) in names.iter().zip(&mut groups) {
            fib.set(name.as_ref(), group, &nexthops(&[256, 257]));
        }
        let only: Name = "/only".parse().expect("a name");
        fib.set(only.as_ref(), &mut alone, &nexthops(&[256]));
        fib.commit();
        let seen = |fib: &FibWriter, group: Option<EntryId>| {
            let group = fib.tables().group(group.expect("set")).expect("set");
            group.nexthops.iter().map(|n| n.face.0).collect::<Vec<_>>()
        };
        let group = groups[7];
        assert_eq!(fib.suspend_face(FaceId(256)), 2, "two writes for a hundred thousand rules");
        assert_eq!((seen(&fib, group), seen(&fib, alone)), (vec![257], vec![256]));
        assert_eq!(fib.suspend_face(FaceId(256)), 0, "it is suspended already");
        // A group that comes later.
        let new: Name = "/new".parse().expect("a name");
        fib.set(new.as_ref(), &mut late, &nexthops(&[256, 258]));
        fib.commit();
        assert_eq!(seen(&fib, late), [258]);
        assert_eq!(fib.suspend_face(FaceId(257)), 1);
        assert_eq!(seen(&fib, group), [256, 257], "there is no third");
        assert_eq!((fib.resume_face(FaceId(256)), seen(&fib, group)), (3, vec![256]));
        assert_eq!((fib.resume_face(FaceId(257)), seen(&fib, group)), (1, vec![256, 257]));
        assert_eq!((fib.resume_face(FaceId(257)), seen(&fib, late)), (0, vec![256, 258]));
    }

    #[test]
    fn every_engine_of_the_configuration_serves_a_fib() {
        let key = NameHashKey::new([1, 2]);
        for kind in FibEngineKind::ALL {
            let engine = kind.build(key, 1000).expect("little memory");
            let tables = Arc::new(Tables::new(engine.query()));
            let mut fib: FibWriter = FibWriter::new(engine, Arc::clone(&tables));
            let names: Vec<Name> = ["/", "/a", "/a/b/c", "/a/b/c/d/e/f"].map(|n| n.parse().expect("a name")).into();
            let mut groups = [None; 4];
            for ((name, group), face) in names.iter().zip(&mut groups).zip(256..) {
                fib.set(name.as_ref(), group, &nexthops(&[face]));
            }
            fib.commit();
            let mut reader = tables.reader();
            reader.begin_burst();
            let face_of = |uri: &str| {
                let name: Name = uri.parse().expect("a name");
                let mut hashes = PrefixHashes::default();
                hashes.fill(&key, name.as_ref());
                let found = reader.fib().longest_match(&NameView::from_filled(name.as_ref(), &hashes));
                found.map(|m| tables.group(m.entry).expect("set").nexthops[0].face.0)
            };
            for (uri, face) in [("/x", 256), ("/a/b/x", 257), ("/a/b/c/d/x", 258), ("/a/b/c/d/e/f/g", 259)] {
                assert_eq!(face_of(uri), Some(face), "{kind:?}: {uri}");
            }
            reader.end_burst();
            fib.clear(names[2].as_ref(), &mut groups[2]);
            fib.clear(names[0].as_ref(), &mut groups[0]);
            fib.commit();
            reader.begin_burst();
            let matches = |uri: &str| {
                let name: Name = uri.parse().expect("a name");
                let mut hashes = PrefixHashes::default();
                hashes.fill(&key, name.as_ref());
                reader.fib().longest_match(&NameView::from_filled(name.as_ref(), &hashes)).map(|m| m.entry)
            };
            assert_eq!((matches("/a/b/c/x"), matches("/x")), (groups[1], None), "{kind:?}");
            reader.end_burst();
            assert_eq!((fib.failures(), fib.len()), (0, 2), "{kind:?}");
        }
    }

    #[test]
    fn what_is_taken_out_is_freed_when_no_worker_can_see_it_and_no_wait_comes_before_the_bound() {
        let engine = LongestFirst::new(NameHashKey::new([1, 2]), 1 << 16);
        let tables = Arc::new(Tables::new(engine.query()));
        let mut worker = tables.reader();
        let mut fib: FibWriter = FibWriter::new(Box::new(engine), tables.clone());
        let name: Name = "/a".parse().expect("a name");
        let (mut group, mut id) = (None, EntryId(0));
        // The worker stays in one burst: a wait would never end.
        worker.begin_burst();
        for face in 256..256 + UNRECLAIMED_MAX as u64 {
            fib.set(name.as_ref(), &mut group, &nexthops(&[face]));
            fib.commit();
            id = if face == 256 { group.expect("set") } else { id };
            assert!(tables.group(id).is_some(), "the worker may have it in hand");
        }
        worker.end_burst();
        fib.set(name.as_ref(), &mut group, &nexthops(&[1]));
        fib.commit();
        assert!(tables.group(id).is_none());
        assert_eq!((fib.unreclaimed.len(), fib.taken_out), (0, 0));
    }

    #[test]
    fn a_commit_waits_for_workers_that_have_an_older_query_half() {
        // Every batch replaces the oracle's query half.
        let mut fib = writer();
        let mut worker = fib.tables().reader();
        worker.begin_burst();
        let names: Vec<Name> = ["/a", "/b"].map(|n| n.parse().expect("a name")).into();
        fib.set(names[0].as_ref(), &mut None, &nexthops(&[256]));
        fib.commit();
        let committed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                fib.set(names[1].as_ref(), &mut None, &nexthops(&[256]));
                fib.commit();
                committed.store(true, Ordering::Release);
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!committed.load(Ordering::Acquire));
            // A thread that starts late waits for a later burst.
            while !committed.load(Ordering::Acquire) {
                worker.begin_burst();
                std::thread::yield_now();
            }
        });
    }
}

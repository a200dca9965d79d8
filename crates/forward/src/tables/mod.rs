//! Tables that the worker reads and the control side writes, without locks. They are the FIB with the nexthop groups of
//! its entries, the same for descriptors, and the trees.

mod announcements;
mod groups;
mod lines;

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::ArcSwap;
use byname_lookup::locator::Trees;
use byname_lookup::oracle::TagsetOracle;
use byname_lookup::prefix::compact;
use byname_lookup::tagset::TagsetFib;
use byname_lookup::{EntryId, PrefixFib};
use byname_wire::{FaceId, NameRef, TreeId};

use crate::publish::{Epochs, Grace, Reader};
use crate::sync::Mutex;
pub use announcements::Announcements;
use groups::Groups;
use lines::Lines;

/// Group ids are below this number, because every FIB engine can store such ids. Rules that forward alike share a
/// group, so even millions of rules need few groups.
pub const GROUPS_MAX: u32 = compact::ENTRIES_MAX;
/// One way to forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nexthop {
    /// The face to forward to.
    pub face: FaceId,
    /// The route's cost; lower is better.
    pub cost: u64,
}

/// One way to forward a packet that matches a descriptor [TagNet §3.2].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TreeFace {
    /// The tree whose packets may go to `face`.
    pub tree: TreeId,
    /// The face to forward to.
    pub face: FaceId,
}

/// The nexthops of all rules that forward alike. Nexthops for names are sorted by rising cost, then face id, with at
/// most one for each face. Those for descriptors are sorted by tree, then face id, without duplicates.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NexthopGroup<N = Nexthop> {
    /// Sorted and without duplicates.
    pub nexthops: Box<[N]>,
}

impl NexthopGroup<TreeFace> {
    /// The faces for packets of this tree, in order of their ids.
    #[inline]
    pub fn faces(&self, tree: TreeId) -> impl Iterator<Item = FaceId> {
        let first = self.nexthops.partition_point(|n| n.tree < tree);
        self.nexthops[first..].iter().take_while(move |n| n.tree == tree).map(|n| n.face)
    }
}

/// The tables that one control side shares with its workers.
pub struct Tables {
    fib: ArcSwap<Holder<dyn PrefixFib>>,
    groups: Groups<Nexthop>,
    /// A copy of those groups that fit in a cache line.
    lines: Lines,
    writing_group: Mutex<()>,
    tag_fib: ArcSwap<Holder<dyn TagsetFib>>,
    tag_groups: Groups<TreeFace>,
    trees: ArcSwap<Trees>,
    announcements: ArcSwap<Announcements>,
    epochs: Arc<Epochs>,
}

/// `ArcSwap` wants a sized type.
struct Holder<Q: ?Sized>(Arc<Q>);

impl Tables {
    /// Tables with this FIB, no groups, no descriptors and no trees.
    pub fn new(fib: Arc<dyn PrefixFib>) -> Self {
        Tables {
            fib: ArcSwap::from_pointee(Holder(fib)),
            groups: Groups::new(),
            lines: Lines::new(),
            writing_group: Mutex::new(()),
            tag_fib: ArcSwap::from_pointee(Holder(Arc::new(TagsetOracle::new()) as Arc<dyn TagsetFib>)),
            tag_groups: Groups::new(),
            trees: ArcSwap::default(),
            announcements: ArcSwap::default(),
            epochs: Arc::new(Epochs::new()),
        }
    }
    /// Publishes a new query half.
    pub fn replace_fib(&self, fib: Arc<dyn PrefixFib>) {
        self.fib.store(Arc::new(Holder(fib)));
    }
    /// The current query half.
    ///
    /// For inspection. Answers stay valid only until the next `Control::reclaim`, which waits for [`TablesReader`]s and
    /// nobody else.
    pub fn fib(&self) -> Arc<dyn PrefixFib> {
        self.fib.load().0.clone()
    }
    /// Sets or clears the group of an entry, in constant time. The caller sets a group before a rule names it, and
    /// clears the group after the last such rule is gone.
    ///
    /// # Panics
    /// If the id is not below [`GROUPS_MAX`].
    pub fn set_group(&self, entry: EntryId, group: Option<NexthopGroup>) {
        let nexthops = group.as_ref().map(|group| group.nexthops.clone()).unwrap_or_default();
        let _writing = self.writing_group.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.groups.set(entry, group);
        self.lines.set(entry, &nexthops);
    }
    /// The group of an entry.
    pub fn group(&self, entry: EntryId) -> Option<Arc<NexthopGroup>> {
        self.groups.slot(entry)?.load_full()
    }
    /// As [`TablesReader::nexthops`], for groups that are too large for a line or are being written.
    #[cold]
    fn group_nexthops(&self, entry: EntryId, nexthops: &mut Vec<Nexthop>) {
        if let Some(group) = self.groups.slot(entry).and_then(|slot| slot.load_full()) {
            nexthops.extend_from_slice(&group.nexthops);
        }
    }
    /// Publishes a new query half for descriptors.
    pub fn replace_tag_fib(&self, tag_fib: Arc<dyn TagsetFib>) {
        self.tag_fib.store(Arc::new(Holder(tag_fib)));
    }
    /// Sets or clears the group of an entry of the descriptors' FIB, as [`Tables::set_group`].
    ///
    /// # Panics
    /// If the id is not below [`GROUPS_MAX`].
    pub fn set_tag_group(&self, entry: EntryId, group: Option<NexthopGroup<TreeFace>>) {
        self.tag_groups.set(entry, group);
    }
    /// Publishes the trees that this router belongs to.
    pub fn replace_trees(&self, trees: Trees) {
        self.trees.store(Arc::new(trees));
    }
    /// The trees that this router belongs to.
    pub fn trees(&self) -> Arc<Trees> {
        self.trees.load_full()
    }
    /// Publishes the announcements of this router's routes.
    pub fn replace_announcements(&self, announcements: Announcements) {
        self.announcements.store(Arc::new(announcements));
    }
    /// A worker's view, offline until its first [`TablesReader::begin_burst`].
    pub fn reader(self: &Arc<Self>) -> TablesReader {
        TablesReader { fib: self.fib.load_full(), epoch: self.epochs.reader(), tables: self.clone() }
    }
    /// Begins to wait until no [`TablesReader`] can see what was removed from the tables so far. The caller does this
    /// after `Control::apply` (and [`Tables::replace_fib`], if `apply` asks for it). It waits before
    /// `Control::reclaim`, and before it reuses the id of a group that no rule names any more.
    pub fn grace(&self) -> Grace<'_> {
        self.epochs.grace()
    }
    /// Resident memory of both FIBs and their groups, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let names = self.fib.load().0.memory_bytes() + self.groups.memory_bytes() + self.lines.memory_bytes();
        names + self.tag_fib.load().0.memory_bytes() + self.tag_groups.memory_bytes()
    }
}

/// A group that does not change while this reference lives, whatever the control side does.
pub struct GroupRef(arc_swap::Guard<Option<Arc<NexthopGroup<TreeFace>>>>);

impl Deref for GroupRef {
    type Target = NexthopGroup<TreeFace>;
    fn deref(&self) -> &NexthopGroup<TreeFace> {
        self.0.as_deref().expect("made from a group only")
    }
}

/// The descriptors' query half at the time of the call.
pub struct TagFibRef(arc_swap::Guard<Arc<Holder<dyn TagsetFib>>>);

impl Deref for TagFibRef {
    type Target = dyn TagsetFib;
    fn deref(&self) -> &(dyn TagsetFib + 'static) {
        &*self.0.0
    }
}

/// One worker's view of the tables.
///
/// It keeps the FIB at hand and checks once per burst whether the FIB was replaced. Items that the control side removes
/// stay valid for this reader from `begin_burst` to the next `begin_burst` or `end_burst`.
pub struct TablesReader {
    fib: Arc<Holder<dyn PrefixFib>>,
    epoch: Reader,
    tables: Arc<Tables>,
}

impl TablesReader {
    /// Passes a quiescent point and checks whether the FIB was replaced.
    #[inline]
    pub fn begin_burst(&mut self) {
        if self.epoch.is_online() {
            self.epoch.quiescent();
        } else {
            self.epoch.online();
        }
        let fib = self.tables.fib.load();
        if !Arc::ptr_eq(&fib, &self.fib) {
            self.fib = arc_swap::Guard::into_inner(fib);
        }
    }

    /// Lets the control side go on without this reader until its next burst. The thread must call this before it
    /// sleeps. A thread that does not know when it sleeps may call it after each burst, at the cost of one memory fence
    /// per burst.
    pub fn end_burst(&mut self) {
        self.epoch.offline();
    }

    /// The FIB of this burst.
    #[inline]
    pub fn fib(&self) -> &dyn PrefixFib {
        debug_assert!(self.epoch.is_online(), "lookups are between begin_burst and end_burst");
        &*self.fib.0
    }

    /// Replaces the content of `nexthops` by the nexthops of an entry that the FIB returned in this burst; by none if
    /// there is no such group.
    #[inline]
    pub fn nexthops(&self, entry: EntryId, nexthops: &mut Vec<Nexthop>) {
        nexthops.clear();
        if !self.tables.lines.nexthops(entry, nexthops) {
            self.tables.group_nexthops(entry, nexthops);
        }
    }

    /// Prefetches the nexthops of an entry.
    #[inline]
    pub(crate) fn prefetch_nexthops(&self, entry: EntryId) {
        self.tables.lines.prefetch(entry);
    }

    /// The descriptors' FIB. The caller must drop it before the burst ends: a burst without packets for it does not
    /// check whether it was replaced.
    #[inline]
    pub fn tag_fib(&self) -> TagFibRef {
        debug_assert!(self.epoch.is_online(), "lookups are between begin_burst and end_burst");
        TagFibRef(self.tables.tag_fib.load())
    }

    /// The group of an entry that the descriptors' FIB returned in this burst.
    #[inline]
    pub fn tag_group(&self, entry: EntryId) -> Option<GroupRef> {
        let group = self.tables.tag_groups.slot(entry)?.load();
        group.is_some().then_some(GroupRef(group))
    }

    /// The trees that this router belongs to.
    #[inline]
    pub fn trees(&self) -> impl Deref<Target = Arc<Trees>> + use<> {
        self.tables.trees.load()
    }

    /// The announcement (a Data packet) of the longest announced prefix of a name.
    pub fn announcement(&self, name: NameRef<'_>) -> Option<Arc<[u8]>> {
        self.tables.announcements.load().covering(name).cloned()
    }

    /// The tables that it reads.
    pub fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use byname_lookup::oracle::Oracle;

    fn group(face: u64) -> NexthopGroup {
        NexthopGroup { nexthops: [Nexthop { face: FaceId(face), cost: 1 }].into() }
    }

    #[test]
    fn groups_are_set_replaced_and_cleared() {
        let tables = Arc::new(Tables::new(Arc::new(Oracle::new())));
        let reader = tables.reader();
        let nexthops = |id: EntryId| {
            // Old content, which the reader must replace.
            let mut nexthops = group(1).nexthops.into_vec();
            reader.nexthops(id, &mut nexthops);
            nexthops
        };
        for id in [0, 1023, 1024, GROUPS_MAX - 1] {
            let id = EntryId(id);
            assert_eq!(tables.group(id), None);
            tables.set_group(id, None);
            tables.set_group(id, Some(group(256)));
            assert_eq!(nexthops(id)[..], *group(256).nexthops);
            tables.set_group(id, Some(group(257)));
            assert_eq!(nexthops(id)[..], *group(257).nexthops);
            assert_eq!(tables.group(id).as_deref(), Some(&group(257)));
            for count in 0..6 {
                let some = (0..count).map(|i| Nexthop { face: FaceId(256 + i), cost: i }).collect::<Box<[_]>>();
                tables.set_group(id, Some(NexthopGroup { nexthops: some.clone() }));
                assert_eq!(nexthops(id)[..], *some);
            }
            tables.set_group(id, None);
            assert!(nexthops(id).is_empty());
        }
        assert_eq!(tables.group(EntryId(GROUPS_MAX)), None);
        assert!(nexthops(EntryId(GROUPS_MAX)).is_empty());
    }

    #[test]
    #[should_panic(expected = "below GROUPS_MAX")]
    fn an_id_beyond_the_last_group_is_a_mistake_of_the_caller() {
        Tables::new(Arc::new(Oracle::new())).set_group(EntryId(GROUPS_MAX), Some(group(256)));
    }

    #[test]
    fn a_reader_keeps_its_fib_for_a_burst_and_holds_up_reclaiming_meanwhile() {
        let tables = Arc::new(Tables::new(Arc::new(Oracle::new())));
        let mut reader = tables.reader();
        reader.begin_burst();
        let first = reader.fib().memory_bytes();
        let weak = Arc::downgrade(&tables.fib());
        tables.replace_fib(Arc::new(Oracle::new()));
        let grace = tables.grace();
        assert!(!grace.passed());
        assert_eq!(reader.fib().memory_bytes(), first);
        assert!(weak.upgrade().is_some());
        reader.begin_burst();
        assert!(grace.passed());
        assert!(weak.upgrade().is_none(), "nobody keeps the old FIB");
        let grace = tables.grace();
        reader.end_burst();
        grace.wait();
    }
}

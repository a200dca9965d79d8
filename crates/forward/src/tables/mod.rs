//! Tables that the worker reads and the control side writes, without locks. They are the FIB with the nexthop groups of
//! its entries, the same for descriptors, and the trees.
//!
//! Where workers run on several memory nodes, each node has a replica of the FIB's query half [So §2.4; Hasegawa]. The
//! control side changes all of them. The groups of nexthops are few, so there is one copy of these.
//!
//! There is room for each replica twice, in two *sides*. One of them is in use. A FIB for names that are hashed with
//! another key goes to the other side, and each worker goes there when its own tables have that key.

mod announcements;
mod groups;
mod lines;

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::ArcSwap;
use byname_lookup::locator::Trees;
use byname_lookup::oracle::{Oracle, TagsetOracle};
use byname_lookup::prefix::compact;
use byname_lookup::publish::{Epochs, Grace, Reader};
use byname_lookup::tagset::TagsetFib;
use byname_lookup::{EntryId, PrefixFib};
use byname_wire::{FaceId, NameRef, TreeId};

use crate::sync::{AtomicU64, Mutex, Ordering};
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
    /// The replicas of the FIB, at least one: those of the first side, then those of the second.
    fibs: Box<[ArcSwap<Holder<dyn PrefixFib>>]>,
    /// The side in use, 0 or 1.
    side: AtomicU64,
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
        Tables::replicated(vec![fib])
    }
    /// As [`Tables::new`], with replicas of the FIB, which must give the same answers.
    ///
    /// # Panics
    /// If there are none.
    pub fn replicated(fibs: Vec<Arc<dyn PrefixFib>>) -> Self {
        assert!(!fibs.is_empty(), "readers read one");
        let no_rules = fibs.iter().map(|_| no_rules()).collect::<Vec<_>>();
        Tables {
            fibs: fibs.into_iter().chain(no_rules).map(|fib| ArcSwap::from_pointee(Holder(fib))).collect(),
            side: AtomicU64::new(0),
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
    /// Publishes a new query half. With several replicas, this is the first one.
    pub fn replace_fib(&self, fib: Arc<dyn PrefixFib>) {
        self.replace_replica(self.side() * self.replicas(), fib);
    }
    /// Publishes a new query half of a replica. The numbers of the second side follow those of the first.
    ///
    /// # Panics
    /// If there is no such replica.
    pub fn replace_replica(&self, replica: usize, fib: Arc<dyn PrefixFib>) {
        self.fibs[replica].store(Arc::new(Holder(fib)));
    }
    /// Number of replicas of the FIB on one side.
    pub fn replicas(&self) -> usize {
        self.fibs.len() / 2
    }
    /// The side in use: 0 or 1.
    pub fn side(&self) -> usize {
        self.side.load(Ordering::Relaxed) as usize
    }
    /// Only this side is in use from now on: each worker reads a replica there. The other side is emptied.
    pub fn use_side(&self, side: usize) {
        self.side.store(side as u64, Ordering::Relaxed);
        let others = (1 - side) * self.replicas();
        (others..others + self.replicas()).for_each(|replica| self.replace_replica(replica, no_rules()));
    }
    /// The current query half: the first replica.
    ///
    /// For inspection. Answers stay valid only until the next `Control::reclaim`, which waits for [`TablesReader`]s and
    /// nobody else.
    pub fn fib(&self) -> Arc<dyn PrefixFib> {
        self.fibs[self.side() * self.replicas()].load().0.clone()
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
    /// A worker's view with the first replica, offline until its first [`TablesReader::begin_burst`].
    pub fn reader(self: &Arc<Self>) -> TablesReader {
        let replica = self.side() * self.replicas();
        TablesReader { fib: self.fibs[replica].load_full(), replica, epoch: self.epochs.reader(), tables: self.clone() }
    }
    /// Begins to wait until no [`TablesReader`] can see what was removed from the tables so far. The caller does this
    /// after `Control::apply` (and [`Tables::replace_fib`], if `apply` asks for it). It waits before
    /// `Control::reclaim`, and before it reuses the id of a group that no rule names any more.
    pub fn grace(&self) -> Grace<'_> {
        self.epochs.grace()
    }
    /// Resident memory of both FIBs and their groups, in bytes. All replicas count.
    pub fn memory_bytes(&self) -> usize {
        let replicas = self.fibs.iter().map(|fib| fib.load().0.memory_bytes()).sum::<usize>();
        let names = replicas + self.groups.memory_bytes() + self.lines.memory_bytes();
        names + self.tag_fib.load().0.memory_bytes() + self.tag_groups.memory_bytes()
    }
}

/// A FIB that is not in use.
fn no_rules() -> Arc<dyn PrefixFib> {
    Arc::new(Oracle::new())
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
    /// Number of the replica that `fib` is from.
    replica: usize,
    epoch: Reader,
    tables: Arc<Tables>,
}

impl TablesReader {
    /// Reads this replica of the FIB from now on. The caller is not in a burst.
    ///
    /// # Panics
    /// If there is no such replica.
    pub fn use_replica(&mut self, replica: usize) {
        (self.replica, self.fib) = (replica, self.tables.fibs[replica].load_full());
    }

    /// Passes a quiescent point and checks whether the FIB was replaced.
    #[inline]
    pub fn begin_burst(&mut self) {
        if self.epoch.is_online() {
            self.epoch.quiescent();
        } else {
            self.epoch.online();
        }
        let fib = self.tables.fibs[self.replica].load();
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

    /// A FIB whose memory has this many bytes, and which has no rules.
    struct Sized(usize);

    impl PrefixFib for Sized {
        fn longest_match(&self, _: &byname_wire::NameView<'_>) -> Option<byname_lookup::prefix::PrefixMatch> {
            None
        }
        fn depth_max(&self) -> usize {
            0
        }
        fn memory_bytes(&self) -> usize {
            self.0
        }
    }

    #[test]
    fn readers_read_their_replica_and_the_memory_of_old_ones_is_freed() {
        for count in [1, 2, 4] {
            let fibs: Vec<Arc<dyn PrefixFib>> = (0..count).map(|i| Arc::new(Sized(1000 + i)) as _).collect();
            let old: Vec<_> = fibs.iter().map(Arc::downgrade).collect();
            let tables = Arc::new(Tables::replicated(fibs));
            assert_eq!(tables.replicas(), count);
            let all = (0..count).map(|i| 1000 + i).sum::<usize>();
            assert!(tables.memory_bytes() >= all, "each replica counts");
            let mut readers: Vec<_> = (0..count).map(|_| tables.reader()).collect();
            for (replica, reader) in readers.iter_mut().enumerate() {
                reader.use_replica(replica);
                reader.begin_burst();
                assert_eq!(reader.fib().memory_bytes(), 1000 + replica);
            }
            for replica in (0..count).rev() {
                tables.replace_replica(replica, Arc::new(Sized(2000 + replica)));
            }
            let grace = tables.grace();
            for (replica, reader) in readers.iter_mut().enumerate() {
                assert!(!grace.passed() && old[replica].upgrade().is_some());
                assert_eq!(reader.fib().memory_bytes(), 1000 + replica, "this burst goes on with the old one");
                reader.begin_burst();
                assert_eq!(reader.fib().memory_bytes(), 2000 + replica);
                assert!(old[replica].upgrade().is_none(), "nobody keeps the old one");
            }
            assert!(grace.passed());
        }
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

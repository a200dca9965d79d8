//! What the worker reads and the control side writes, without locks: the FIB and the groups of
//! nexthops that its entries name, the same for descriptors, and the trees.

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
use byname_wire::{FaceId, TreeId};

use crate::publish::{Epochs, Grace, Reader};
use crate::sync::Mutex;
use groups::Groups;
use lines::Lines;

/// Ids of groups are below this: what every FIB engine can name. Rules that forward alike share a
/// group, so that even millions of rules need few.
pub const GROUPS_MAX: u32 = compact::ENTRIES_MAX;
/// One way to forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nexthop {
    /// Where to.
    pub face: FaceId,
    /// The route's cost; lower is better.
    pub cost: u64,
}

/// One way to forward what matches a descriptor [TagNet §3.2].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TreeFace {
    /// Packets of this tree
    pub tree: TreeId,
    /// may go there.
    pub face: FaceId,
}

/// The nexthops of all rules that forward alike. Those of names are sorted by rising cost, then
/// face id, at most one for each face; those of descriptors by tree, then face id, each once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NexthopGroup<N = Nexthop> {
    /// Sorted, each once.
    pub nexthops: Box<[N]>,
}

impl NexthopGroup<TreeFace> {
    /// The faces for packets of this tree, by id.
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
    /// What fits, of the same.
    lines: Lines,
    writing_group: Mutex<()>,
    tag_fib: ArcSwap<Holder<dyn TagsetFib>>,
    tag_groups: Groups<TreeFace>,
    trees: ArcSwap<Trees>,
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
            epochs: Arc::new(Epochs::new()),
        }
    }
    /// Publishes a new query half.
    pub fn replace_fib(&self, fib: Arc<dyn PrefixFib>) {
        self.fib.store(Arc::new(Holder(fib)));
    }
    /// The query half as it is now.
    ///
    /// For looking around; answers are sure only until the next `Control::reclaim`, which waits
    /// for [`TablesReader`]s and for nobody else.
    pub fn fib(&self) -> Arc<dyn PrefixFib> {
        self.fib.load().0.clone()
    }
    /// Sets or clears the group of an entry, in constant time. A group is set before a rule names
    /// it, and cleared after the last rule that named it is gone.
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
    /// As [`TablesReader::nexthops`], for groups that are large, or are being written.
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
    /// Publishes what is known of the trees that this router is on.
    pub fn replace_trees(&self, trees: Trees) {
        self.trees.store(Arc::new(trees));
    }
    /// The trees that this router is on.
    pub fn trees(&self) -> Arc<Trees> {
        self.trees.load_full()
    }
    /// A worker's view, offline until its first [`TablesReader::begin_burst`].
    pub fn reader(self: &Arc<Self>) -> TablesReader {
        TablesReader { fib: self.fib.load_full(), epoch: self.epochs.reader(), tables: self.clone() }
    }
    /// Begins to wait until no [`TablesReader`] can see what was taken out of the tables so far:
    /// after `Control::apply` (and [`Tables::replace_fib`], where it says so), and before
    /// `Control::reclaim` and before the id of a group that no rule names any more is used again.
    pub fn grace(&self) -> Grace<'_> {
        self.epochs.grace()
    }
    /// Resident memory of both FIBs and their groups, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let names = self.fib.load().0.memory_bytes() + self.groups.memory_bytes() + self.lines.memory_bytes();
        names + self.tag_fib.load().0.memory_bytes() + self.tag_groups.memory_bytes()
    }
}

/// A group that stays as it is while it is held, whatever the control side does.
pub struct GroupRef(arc_swap::Guard<Option<Arc<NexthopGroup<TreeFace>>>>);

impl Deref for GroupRef {
    type Target = NexthopGroup<TreeFace>;
    fn deref(&self) -> &NexthopGroup<TreeFace> {
        self.0.as_deref().expect("made from a group only")
    }
}

/// The query half for descriptors, as it was when it was asked for.
pub struct TagFibRef(arc_swap::Guard<Arc<Holder<dyn TagsetFib>>>);

impl Deref for TagFibRef {
    type Target = dyn TagsetFib;
    fn deref(&self) -> &(dyn TagsetFib + 'static) {
        &*self.0.0
    }
}

/// One worker's view of the tables.
///
/// It keeps the FIB at hand, and looks once a burst whether that was replaced. From `begin_burst`
/// to the next `begin_burst` or `end_burst`, what the control side takes out is kept for it.
pub struct TablesReader {
    fib: Arc<Holder<dyn PrefixFib>>,
    epoch: Reader,
    tables: Arc<Tables>,
}

impl TablesReader {
    /// Passes a quiescent point, and looks whether the FIB was replaced.
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

    /// Lets the control side go on without this reader until its next burst. To be called before
    /// the thread sleeps; a thread that does not know may call it after each burst, at the price
    /// of a memory fence a burst.
    pub fn end_burst(&mut self) {
        self.epoch.offline();
    }

    /// The FIB of this burst.
    #[inline]
    pub fn fib(&self) -> &dyn PrefixFib {
        debug_assert!(self.epoch.is_online(), "lookups are between begin_burst and end_burst");
        &*self.fib.0
    }

    /// Puts the nexthops of an entry that the FIB yielded in this burst in the place of what is in
    /// `nexthops`; none, if there is no such group.
    #[inline]
    pub fn nexthops(&self, entry: EntryId, nexthops: &mut Vec<Nexthop>) {
        nexthops.clear();
        if !self.tables.lines.nexthops(entry, nexthops) {
            self.tables.group_nexthops(entry, nexthops);
        }
    }

    /// Asks the memory for the nexthops of an entry.
    #[inline]
    pub(crate) fn prefetch_nexthops(&self, entry: EntryId) {
        self.tables.lines.prefetch(entry);
    }

    /// The descriptors' FIB. To be dropped before the burst ends: bursts without packets for it
    /// do not look whether it was replaced.
    #[inline]
    pub fn tag_fib(&self) -> TagFibRef {
        debug_assert!(self.epoch.is_online(), "lookups are between begin_burst and end_burst");
        TagFibRef(self.tables.tag_fib.load())
    }

    /// The group of an entry that the descriptors' FIB yielded in this burst.
    #[inline]
    pub fn tag_group(&self, entry: EntryId) -> Option<GroupRef> {
        let group = self.tables.tag_groups.slot(entry)?.load();
        group.is_some().then_some(GroupRef(group))
    }

    /// The trees that this router is on.
    #[inline]
    pub fn trees(&self) -> impl Deref<Target = Arc<Trees>> + use<> {
        self.tables.trees.load()
    }

    /// The tables it reads.
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
            // What was there before is not to be seen.
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

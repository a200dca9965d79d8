//! What the worker reads and the control side writes, without locks: the FIB and the groups of
//! nexthops that its entries name.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, ArcSwapOption};
use byname_lookup::prefix::compact;
use byname_lookup::{EntryId, PrefixFib};
use byname_wire::FaceId;

use crate::publish::{Epochs, Grace, Reader};

/// Ids of groups are below this: what every FIB engine can name. Rules that forward alike share a
/// group, so that even millions of rules need few.
pub const GROUPS_MAX: u32 = compact::ENTRIES_MAX;
/// Groups in a chunk: 8 KiB.
const CHUNK: usize = 1024;

/// One way to forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nexthop {
    /// Where to.
    pub face: FaceId,
    /// The route's cost; lower is better.
    pub cost: u64,
}

/// The nexthops of all rules that forward alike, by rising cost, then face id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NexthopGroup {
    /// At most one for each face.
    pub nexthops: Box<[Nexthop]>,
}

/// A slot for each group of a chunk.
type Chunk = Box<[ArcSwapOption<NexthopGroup>]>;

/// Groups by entry id, each replaced by itself. Chunks are made when first needed and never move.
struct NexthopGroups {
    chunks: Box<[OnceLock<Chunk>]>,
}

impl NexthopGroups {
    fn new() -> Self {
        NexthopGroups { chunks: (0..GROUPS_MAX as usize / CHUNK).map(|_| OnceLock::new()).collect() }
    }

    #[inline]
    fn slot(&self, entry: EntryId) -> Option<&ArcSwapOption<NexthopGroup>> {
        Some(&self.chunks.get(entry.0 as usize / CHUNK)?.get()?[entry.0 as usize % CHUNK])
    }

    fn slot_made(&self, entry: EntryId) -> &ArcSwapOption<NexthopGroup> {
        assert!(entry.0 < GROUPS_MAX, "the caller allots ids below GROUPS_MAX");
        let chunk = self.chunks[entry.0 as usize / CHUNK]
            .get_or_init(|| (0..CHUNK).map(|_| ArcSwapOption::const_empty()).collect());
        &chunk[entry.0 as usize % CHUNK]
    }

    fn memory_bytes(&self) -> usize {
        let chunks = self.chunks.iter().filter_map(OnceLock::get);
        let group = |group: &NexthopGroup| 16 + size_of::<NexthopGroup>() + size_of_val(&*group.nexthops);
        let of_chunk = |chunk: &Chunk| {
            let groups = chunk.iter().filter_map(|slot| slot.load().as_deref().map(group)).sum::<usize>();
            size_of_val(&**chunk) + groups
        };
        size_of_val(&*self.chunks) + chunks.map(of_chunk).sum::<usize>()
    }
}

/// The tables that one control side shares with its workers.
pub struct Tables {
    fib: ArcSwap<FibHolder>,
    groups: NexthopGroups,
    epochs: Arc<Epochs>,
}

/// `ArcSwap` wants a sized type.
struct FibHolder(Arc<dyn PrefixFib>);

impl Tables {
    /// Tables with this FIB and no groups.
    pub fn new(fib: Arc<dyn PrefixFib>) -> Self {
        Tables {
            fib: ArcSwap::from_pointee(FibHolder(fib)),
            groups: NexthopGroups::new(),
            epochs: Arc::new(Epochs::new()),
        }
    }
    /// Publishes a new query half.
    pub fn replace_fib(&self, fib: Arc<dyn PrefixFib>) {
        self.fib.store(Arc::new(FibHolder(fib)));
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
        match group {
            Some(group) => self.groups.slot_made(entry).store(Some(Arc::new(group))),
            None => {
                if let Some(slot) = self.groups.slot(entry) {
                    slot.store(None);
                }
            }
        }
    }
    /// The group of an entry.
    pub fn group(&self, entry: EntryId) -> Option<Arc<NexthopGroup>> {
        self.groups.slot(entry)?.load_full()
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
    /// Resident memory of FIB and groups, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.fib.load().0.memory_bytes() + self.groups.memory_bytes()
    }
}

/// A group that stays as it is while it is held, whatever the control side does.
pub struct GroupRef(arc_swap::Guard<Option<Arc<NexthopGroup>>>);

impl Deref for GroupRef {
    type Target = NexthopGroup;
    fn deref(&self) -> &NexthopGroup {
        self.0.as_deref().expect("made from a group only")
    }
}

/// One worker's view of the tables.
///
/// It keeps the FIB at hand, and looks once a burst whether that was replaced. From `begin_burst`
/// to the next `begin_burst` or `end_burst`, what the control side takes out is kept for it.
pub struct TablesReader {
    fib: Arc<FibHolder>,
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

    /// The group of an entry that the FIB yielded in this burst.
    #[inline]
    pub fn group(&self, entry: EntryId) -> Option<GroupRef> {
        let group = self.tables.groups.slot(entry)?.load();
        group.is_some().then_some(GroupRef(group))
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
        for id in [0, 1023, 1024, GROUPS_MAX - 1] {
            let id = EntryId(id);
            assert_eq!(tables.group(id), None);
            tables.set_group(id, None);
            tables.set_group(id, Some(group(256)));
            let held = reader.group(id).expect("just set");
            tables.set_group(id, Some(group(257)));
            assert_eq!(*held, group(256));
            assert_eq!(tables.group(id).as_deref(), Some(&group(257)));
            tables.set_group(id, None);
            assert!(reader.group(id).is_none());
        }
        assert_eq!(tables.group(EntryId(GROUPS_MAX)), None);
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

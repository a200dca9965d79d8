//! The query half: fat binary search on bursts of names.

#[cfg(feature = "lab")]
mod in_steps;

use std::sync::Arc;

use byname_wire::NameView;
use byname_wire::name_hash::DepthSet;
#[cfg(feature = "lab")]
use byname_wire::{NameHashKey, NameRef};

use super::DEPTH_MAX;
use super::exact::ExactNames;
use super::levels::Levels;
use super::part::{Part, Probe, Version, tag_of};
use super::word::Word;
use crate::entry::EntryId;
#[cfg(feature = "lab")]
use crate::prefix::HashRoom;
use crate::prefix::depth_set::SharedDepthSet;
use crate::prefix::{BURST_MAX, PrefixFib, PrefixMatch};
use crate::sync::{AtomicU64, Ordering};

/// Maximum number of tries of a lookup, or of a probe, that changes disturb. Then the last answer
/// stands. A change is counted at most twice, so lookups that overlap three changes are still
/// right.
pub(super) const TRIES_MAX: u8 = 8;
/// Number of change counters. Names share a counter by their first component.
pub(super) const STRIPES: usize = if cfg!(loom) { 1 } else { 1024 };

/// State that all query halves of one table share.
pub(super) struct Shared {
    /// The entry of the rule `/` plus one, or zero without such a rule.
    root: AtomicU64,
    /// No node is deeper.
    depth_max: AtomicU64,
    /// Depths of all nodes and handles that exist or existed, and depth 1. Noted before a node
    /// becomes visible.
    depths: SharedDepthSet,
    pub(super) levels: Levels,
    /// Numbers of changes begun, by first component. Counted before each change, so that readers
    /// notice it.
    changes: Box<[AtomicU64]>,
    /// The bits of a word that are compared.
    pub(super) fingerprint_mask: u64,
}

impl Shared {
    /// With this number of change counters, a power of two: one if there are no changes.
    pub(super) fn new(fingerprint_mask: u64, stripes: usize, levels: Levels) -> Self {
        assert!(stripes.is_power_of_two());
        Shared {
            root: AtomicU64::new(0),
            depth_max: AtomicU64::new(0),
            depths: SharedDepthSet::new(DepthSet::up_to(1)),
            levels,
            changes: (0..stripes).map(|_| AtomicU64::new(0)).collect(),
            fingerprint_mask,
        }
    }

    pub(super) fn root(&self) -> Option<EntryId> {
        // Acquire: the reader sees what changed before this answer.
        let root = self.root.load(Ordering::Acquire);
        root.checked_sub(1).map(|entry| EntryId(entry as u32))
    }

    /// For the writer.
    pub(super) fn set_root(&self, entry: Option<EntryId>) {
        self.root.store(entry.map_or(0, |entry| u64::from(entry.0) + 1), Ordering::Release);
    }

    /// Makes room for nodes of this depth. For the writer.
    pub(super) fn deepen(&self, depth: usize) {
        if self.depth_max.load(Ordering::Relaxed) < depth as u64 {
            self.depth_max.store(depth as u64, Ordering::Release);
        }
    }

    /// Notes the depths of a handle and its node, before their entry is visible. For the writer.
    pub(super) fn note_depths(&self, handle: usize, node: usize) {
        self.depths.insert(handle);
        self.depths.insert(node);
    }

    /// No node is deeper.
    #[inline]
    pub(super) fn depth_max(&self) -> usize {
        // Acquire: a reader that sees a node of this depth, or what led to it, sees the depth.
        (self.depth_max.load(Ordering::Acquire) as usize).min(DEPTH_MAX)
    }

    /// Depths of all nodes and handles that exist or existed, and depth 1.
    pub(super) fn depths(&self) -> DepthSet {
        self.depths.load()
    }

    /// The change counter of names that share the first component of `name`.
    #[inline]
    pub(super) fn changes_of(&self, name: &NameView<'_>) -> &AtomicU64 {
        let first = if name.is_empty() { 0 } else { name.check(1) };
        &self.changes[first as usize & (self.changes.len() - 1)]
    }

    /// The change counter of the rule `/`.
    #[inline]
    pub(super) fn changes_of_root(&self) -> &AtomicU64 {
        &self.changes[0]
    }

    /// Notes that a change is about to become visible. For the writer.
    pub(super) fn begin_change(&self, name: &NameView<'_>) {
        let changes = self.changes_of(name);
        changes.store(changes.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

/// The number between `above` (exclusive) and `up_to` (inclusive) that is divisible by the largest
/// power of two.
#[inline]
pub(super) fn fattest(above: usize, up_to: usize) -> usize {
    debug_assert!(above < up_to);
    let differ = usize::BITS - 1 - (above ^ up_to).leading_zeros();
    up_to >> differ << differ
}

/// The table that readers see.
pub(super) struct Query {
    pub(super) shared: Arc<Shared>,
    pub(super) parts: Box<[Arc<Part>]>,
    /// In exact mode, the names of all nodes.
    pub(super) exact: Option<Arc<ExactNames>>,
}

/// The state of one name's search.
#[derive(Clone, Copy, Default)]
struct Search {
    /// The word found at depth `low`.
    found: Word,
    /// The result of probing the first bucket, if the other bucket is probed next.
    version: Version,
    bucket: u32,
    part: u16,
    /// The other bucket is probed next.
    other: bool,
    /// Depth of the deepest node found so far; zero if only the root was found.
    low: u8,
    /// An upper bound on the depth of the deepest node.
    high: u8,
    /// The depth to probe next.
    handle: u8,
    /// Number of probes repeated because entries moved.
    again: u8,
    /// The name continues after its hashed part.
    #[cfg(feature = "lab")]
    cut: bool,
    /// The search waits for more of the name to be hashed.
    #[cfg(feature = "lab")]
    waits: bool,
    /// While waiting: the word that the last probe found, which matches if the name continues
    /// accordingly.
    #[cfg(feature = "lab")]
    candidate: Word,
}

impl Search {
    /// Whether the name continues after its hashed part.
    #[inline(always)]
    fn is_cut(&self) -> bool {
        #[cfg(feature = "lab")]
        {
            self.cut
        }
        #[cfg(not(feature = "lab"))]
        {
            false
        }
    }
}

/// The searches for the names of a burst.
struct Searches {
    /// The number of changes so far in each name's stripe.
    changes: [u64; BURST_MAX],
    searches: [Search; BURST_MAX],
    /// The names whose next line is being prefetched.
    active: [u8; BURST_MAX],
    left: usize,
}

impl Query {
    /// The part that holds a handle with this hash.
    #[inline]
    pub(super) fn part_of(&self, hash: u64) -> usize {
        // The number of parts is a power of two. The lower half of the hash chooses the bucket.
        (hash >> 32) as usize & (self.parts.len() - 1)
    }

    /// Chooses the first probe. Returns whether there is one.
    #[inline(always)]
    fn begin(&self, name: &NameView<'_>, search: &mut Search) -> bool {
        search.high = name.len().min(self.depth_max()) as u8;
        self.aim(name, search)
    }

    /// Chooses the next probe and prefetches its line. Returns false if nothing is left to probe.
    #[inline(always)]
    fn aim(&self, name: &NameView<'_>, search: &mut Search) -> bool {
        while search.low < search.high {
            let handle = fattest(search.low.into(), search.high.into());
            let hash = name.hash(handle);
            if self.shared.levels.may_hold(handle, hash) {
                let part = self.part_of(hash);
                search.handle = handle as u8;
                search.part = part as u16;
                search.bucket = self.parts[part].primary(hash);
                self.parts[part].prefetch(search.bucket);
                return true;
            }
            search.high = handle as u8 - 1;
        }
        false
    }

    /// Probes the prefetched line. Returns whether another probe is needed, whose line it
    /// prefetches.
    #[inline(always)]
    fn step(&self, name: &NameView<'_>, search: &mut Search) -> bool {
        let handle = usize::from(search.handle);
        let part = &self.parts[usize::from(search.part)];
        let tag = tag_of(name.check(handle));
        let mask = self.shared.fingerprint_mask;
        let cut = search.is_cut();
        let accepts = |word: Word| {
            let depth = handle + word.extent();
            if depth <= name.len() { word.is_of(name.check(depth), mask) } else { cut }
        };
        let probe = match search.other {
            false => part.probe(search.bucket, tag, accepts),
            true => part.probe_other(search.bucket, tag, search.version, accepts),
        };
        search.other = false;
        match probe {
            // There is, or may be, more below the hashed part.
            #[cfg(feature = "lab")]
            Probe::Found(word) if cut && handle + word.extent() + usize::from(!word.is_leaf()) > name.len() => {
                (search.waits, search.candidate) = (true, word);
                return false;
            }
            Probe::Found(word) => return self.descend(name, search, word),
            Probe::Overflowed(version) => {
                (search.other, search.version) = (true, version);
                part.prefetch(part.other(search.bucket, tag));
                return true;
            }
            Probe::Moved if search.again < TRIES_MAX => {
                search.again += 1;
                return true;
            }
            Probe::Absent | Probe::Moved => search.high = search.handle - 1,
        }
        self.aim(name, search)
    }

    /// Continues below the node that the last probe found. Returns whether there is another probe
    /// to make.
    #[inline(always)]
    fn descend(&self, name: &NameView<'_>, search: &mut Search, word: Word) -> bool {
        search.low = (usize::from(search.handle) + word.extent()) as u8;
        search.found = word;
        !word.is_leaf() && self.aim(name, search)
    }

    #[inline]
    fn answer(&self, name: &NameView<'_>, search: &Search) -> Option<PrefixMatch> {
        let found = match (usize::from(search.low), &self.exact) {
            (0, _) => None,
            (low, Some(exact)) if !exact.holds(name, low) => exact.longest_match(name, self.depth_max()),
            (low, _) => search.found.answer(low),
        };
        found.or_else(|| self.shared.root().map(|entry| PrefixMatch { entry, depth: 0 }))
    }

    /// Begins the searches for all names of a burst.
    #[inline(always)]
    fn begin_all(&self, names: &[NameView<'_>]) -> Searches {
        let mut searches = Searches {
            changes: [0; BURST_MAX],
            searches: [Search::default(); BURST_MAX],
            active: [0; BURST_MAX],
            left: 0,
        };
        for (changes, name) in searches.changes.iter_mut().zip(names) {
            *changes = self.shared.changes_of(name).load(Ordering::Acquire);
        }
        for (i, (name, search)) in names.iter().zip(&mut searches.searches).enumerate() {
            searches.active[searches.left] = i as u8;
            searches.left += usize::from(self.begin(name, search));
        }
        searches
    }

    /// Searches in rounds: while one name's line is being fetched, the others' lines are probed.
    #[inline(always)]
    fn search_all(&self, names: &[NameView<'_>], searches: &mut Searches) {
        let Searches { searches, active, left, .. } = searches;
        while *left > 0 {
            let mut kept = 0;
            for at in 0..*left {
                let i = active[at];
                active[kept] = i;
                kept += usize::from(self.step(&names[usize::from(i)], &mut searches[usize::from(i)]));
            }
            *left = kept;
        }
    }

    /// Whether a name's search or its answer may have seen a part of some changes only.
    #[inline]
    fn is_outdated(&self, name: &NameView<'_>, changes: u64) -> bool {
        // Probes are acquire loads. If one had seen a later change, this load would see its count.
        self.shared.changes_of(name).load(Ordering::Relaxed) != changes
    }

    /// The answer for one name, and the number of lines read for it.
    fn search(&self, name: &NameView<'_>) -> (Option<PrefixMatch>, usize) {
        let mut search = Search::default();
        let mut more = self.begin(name, &mut search);
        let mut lines = 0;
        while more {
            more = self.step(name, &mut search);
            lines += 1;
        }
        (self.answer(name, &search), lines)
    }
}

impl PrefixFib for Query {
    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch> {
        let counter = self.shared.changes_of(name);
        let mut tries = 0;
        loop {
            // Acquire: the probes below see all changes before the one counted here.
            let changes = counter.load(Ordering::Acquire);
            let (found, _) = self.search(name);
            tries += 1;
            if !self.is_outdated(name, changes) || tries == TRIES_MAX {
                return found;
            }
        }
    }

    fn longest_match_burst(&self, names: &[NameView<'_>], out: &mut [Option<PrefixMatch>]) {
        assert_eq!(names.len(), out.len());
        assert!(names.len() <= BURST_MAX);
        let mut searches = self.begin_all(names);
        self.search_all(names, &mut searches);
        for (i, (name, found)) in names.iter().zip(out).enumerate() {
            *found = self.answer(name, &searches.searches[i]);
            if self.is_outdated(name, searches.changes[i]) {
                *found = self.longest_match(name);
            }
        }
    }

    #[cfg(feature = "lab")]
    fn longest_match_names(
        &self,
        key: &NameHashKey,
        names: &[NameRef<'_>],
        room: &mut HashRoom,
        out: &mut [Option<PrefixMatch>],
    ) {
        self.longest_match_hashing(key, names, room, out);
    }

    #[inline]
    fn depth_max(&self) -> usize {
        self.shared.depth_max()
    }

    fn depths(&self) -> DepthSet {
        // Exact mode may compare all prefixes of a name.
        if self.exact.is_some() { DepthSet::up_to(self.depth_max()) } else { self.shared.depths() }
    }

    fn lines_read(&self, name: &NameView<'_>) -> Option<usize> {
        Some(self.search(name).1)
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.shared.changes)
            + self.shared.levels.memory_bytes()
            + self.exact.as_ref().map_or(0, |exact| exact.memory_bytes())
            + self.parts.iter().map(|part| size_of::<Part>() + part.memory_bytes()).sum::<usize>()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::fattest;

    #[test]
    fn the_fattest_number_is_what_most_powers_of_two_divide() {
        for above in 0..40usize {
            for up_to in above + 1..=40 {
                let slow = (above + 1..=up_to).max_by_key(|n| n.trailing_zeros()).expect("not empty");
                assert_eq!(fattest(above, up_to), slow, "({above}, {up_to}]");
            }
        }
    }
}

//! The query half: fat binary search, a burst of names at a time.

use std::sync::Arc;

use byname_wire::name_hash::DepthSet;
use byname_wire::{NameHashKey, NameRef, NameView, PrefixHashes};
use smallvec::SmallVec;

use super::DEPTH_MAX;
use super::exact::ExactNames;
use super::levels::Levels;
use super::part::{Part, Probe, Version, tag_of};
use super::word::Word;
use crate::entry::EntryId;
use crate::prefix::depth_set::SharedDepthSet;
use crate::prefix::{BURST_MAX, HashRoom, PrefixFib, PrefixMatch, views};
use crate::sync::{AtomicU64, Ordering};

/// How often a lookup, or a probe, is repeated because of changes meanwhile; the last answer stands.
/// A change is counted twice at most, so lookups that overlap three are still right.
const TRIES_MAX: u8 = 8;
/// Counters of changes; names share one by their first component.
const STRIPES: usize = if cfg!(loom) { 1 } else { 1024 };

/// What all query halves of one table share.
pub(super) struct Shared {
    /// The entry of the rule `/`, plus one; zero: no such rule.
    root: AtomicU64,
    /// No node is deeper.
    depth_max: AtomicU64,
    /// Depths of nodes and handles that there are or were, and that of the first component. Noted
    /// before a node of theirs is visible.
    depths: SharedDepthSet,
    pub(super) levels: Levels,
    /// Changes begun, by first component: counted before each, so that a reader notices.
    changes: Box<[AtomicU64]>,
    /// The bits of a word that are compared.
    pub(super) fingerprint_mask: u64,
}

impl Shared {
    pub(super) fn new(fingerprint_mask: u64) -> Self {
        Shared {
            root: AtomicU64::new(0),
            depth_max: AtomicU64::new(0),
            depths: SharedDepthSet::new(DepthSet::up_to(1)),
            levels: Levels::new(),
            changes: (0..STRIPES).map(|_| AtomicU64::new(0)).collect(),
            fingerprint_mask,
        }
    }

    pub(super) fn root(&self) -> Option<EntryId> {
        // Acquire: what changed before this answer was given is seen.
        let root = self.root.load(Ordering::Acquire);
        root.checked_sub(1).map(|entry| EntryId(entry as u32))
    }

    /// The writer's method.
    pub(super) fn set_root(&self, entry: Option<EntryId>) {
        self.root.store(entry.map_or(0, |entry| u64::from(entry.0) + 1), Ordering::Release);
    }

    /// Makes room for nodes of this depth. The writer's method.
    pub(super) fn deepen(&self, depth: usize) {
        if self.depth_max.load(Ordering::Relaxed) < depth as u64 {
            self.depth_max.store(depth as u64, Ordering::Release);
        }
    }

    /// Notes the depths of a handle and its node, before their entry is visible. The writer's method.
    pub(super) fn note_depths(&self, handle: usize, node: usize) {
        self.depths.insert(handle);
        self.depths.insert(node);
    }

    /// The counter of changes to names that share the first component of `name`.
    #[inline]
    fn changes(&self, name: &NameView<'_>) -> &AtomicU64 {
        let first = if name.is_empty() { 0 } else { name.check(1) };
        &self.changes[first as usize % STRIPES]
    }

    /// Notes that a change is about to become visible. The writer's method.
    pub(super) fn begin_change(&self, name: &NameView<'_>) {
        let changes = self.changes(name);
        changes.store(changes.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

/// The number between `above` (excluded) and `up_to` (included) that most powers of two divide.
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

/// So many components are hashed at once: it does not pay to leave some of them out.
const HASHED_TOGETHER: usize = 4;
/// Names of which one has a deep rule where it does not pay to hash in two steps.
const DEEP_SHARE: usize = 8;

/// How far the search for one name has come.
#[derive(Clone, Copy, Default)]
struct Walk {
    /// The word found at depth `low`.
    found: Word,
    /// What the probe of the first bucket told, where the other is probed next.
    version: Version,
    bucket: u32,
    part: u16,
    /// The other bucket is probed next.
    other: bool,
    /// The deepest node found yet is here; zero: none but the root.
    low: u8,
    /// The deepest node that there is, is no deeper.
    high: u8,
    /// The depth that is probed next.
    handle: u8,
    /// Probes begun again because entries moved.
    again: u8,
    /// The name goes on behind what was hashed of it.
    cut: bool,
    /// The search waits for more of the name.
    waits: bool,
    /// What it waits at: the word that the last probe found, if the name goes on as that asks.
    candidate: Word,
}

/// The searches for the names of a burst.
struct Walks {
    /// No node was deeper when the searches began.
    depth_max: usize,
    /// How many changes there had been, of each name's stripe.
    changes: [u64; BURST_MAX],
    walks: [Walk; BURST_MAX],
    /// The names whose next line is on its way.
    active: [u8; BURST_MAX],
    left: usize,
}

impl Query {
    /// The part that holds a handle with this hash.
    #[inline]
    pub(super) fn part_of(&self, hash: u64) -> usize {
        // The number of parts is a power of two; the lower half of the hash chooses the bucket.
        (hash >> 32) as usize & (self.parts.len() - 1)
    }

    /// Aims at the first probe; whether there is one.
    #[inline(always)]
    fn begin(&self, name: &NameView<'_>, walk: &mut Walk) -> bool {
        walk.high = name.len().min(self.depth_max()) as u8;
        self.aim(name, walk)
    }

    /// Chooses the next probe and asks for its line; false: there is nothing left to probe.
    #[inline(always)]
    fn aim(&self, name: &NameView<'_>, walk: &mut Walk) -> bool {
        while walk.low < walk.high {
            let handle = fattest(walk.low.into(), walk.high.into());
            let hash = name.hash(handle);
            if self.shared.levels.may_hold(handle, hash) {
                let part = self.part_of(hash);
                walk.handle = handle as u8;
                walk.part = part as u16;
                walk.bucket = self.parts[part].primary(hash);
                self.parts[part].prefetch(walk.bucket);
                return true;
            }
            walk.high = handle as u8 - 1;
        }
        false
    }

    /// Probes the line that was asked for; whether another one is needed, which is asked for then.
    #[inline(always)]
    fn step(&self, name: &NameView<'_>, walk: &mut Walk) -> bool {
        let handle = usize::from(walk.handle);
        let part = &self.parts[usize::from(walk.part)];
        let tag = tag_of(name.check(handle));
        let mask = self.shared.fingerprint_mask;
        let cut = walk.cut;
        let accepts = |word: Word| {
            let depth = handle + word.extent();
            if depth <= name.len() { word.is_of(name.check(depth), mask) } else { cut }
        };
        let probe = match walk.other {
            false => part.probe(walk.bucket, tag, accepts),
            true => part.probe_other(walk.bucket, tag, walk.version, accepts),
        };
        walk.other = false;
        match probe {
            // There is, or may be, more below than was hashed.
            Probe::Found(word) if cut && handle + word.extent() + usize::from(!word.is_leaf()) > name.len() => {
                (walk.waits, walk.candidate) = (true, word);
                return false;
            }
            Probe::Found(word) => return self.descend(name, walk, word),
            Probe::Overflowed(version) => {
                (walk.other, walk.version) = (true, version);
                part.prefetch(part.other(walk.bucket, tag));
                return true;
            }
            Probe::Moved if walk.again < TRIES_MAX => {
                walk.again += 1;
                return true;
            }
            Probe::Absent | Probe::Moved => walk.high = walk.handle - 1,
        }
        self.aim(name, walk)
    }

    /// Goes on below the node that the last probe found; whether there is another to make.
    #[inline(always)]
    fn descend(&self, name: &NameView<'_>, walk: &mut Walk, word: Word) -> bool {
        walk.low = (usize::from(walk.handle) + word.extent()) as u8;
        walk.found = word;
        !word.is_leaf() && self.aim(name, walk)
    }

    /// Goes on with a search that waited, now that `name` is hashed as deep as rules are; whether
    /// there is a probe to make.
    #[inline(always)]
    fn resume(&self, name: &NameView<'_>, walk: &mut Walk) -> bool {
        (walk.cut, walk.waits, walk.high) = (false, false, name.len() as u8);
        let depth = usize::from(walk.handle) + walk.candidate.extent();
        let mask = self.shared.fingerprint_mask;
        match depth <= name.len() && walk.candidate.is_of(name.check(depth), mask) {
            true => self.descend(name, walk, walk.candidate),
            // The line has it not, or another that looked alike: it is there to be probed again.
            false => true,
        }
    }

    #[inline]
    fn answer(&self, name: &NameView<'_>, walk: &Walk) -> Option<PrefixMatch> {
        let found = match (usize::from(walk.low), &self.exact) {
            (0, _) => None,
            (low, Some(exact)) if !exact.holds(name, low) => exact.longest_match(name, self.depth_max()),
            (low, _) => walk.found.answer(low),
        };
        found.or_else(|| self.shared.root().map(|entry| PrefixMatch { entry, depth: 0 }))
    }

    /// Begins to search for all names of a burst; `cut` tells of which there is more.
    #[inline(always)]
    fn begin_all(&self, names: &[NameView<'_>], cut: impl Fn(usize) -> bool) -> Walks {
        let mut walks = Walks {
            depth_max: 0,
            changes: [0; BURST_MAX],
            walks: [Walk::default(); BURST_MAX],
            active: [0; BURST_MAX],
            left: 0,
        };
        for (changes, name) in walks.changes.iter_mut().zip(names) {
            *changes = self.shared.changes(name).load(Ordering::Acquire);
        }
        walks.depth_max = self.depth_max();
        for (i, (name, walk)) in names.iter().zip(&mut walks.walks).enumerate() {
            walk.cut = cut(i);
            walks.active[walks.left] = i as u8;
            walks.left += usize::from(self.begin(name, walk));
        }
        walks
    }

    /// Round by round: while one name's line is on its way, the others' are probed.
    #[inline(always)]
    fn search_all(&self, names: &[NameView<'_>], walks: &mut Walks) {
        let Walks { walks, active, left, .. } = walks;
        while *left > 0 {
            let mut kept = 0;
            for at in 0..*left {
                let i = active[at];
                active[kept] = i;
                kept += usize::from(self.step(&names[usize::from(i)], &mut walks[usize::from(i)]));
            }
            *left = kept;
        }
    }

    /// Whether there were changes that a name's search, or its answer, may have seen half of.
    #[inline]
    fn is_outdated(&self, name: &NameView<'_>, changes: u64) -> bool {
        // Probes are acquire loads: had one seen a later change, this load would see its count.
        self.shared.changes(name).load(Ordering::Relaxed) != changes
    }

    /// The answer for one name, and the lines that were read for it.
    fn search(&self, name: &NameView<'_>) -> (Option<PrefixMatch>, usize) {
        let mut walk = Walk::default();
        let mut more = self.begin(name, &mut walk);
        let mut lines = 0;
        while more {
            more = self.step(name, &mut walk);
            lines += 1;
        }
        (self.answer(name, &walk), lines)
    }
}

impl PrefixFib for Query {
    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch> {
        let counter = self.shared.changes(name);
        let mut tries = 0;
        loop {
            // Acquire: all changes before the one counted here are seen by the probes below.
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
        let mut walks = self.begin_all(names, |_| false);
        self.search_all(names, &mut walks);
        for (i, (name, found)) in names.iter().zip(out).enumerate() {
            *found = self.answer(name, &walks.walks[i]);
            if self.is_outdated(name, walks.changes[i]) {
                *found = self.longest_match(name);
            }
        }
    }

    /// Where few names of the burst before had a deep rule, hashes no deeper than the first probe at
    /// first, and on if that finds something.
    fn longest_match_names(
        &self,
        key: &NameHashKey,
        names: &[NameRef<'_>],
        room: &mut HashRoom,
        out: &mut [Option<PrefixMatch>],
    ) {
        let depth_max = self.depth_max();
        // Here is the first probe for all names that are so deep or deeper.
        let first = fattest(0, depth_max.max(1));
        let no_gain = depth_max <= HASHED_TOGETHER || first == depth_max || self.exact.is_some();
        let at_once = no_gain || room.deep;
        let hashes = room.hashes(names.len());
        if at_once {
            PrefixHashes::fill_burst_to(depth_max, key, names, hashes);
            self.longest_match_burst(&views(names, hashes), out);
        } else {
            self.longest_match_in_steps((first, depth_max), key, names, hashes, out);
        }
        let deep = out.iter().flatten().filter(|found| found.depth >= first).count();
        room.deep = deep * DEEP_SHARE > names.len();
    }

    #[inline]
    fn depth_max(&self) -> usize {
        // Acquire: whoever sees a node of this depth or what it led to sees the depth.
        (self.shared.depth_max.load(Ordering::Acquire) as usize).min(DEPTH_MAX)
    }

    fn depths(&self) -> DepthSet {
        // In exact mode all of a name's prefixes may be compared.
        if self.exact.is_some() { DepthSet::up_to(self.depth_max()) } else { self.shared.depths.load() }
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

impl Query {
    /// Hashes names down to the depth of the first probe, and those for which it found something
    /// down to the deepest rule.
    fn longest_match_in_steps(
        &self,
        (first, depth_max): (usize, usize),
        key: &NameHashKey,
        names: &[NameRef<'_>],
        hashes: &mut [PrefixHashes],
        out: &mut [Option<PrefixMatch>],
    ) {
        assert_eq!(names.len(), out.len());
        PrefixHashes::fill_burst_to(first, key, names, hashes);
        let begun = views(names, hashes);
        let mut walks = self.begin_all(&begun, |i| begun[i].name().value().len() < names[i].value().len());
        self.search_all(&begun, &mut walks);
        let waiting: SmallVec<[usize; BURST_MAX]> = (0..names.len()).filter(|i| walks.walks[*i].waits).collect();
        drop(begun);
        PrefixHashes::go_on_burst_to(depth_max, key, names, hashes, waiting.iter().copied());
        let further = views(names, hashes);
        for i in waiting {
            walks.active[walks.left] = i as u8;
            walks.left += usize::from(self.resume(&further[i], &mut walks.walks[i]));
        }
        self.search_all(&further, &mut walks);
        let mut outdated = SmallVec::<[usize; BURST_MAX]>::new();
        for (i, (name, found)) in further.iter().zip(&mut *out).enumerate() {
            *found = self.answer(name, &walks.walks[i]);
            // A deeper rule than there was at first may be probed for elsewhere at first.
            if self.is_outdated(name, walks.changes[i]) || walks.depth_max > depth_max {
                outdated.push(i);
            }
        }
        drop(further);
        for i in outdated {
            out[i] = self.longest_match(&NameView::new(key, names[i], &mut hashes[i]));
        }
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

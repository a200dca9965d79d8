//! Longest prefix match by probing from the longest prefix down, on a compact-array hash table.
//!
//! The baseline algorithm of [So §2.3] on the table of [So §2.2], with the keyed 64-bit hashes of
//! [So §2.1]. A query takes one probe for each depth, at most the name's own, at which any rule
//! exists; a probe is one cache line (overflow chains aside), and one more where the tag agrees.
//!
//! Differs:
//! - The query half keeps no names. Where the paper compares strings after equal 64-bit hashes,
//!   the keyed 64-bit hash and the depth are the comparison. A name that no rule covers at a depth
//!   is taken there for one of n rules with odds of n in 2^64: of a million rules, 5.4e-14 a
//!   probe. The key is secret, so that nobody can search for such a name. Two *rules* are never
//!   confused: the control half keeps a second 64-bit digest of each, under another key, and
//!   refuses a name whose first digest is taken ([`BuildError::Collision`]).
//! - Depths without rules are not probed. That bounds the probes of a hostile name by the number
//!   of depths in use, not by its own length; the two stages of [So §2.3] would bound it further.
//! - Rules change in place while readers look up. A lookup that overlaps at most one change gives
//!   the answer of before or of after it; one that overlaps more is repeated, since probes on both
//!   sides of several changes may add up to an answer that was never right. The fourth try stands:
//!   only a writer that never pauses for a lookup's length gets that far.
//!
//! Cost, both halves together, in bytes a rule: 16 for the rule, 8 for the second digest, and 17
//! to 35 for buckets (two to four rules a bucket); 42 at a million rules.

use std::sync::Arc;

use byname_wire::name_hash::hash_name;
use byname_wire::{Component, Name, NameHashKey, NameView};

use super::depth_set::{DEPTHS, DepthSet, SharedDepthSet};
use super::rule_array::{CHUNK, RuleArray};
use super::{BURST_MAX, PrefixFib, PrefixMatch};
use crate::bucket::{BucketArray, OverflowExhausted};
use crate::entry::EntryId;
use crate::sync::{AtomicU64, Ordering};
use crate::update::{BuildError, Change, Control, Update};

/// How often a lookup is repeated because rules changed meanwhile; the last answer stands.
const TRIES_MAX: usize = 4;
/// More rules than this a bucket, on average, and the table doubles [So §2.2].
const RULES_PER_BUCKET_MAX: usize = 4;
/// Buckets of an empty table.
const BUCKETS_MIN: usize = if cfg!(loom) { 1 } else { 16 };
/// Names whose buckets are under way while one is looked up.
const PREFETCH_AHEAD: usize = 4;
/// Most buckets to ask for ahead of one name: a processor has few line-fill buffers.
const PREFETCH_DEPTHS_MAX: usize = 12;
/// Removed and replaced rules keep their place until they are reclaimed, so there is room for
/// several times the rules that may be there at once.
const ROOM_FACTOR: usize = 4;

/// The query half.
struct Table {
    buckets: BucketArray,
    rules: Arc<RuleArray>,
    depths: SharedDepthSet,
    /// Changes begun on this table: counted before each, so that a reader notices.
    changes: AtomicU64,
}

impl Table {
    #[inline]
    fn find(&self, hash: u64, depth: usize) -> Option<(u32, EntryId)> {
        self.buckets.candidates(hash).find_map(|index| self.rules.entry(index, hash, depth).map(|entry| (index, entry)))
    }

    #[inline]
    fn probe_down(&self, depths: DepthSet, name: &NameView<'_>) -> Option<PrefixMatch> {
        depths.down_from(name.len()).find_map(|depth| {
            let (_, entry) = self.find(name.hash(depth), depth)?;
            Some(PrefixMatch { entry, depth })
        })
    }

    #[inline]
    fn prefetch(&self, depths: DepthSet, name: &NameView<'_>) {
        for depth in depths.down_from(name.len()).take(PREFETCH_DEPTHS_MAX) {
            self.buckets.prefetch(name.hash(depth));
        }
    }

    /// Notes that a change is about to become visible.
    fn begin_change(&self) {
        let changes = self.changes.load(Ordering::Relaxed);
        self.changes.store(changes + 1, Ordering::Release);
    }
}

impl PrefixFib for Table {
    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch> {
        let mut tries = 0;
        loop {
            // Acquire: all changes before the one counted here are seen by the probes below.
            let changes = self.changes.load(Ordering::Acquire);
            let found = self.probe_down(self.depths.load(), name);
            tries += 1;
            // Probes are acquire loads: had one seen a later change, this load would see its count.
            if self.changes.load(Ordering::Relaxed) == changes || tries == TRIES_MAX {
                return found;
            }
        }
    }

    fn longest_match_burst(&self, names: &[NameView<'_>], out: &mut [Option<PrefixMatch>]) {
        assert_eq!(names.len(), out.len());
        assert!(names.len() <= BURST_MAX);
        let changes = self.changes.load(Ordering::Acquire);
        let depths = self.depths.load();
        for name in names.iter().take(PREFETCH_AHEAD) {
            self.prefetch(depths, name);
        }
        for (i, (name, found)) in names.iter().zip(&mut *out).enumerate() {
            if let Some(later) = names.get(i + PREFETCH_AHEAD) {
                self.prefetch(depths, later);
            }
            *found = self.probe_down(depths, name);
        }
        if self.changes.load(Ordering::Relaxed) != changes {
            for (name, found) in names.iter().zip(out) {
                *found = self.longest_match(name);
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.buckets.memory_bytes() + self.rules.memory_bytes()
    }
}

/// The control half: one writer.
///
/// Whoever looks up through a query half must get it anew (from [`Update::Replace`]) before the
/// [`Control::reclaim`] that follows: places of removed rules are used again afterwards, and an
/// old query half may then answer with entries of other rules.
pub struct LongestFirst {
    key: NameHashKey,
    check_key: NameHashKey,
    rules_max: usize,
    table: Arc<Table>,
    rules: usize,
    depth_rules: [u32; DEPTHS],
    overflow_used: usize,
    /// Second digest of each rule, by index.
    checks: Vec<Box<[u64]>>,
    /// Indices that nobody can hold.
    free: Vec<u32>,
    /// Indices taken out since the last reclaim.
    retired: Vec<u32>,
    /// Indices from here on were never used.
    unused_from: u32,
    /// The batch at hand has made a new table. Readers of the old one are not disturbed: the rules
    /// that both share stay as they are until they are reclaimed.
    replaced: bool,
}

/// A change, hashed.
struct Prepared {
    hash: u64,
    check: u64,
    depth: usize,
    entry: Option<EntryId>,
}

impl LongestFirst {
    /// An empty table for at most `rules_max` rules, for names hashed under `key`.
    ///
    /// # Panics
    /// If `rules_max` is above 2^29.
    pub fn new(key: NameHashKey, rules_max: usize) -> Self {
        assert!(rules_max <= 1 << 29, "indices are 32 bits");
        let room = rules_max.max(CHUNK) * ROOM_FACTOR;
        let table = Table {
            buckets: BucketArray::new(BUCKETS_MIN),
            rules: Arc::new(RuleArray::new(room)),
            depths: SharedDepthSet::empty(),
            changes: AtomicU64::new(0),
        };
        LongestFirst {
            key,
            check_key: check_key(&key),
            rules_max,
            table: Arc::new(table),
            rules: 0,
            depth_rules: [0; DEPTHS],
            overflow_used: 0,
            checks: Vec::new(),
            free: Vec::new(),
            retired: Vec::new(),
            unused_from: 0,
            replaced: false,
        }
    }

    /// Rules in the table.
    pub fn len(&self) -> usize {
        self.rules
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules == 0
    }

    /// Memory of both halves, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let checks = self.checks.iter().map(|chunk| size_of_val(&**chunk)).sum::<usize>();
        let vectors = self.checks.capacity() * size_of::<Box<[u64]>>()
            + (self.free.capacity() + self.retired.capacity()) * size_of::<u32>();
        size_of::<Self>() + checks + vectors + self.table.memory_bytes()
    }

    fn prepare(&self, change: &Change<Name>) -> Result<Prepared, BuildError> {
        let (name, entry) = match change {
            Change::Set(name, entry) => (name.as_ref(), Some(*entry)),
            Change::Remove(name) => (name.as_ref(), None),
        };
        let depth = name.len();
        if depth >= DEPTHS {
            return Err(BuildError::TooDeep { depth });
        }
        Ok(Prepared { hash: hash_name(&self.key, name), check: hash_name(&self.check_key, name), depth, entry })
    }

    fn check_of(&self, index: u32) -> u64 {
        self.checks[index as usize / CHUNK][index as usize % CHUNK]
    }

    /// Refuses a batch that cannot be applied whole. Returns an upper bound of the rules it adds.
    fn admit(&self, changes: &[Prepared]) -> Result<usize, BuildError> {
        let mut fresh = 0;
        for (i, change) in changes.iter().enumerate() {
            if let Some(later) = changes.get(i + 8) {
                self.table.buckets.prefetch(later.hash);
            }
            match self.table.find(change.hash, change.depth) {
                Some((index, _)) if change.entry.is_some() && self.check_of(index) != change.check => {
                    return Err(BuildError::Collision);
                }
                Some(_) => {}
                None => fresh += usize::from(change.entry.is_some()),
            }
        }
        if changes.len() > 1 {
            refuse_collisions_within(changes)?;
        }
        if self.rules + fresh > self.rules_max {
            self.refuse_overfull(changes)?;
        }
        let sets = changes.iter().filter(|c| c.entry.is_some()).count();
        let room = self.free.len() + self.table.rules.capacity() - self.unused_from as usize;
        if sets > room {
            return Err(BuildError::Full { rules: self.rules });
        }
        Ok(fresh)
    }

    /// Counts exactly: a batch may add a rule twice, or remove what makes room for others.
    fn refuse_overfull(&self, changes: &[Prepared]) -> Result<(), BuildError> {
        let mut present = std::collections::HashMap::new();
        let mut rules = self.rules;
        for change in changes {
            let there = present
                .entry((change.hash, change.check, change.depth))
                .or_insert_with(|| self.find_rule(change).is_some());
            match (*there, change.entry) {
                (false, Some(_)) if rules == self.rules_max => return Err(BuildError::Full { rules: self.rules }),
                (false, Some(_)) => rules += 1,
                (true, None) => rules -= 1,
                _ => {}
            }
            *there = change.entry.is_some();
        }
        Ok(())
    }

    /// The index and the entry of the rule that this change is about.
    fn find_rule(&self, change: &Prepared) -> Option<(u32, EntryId)> {
        self.table.find(change.hash, change.depth).filter(|&(index, _)| self.check_of(index) == change.check)
    }

    fn change(&mut self, change: &Prepared) {
        match (self.find_rule(change), change.entry) {
            (Some((_, old)), Some(entry)) if old == entry => {}
            (Some((index, _)), Some(entry)) => {
                let new = self.write_rule(change, entry);
                self.table.begin_change();
                self.table.buckets.replace(change.hash, index, new);
                self.retired.push(index);
            }
            (None, Some(entry)) => self.insert(change, entry),
            (Some((index, _)), None) => self.remove(change, index),
            (None, None) => {}
        }
    }

    fn insert(&mut self, change: &Prepared, entry: EntryId) {
        let index = self.write_rule(change, entry);
        self.table.begin_change();
        while let Err(OverflowExhausted) = self.table.buckets.insert(change.hash, index, &mut self.overflow_used) {
            self.rebuild(self.table.buckets.primary() * 2);
        }
        self.rules += 1;
        self.depth_rules[change.depth] += 1;
        if self.depth_rules[change.depth] == 1 {
            self.table.depths.insert(change.depth);
        }
    }

    fn remove(&mut self, change: &Prepared, index: u32) {
        self.table.begin_change();
        self.table.buckets.remove(change.hash, index);
        self.retired.push(index);
        self.rules -= 1;
        self.depth_rules[change.depth] -= 1;
        if self.depth_rules[change.depth] == 0 {
            self.table.depths.remove(change.depth);
        }
    }

    /// Writes a rule at an index that no slot holds.
    fn write_rule(&mut self, change: &Prepared, entry: EntryId) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.unused_from += 1;
            self.unused_from - 1
        });
        let chunk = index as usize / CHUNK;
        if self.checks.len() == chunk {
            self.checks.push(vec![0; CHUNK].into());
        }
        self.checks[chunk][index as usize % CHUNK] = change.check;
        self.table.rules.write(index, change.hash, change.depth, entry);
        index
    }

    /// Puts all rules into a new bucket array. Readers of the old one see it as it is now.
    fn rebuild(&mut self, mut primary: usize) {
        'larger: loop {
            let buckets = BucketArray::new(primary);
            let mut overflow_used = 0;
            for index in self.table.buckets.indices() {
                let hash = self.table.rules.hash(index).expect("a stored index leads to a written rule");
                if buckets.insert(hash, index, &mut overflow_used).is_err() {
                    primary *= 2;
                    continue 'larger;
                }
            }
            self.overflow_used = overflow_used;
            self.table = Arc::new(Table {
                buckets,
                rules: self.table.rules.clone(),
                depths: SharedDepthSet::new(self.table.depths.load()),
                changes: AtomicU64::new(0),
            });
            self.replaced = true;
            return;
        }
    }
}

impl Control<Name> for LongestFirst {
    type Query = dyn PrefixFib;

    fn query(&self) -> Arc<Self::Query> {
        self.table.clone()
    }

    fn apply(&mut self, changes: &[Change<Name>]) -> Result<Update<Self::Query>, BuildError> {
        let prepared = changes.iter().map(|change| self.prepare(change)).collect::<Result<Vec<_>, _>>()?;
        let fresh = self.admit(&prepared)?;
        self.replaced = false;
        let buckets_min = (self.rules + fresh).min(self.rules_max).div_ceil(RULES_PER_BUCKET_MAX);
        if buckets_min > self.table.buckets.primary() {
            self.rebuild(buckets_min);
        }
        for (i, change) in prepared.iter().enumerate() {
            if let Some(later) = prepared.get(i + 8) {
                self.table.buckets.prefetch(later.hash);
            }
            self.change(change);
        }
        Ok(if self.replaced { Update::Replace(self.query()) } else { Update::Patched })
    }

    fn reclaim(&mut self) {
        self.free.append(&mut self.retired);
        // A withdrawal of millions must not keep its list for ever.
        self.retired.shrink_to(CHUNK);
    }
}

/// A second key, as good as independent of the first: SipHash under it is a pseudorandom function.
fn check_key(key: &NameHashKey) -> NameHashKey {
    let word = |i: u8| {
        let name = Name::default().join(Component::generic(&[b'c', b'h', b'e', b'c', b'k', i]));
        hash_name(key, name.as_ref())
    };
    NameHashKey::new([word(0), word(1)])
}

/// Refuses a batch that sets two names of one digest.
fn refuse_collisions_within(changes: &[Prepared]) -> Result<(), BuildError> {
    let mut sets: Vec<_> = changes.iter().filter(|c| c.entry.is_some()).map(|c| (c.hash, c.depth, c.check)).collect();
    sets.sort_unstable();
    let collides = |pair: &[(u64, usize, u64)]| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1) && pair[0] != pair[1];
    if sets.windows(2).any(collides) { Err(BuildError::Collision) } else { Ok(()) }
}

#[cfg(all(test, not(loom)))]
#[path = "longest_first_tests.rs"]
mod tests;

//! The hash table of one prefix length, with the buckets of [Yuan §3.2.1, Figure 2].
//!
//! A bucket is one cache line: seven slots, and a last word with the number of an overflow bucket.
//! For n prefixes there are n/4 buckets, and a tenth as many for overflow. A slot holds a 20-bit
//! fingerprint, the bits occupied, collided and leaf, and a 32-bit reference to the name entry,
//! where the paper has a 44-bit pointer. Equal fingerprints in one chain are marked as collided, so
//! a lookup knows when it must compare names.
//!
//! Use of the hash: the upper 20 bits are the fingerprint; the others choose the bucket.

use std::io;

use super::lines_somewhere;
use super::name_store::EntryRef;
use super::search::Tally;
use crate::memory::{Line, Lines, Pages};
use crate::prefetch;
use crate::sync::{AtomicU64, Ordering};

/// Number of slots in a bucket. Loom models have few, because loom follows each atomic.
const SLOTS: usize = if cfg!(loom) { 1 } else { 7 };
/// Index of the word with the number of the next bucket.
const NEXT: usize = 7;
/// Mean number of prefixes in a bucket of a full table.
const LOAD: usize = 4;
/// Number of buckets of the smallest table, and of its overflow buckets.
const BUCKETS_MIN: usize = if cfg!(loom) { 1 } else { 4 };
const OVERFLOW_MIN: usize = if cfg!(loom) { 3 } else { 2 };
/// Maximum length of a fingerprint in bits.
pub(super) const FINGERPRINT_BITS: u32 = 20;
const FINGERPRINT_SHIFT: u32 = 41;

/// One word of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(u64);

impl Slot {
    const OCCUPIED: u64 = 1 << 63;
    const COLLIDED: u64 = 1 << 62;
    const LEAF: u64 = 1 << 61;

    #[inline]
    pub(super) fn entry(self) -> EntryRef {
        EntryRef(self.0 as u32)
    }
    /// Another prefix in the chain has the same fingerprint.
    #[inline]
    pub(super) fn is_collided(self) -> bool {
        self.0 & Slot::COLLIDED != 0
    }
    /// A rule that is no other rule's marker, so the search may end.
    #[inline]
    pub(super) fn is_leaf(self) -> bool {
        self.0 & Slot::LEAF != 0
    }
    #[cfg(all(test, not(loom)))]
    pub(super) fn of_test(entry: EntryRef) -> Self {
        Slot(Slot::OCCUPIED | u64::from(entry.0))
    }
}

/// All overflow buckets are in use.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OverflowExhausted;

/// The table. Readers may call all methods except those marked as the writer's.
pub(super) struct Level {
    /// The primary buckets, followed by the overflow buckets.
    lines: Lines,
    buckets: usize,
    /// The bits that are compared: occupied and fingerprint.
    compared: u64,
}

impl Level {
    /// A table for `prefixes` prefixes.
    ///
    /// # Errors
    /// If the kernel refuses the pages.
    pub(super) fn new(prefixes: usize, pages: Pages, fingerprint_bits: u32) -> io::Result<Self> {
        let (buckets, overflow) = Self::buckets(prefixes);
        Ok(Level::of(Lines::zeroed(buckets + overflow, pages)?, buckets, fingerprint_bits))
    }

    /// The same, on ordinary pages if the kernel refuses others.
    pub(super) fn somewhere(prefixes: usize, pages: Pages, fingerprint_bits: u32) -> Self {
        let (buckets, overflow) = Self::buckets(prefixes);
        Level::of(lines_somewhere(buckets + overflow, pages), buckets, fingerprint_bits)
    }

    /// Numbers of primary and overflow buckets.
    fn buckets(prefixes: usize) -> (usize, usize) {
        let buckets = prefixes.div_ceil(LOAD).max(BUCKETS_MIN);
        (buckets, (buckets / 10).max(OVERFLOW_MIN))
    }

    fn of(lines: Lines, buckets: usize, fingerprint_bits: u32) -> Self {
        let fingerprint = ((1 << fingerprint_bits) - 1) << FINGERPRINT_SHIFT;
        Level { lines, buckets, compared: Slot::OCCUPIED | fingerprint }
    }

    /// Number of prefixes that it was made for.
    pub(super) fn capacity(&self) -> usize {
        self.buckets * LOAD
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Prefetches the bucket of `hash`.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch::read(&self.lines[self.bucket(hash)]);
    }

    /// The slots in the chain of `hash` that have its fingerprint.
    #[inline]
    pub(super) fn matches(&self, hash: u64, tally: &impl Tally) -> impl Iterator<Item = Slot> {
        let pattern = self.pattern(hash);
        self.chain(hash).inspect(|_| tally.lines(1)).flat_map(|line| &line.0[..SLOTS]).filter_map(move |word| {
            // Acquire pairs with the writer's release, so the name entry is visible.
            let slot = word.load(Ordering::Acquire);
            (slot & self.compared == pattern).then_some(Slot(slot))
        })
    }

    /// All slots of some buckets. For the writer.
    pub(super) fn slots_of(&self, buckets: std::ops::Range<usize>) -> impl Iterator<Item = Slot> {
        let words = self.lines[buckets].iter().flat_map(|line| &line.0[..SLOTS]);
        words.map(|word| Slot(word.load(Ordering::Relaxed))).filter(|slot| slot.0 != 0)
    }

    /// Number of buckets, including overflow buckets.
    pub(super) fn buckets_in_all(&self) -> usize {
        self.lines.len()
    }

    /// Adds a prefix, which must not be there yet. Readers see it at once. `overflow_used` counts
    /// the overflow buckets in use, from zero. For the writer.
    pub(super) fn insert(
        &self,
        hash: u64,
        entry: EntryRef,
        leaf: bool,
        overflow_used: &mut usize,
    ) -> Result<(), OverflowExhausted> {
        let hole = self.words(hash).find(|word| word.load(Ordering::Relaxed) == 0);
        let fresh = self.buckets + *overflow_used;
        if hole.is_none() && fresh == self.lines.len() {
            return Err(OverflowExhausted);
        }
        let mut slot = self.pattern(hash) | u64::from(entry.0) | if leaf { Slot::LEAF } else { 0 };
        for twin in self.twins(hash) {
            slot |= Slot::COLLIDED;
            twin.store(twin.load(Ordering::Relaxed) | Slot::COLLIDED, Ordering::Release);
        }
        match hole {
            Some(word) => word.store(slot, Ordering::Release),
            None => {
                *overflow_used += 1;
                self.lines[fresh].0[0].store(slot, Ordering::Relaxed);
                let last = self.chain(hash).last().expect("a chain has a first bucket");
                last.0[NEXT].store(fresh as u64, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Removes a prefix. For the writer.
    ///
    /// # Panics
    /// If it is not there.
    pub(super) fn remove(&self, hash: u64, entry: EntryRef) {
        self.word_of(hash, entry).store(0, Ordering::Release);
        let mut twins = self.twins(hash);
        if let (Some(only), None) = (twins.next(), twins.next()) {
            only.store(only.load(Ordering::Relaxed) & !Slot::COLLIDED, Ordering::Release);
        }
    }

    /// Sets the leaf bit of a prefix. For the writer.
    ///
    /// # Panics
    /// If the prefix is not there.
    pub(super) fn set_leaf(&self, hash: u64, entry: EntryRef, leaf: bool) {
        let word = self.word_of(hash, entry);
        let slot = word.load(Ordering::Relaxed) & !Slot::LEAF;
        word.store(slot | if leaf { Slot::LEAF } else { 0 }, Ordering::Release);
    }

    fn word_of(&self, hash: u64, entry: EntryRef) -> &AtomicU64 {
        self.twins(hash)
            .find(|word| Slot(word.load(Ordering::Relaxed)).entry() == entry)
            .expect("the writer changes only what it found stored")
    }

    /// The words with the fingerprint of `hash`.
    fn twins(&self, hash: u64) -> impl Iterator<Item = &AtomicU64> {
        let pattern = self.pattern(hash);
        self.words(hash).filter(move |word| word.load(Ordering::Relaxed) & self.compared == pattern)
    }

    fn words(&self, hash: u64) -> impl Iterator<Item = &AtomicU64> {
        self.chain(hash).flat_map(|line| &line.0[..SLOTS])
    }

    #[inline]
    fn chain(&self, hash: u64) -> impl Iterator<Item = &Line> {
        std::iter::successors(Some(&self.lines[self.bucket(hash)]), |line| match line.0[NEXT].load(Ordering::Acquire) {
            0 => None,
            next => self.lines.get(next as usize),
        })
    }

    #[inline]
    fn bucket(&self, hash: u64) -> usize {
        let below_fingerprint = u128::from(hash << FINGERPRINT_BITS);
        ((below_fingerprint * self.buckets as u128) >> 64) as usize
    }

    #[inline]
    fn pattern(&self, hash: u64) -> u64 {
        let fingerprint = hash >> (64 - FINGERPRINT_BITS);
        (fingerprint << FINGERPRINT_SHIFT | Slot::OCCUPIED) & self.compared
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Bucket 0, whatever the table's size, with this fingerprint.
    fn hash(fingerprint: u64) -> u64 {
        fingerprint << (64 - FINGERPRINT_BITS)
    }

    fn found(level: &Level, fingerprint: u64) -> Vec<(u32, bool)> {
        level.matches(hash(fingerprint), &()).map(|slot| (slot.entry().0, slot.is_collided())).collect()
    }

    #[test]
    fn equal_fingerprints_are_marked_as_collided_while_there_are_two() {
        let level = Level::new(16, Pages::Small, FINGERPRINT_BITS).expect("small");
        let mut used = 0;
        for (fingerprint, entry) in [(5, 1), (6, 2), (5, 3), (5, 4)] {
            level.insert(hash(fingerprint), EntryRef(entry), true, &mut used).expect("seven slots");
        }
        assert_eq!(found(&level, 5), [(1, true), (3, true), (4, true)]);
        assert_eq!(found(&level, 6), [(2, false)]);
        level.remove(hash(5), EntryRef(1));
        assert_eq!(found(&level, 5), [(3, true), (4, true)]);
        level.remove(hash(5), EntryRef(4));
        assert_eq!(found(&level, 5), [(3, false)]);
    }

    #[test]
    fn leaves_are_marked_in_place() {
        let level = Level::new(16, Pages::Small, FINGERPRINT_BITS).expect("small");
        level.insert(hash(9), EntryRef(1), true, &mut 0).expect("room");
        let is_leaf = || level.matches(hash(9), &()).next().expect("stored").is_leaf();
        assert!(is_leaf());
        level.set_leaf(hash(9), EntryRef(1), false);
        assert!(!is_leaf());
        level.set_leaf(hash(9), EntryRef(1), true);
        assert!(is_leaf());
    }

    #[test]
    fn chains_grow_fill_holes_first_and_end_with_the_pool() {
        let level = Level::new(160, Pages::Small, FINGERPRINT_BITS).expect("small");
        assert_eq!((level.buckets, level.lines.len()), (40, 44));
        let mut used = 0;
        let room = SLOTS as u32 * 5;
        for i in 0..room {
            level.insert(hash(i.into()), EntryRef(i), true, &mut used).expect("a first bucket and four more");
        }
        assert_eq!(used, 4);
        assert_eq!(level.insert(hash(99), EntryRef(99), true, &mut used), Err(OverflowExhausted));
        level.remove(hash(3), EntryRef(3));
        assert_eq!(found(&level, 3), []);
        level.insert(hash(99), EntryRef(99), true, &mut used).expect("a hole");
        assert_eq!(found(&level, 99), [(99, false)]);
        assert_eq!(level.slots_of(0..level.buckets_in_all()).count(), room as usize);
    }
}

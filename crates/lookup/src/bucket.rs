//! Hash buckets of one cache line: the compact array of [So §2.2].
//!
//! A bucket has seven slots and one last word. A slot holds a 32-bit tag (the upper half of the
//! key's 64-bit hash) and a 32-bit index into an array that the table keeps elsewhere. The last
//! word holds the position of an overflow bucket. Most probes therefore touch one cache line. A
//! probe follows an index only if 32 hash bits agree beyond those that chose the bucket.
//!
//! Differs: the overflow buckets stand behind the others in one allocation of fixed size. When they
//! are used up, the owner builds a larger array. Slots are atomics: there is one writer and any
//! number of readers, and readers never wait.
//!
//! Use of the hash: bits 32 to 63 are the tag; bits 0 to 31, as a fraction of one, choose the
//! bucket.

use std::io;

use crate::count::Count;
use crate::memory::{Line, Lines, Pages};
use crate::prefetch;
use crate::sync::{AtomicU64, Ordering};

/// Slots in a bucket. Loom models have few, because loom follows each atomic.
pub(crate) const SLOTS: usize = if cfg!(loom) { 1 } else { 7 };
/// The word with the position of the chain's next bucket. Zero ends the chain, as bucket 0 follows
/// no other. The words before it are slots: `tag << 32 | index + 1`, or zero if empty.
const NEXT: usize = 7;

fn pack(hash: u64, index: u32) -> u64 {
    (hash >> 32 << 32) | (u64::from(index) + 1)
}

#[inline]
fn index_of(slot: u64) -> Option<u32> {
    (slot as u32).checked_sub(1)
}

#[inline]
fn slots_of(bucket: &Line) -> &[AtomicU64] {
    &bucket.0[..SLOTS]
}

/// The number of buckets of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Number of buckets that hashes choose.
    pub(crate) primary: usize,
    /// Number of overflow buckets.
    pub(crate) overflow: usize,
}

impl Shape {
    /// `primary` buckets, and the overflow buckets that they are expected to need at `load` keys
    /// each.
    pub(crate) fn for_load(primary: usize, load: usize) -> Self {
        let expected = primary as f64 * overflow_per_bucket(load);
        // Four standard deviations above the mean, so that overflow buckets do not run out by
        // chance.
        Shape { primary, overflow: (expected + 4.0 * expected.sqrt()) as usize + if cfg!(loom) { 2 } else { 8 } }
    }
}

/// Mean number of overflow buckets behind a bucket whose mean load is `load` keys.
fn overflow_per_bucket(load: usize) -> f64 {
    // Keys fall into buckets by a Poisson distribution. A bucket has a k-th overflow bucket if its
    // keys fill more than k buckets.
    let load = load as f64;
    let (mut chance, mut below, mut keys, mut buckets) = ((-load).exp(), 0.0, 0, 0.0);
    loop {
        below += chance;
        keys += 1;
        chance *= load / keys as f64;
        if (keys - 1) % SLOTS == 0 && keys > SLOTS {
            let more = 1.0 - below;
            if more < 1e-9 {
                return buckets;
            }
            buckets += more;
        }
    }
}

/// Chains of buckets. Readers may call all methods except those marked as the writer's.
pub(crate) struct BucketArray {
    /// The primary buckets, followed by the overflow buckets.
    buckets: Lines,
    primary: usize,
}

/// All overflow buckets are in use.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OverflowExhausted;

impl BucketArray {
    /// # Errors
    /// If the kernel has no such pages.
    pub(crate) fn new(shape: Shape, pages: Pages) -> io::Result<Self> {
        assert!((1..=1 << 31).contains(&shape.primary), "32 bits of the hash choose the bucket");
        Ok(BucketArray { buckets: Lines::zeroed(shape.primary + shape.overflow, pages)?, primary: shape.primary })
    }

    pub(crate) fn shape(&self) -> Shape {
        Shape { primary: self.primary, overflow: self.buckets.len() - self.primary }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// Prefetches the bucket of `hash` ahead of its probe.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch::read(&self.buckets[self.place(hash)]);
    }

    /// Walks the chain of `hash` and calls `look` with each index stored under its tag. Returns the
    /// first result that `look` gives.
    #[inline(always)]
    pub(crate) fn find<C: Count, T>(
        &self,
        hash: u64,
        count: &mut C,
        mut look: impl FnMut(u32, &mut C) -> Option<T>,
    ) -> Option<T> {
        let mut bucket = &self.buckets[self.place(hash)];
        loop {
            count.line();
            for slot in slots_of(bucket) {
                // Acquire pairs with the writer's release, so the reader sees what stands at the
                // index.
                let slot = slot.load(Ordering::Acquire);
                if slot >> 32 == hash >> 32
                    && let Some(index) = index_of(slot)
                    && let Some(found) = look(index, count)
                {
                    return Some(found);
                }
            }
            bucket = self.after(bucket)?;
        }
    }

    /// Every index stored. For the writer: a reader would see the table change during the
    /// iteration.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> {
        self.buckets.iter().flat_map(slots_of).filter_map(|slot| index_of(slot.load(Ordering::Relaxed)))
    }

    /// Stores `index`, which must not be stored yet. Readers see it at once. `overflow_used` counts
    /// the overflow buckets in use, from zero. For the writer.
    pub(crate) fn insert(&self, hash: u64, index: u32, overflow_used: &mut usize) -> Result<(), OverflowExhausted> {
        if let Some(slot) = self.slots(hash).find(|slot| slot.load(Ordering::Relaxed) == 0) {
            slot.store(pack(hash, index), Ordering::Release);
            return Ok(());
        }
        let at = self.primary + *overflow_used;
        let bucket = self.buckets.get(at).ok_or(OverflowExhausted)?;
        *overflow_used += 1;
        bucket.0[0].store(pack(hash, index), Ordering::Relaxed);
        let last = self.chain(hash).last().expect("a chain has a first bucket");
        last.0[NEXT].store(at as u64, Ordering::Release);
        Ok(())
    }

    /// Replaces `old` by `new` in one step. For the writer.
    ///
    /// # Panics
    /// If `old` is not stored.
    pub(crate) fn replace(&self, hash: u64, old: u32, new: u32) {
        self.slot_of(hash, old).store(pack(hash, new), Ordering::Release);
    }

    /// Removes an index. For the writer.
    ///
    /// # Panics
    /// If it is not stored.
    pub(crate) fn remove(&self, hash: u64, index: u32) {
        self.slot_of(hash, index).store(0, Ordering::Release);
    }

    fn slot_of(&self, hash: u64, index: u32) -> &AtomicU64 {
        self.slots(hash)
            .find(|slot| slot.load(Ordering::Relaxed) == pack(hash, index))
            .expect("the writer changes only what it found stored")
    }

    #[inline]
    fn place(&self, hash: u64) -> usize {
        ((hash as u32 as u64 * self.primary as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, bucket: &Line) -> Option<&Line> {
        match bucket.0[NEXT].load(Ordering::Acquire) {
            0 => None,
            next => self.buckets.get(next as usize),
        }
    }

    fn chain(&self, hash: u64) -> impl Iterator<Item = &Line> {
        std::iter::successors(Some(&self.buckets[self.place(hash)]), |bucket| self.after(bucket))
    }

    fn slots(&self, hash: u64) -> impl Iterator<Item = &AtomicU64> {
        self.chain(hash).flat_map(slots_of)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use byname_wire::name_hash::digest_name;
    use byname_wire::{Name, NameHashKey};

    use super::*;

    fn array(overflow: usize) -> BucketArray {
        BucketArray::new(Shape { primary: 1, overflow }, Pages::Small).expect("a few lines")
    }

    fn candidates(array: &BucketArray, hash: u64) -> Vec<u32> {
        let mut found = Vec::new();
        array.find(hash, &mut (), |index, _| -> Option<()> {
            found.push(index);
            None
        });
        found
    }

    #[test]
    fn a_chain_grows_by_overflow_buckets_and_fills_holes_first() {
        let array = array(8);
        let mut overflow_used = 0;
        let hash = |i: u32| u64::from(i) << 32;
        for i in 0..20 {
            array.insert(hash(i), i, &mut overflow_used).expect("8 overflow buckets");
        }
        assert_eq!(overflow_used, 2);
        array.remove(hash(3), 3);
        assert_eq!(candidates(&array, hash(3)), []);
        array.insert(hash(99), 99, &mut overflow_used).expect("a hole");
        assert_eq!(overflow_used, 2);
        array.replace(hash(19), 19, 77);
        assert_eq!(candidates(&array, hash(19)), [77]);
        assert_eq!(array.indices().count(), 20);
    }

    #[test]
    fn says_when_overflow_is_used_up() {
        let array = array(3);
        let mut overflow_used = 0;
        let room = (SLOTS * (1 + 3)) as u32;
        for i in 0..room {
            array.insert(0, i, &mut overflow_used).expect("room");
        }
        assert_eq!(array.insert(0, room, &mut overflow_used), Err(OverflowExhausted));
        assert_eq!(candidates(&array, 0).len(), room as usize);
    }

    #[test]
    fn a_walk_counts_the_lines_it_reads() {
        let (array, mut overflow_used) = (array(3), 0);
        for i in 0..20 {
            array.insert(u64::from(i) << 32, i, &mut overflow_used).expect("room");
        }
        let lines = |hash| {
            let mut counts = crate::count::Counts::default();
            array.find(hash, &mut counts, |index, _| Some(index));
            counts.lines
        };
        assert_eq!([lines(0), lines(7 << 32), lines(19 << 32), lines(20 << 32)], [1, 2, 3, 3]);
    }

    /// [So, Table 4] needs 0.82 MB of overflow ("dynamic") buckets beside 16 MB at a load of 4, and 89 % of the entries
    /// are in first buckets. At a load of 8, first buckets hold only part [So §4.2].
    #[test]
    fn overflow_is_what_so_measured() {
        let hash =
            |i: u32| digest_name(&NameHashKey::new([1, 2]), Name::default().join_number(8, i.into()).as_ref()).hash;
        for (load, per_bucket, in_first) in [(4, 0.82 / 16.0, 0.85..0.999), (8, 0.565, 0.6..0.9)] {
            let shape = Shape::for_load(1 << 14, load);
            let array = BucketArray::new(shape, Pages::Small).expect("a few megabytes");
            let (mut used, keys) = (0, (load << 14) as u32);
            for i in 0..keys {
                array.insert(hash(i), i, &mut used).expect("the shape has room for this load");
            }
            let measured = used as f64 / shape.primary as f64;
            assert!(
                (measured / per_bucket - 1.0).abs() < 0.15,
                "{measured} overflow buckets a bucket at a load of {load}"
            );
            assert!(used as f64 > 0.8 * shape.overflow as f64 - 100.0, "{used} of {}", shape.overflow);
            let mut counts = crate::count::Counts::default();
            for i in 0..keys {
                array.find(hash(i), &mut counts, |index, _| (index == i).then_some(()));
            }
            let lines = counts.lines as f64 / f64::from(keys);
            let first = array.buckets[..shape.primary].iter().flat_map(slots_of);
            let first = first.filter(|slot| slot.load(Ordering::Relaxed) != 0).count() as f64 / f64::from(keys);
            assert!(
                in_first.contains(&first) && lines < 1.0 + 2.0 * (1.0 - first),
                "{first} in first buckets, {lines} lines"
            );
        }
    }
}

//! Hash buckets of one cache line: the compact array of [So §2.2].
//!
//! A bucket has seven slots, each a 32-bit tag (upper half of the key's 64-bit hash) and a 32-bit
//! index into an array that the table keeps elsewhere, and in its eighth word the position of an
//! overflow bucket. So most probes touch one line, and the index is followed only where 32 bits
//! beyond the bucket's own agree.
//!
//! Differs: overflow buckets stand behind the others in one allocation of fixed size; when they
//! are used up the owner builds a larger array. Slots are atomics: one writer, any number of
//! readers that never wait.
//!
//! Bits of the hash: 32 to 63 are the tag, the low bits (at most 28) choose the bucket, bits 28
//! to 31 are used for neither.

use crate::prefetch;
use crate::sync::{AtomicU64, Ordering};

/// Slots in a bucket; few in models, which follow each atomic.
pub(crate) const SLOTS: usize = if cfg!(loom) { 1 } else { 7 };
/// Overflow buckets of the smallest array.
const OVERFLOW_MIN: usize = if cfg!(loom) { 3 } else { 8 };
/// Most buckets, overflow aside.
const PRIMARY_MAX: usize = 1 << 28;

#[repr(align(64))]
struct Bucket {
    /// `tag << 32 | index + 1`, or zero: empty.
    slots: [AtomicU64; SLOTS],
    /// Position of the next bucket of the chain, or zero: the last (bucket 0 follows no other).
    next: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Bucket>() == 64 && align_of::<Bucket>() == 64);

impl Bucket {
    fn new() -> Self {
        Bucket { slots: std::array::from_fn(|_| AtomicU64::new(0)), next: AtomicU64::new(0) }
    }
}

fn pack(hash: u64, index: u32) -> u64 {
    (hash >> 32 << 32) | (u64::from(index) + 1)
}

fn index_of(slot: u64) -> Option<u32> {
    (slot as u32).checked_sub(1)
}

/// Chains of buckets. All methods may be called by readers, except those that say otherwise.
pub(crate) struct BucketArray {
    /// `mask + 1` buckets that hashes choose, then those for overflow.
    buckets: Box<[Bucket]>,
    mask: usize,
}

/// All overflow buckets are in use.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OverflowExhausted;

impl BucketArray {
    /// At least `primary` buckets (rounded up to a power of two), and one in twelve for overflow:
    /// at four keys a bucket, one chain in twenty has a second bucket.
    pub(crate) fn new(primary: usize) -> Self {
        let primary = primary.next_power_of_two().min(PRIMARY_MAX);
        let overflow = primary / 12 + OVERFLOW_MIN;
        BucketArray { buckets: (0..primary + overflow).map(|_| Bucket::new()).collect(), mask: primary - 1 }
    }

    /// Buckets that hashes choose.
    pub(crate) fn primary(&self) -> usize {
        self.mask + 1
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// Asks for the bucket of `hash` ahead of its probe.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch::read(&self.buckets[hash as usize & self.mask]);
    }

    /// The indices stored under the tag of `hash`, in its chain.
    #[inline]
    pub(crate) fn candidates(&self, hash: u64) -> impl Iterator<Item = u32> {
        self.slots(hash).filter_map(move |slot| {
            // Acquire: pairs with the writer's release, so that what stands at the index is seen.
            let slot = slot.load(Ordering::Acquire);
            if slot >> 32 == hash >> 32 { index_of(slot) } else { None }
        })
    }

    /// Every index stored. A writer's method: readers would see a moving picture.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> {
        self.buckets.iter().flat_map(|b| &b.slots).filter_map(|slot| index_of(slot.load(Ordering::Relaxed)))
    }

    /// Stores `index`, which is not stored yet; readers see it at once. `overflow_used` counts the
    /// overflow buckets in use, from zero. The writer's method.
    pub(crate) fn insert(&self, hash: u64, index: u32, overflow_used: &mut usize) -> Result<(), OverflowExhausted> {
        if let Some(slot) = self.slots(hash).find(|slot| slot.load(Ordering::Relaxed) == 0) {
            slot.store(pack(hash, index), Ordering::Release);
            return Ok(());
        }
        let at = self.primary() + *overflow_used;
        let bucket = self.buckets.get(at).ok_or(OverflowExhausted)?;
        *overflow_used += 1;
        bucket.slots[0].store(pack(hash, index), Ordering::Relaxed);
        self.last_of_chain(hash).next.store(at as u64, Ordering::Release);
        Ok(())
    }

    /// Puts `new` where `old` was stored, in one step. The writer's method.
    ///
    /// # Panics
    /// If `old` is not stored.
    pub(crate) fn replace(&self, hash: u64, old: u32, new: u32) {
        self.slot_of(hash, old).store(pack(hash, new), Ordering::Release);
    }

    /// Removes an index. The writer's method.
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

    fn chain(&self, hash: u64) -> impl Iterator<Item = &Bucket> {
        let first = &self.buckets[hash as usize & self.mask];
        std::iter::successors(Some(first), |bucket| match bucket.next.load(Ordering::Acquire) {
            0 => None,
            next => self.buckets.get(next as usize),
        })
    }

    fn slots(&self, hash: u64) -> impl Iterator<Item = &AtomicU64> {
        self.chain(hash).flat_map(|bucket| &bucket.slots)
    }

    fn last_of_chain(&self, hash: u64) -> &Bucket {
        self.chain(hash).last().expect("a chain has a first bucket")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_chain_grows_by_overflow_buckets_and_fills_holes_first() {
        let array = BucketArray::new(1);
        let mut overflow_used = 0;
        let hash = |i: u32| u64::from(i) << 32;
        for i in 0..20 {
            array.insert(hash(i), i, &mut overflow_used).expect("8 overflow buckets");
        }
        assert_eq!(overflow_used, 2);
        array.remove(hash(3), 3);
        assert_eq!(array.candidates(hash(3)).count(), 0);
        array.insert(hash(99), 99, &mut overflow_used).expect("a hole");
        assert_eq!(overflow_used, 2);
        array.replace(hash(19), 19, 77);
        assert_eq!(array.candidates(hash(19)).collect::<Vec<_>>(), [77]);
        assert_eq!(array.indices().count(), 20);
    }

    #[test]
    fn says_when_overflow_is_used_up() {
        let array = BucketArray::new(1);
        let mut overflow_used = 0;
        let room = (SLOTS * (1 + 8)) as u32;
        for i in 0..room {
            array.insert(0, i, &mut overflow_used).expect("room");
        }
        assert_eq!(array.insert(0, room, &mut overflow_used), Err(OverflowExhausted));
        assert_eq!(array.candidates(0).count(), room as usize);
    }
}

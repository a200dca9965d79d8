//! The hash index of the PIT/CS: the compact array of [So §2.2].
//!
//! A bucket is one cache line: seven pairs of (tag, slot), and the number of an overflow bucket. A tag is one byte of
//! the hash. One word holds the tags of all pairs, so a few instructions compare them all. A slot of another hash has
//! the same tag with probability 1/256. Several slots may have one hash: PIT entries of one name with different
//! selectors, and the Data of that name.

use byname_lookup::memory::{self, Refused};
use byname_lookup::prefetch;

/// No bucket.
const NONE: u32 = u32::MAX;
const WAYS: usize = 7;

#[repr(align(64))]
#[derive(Clone)]
struct Bucket {
    /// One tag per byte, in the order of the pairs. Bytes above the last pair have no meaning.
    tags: u64,
    slots: [u32; WAYS],
    used: u32,
    overflow: u32,
}

impl Bucket {
    /// The highest bit of each byte whose pair has this tag. All bytes are compared: the number of pairs varies, so the
    /// end of a loop over them would mostly be mispredicted.
    #[inline(always)]
    fn ways_of(&self, tag: u8) -> u64 {
        const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        let differ = self.tags ^ u64::from_ne_bytes([tag; 8]);
        // The highest bit of a byte stays clear only if all of its bits are clear.
        let equal = !(((differ & LOW) + LOW) | differ | LOW);
        equal & ((1 << (8 * self.used)) - 1)
    }

    /// The first pair with this tag whose slot `wanted` accepts.
    #[inline(always)]
    fn find(&self, tag: u8, mut wanted: impl FnMut(u32) -> bool) -> Option<usize> {
        let mut ways = self.ways_of(tag);
        while ways != 0 {
            let way = ways.trailing_zeros() as usize / 8;
            if wanted(self.slots[way]) {
                return Some(way);
            }
            ways &= ways - 1;
        }
        None
    }

    fn tag(&self, way: usize) -> u8 {
        (self.tags >> (8 * way)) as u8
    }

    fn set(&mut self, way: usize, tag: u8, slot: u32) {
        self.tags = (self.tags & !(0xff << (8 * way))) | (u64::from(tag) << (8 * way));
        self.slots[way] = slot;
    }
}

const EMPTY: Bucket = Bucket { tags: 0, slots: [0; WAYS], used: 0, overflow: NONE };

/// Maps 64-bit hashes to slots.
pub struct Index {
    buckets: Vec<Bucket>,
    /// Overflow buckets. Free ones form a chain by `overflow`, starting at `free`.
    overflow: Vec<Bucket>,
    free: u32,
    mask: usize,
}

impl Index {
    /// An index sized for `entries` entries.
    ///
    /// # Errors
    /// If the system refuses memory.
    pub fn new(entries: usize) -> Result<Self, Refused> {
        let len = (entries.min(1 << 24) / 4).next_power_of_two().max(8);
        let mut buckets = memory::with_large_pages(len)?;
        buckets.resize(len, EMPTY);
        Ok(Index { buckets, overflow: Vec::new(), free: NONE, mask: len - 1 })
    }

    /// Prefetches the bucket of `hash` before a lookup.
    pub fn prefetch(&self, hash: u64) {
        prefetch::read_soon(&self.buckets[self.home(hash)]);
    }

    /// The first slot for `hash` that `wanted` accepts. `wanted` also sees slots of other hashes with the same tag and
    /// bucket.
    pub fn find(&self, hash: u64, mut wanted: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut bucket = &self.buckets[self.home(hash)];
        loop {
            if let Some(way) = bucket.find(tag(hash), &mut wanted) {
                return Some(bucket.slots[way]);
            }
            bucket = self.overflow.get(bucket.overflow as usize)?;
        }
    }

    /// Number of buckets in the longest chain; reads all buckets.
    #[cfg(feature = "lab")]
    pub fn longest_chain(&self) -> usize {
        let length = |bucket: &Bucket| {
            let next = |bucket: &&Bucket| self.overflow.get(bucket.overflow as usize);
            std::iter::successors(Some(bucket), next).count()
        };
        self.buckets.iter().map(length).max().unwrap_or_default()
    }

    /// Adds a slot under `hash`.
    pub fn insert(&mut self, hash: u64, slot: u32) {
        let home = self.home(hash);
        let mut bucket = &mut self.buckets[home];
        if bucket.used as usize == WAYS || bucket.overflow != NONE {
            bucket = self.bucket_with_room(home);
        }
        bucket.set(bucket.used as usize, tag(hash), slot);
        bucket.used += 1;
    }

    /// Removes a slot that was added under `hash`.
    ///
    /// # Panics
    /// If it was not added.
    pub fn remove(&mut self, hash: u64, slot: u32) {
        let home = self.home(hash);
        // The slot's position, the last bucket of the chain, and the bucket before that.
        let (mut here, mut found, mut before_last) = (None, None, None);
        loop {
            let bucket = self.at(home, here);
            if found.is_none() {
                found = bucket.find(tag(hash), |s| s == slot).map(|way| (here, way));
            }
            if bucket.overflow == NONE {
                break;
            }
            before_last = Some(here);
            here = Some(bucket.overflow);
        }
        let (bucket, way) = found.expect("the slot is in the index");
        // The last pair of the chain fills the hole.
        let last = self.at_mut(home, here);
        last.used -= 1;
        let (end_tag, end_slot) = (last.tag(last.used as usize), last.slots[last.used as usize]);
        let emptied = last.used == 0;
        if !(bucket == here && way == self.at(home, here).used as usize) {
            self.at_mut(home, bucket).set(way, end_tag, end_slot);
        }
        if let (true, Some(i), Some(before)) = (emptied, here, before_last) {
            self.at_mut(home, before).overflow = NONE;
            self.overflow[i as usize].overflow = self.free;
            self.free = i;
        }
    }

    fn home(&self, hash: u64) -> usize {
        hash as usize & self.mask
    }

    fn at(&self, home: usize, overflow: Option<u32>) -> &Bucket {
        overflow.map_or(&self.buckets[home], |i| &self.overflow[i as usize])
    }

    fn at_mut(&mut self, home: usize, overflow: Option<u32>) -> &mut Bucket {
        match overflow {
            None => &mut self.buckets[home],
            Some(i) => &mut self.overflow[i as usize],
        }
    }

    /// The last bucket of the chain; adds one if it is full.
    fn bucket_with_room(&mut self, home: usize) -> &mut Bucket {
        let mut here = None;
        while self.at(home, here).overflow != NONE {
            here = Some(self.at(home, here).overflow);
        }
        if self.at(home, here).used as usize == WAYS {
            let new = if self.free == NONE {
                self.overflow.push(EMPTY);
                (self.overflow.len() - 1) as u32
            } else {
                let new = self.free;
                self.free = self.overflow[new as usize].overflow;
                self.overflow[new as usize] = EMPTY;
                new
            };
            self.at_mut(home, here).overflow = new;
            here = Some(new);
        }
        self.at_mut(home, here)
    }
}

/// The highest byte: buckets are selected by bits of the lower half.
fn tag(hash: u64) -> u8 {
    (hash >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng, rngs::SmallRng};

    #[test]
    fn agrees_with_a_list_under_random_changes_and_long_chains() {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut index = Index::new(64).expect("a few lines");
        let mut model: Vec<(u64, u32)> = Vec::new();
        for slot in 0..20_000u32 {
            if model.len() < 600 && rng.random_bool(0.55) {
                // Few distinct hashes, so that chains grow and tags repeat.
                let hash = rng.random_range(0..40u64) << 56 | rng.random_range(0..64);
                index.insert(hash, slot);
                model.push((hash, slot));
            } else if !model.is_empty() {
                let (hash, slot) = model.swap_remove(rng.random_range(0..model.len()));
                index.remove(hash, slot);
            }
            let probe = rng.random_range(0..40u64) << 56 | rng.random_range(0..64);
            let mut seen = Vec::new();
            index.find(probe, |s| {
                seen.push(s);
                false
            });
            for (hash, slot) in &model {
                assert_eq!(
                    seen.contains(slot),
                    *hash == probe
                        || tag(*hash) == tag(probe) && *hash as usize & index.mask == probe as usize & index.mask
                );
            }
        }
    }
}

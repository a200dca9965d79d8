//! Tells which depths have handles, and, for depths with few handles, which hashes they may have.
//!
//! A search probes the fattest depths first, where a table often has few handles or none: depths 8
//! and 16 if most rules have five components, or depths 1 and 2 if rules share no first components.
//! A handle that is known to be absent needs no probe.

use std::collections::HashMap;

use super::DEPTH_MAX;
use crate::sync::{AtomicU64, Ordering};

const LEVELS: usize = DEPTH_MAX + 1;
/// Number of bits of a depth's filter: 4 KiB.
const BITS: usize = if cfg!(loom) { 64 } else { 1 << 15 };
/// Maximum number of handles of a depth for which the filter pays off: it then passes one in eight.
const SPARSE_MAX: usize = BITS / 8;

/// The part that readers see.
pub(super) struct Levels {
    /// Bit `d` is set if there are handles of depth `d`.
    used: AtomicU64,
    /// Bit `d` is set if depth `d` has too many handles for its filter.
    dense: AtomicU64,
    filters: Box<[AtomicU64]>,
}

/// Uses only hash bits that a node keeps of its handle.
fn bit_of(hash: u64) -> usize {
    (hash >> 8) as usize % BITS
}

fn place(depth: usize, hash: u64) -> (usize, u64) {
    let bit = bit_of(hash);
    (depth * (BITS / 64) + bit / 64, 1 << (bit % 64))
}

impl Levels {
    pub(super) fn new() -> Self {
        Levels {
            used: AtomicU64::new(0),
            dense: AtomicU64::new(0),
            filters: (0..LEVELS * BITS / 64).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// For a table that never changes and is small: no filters, so all depths are dense.
    pub(super) fn unfiltered() -> Self {
        Levels { used: AtomicU64::new(0), dense: AtomicU64::new(0), filters: Box::default() }
    }

    /// Whether the table may hold a handle of this depth and hash. Ask again for each probe: a
    /// reader that has seen a handle's entry must see here the handles that were added before it.
    #[inline]
    pub(super) fn may_hold(&self, depth: usize, hash: u64) -> bool {
        // Acquire: the reader sees everything that was written before, including the filter.
        if self.used.load(Ordering::Acquire) >> depth & 1 == 0 {
            return false;
        }
        if self.dense.load(Ordering::Acquire) >> depth & 1 != 0 {
            return true;
        }
        let (word, bit) = place(depth, hash);
        self.filters[word].load(Ordering::Acquire) & bit != 0
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.filters)
    }

    /// The depths with handles, and those without filters, for a file.
    pub(super) fn words(&self) -> [u64; 2] {
        [self.used.load(Ordering::Acquire), self.dense.load(Ordering::Acquire)]
    }

    /// The filters, for a file.
    pub(super) fn filters(&self) -> Vec<u8> {
        self.filters.iter().flat_map(|word| word.load(Ordering::Acquire).to_le_bytes()).collect()
    }

    /// The reverse of [`Levels::words`] and [`Levels::filters`]. `None` if the filters have another
    /// length.
    pub(super) fn decode([used, dense]: [u64; 2], filters: &[u8]) -> Option<Self> {
        let (words, []) = filters.as_chunks::<8>() else { return None };
        let filters: Box<[_]> = words.iter().map(|word| AtomicU64::new(u64::from_le_bytes(*word))).collect();
        // Higher depths have no filters.
        let mask = (1 << LEVELS) - 1;
        let needs_none = used & !dense & mask == 0;
        let fits = filters.len() == LEVELS * BITS / 64 || (filters.is_empty() && needs_none);
        fits.then(|| Levels { used: AtomicU64::new(used & mask), dense: AtomicU64::new(dense & mask), filters })
    }
}

/// The writer's counts for one depth.
#[derive(Default)]
struct Level {
    handles: usize,
    /// Number of handles by filter bit. Empty if the depth is dense or has no handles.
    counts: HashMap<u16, u16>,
}

/// The writer's side.
pub(super) struct LevelsWriter(Vec<Level>);

impl LevelsWriter {
    pub(super) fn new() -> Self {
        LevelsWriter((0..LEVELS).map(|_| Level::default()).collect())
    }

    /// Adds a handle, before its entry is written.
    pub(super) fn add(&mut self, levels: &Levels, depth: usize, hash: u64) {
        let level = &mut self.0[depth];
        level.handles += 1;
        let mask = 1 << depth;
        // A dense depth stays dense until it is empty.
        let is_dense = levels.dense.load(Ordering::Relaxed) & mask != 0;
        if level.handles > SPARSE_MAX || levels.filters.is_empty() {
            level.counts = HashMap::new();
            set(&levels.dense, mask);
        } else if !is_dense {
            *level.counts.entry(bit_of(hash) as u16).or_default() += 1;
            let (word, bit) = place(depth, hash);
            set(&levels.filters[word], bit);
        }
        set(&levels.used, mask);
    }

    /// Removes a handle, after its entry was removed. A dense depth stays dense until it is empty.
    pub(super) fn remove(&mut self, levels: &Levels, depth: usize, hash: u64) {
        let level = &mut self.0[depth];
        level.handles -= 1;
        if level.handles == 0 {
            level.counts = HashMap::new();
            clear(&levels.used, 1 << depth);
            // A small table has no filters.
            for word in levels.filters.iter().skip(depth * (BITS / 64)).take(BITS / 64) {
                word.store(0, Ordering::Release);
            }
            clear(&levels.dense, 1 << depth);
        } else if let Some(count) = level.counts.get_mut(&(bit_of(hash) as u16)) {
            *count -= 1;
            if *count == 0 {
                level.counts.remove(&(bit_of(hash) as u16));
                let (word, bit) = place(depth, hash);
                clear(&levels.filters[word], bit);
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.iter().map(|level| size_of::<Level>() + level.counts.capacity() * 5).sum()
    }
}

fn set(word: &AtomicU64, bits: u64) {
    let now = word.load(Ordering::Relaxed);
    if now & bits != bits {
        word.store(now | bits, Ordering::Release);
    }
}

fn clear(word: &AtomicU64, bits: u64) {
    word.store(word.load(Ordering::Relaxed) & !bits, Ordering::Release);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_never_said_to_be_absent() {
        let (levels, mut writer) = (Levels::new(), LevelsWriter::new());
        let hash = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let may_hold = |levels: &Levels, i| levels.may_hold(8, hash(i));
        let absent = |levels: &Levels, from| (from..from + 10_000).filter(|&i| !may_hold(levels, i)).count();
        assert_eq!(absent(&levels, 0), 10_000);
        for some in [100, SPARSE_MAX, SPARSE_MAX + 1, 10_000] {
            (0..some).for_each(|i| writer.add(&levels, 8, hash(i)));
            assert!((0..some).all(|i| may_hold(&levels, i)));
            let absent = absent(&levels, 1_000_000);
            assert!(if some > SPARSE_MAX { absent == 0 } else { absent > 8000 }, "{some} handles, {absent} absent");
            assert!(!levels.may_hold(4, hash(0)));
            (0..some / 2).for_each(|i| writer.remove(&levels, 8, hash(i)));
            assert!((some / 2..some).all(|i| may_hold(&levels, i)));
            (some / 2..some).for_each(|i| writer.remove(&levels, 8, hash(i)));
            assert!(!may_hold(&levels, 0));
        }
    }
}

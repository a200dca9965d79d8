//! The depths at which rules exist. Lookups probe only these.

use byname_wire::name_hash::{DEPTH_WORDS, DepthSet};

use crate::sync::{AtomicU64, Ordering};

/// A set of depths that one writer changes while readers read it.
pub(crate) struct SharedDepthSet([AtomicU64; DEPTH_WORDS]);

impl SharedDepthSet {
    pub(crate) fn new(depths: DepthSet) -> Self {
        SharedDepthSet(std::array::from_fn(|i| AtomicU64::new(depths.words()[i])))
    }

    /// Acquire: a reader that sees a depth sees the first rule at it.
    #[inline]
    pub(crate) fn load(&self) -> DepthSet {
        DepthSet::from_words(std::array::from_fn(|i| self.0[i].load(Ordering::Acquire)))
    }

    /// For the writer. Writes nothing if the depth is known, so that readers keep the cache line.
    pub(crate) fn insert(&self, depth: usize) {
        let (word, bit) = (&self.0[depth / 64], 1 << (depth % 64));
        let now = word.load(Ordering::Relaxed);
        if now & bit == 0 {
            word.store(now | bit, Ordering::Release);
        }
    }

    /// For the writer.
    pub(crate) fn remove(&self, depth: usize) {
        let word = &self.0[depth / 64];
        word.store(word.load(Ordering::Relaxed) & !(1 << (depth % 64)), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn depths_come_and_go() {
        let set = SharedDepthSet::new(DepthSet::EMPTY);
        for depth in [0, 1, 63, 64, 127, 128] {
            set.insert(depth);
        }
        assert!(set.load().down_from(128).eq([128, 127, 64, 63, 1, 0]));
        set.remove(64);
        set.remove(0);
        assert!(set.load().down_from(128).eq([128, 127, 63, 1]));
    }
}

//! The depths at which rules exist, so that no other is probed.

use byname_wire::name::COMPONENTS_MAX;

use crate::sync::{AtomicU64, Ordering};

/// Number of depths: `/` and names of up to [`COMPONENTS_MAX`] components.
pub(crate) const DEPTHS: usize = COMPONENTS_MAX + 1;
const WORDS: usize = DEPTHS.div_ceil(64);

/// A set of depths, as read at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DepthSet([u64; WORDS]);

impl DepthSet {
    pub(crate) fn empty() -> Self {
        DepthSet([0; WORDS])
    }

    /// Every depth but that of `/`.
    pub(crate) fn all_but_root() -> Self {
        DepthSet(std::array::from_fn(|i| if i == 0 { !1 } else { !0 }))
    }

    /// The deepest; 0 if there is none but that of `/`.
    pub(crate) fn deepest(self) -> usize {
        self.down_from(DEPTHS - 1).next().unwrap_or(0)
    }

    /// The depths up to `depth`, that included; deepest first.
    #[inline]
    pub(crate) fn down_from(self, depth: usize) -> impl Iterator<Item = usize> {
        let mut words = self.0;
        for (i, word) in words.iter_mut().enumerate() {
            // Bits of this word that stand for depths up to `depth`.
            let kept = (depth + 1).saturating_sub(i * 64);
            *word &= if kept >= 64 { u64::MAX } else { (1 << kept) - 1 };
        }
        let mut at = WORDS - 1;
        std::iter::from_fn(move || {
            while words[at] == 0 {
                at = at.checked_sub(1)?;
            }
            let bit = 63 - words[at].leading_zeros() as usize;
            words[at] &= !(1 << bit);
            Some(at * 64 + bit)
        })
    }
}

/// A set of depths that one writer changes under readers.
pub(crate) struct SharedDepthSet([AtomicU64; WORDS]);

impl SharedDepthSet {
    pub(crate) fn new(depths: DepthSet) -> Self {
        SharedDepthSet(std::array::from_fn(|i| AtomicU64::new(depths.0[i])))
    }

    /// Acquire: a reader that sees a depth sees the first rule at it.
    #[inline]
    pub(crate) fn load(&self) -> DepthSet {
        DepthSet(std::array::from_fn(|i| self.0[i].load(Ordering::Acquire)))
    }

    /// The writer's method.
    pub(crate) fn insert(&self, depth: usize) {
        let word = &self.0[depth / 64];
        word.store(word.load(Ordering::Relaxed) | 1 << (depth % 64), Ordering::Release);
    }

    /// The writer's method.
    pub(crate) fn remove(&self, depth: usize) {
        let word = &self.0[depth / 64];
        word.store(word.load(Ordering::Relaxed) & !(1 << (depth % 64)), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn yields_depths_deepest_first() {
        let set = SharedDepthSet::new(DepthSet::empty());
        for depth in [0, 1, 63, 64, 127, 128] {
            set.insert(depth);
        }
        assert!(set.load().down_from(128).eq([128, 127, 64, 63, 1, 0]));
        assert!(set.load().down_from(127).eq([127, 64, 63, 1, 0]));
        assert!(set.load().down_from(63).eq([63, 1, 0]));
        assert!(set.load().down_from(0).eq([0]));
        set.remove(64);
        set.remove(0);
        assert!(set.load().down_from(100).eq([63, 1]));
        assert!(set.load().down_from(0).eq([]));
        assert!(DepthSet::all_but_root().down_from(128).eq((1..=128).rev()));
    }
}

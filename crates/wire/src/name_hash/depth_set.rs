//! Sets of depths. A depth is the number of components of a prefix.

use crate::name::COMPONENTS_MAX;

/// Number of depths: `/` and names of up to [`COMPONENTS_MAX`] components.
pub const DEPTHS: usize = COMPONENTS_MAX + 1;
/// Number of words of a set, which has one bit for each depth.
pub const DEPTH_WORDS: usize = DEPTHS.div_ceil(64);

/// A set of depths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DepthSet([u64; DEPTH_WORDS]);

impl DepthSet {
    /// No depth.
    pub const EMPTY: DepthSet = DepthSet([0; DEPTH_WORDS]);
    /// Every depth.
    pub const ALL: DepthSet = DepthSet([!0; DEPTH_WORDS]);

    /// The set whose [`DepthSet::words`] are these.
    pub const fn from_words(words: [u64; DEPTH_WORDS]) -> Self {
        DepthSet(words)
    }

    /// Bit `d % 64` of word `d / 64`: depth `d` is in the set.
    pub const fn words(self) -> [u64; DEPTH_WORDS] {
        self.0
    }

    /// Every depth except 0, the depth of `/`.
    pub fn all_but_root() -> Self {
        DepthSet(std::array::from_fn(|i| if i == 0 { !1 } else { !0 }))
    }

    /// All depths up to and including `depth`.
    #[inline]
    pub fn up_to(depth: usize) -> Self {
        DepthSet(std::array::from_fn(|i| lowest((depth + 1).saturating_sub(i * 64))))
    }

    /// One depth, below [`DEPTHS`].
    #[inline]
    pub fn of(depth: usize) -> Self {
        let mut set = DepthSet::EMPTY;
        set.insert(depth);
        set
    }

    /// Adds a depth, below [`DEPTHS`].
    #[inline]
    pub fn insert(&mut self, depth: usize) {
        self.0[depth / 64] |= 1 << (depth % 64);
    }

    /// The depths that are in this set, the other, or both.
    #[inline]
    pub fn union(self, other: DepthSet) -> DepthSet {
        DepthSet(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Whether every depth of the other set is in this one.
    #[inline]
    pub fn contains_all(self, other: DepthSet) -> bool {
        self.union(other) == self
    }

    /// Whether a depth, below [`DEPTHS`], is in the set.
    #[inline]
    pub fn contains(self, depth: usize) -> bool {
        self.0[depth / 64] >> (depth % 64) & 1 != 0
    }

    /// The deepest depth; 0 for the empty set.
    pub fn deepest(self) -> usize {
        self.down_from(DEPTHS - 1).next().unwrap_or(0)
    }

    /// The depths up to and including `depth`, deepest first.
    #[inline]
    pub fn down_from(self, depth: usize) -> impl Iterator<Item = usize> {
        let DepthSet(limit) = Self::up_to(depth);
        let mut words: [u64; DEPTH_WORDS] = std::array::from_fn(|i| self.0[i] & limit[i]);
        let mut at = DEPTH_WORDS - 1;
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

/// A word with the lowest `bits` bits set.
#[inline(always)]
pub(super) fn lowest(bits: usize) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yields_depths_deepest_first() {
        let mut set = DepthSet::EMPTY;
        let depths = [0, 1, 63, 64, 127, 128];
        depths.into_iter().for_each(|depth| set.insert(depth));
        assert!(set.down_from(128).eq([128, 127, 64, 63, 1, 0]));
        assert!(set.down_from(127).eq([127, 64, 63, 1, 0]));
        assert!(set.down_from(63).eq([63, 1, 0]));
        assert!(set.down_from(0).eq([0]));
        assert!((0..DEPTHS).all(|depth| set.contains(depth) == depths.contains(&depth)));
        assert_eq!((set.deepest(), DepthSet::EMPTY.deepest()), (128, 0));
        assert!(DepthSet::all_but_root().down_from(128).eq((1..=128).rev()));
    }

    #[test]
    fn a_set_up_to_a_depth_has_all_that_are_no_deeper() {
        for depth in [0, 1, 62, 63, 64, 127, 128] {
            let set = DepthSet::up_to(depth);
            assert!(set.down_from(128).eq((0..=depth).rev()));
            assert!(DepthSet::ALL.contains_all(set) && set.contains_all(DepthSet::EMPTY));
            assert_eq!(set.union(DepthSet::up_to(5)), DepthSet::up_to(depth.max(5)));
            assert_eq!(DepthSet::up_to(5).contains_all(set), depth <= 5);
        }
    }
}

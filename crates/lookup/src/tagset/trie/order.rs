//! The order of bits on a path through the trie [TagNet §3.2.1].

use std::cmp::Reverse;

use byname_wire::tagset::{FILTER_BITS, Filter};

use super::node::END;

/// How often each bit of a filter is set.
pub(super) type Popularity = [u64; FILTER_BITS];

/// Calls `visit` with each bit that is set in `words`. Bit 0 is the lowest bit of the first word.
#[inline(always)]
fn for_each_one(words: [u64; 3], mut visit: impl FnMut(usize)) {
    for (i, mut word) in words.into_iter().enumerate() {
        while word != 0 {
            visit(64 * i + word.trailing_zeros() as usize);
            word &= word - 1;
        }
    }
}

/// Adds a filter's bits.
pub(super) fn count(popularity: &mut Popularity, filter: Filter) {
    for_each_one(filter.words(), |bit| popularity[bit] += 1);
}

/// A permutation of a filter's bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    /// The position of each bit.
    positions: [u8; FILTER_BITS],
    /// The bit at each position.
    bits: [u8; FILTER_BITS],
}

impl Order {
    /// The order of bits in filters.
    pub(super) fn natural() -> Self {
        let bits = std::array::from_fn(|bit| bit as u8);
        Order { positions: bits, bits }
    }

    /// The most popular first. Equally popular bits stay in their order.
    pub(super) fn by_popularity(popularity: &Popularity) -> Self {
        let Order { mut positions, mut bits } = Self::natural();
        bits.sort_by_key(|&bit| Reverse(popularity[usize::from(bit)]));
        for (position, &bit) in bits.iter().enumerate() {
            positions[usize::from(bit)] = position as u8;
        }
        Order { positions, bits }
    }

    /// A filter's bits in this order.
    #[inline]
    pub(super) fn key(&self, filter: Filter) -> Key {
        let mut words = [0; 3];
        for_each_one(filter.words(), |bit| {
            let position = self.positions[bit];
            words[usize::from(position / 64)] |= 1 << 63 >> (position % 64);
        });
        Key(words)
    }

    /// The filter whose bits have these positions.
    pub(super) fn filter(&self, positions: impl IntoIterator<Item = u8>) -> Filter {
        let mut words = [0; 3];
        for position in positions {
            let bit = self.bits[usize::from(position)];
            words[usize::from(bit / 64)] |= 1 << (bit % 64);
        }
        Filter::from_words(words).expect("filters that were taken apart had no spare bits")
    }
}

/// A filter in the trie's order. Position 0 is the first word's top bit, so the greater of two keys
/// comes first in the trie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key([u64; 3]);

impl Key {
    pub(super) fn words(self) -> [u64; 3] {
        self.0
    }

    pub(super) fn weight(self) -> u8 {
        self.0.iter().map(|word| word.count_ones() as u8).sum()
    }

    /// The first position from `from` on. [`END`] if there is none.
    pub(super) fn next(self, from: u8) -> u8 {
        for i in usize::from(from / 64)..3 {
            let before = if i == usize::from(from / 64) { from % 64 } else { 0 };
            let word = self.0[i] & u64::MAX >> before;
            if word != 0 {
                return (64 * i) as u8 + word.leading_zeros() as u8;
            }
        }
        END
    }

    /// The positions from `from` on.
    pub(super) fn rest(self, from: u8) -> impl Iterator<Item = u8> {
        let mut next = self.next(from);
        std::iter::from_fn(move || {
            let position = next;
            next = if position < END { self.next(position + 1) } else { END };
            (position < END).then_some(position)
        })
    }

    /// Number of leading positions that two different keys have in common.
    pub(super) fn common(self, other: Key) -> u8 {
        let mut common = 0;
        for (a, b) in self.0.into_iter().zip(other.0) {
            let same = (a ^ b).leading_zeros();
            if same < 64 {
                return common + (a & !(u64::MAX >> same)).count_ones() as u8;
            }
            common += a.count_ones() as u8;
        }
        common
    }
}

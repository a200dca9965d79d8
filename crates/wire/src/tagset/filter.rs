//! Partitioned Bloom filters of 192 bits.

use std::fmt;

use super::TagDigest;

/// Length of a filter in bits. The last three bits are never set.
pub const FILTER_BITS: usize = 192;
/// Number of hash functions, and of parts.
pub const FUNCTIONS: usize = 7;
/// Bits of one part, among which one function chooses.
pub const PART_BITS: usize = 27;

/// A set of tags as 192 bits: bit `i` is bit `i % 64` of word `i / 64`.
///
/// If set A is a subset of B, A's filter is a subset of B's. The converse holds except for false
/// positives.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filter([u64; 3]);

impl Filter {
    /// The filter of no tags. It is a subset of every filter.
    pub const EMPTY: Filter = Filter([0; 3]);

    /// The filter of these tags.
    pub fn of(tags: &[TagDigest]) -> Self {
        let mut filter = Filter::EMPTY;
        for tag in tags {
            filter.insert(*tag);
        }
        filter
    }

    /// The filter with these words. `None` if one of the three spare bits is set, as no descriptor
    /// sets them.
    pub fn from_words(words: [u64; 3]) -> Option<Self> {
        (words[2] >> (FUNCTIONS * PART_BITS - 128) == 0).then_some(Filter(words))
    }

    /// Its words. Bit 0 is the lowest bit of the first word.
    pub fn words(&self) -> [u64; 3] {
        self.0
    }

    /// The seven bits of a tag, one in each part, in the order of the parts.
    #[inline]
    pub fn positions(tag: TagDigest) -> [u8; FUNCTIONS] {
        // Read the mixed digest as a fraction of one, and take its first digits in base 27.
        let mut fraction = mix(tag.0);
        std::array::from_fn(|part| {
            let product = u128::from(fraction) * PART_BITS as u128;
            fraction = product as u64;
            (part * PART_BITS) as u8 + (product >> 64) as u8
        })
    }

    /// Adds a tag.
    #[inline]
    pub fn insert(&mut self, tag: TagDigest) {
        for position in Self::positions(tag) {
            self.0[usize::from(position) / 64] |= 1 << (position % 64);
        }
    }

    /// Whether `other` has every bit of this filter.
    #[inline]
    pub fn is_subset(&self, other: &Filter) -> bool {
        (0..3).all(|i| self.0[i] & !other.0[i] == 0)
    }

    /// Number of bits set (the Hamming weight).
    pub fn weight(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The positions of the bits that are set, lowest first.
    pub fn ones(&self) -> impl Iterator<Item = u8> {
        let words = self.0;
        (0..FILTER_BITS as u8).filter(move |&bit| words[usize::from(bit) / 64] >> (bit % 64) & 1 == 1)
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filter({:016x} {:016x} {:016x})", self.0[0], self.0[1], self.0[2])
    }
}

/// SplitMix64's finisher: each bit of the result depends on every bit of the digest.
#[inline]
fn mix(digest: u32) -> u64 {
    let mut x = u64::from(digest).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

//! What Bloom filters of one table share: hash functions, the rate of false positives, and the
//! counters that deletions need.

use byname_wire::Digest;

/// Hash function `i` of a name. All of a digest's 128 bits go into each: with the usual sum of two
/// hashes, two names that agree on those two agree on all, far too often for rates below 1e-6.
#[inline(always)]
pub fn hash(digest: Digest, i: u32) -> u64 {
    // The fraction of the golden ratio: seeds far from each other.
    let seed = u64::from(i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let product = u128::from(digest.hash ^ seed) * u128::from(digest.check.wrapping_add(seed));
    (product >> 64) as u64 ^ product as u64
}

/// The share of other names that a filter of `bits` bits takes for one of its `members`.
pub fn false_positives(members: f64, bits: f64, hashes: u32) -> f64 {
    if members == 0.0 {
        return 0.0;
    }
    let hashes = f64::from(hashes);
    (1.0 - (-hashes * members / bits).exp()).powf(hashes)
}

/// A counter of four bits for each bit of the filters [BUFFALO §5], in the control half.
pub struct Counters(Vec<u8>);

/// A counter that was here stays here: how often it was counted is lost.
const FULL: u8 = 15;

impl Counters {
    /// `count` of them, zero.
    pub fn new(count: usize) -> Self {
        Counters(vec![0; count.div_ceil(2)])
    }

    /// Counts a member; whether the bit is to be set.
    pub fn add(&mut self, i: usize) -> bool {
        let count = self.count(i);
        self.set(i, (count + 1).min(FULL));
        count == 0
    }

    /// Takes a member off; whether the bit is to be cleared.
    pub fn remove(&mut self, i: usize) -> bool {
        let count = self.count(i);
        if count < FULL {
            self.set(i, count.saturating_sub(1));
        }
        count == 1
    }

    /// Their memory.
    pub fn memory_bytes(&self) -> usize {
        self.0.len()
    }

    fn count(&self, i: usize) -> u8 {
        (self.0[i / 2] >> (i % 2 * 4)) & 15
    }

    fn set(&mut self, i: usize, count: u8) {
        let shift = i % 2 * 4;
        self.0[i / 2] = self.0[i / 2] & !(15 << shift) | count << shift;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_is_set_while_it_has_members() {
        let mut counters = Counters::new(3);
        assert!(counters.add(1));
        assert!(!counters.add(1));
        assert!(counters.add(0) && counters.add(2));
        assert!(!counters.remove(1));
        assert!(counters.remove(1));
        assert!(counters.remove(0) && counters.remove(2));
        assert_eq!(counters.0, [0, 0]);
    }

    #[test]
    fn a_full_counter_never_clears_its_bit() {
        let mut counters = Counters::new(2);
        (0..20).for_each(|_| _ = counters.add(1));
        assert!((0..40).all(|_| !counters.remove(1)));
    }
}

//! Shared parts of the tables of Bloom filters: hash functions, the rate of false positives, and the counters for
//! deletions.

use byname_wire::Digest;

/// Hash function `i` of a name. Each function uses all 128 bits of the digest. The usual sum of two hashes would
/// collide in all functions when those two hashes collide, which is far too often for rates below 1e-6.
#[inline(always)]
pub fn hash(digest: Digest, i: u32) -> u64 {
    // The golden ratio's fraction spreads the seeds far apart.
    let seed = u64::from(i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let product = u128::from(digest.hash ^ seed) * u128::from(digest.check.wrapping_add(seed));
    (product >> 64) as u64 ^ product as u64
}

/// The probability that a filter of `bits` bits with `members` members accepts another name.
pub fn false_positives(members: f64, bits: f64, hashes: u32) -> f64 {
    if members == 0.0 {
        return 0.0;
    }
    let hashes = f64::from(hashes);
    (1.0 - (-hashes * members / bits).exp()).powf(hashes)
}

/// Counters of four bits, one for each bit of the filters [BUFFALO §5], in the control half.
pub struct Counters(Vec<u8>);

/// A full counter stays full, because the number of further members is lost.
const FULL: u8 = 15;

impl Counters {
    /// Makes `count` counters, all zero.
    pub fn new(count: usize) -> Self {
        Counters(vec![0; count.div_ceil(2)])
    }

    /// Counts a member. Returns whether to set the bit.
    pub fn add(&mut self, i: usize) -> bool {
        let count = self.count(i);
        self.set(i, (count + 1).min(FULL));
        count == 0
    }

    /// Uncounts a member. Returns whether to clear the bit.
    pub fn remove(&mut self, i: usize) -> bool {
        let count = self.count(i);
        if count < FULL {
            self.set(i, count.saturating_sub(1));
        }
        count == 1
    }

    /// Memory of the counters, in bytes.
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

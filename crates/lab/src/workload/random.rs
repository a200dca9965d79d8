//! Seeded random numbers, for names and for the order of lookups.

/// The constant of SplitMix64: the golden ratio's fraction, odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes all bits of `x`: the output function of SplitMix64.
#[inline]
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// SplitMix64 [Steele, Lea and Flood, "Fast splittable pseudorandom number generators"]. The generator can start
/// anywhere without delay, so names can be computed from their index.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    #[inline]
    pub fn new(seed: u64) -> Self {
        Random(mix(seed.wrapping_add(STEP)))
    }

    /// Stream `i` of a seed.
    #[inline]
    pub fn of(seed: u64, i: u64) -> Self {
        Random(mix(seed ^ mix(i.wrapping_mul(STEP).wrapping_add(STEP))))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A nearly uniform number below `n`, for `n` far below 2^64.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// A number in [0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A random permutation of the numbers below `count`, without a list.
///
/// Four Feistel rounds permute all numbers with an even count of bits. A result that is too large is permuted again
/// until it is small enough [Black and Rogaway, "Ciphers with arbitrary finite domains"].
#[derive(Debug, Clone)]
pub struct Permutation {
    count: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    /// Makes a permutation of the numbers below `count`.
    pub fn new(count: u64, seed: u64) -> Self {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        Permutation { count, half_bits: bits.div_ceil(2).max(1), seed }
    }

    /// The number at position `i`, which must be below `count`.
    pub fn at(&self, i: u64) -> u64 {
        assert!(i < self.count);
        let mask = (1 << self.half_bits) - 1;
        let mut number = i;
        loop {
            let (mut left, mut right) = (number >> self.half_bits, number & mask);
            for round in 0..4 {
                (left, right) = (right, left ^ (mix(right ^ mix(self.seed.wrapping_add(round))) & mask));
            }
            number = (left << self.half_bits) | right;
            if number < self.count {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_have_each_number_once() {
        for count in [1, 2, 3, 100, 1024, 1025] {
            let permutation = Permutation::new(count, 3);
            let mut numbers: Vec<_> = (0..count).map(|i| permutation.at(i)).collect();
            assert!(count < 100 || !numbers.is_sorted());
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..count));
        }
    }

    #[test]
    fn numbers_are_below_the_bound_and_fill_it() {
        let mut random = Random::new(9);
        let mut seen = [0; 10];
        (0..10_000).for_each(|_| seen[random.below(10) as usize] += 1);
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.unit())));
    }
}

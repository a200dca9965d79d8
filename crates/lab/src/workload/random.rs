//! Seeded random numbers, for names and for the order in which they are asked for.

/// The constant of SplitMix64: the golden ratio's fraction, odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number that depends on all bits of `x`: the output function of SplitMix64.
#[inline]
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// SplitMix64 [Steele, Lea and Flood, "Fast splittable pseudorandom number generators"]: a
/// generator that can begin anywhere at once, which is what names computed from their index need.
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

    /// A number below `n`, as good as uniform for `n` far below 2^64.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// A number from 0 up to 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

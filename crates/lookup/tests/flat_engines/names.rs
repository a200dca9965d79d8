//! Digests to test with, drawn from a seed, in families that each press on another place.

use byname_wire::Digest;

/// SplitMix64: tests need many numbers, not good ones.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// The digest of the name of this number, as a keyed hash would make it.
pub fn digest(number: usize) -> Digest {
    let mut random = Random(number as u64 ^ 0x5851_f42d_4c95_7f2d);
    Digest { hash: random.next(), check: random.next() }
}

/// A family of names: so many, and the most changes in a batch.
pub struct Family {
    pub name: &'static str,
    pub names: usize,
    pub batch_max: usize,
}

pub const FAMILIES: &[Family] = &[
    // So few that each comes, changes and goes all the time.
    Family { name: "few", names: 12, batch_max: 6 },
    Family { name: "some", names: 400, batch_max: 40 },
    // Tables that grow, shrink and are built anew.
    Family { name: "many", names: 20_000, batch_max: 2000 },
];

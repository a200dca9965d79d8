//! Seeded digests for tests, in families that each stress another part.

use byname_wire::Digest;

use crate::suite::Random;

/// The digest of the name of this number, as a keyed hash would make it.
pub fn digest(number: usize) -> Digest {
    let mut random = Random(number as u64 ^ 0x5851_f42d_4c95_7f2d);
    Digest { hash: random.next(), check: random.next() }
}

/// A family of names: their number, and the maximum number of changes in a batch.
pub struct Family {
    pub name: &'static str,
    pub names: usize,
    pub batch_max: usize,
}

pub const FAMILIES: &[Family] = &[
    // So few names that each is added, changed and removed all the time.
    Family { name: "few", names: 12, batch_max: 6 },
    Family { name: "some", names: 400, batch_max: 40 },
    // Tables that grow, shrink and are rebuilt.
    Family { name: "many", names: 20_000, batch_max: 2000 },
];

//! Maps keyed by face id.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use byname_forward::FaceId;

/// A map by face id. The ids are our own, in a row, so one multiplication spreads them; nobody
/// else can choose them.
pub(crate) type FaceMap<T> = HashMap<FaceId, T, BuildHasherDefault<FaceIdHasher>>;

#[derive(Default)]
pub(crate) struct FaceIdHasher(u64);

impl Hasher for FaceIdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(u64::from(b));
        }
    }
    fn write_u64(&mut self, n: u64) {
        // The map takes its bucket from the low bits and its tag from the high ones.
        self.0 = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

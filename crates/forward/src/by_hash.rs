//! Maps from names' hashes, which are keyed: they are not hashed again.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by a keyed hash of a name.
pub(crate) type ByHash<T> = HashMap<u64, T, BuildHasherDefault<HashIsKey>>;

/// Takes the key for its hash.
#[derive(Default)]
pub(crate) struct HashIsKey(u64);

impl Hasher for HashIsKey {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64")
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

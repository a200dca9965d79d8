//! Maps by hashes of names. These hashes are keyed already, so the maps do not hash them again.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by the keyed hash of a name.
pub(crate) type ByHash<T> = HashMap<u64, T, BuildHasherDefault<HashIsKey>>;

/// A hasher that returns its key.
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

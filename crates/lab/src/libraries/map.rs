//! Maps of whole keys to values.

use std::collections::HashMap;
use std::hash::BuildHasher;

use super::keys::Packed;
use super::value;

/// What the maps have in common.
pub trait Map {
    /// The value of exactly this key.
    fn find(&self, key: &str) -> Option<u32>;

    /// Sets a value, or removes the key.
    fn put(&mut self, key: &str, value: Option<u32>);

    /// Removes the keys with these numbers, or adds them again.
    fn change(&mut self, keys: &Packed, numbers: &[usize], remove: bool) {
        numbers.iter().for_each(|&i| self.put(keys.get(i), (!remove).then(|| value(i))));
    }
}

impl<S: BuildHasher> Map for HashMap<Box<str>, u32, S> {
    fn find(&self, key: &str) -> Option<u32> {
        self.get(key).copied()
    }

    fn put(&mut self, key: &str, value: Option<u32>) {
        match value {
            Some(value) => self.insert(key.into(), value),
            None => self.remove(key),
        };
    }
}

impl<S: BuildHasher> Map for hashbrown::HashMap<Box<str>, u32, S> {
    fn find(&self, key: &str) -> Option<u32> {
        self.get(key).copied()
    }

    fn put(&mut self, key: &str, value: Option<u32>) {
        match value {
            Some(value) => self.insert(key.into(), value),
            None => self.remove(key),
        };
    }
}

//! Longest prefix match with the standard library's map: it looks up the whole name, then one component less, and so
//! on. [Yuan §2.2] reports this of CCNx's prototype, and NFD does it today.
//!
//! Each prefix is hashed from its first byte with the library's default hash (SipHash-1-3), and compared byte by byte.
//!
//! Cost: one lookup for each component of the name, whatever the rules.

use std::collections::HashMap;

use byname_lookup::{EntryId, PrefixMatch};
use byname_wire::{NameRef, NameView};

use super::Table;

/// Rules by their encoded names.
#[derive(Default)]
pub struct LongestFirstMap {
    rules: HashMap<Box<[u8]>, EntryId>,
    name_bytes: usize,
}

impl Table for LongestFirstMap {
    fn set(&mut self, rule: NameRef<'_>, entry: EntryId) {
        if self.rules.insert(rule.value().into(), entry).is_none() {
            self.name_bytes += rule.value().len();
        }
    }

    fn remove(&mut self, rule: NameRef<'_>) {
        if self.rules.remove(rule.value()).is_some() {
            self.name_bytes -= rule.value().len();
        }
    }

    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch> {
        (0..=name.len()).rev().find_map(|depth| {
            let entry = *self.rules.get(name.prefix(depth).value())?;
            Some(PrefixMatch { entry, depth })
        })
    }

    fn memory_bytes(&self) -> usize {
        self.name_bytes + map_bytes(&self.rules)
    }
}

/// Memory of a map itself, without memory that its keys and values own. Each slot takes one byte of control data
/// besides the pair, and the map keeps one slot in eight free.
pub(super) fn map_bytes<K, V>(map: &HashMap<K, V>) -> usize {
    let places = (map.capacity() * 8).div_ceil(7);
    places * (size_of::<(K, V)>() + 1)
}

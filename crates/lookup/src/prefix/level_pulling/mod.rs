//! Binary search that starts deeper below popular prefixes.
//!
//! Implements [Yuan §4] on the tables of [`super::binary_search`]: prefixes with more than T children
//! stand in a component trie (`c_trie`) that fits the cache. A lookup walks it first. Below a prefix
//! that it finds there, the length of the next component is probed first, so that a child of a
//! popular prefix costs one table where it is a leaf; the search goes on among the lengths that
//! remain. For other names it is the same search as without.
//!
//! To start there, every rule below a popular prefix has a marker one component below it, and one at
//! the prefix itself, which gives the answer when the next component is unknown: then that one probe
//! ends the search. The other markers stay as they are: they serve a search that begins anywhere.
//!
//! Differs: the paper simulates this, and does not say what follows after the first probe, nor how
//! the trie follows changes. Here children are counted as rules come and go; a prefix enters when it
//! has more than T, and leaves at three quarters of that. `/` never enters: it would send all names
//! to length one.
//!
//! Cost beyond binary search: a marker for each popular prefix and each of its children that has none
//! at that length; on the control side a count for each prefix of more than one child. A prefix that
//! enters or leaves makes all rules below it visited, and the trie built anew.

mod c_trie;
mod pulling;
#[cfg(all(test, not(loom)))]
mod tests;

use std::io;
use std::sync::Arc;

use byname_wire::{Name, NameHashKey, NameView};

use super::PrefixFib;
use super::binary_search::{self, BinarySearch};
use crate::update::{BuildError, Change, Control, Update};

pub(super) use self::c_trie::{CTrie, Pulled};
pub(super) use self::pulling::Pulling;

/// How to build a table.
#[derive(Debug, Clone)]
pub struct Options {
    /// T: a prefix with more children than this is a starting point. At least one.
    pub children: u32,
    /// Most starting points; further prefixes wait until one leaves.
    pub prefixes_max: usize,
    /// The tables below.
    pub tables: binary_search::Options,
}

impl Default for Options {
    fn default() -> Self {
        // T is the paper's; the largest of its tries had 1,781 prefixes.
        Options { children: 64, prefixes_max: 4096, tables: binary_search::Options::default() }
    }
}

/// The control half: one writer.
pub struct LevelPulling(BinarySearch);

impl LevelPulling {
    /// An empty table for names hashed under `key`.
    ///
    /// # Errors
    /// If the kernel refuses the pages for the rules that are expected.
    ///
    /// # Panics
    /// If `children` is zero, or as [`BinarySearch::new`].
    pub fn new(key: NameHashKey, options: Options) -> io::Result<Self> {
        let pulling = Pulling::new(options.children, options.prefixes_max);
        Ok(LevelPulling(BinarySearch::with_pulling(key, options.tables, Some(pulling))?))
    }

    /// Prefixes that are starting points now: the "size" of [Yuan, Table 4].
    pub fn starting_points(&self) -> usize {
        self.0.starting_points()
    }

    /// Tables that a lookup of `name` probes; walking the trie of prefixes is not counted.
    pub fn hash_lookups(&self, name: &NameView<'_>) -> usize {
        self.0.hash_lookups(name)
    }

    /// Rules in the table.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Prefixes in all tables: rules and markers.
    pub fn prefixes(&self) -> usize {
        self.0.prefixes()
    }

    /// Memory of both halves, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

impl Control<Name> for LevelPulling {
    type Query = dyn PrefixFib;

    fn query(&self) -> Arc<Self::Query> {
        self.0.query()
    }

    fn apply(&mut self, changes: &[Change<Name>]) -> Result<Update<Self::Query>, BuildError> {
        self.0.apply(changes)
    }

    fn reclaim(&mut self) {
        self.0.reclaim();
    }
}

//! Binary search that starts deeper below popular prefixes.
//!
//! Implements [Yuan §4] on the tables of [`super::binary_search`]. Prefixes with more than T
//! children stand in a component trie (`c_trie`) that fits the cache. A lookup walks this trie
//! first. Below a popular prefix it first probes the length of the next component, so a child of a
//! popular prefix costs one table if it is a leaf. The search continues among the remaining
//! lengths. For other names the search is the same as without the trie.
//!
//! For this start, every rule below a popular prefix needs a marker one component below that
//! prefix, and one at the prefix itself. The latter gives the answer if the next component is
//! unknown: that one probe then ends the search. The other markers stay as they are, because they
//! serve a search that begins anywhere.
//!
//! Differs: the paper simulates this. It does not say what follows after the first probe, nor how
//! the trie follows changes. Here children are counted as rules come and go. A prefix enters the
//! trie when it has more than T children, and leaves at three quarters of T. `/` never enters,
//! because it would send all names to length one.
//!
//! Cost in addition to binary search: a marker for each popular prefix, and one for each child that
//! has none at that length. The control side keeps a count for each prefix with more than one
//! child. When a prefix enters or leaves, all rules below it are visited and the trie is rebuilt.

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
    /// Maximum number of starting points. Further prefixes wait until one leaves.
    pub prefixes_max: usize,
    /// The tables that are searched.
    pub tables: binary_search::Options,
}

impl Default for Options {
    fn default() -> Self {
        // T is the paper's. The largest of the paper's tries had 1,781 prefixes.
        Options { children: 64, prefixes_max: 4096, tables: binary_search::Options::default() }
    }
}

/// The control half: one writer.
pub struct LevelPulling(BinarySearch);

impl LevelPulling {
    /// An empty table for names hashed with `key`.
    ///
    /// # Errors
    /// If the kernel refuses pages for the expected rules.
    ///
    /// # Panics
    /// If `children` is zero, and as [`BinarySearch::new`].
    pub fn new(key: NameHashKey, options: Options) -> io::Result<Self> {
        let pulling = Pulling::new(options.children, options.prefixes_max);
        Ok(LevelPulling(BinarySearch::with_pulling(key, options.tables, Some(pulling))?))
    }

    /// Number of prefixes that are starting points now: the "size" of [Yuan, Table 4].
    pub fn starting_points(&self) -> usize {
        self.0.starting_points()
    }

    /// Number of tables that a lookup of `name` probes. The walk through the trie of prefixes is
    /// not counted.
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

    /// Number of prefixes in all tables: rules and markers.
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

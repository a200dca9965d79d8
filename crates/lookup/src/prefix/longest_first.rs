//! Longest prefix match by probing from the longest prefix down, on a compact-array hash table.
//!
//! The baseline algorithm of [So §2.3] on the table of [So §2.2], with the keyed hashes of [So
//! §2.1]. A query takes one probe for each depth up to the name's own at which a rule exists. A
//! probe reads one cache line (overflow chains aside), and one more if the tag matches.
//!
//! Differs:
//! - Depths without rules are not probed. The probes of a hostile name are therefore bounded by the
//!   number of depths in use, not by the name's length. [`TwoStage`](super::TwoStage) bounds them further.
//! - The table keeps no names, and rules change in place while readers look up. `rule_table` gives
//!   the odds and explains how.
//!
//! Limits: entry ids may have any 32 bits.
//!
//! Cost of both halves, in bytes a rule: 16 for the rule, 8 for the other half of its digest, and
//! 17 to 34 for buckets (two to four rules a bucket). The total is 42 at a million rules.

use std::io;
use std::sync::Arc;

use byname_wire::name::COMPONENTS_MAX;
use byname_wire::{Name, NameHashKey, NameView};

use super::PrefixFib;
use super::rule_array::{CHUNK, Rule};
#[cfg(feature = "lab")]
pub use super::rule_table::Prefetch;
pub use super::rule_writer::{Options, TableMemory};
use super::rule_writer::{Prepared, RuleWriter};
use crate::update::{BuildError, Change, Control, Update};

/// Removed and replaced rules keep their places until they are reclaimed. There is room for this
/// many times the maximum number of rules.
const ROOM_FACTOR: usize = 4;

/// The control half: one writer.
///
/// A reader must replace its query half (by that of [`Update::Replace`]) before the next
/// [`Control::reclaim`]. Places of removed rules are reused after that, and an old query half could
/// answer with entries of other rules.
pub struct LongestFirst {
    writer: RuleWriter,
}

impl LongestFirst {
    /// An empty table for at most `rules_max` rules, for names hashed with `key`.
    ///
    /// # Panics
    /// If `rules_max` is above 2^29.
    pub fn new(key: NameHashKey, rules_max: usize) -> Self {
        Self::with_options(key, Options { rules_max, ..Options::default() }).expect("an empty table lies on the heap")
    }

    /// An empty table.
    ///
    /// # Errors
    /// If there are no pages of the requested size.
    ///
    /// # Panics
    /// If `options` has more than 2^29 rules, or a load factor out of its range.
    pub fn with_options(key: NameHashKey, options: Options) -> io::Result<Self> {
        let room = options.rules_max.max(CHUNK) * ROOM_FACTOR;
        Ok(LongestFirst { writer: RuleWriter::new(key, options, room, COMPONENTS_MAX)? })
    }

    /// Rules in the table.
    pub fn len(&self) -> usize {
        self.writer.rules()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of both halves, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.writer.memory_bytes()
    }

    /// The memory of the table, by the rows of [So, Table 4].
    pub fn memory(&self) -> TableMemory {
        self.writer.memory()
    }

    /// Number of probes ("FIB lookups" in [So, Table 5]) of a lookup of `name`.
    pub fn probes(&self, name: &NameView<'_>) -> usize {
        self.writer.table.counts(name).probes
    }

    fn change(&mut self, change: &Prepared) {
        let key = &change.key;
        let rule = change.entry.map(|entry| Rule { entry: Some(entry), depth_max: 0 });
        match (self.writer.find(key), rule) {
            (Some((_, old)), Some(rule)) if old == rule => {}
            (Some(old), Some(rule)) => {
                self.writer.table.begin_change();
                self.writer.replace(key, old, rule);
            }
            (None, Some(rule)) => {
                self.writer.table.begin_change();
                self.writer.insert(key, rule);
            }
            (Some(old), None) => {
                self.writer.table.begin_change();
                self.writer.remove(key, old);
            }
            (None, None) => {}
        }
    }
}

impl Control<Name> for LongestFirst {
    type Query = dyn PrefixFib;

    fn query(&self) -> Arc<Self::Query> {
        self.writer.table.clone()
    }

    fn apply(&mut self, changes: &[Change<Name>]) -> Result<Update<Self::Query>, BuildError> {
        let changes = changes.iter().map(|change| self.writer.prepare(change)).collect::<Result<Vec<_>, _>>()?;
        self.writer.admit(&changes, 0)?;
        for (i, change) in changes.iter().enumerate() {
            self.writer.prefetch(&changes, i);
            self.change(change);
        }
        Ok(self.writer.update())
    }

    fn reclaim(&mut self) {
        self.writer.reclaim();
    }
}

#[cfg(all(test, not(loom)))]
#[path = "longest_first_tests.rs"]
mod tests;

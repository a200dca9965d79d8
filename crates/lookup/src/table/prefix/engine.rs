//! The engines of prefix tables.

use std::sync::Arc;

use byname_wire::{Name, NameHashKey, NameRef, NameView, PrefixHashes};

use super::{Matching, PrefixOptions};
use crate::entry::EntryId;
use crate::prefix::compact::{self, BulkTable, Compact};
use crate::prefix::{LongestFirst, PrefixFib, longest_first};
use crate::update::{BuildError, Change, Control, Update};

/// Rules of a table on [`LongestFirst`] at most.
const LONGEST_FIRST_MAX: usize = 1 << 29;

pub(super) enum Engine {
    Compact { table: Box<Compact>, options: compact::Options },
    Bulk(Box<BulkTable>),
    ManyValues(Box<LongestFirst>),
}

impl Engine {
    pub(super) fn new(key: NameHashKey, options: &PrefixOptions) -> Result<Self, BuildError> {
        Ok(match options.matching {
            Matching::Fast | Matching::Exact => {
                let options = options.compact();
                Engine::Compact { table: Box::new(Compact::new(key, &options)?), options }
            }
            Matching::ManyValues => {
                let rules_max = options.rules_max.min(LONGEST_FIRST_MAX);
                let options = longest_first::Options { rules_max, pages: options.pages, ..Default::default() };
                Engine::ManyValues(Box::new(LongestFirst::with_options(key, options)?))
            }
        })
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Engine::Compact { table, .. } => table.len(),
            Engine::Bulk(table) => table.len(),
            Engine::ManyValues(table) => table.len(),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Engine::Compact { table, .. } => table.memory_bytes(),
            Engine::Bulk(table) => table.memory_bytes(),
            Engine::ManyValues(table) => table.memory_bytes(),
        }
    }

    /// The entry of exactly this rule.
    pub(super) fn entry_of(&mut self, key: &NameHashKey, name: NameRef<'_>) -> Option<EntryId> {
        match self {
            Engine::Compact { table, .. } => table.entry_of(name),
            Engine::Bulk(table) => table.entry_of(name),
            Engine::ManyValues(table) => {
                let mut hashes = PrefixHashes::default();
                let view = NameView::new(key, name, &mut hashes);
                table.query().longest_match(&view).filter(|found| found.depth == view.len()).map(|found| found.entry)
            }
        }
    }
}

impl Control<Name> for Engine {
    type Query = dyn PrefixFib;

    fn query(&self) -> Arc<Self::Query> {
        match self {
            Engine::Compact { table, .. } => table.query(),
            Engine::Bulk(table) => table.query(),
            Engine::ManyValues(table) => table.query(),
        }
    }

    fn apply(&mut self, changes: &[Change<Name>]) -> Result<Update<Self::Query>, BuildError> {
        match self {
            Engine::Compact { table, .. } => table.apply(changes),
            Engine::Bulk(table) => table.apply(changes),
            Engine::ManyValues(table) => table.apply(changes),
        }
    }

    fn reclaim(&mut self) {
        match self {
            Engine::Compact { table, .. } => table.reclaim(),
            Engine::Bulk(table) => table.reclaim(),
            Engine::ManyValues(table) => table.reclaim(),
        }
    }
}

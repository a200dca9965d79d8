//! Bulk loads of sorted rules.

use std::hash::Hash;

use byname_wire::{NameHashKey, NameRef};

use super::{PrefixOptions, TableError};
use crate::entry::EntryId;
use crate::prefix::compact::{self, BulkLoader, BulkTable, Compact, NodeCounter};
use crate::table::key::AsName;
use crate::table::values::Values;
use crate::update::BuildError;

/// Number of rules between two reports of progress.
const REPORTED: usize = 1 << 16;

pub(super) fn load<K: AsName, V: Eq + Hash, I: Iterator<Item = (K, V)>>(
    key: NameHashKey,
    options: &PrefixOptions,
    rules: impl Fn() -> I,
    values: &mut Values<V>,
    progress: &mut dyn FnMut(usize),
) -> Result<BulkTable, TableError> {
    let (mut counter, mut name) = (NodeCounter::default(), Vec::new());
    for (key, _) in rules() {
        name.clear();
        key.append_to(&mut name)?;
        counter.push(NameRef::new_checked_before(&name))?;
    }
    let options = compact::Options { exact: false, ..options.compact() };
    let mut loader = BulkLoader::new(key, counter.nodes(), &options)?;
    for (i, (key, value)) in rules().enumerate() {
        name.clear();
        key.append_to(&mut name)?;
        let entry = values.intern(value)?;
        values.note(None, Some(entry));
        loader.push(NameRef::new_checked_before(&name), entry)?;
        if (i + 1) % REPORTED == 0 {
            progress(i + 1);
        }
    }
    let table = loader.finish_table(&options)?;
    if table.len() > options.rules_max {
        return Err(BuildError::Full { rules: options.rules_max }.into());
    }
    progress(table.len());
    Ok(table)
}

/// The rules of a table, loaded in bulk.
pub(super) fn image(key: NameHashKey, table: &Compact) -> Result<BulkTable, BuildError> {
    let mut rules: Vec<(NameRef<'_>, EntryId)> =
        table.rules().map(|(name, entry)| (NameRef::new_checked_before(name), entry)).collect();
    rules.sort_unstable();
    let mut counter = NodeCounter::default();
    rules.iter().try_for_each(|(name, _)| counter.push(*name))?;
    let options = compact::Options::default();
    let mut loader = BulkLoader::new(key, counter.nodes(), &options)?;
    rules.iter().try_for_each(|&(name, entry)| loader.push(name, entry))?;
    loader.finish_table(&options)
}

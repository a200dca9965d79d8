//! Bulk loads of sorted rules, and of rules to sort.

use byname_wire::{NameHashKey, NameRef};

use super::{PrefixOptions, TableError};
use crate::entry::EntryId;
use crate::memory::{Refused, Scratch};
use crate::prefix::compact::{self, BulkLoader, BulkTable, Compact, NodeCounter};
use crate::table::key::AsName;
use crate::update::BuildError;

/// Number of rules between two reports of progress.
const REPORTED: usize = 1 << 16;

/// Loads rules that come in order. `entry` gives the id of what a rule has.
pub(super) fn load<K: AsName, E, I: Iterator<Item = (K, E)>>(
    key: NameHashKey,
    options: &PrefixOptions,
    rules: impl Fn() -> I,
    mut entry: impl FnMut(E) -> Result<EntryId, TableError>,
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
    for (i, (key, of_rule)) in rules().enumerate() {
        name.clear();
        key.append_to(&mut name)?;
        loader.push(NameRef::new_checked_before(&name), entry(of_rule)?)?;
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

/// Bytes of a rule before its name.
const HEAD: usize = 8;

/// Rules in any order.
///
/// They are in memory that the system gets back: vectors of these sizes would leave several times
/// the bytes of a small table to the allocator.
#[derive(Default)]
pub(super) struct Rules {
    /// Of each rule: the length of its name, its entry (4 bytes each), its name.
    rules: Scratch,
    /// Where each begins (8 bytes).
    order: Scratch,
}

impl Rules {
    /// Adds a rule. `name` is space for its name.
    pub(super) fn push(&mut self, key: &impl AsName, entry: EntryId, name: &mut Vec<u8>) -> Result<(), TableError> {
        name.clear();
        key.append_to(name)?;
        let start = self.rules.len() as u64;
        let mut add = |bytes: &[u8]| self.rules.extend(bytes);
        let added = add(&(name.len() as u32).to_le_bytes()).and_then(|()| add(&entry.0.to_le_bytes()));
        added.and_then(|()| add(name)).and_then(|()| self.order.extend(&start.to_le_bytes())).map_err(refused)
    }

    /// Sorts them into canonical order.
    pub(super) fn sort(&mut self) {
        let places = self.order.as_chunks_mut().0;
        // Rules of equal names stay in the order in which they came.
        places.sort_unstable_by_key(|place| (name_and_entry(&self.rules, *place).0, u64::from_le_bytes(*place)));
    }

    /// The sorted rules. The last of those with equal names counts.
    pub(super) fn sorted(&self) -> impl Iterator<Item = (NameRef<'_>, EntryId)> {
        let mut rules = self.order.as_chunks().0.iter().map(|place| name_and_entry(&self.rules, *place)).peekable();
        std::iter::from_fn(move || {
            loop {
                let (name, entry) = rules.next()?;
                if rules.peek().is_none_or(|(next, _)| *next != name) {
                    return Some((name, entry));
                }
            }
        })
    }
}

fn name_and_entry(rules: &[u8], place: [u8; 8]) -> (NameRef<'_>, EntryId) {
    let rule = &rules[u64::from_le_bytes(place) as usize..];
    let (head, rest) = rule.split_at(HEAD);
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    (NameRef::new_checked_before(&rest[..word(0) as usize]), EntryId(word(4)))
}

fn refused(Refused { bytes }: Refused) -> TableError {
    BuildError::Memory { reason: Refused { bytes }.to_string() }.into()
}

/// The rules of a table, loaded in bulk.
pub(super) fn image(key: NameHashKey, table: &Compact, options: &compact::Options) -> Result<BulkTable, BuildError> {
    let mut rules: Vec<(NameRef<'_>, EntryId)> =
        table.rules().map(|(name, entry)| (NameRef::new_checked_before(name), entry)).collect();
    rules.sort_unstable();
    let mut counter = NodeCounter::default();
    rules.iter().try_for_each(|(name, _)| counter.push(*name))?;
    let mut loader = BulkLoader::new(key, counter.nodes(), options)?;
    rules.iter().try_for_each(|&(name, entry)| loader.push(name, entry))?;
    loader.finish_table(options)
}

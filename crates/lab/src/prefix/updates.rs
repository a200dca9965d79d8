//! Changes of rules, alone and beside a reader.
//!
//! One third of the changes add rules, one third remove them again, and one third replace the entries of rules that
//! stay. The reader checks every answer: the rules that it looks up stay, and each has one of two entries.

use byname_lookup::{Change, EntryId, PrefixFib, PrefixMatch};
use byname_wire::{Name, NameHashKey, NameRef};

use super::check::expected;
use super::reader::Reader;
use crate::workload::{NameSet, Random, Workload};
use crate::writer::{self, Changes};

/// Number of rules that are added to a table of `rules` and removed again. It is small, so that the table stays about
/// equally full.
pub fn fresh(rules: u64) -> u64 {
    (rules / 64).clamp(64, 1 << 18)
}

/// Prepares changes for a table that holds the workload's rules.
pub fn prepare(workload: &dyn Workload, batch: usize, seed: u64) -> Changes<Name> {
    let mut random = Random::new(!seed);
    let mut bytes = Vec::new();
    let (mut forth, mut back) = (Vec::new(), Vec::new());
    for i in 0..fresh(workload.rules()) {
        workload.write_miss(&mut random, &mut bytes);
        let name = NameRef::new_checked_before(&bytes).to_name();
        forth.push(Change::Set(name.clone(), EntryId(0)));
        back.push(Change::Remove(name));
        // Replacements are a third of all changes; half of them are on the way back.
        if i % 2 == 0 {
            let rule = random.below(workload.rules());
            workload.write_rule(rule, &mut bytes);
            let (name, entry) = (NameRef::new_checked_before(&bytes).to_name(), workload.entry(rule));
            forth.push(Change::Set(name.clone(), other(entry)));
            back.push(Change::Set(name, entry));
        }
    }
    Changes::there_and_back(&forth, &back, batch)
}

/// The entry that replaces `entry`.
fn other(entry: EntryId) -> EntryId {
    EntryId(entry.0 ^ 1)
}

/// A reader that checks its answers.
pub struct CheckedReader<'a> {
    reader: Reader<'a>,
    expected: Vec<Option<PrefixMatch>>,
    /// Number of answers so far.
    pub checked: u64,
    /// Number of answers that were right neither before nor after any change.
    pub wrong: u64,
}

impl<'a> CheckedReader<'a> {
    /// Reads names whose rules are never removed.
    pub fn new(workload: &dyn Workload, names: &'a NameSet, key: &'a NameHashKey, burst: usize) -> Self {
        let expected = (0..names.len()).map(|i| expected(workload, names, i)).collect();
        CheckedReader { reader: Reader::new(names, key, burst, 0), expected, checked: 0, wrong: 0 }
    }
}

impl writer::Reader<dyn PrefixFib> for CheckedReader<'_> {
    #[inline]
    fn look_up(&mut self, fib: &dyn PrefixFib) -> usize {
        let range = self.reader.look_up(fib);
        let names = range.len();
        let is_right = |found: &Option<PrefixMatch>, expected: &Option<PrefixMatch>| match (found, expected) {
            (Some(found), Some(expected)) => {
                found.depth == expected.depth && (found.entry == expected.entry || found.entry == other(expected.entry))
            }
            (found, expected) => found.is_none() && expected.is_none(),
        };
        let pairs = self.reader.answers().iter().zip(&self.expected[range]);
        self.wrong += pairs.filter(|(found, expected)| !is_right(found, expected)).count() as u64;
        self.checked += names as u64;
        names
    }
}

//! Compares answers with the oracle's.

use byname_lookup::{PrefixFib, PrefixMatch};
use byname_wire::{NameHashKey, NameRef};

use super::reader::Reader;
use crate::timing::{Checked, sample};
use crate::workload::{NameSet, Workload};

/// The right answer for name `i`.
pub fn expected(workload: &dyn Workload, names: &NameSet, i: usize) -> Option<PrefixMatch> {
    let name = names.parse(i).expect("generated names are well-formed");
    let rule = workload.covering(name)?;
    let mut bytes = Vec::new();
    workload.write_rule(rule, &mut bytes);
    let depth = NameRef::new_checked_before(&bytes).len();
    Some(PrefixMatch { entry: workload.entry(rule), depth })
}

/// Checks bursts spread over all names.
pub fn check(
    fib: &dyn PrefixFib,
    workload: &dyn Workload,
    names: &NameSet,
    key: &NameHashKey,
    burst: usize,
) -> Checked {
    let mut found = Checked::default();
    for start in sample(names.len(), burst) {
        let mut reader = Reader::new(names, key, burst, start);
        let range = reader.look_up(fib);
        found.checked += range.len() as u64;
        let pairs = range.zip(reader.answers());
        found.wrong += pairs.filter(|(i, answer)| **answer != expected(workload, names, *i)).count() as u64;
    }
    found
}

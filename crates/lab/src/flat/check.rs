//! Answers compared with what the names' numbers say.

use super::hasher::Hasher;
use super::names::Names;
use super::queries::Queries;
use super::reader::Reader;
use super::table::Asked;
use crate::timing::{Checked, sample};

/// Checks bursts spread over all queries.
pub fn check(
    asked: Asked<'_>,
    names: &Names,
    action_bits: u32,
    queries: &Queries,
    hasher: &Hasher,
    burst: usize,
) -> Checked {
    let mut found = Checked::default();
    for start in sample(queries.len(), burst) {
        let mut reader = Reader::new(queries, hasher, burst, start);
        let range = reader.look_up(asked);
        found.checked += range.len() as u64;
        let expected = range.map(|i| Some(names.action(queries.number(i, names), action_bits)));
        found.wrong += expected.zip(reader.answers()).filter(|(expected, answer)| expected != *answer).count() as u64;
    }
    found
}

//! Checks answers against the actions that follow from the names' numbers.

use super::baselines::{self, FlatName};
use super::engine::Setup;
use super::hasher::Hasher;
use super::names::Names;
use super::queries::Queries;
use super::reader::Reader;
use super::table::Asked;
use super::updates::Sample;
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

/// The share of unknown names that get an action nevertheless.
pub fn unknown_answered(asked: Asked<'_>, setup: &Setup<'_>) -> f64 {
    let unseen = Sample::unseen(setup);
    let (bytes, digests) = (unseen.names(), unseen.digests(setup.hasher));
    let mut answered = 0;
    for (bytes, digests) in bytes.chunks(baselines::BURST_MAX).zip(digests.chunks(baselines::BURST_MAX)) {
        let mut out = [None; baselines::BURST_MAX];
        let out = &mut out[..digests.len()];
        match asked {
            Asked::Fib(fib) => fib.entry_burst(digests, out),
            Asked::Baseline(baseline) => {
                let names = bytes.iter().zip(digests).map(|(bytes, digest)| FlatName { bytes, digest: *digest });
                baseline.query_burst(&names.collect::<Vec<_>>(), out);
            }
        }
        answered += out.iter().flatten().count();
    }
    answered as f64 / digests.len() as f64
}

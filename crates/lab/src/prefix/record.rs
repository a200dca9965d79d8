//! The result of one measurement.

use serde::Serialize;

use super::options::{Load, Tuning};
use crate::harness::Measured;
use crate::options::Hash;
use crate::timing::Spread;

/// One engine on one workload. Rates are sums over all threads; times are per thread.
#[derive(Serialize, Clone, Debug)]
pub struct Record {
    /// The engine.
    pub engine: String,
    /// Options specific to the engine.
    #[serde(flatten)]
    pub tuning: Tuning,
    /// Number of rules in the table.
    pub rules: u64,
    /// Number of components of the deepest rule.
    pub components: usize,
    /// The rules, as on the command line.
    pub workload: String,
    /// The names, as on the command line.
    pub names: String,
    /// Number of random components appended to hits.
    pub suffix: usize,
    /// Number of names prepared.
    pub names_prepared: usize,
    /// Mean length of a name, in bytes.
    pub name_bytes: f64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of readers.
    pub threads: usize,
    /// Pages of the table: the chosen ones, or `heap` for an engine without a choice.
    pub pages: &'static str,
    /// Names per burst.
    pub burst: usize,
    /// The keyed hash function.
    pub hash: Hash,
    /// Number of repetitions; the rate below is their median.
    pub repetitions: usize,
    /// Lookups per second, parsing and hashing included.
    pub lookups_per_s: f64,
    /// The slowest repetition.
    pub lookups_per_s_min: f64,
    /// The fastest repetition.
    pub lookups_per_s_max: f64,
    /// Nanoseconds per lookup on one thread.
    pub ns_per_lookup: f64,
    /// Part of `ns_per_lookup` for parsing and hashing, measured alone.
    pub hash_ns_per_lookup: f64,
    /// The p99 time of a burst. Bursts are timed one by one.
    pub p99_ns_per_burst: u64,
    /// Mean number of the table's cache lines that a lookup reads, if the engine can count them.
    pub cache_lines_per_lookup: Option<f64>,
    /// Resident memory of the query half, measured; a half below 256 MiB is counted. It is too high for an engine whose
    /// halves share the heap.
    pub bytes_per_rule: f64,
    /// Resident memory of both halves, measured.
    pub bytes_per_rule_both: f64,
    /// Memory of the query half, as the engine counts it.
    pub bytes_per_rule_counted: f64,
    /// How the rules were loaded.
    pub load: Load,
    /// Time from the first rule to the last, in seconds.
    pub build_s: f64,
    /// Changes per second by one writer; `None` if the engine takes no changes after this build.
    pub updates_per_s: Option<f64>,
    /// Lookups per second by a reader beside that writer (`--updates`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookups_per_s_updating: Option<f64>,
    /// Lookups per second by the same reader without changes, measured in between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookups_per_s_quiet: Option<f64>,
    /// Number of answers compared with the oracle's.
    pub checked: u64,
    /// Number of wrong answers.
    pub wrong: u64,
    /// The machine's limit: independent random cache lines that it reads per second from a table of the same size.
    pub machine_lines_per_s: f64,
    /// Size of that table, in bytes.
    pub machine_bytes: usize,
    /// Share of the machine's limit that the lookups use.
    pub of_limit: Option<f64>,
}

impl Measured for Record {
    fn rate(&self) -> Spread {
        Spread { median: self.lookups_per_s, min: self.lookups_per_s_min, max: self.lookups_per_s_max }
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn machine_lines_per_s(&self) -> Option<f64> {
        Some(self.machine_lines_per_s)
    }
}

//! What one measurement found.

use serde::Serialize;

use super::options::{Hash, Load, Tuning};

/// One engine on one workload. Rates are of all threads together; times are a thread's own.
#[derive(Serialize, Clone, Debug)]
pub struct Record {
    /// The engine.
    pub engine: String,
    /// Options that are its own.
    #[serde(flatten)]
    pub tuning: Tuning,
    /// Rules in the table.
    pub rules: u64,
    /// Components of the deepest rule.
    pub components: usize,
    /// The rules, as on the command line.
    pub workload: String,
    /// The names, as on the command line.
    pub names: String,
    /// Random components appended to hits.
    pub suffix: usize,
    /// Names prepared.
    pub names_prepared: usize,
    /// Octets of a name, on average.
    pub name_bytes: f64,
    /// Seed of all of it.
    pub seed: u64,
    /// Readers.
    pub threads: usize,
    /// Pages of the table: those asked for, or `heap` for an engine that has no choice.
    pub pages: &'static str,
    /// Names looked up together.
    pub burst: usize,
    /// The keyed hash.
    pub hash: Hash,
    /// Repetitions, of which the rate below is the median.
    pub repetitions: usize,
    /// Lookups a second, parsing and hashing included.
    pub lookups_per_s: f64,
    /// The slowest repetition.
    pub lookups_per_s_min: f64,
    /// The fastest repetition.
    pub lookups_per_s_max: f64,
    /// Nanoseconds of one thread for a lookup.
    pub ns_per_lookup: f64,
    /// Of these, parsing and hashing, measured alone.
    pub hash_ns_per_lookup: f64,
    /// The time that 1 burst of 100 exceeds, timed burst by burst.
    pub p99_ns_per_burst: u64,
    /// Cache lines of the table that a lookup reads, where the engine can count them.
    pub cache_lines_per_lookup: Option<f64>,
    /// Resident memory of the query half, measured. Too high for an engine whose halves share the
    /// heap.
    pub bytes_per_rule: f64,
    /// Resident memory of both halves, measured.
    pub bytes_per_rule_both: f64,
    /// What the engine says that its query half takes.
    pub bytes_per_rule_counted: f64,
    /// How the rules came in.
    pub load: Load,
    /// Time from the first rule to the last.
    pub build_s: f64,
    /// Changes a second, of one writer; none where the engine takes no changes after this build.
    pub updates_per_s: Option<f64>,
    /// A reader's rate beside that writer (`--updates`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookups_per_s_updating: Option<f64>,
    /// The same reader's rate in between, without changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookups_per_s_quiet: Option<f64>,
    /// Answers compared with the oracle's.
    pub checked: u64,
    /// Wrong ones among them.
    pub wrong: u64,
    /// Independent random cache lines a second that the machine reads from a table of that size.
    pub machine_lines_per_s: f64,
    /// Size of the table they were read from, in bytes.
    pub machine_bytes: usize,
    /// Share of that rate that the lookups use.
    pub of_limit: Option<f64>,
}

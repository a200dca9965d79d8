//! The result of one measurement.

use serde::Serialize;

use super::hasher::Function;
use super::names::Keys;
use super::options::Load;
use crate::harness::Measured;
use crate::timing::Spread;

/// One engine on one population of names. Rates are sums over all threads; times are per thread.
#[derive(Serialize, Clone, Debug)]
pub struct Record {
    /// The engine.
    pub engine: String,
    /// Number of names in the table.
    pub names: u64,
    /// Kind of the names.
    pub keys: Keys,
    /// Mean length of a name, in bytes.
    pub key_bytes: f64,
    /// Bits of an action.
    pub action_bits: u32,
    /// Number of names prepared; with a register, the number generated before it starts again.
    pub queries_prepared: usize,
    /// Whether names are looked up in the order of a trace.
    pub trace: bool,
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of readers.
    pub threads: usize,
    /// Pages of the table: the chosen ones, or `heap` for an engine without a choice.
    pub pages: &'static str,
    /// Names per burst.
    pub burst: usize,
    /// Hash function of names.
    pub hash: Function,
    /// Number of repetitions; the rate below is their median.
    pub repetitions: usize,
    /// Queries per second, hashing included.
    pub queries_per_s: f64,
    /// The slowest repetition.
    pub queries_per_s_min: f64,
    /// The fastest repetition.
    pub queries_per_s_max: f64,
    /// Nanoseconds per query on one thread.
    pub ns_per_query: f64,
    /// Part of `ns_per_query` for reading and hashing the name, measured alone.
    pub hash_ns: f64,
    /// The p99 time of a burst. Bursts are timed one by one.
    pub p99_ns_per_burst: u64,
    /// Mean number of the table's cache lines that a query reads, if the engine can count them.
    pub cache_lines_per_query: Option<f64>,
    /// Resident memory of the query half, measured; a half below 256 MiB is counted.
    pub bits_per_name: f64,
    /// Memory of the query half, as the engine counts it.
    pub bits_per_name_counted: f64,
    /// Resident memory of the control half, in bytes, measured.
    pub control_bytes_per_name: f64,
    /// How the names were loaded.
    pub load: Load,
    /// Time from the first name to the last, including generating and hashing the names.
    pub construct_s: f64,
    /// Construction time per name.
    pub construct_ns_per_name: f64,
    /// New names added per second by one writer without readers, hashing included; `None` if the engine takes no
    /// changes after this build.
    pub adds_per_s: Option<f64>,
    /// Names per second that get another action.
    pub alters_per_s: Option<f64>,
    /// Names deleted per second.
    pub deletes_per_s: Option<f64>,
    /// Message bytes per added name, for the given batches; `None` if the engine has no messages.
    pub message_bytes_per_add: Option<f64>,
    /// Message bytes per changed action.
    pub message_bytes_per_alter: Option<f64>,
    /// Entropy of an addition, as in [Concise, Table 2].
    pub message_entropy_bits_per_add: Option<f64>,
    /// Entropy of a change of action.
    pub message_entropy_bits_per_alter: Option<f64>,
    /// Changes per second by a writer beside a reader (`--updates`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updates_per_s: Option<f64>,
    /// Queries per second by that reader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries_per_s_updating: Option<f64>,
    /// Queries per second by the same reader without changes, measured in between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries_per_s_quiet: Option<f64>,
    /// Number of answers compared with the expected ones.
    pub checked: u64,
    /// Number of wrong answers.
    pub wrong: u64,
    /// Expected share of wrong answers, by a filter's own formula; 0 if every answer must be right.
    pub wrong_rate: f64,
    /// Share of unknown names that get an action nevertheless [Concise §7.3].
    pub unknown_answered: f64,
    /// The machine's limit: independent random cache lines that it reads per second from a table of the same size.
    pub machine_lines_per_s: f64,
    /// Size of that table, in bytes.
    pub machine_bytes: usize,
    /// Share of the machine's limit that the queries use.
    pub of_limit: Option<f64>,
}

impl Measured for Record {
    fn rate(&self) -> Spread {
        Spread { median: self.queries_per_s, min: self.queries_per_s_min, max: self.queries_per_s_max }
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn machine_lines_per_s(&self) -> Option<f64> {
        Some(self.machine_lines_per_s)
    }
}

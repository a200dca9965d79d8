//! What one measurement found.

use serde::Serialize;

use super::hasher::Function;
use super::names::Keys;
use super::options::Load;

/// One engine on one population of names. Rates are of all threads together; times are a thread's
/// own.
#[derive(Serialize, Clone, Debug)]
pub struct Record {
    /// The engine.
    pub engine: String,
    /// Names in the table.
    pub names: u64,
    /// What they are.
    pub keys: Keys,
    /// Octets of a name, on average.
    pub key_bytes: f64,
    /// Bits of an action.
    pub action_bits: u32,
    /// Names prepared; of a register's, those that it makes before it starts again.
    pub queries_prepared: usize,
    /// Whether they are asked for in the order of a trace.
    pub trace: bool,
    /// Seed of all of it.
    pub seed: u64,
    /// Readers.
    pub threads: usize,
    /// Pages of the table: those asked for, or `heap` for an engine that has no choice.
    pub pages: &'static str,
    /// Names asked for together.
    pub burst: usize,
    /// What names are hashed with.
    pub hash: Function,
    /// Repetitions, of which the rate below is the median.
    pub repetitions: usize,
    /// Queries a second, hashing included.
    pub queries_per_s: f64,
    /// The slowest repetition.
    pub queries_per_s_min: f64,
    /// The fastest repetition.
    pub queries_per_s_max: f64,
    /// Nanoseconds of one thread for a query.
    pub ns_per_query: f64,
    /// Of these, taking the name and hashing it, measured alone.
    pub hash_ns: f64,
    /// The time that 1 burst of 100 exceeds, timed burst by burst.
    pub p99_ns_per_burst: u64,
    /// Cache lines of the table that a query reads, where the engine can count them.
    pub cache_lines_per_query: Option<f64>,
    /// Resident memory of the query half, measured.
    pub bits_per_name: f64,
    /// What the engine says that its query half takes.
    pub bits_per_name_counted: f64,
    /// Resident memory of the control half, in bytes, measured.
    pub control_bytes_per_name: f64,
    /// How the names came in.
    pub load: Load,
    /// Time from the first name to the last, making and hashing them included.
    pub construct_s: f64,
    /// The same for one name.
    pub construct_ns_per_name: f64,
    /// New names added a second by one writer without readers, hashing included; none where the engine
    /// takes no changes after this build.
    pub adds_per_s: Option<f64>,
    /// Names given another action.
    pub alters_per_s: Option<f64>,
    /// Names deleted.
    pub deletes_per_s: Option<f64>,
    /// Octets of messages for a name added, batch by batch, where the engine has messages.
    pub message_bytes_per_add: Option<f64>,
    /// Octets of messages for a name given another action.
    pub message_bytes_per_alter: Option<f64>,
    /// What an addition tells at least, as in [Concise, Table 2].
    pub message_entropy_bits_per_add: Option<f64>,
    /// What a name with another action tells at least.
    pub message_entropy_bits_per_alter: Option<f64>,
    /// Changes a second of a writer beside a reader (`--updates`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updates_per_s: Option<f64>,
    /// That reader's rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries_per_s_updating: Option<f64>,
    /// The same reader's rate in between, without changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries_per_s_quiet: Option<f64>,
    /// Answers compared with the generator's.
    pub checked: u64,
    /// Wrong ones among them.
    pub wrong: u64,
    /// The share that a filter answers wrong by its own formula; 0 where every answer must be right.
    pub wrong_rate: f64,
    /// The share of names which are not in the table that get an action all the same [Concise §7.3].
    pub unknown_answered: f64,
    /// Independent random cache lines a second that the machine reads from a table of that size.
    pub machine_lines_per_s: f64,
    /// Size of the table they were read from, in bytes.
    pub machine_bytes: usize,
    /// Share of that rate that the queries use.
    pub of_limit: Option<f64>,
}

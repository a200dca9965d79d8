//! The result for one library.

use serde::{Deserialize, Serialize};

/// One table of one library. Rates are of one thread if nothing else is said.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Record {
    /// The kind of table.
    pub table: String,
    /// The library, and how its table was made.
    pub library: String,
    /// What the keys are.
    pub names: String,
    /// Number of keys.
    pub keys: u64,
    /// Mean length of a key as text, in bytes.
    pub key_bytes: f64,
    /// Time to build the table from keys in memory, in seconds.
    pub build_s: f64,
    /// Growth of resident memory by building it, in bytes.
    pub resident_bytes: u64,
    /// The same for each key.
    pub bytes_per_key: f64,
    /// Number of repetitions; the rates are medians.
    pub repetitions: u32,
    /// Lookups a second, one by one.
    pub lookups_per_s: f64,
    /// The slowest repetition.
    pub lookups_per_s_min: f64,
    /// The fastest repetition.
    pub lookups_per_s_max: f64,
    /// Lookups a second of many questions together; `null` if the library has no call for that.
    pub burst_lookups_per_s: Option<f64>,
    /// Number of threads that ask together for the next two rates, each on a processor of its own.
    pub threads: u32,
    /// Lookups a second of all threads together, one by one.
    pub threads_lookups_per_s: f64,
    /// The same, of many questions together.
    pub threads_burst_lookups_per_s: Option<f64>,
    /// Keys removed or added a second, in batches of 1,000; `null` if the library cannot do it.
    pub updates_per_s: Option<f64>,
    /// Number of answers that were compared.
    pub checked: u64,
    /// Number of wrong ones.
    pub wrong: u64,
}

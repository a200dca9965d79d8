//! What one measurement found.

use serde::Serialize;

use super::asking::{Algorithm, Carried, Traffic};
use super::options::Tuning;
use crate::workload::TagKind;

/// One engine on one population of descriptors. Rates are of all threads together; times are a
/// thread's own.
#[derive(Serialize, Clone, Debug)]
pub struct Record {
    /// The engine.
    pub engine: String,
    /// The trie's choices, and the limit that replaced the engine's.
    pub tuning: Tuning,
    /// Descriptors in the table.
    pub descriptors: u64,
    /// What they are.
    pub workload: TagKind,
    /// Tags of a descriptor, on average over a sample.
    pub tags_per_descriptor: f64,
    /// Least and most tags that packets have beside those of a descriptor.
    pub extra_tags: (u64, u64),
    /// How packets came about.
    pub traffic: Traffic,
    /// Share of packets made from a descriptor of the table.
    pub match_rate: f64,
    /// What was looked for.
    pub algorithm: Algorithm,
    /// Entries after which the search for all ended.
    pub fanout: Option<u32>,
    /// What packets carried.
    pub packets: Carried,
    /// Packets prepared.
    pub packets_prepared: usize,
    /// Seed of all of it.
    pub seed: u64,
    /// Readers.
    pub threads: usize,
    /// Pages of the tables.
    pub pages: &'static str,
    /// Packets asked for together.
    pub burst: usize,
    /// Repetitions, of which the rate below is the median.
    pub repetitions: usize,
    /// Packets a second, making filters included.
    pub packets_per_s: f64,
    /// The slowest repetition.
    pub packets_per_s_min: f64,
    /// The fastest repetition.
    pub packets_per_s_max: f64,
    /// Nanoseconds of one thread for a packet.
    pub ns_per_packet: f64,
    /// Entries visited, or the largest subset found, for a packet.
    pub matches_per_packet: f64,
    /// Nodes or candidates for a packet, as the engine counts.
    pub steps_per_packet: f64,
    /// Share of packets whose searches reached the engine's limit.
    pub cut_off: f64,
    /// Resident memory of the query half, measured.
    pub bytes_per_descriptor: f64,
    /// What the engine says that its query half takes.
    pub bytes_per_descriptor_counted: f64,
    /// Resident memory of the control half, measured.
    pub control_bytes_per_descriptor: f64,
    /// Time from the first descriptor to the last, making them included.
    pub build_s: f64,
    /// Changes a second of one writer, beside a reader with `--updates`: new descriptors, their
    /// removal, and other entries for those that stay.
    pub updates_per_s: f64,
    /// A reader's packets a second beside that writer (`--updates`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets_per_s_updating: Option<f64>,
    /// The same reader's rate in between, without changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets_per_s_quiet: Option<f64>,
    /// Answers compared: a sample with what is right, and with `--updates` all that a reader got
    /// beside a writer with what the same packets found before.
    pub checked: u64,
    /// Wrong ones among them.
    pub wrong: u64,
    /// Independent random cache lines a second that the machine reads from a table of that size.
    pub machine_lines_per_s: f64,
    /// Size of the table they were read from, in bytes.
    pub machine_bytes: usize,
    /// Share of that rate that the steps would use if each read a line of its own: more than 1 where
    /// they share lines, or find them in the caches.
    pub of_limit: f64,
}

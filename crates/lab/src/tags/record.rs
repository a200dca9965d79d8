//! The result of one measurement.

use serde::Serialize;

use super::asking::{Algorithm, Carried, Traffic};
use super::options::Tuning;
use crate::harness::Measured;
use crate::timing::Spread;
use crate::workload::TagKind;

/// One engine on one population of descriptors. Rates are sums over all threads; times are per thread.
#[derive(Serialize, Clone, Debug)]
pub struct Record {
    /// The engine.
    pub engine: String,
    /// The trie's choices, and the limit of steps if it is not the engine's default.
    pub tuning: Tuning,
    /// Number of descriptors in the table.
    pub descriptors: u64,
    /// Kind of the descriptors.
    pub workload: TagKind,
    /// Mean number of tags of a descriptor, over a sample.
    pub tags_per_descriptor: f64,
    /// Minimum and maximum number of tags of a packet beyond those of a descriptor.
    pub extra_tags: (u64, u64),
    /// How packets were made.
    pub traffic: Traffic,
    /// Share of packets made from a descriptor of the table.
    pub match_rate: f64,
    /// The search.
    pub algorithm: Algorithm,
    /// Number of entries after which the search for all subsets ended.
    pub fanout: Option<u32>,
    /// What packets carried.
    pub packets: Carried,
    /// Number of packets prepared.
    pub packets_prepared: usize,
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of readers.
    pub threads: usize,
    /// Pages of the tables.
    pub pages: &'static str,
    /// Packets per burst.
    pub burst: usize,
    /// Number of repetitions; the rate below is their median.
    pub repetitions: usize,
    /// Packets per second, including the making of filters.
    pub packets_per_s: f64,
    /// The slowest repetition.
    pub packets_per_s_min: f64,
    /// The fastest repetition.
    pub packets_per_s_max: f64,
    /// Nanoseconds per packet on one thread.
    pub ns_per_packet: f64,
    /// Mean number of entries visited, or of largest subsets found, per packet.
    pub matches_per_packet: f64,
    /// Mean number of nodes or candidates per packet, as the engine counts them.
    pub steps_per_packet: f64,
    /// Share of packets whose searches reached the engine's limit of steps.
    pub cut_off: f64,
    /// Resident memory of the query half, measured; a half below 256 MiB is counted.
    pub bytes_per_descriptor: f64,
    /// Memory of the query half, as the engine counts it.
    pub bytes_per_descriptor_counted: f64,
    /// Resident memory of the control half, measured.
    pub control_bytes_per_descriptor: f64,
    /// Time from the first descriptor to the last, including their generation.
    pub build_s: f64,
    /// Changes per second by one writer, beside a reader with `--updates`. Changes add descriptors, remove them again,
    /// and replace entries of others.
    pub updates_per_s: f64,
    /// Packets per second of a reader beside that writer (`--updates`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets_per_s_updating: Option<f64>,
    /// Packets per second of the same reader without changes, measured in between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets_per_s_quiet: Option<f64>,
    /// Number of answers compared: a sample with the right answers, and with `--updates` all of the reader's answers
    /// with those before the changes.
    pub checked: u64,
    /// Number of wrong answers.
    pub wrong: u64,
    /// The machine's limit: independent random cache lines that it reads per second from a table of the same size.
    pub machine_lines_per_s: f64,
    /// Size of that table, in bytes.
    pub machine_bytes: usize,
    /// Share of the machine's limit that the steps would use if each read a line of its own. It exceeds 1 if steps
    /// share lines or find them in the caches.
    pub of_limit: f64,
}

impl Measured for Record {
    fn rate(&self) -> Spread {
        Spread { median: self.packets_per_s, min: self.packets_per_s_min, max: self.packets_per_s_max }
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn machine_lines_per_s(&self) -> Option<f64> {
        Some(self.machine_lines_per_s)
    }
}

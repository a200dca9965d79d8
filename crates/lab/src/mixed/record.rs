//! The result of one measurement.

use serde::Serialize;

use crate::harness::Measured;
use crate::timing::Spread;
use crate::workload::TagKind;

/// One mix of flows at one router. Rates are sums over all threads.
#[derive(Serialize, Clone, Debug)]
pub struct Record {
    /// The engine for tags.
    pub engine: String,
    /// Number of descriptors in its table.
    pub descriptors: u64,
    /// Kind of the descriptors.
    pub workload: TagKind,
    /// Number of nodes and edges of the network.
    pub nodes: usize,
    pub edges: usize,
    /// Share of pull flows.
    pub pull: f64,
    /// Maximum number of follow-up Interests of a pull flow.
    pub follow_ups: u32,
    /// Number of packets prepared.
    pub packets_prepared: usize,
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of readers.
    pub threads: usize,
    /// Packets per burst.
    pub burst: usize,
    /// Number of repetitions; the rates are their medians.
    pub repetitions: usize,
    /// Packets per second: median, minimum and maximum.
    pub packets_per_s: f64,
    pub packets_per_s_min: f64,
    pub packets_per_s_max: f64,
    /// Mean size of a packet, in bytes.
    pub bytes_per_packet: f64,
    /// `packets_per_s` times the mean size.
    pub gbit_per_s: f64,
    /// Share of packets that are addressed by locator.
    pub by_locator: f64,
    /// Mean number of descriptors that a pushed packet matches; 0 if none was pushed.
    pub matches_per_push: f64,
    /// Share of packets for which the search reached the engine's limit of steps.
    pub cut_off: f64,
    /// Number of packets that were checked, and of wrong ones.
    pub checked: u64,
    pub wrong: u64,
}

impl Measured for Record {
    fn rate(&self) -> Spread {
        Spread { median: self.packets_per_s, min: self.packets_per_s_min, max: self.packets_per_s_max }
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn machine_lines_per_s(&self) -> Option<f64> {
        None
    }
}

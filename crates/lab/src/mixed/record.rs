//! What one measurement found.

use serde::Serialize;

use crate::workload::TagKind;

/// One mix of flows at one router. Rates are of all threads together.
#[derive(Serialize, Clone, Debug)]
pub struct Record {
    /// The engine for tags.
    pub engine: String,
    /// Descriptors in its table.
    pub descriptors: u64,
    /// What they are.
    pub workload: TagKind,
    /// Nodes of the network, and edges.
    pub nodes: usize,
    pub edges: usize,
    /// Share of flows that were pull flows.
    pub pull: f64,
    /// Most follow-up Interests of a pull flow.
    pub follow_ups: u32,
    /// Packets prepared.
    pub packets_prepared: usize,
    /// Seed of all of it.
    pub seed: u64,
    /// Readers.
    pub threads: usize,
    /// Packets handled together.
    pub burst: usize,
    /// Repetitions that rates are medians of.
    pub repetitions: usize,
    /// Packets a second: median, least and most.
    pub packets_per_s: f64,
    pub packets_per_s_min: f64,
    pub packets_per_s_max: f64,
    /// Octets of a packet, on average.
    pub bytes_per_packet: f64,
    /// The rate times the size.
    pub gbit_per_s: f64,
    /// Share of packets that went by locator.
    pub by_locator: f64,
    /// Descriptors that a pushed packet matched, on average; zero if none was pushed.
    pub matches_per_push: f64,
    /// Share of packets for which the engine's limit of steps was reached.
    pub cut_off: f64,
    /// Packets whose ways were checked, and those that went wrong.
    pub checked: u64,
    pub wrong: u64,
}

//! What one measurement found.

use std::fmt;

use serde::Serialize;

/// What the workers ran on.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Cores {
    /// In virtual time, with a fixed time for each packet.
    Simulated,
    /// This machine's.
    Threads,
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cores::Simulated => "simulated",
            Cores::Threads => "threads",
        })
    }
}

/// One set of workers under one popularity.
#[derive(Serialize, Clone, Debug)]
pub struct Record {
    /// What the workers ran on.
    pub cores: Cores,
    /// How many.
    pub workers: usize,
    /// Whether Interests for hot names went to any.
    pub heavy_hitters: bool,
    /// Zipf's.
    pub exponent: f64,
    /// Names that were asked for.
    pub names: u64,
    /// Data that the content stores could hold together.
    pub cs: u64,
    /// Interests measured.
    pub interests: u64,
    /// Of the simulated cores' time, what they would have been busy for if all had had the same to do.
    pub load: Option<f64>,
    /// A simulated core's time for a packet.
    pub service_ns: Option<u64>,
    /// Seed of all of it.
    pub seed: u64,
    /// Packets of the busiest worker to the mean.
    pub busiest_to_mean: f64,
    /// The same of the idlest.
    pub idlest_to_mean: f64,
    /// Packets of each worker.
    pub packets: Vec<u64>,
    /// Share of the Interests that content stores answered.
    pub cs_hits: f64,
    /// Share of the Interests that went to any worker.
    pub spread: f64,
    /// Interests that came back from there and went home.
    pub strays: u64,
    /// Names whose Data all workers shared in the end.
    pub hot_names: u64,
    /// How long packets waited for a simulated core, on average.
    pub wait_ns_mean: Option<f64>,
    /// The same of the packet that waited longer than 99 of 100.
    pub wait_ns_p99: Option<f64>,
    /// Share of the packets that found no room.
    pub lost: f64,
    /// The largest such share of a worker's own.
    pub lost_of_worst: f64,
    /// Interests answered a second, on threads.
    pub interests_per_s: Option<f64>,
    /// There, time of the packet thread to give a packet to a worker, or to take one back, in the rounds
    /// that are timed.
    pub dispatch_ns: Option<f64>,
    /// Time of a worker for a packet, in the bursts that are timed.
    pub worker_ns: Option<f64>,
}

/// The largest and the smallest of these to their mean.
pub fn extremes(packets: &[u64]) -> (f64, f64) {
    let mean = packets.iter().sum::<u64>() as f64 / packets.len() as f64;
    let to_mean = |packets: Option<&u64>| packets.map_or(0.0, |packets| *packets as f64 / mean);
    (to_mean(packets.iter().max()), to_mean(packets.iter().min()))
}

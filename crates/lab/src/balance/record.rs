//! The result of one measurement.

use std::fmt;

use serde::Serialize;

/// The kind of core that the workers ran on.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Cores {
    /// Simulated cores in virtual time, with a fixed time for each packet.
    Simulated,
    /// Threads of this machine.
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
    /// The kind of core that the workers ran on.
    #[serde(rename = "on")]
    pub cores: Cores,
    /// Number of workers.
    pub workers: usize,
    /// Whether Interests for hot names were spread over all workers.
    pub heavy_hitters: bool,
    /// Exponent of Zipf's law.
    pub exponent: f64,
    /// Number of names.
    pub names: u64,
    /// Capacity of all content stores together, in Data packets.
    pub cs: u64,
    /// Number of Interests measured.
    pub interests: u64,
    /// Mean utilization asked of the simulated cores.
    pub load: Option<f64>,
    /// Time that a simulated core takes per packet.
    pub service_ns: Option<u64>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Packets of the busiest worker, relative to the mean.
    pub busiest_to_mean: f64,
    /// Packets of the idlest worker, relative to the mean.
    pub idlest_to_mean: f64,
    /// Packets of each worker.
    pub packets: Vec<u64>,
    /// Share of the Interests that content stores answered.
    pub cs_hits: f64,
    /// Share of the Interests that were spread: any worker could get them.
    pub spread: f64,
    /// Spread Interests that missed and were sent to their home worker.
    pub strays: u64,
    /// Number of names whose Data all workers shared at the end.
    pub hot_names: u64,
    /// Mean time that packets waited for a simulated core.
    pub wait_ns_mean: Option<f64>,
    /// 99th percentile (p99) of that waiting time.
    pub wait_ns_p99: Option<f64>,
    /// Share of the packets that were dropped because a queue was full.
    pub lost: f64,
    /// Largest share that any worker lost of its own packets.
    pub lost_of_worst: f64,
    /// Interests answered per second, on threads.
    pub interests_per_s: Option<f64>,
    /// Mean time of the packet thread to hand a packet to a worker or to take one back, over the sampled rounds. On
    /// threads only.
    pub dispatch_ns: Option<f64>,
    /// Mean time of a worker per packet, over the sampled bursts. On threads only.
    pub worker_ns: Option<f64>,
}

/// The largest and the smallest of `packets`, each relative to the mean.
pub fn extremes(packets: &[u64]) -> (f64, f64) {
    let mean = packets.iter().sum::<u64>() as f64 / packets.len() as f64;
    let to_mean = |packets: Option<&u64>| packets.map_or(0.0, |packets| *packets as f64 / mean);
    (to_mean(packets.iter().max()), to_mean(packets.iter().min()))
}

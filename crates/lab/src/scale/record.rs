//! The result of one simulation, or of measuring the costs.

use serde::Serialize;

use crate::balance::simulated::Costs;

/// A line of `scale`.
#[derive(Serialize, Clone, Debug)]
#[serde(tag = "on", rename_all = "lowercase")]
pub enum Record {
    /// Costs that were measured on this machine.
    Measured(Box<Measured>),
    /// Threads on simulated cores.
    Simulated(Box<Simulated>),
    /// Threads of this machine, beside as many simulated ones.
    Threads(Box<Real>),
}

/// Costs of a packet thread.
#[derive(Serialize, Clone, Copy, Debug)]
pub struct Measured {
    pub costs: Costs,
}

/// Some threads under one popularity, on this machine.
#[derive(Serialize, Clone, Debug)]
pub struct Real {
    /// Number of threads.
    pub threads: usize,
    /// Whether any thread could answer Interests for hot names.
    pub heavy_hitters: bool,
    /// Exponent of Zipf's law.
    pub exponent: f64,
    /// Number of names.
    pub names: u64,
    /// Capacity of all content stores together, in Data packets.
    pub cs: u64,
    /// Interests answered per second.
    pub exchanges_per_s: f64,
    /// The same, relative to one thread.
    pub ratio_to_one: f64,
    /// That ratio of as many simulated threads.
    pub simulated_ratio_to_one: f64,
    /// The simulated ratio, over the real one: 1 if the simulation foretold it.
    pub simulated_to_real: f64,
    /// Share of the Interests that content stores answered.
    pub cs_hits: f64,
}

/// Some threads under one popularity, in virtual time.
#[derive(Serialize, Clone, Debug)]
pub struct Simulated {
    /// Number of threads.
    pub threads: usize,
    /// Whether Interests for hot names were spread over all threads.
    pub heavy_hitters: bool,
    /// Exponent of Zipf's law.
    pub exponent: f64,
    /// Number of names.
    pub names: u64,
    /// Capacity of all content stores together, in Data packets.
    pub cs: u64,
    /// Number of Interests measured.
    pub interests: u64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Interests answered per simulated second.
    pub simulated_exchanges_per_s: f64,
    /// The same, relative to one thread.
    pub ratio_to_one: f64,
    /// That ratio for each thread; 1 is linear.
    pub share_of_linear: f64,
    /// Packets of the busiest worker, relative to the mean.
    pub busiest_to_mean: f64,
    /// Packets of the idlest worker, relative to the mean.
    pub idlest_to_mean: f64,
    /// Share of the time that the busiest thread and the mean thread worked.
    pub busy_of_busiest: f64,
    pub busy_mean: f64,
    /// Packets of each worker.
    pub packets: Vec<u64>,
    /// Packets that crossed a ring, per exchange.
    pub crossings_per_exchange: f64,
    /// Share of the Interests that content stores answered.
    pub cs_hits: f64,
    /// Share of the Interests that were spread.
    pub spread: f64,
    /// Packets dropped because a port, a ring to a home, or a ring to the owner of a face was full.
    pub port_drops: u64,
    pub input_drops: u64,
    pub output_drops: u64,
    /// Largest number of packets in a ring to a home.
    pub ring_depth_max: usize,
    /// Simulated times from an Interest at the port to its Data at the port.
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
    /// From the start until nothing was under way: Interests sent, answered, and lost to drops.
    pub sent_in_all: u64,
    pub answered_in_all: u64,
    pub lost_in_all: u64,
    /// Whether the costs were measured by this command.
    pub costs_measured_now: bool,
    /// Costs that the times rest on.
    pub costs: Costs,
}

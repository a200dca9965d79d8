//! What one measurement found.

use serde::Serialize;

use super::options::Mix;
use super::variant::Schedule;
use crate::prefix::{Hash, Load};

/// One data plane. Rates are of all workers together; times are a worker's own.
#[derive(Serialize, Clone, Debug)]
pub struct Record {
    /// The FIB's engine.
    pub engine: String,
    /// What is asked for ahead.
    pub prefetch: Schedule,
    /// Packets in a burst.
    pub burst: usize,
    /// Which packets were timed.
    pub mix: Mix,
    /// Rules in the FIB.
    pub fib: u64,
    /// Components of the deepest rule.
    pub components: usize,
    /// The rules, as on the command line.
    pub workload: String,
    /// Interests pending of each worker.
    pub pit: u64,
    /// Data that the content store of each worker may hold.
    pub cs: u64,
    /// Names prepared, of which each packet has one and a number.
    pub names_prepared: usize,
    /// Octets of an Interest, on average.
    pub interest_bytes: f64,
    /// Octets of Data, on average.
    pub data_bytes: f64,
    /// Seed of all of it.
    pub seed: u64,
    /// Workers.
    pub threads: usize,
    /// Pages of the FIB: those asked for, or `heap` for an engine that has no choice.
    pub pages: &'static str,
    /// The keyed hash.
    pub hash: Hash,
    /// How the rules came in.
    pub load: Load,
    /// Resident memory of the FIB's query half, in bytes, as the engine counts it.
    pub fib_bytes: usize,
    /// Repetitions, of which the rate below is the median.
    pub repetitions: usize,
    /// Packets a second.
    pub packets_per_s: f64,
    /// The slowest repetition.
    pub packets_per_s_min: f64,
    /// The fastest repetition.
    pub packets_per_s_max: f64,
    /// Nanoseconds of one worker for a packet.
    pub ns_per_packet: f64,
    /// The same of the median turn of 1,024 packets: where others use the machine, nearer to what a
    /// packet costs by itself.
    pub turn_ns_per_packet: f64,
    /// Of the turn that 1 of 100 exceeds.
    pub turn_ns_per_packet_p99: f64,
    /// Of these, out of the port's memory into buffers; timed burst by burst, as those below.
    pub receive_ns_per_packet: f64,
    /// In the worker: the sum of the five that follow.
    pub forward_ns_per_packet: f64,
    /// Removing Interests whose time is over.
    pub timers_ns_per_packet: f64,
    /// Parsing, and hashing the prefixes of names.
    pub parse_ns_per_packet: f64,
    /// PIT and content store, with the wait for their memory.
    pub pit_cs_ns_per_packet: f64,
    /// The FIB; of all packets that are timed, as the others are, not of Interests alone.
    pub fib_ns_per_packet: f64,
    /// Strategies, and what Interests leave behind in the PIT.
    pub strategy_ns_per_packet: f64,
    /// Giving buffers back.
    pub send_ns_per_packet: f64,
    /// Updates of the FIB a second that a writer on another core did, if one was asked for.
    pub updates_per_s: Option<f64>,
    /// Packets a second beside them.
    pub packets_per_s_beside_updates: Option<f64>,
    /// Of the rate without, the median over pairs of repetitions.
    pub rate_left_beside_updates: Option<f64>,
    /// Microseconds from when an update was due until workers saw it: the median.
    pub update_us: Option<f64>,
    /// That 1 of 100 exceeds.
    pub update_us_p99: Option<f64>,
    /// The longest.
    pub update_us_max: Option<f64>,
    /// Cache lines of the FIB that an Interest reads, where the engine can count them.
    pub fib_lines_per_interest: Option<f64>,
    /// Packets that passed, and were counted.
    pub checked: u64,
    /// Of these, dropped.
    pub drops: u64,
    /// Packets that went elsewhere than they should.
    pub wrong: u64,
    /// Independent random cache lines a second that the machine reads from a table of the FIB's size.
    pub machine_lines_per_s: f64,
    /// Size of the table they were read from, in bytes.
    pub machine_bytes: usize,
    /// Share of that rate that the FIB's lines use, for Interests as many as there were.
    pub of_limit: Option<f64>,
}

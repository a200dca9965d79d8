//! The result of one measurement.

use serde::Serialize;

use super::options::Mix;
use super::variant::Schedule;
use crate::harness::Measured;
use crate::options::Hash;
use crate::prefix::Load;
use crate::timing::Spread;

/// One data plane. Rates are sums over all workers; times are per worker.
#[derive(Serialize, Clone, Debug)]
pub struct Record {
    /// The FIB's engine.
    pub engine: String,
    /// The prefetch schedule.
    pub prefetch: Schedule,
    /// Packets per burst.
    pub burst: usize,
    /// Which packets were timed.
    pub mix: Mix,
    /// Number of rules in the FIB.
    pub fib: u64,
    /// Components of the deepest rule.
    pub components: usize,
    /// The rules, as on the command line.
    pub workload: String,
    /// Pending Interests per worker.
    pub pit: u64,
    /// Capacity of the content store in Data packets, per worker.
    pub cs: u64,
    /// Number of names prepared. Each packet has one of them and a number.
    pub names_prepared: usize,
    /// Mean size of an Interest, in bytes.
    pub interest_bytes: f64,
    /// Mean size of a Data packet, in bytes.
    pub data_bytes: f64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of workers.
    pub threads: usize,
    /// Pages of the FIB: the chosen ones, or `heap` for an engine without a choice.
    pub pages: &'static str,
    /// The keyed hash function.
    pub hash: Hash,
    /// How the rules were loaded.
    pub load: Load,
    /// Memory of the FIB's query half, in bytes, as the engine counts it.
    pub fib_bytes: usize,
    /// Number of repetitions; the rate below is their median.
    pub repetitions: usize,
    /// Packets per second.
    pub packets_per_s: f64,
    /// The slowest repetition.
    pub packets_per_s_min: f64,
    /// The fastest repetition.
    pub packets_per_s_max: f64,
    /// Nanoseconds per packet on one worker.
    pub ns_per_packet: f64,
    /// Nanoseconds per packet in the median turn of 1,024 packets. If other programs use the machine, this is closer to
    /// the real cost of a packet.
    pub turn_ns_per_packet: f64,
    /// Nanoseconds per packet in the p99 turn.
    pub turn_ns_per_packet_p99: f64,
    /// Part for copying a packet from the port's memory into a buffer. This and the parts below are timed burst by
    /// burst.
    pub receive_ns_per_packet: f64,
    /// Part for the worker: the sum of the five parts below.
    pub forward_ns_per_packet: f64,
    /// Removing expired Interests.
    pub timers_ns_per_packet: f64,
    /// Parsing, and hashing the prefixes of names.
    pub parse_ns_per_packet: f64,
    /// PIT and content store, including the wait for memory.
    pub pit_cs_ns_per_packet: f64,
    /// FIB lookups, divided among all timed packets, not among Interests alone.
    pub fib_ns_per_packet: f64,
    /// Strategies, and the updates that Interests make to the PIT.
    pub strategy_ns_per_packet: f64,
    /// Releasing buffers.
    pub send_ns_per_packet: f64,
    /// FIB updates per second by a writer on another core, if updates were asked for.
    pub updates_per_s: Option<f64>,
    /// Packets per second during these updates.
    pub packets_per_s_beside_updates: Option<f64>,
    /// Share of the rate without updates: the median over pairs of repetitions.
    pub rate_left_beside_updates: Option<f64>,
    /// Median time in microseconds from when an update was due until workers saw it.
    pub update_us: Option<f64>,
    /// The p99 of that time.
    pub update_us_p99: Option<f64>,
    /// The maximum of that time.
    pub update_us_max: Option<f64>,
    /// Mean number of the FIB's cache lines that an Interest reads, if the engine can count them.
    pub fib_lines_per_interest: Option<f64>,
    /// Number of packets that passed and were counted.
    pub checked: u64,
    /// Number of packets that were dropped.
    pub drops: u64,
    /// Number of packets that went to a wrong face.
    pub wrong: u64,
    /// The machine's limit: independent random cache lines that it reads per second from a table of the FIB's size.
    pub machine_lines_per_s: f64,
    /// Size of that table, in bytes.
    pub machine_bytes: usize,
    /// Share of the machine's limit that the Interests' FIB lookups use.
    pub of_limit: Option<f64>,
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

//! The result of one measurement.

use std::collections::BTreeMap;

use serde::Serialize;

use super::options::Mix;
use super::variant::{Look, Schedule};
use crate::harness::Measured;
use crate::options::Hash;
use crate::prefix::Load;
use crate::timing::Spread;

/// One data plane. Rates are sums over all threads; times are per thread.
#[derive(Serialize, Clone, Debug)]
pub struct Record {
    /// The FIB's engine.
    pub engine: String,
    /// The prefetch schedule.
    pub prefetch: Schedule,
    /// Packets per burst.
    pub burst: usize,
    /// What somebody looked at meanwhile; `None`: nobody did.
    pub look: Option<Look>,
    /// Share of the names that a trace wanted.
    pub traced_share: Option<f64>,
    /// Which packets were timed.
    pub mix: Mix,
    /// Number of rules in the FIB.
    pub fib: u64,
    /// Components of the deepest rule.
    pub components: usize,
    /// The rules, as on the command line.
    pub workload: String,
    /// Pending Interests per thread; the room for them if names repeat.
    pub pit: u64,
    /// Capacity of all content stores together, in Data packets.
    pub cs: u64,
    /// Exponent of the names' popularity; `None`: no name repeats.
    pub zipf: Option<f64>,
    /// Whether any thread could answer Interests for hot names; `None` for one thread.
    pub heavy_hitters: Option<bool>,
    /// Capacity of each ring between two threads, in packets.
    pub ring_packets: Option<usize>,
    /// Number of names prepared. Each packet has one of them and a number.
    pub names_prepared: usize,
    /// Mean size of an Interest, in bytes.
    pub interest_bytes: f64,
    /// Mean size of a Data packet, in bytes.
    pub data_bytes: f64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of threads, each with a worker.
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
    /// Packets per second that ports receive.
    pub packets_per_s: f64,
    /// The slowest repetition.
    pub packets_per_s_min: f64,
    /// The fastest repetition.
    pub packets_per_s_max: f64,
    /// Data packets per second that come to consumers, if Interests and Data are timed together.
    pub exchanges_per_s: Option<f64>,
    /// The slowest repetition.
    pub exchanges_per_s_min: Option<f64>,
    /// The fastest repetition.
    pub exchanges_per_s_max: Option<f64>,
    /// Nanoseconds per packet on one thread.
    pub ns_per_packet: f64,
    /// Nanoseconds per packet in the median turn of 1,024 packets. If other programs use the machine, this is closer to
    /// the real cost of a packet.
    pub turn_ns_per_packet: f64,
    /// Nanoseconds per packet in the p99 turn.
    pub turn_ns_per_packet_p99: f64,
    /// Part for copying a packet from the port's memory into a buffer. This and the parts below are timed burst by
    /// burst.
    pub receive_ns_per_packet: f64,
    /// Part for the worker and its dispatcher: the sum of the six parts below.
    pub forward_ns_per_packet: f64,
    /// Parsing and finding homes, with several threads. Includes the moves through rings to the homes.
    pub dispatch_ns_per_packet: f64,
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
    /// Releasing buffers, and handing packets to the threads that own their faces.
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
    /// Share of the received packets that were at home on the thread that received them. The others crossed a ring to
    /// their home. Unless threads send on each other's faces, it is also the share of the sent packets that did not cross.
    pub home_share: f64,
    /// Share of the Interests that a content store answered.
    pub cs_hits: f64,
    /// Share of the Interests that were answered from the store of hot names.
    pub spread: f64,
    /// Whether threads shared PIT entries of hot names; `None` for one thread.
    pub shared_pit: Option<bool>,
    /// Whether threads sent on each other's faces, and got the answers to their Interests themselves; `None` for one
    /// thread.
    pub lent: Option<bool>,
    /// Whether names were at home where they were first asked for. Records of before this could be chosen lack it.
    #[serde(default)]
    pub first_come: Option<bool>,
    /// Share of the Interests that joined a PIT entry which threads share.
    pub joined: f64,
    /// Number of packets that ports received and that were counted.
    pub checked: u64,
    /// Number of Interests among them whose Data came to the consumer.
    pub exchanges: u64,
    /// Number of Interests without Data.
    pub lost: u64,
    /// Number of packets that were dropped.
    pub drops: u64,
    /// The same by reason.
    pub drops_by_reason: BTreeMap<&'static str, u64>,
    /// Number of packets that went to a wrong face, and of Interests lost without a drop.
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

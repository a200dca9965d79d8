//! The result of one attack.

use serde::Serialize;

use super::Attack;
use crate::options::Hash;

/// One attack. Times are medians over turns.
#[derive(Serialize, Clone, Debug)]
pub struct Record {
    /// The kind of attack.
    pub attack: Attack,
    /// The FIB's engine.
    pub engine: String,
    /// Number of rules in the FIB.
    pub fib: u64,
    /// Number of threads, each with as much ordinary traffic, and with an attacker. Times are those of one thread.
    pub threads: usize,
    /// Number of pending ordinary Interests for each thread; the attacker may have as many.
    pub pit: u64,
    /// Capacity of the content store, in Data packets.
    pub cs: u64,
    /// The keyed hash function.
    pub hash: Hash,
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of turns of each kind.
    pub turns: u64,
    /// Nanoseconds per ordinary packet without an attack, with equal numbers of Interests and Data.
    pub ns_per_packet: f64,
    /// Nanoseconds per attack packet.
    pub attack_ns_per_packet: f64,
    /// Cost of an attack packet, in ordinary packets.
    pub times: f64,
    /// Share of attack packets among all packets, for the fields below.
    pub attacker_share: f64,
    /// Nanoseconds per ordinary packet during the attack, the attack's time included.
    pub beside_ns_per_packet: f64,
    /// Share of the ordinary rate that is left during the attack.
    pub rate_left: f64,
    /// Number of ordinary Interests that were answered.
    pub answered: u64,
    /// Number of ordinary Interests that no longer wait, and whose Data did not arrive.
    pub lost: u64,
    /// Number of packets that were dropped, and counted, because a ring between two threads was full.
    pub shed: u64,
    /// Number of attack packets in the turns of the attack alone.
    pub attack_packets: u64,
    /// Number of these packets that were dropped or evicted from the PIT.
    pub drops: u64,
    /// Longest chain in the index of PIT and content store, in buckets, without an attack.
    pub longest_chain: usize,
    /// Longest chain under attack, in buckets.
    pub attacked_longest_chain: usize,
}

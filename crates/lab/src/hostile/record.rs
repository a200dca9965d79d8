//! What one attack did.

use serde::Serialize;

use super::Attack;
use crate::prefix::Hash;

/// One attack on one worker. Times are medians of turns.
#[derive(Serialize, Clone, Debug)]
pub struct Record {
    /// What was sent.
    pub attack: Attack,
    /// The FIB's engine.
    pub engine: String,
    /// Rules in the FIB.
    pub fib: u64,
    /// Ordinary Interests pending; the attacker may have as many.
    pub pit: u64,
    /// Data that the content store may hold.
    pub cs: u64,
    /// The keyed hash.
    pub hash: Hash,
    /// Seed of all of it.
    pub seed: u64,
    /// Turns of each kind.
    pub turns: u64,
    /// Nanoseconds of an ordinary packet, Interests and Data one to one, where nobody attacks.
    pub ns_per_packet: f64,
    /// Nanoseconds of a packet of the attack.
    pub attack_ns_per_packet: f64,
    /// How many ordinary ones it costs.
    pub times: f64,
    /// Of the packets that come, the attacker's part in what follows.
    pub attacker_share: f64,
    /// Nanoseconds for each ordinary packet, the attack's time included.
    pub beside_ns_per_packet: f64,
    /// Of the ordinary packets' rate, what is left beside the attack.
    pub rate_left: f64,
    /// Ordinary Interests that were answered.
    pub answered: u64,
    /// Those whose Data did not arrive.
    pub lost: u64,
    /// Packets of the attack where it is alone.
    pub attack_packets: u64,
    /// Of these, dropped, or driven out of the PIT.
    pub drops: u64,
    /// Buckets of the longest chain in the index of PIT and content store, where nobody attacks.
    pub longest_chain: usize,
    /// The same under attack.
    pub attacked_longest_chain: usize,
}

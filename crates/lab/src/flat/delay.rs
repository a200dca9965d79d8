//! The time from a packet's arrival to its action [Concise §6.2.1].
//!
//! Packets arrive at random with a given mean rate, in the order of names that the options give. They wait in one queue
//! for one processor, which takes all waiting packets, at most a burst. Arrival times are simulated. The time of a
//! burst is measured on the real table, and includes reading the clock. Nothing else uses the caches between two
//! bursts, unlike on a router with few packets.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;

use hdrhistogram::Histogram;

use super::reader::Reader;
use super::table::Asked;
use crate::workload::Random;

/// The first 1/20 of the packets are not recorded, because the caches are still cold.
const COLD_SHARE: u64 = 20;
/// Delays are recorded up to this value.
const DELAY_NS_MAX: u64 = 1_000_000_000;

/// Arrival and service of packets.
#[derive(Clone, Copy)]
pub struct Traffic {
    /// Number of packets.
    pub packets: u64,
    /// Mean arrival rate, in packets per second.
    pub per_s: f64,
    /// Maximum number of packets served together.
    pub burst: usize,
    /// Seed of the arrival times.
    pub seed: u64,
}

/// Simulates the traffic. Returns the delays in nanoseconds.
pub fn simulate(reader: &mut Reader<'_>, asked: Asked<'_>, traffic: Traffic) -> Histogram<u64> {
    let mut random = Random::new(traffic.seed);
    let mut gap = || -(1.0 - random.unit()).ln() * 1e9 / traffic.per_s;
    let mut delays = Histogram::new_with_bounds(1, DELAY_NS_MAX, 3).expect("these bounds are allowed");
    let mut waiting = VecDeque::new();
    let (mut now, mut arrival) = (0.0f64, 0.0f64);
    let (mut came, mut served) = (0, 0);
    while served < traffic.packets {
        if waiting.is_empty() {
            now = now.max(arrival);
        }
        while arrival <= now && came < traffic.packets {
            waiting.push_back(arrival);
            came += 1;
            arrival += gap();
        }
        let start = Instant::now();
        let taken = reader.look_up_some(asked, waiting.len().min(traffic.burst)).len();
        black_box(reader.answers());
        now += start.elapsed().as_nanos() as f64;
        for arrived in waiting.drain(..taken) {
            served += 1;
            if served > traffic.packets / COLD_SHARE {
                delays.saturating_record((now - arrived) as u64);
            }
        }
    }
    delays
}

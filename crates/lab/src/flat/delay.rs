//! The time from a packet's arrival to its action [Concise §6.2.1].
//!
//! Packets come at random with a given rate, in the order of names that the options say, and wait in
//! one queue for one processor, which takes all that wait, at most a burst. Time is simulated; how
//! long a burst takes is measured, on the table itself, and so includes reading the clock. Between
//! two bursts nothing else uses the caches, as it would where packets are rare.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;

use hdrhistogram::Histogram;

use super::reader::Reader;
use super::table::Asked;
use crate::workload::Random;

/// Of the packets, those at the start that are not counted: caches are cold.
const COLD_SHARE: u64 = 20;
/// No packet waits for a second; what does is counted as this.
const DELAY_NS_MAX: u64 = 1_000_000_000;

/// How packets come and are taken.
#[derive(Clone, Copy)]
pub struct Traffic {
    /// How many come.
    pub packets: u64,
    /// How many come in a second, on average.
    pub per_s: f64,
    /// How many are taken together at most.
    pub burst: usize,
    /// Seed of their times.
    pub seed: u64,
}

/// Delays in nanoseconds.
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

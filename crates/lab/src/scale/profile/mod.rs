//! The costs of a packet thread, measured on this machine.
//!
//! Each step is timed over bursts, and its cost is the median. The packets are made in memory, so receiving is writing a
//! packet, and sending is dropping it. `rig` measures one thread on one core, with the router's own loop: alone, and as one
//! of several. `crossing` measures the same exchanges between two cores. The difference is what a ring costs, with the
//! packet's way between the caches.

mod crossing;
mod rig;
mod samples;

use std::hint::black_box;
use std::time::Instant;

use byname_forward::Ticks;
use byname_forward::hot::WINDOW;
use byname_forward::seat::Workers;
use byname_forward::stages::Stopwatch;

use crate::balance::simulated::{Costs, Forwarding, Moving};
use crate::balance::traffic::{Shards, workers};
use crate::timing::median;
use rig::{PRODUCER, Rig};
use samples::{Samples, Step};

/// Threads between which the cost of looking at rings is measured.
const THREADS: [usize; 2] = [2, 22];
/// Rounds that are timed together, and how often.
const ROUNDS: usize = 1000;
const ROUND_TIMES: usize = 51;
/// Capacity of each ring.
const RING: usize = 4096;
/// Bursts of one popular name until it is hot for sure, for each core's share.
const HOT_BURSTS: usize = 400;

/// What to measure with.
pub struct Setting {
    /// Data packets that each content store holds.
    pub cs: u64,
    pub burst: usize,
    /// Bursts that are timed for each cost, after some for warming up.
    pub bursts: usize,
    pub seed: u64,
}

/// Measures all costs.
pub fn measure(setting: &Setting) -> anyhow::Result<Costs> {
    let mut times: [[Samples; 2]; 3] = Default::default();
    let mut rigs = [Rig::new(1, false, setting)?, Rig::new(2, false, setting)?, Rig::new(2, true, setting)?];
    let warming = warming(setting);
    for burst in 0..warming + setting.bursts {
        if burst == warming {
            times.iter_mut().flatten().for_each(Samples::clear);
        }
        // In turn, so that other work on this machine affects all.
        for (rig, [interests, data]) in rigs.iter_mut().zip(&mut times) {
            rig.cycle(burst % 2 == 1, interests, data);
        }
    }
    let [alone, joined, spreading] = times;
    drop(rigs);
    let [ports, home] = crossing::cross(setting, warming)?;
    let hot_hit_ns = rig::ask_for_one(setting, HOT_BURSTS + setting.bursts)?.ns(Step::HotHit);
    let [few, many] = [idle_round(THREADS[0])?, idle_round(THREADS[1])?];
    let rings_ns = ((many - few) / (THREADS[1] - THREADS[0]) as f64).max(0.0);
    let forwarding = |[interests, data]: &[Samples; 2]| Forwarding {
        new_ns: interests.ns(Step::Forward),
        pending_ns: interests.ns(Step::Pending),
        hit_ns: interests.ns(Step::Hit),
        hot_hit_ns,
        data_ns: data.ns(Step::Forward),
    };
    let moving = |local: &Samples, ports: &Samples, home: &Samples| Moving {
        receive_ns: local.ns(Step::Receive),
        give_ns: ports.beyond(Step::Give, local.ns(Step::Receive)),
        take_ns: home.ns(Step::TakeAndForward) - local.ns(Step::Forward),
        push_output_ns: home.ns(Step::PushOutput),
        pop_output_ns: ports.beyond(Step::TakeAndSend, local.ns(Step::Send)),
        send_ns: local.ns(Step::Send),
    };
    Ok(Costs {
        round_ns: (few - rings_ns).max(0.0),
        rings_ns,
        count_ns: spreading[0].beyond(Step::Forward, joined[0].ns(Step::Forward)),
        interest: moving(&joined[0], &ports.interests, &home.interests),
        data: moving(&joined[1], &ports.data, &home.data),
        alone: forwarding(&alone),
        joined: forwarding(&joined),
    })
}

/// Bursts until the content store is full, or a quarter of those that are timed.
fn warming(setting: &Setting) -> usize {
    (setting.cs as usize / setting.burst).max(setting.bursts / 4)
}

/// Time of a round without packets, with rings between so many threads.
fn idle_round(threads: usize) -> anyhow::Result<f64> {
    let shards = Shards { count: threads, cs: threads as u64, window: Some(WINDOW), seed: 1 };
    let (dispatcher, workers) = workers(&shards, &[PRODUCER])?;
    let mut seats = Workers::new(dispatcher, workers, RING, false).seats()?;
    let seat = &mut seats[0];
    let (mut received, mut outgoing) = (Vec::new(), Vec::new());
    let mut stopwatch = Stopwatch::default();
    let mut times = Vec::with_capacity(ROUND_TIMES);
    for _ in 0..ROUND_TIMES {
        let begin = Instant::now();
        for _ in 0..ROUNDS {
            // A round reads the clock once.
            let now = Ticks(black_box(begin.elapsed()).as_nanos() as u64);
            black_box(seat.poll(now, &mut received, &mut outgoing, &mut stopwatch));
            seat.publish_output();
            seat.take_given(|thread| _ = black_box(thread));
        }
        times.push(begin.elapsed().as_nanos() as f64 / ROUNDS as f64);
    }
    Ok(median(&times))
}

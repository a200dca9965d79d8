//! Changes on their way from a writer through etcd to all routers, in virtual time.
//!
//! Changes come at random times. The writer collects them for a moment, and writes them as deltas, one transaction after the
//! other. Each member of etcd sends every delta to its share of the watchers, one after the other. Each router
//! takes the changes over in their order.

use hdrhistogram::Histogram;

use super::Options;
use super::costs::Costs;
use crate::workload::Random;

/// Most bytes of a delta.
const DELTA_BYTES_MAX: f64 = 1_048_576.0;

/// Who changes how much, and what each step takes.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Changes in a second.
    pub rate: f64,
    /// Simulated time, in seconds.
    pub duration_s: f64,
    /// Bytes of a change.
    pub change_bytes: f64,
    /// Number of routers.
    pub routers: u64,
    /// Number of members of etcd.
    pub members: u64,
    /// Time for which changes are collected, in seconds.
    pub collect_s: f64,
    /// Time of a transaction, in seconds.
    pub transaction_s: f64,
    /// Time of a byte into etcd, in seconds.
    pub etcd_s: f64,
    /// Time of a member to send an event to a watcher, in seconds.
    pub watcher_s: f64,
    /// Time of a byte on a member's link, in seconds.
    pub link_s: f64,
    /// Time from a member to a router, in seconds.
    pub hop_s: f64,
    /// Time of a router to take over a change, in seconds.
    pub applied_s: f64,
    /// Seed of the times of changes.
    pub seed: u64,
}

impl Setting {
    /// What the options say.
    pub fn of(options: &Options, costs: &Costs, rate: u64) -> Self {
        Setting {
            rate: rate as f64,
            duration_s: options.change_s,
            change_bytes: costs.delta_bytes,
            routers: options.routers,
            members: options.members,
            collect_s: options.collect_ms / 1e3,
            transaction_s: options.transaction_ms / 1e3,
            etcd_s: 1e-6 / options.etcd_mbps,
            watcher_s: options.watcher_us / 1e6,
            link_s: 8e-9 / options.link_gbps,
            hop_s: options.link_ms / 1e3,
            applied_s: 1.0 / options.applied as f64,
            seed: options.seed,
        }
    }
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Number of changes.
    pub changes: u64,
    /// Number of deltas.
    pub deltas: u64,
    /// Time from a change to a router, in seconds, for half of all pairs of them.
    pub p50_s: f64,
    /// The same for 99 of 100.
    pub p99_s: f64,
    /// The longest time.
    pub most_s: f64,
    /// How long after the last change the last router had it, in seconds: much more than `most_s` of few changes means that
    /// the fleet does not keep up.
    pub behind_s: f64,
    /// Bytes that a member of etcd sent, in a second.
    pub member_bytes_per_s: f64,
}

/// Simulates changes.
///
/// # Errors
/// A time is too long to count.
pub fn simulate(setting: &Setting) -> anyhow::Result<Outcome> {
    let mut random = Random::new(setting.seed);
    // In microseconds, with three digits.
    let mut times = Histogram::<u64>::new(3)?;
    let mut next = 0.0;
    let mut wait = || {
        let unit: f64 = random.unit();
        next += -(1.0 - unit).ln() / setting.rate;
        next
    };
    let share = setting.routers.div_ceil(setting.members);
    let (mut writer_free, mut member_free, mut members_bytes) = (0.0f64, 0.0f64, 0.0);
    let mut routers_free = vec![0.0f64; share as usize];
    let (mut changes, mut deltas, mut last, mut last_applied) = (0u64, 0u64, 0.0f64, 0.0f64);
    let most = (DELTA_BYTES_MAX / setting.change_bytes).max(1.0) as usize;
    let mut waiting: Vec<f64> = Vec::new();
    let mut arrival = wait();
    while arrival < setting.duration_s || !waiting.is_empty() {
        if waiting.is_empty() {
            waiting.push(arrival);
            arrival = wait();
        }
        // The writer begins when it has collected for long enough, and is free.
        let begins = (waiting[0] + setting.collect_s).max(writer_free);
        while arrival < setting.duration_s && arrival <= begins && waiting.len() < most {
            waiting.push(arrival);
            arrival = wait();
        }
        let bytes = waiting.len() as f64 * setting.change_bytes;
        writer_free = begins + setting.transaction_s + bytes * setting.etcd_s;
        // All members have as much to do: one stands for all.
        member_free = member_free.max(writer_free);
        for router in &mut routers_free {
            member_free += setting.watcher_s + bytes * setting.link_s;
            members_bytes += bytes;
            *router = router.max(member_free + setting.hop_s) + waiting.len() as f64 * setting.applied_s;
            last_applied = last_applied.max(*router);
            // The first, the last and one in the middle stand for all of them.
            for change in [waiting[0], waiting[waiting.len() / 2], waiting[waiting.len() - 1]] {
                times.record_n(((*router - change) * 1e6) as u64, waiting.len() as u64)?;
            }
        }
        changes += waiting.len() as u64;
        deltas += 1;
        last = waiting[waiting.len() - 1];
        waiting.clear();
    }
    let seconds = |us: u64| us as f64 / 1e6;
    Ok(Outcome {
        changes,
        deltas,
        p50_s: seconds(times.value_at_quantile(0.5)),
        p99_s: seconds(times.value_at_quantile(0.99)),
        most_s: seconds(times.max()),
        behind_s: last_applied - last,
        member_bytes_per_s: members_bytes / setting.duration_s,
    })
}

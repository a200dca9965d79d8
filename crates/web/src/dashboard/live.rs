//! The router's numbers at this moment. All who ask within a second share one reading.

use std::collections::BTreeMap;
use std::time::Duration;

use byname_control::mgmt::view::Totals;
use byname_face::ThreadStatus;
use byname_forward::rounds::{Distribution, NS_BOUNDS, PACKETS_BOUNDS};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::answers::{Failure, to_json};
use super::questions::Questions;

/// How old a reading may be.
const AGE_MAX: Duration = Duration::from_millis(800);

/// The last reading.
#[derive(Default)]
pub struct Live {
    last: Mutex<Option<(Instant, String)>>,
}

#[derive(Serialize)]
struct Reading {
    version: &'static str,
    at_ms: u64,
    uptime_ms: u64,
    process: u32,
    state: String,
    routes: u64,
    fib_entries: u64,
    pit_entries: u64,
    descriptors: u64,
    announcements: u64,
    strategy_choices: u64,
    measurements: u64,
    hot_names: u64,
    faces: u64,
    satisfied_interests: u64,
    unsatisfied_interests: u64,
    packets: Packets,
    content_store: ContentStore,
    drops: BTreeMap<&'static str, u64>,
    threads: Vec<Thread>,
    round_ns_bounds: &'static [u64],
    round_packets_bounds: &'static [u64],
}

#[derive(Serialize)]
struct Packets {
    in_interests: u64,
    in_data: u64,
    in_nacks: u64,
    in_tag_packets: u64,
    in_locator_packets: u64,
    out_interests: u64,
    out_data: u64,
    out_nacks: u64,
    out_tag_packets: u64,
    out_locator_packets: u64,
}

/// The content stores of all threads together.
#[derive(Serialize)]
pub struct ContentStore {
    capacity: u64,
    admit: bool,
    serve: bool,
    entries: u64,
    bytes: u64,
    hits: u64,
    misses: u64,
}

#[derive(Serialize)]
struct Thread {
    load: f64,
    busy_ns: u64,
    sleeps: u64,
    rests: u64,
    node: Option<u32>,
    faces: u64,
    pit_entries: u64,
    cs_entries: u64,
    in_interests: u64,
    in_data: u64,
    satisfied_interests: u64,
    unsatisfied_interests: u64,
    rings: Option<Rings>,
    stages: Vec<StageTime>,
    /// Number of rounds up to each bound, and above all of them.
    round_ns: Vec<u64>,
    round_packets: Vec<u64>,
    drops: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct Rings {
    home: u64,
    foreign: u64,
    taken: u64,
    input_depth: u64,
    input_drops: u64,
    output_depth: u64,
    output_drops: u64,
}

#[derive(Serialize)]
struct StageTime {
    stage: &'static str,
    packets: u64,
    ns: u64,
}

impl Live {
    /// The reading as JSON.
    pub async fn text(&self, questions: &Questions) -> Result<String, Failure> {
        let mut last = self.last.lock().await;
        if let Some((at, text)) = &*last
            && at.elapsed() < AGE_MAX
        {
            return Ok(text.clone());
        }
        let totals = questions.ask(|management, now| management.totals(now)).await?;
        let text = to_json(&Reading::of(totals));
        *last = Some((Instant::now(), text.clone()));
        Ok(text)
    }
}

impl Reading {
    fn of(totals: Totals) -> Self {
        let counters = &totals.counters;
        let faces = &counters.faces;
        Reading {
            version: env!("CARGO_PKG_VERSION"),
            at_ms: totals.unix_ms,
            uptime_ms: totals.unix_ms.saturating_sub(totals.started_unix_ms),
            process: std::process::id(),
            routes: totals.routes,
            fib_entries: totals.fib_entries,
            pit_entries: counters.pit_entries,
            descriptors: totals.descriptors,
            announcements: totals.announcements,
            strategy_choices: counters.strategy_choices,
            measurements: counters.measurements,
            hot_names: counters.hot_names,
            faces: totals.threads.iter().map(|thread| thread.faces).sum(),
            satisfied_interests: counters.satisfied_interests,
            unsatisfied_interests: counters.unsatisfied_interests,
            packets: Packets {
                in_interests: faces.in_interests,
                in_data: faces.in_data,
                in_nacks: faces.in_nacks,
                in_tag_packets: faces.in_tag_packets,
                in_locator_packets: faces.in_locator_packets,
                out_interests: faces.out_interests,
                out_data: faces.out_data,
                out_nacks: faces.out_nacks,
                out_tag_packets: faces.out_tag_packets,
                out_locator_packets: faces.out_locator_packets,
            },
            content_store: ContentStore::of(&counters.cs),
            drops: counters.drops.iter().copied().filter(|(_, count)| *count > 0).collect(),
            threads: totals.threads.iter().map(Thread::of).collect(),
            round_ns_bounds: &NS_BOUNDS,
            round_packets_bounds: &PACKETS_BOUNDS,
            state: totals.state,
        }
    }
}

impl ContentStore {
    /// From the forwarder's own type.
    pub fn of(info: &byname_forward::worker::CsInfo) -> Self {
        ContentStore {
            capacity: info.packets_max,
            admit: info.admit,
            serve: info.serve,
            entries: info.packets,
            bytes: info.bytes,
            hits: info.hits,
            misses: info.misses,
        }
    }
}

impl Thread {
    fn of(status: &ThreadStatus) -> Self {
        let ThreadStatus { activity, counters, rings, faces, node, rounds, .. } = status;
        Thread {
            load: activity.load,
            busy_ns: activity.busy_ns,
            sleeps: activity.sleeps,
            rests: activity.rests,
            node: *node,
            faces: *faces,
            pit_entries: counters.pit_entries,
            cs_entries: counters.cs.packets,
            in_interests: counters.faces.in_interests,
            in_data: counters.faces.in_data,
            satisfied_interests: counters.satisfied_interests,
            unsatisfied_interests: counters.unsatisfied_interests,
            rings: rings.as_ref().map(|rings| Rings {
                home: rings.home,
                foreign: rings.foreign,
                taken: rings.taken,
                input_depth: rings.input_depth,
                input_drops: rings.input_drops,
                output_depth: rings.output_depth,
                output_drops: rings.output_drops,
            }),
            stages: counters
                .stages
                .all()
                .map(|(stage, time)| StageTime { stage: stage.label(), packets: time.packets, ns: time.ns })
                .collect(),
            round_ns: all_counts(&rounds.ns),
            round_packets: all_counts(&rounds.packets),
            drops: counters.drops.iter().copied().filter(|(_, count)| *count > 0).collect(),
        }
    }
}

fn all_counts<const N: usize>(values: &Distribution<N>) -> Vec<u64> {
    values.counts.into_iter().chain([values.above]).collect()
}

//! What `byname top` shows: rates between two samples of a router's counters. These are the fields of `--json`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use byname_control::mgmt::tlv::traffic::Traffic;
use byname_wire::Name;
use serde::Serialize;

use crate::manage::threads::{Drops, Thread};
use crate::manage::view::{Cs, Face, General, Persistency};

/// Counters of a router at one moment.
#[derive(Debug, Clone)]
pub struct Sample {
    pub at: Instant,
    pub general: General,
    pub faces: Vec<Face>,
    pub cs: Cs,
    /// `None`: the router does not tell.
    pub traffic: Option<Traffic>,
}

/// The state of a router, with rates.
#[derive(Debug, Clone, Default, Serialize)]
#[allow(missing_docs)]
pub struct Report {
    pub version: String,
    pub uptime_ms: u64,
    /// Time between the samples; 0 if there is one.
    pub interval_ms: u64,
    #[serde(flatten)]
    pub rates: PacketRates,
    pub satisfied_per_s: f64,
    pub unsatisfied_per_s: f64,
    pub drops_per_s: f64,
    pub pit_entries: u64,
    pub fib_entries: u64,
    pub cs_entries: u64,
    pub cs_capacity: u64,
    pub cs_hits_per_s: f64,
    pub cs_misses_per_s: f64,
    pub faces: Vec<FaceRate>,
    pub threads: Vec<ThreadRate>,
    pub drops: Vec<DropRate>,
    /// `None`: the router does not tell, or has counted for less than its window.
    pub traffic: Option<Window>,
}

/// Packets and bytes in a second, of a face or of all.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[allow(missing_docs)]
pub struct PacketRates {
    pub in_interests_per_s: f64,
    pub in_data_per_s: f64,
    pub in_nacks_per_s: f64,
    pub in_bytes_per_s: f64,
    pub out_interests_per_s: f64,
    pub out_data_per_s: f64,
    pub out_nacks_per_s: f64,
    pub out_bytes_per_s: f64,
}

impl PacketRates {
    /// Packets in both directions.
    pub fn packets_per_s(&self) -> f64 {
        self.in_interests_per_s
            + self.in_data_per_s
            + self.in_nacks_per_s
            + self.out_interests_per_s
            + self.out_data_per_s
            + self.out_nacks_per_s
    }
}

/// A face and its rates.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct FaceRate {
    pub face_id: u64,
    pub remote_uri: String,
    pub local_uri: String,
    pub scope: String,
    pub persistency: Persistency,
    pub thread: Option<u64>,
    #[serde(flatten)]
    pub rates: PacketRates,
    pub out_drops_per_s: f64,
    /// All counters since the face exists, for its page.
    #[serde(skip)]
    pub face: Face,
}

/// A packet thread and its rates.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct ThreadRate {
    pub thread: u64,
    pub load_percent: Option<f64>,
    pub in_interests_per_s: f64,
    pub in_data_per_s: f64,
    pub in_nacks_per_s: f64,
    pub drops_per_s: f64,
    pub pit_entries: u64,
    pub cs_entries: u64,
    pub faces: Option<u64>,
    pub input_depth: Option<u64>,
    pub output_depth: Option<u64>,
    pub ring_drops_per_s: f64,
    pub stages: Vec<StageTime>,
}

/// Time that a packet takes in a stage of a thread.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct StageTime {
    pub stage: String,
    pub ns_per_packet: f64,
}

/// Packets dropped for one reason.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct DropRate {
    pub reason: String,
    pub packets: u64,
    pub per_s: f64,
}

/// Traffic by prefix, in the router's last window.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct Window {
    pub window_ms: u64,
    pub packets_per_s: f64,
    /// Share of the packets that the router has looked at.
    pub sampled_percent: f64,
    /// Times from Interests to Data that only a tenth, or a hundredth, of all exceed.
    pub answer_p50_ms: Option<f64>,
    pub answer_p90_ms: Option<f64>,
    pub answer_p99_ms: Option<f64>,
    pub prefixes: Vec<PrefixRate>,
}

/// Packets below a prefix.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct PrefixRate {
    pub prefix: String,
    pub interests_per_s: f64,
    pub data_per_s: f64,
    pub data_bytes_per_s: f64,
    /// Share of all packets.
    pub share_percent: f64,
    #[serde(skip)]
    pub name: Name,
}

impl Report {
    /// The rates since an earlier sample. Without one, or if the router has restarted since, all rates are 0.
    pub fn new(before: Option<&Sample>, now: &Sample) -> Report {
        let before = before.filter(|before| before.general.start_time_ms == now.general.start_time_ms);
        let time = before.map_or(Duration::ZERO, |before| now.at.saturating_duration_since(before.at));
        let rates = Rates { time };
        // Without a sample before, a difference to itself.
        let was = before.unwrap_or(now);
        let rate = |count: fn(&General) -> u64| rates.of(count(&was.general), count(&now.general));
        let bytes = |count: fn(&Face) -> u64| bytes_of(was, now, rates, count);
        let drops = drops(rates, &was.general.drops, &now.general.drops);
        Report {
            version: now.general.version.clone(),
            uptime_ms: now.general.uptime_ms,
            interval_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            rates: PacketRates {
                in_interests_per_s: rate(|g| g.in_interests),
                in_data_per_s: rate(|g| g.in_data),
                in_nacks_per_s: rate(|g| g.in_nacks),
                in_bytes_per_s: bytes(|face| face.in_bytes),
                out_interests_per_s: rate(|g| g.out_interests),
                out_data_per_s: rate(|g| g.out_data),
                out_nacks_per_s: rate(|g| g.out_nacks),
                out_bytes_per_s: bytes(|face| face.out_bytes),
            },
            satisfied_per_s: rate(|g| g.satisfied_interests),
            unsatisfied_per_s: rate(|g| g.unsatisfied_interests),
            drops_per_s: sum(&drops),
            pit_entries: now.general.pit_entries,
            fib_entries: now.general.fib_entries,
            cs_entries: now.cs.entries,
            cs_capacity: now.cs.capacity,
            cs_hits_per_s: rates.of(was.cs.hits, now.cs.hits),
            cs_misses_per_s: rates.of(was.cs.misses, now.cs.misses),
            faces: faces(rates, before, now),
            threads: threads(rates, &was.general.threads, &now.general.threads),
            drops,
            traffic: now.traffic.as_ref().and_then(window),
        }
    }
}

/// Growth of counters per second.
#[derive(Clone, Copy)]
struct Rates {
    time: Duration,
}

impl Rates {
    fn of(self, before: u64, now: u64) -> f64 {
        if self.time.is_zero() { 0.0 } else { now.saturating_sub(before) as f64 / self.time.as_secs_f64() }
    }
}

/// Bytes of all faces that there still are.
fn bytes_of(was: &Sample, now: &Sample, rates: Rates, count: fn(&Face) -> u64) -> f64 {
    let before: HashMap<u64, u64> = was.faces.iter().map(|face| (face.face_id, count(face))).collect();
    now.faces.iter().map(|face| rates.of(before.get(&face.face_id).copied().unwrap_or(0), count(face))).sum()
}

fn faces(rates: Rates, before: Option<&Sample>, now: &Sample) -> Vec<FaceRate> {
    let known: HashMap<u64, &Face> =
        before.into_iter().flat_map(|before| &before.faces).map(|face| (face.face_id, face)).collect();
    let rate_of = |face: &Face| {
        // All that a new face has counted was since then.
        let rate = |count: fn(&Face) -> u64| rates.of(known.get(&face.face_id).map_or(0, |f| count(f)), count(face));
        FaceRate {
            face_id: face.face_id,
            remote_uri: face.remote_uri.clone(),
            local_uri: face.local_uri.clone(),
            scope: face.scope.clone(),
            persistency: face.persistency,
            thread: face.thread,
            rates: PacketRates {
                in_interests_per_s: rate(|f| f.in_interests),
                in_data_per_s: rate(|f| f.in_data),
                in_nacks_per_s: rate(|f| f.in_nacks),
                in_bytes_per_s: rate(|f| f.in_bytes),
                out_interests_per_s: rate(|f| f.out_interests),
                out_data_per_s: rate(|f| f.out_data),
                out_nacks_per_s: rate(|f| f.out_nacks),
                out_bytes_per_s: rate(|f| f.out_bytes),
            },
            out_drops_per_s: rate(|f| f.out_drops.unwrap_or(0)),
            face: face.clone(),
        }
    };
    now.faces.iter().map(rate_of).collect()
}

fn threads(rates: Rates, was: &[Thread], now: &[Thread]) -> Vec<ThreadRate> {
    let rate_of = |(number, thread): (usize, &Thread)| {
        let was = was.get(number).unwrap_or(thread);
        let rate = |count: fn(&Thread) -> u64| rates.of(count(was), count(thread));
        let stage = |stage: &crate::manage::threads::Stage| {
            let was = was.stages.iter().find(|was| was.stage == stage.stage);
            let (packets, time_ns) = was.map_or((0, 0), |was| (was.packets, was.time_ns));
            // Few bursts are timed. If none was since then, the mean since the start has to do.
            let (packets, time_ns) = match stage.packets.saturating_sub(packets) {
                0 => (stage.packets, stage.time_ns),
                since => (since, stage.time_ns.saturating_sub(time_ns)),
            };
            StageTime { stage: stage.stage.clone(), ns_per_packet: time_ns as f64 / packets.max(1) as f64 }
        };
        ThreadRate {
            thread: number as u64,
            load_percent: thread.load_percent,
            in_interests_per_s: rate(|t| t.in_interests),
            in_data_per_s: rate(|t| t.in_data),
            in_nacks_per_s: rate(|t| t.in_nacks),
            drops_per_s: sum(&drops(rates, &was.drops, &thread.drops)),
            pit_entries: thread.pit_entries,
            cs_entries: thread.cs_entries,
            faces: thread.faces,
            input_depth: thread.input_depth,
            output_depth: thread.output_depth,
            ring_drops_per_s: rate(|t| t.input_drops.unwrap_or(0) + t.output_drops.unwrap_or(0)),
            stages: thread.stages.iter().map(stage).collect(),
        }
    };
    now.iter().enumerate().map(rate_of).collect()
}

fn drops(rates: Rates, was: &[Drops], now: &[Drops]) -> Vec<DropRate> {
    let before = |reason: &str| was.iter().find(|drops| drops.reason == reason).map_or(0, |drops| drops.packets);
    let rate = |drops: &Drops| DropRate {
        reason: drops.reason.clone(),
        packets: drops.packets,
        per_s: rates.of(before(&drops.reason), drops.packets),
    };
    now.iter().map(rate).collect()
}

/// Drops for all reasons. The sum of no floats at all would be -0.
fn sum(drops: &[DropRate]) -> f64 {
    drops.iter().fold(0.0, |sum, drops| sum + drops.per_s)
}

fn window(traffic: &Traffic) -> Option<Window> {
    let rates = Rates { time: Duration::from_millis(traffic.window_ms) };
    if rates.time.is_zero() {
        return None;
    }
    let percent = |part: u64| part as f64 * 100.0 / traffic.n_packets.max(1) as f64;
    let prefix = |prefix: &byname_control::mgmt::tlv::traffic::TrafficPrefix| PrefixRate {
        prefix: prefix.name.to_string(),
        interests_per_s: rates.of(0, prefix.n_interests),
        data_per_s: rates.of(0, prefix.n_data),
        data_bytes_per_s: rates.of(0, prefix.data_bytes),
        share_percent: percent(prefix.n_interests.saturating_add(prefix.n_data)).min(100.0),
        name: prefix.name.clone(),
    };
    Some(Window {
        window_ms: traffic.window_ms,
        packets_per_s: rates.of(0, traffic.n_packets),
        sampled_percent: percent(traffic.n_samples).min(100.0),
        answer_p50_ms: quantile_ms(traffic, 0.5),
        answer_p90_ms: quantile_ms(traffic, 0.9),
        answer_p99_ms: quantile_ms(traffic, 0.99),
        prefixes: traffic.prefixes.iter().map(prefix).collect(),
    })
}

/// The time that this share of the answers does not exceed. Between two bounds, answers are taken as evenly spread.
fn quantile_ms(traffic: &Traffic, share: f64) -> Option<f64> {
    let all: u64 = traffic.answers.iter().map(|times| times.n_answers).sum();
    if all == 0 {
        return None;
    }
    let (mut left, mut from) = (share * all as f64, 0.0);
    for times in &traffic.answers {
        let (count, to) = (times.n_answers as f64, times.up_to_ns.map_or(from, |ns| ns as f64));
        if count > 0.0 && left <= count {
            return Some((from + (to - from) * left / count) / 1e6);
        }
        (left, from) = (left - count, to);
    }
    Some(from / 1e6)
}

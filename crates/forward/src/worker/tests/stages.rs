//! Bursts whose stages are timed.

use std::sync::atomic::{AtomicU64, Ordering};

use byname_lookup::prefix::compact::{self, Compact};

use super::*;
use crate::settings::LIFETIME_MAX;
use crate::stages::StageTime;
use crate::stages::StageTimes;

/// This clock advances by one nanosecond at each reading.
fn stopwatch(one_in: u32) -> Stopwatch {
    let looks = AtomicU64::new(0);
    Stopwatch::new(one_in, move || Ticks(looks.fetch_add(1, Ordering::Relaxed)))
}

fn from(face: FaceId, packet: &[u8]) -> Received {
    Received { face, fields: LinkFields::default(), packet: Packet::copy_from(packet) }
}

fn packets(times: &StageTimes) -> Vec<(&'static str, u64)> {
    times.all().filter(|(_, time)| time.packets > 0).map(|(stage, time)| (stage.label(), time.packets)).collect()
}

#[test]
fn each_stage_counts_what_passes_it() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    b.worker.time_stages(stopwatch(1));
    // The second Interest finds the first one pending, so the first must be routed before. The third is malformed.
    let interests = [interest("/a/b", 1).encode(), interest("/a/b", 2).encode(), vec![5, 0]];
    b.poll(interests.iter().map(|packet| from(APP, packet)).collect());
    let times = b.worker.counters().stages;
    assert_eq!(packets(&times), [("parse", 3), ("pit-cs", 2), ("fib", 2), ("strategy", 2)]);
    assert_eq!(times.of(Stage::PitCs).ns, 3, "to the first one's FIB, to the second's end, and to its FIB");

    b.receive(HOST, &data("/a/b"));
    b.receive(APP, &interest("/a/c", 3).encode());
    b.wait(LIFETIME_MAX);
    let now = b.worker.counters().stages.since(&times);
    assert_eq!(packets(&now), [("timers", 1), ("parse", 2), ("pit-cs", 2), ("fib", 1), ("strategy", 1)]);
}

#[test]
fn what_is_timed_is_one_burst_in_so_many() {
    let mut b = bench();
    b.worker.time_stages(stopwatch(4));
    for nonce in 1..=9 {
        b.receive(APP, &interest("/a", nonce).encode());
    }
    assert_eq!(b.worker.counters().stages.of(Stage::Parse), StageTime { packets: 2, ns: 2 });
}

#[test]
fn the_fib_s_lines_are_counted_where_its_engine_tells_them() {
    let mut compact = Compact::new(KEY, &compact::Options::default()).expect("there is memory");
    compact.apply(&[Change::Set(name("/a"), EntryId(0))]).expect("there is room");
    let mut b = bench();
    b.route("/a", &[HOST]);
    b.worker.time_stages(stopwatch(1));
    b.receive(APP, &interest("/a/b", 1).encode());
    assert_eq!(b.worker.counters().fib_lines, FibLines::default(), "the oracle has none to tell");
    b.tables.replace_fib(compact.query());
    b.receive(APP, &interest("/a/c", 2).encode());
    let FibLines { lookups, lines } = b.worker.counters().fib_lines;
    assert!(lookups == 1 && (1..=4).contains(&lines), "{lines}");
}

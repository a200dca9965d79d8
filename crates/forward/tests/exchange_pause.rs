//! How long a round of a worker takes while its tables are exchanged.
//!
//! By default the test checks that a round moves a bounded number of entries, and prints the times. With
//! `BYNAME_TEST_PAUSE=100` it also fails if the pause at the 99th percentile is longer than so many microseconds, which
//! needs a quiet machine:
//!
//! ```sh
//! BYNAME_TEST_PAUSE=100 cargo test --release -p byname-forward --test exchange_pause -- --nocapture
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use byname_forward::face_table::{LinkType, Scope};
use byname_forward::tables::{Nexthop, NexthopGroup, Tables};
use byname_forward::worker::{NewTables, Progress, SLICE, WorkerConfig};
use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received, Ticks, Worker};
use byname_lookup::oracle::Oracle;
use byname_lookup::{Change, Control, EntryId};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{HashFunction, Name, NameHashKey};

const PENDING: u32 = 60_000;
const CACHED: u32 = 60_000;
const BURST: u32 = 64;
const APP: FaceId = FaceId(256);
const HOST: FaceId = FaceId(257);

fn name(number: u32) -> Name {
    format!("/e/some/longer/name/{number}").parse().expect("a name")
}

fn interest(number: u32) -> Received {
    let wire = InterestBuilder::new(name(number), number).lifetime_ms(1_000_000).encode();
    Received { face: APP, fields: LinkFields::default(), packet: Packet::copy_from(&wire) }
}

fn data(number: u32) -> Received {
    let wire = DataBuilder::new(name(number)).freshness_ms(1_000_000).content(vec![7; 100]).encode();
    Received { face: HOST, fields: LinkFields::default(), packet: Packet::copy_from(&wire) }
}

/// A worker with pending Interests and cached Data.
fn filled(key: NameHashKey, config: WorkerConfig, now: Ticks) -> Worker {
    let mut fib = Oracle::new();
    fib.apply(&[Change::Set("/e".parse().expect("a name"), EntryId(0))]).expect("room");
    let tables = Arc::new(Tables::new(fib.query()));
    tables.replace_replica(1, fib.query());
    let nexthops = Box::new([Nexthop { face: HOST, cost: 1 }]);
    tables.set_group(EntryId(0), Some(NexthopGroup { nexthops }));
    let mut worker = Worker::new(config, key, tables, 1);
    for face in [APP, HOST] {
        worker.face_up(face, Scope::NonLocal, LinkType::PointToPoint);
    }
    let mut output = Vec::new();
    for first in (0..PENDING + CACHED).step_by(BURST as usize) {
        worker.poll(now, &mut (first..first + BURST).map(interest).collect(), &mut output);
        let cached = (first..first + BURST).filter(|number| *number >= PENDING);
        worker.poll(now, &mut cached.map(data).collect(), &mut output);
        output.clear();
    }
    worker
}

fn entries(worker: &Worker) -> u64 {
    let counters = worker.counters();
    counters.pit_entries + counters.cs.packets
}

/// Median, 99th percentile and maximum.
fn summary(durations: &mut [Duration]) -> [Duration; 3] {
    durations.sort_unstable();
    [50, 99, 100].map(|percent| durations[(durations.len() - 1) * percent / 100])
}

#[test]
fn a_round_moves_few_entries_and_takes_little_longer() {
    let keys = [NameHashKey::new([1, 2]), NameHashKey::with_function(HashFunction::Aes, [3, 4])];
    let config = WorkerConfig { pit_entries_max: 100_000, ..WorkerConfig::default() };
    let mut now = Ticks::from_ms(1000);
    let mut worker = filled(keys[0], config.clone(), now);
    let before = entries(&worker);
    let sizes = WorkerConfig { pit_entries_max: 200_000, cs_packets_max: 100_000, ..config };
    let new = NewTables::try_new(&sizes, keys[1], before as usize).expect("little memory");
    let new = new.with_dead_nonces(sizes.dead_nonces_max).expect("little memory").with_replica(1);
    worker.exchange_tables(Box::new(new));
    let (mut pauses, mut with_packets, mut output) = (Vec::new(), Vec::new(), Vec::<Outgoing>::new());
    let mut next = 0;
    loop {
        now = now + Duration::from_micros(50);
        let start = Instant::now();
        worker.poll(now, &mut Vec::new(), &mut output);
        pauses.push(start.elapsed());
        // Interests for Data that has moved, or has not.
        let numbers = (0..BURST).map(|n| PENDING + (next + n * 977) % CACHED);
        let mut burst: Vec<Received> = numbers.map(interest).collect();
        next += 1;
        let start = Instant::now();
        worker.poll(now, &mut burst, &mut output);
        with_packets.push(start.elapsed());
        assert!(output.drain(..).all(|sent| sent.packet[0] == 6), "the content store answers");
        let (progress, old) = worker.take_old_tables(false);
        if progress == Progress::Remembering {
            assert_eq!(old.len(), 1);
            break;
        }
    }
    assert_eq!(entries(&worker), before, "nothing is lost");
    let least = before as usize / (2 * SLICE + BURST as usize);
    assert!(pauses.len() >= least, "{} rounds, at least {least}", pauses.len());
    let pause = summary(&mut pauses);
    println!("{} rounds without packets (median, p99, max): {pause:?}", pauses.len());
    println!("the same with {BURST} Interests each: {:?}", summary(&mut with_packets));
    if let Ok(limit) = std::env::var("BYNAME_TEST_PAUSE") {
        let limit = Duration::from_micros(limit.parse().expect("microseconds"));
        assert!(pause[1] < limit, "p99 of the pause is {:?}", pause[1]);
    }
}

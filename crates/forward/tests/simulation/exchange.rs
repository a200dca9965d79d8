//! Compares a worker whose tables are exchanged again and again with one that keeps its tables. They must agree in sent
//! packets and counters.

use std::time::Duration;

use byname_forward::worker::{CsPolicy, NewTables, Progress, SLICE, Worker, WorkerConfig};
use byname_forward::{LinkFields, Outgoing, Ticks};
use byname_wire::NameHashKey;
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::name_hash::HashFunction;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::bursts::{packet, receive, sorted, worker};

/// Names that are pending or cached besides those of the test, so that moving all entries takes many rounds.
const OTHERS: u64 = 20 * SLICE as u64;

/// Tables for names that are hashed with the key of [`worker`], or with another one. The FIB of that key is in the
/// replica of the same number.
pub fn new_tables(number: usize, config: &WorkerConfig, entries: usize) -> Box<NewTables> {
    let keys = [NameHashKey::new([5, 6]), NameHashKey::with_function(HashFunction::Aes, [7, 8])];
    let new = NewTables::try_new(config, keys[number], entries).expect("little memory");
    Box::new(new.with_dead_nonces(1 << 14).expect("little memory").with_replica(number))
}

/// What the worker is asked to do.
#[derive(Debug, Clone, Copy)]
struct Case {
    seed: u64,
    strategy: &'static str,
    /// Whether the key changes. Strategies then lose what they have measured.
    rekeys: bool,
    /// Whether the content store holds Data. An Interest with CanBePrefix may miss Data that has not moved.
    caches: bool,
}

fn both(workers: &mut [Worker; 2], now: Ticks, packets: &[(u64, LinkFields, Vec<u8>)]) -> [Vec<Outgoing>; 2] {
    workers.each_mut().map(|worker| {
        let mut sent = Vec::new();
        worker.poll(now, &mut receive(packets), &mut sent);
        sent
    })
}

/// Packets that make other names pending, and cache Data of some of them.
fn others(round: u64) -> Vec<(u64, LinkFields, Vec<u8>)> {
    let name = |n| format!("/e/other/{round}/{n}").parse().expect("a name");
    let interest = |n| InterestBuilder::new(name(n), n as u32).lifetime_ms(200 + n).encode();
    let interests = (0..OTHERS).map(|n| (258 + n % 3, LinkFields::default(), interest(n)));
    let data = |n| DataBuilder::new(name(n)).freshness_ms(100).content(vec![1]).encode();
    let answers = (0..OTHERS / 2).map(|n| (257, LinkFields::default(), data(2 * n)));
    interests.chain(answers).collect()
}

fn run(case: Case) -> usize {
    let Case { seed, strategy, rekeys, caches } = case;
    let mut random = SmallRng::seed_from_u64(seed);
    let config = |policy| WorkerConfig {
        cs_packets_max: if caches { 100_000 } else { 0 },
        cs_policy: policy,
        ..WorkerConfig::default()
    };
    let mut workers = [(); 2].map(|()| worker(strategy, config(CsPolicy::Lru)));
    let (mut now, mut asked, mut moved_in_parts) = (Ticks::from_ms(1000), Vec::new(), 0);
    for step in 0..100 {
        now = now + Duration::from_millis(random.random_range(0..30));
        if step % 25 == 0 {
            both(&mut workers, now, &others(step));
            let policy = if random.random_bool(0.5) { CsPolicy::Lru } else { CsPolicy::S3Fifo };
            let number = usize::from(rekeys && random.random_bool(0.7));
            let entries = random.random_range(0..2000);
            workers[0].exchange_tables(new_tables(number, &config(policy), entries));
        }
        let count = 1 + random.random_range(0..10);
        let mut packets: Vec<_> = (0..count).map(|i| packet(&mut random, &mut asked, 100 * step + i)).collect();
        if caches {
            packets.retain(|(_, fields, wire)| fields.nack.is_some() || !can_be_prefix(wire));
        }
        let [sent, expected] = both(&mut workers, now, &packets);
        assert_eq!(sorted(&sent), sorted(&expected), "{case:?}, step {step}");
        let [ours, others] = workers.each_ref().map(Worker::counters);
        assert_eq!((ours.pit_entries, &ours.cs), (others.pit_entries, &others.cs), "{case:?}, step {step}");
        assert_eq!(ours.drops, others.drops, "{case:?}, step {step}");
        moved_in_parts += usize::from(workers[0].take_old_tables(false).0 == Progress::Moving);
        let interests = sent.iter().filter(|o| o.packet[0] == 5 && o.fields.nack.is_none());
        asked.extend(interests.map(|o| (o.face.0, o.packet.to_vec())));
    }
    now = now + Duration::from_secs(5);
    both(&mut workers, now, &[]);
    assert_eq!(workers[0].counters().pit_entries, 0, "{case:?}");
    moved_in_parts
}

fn can_be_prefix(wire: &[u8]) -> bool {
    byname_wire::Interest::decode(wire).is_ok_and(|interest| interest.can_be_prefix)
}

#[test]
fn an_exchange_of_tables_changes_nothing_that_a_worker_does() {
    let mut moved_in_parts = 0;
    for seed in 0..12 {
        for caches in [false, true] {
            for strategy in ["best-route", "multicast"] {
                moved_in_parts += run(Case { seed, strategy, rekeys: true, caches });
            }
            moved_in_parts += run(Case { seed, strategy: "asf", rekeys: false, caches });
        }
    }
    assert!(moved_in_parts > 1000, "packets meet entries that have not moved: {moved_in_parts}");
}

#[test]
fn a_smaller_table_keeps_the_most_valuable_data_and_evicts_the_rest() {
    let mut workers = [(); 2].map(|()| worker("best-route", WorkerConfig::default()));
    let mut now = Ticks::from_ms(1000);
    both(&mut workers, now, &others(0));
    let (pending, cached) = (OTHERS as usize / 2, OTHERS as usize / 2);
    let counters = workers[0].counters();
    assert_eq!((counters.pit_entries, counters.cs.packets), (pending as u64, cached as u64));
    let small = WorkerConfig { pit_entries_max: 40, cs_packets_max: 10, ..WorkerConfig::default() };
    workers[0].exchange_tables(new_tables(0, &small, 0));
    for round in 0.. {
        now = now + Duration::from_micros(100);
        let (progress, old) = workers[0].take_old_tables(false);
        if progress == Progress::Remembering {
            assert_eq!(old.len(), 1, "the tables are free");
            break;
        }
        assert_eq!(workers[0].next_deadline(), Some(Ticks(0)), "the rest waits for no packet");
        let before = workers[0].counters();
        both(&mut workers, now, &[]);
        let after = workers[0].counters();
        let gone = before.pit_entries + before.cs.packets - after.pit_entries - after.cs.packets;
        assert!(gone <= SLICE as u64 && round < 100, "a round moves a slice: {gone}");
    }
    let counters = workers[0].counters();
    assert_eq!((counters.pit_entries, counters.cs.packets), (40, 10));
    let evicted = counters.drops.iter().find(|(reason, _)| *reason == "pit-full").map(|(_, count)| *count);
    assert_eq!(evicted, Some(pending as u64 - 40));
    // The newest Data is there.
    let last = format!("/e/other/0/{}", OTHERS - 2).parse().expect("a name");
    let [sent, _] = both(&mut workers, now, &[(258, LinkFields::default(), InterestBuilder::new(last, 1).encode())]);
    assert_eq!(sent[0].packet[0], 6);
    let (progress, old) = workers[0].take_old_tables(true);
    assert_eq!((progress, old.len()), (Progress::Done, 1), "the nonces are forgotten");
}

#[test]
fn a_nonce_that_was_dead_before_the_exchange_stays_dead() {
    for number in [0, 1] {
        let mut workers = [(); 2].map(|()| worker("best-route", WorkerConfig::default()));
        let mut now = Ticks::from_ms(1000);
        let name = || "/e/f".parse().expect("a name");
        let interest = InterestBuilder::new(name(), 77).lifetime_ms(100).encode();
        let sent = both(&mut workers, now, &[(258, LinkFields::default(), interest.clone())]);
        assert!(sent.iter().all(|sent| sent.len() == 1));
        now = now + Duration::from_millis(200);
        both(&mut workers, now, &[]);
        workers[0].exchange_tables(new_tables(number, &WorkerConfig::default(), 0));
        now = now + Duration::from_millis(200);
        let [ours, others] = both(&mut workers, now, &[(259, LinkFields::default(), interest)]);
        assert_eq!(sorted(&ours), sorted(&others));
        assert!(ours[0].fields.nack.is_some(), "it loops");
    }
}

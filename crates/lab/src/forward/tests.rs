use byname_forward::face_table::{LinkType, Scope};
use byname_forward::tables::{Nexthop, NexthopGroup};
use byname_forward::worker::{Worker, WorkerConfig};
use byname_forward::{FaceId, Packet, Received, Ticks};
use byname_lookup::EntryId;
use clap::Parser;

use super::options::Mix;
use super::plane::Totals;
use super::variant::{Look, Schedule, Variant};
use super::*;
use crate::prefix::{Prefetch, Strategy, Tuning};
use crate::progress::Progress;
use crate::workload;

const CONSUMER: FaceId = FaceId(256);
/// Number of faces to which rules lead.
const PRODUCERS: u32 = 16;

#[derive(Parser)]
struct Alone {
    #[command(flatten)]
    options: Options,
}

fn parse(words: &str) -> Result<Options, clap::Error> {
    Alone::try_parse_from(std::iter::once("forward").chain(words.split_whitespace())).map(|alone| alone.options)
}

fn tiny(words: &str) -> anyhow::Result<Vec<Record>> {
    let options = parse(&format!("--fib 2000 --pit 3000 --cs 500 --draws 1000 --seconds 0.02 {words}"))?;
    measure::measure(&options, Progress::HIDDEN)
}

#[test]
fn every_data_plane_forwards_all_packets_of_every_mix() {
    for mix in ["interest", "data", "both"] {
        let all = "compact/all/64,compact/cascade/7,two_stage/none/32,longest_first/naive,binary_search/all/64";
        let records = tiny(&format!("--mix {mix} --compare {all}")).expect("tiny tables fit");
        assert_eq!(records.len(), 5);
        for record in &records {
            assert!(record.packets_per_s > 0.0 && record.packets_per_s.is_finite(), "{record:?}");
            assert!(record.packets_per_s_min <= record.packets_per_s, "{record:?}");
            assert!(record.checked > 3000 && record.wrong == 0 && record.drops == 0, "{record:?}");
            assert!(record.forward_ns_per_packet > 0.0 && record.receive_ns_per_packet > 0.0, "{record:?}");
            assert!(record.parse_ns_per_packet > 0.0 && record.pit_cs_ns_per_packet > 0.0, "{record:?}");
            let by_stage = record.timers_ns_per_packet + record.parse_ns_per_packet + record.pit_cs_ns_per_packet;
            let by_stage = by_stage + record.fib_ns_per_packet + record.strategy_ns_per_packet;
            assert_eq!((record.home_share, record.dispatch_ns_per_packet), (1.0, 0.0));
            assert!((record.forward_ns_per_packet - by_stage).abs() < 1e-6, "{record:?}");
            assert_eq!(record.of_limit.is_some(), record.fib_lines_per_interest.is_some());
        }
        assert_eq!(records.iter().map(|r| r.burst).collect::<Vec<_>>(), [64, 7, 32, 1, 64]);
    }
}

#[test]
fn who_looks_changes_nothing_that_is_forwarded() {
    for threads in ["1", "2"] {
        let all = "compact/all/64,compact/all/64/traced,compact/all/64/counted";
        let records = tiny(&format!("--threads {threads} --compare {all}")).expect("tiny tables fit");
        assert_eq!(records.iter().map(|r| r.look).collect::<Vec<_>>(), [None, Some(Look::Traced), Some(Look::Counted)]);
        for record in &records {
            // On a machine that is too busy, the ring between two threads fills, and sheds what it counts.
            let is_kept = if threads == "1" { record.drops == 0 } else { record.lost == record.drops };
            assert!(record.checked > 3000 && record.wrong == 0 && is_kept, "{record:?}");
        }
        let share = records[1].traced_share.expect("it was traced");
        assert!((0.001..0.1).contains(&share) && records[0].traced_share.is_none(), "{share}");
    }
    assert_eq!("compact/all/64/traced".parse::<Variant>().expect("a data plane").to_string(), "compact/all/64/traced");
    assert!("compact/all/64/watched".parse::<Variant>().is_err());
}

/// The face to which Interests with this FIB entry go in the test below.
fn producer_of(entry: EntryId) -> FaceId {
    FaceId(300 + u64::from(entry.0 % PRODUCERS))
}

/// Sends packets through a worker in bursts. Each Interest must leave to the face of the deepest rule that covers it,
/// and each Data to the consumer.
fn check_each_packet(options: &Options) {
    let variant = &options.compare[0];
    let run = Run::open(options, Progress::HIDDEN).expect("a made-up workload");
    let (packets, fib) = (run.packets().expect("small packets"), run.fibs().expect("small tables").remove(0));
    let seed = options.measuring.seed;
    let oracle = workload::open(&options.workload, options.fib, options.components.into(), seed).expect("as the run's");
    let mut worker = Worker::new(WorkerConfig::default(), *run.key(), fib.tables.clone(), seed);
    worker.set_prefetch(variant.prefetch.of_worker());
    worker.face_up(CONSUMER, Scope::NonLocal, LinkType::PointToPoint);
    for face in 0..PRODUCERS {
        worker.face_up(producer_of(EntryId(face)), Scope::NonLocal, LinkType::PointToPoint);
    }
    for group in (0..workload::GROUPS).map(EntryId) {
        let nexthops = [Nexthop { face: producer_of(group), cost: 0 }].into();
        fib.tables.set_group(group, Some(NexthopGroup { nexthops }));
    }
    let mut pass = |received: &[(FaceId, Vec<u8>)]| -> Vec<(FaceId, Vec<u8>)> {
        let (mut input, mut output) = (Vec::new(), Vec::new());
        for (face, bytes) in received {
            let packet = Received::append(&mut input);
            packet.face = *face;
            packet.packet.fill(Packet::copy_from(bytes));
        }
        worker.poll(Ticks::from_ms(1), &mut input, &mut output);
        output.iter().map(|sent| (sent.face, sent.packet.to_vec())).collect()
    };
    let frame = |write: &dyn Fn(&mut Frames)| {
        let mut frames = Frames::default();
        write(&mut frames);
        frames.receive().to_vec()
    };
    let numbers: Vec<u64> = (0..500).collect();
    for burst in numbers.chunks(variant.burst) {
        let producer = |number| {
            let rule = oracle.covering(packets.name(number, &mut Vec::new())).expect("each name is covered");
            producer_of(oracle.entry(rule))
        };
        let interest = |number| frame(&|frames| packets.write_interest(number, frames));
        let data = |number| frame(&|frames| packets.write_data(number, frames));
        let asked: Vec<_> = burst.iter().map(|&number| (CONSUMER, interest(number))).collect();
        let right: Vec<_> = burst.iter().map(|&number| (producer(number), interest(number))).collect();
        assert!(pass(&asked) == right, "{variant}, {:?}: Interests from {} on", options.tuning, burst[0]);
        let answers: Vec<_> = burst.iter().map(|&number| (producer(number), data(number))).collect();
        let right: Vec<_> = burst.iter().map(|&number| (CONSUMER, data(number))).collect();
        assert!(pass(&answers) == right, "{variant}, {:?}: Data from {} on", options.tuning, burst[0]);
    }
}

#[test]
fn every_data_plane_sends_each_packet_to_the_right_face() {
    for plane in ["compact/all/64", "compact/cascade/7", "two_stage/none/32", "longest_first/naive"] {
        check_each_packet(&parse(&format!("--fib 2000 --draws 500 --compare {plane}")).expect("a data plane"));
    }
    // The FIBs of [Yuan §3.5] Table 2, and prefetch across the burst.
    let by_names = parse("--fib 2000 --draws 500 --compare binary_search/all/64").expect("a data plane");
    for strategy in [Strategy::Always, Strategy::AtEnd] {
        for prefetch in [Prefetch::None, Prefetch::First, Prefetch::All, Prefetch::Burst] {
            let tuning = Tuning { strategy: Some(strategy), prefetch: Some(prefetch), ..Tuning::default() };
            check_each_packet(&Options { tuning, ..by_names.clone() });
        }
    }
}

/// Passes turns through threads that take turns, and then answers all Interests that wait.
fn passed(options: &Options, turns: usize) -> Totals {
    let run = Run::open(options, Progress::HIDDEN).expect("a made-up workload");
    let (packets, fib) = (run.packets().expect("small packets"), run.fibs().expect("small tables").remove(0));
    let mut plane = Plane::new(options, &options.compare[0], *run.key(), &fib.tables, &packets, TURN).expect("memory");
    for _ in 0..turns {
        for traffic in &mut plane.traffic {
            let turn = traffic.turn(Mix::Both);
            assert!(turn.packets >= TURN / 2 && turn.packets <= 2 * TURN, "{} packets", turn.packets);
        }
    }
    plane.finish()
}

#[test]
fn threads_answer_each_interest_once() {
    const TURNS: usize = 40;
    for (threads, zipf, heavy_hitters) in [1, 2, 3].into_iter().flat_map(|threads| {
        [(None, true), (None, false), (Some(0.0), true), (Some(1.4), true), (Some(1.4), false)]
            .map(|(zipf, heavy_hitters)| (threads, zipf, heavy_hitters))
    }) {
        let words = format!("--fib 2000 --pit 3000 --cs 500 --draws 1000 --heavy-hitters {heavy_hitters}");
        let mut options = parse(&words).expect("possible");
        (options.measuring.threads, options.zipf) = (threads, zipf);
        let totals = passed(&options, TURNS);
        let case = format!("{threads} threads, Zipf {zipf:?}, heavy hitters {heavy_hitters}: {totals:?}");
        let asked = TURNS * TURN as usize / 2 + if zipf.is_none() { 3000 } else { 0 };
        assert_eq!((totals.asked, totals.arrived), ((threads * asked) as u64, (threads * asked) as u64), "{case}");
        assert_eq!((totals.lost, totals.drops.len(), totals.wrong), (0, 0, 0), "{case}");
        match zipf {
            None => {
                assert_eq!((totals.received, totals.cs_hits, totals.spread), (2 * totals.asked, 0.0, 0.0), "{case}")
            }
            Some(0.0) => assert!(totals.cs_hits > 0.3 && totals.cs_hits < 0.6, "{case}"),
            Some(_) => assert!(totals.cs_hits + totals.spread > 0.8, "{case}"),
        }
        let even = 1.0 / threads as f64;
        assert_eq!(totals.spread > 0.1, threads > 1 && heavy_hitters && zipf == Some(1.4), "{case}");
        if zipf.is_none() {
            assert!((totals.home_share - even).abs() < 0.05, "{case}");
        }
    }
}

/// Without a content store, many consumers wait for the same Data. Their Interests join where threads share PIT entries.
#[test]
fn threads_that_share_pit_entries_answer_each_interest_once() {
    for threads in [1, 2, 3] {
        for (plane, shares) in [("compact/all/64", false), ("compact/all/64/shared-pit", true)] {
            let words = format!("--fib 2000 --pit 3000 --cs 0 --draws 1000 --zipf 1.4 --compare {plane}");
            let mut options = parse(&words).expect("possible");
            assert_eq!(options.compare[0].to_string(), plane);
            options.measuring.threads = threads;
            let totals = passed(&options, 40);
            let case = format!("{threads} threads, {plane}: {totals:?}");
            assert!(totals.asked > 1000 && totals.arrived == totals.asked, "{case}");
            assert_eq!((totals.lost, totals.drops.len(), totals.wrong), (0, 0, 0), "{case}");
            // Threads take turns here, so most answers come before another thread's Interest could join: 3 and 5 % do.
            assert_eq!(totals.joined > 0.02, threads > 1 && shares, "{case}");
        }
    }
}

#[test]
fn lost_packets_are_counted_and_not_called_wrong() {
    // No room for the Interests that are under way: the oldest are removed.
    let options = parse("--fib 2000 --pit 3000 --cs 500 --draws 1000").expect("possible");
    let run = Run::open(&options, Progress::HIDDEN).expect("a made-up workload");
    let (packets, fib) = (run.packets().expect("small packets"), run.fibs().expect("small tables").remove(0));
    let mut plane = Plane::new(&options, &options.compare[0], *run.key(), &fib.tables, &packets, 0).expect("memory");
    plane.traffic[0].turn(Mix::Interest);
    let totals = plane.finish();
    assert!(totals.lost > 0 && totals.wrong == 0, "{totals:?}");
    assert_eq!(totals.asked, totals.arrived + totals.lost);
    assert!(totals.drops.iter().any(|(reason, _)| *reason == "pit-full"), "{totals:?}");
}

#[test]
fn threads_of_the_machine_forward_all_packets_of_every_mix() {
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        return;
    }
    for words in [
        "--mix both",
        "--mix interest",
        "--mix data",
        "--zipf 1.4",
        "--zipf 1.4 --heavy-hitters false",
        "--compare compact/all/64/first-come",
        "--compare compact/all/64/lent",
        "--compare compact/all/64/lent/first-come",
        "--compare compact/all/64/lent --zipf 0.8",
        "--compare compact/all/64/lent --mix data",
    ] {
        let record = tiny(&format!("--threads 2 {words}")).expect("tiny tables fit").remove(0);
        assert!(record.packets_per_s > 0.0 && record.checked > 3000, "{words}: {record:?}");
        // If the system stops a thread for a while, its ring is full meanwhile. What that drops is counted.
        assert_eq!((record.lost, record.wrong), (record.drops, 0), "{words}: {record:?}");
        let of_rings = |(reason, drops): (&&str, &u64)| *drops == 0 || reason.ends_with("-ring-full");
        assert!(record.drops_by_reason.iter().all(of_rings), "{words}: {record:?}");
        assert!(record.drops <= record.checked / 20, "{words}: {record:?}");
        assert_eq!(record.ring_packets, Some(4096));
        assert!(record.dispatch_ns_per_packet > 0.0, "{words}: {record:?}");
        assert_eq!(
            record.exchanges_per_s.is_some(),
            !words.contains("--mix interest") && !words.contains("--mix data")
        );
        assert_eq!(record.lent, Some(words.contains("lent")));
        let first_come = words.contains("first-come");
        assert_eq!(record.first_come, Some(first_come));
        // Half of the Interests are received at home, and half of the Data, or all if it is lent. If names are at home where
        // they are first asked for, all Interests are, unless one thread has more to do for a while.
        let (is_lent, names_repeat) = (words.contains("lent"), words.contains("zipf"));
        let least = if is_lent { 0.75 } else { 0.5 };
        let most = if first_come { least + 0.25 } else { least };
        let is_right = (least - 0.05..=most + 0.05).contains(&record.home_share);
        assert!(is_right || names_repeat, "{words}: {record:?}");
    }
}

#[test]
fn one_thread_takes_turns_with_several() {
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        return;
    }
    let words = "--threads 2 --compare compact/all/64/lent,compact/all/64/one-thread";
    for words in [words.to_owned(), format!("{words} --zipf 0.8")] {
        let records = tiny(&words).expect("tiny tables fit");
        assert_eq!(records.iter().map(|record| record.threads).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(records.iter().map(|record| record.lent).collect::<Vec<_>>(), [Some(true), None]);
        assert_eq!(records.iter().map(|record| record.of_limit.is_some()).collect::<Vec<_>>(), [true, false]);
        let alone = &records[1];
        assert_eq!((alone.home_share, alone.lost, alone.wrong, alone.ring_packets), (1.0, 0, 0, None), "{alone:?}");
        assert!(alone.packets_per_s > 0.0 && alone.checked > 3000, "{alone:?}");
    }
}

#[test]
fn updates_become_visible_while_packets_pass() {
    let records = tiny("--compare compact/all/64,longest_first/all/64 --fib-updates-per-s 5000");
    for record in records.expect("tiny tables fit") {
        assert!(record.updates_per_s.is_some_and(|rate| rate > 0.0), "{record:?}");
        assert!(record.packets_per_s_beside_updates.is_some_and(|rate| rate > 0.0), "{record:?}");
        assert!(record.update_us <= record.update_us_p99 && record.update_us_p99 <= record.update_us_max);
        assert!(record.checked > 3000 && record.wrong == 0 && record.drops == 0, "{record:?}");
    }
    assert!(tiny("--fib-updates-per-s 0").is_err());
    assert_eq!(tiny("").expect("tiny tables fit")[0].updates_per_s, None);
}

#[test]
fn the_form_of_the_documentation_parses() {
    let options = parse("--fib 16M --pit 1M --mix both --compare compact/all/64,longest_first/naive --json");
    let options = options.expect("the documented form");
    assert_eq!((options.fib, options.pit, options.mix), (16_000_000, 1_000_000, Mix::Both));
    let naive = Variant {
        engine: "longest_first".to_owned(),
        prefetch: Schedule::Naive,
        burst: 1,
        shared_pit: false,
        lent: false,
        first_come: false,
        one_thread: false,
        look: None,
    };
    assert_eq!(options.compare[1], naive);
    assert_eq!(options.compare[1].to_string(), "longest_first/naive/1");
}

#[test]
fn what_cannot_be_done_is_refused() {
    for (words, hint) in [
        ("--compare compact/all/65", "1 to 64"),
        ("--compare compact/all/64/one-thread --fib-updates-per-s 5000", "without updates"),
        ("--compare compact/sometimes", "sometimes"),
        ("--compare compact/all/64/1", "compact/all/64"),
        ("--compare abacus", "no engine 'abacus'"),
        ("--content 8720", "8,800"),
        ("--content 9000", "too large"),
        ("--threads 10000", "10000 cores"),
        ("--zipf 5", "0 to 4"),
        ("--zipf 1 --mix data", "--mix both"),
    ] {
        let Err(error) = tiny(words) else { panic!("{words} was taken") };
        assert!(format!("{error:#}").contains(hint), "{words}: {error:#}");
    }
    let none_pending = parse("--fib 2000 --pit 0").expect("a number");
    assert!(measure::measure(&none_pending, Progress::HIDDEN).is_err());
}

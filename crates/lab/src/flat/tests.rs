//! Tiny runs of every engine on every kind of names: the lab must measure, and all answers must be right.

use std::io::Write as _;
use std::path::Path;

use super::engine::{self, Make};
use super::names::Keys;
use super::options::Load;
use super::*;
use crate::options::{Measuring, Updating};

/// Folder with lists and traces: beside a checkout, not in it.
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");

fn tiny(keys: Keys) -> Options {
    Options {
        names: 3000,
        keys,
        draws: 4000,
        measuring: Measuring { seconds: 0.01, repetitions: 3, ..Default::default() },
        ..Options::default()
    }
}

fn all_engines() -> Vec<&'static str> {
    engine::all().map(|engine| engine.name).collect()
}

fn measure_all_engines(options: &Options) -> Vec<Record> {
    measure_engines(options, &all_engines())
}

/// Measures engines. Fails on wrong answers.
fn measure_engines(options: &Options, engines: &[&str]) -> Vec<Record> {
    let records = measure(options, engines, Progress::HIDDEN).expect("tiny tables fit");
    assert_eq!(records.len(), engines.len());
    for record in &records {
        let engine = &record.engine;
        assert!(record.queries_per_s > 0.0 && record.queries_per_s.is_finite(), "{engine}");
        assert!(record.queries_per_s_min <= record.queries_per_s && record.queries_per_s <= record.queries_per_s_max);
        assert!((record.ns_per_query * record.queries_per_s - 1e9).abs() < 1e3, "{engine}");
        assert!(record.hash_ns > 0.0 && record.p99_ns_per_burst > 0, "{engine}");
        assert!(record.bits_per_name_counted > 0.0 && record.construct_ns_per_name > 0.0, "{engine}");
        assert!(record.checked > 1000 && (record.wrong == 0 || record.wrong_rate > 0.0), "{engine}");
        assert!(record.machine_lines_per_s > 0.0 && record.machine_bytes > 0, "{engine}");
        assert_eq!(record.of_limit.is_some(), record.cache_lines_per_query.is_some(), "{engine}");
        let lines = record.cache_lines_per_query.unwrap_or(1.0);
        assert!((1.0..100.0).contains(&lines), "{engine}: {lines}");
    }
    records
}

#[test]
fn every_engine_is_right_for_names_of_every_size() {
    for key_bytes in [6, 8, 16, 20, 32, 45] {
        for keys in [Keys::Random, Keys::Lfsr] {
            let records = measure_all_engines(&Options { key_bytes, ..tiny(keys) });
            assert!(records.iter().all(|record| record.names == 3000 && record.key_bytes == key_bytes as f64));
        }
    }
}

#[test]
fn every_engine_is_right_for_actions_of_many_bits() {
    for action_bits in [1, 5, 8, 16, 32] {
        let options = Options { action_bits, ..tiny(Keys::Random) };
        // Building a filter for each of so many actions takes too long, and wide actions leave no room for a checksum.
        let fits = |engine: &&str| match *engine {
            "buffalo" => action_bits <= 8,
            "checked" => action_bits <= 24,
            _ => true,
        };
        let fit = all_engines().into_iter().filter(fits);
        measure_engines(&options, &fit.collect::<Vec<_>>());
    }
}

#[test]
fn every_engine_is_right_under_every_hash() {
    for hash in ["siphash13", "siphash24", "aes", "crc32c"] {
        let hash = hash.parse().expect("a hash");
        measure_all_engines(&Options { hash, ..tiny(Keys::Random) });
    }
}

#[test]
fn every_engine_is_right_on_lists_and_traces() {
    let data = Path::new(DATA);
    if !data.exists() {
        println!("skipped: {} is not there", data.display());
        return;
    }
    let list = Some(data.join("oui.txt.xz"));
    let trace = Some(data.join("trace_cache2k_web12.xz"));
    let records = measure_all_engines(&Options { list, trace, ..tiny(Keys::Macs) });
    assert!(records.iter().all(|record| record.key_bytes == 6.0));
    let mut files = tempfile::NamedTempFile::new().expect("a temporary folder");
    (0..2000).for_each(|i| writeln!(files, "usr/share/{}/{i}", "x".repeat(i % 90)).expect("room for a small file"));
    let records = measure_all_engines(&Options { list: Some(files.path().to_owned()), ..tiny(Keys::Files) });
    assert!(records.iter().all(|record| record.names == 2000));
}

#[test]
fn a_reader_beside_a_writer_is_right() {
    if core_affinity::get_core_ids().is_none_or(|cores| cores.len() < 2) {
        println!("skipped: this machine has one core");
        return;
    }
    let mut options =
        Options { updating: Updating { updates: true, batch: 16, ..Updating::default() }, ..tiny(Keys::Random) };
    options.measuring.seconds = 0.1;
    for engine in engine::all().filter(|engine| matches!(engine.make, Make::Halves { .. })) {
        let records = measure_engines(&options, &[engine.name]);
        let record = &records[0];
        let rates = [record.adds_per_s, record.alters_per_s, record.deletes_per_s];
        let beside = [record.updates_per_s, record.queries_per_s_updating, record.queries_per_s_quiet];
        for rate in rates.into_iter().chain(beside) {
            assert!(rate.is_some_and(|rate| rate > 0.0), "{}", record.engine);
        }
        let messages = [record.message_bytes_per_add, record.message_bytes_per_alter];
        let has_messages = ["line", "othello"].contains(&engine.name);
        assert!(
            messages.iter().all(|bytes| bytes.is_some_and(|bytes| bytes > 1.0) == has_messages),
            "{} {messages:?}",
            record.engine
        );
    }
}

#[test]
fn a_second_switch_costs_less_than_the_first_and_is_right() {
    let sharing = share(&Options { names: 100_000, ..tiny(Keys::Random) }).expect("tiny tables fit");
    assert!(sharing.checked >= 100_000 && sharing.wrong == 0);
    assert!(0.0 < sharing.second_s && sharing.second_s < sharing.first_s, "{sharing:?}");
}

#[test]
fn checksums_and_filters_tell_most_unknown_names() {
    let options = Options { names: 200_000, ..tiny(Keys::Random) };
    let answered = ["line", "checked", "filtered", "fingerprints", "digests"]
        .map(|engine| measure_engines(&options, &[engine])[0].unknown_answered);
    // 3125 unknown names are looked up, and 12 of them pass on average.
    assert!(answered[0] > 0.9 && answered[1..].iter().all(|share| *share < 0.02), "{answered:?}");
    assert_eq!(answered[4], 0.0, "digests are exact");
}

#[test]
fn names_come_in_as_was_asked_for() {
    for engine in engine::all() {
        let (changes, construct, bulk) = match engine.make {
            Make::Halves { construct, bulk, .. } => (true, construct.is_some(), bulk.is_some()),
            Make::Baseline(_) => (false, true, false),
            Make::Files(_) => (false, false, true),
        };
        for (load, is_there) in [(Load::Changes, changes), (Load::Construct, construct), (Load::Bulk, bulk)] {
            let options = Options { load, ..tiny(Keys::Random) };
            let record = measure(&options, &[engine.name], Progress::HIDDEN);
            assert_eq!(record.is_ok(), is_there, "{} {load:?}", engine.name);
            if let Ok(records) = record {
                assert_eq!(records[0].load, load);
                assert!(!changes || records[0].adds_per_s.is_some() == (load != Load::Bulk), "{}", engine.name);
            }
        }
    }
}

#[test]
fn packets_wait_longer_where_more_come() {
    let options = tiny(Keys::Random);
    let delays = delays(&options, "othello", &[1e5, 1e12], Progress::HIDDEN).expect("a tiny table fits");
    let [rare, flood] = [0, 1].map(|i: usize| delays[i].value_at_quantile(0.5));
    assert!(0 < rare && rare < flood, "{rare} and {flood} ns");
}

#[test]
fn what_cannot_be_done_is_refused() {
    let refused = |change: fn(&mut Options)| {
        let mut options = tiny(Keys::Random);
        change(&mut options);
        measure(&options, &[&options.engine], Progress::HIDDEN).expect_err("refused").to_string()
    };
    assert!(refused(|o| o.engine = "abacus".to_owned()).contains("no engine 'abacus'"));
    assert!(refused(|o| o.measuring.threads = 10_000).contains("10000 cores"));
    assert!(refused(|o| o.names = 0).contains("one name"));
    assert!(refused(|o| o.keys = Keys::Macs).contains("--list"));
    assert!(refused(|o| o.trace = Some("none.xz".into())).contains("none.xz"));
}

mod command_line {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        options: Options,
    }

    fn parse(words: &str) -> Result<Options, clap::Error> {
        Alone::try_parse_from(std::iter::once("flat").chain(words.split_whitespace())).map(|alone| alone.options)
    }

    #[test]
    fn the_form_of_the_documentation_parses() {
        let options = parse("--engine othello --names 64M --key-bytes 8 --action-bits 8 --threads 1 --burst 32 --json");
        let options = options.expect("the documented form");
        assert_eq!((options.names, options.key_bytes, options.action_bits), (64_000_000, 8, 8));
        let options = parse("--compare othello,line --keys files --list a.xz --hash crc32c --updates");
        assert_eq!(options.expect("a comparison").compare, ["othello", "line"]);
    }

    #[test]
    fn nonsense_is_refused_with_what_would_be_right() {
        for (words, hint) in [
            ("--keys novel", "random"),
            ("--action-bits 33", "1..=32"),
            ("--burst 257", "1 to 256"),
            ("--key-bytes 0", "1 to 1024"),
            ("--hash md5", "siphash13"),
            ("--names many", "64Mi"),
        ] {
            let Err(error) = parse(words) else { panic!("{words} was taken") };
            assert!(error.to_string().contains(hint), "{words}: {error}");
        }
    }
}

/// [Concise §6] Table 1: Othello reads two lines, and others take at least 2.5 times its memory. `line` is not in the
/// paper.
#[test]
fn memory_and_reads_compare_as_in_the_paper() {
    let options = Options { names: 50_000, ..tiny(Keys::Random) };
    let records = measure_engines(&options, &["othello", "line", "cuckoo", "buffalo", "orthogonal"]);
    let counted = |record: &Record| (record.bits_per_name_counted, record.cache_lines_per_query.expect("counted"));
    let [othello, line, others @ ..] = &records.iter().map(counted).collect::<Vec<_>>()[..] else { panic!("five") };
    assert!(othello.0 < 20.0 && othello.1 == 2.0, "{othello:?}");
    assert!(line.0 < 0.65 * othello.0 && line.1 < 1.1, "{line:?}");
    for other in others {
        assert!(other.0 > 2.5 * othello.0 && other.1 > othello.1, "{other:?} bits and lines");
    }
}

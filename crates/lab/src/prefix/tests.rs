//! Tiny runs of every engine on every workload: the lab must measure, and all answers must be right.

use std::io::Write as _;
use std::path::Path;

use super::options::Load;
use super::*;
use crate::machine::PageSize;
use crate::options::{Measuring, Updating};
use crate::workload::{Kind, Scheme, text};

/// Folder with lists and traces: beside a checkout, not in it.
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");

fn tiny(workload: Kind) -> Options {
    Options {
        rules: 2000,
        workload,
        draws: 4000,
        measuring: Measuring { seconds: 0.01, repetitions: 3, ..Default::default() },
        ..Options::default()
    }
}

/// All engines for rules of any kind.
fn all_engines() -> Vec<&'static str> {
    engines_of_all_rules().map(|engine| engine.name).collect()
}

/// Measures all engines. Fails on wrong answers.
fn measure_all_engines(options: &Options, choices: &[NameChoice]) -> Vec<Record> {
    let records = measure_all(options, &all_engines(), choices, Progress::HIDDEN).expect("tiny tables fit");
    assert_eq!(records.len(), choices.len() * all_engines().len());
    for record in &records {
        let engine = &record.engine;
        assert!(record.lookups_per_s > 0.0 && record.lookups_per_s.is_finite(), "{engine}");
        assert!(record.lookups_per_s_min <= record.lookups_per_s && record.lookups_per_s <= record.lookups_per_s_max);
        assert!((record.ns_per_lookup * record.lookups_per_s - 1e9).abs() < 1e3, "{engine}");
        assert!(record.hash_ns_per_lookup > 0.0 && record.p99_ns_per_burst > 0, "{engine}");
        assert!(record.bytes_per_rule_counted > 0.0, "{engine}");
        assert!(record.bytes_per_rule <= record.bytes_per_rule_both, "{engine}");
        assert!(record.checked > 1000 && record.wrong == 0, "{engine}");
        assert!(record.machine_lines_per_s > 0.0 && record.machine_bytes > 0, "{engine}");
        assert_eq!(record.of_limit.is_some(), record.cache_lines_per_lookup.is_some(), "{engine}");
        let lines = record.cache_lines_per_lookup.unwrap_or(1.0);
        assert!((0.0..200.0).contains(&lines), "{engine}: {lines}");
    }
    records
}

#[test]
fn every_engine_is_right_on_every_made_up_workload() {
    let choices =
        [NameChoice::Hit, NameChoice::Miss, NameChoice::Mixed(0.5), NameChoice::Zipf(1.0), NameChoice::Garbage(4)];
    for workload in [Kind::WorstCase, Kind::Random, Kind::Nested, Kind::Adversarial] {
        let records = measure_all_engines(&tiny(workload), &choices);
        assert!(records.iter().all(|record| record.rules == 2000 && record.components == 7));
    }
}

#[test]
fn content_hashes_are_found_in_a_flat_table_and_in_the_others() {
    let options = tiny(Kind::Objects);
    measure_all_engines(&options, &[NameChoice::Hit, NameChoice::Miss, NameChoice::Zipf(1.0)]);
    // Of unknown names, one in 16 passes as known.
    let records = measure_all(&options, &["flat"], &[NameChoice::Hit], Progress::HIDDEN).expect("they fit");
    assert!(records[0].checked > 1000 && records[0].wrong == 0);
}

#[test]
fn every_engine_is_right_on_lists_and_traces() {
    let data = Path::new(DATA);
    if !data.exists() {
        println!("skipped: {} is not there", data.display());
        return;
    }
    let choices = [NameChoice::Hit, NameChoice::Miss, NameChoice::Trace(data.join("trace_cache2k_web12.xz"))];
    let urls = excerpt(&data.join("urls_ukgov.txt.xz"));
    for scheme in [Scheme::Tld, Scheme::Site, Scheme::Host] {
        let options = Options { suffix: 3, ..tiny(Kind::Urls { file: urls.path().to_owned(), scheme }) };
        measure_all_engines(&options, &choices);
    }
    let paths = excerpt(&data.join("paths_debian.txt.xz"));
    measure_all_engines(&tiny(Kind::So { file: paths.path().to_owned() }), &choices);
}

/// A few thousand lines of a list: unpacking and sorting the whole list takes seconds.
fn excerpt(list: &Path) -> tempfile::NamedTempFile {
    let bytes = text::read(list).expect("a list that is there");
    let mut file = tempfile::NamedTempFile::new().expect("a temporary folder");
    for line in text::lines(&bytes).step_by(97) {
        writeln!(file, "{line}").expect("room for a small file");
    }
    file
}

#[test]
fn a_reader_beside_a_writer_is_right() {
    if core_affinity::get_core_ids().is_none_or(|cores| cores.len() < 2) {
        println!("skipped: this machine has one core");
        return;
    }
    for workload in [Kind::WorstCase, Kind::Nested] {
        let mut options =
            Options { updating: Updating { updates: true, batch: 16, ..Updating::default() }, ..tiny(workload) };
        options.measuring.seconds = 0.1;
        for record in measure_all_engines(&options, &[NameChoice::Hit]) {
            for rate in [record.updates_per_s, record.lookups_per_s_updating, record.lookups_per_s_quiet] {
                assert!(rate.is_some_and(|rate| rate > 0.0), "{}", record.engine);
            }
        }
    }
}

#[test]
fn a_writer_keeps_to_its_rate() {
    let pace = Some(2000);
    let mut options =
        Options { updating: Updating { updates_per_s: pace, batch: 8, updates: false }, ..tiny(Kind::WorstCase) };
    options.measuring.seconds = 0.6;
    if core_affinity::get_core_ids().is_some_and(|cores| cores.len() >= 2) {
        let record = measure(&options, Progress::HIDDEN).expect("tiny tables fit");
        // The writer waits after each batch, so it is never too fast. It may be slower on a busy machine.
        assert!(record.updates_per_s.is_some_and(|rate| rate > 0.0 && rate <= 2200.0), "{record:?}");
    }
}

#[test]
fn what_comes_in_bulk_answers_like_what_comes_in_changes() {
    for load in [Load::Bulk, Load::Changes] {
        let options = Options { engine: "compact".to_owned(), load, ..tiny(Kind::Nested) };
        let record = measure(&options, Progress::HIDDEN).expect("tiny tables fit");
        assert_eq!((record.load, record.updates_per_s.is_some()), (load, load == Load::Changes));
    }
}

#[test]
fn what_cannot_be_done_is_refused() {
    let refused = |change: fn(&mut Options)| {
        let mut options = tiny(Kind::WorstCase);
        change(&mut options);
        format!("{:#}", measure(&options, Progress::HIDDEN).expect_err("refused"))
    };
    assert!(refused(|o| o.engine = "abacus".to_owned()).contains("no engine 'abacus'"));
    assert!(refused(|o| o.measuring.threads = 10_000).contains("10000 cores"));
    assert!(refused(|o| o.tuning.threshold = Some(3)).contains("--threshold"));
    assert!(refused(|o| o.rules = 0).contains("one rule"));
    assert!(refused(|o| o.engine = "flat".to_owned()).contains("--workload objects"));
    assert!(refused(|o| o.workload = Kind::So { file: "none.xz".into() }).contains("none.xz"));
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
        Alone::try_parse_from(std::iter::once("prefix").chain(words.split_whitespace())).map(|alone| alone.options)
    }

    #[test]
    fn the_form_of_the_documentation_parses() {
        let options = parse(
            "--engine compact --rules 64M --components 7 --workload worst-case --names hit --threads 1 --pages 1g \
             --burst 32 --seconds 5 --json",
        )
        .expect("the documented form");
        assert_eq!((options.rules, options.pages, options.burst), (64_000_000, PageSize::Reserved1G, 32));
        assert_eq!((options.workload, options.names), (Kind::WorstCase, NameChoice::Hit));
    }

    #[test]
    fn files_follow_their_kinds() {
        let options = parse("--workload urls list.xz --scheme site --names trace ids.xz --compare compact,hashmap");
        let options = options.expect("two files");
        assert_eq!(options.workload, Kind::Urls { file: "list.xz".into(), scheme: Scheme::Site });
        assert_eq!(options.names, NameChoice::Trace("ids.xz".into()));
        assert_eq!(options.compare, ["compact", "hashmap"]);
        assert_eq!(parse("--names zipf:0.9").expect("an exponent").names, NameChoice::Zipf(0.9));
    }

    #[test]
    fn nonsense_is_refused_with_what_would_be_right() {
        for (words, hint) in [
            ("--workload urls", "needs a file"),
            ("--workload nested list.xz", "takes no file"),
            ("--workload best-case", "worst-case"),
            ("--names mixed:2", "0 to 1"),
            ("--names garbage:40", "below 32"),
            ("--burst 65", "1 to 64"),
            ("--rules many", "64Mi"),
            ("--components 0", "1 to 32"),
        ] {
            let Err(error) = parse(words) else { panic!("{words} was taken") };
            assert!(error.to_string().contains(hint), "{words}: {error}");
        }
    }
}

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Alone {
    #[command(flatten)]
    options: Options,
}

fn parse(words: &str) -> Result<Options, clap::Error> {
    Alone::try_parse_from(std::iter::once("switch").chain(words.split_whitespace())).map(|alone| alone.options)
}

fn tiny(words: &str) -> anyhow::Result<Vec<MemoryRecord>> {
    let small = "--names 3000 --draws 5000 --frame-memory 64Ki --seconds 0.02 --repetitions 2";
    in_memory(&parse(&format!("{small} {words}"))?, Progress::HIDDEN)
}

#[test]
fn every_table_leads_every_frame_to_its_port() {
    for from in ["hosts", "switch"] {
        let all = "line,othello,cuckoo,binary_search";
        let records = tiny(&format!("--from {from} --compare {all} --bytes 64,1500")).expect("tiny tables fit");
        assert_eq!(records.len(), 10, "five tables, two sizes");
        for record in &records {
            assert!(record.passage.frames_per_s > 0.0 && record.passage.frames_per_s.is_finite(), "{record:?}");
            assert!(record.passage.frames_per_s_min <= record.passage.frames_per_s, "{record:?}");
            assert!(
                record.passage.checked > 10_000 && record.passage.wrong == 0 && record.passage.lost == 0,
                "{record:?}"
            );
            assert_eq!(record.passage.engine == "foretold", record.passage.table_bytes == 0, "{record:?}");
        }
        assert_eq!((records[0].passage.engine.as_str(), records[0].passage.of_limit), ("foretold", 1.0));
    }
}

/// Bloom filters may give wrong answers. Most frames arrive nevertheless.
#[test]
fn a_table_that_errs_says_how_often() {
    let record = &tiny("--compare orthogonal --bytes 64").expect("a tiny table")[1];
    assert!(record.wrong_rate > 0.0 && record.passage.lost < record.passage.checked / 100, "{record:?}");
}

#[test]
fn frames_come_in_the_order_of_a_trace() {
    let file = tempfile::NamedTempFile::new().expect("a temporary folder");
    let requests: String = (0..640).map(|i| format!("time\tname{}\n", i % 10)).collect();
    std::fs::write(file.path(), requests).expect("written");
    let records = tiny(&format!("--compare line --bytes 64 --trace {}", file.path().display())).expect("a trace");
    assert!(
        records[1].passage.trace && records[1].passage.frames_prepared == 640 && records[1].passage.lost == 0,
        "{records:?}"
    );
}

#[test]
fn what_cannot_be_done_is_refused() {
    for (words, hint) in [
        ("--compare abacus", "no table 'abacus'"),
        ("--bytes 60", "60"),
        ("--bytes 1600", "1600"),
        ("--names 200", "more stations"),
        ("--draws 10", "--draws"),
        ("--threads 10000", "10000 cores"),
    ] {
        let Err(error) = tiny(words) else { panic!("{words} was taken") };
        assert!(format!("{error:#}").contains(hint), "{words}: {error:#}");
    }
}

#[test]
fn frames_on_the_wire_arrive_as_they_left() {
    if let Err(error) = wire_allowed() {
        eprintln!("skipped: {error:#}");
        return;
    }
    for from in ["hosts", "switch"] {
        let small = "--on wire --names 100,2000 --draws 5000 --seconds 0.2 --repetitions 1 --rate 20k --threads 2";
        let options = parse(&format!("{small} --compare line,cuckoo --from {from}")).expect("such options");
        let records = on_wire(&options, Progress::HIDDEN).expect("cables can be laid");
        assert_eq!(records.len(), 18, "a reflector, two tables of two sizes for 1 and 2 threads; frames of two sizes");
        assert_eq!(records.iter().filter(|record| record.threads == 2).count(), 8);
        for record in &records {
            // Rings overflow when other tests use the cores, so lost frames are not checked.
            assert!(
                record.passage.frames_per_s > 0.0 && record.passage.checked > 100 && record.passage.wrong == 0,
                "{record:?}"
            );
            assert!(record.p50_us > 0.0 && record.p50_us <= record.p99_us, "{record:?}");
            assert_eq!(record.passage.engine == "reflector", record.passage.table_bytes == 0, "{record:?}");
        }
    }
}

use clap::Parser;

use super::options::Mix;
use super::variant::{Schedule, Variant};
use super::*;
use crate::progress::Progress;

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
        let all = "compact/all/64,compact/cascade/7,two_stage/none/32,longest_first/naive";
        let records = tiny(&format!("--mix {mix} --compare {all}")).expect("tiny tables fit");
        assert_eq!(records.len(), 4);
        for record in &records {
            assert!(record.packets_per_s > 0.0 && record.packets_per_s.is_finite(), "{record:?}");
            assert!(record.packets_per_s_min <= record.packets_per_s, "{record:?}");
            assert!(record.checked > 3000 && record.wrong == 0 && record.drops == 0, "{record:?}");
            assert!(record.forward_ns_per_packet > 0.0 && record.receive_ns_per_packet > 0.0, "{record:?}");
            assert!(record.parse_ns_per_packet > 0.0 && record.pit_cs_ns_per_packet > 0.0, "{record:?}");
            let by_stage = record.timers_ns_per_packet + record.parse_ns_per_packet + record.pit_cs_ns_per_packet;
            let by_stage = by_stage + record.fib_ns_per_packet + record.strategy_ns_per_packet;
            assert!((record.forward_ns_per_packet - by_stage).abs() < 1e-6, "{record:?}");
            assert_eq!(record.of_limit.is_some(), record.fib_lines_per_interest.is_some());
        }
        assert_eq!(records.iter().map(|r| r.burst).collect::<Vec<_>>(), [64, 7, 32, 1]);
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
    let naive = Variant { engine: "longest_first".to_owned(), prefetch: Schedule::Naive, burst: 1 };
    assert_eq!(options.compare[1], naive);
    assert_eq!(options.compare[1].to_string(), "longest_first/naive/1");
}

#[test]
fn what_cannot_be_done_is_refused() {
    for (words, hint) in [
        ("--compare compact/all/65", "1 to 64"),
        ("--compare compact/sometimes", "sometimes"),
        ("--compare compact/all/64/1", "compact/all/64"),
        ("--compare abacus", "no engine 'abacus'"),
        ("--content 8720", "8,800"),
        ("--content 9000", "too large"),
        ("--threads 10000", "10000 cores"),
    ] {
        let Err(error) = tiny(words) else { panic!("{words} was taken") };
        assert!(format!("{error:#}").contains(hint), "{words}: {error:#}");
    }
    let none_pending = parse("--fib 2000 --pit 0").expect("a number");
    assert!(measure::measure(&none_pending, Progress::HIDDEN).is_err());
}

use clap::Parser;

use super::*;

#[derive(Parser)]
#[command(args_override_self = true)]
struct Alone {
    #[command(flatten)]
    options: Options,
}

fn options(words: &str) -> Options {
    let small = "balance --names 20000 --cs 2000 --interests 20000 --window 8192 --rtt-us 10";
    Alone::parse_from(small.split_whitespace().chain(words.split_whitespace())).options
}

fn of(words: &str, exponent: f64, heavy_hitters: bool) -> Record {
    let mut records = measure(&options(words), exponent, heavy_hitters, Progress::HIDDEN).expect("possible");
    assert_eq!(records.len(), 1);
    records.remove(0)
}

#[test]
fn heavy_hitters_are_what_loads_one_core_more() {
    for (exponent, without) in [(0.8, 1.3), (1.0, 2.0), (1.4, 5.0)] {
        // The load is low so that few packets wait: waiting would change what content stores answer. Each core counts
        // only the Interests that come to it, so there must be many.
        let words = "--cores 22 --threads 0 --load 0.1 --interests 150000 --window 4096";
        let [home, spread] = [false, true].map(|heavy_hitters| of(words, exponent, heavy_hitters));
        assert!(home.busiest_to_mean > without, "{home:?}");
        assert!(spread.busiest_to_mean < 1.15, "{spread:?}");
        assert_eq!((home.spread, home.strays, home.hot_names), (0.0, 0, 0));
        assert!(spread.spread > 0.1 && spread.hot_names > 3, "{spread:?}");
        // Spreading must not change how many Interests are answered from content stores.
        assert!((home.cs_hits - spread.cs_hits).abs() < 0.03, "{home:?} {spread:?}");
    }
}

#[test]
fn a_run_with_the_same_seed_is_the_same() {
    let run = || of("--cores 4 --threads 0 --seed 7", 1.0, true);
    let (a, b) = (run(), run());
    assert_eq!((&a.packets, a.wait_ns_mean, a.strays), (&b.packets, b.wait_ns_mean, b.strays));
}

#[test]
fn cores_that_have_too_much_to_do_lose_what_is_too_much() {
    let little = of("--cores 4 --threads 0 --load 0.5", 0.0, false);
    assert_eq!((little.lost, little.lost_of_worst), (0.0, 0.0));
    assert!(little.wait_ns_mean.is_some_and(|wait| wait < 500.0), "{little:?}");
    let much = of("--cores 4 --threads 0 --load 1.2 --ring 64", 0.0, false);
    assert!((0.05..0.25).contains(&much.lost), "{much:?}");
    assert!(much.wait_ns_mean > little.wait_ns_mean);
}

#[test]
fn threads_answer_every_interest_once() {
    for heavy_hitters in [false, true] {
        let record = of("--cores 0 --threads 2 --interests 300000", 1.2, heavy_hitters);
        assert!(record.interests >= 300_000 && record.interests_per_s.is_some_and(|rate| rate > 0.0));
        // At least one round of some thousands is timed. The bursts of a worker may all be untimed.
        assert!(record.dispatch_ns.is_some_and(|ns| ns > 0.0), "{record:?}");
        assert_eq!(record.packets.len(), 2);
        assert_eq!(record.spread > 0.0, heavy_hitters);
        assert!(!heavy_hitters || record.busiest_to_mean < 1.15, "{record:?}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (words, hint) in [
        ("--cores 65", "64"),
        ("--names 0", "--names"),
        ("--load 0", "--load"),
        ("--exponents 5", "exponents"),
        ("--ring 0", "--ring"),
    ] {
        let error = measure(&options(words), 1.0, true, Progress::HIDDEN).expect_err(words);
        assert!(error.to_string().contains(hint), "{words}: {error}");
    }
}

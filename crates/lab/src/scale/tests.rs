use clap::Parser;

use super::*;
use crate::balance::simulated::Forwarding;

#[derive(Parser)]
#[command(args_override_self = true)]
struct Alone {
    #[command(flatten)]
    options: Options,
}

fn options(words: &str) -> Options {
    let small = "scale --threads 2 --exponents 0 --names 5000 --cs 256 --interests 5000 --hot-window 4096 --bursts 40";
    Alone::parse_from(small.split_whitespace().chain(words.split_whitespace())).options
}

#[test]
fn costs_are_measured_and_named_in_each_record() {
    let records = measure(&options("--receive-ns 500"), Progress::HIDDEN).expect("two cores");
    let [Record::Measured(measured), Record::Simulated(one), more @ ..] = &records[..] else { panic!("{records:?}") };
    let costs = measured.costs;
    let steps = [costs.round_ns, costs.interest.give_ns, costs.data.give_ns, costs.interest.push_output_ns];
    assert!(steps.iter().all(|ns| *ns > 0.0), "{costs:?}");
    for Forwarding { new_ns, pending_ns, hit_ns, hot_hit_ns, data_ns } in [costs.alone, costs.joined] {
        assert!([new_ns, pending_ns, hit_ns, hot_hit_ns, data_ns].iter().all(|ns| *ns > 0.0), "{costs:?}");
    }
    assert_eq!((one.threads, one.ratio_to_one, one.share_of_linear), (1, 1.0, 1.0));
    assert_eq!(more.len(), 2, "with and without heavy hitters");
    for simulated in records.iter().filter_map(simulated_of) {
        assert!(simulated.costs_measured_now && simulated.costs.interest.receive_ns == 500.0);
        assert_eq!(simulated.costs.joined, costs.joined);
        assert_eq!(simulated.sent_in_all, simulated.answered_in_all + simulated.lost_in_all);
        let line = serde_json::to_value(Record::Simulated(Box::new(simulated.clone()))).expect("fields");
        assert_eq!(line["on"], "simulated");
    }
}

#[test]
fn costs_of_a_record_are_used_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("costs.json");
    let costs = Costs { round_ns: 50.0, ..Costs::flat(100.0) };
    let line = serde_json::to_string(&Record::Measured(Box::new(Measured { costs }))).expect("fields");
    fs::write(&file, line).expect("a file");
    let words = format!("--costs {}", file.display());
    let records = measure(&options(&words), Progress::HIDDEN).expect("possible");
    let simulated: Vec<_> = records.iter().filter_map(simulated_of).collect();
    assert_eq!(simulated.len(), records.len());
    assert!(simulated.iter().all(|r| !r.costs_measured_now && r.costs == costs));
    fs::write(&file, r#"{"costs":{"round_ns":1}}"#).expect("a file");
    assert!(measure(&options(&words), Progress::HIDDEN).is_err());
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (words, hint) in [
        ("--threads 0", "--threads"),
        ("--names 0", "--names"),
        ("--load 0", "--load"),
        ("--exponents 5", "exponents"),
        ("--ring 1", "--ring"),
        ("--bursts 1", "--bursts"),
        ("--send-ns=-1", "negative"),
    ] {
        let error = measure(&options(words), Progress::HIDDEN).expect_err(words);
        assert!(error.to_string().contains(hint), "{words}: {error}");
    }
}

#[test]
fn real_threads_are_compared_with_as_many_simulated_ones() {
    let records =
        measure(&options("--real --real-seconds 0.05 --threads 64 --window 16"), Progress::HIDDEN).expect("two cores");
    let real: Vec<_> = records.iter().filter_map(real_of).collect();
    assert_eq!(real.iter().map(|real| real.threads).collect::<Vec<_>>(), [1, 2, 2], "there are not 64 cores");
    assert!((real[0].ratio_to_one, real[0].simulated_ratio_to_one) == (1.0, 1.0) && real[0].simulated_to_real == 1.0);
    for (real, simulated) in real.iter().zip(records.iter().filter_map(simulated_of)) {
        assert!(real.exchanges_per_s > 0.0, "{real:?}");
        assert_eq!((real.threads, real.heavy_hitters), (simulated.threads, simulated.heavy_hitters));
        assert_eq!(real.simulated_to_real, simulated.ratio_to_one / real.ratio_to_one);
    }
}

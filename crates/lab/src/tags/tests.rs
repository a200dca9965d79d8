//! Tiny runs of every engine on every workload: the lab must measure, and all answers must be right.

use std::path::Path;

use byname_lookup::EntryId;

use super::asking::{Asking, Carried, Traffic};
use super::updates::Answer;
use super::*;
use crate::options::{Measuring, Updating};
use crate::workload::TagKind;

/// Folder with lists: beside a checkout, not in it.
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");

fn tiny(workload: TagKind) -> Options {
    let measuring = Measuring { seconds: 0.02, repetitions: 2, ..Default::default() };
    Options { descriptors: 3000, draws: 500, workload, data: DATA.into(), measuring, ..Options::default() }
}

fn asking(algorithm: Algorithm) -> Asking {
    Asking { algorithm, ..Options::default().asking }
}

/// Measures all engines. Fails on wrong answers.
fn measure_every(options: &Options) -> Vec<Record> {
    let engines: Vec<_> = engine::ALL.iter().map(|engine| engine.name).collect();
    let records = measure(options, &engines, Progress::HIDDEN).expect("tiny tables fit");
    assert_eq!(records.len(), engines.len());
    for record in &records {
        let engine = &record.engine;
        assert!(record.packets_per_s > 0.0 && record.packets_per_s.is_finite(), "{engine}");
        assert!(record.packets_per_s_min <= record.packets_per_s && record.packets_per_s <= record.packets_per_s_max);
        assert!(record.steps_per_packet >= 1.0 && record.bytes_per_descriptor_counted > 4.0, "{engine}");
        assert!(record.updates_per_s > 0.0 && record.build_s > 0.0, "{engine}");
        assert!(record.checked > 50 && record.wrong == 0, "{engine}");
        assert!(record.machine_lines_per_s > 0.0 && record.of_limit > 0.0, "{engine}");
    }
    records
}

#[test]
fn every_engine_is_right_on_every_workload() {
    for workload in [TagKind::Zipf, TagKind::Tagnet, TagKind::Ccn, TagKind::Cldr] {
        if matches!(workload, TagKind::Ccn | TagKind::Cldr) && !Path::new(DATA).exists() {
            println!("{workload:?} is left out: {DATA} is not there");
            continue;
        }
        for algorithm in [Algorithm::All, Algorithm::Largest] {
            for packets in [Carried::Tags, Carried::Filter] {
                let asking = Asking { packets, ..asking(algorithm) };
                let records = measure_every(&Options { asking, ..tiny(workload) });
                assert!(records.iter().all(|record| record.matches_per_packet >= 1.0), "{workload:?}");
            }
        }
    }
}

#[test]
fn packets_of_unknown_tags_match_nothing() {
    let asking = Asking { match_rate: 0.0, ..asking(Algorithm::All) };
    let records = measure_every(&Options { asking, ..tiny(TagKind::Zipf) });
    assert!(records.iter().all(|record| record.matches_per_packet < 0.1));
}

#[test]
fn the_fan_out_ends_a_search() {
    let asking = Asking { fanout: Some(1), ..asking(Algorithm::All) };
    let records = measure_every(&Options { asking, ..tiny(TagKind::Tagnet) });
    assert!(records.iter().all(|record| record.matches_per_packet == 1.0));
}

#[test]
fn the_paper_s_choices_are_right_too() {
    for (chains, layout) in [(ChainChoice::Kept, LayoutChoice::Sibling), (ChainChoice::Removed, LayoutChoice::Reverse)]
    {
        let tuning = Tuning {
            no_permutation: chains == ChainChoice::Kept,
            chains,
            layout,
            papers_search: true,
            steps_max: None,
        };
        measure_every(&Options { tuning, asking: asking(Algorithm::Largest), ..tiny(TagKind::Tagnet) });
    }
}

#[test]
fn a_reader_beside_a_writer_finds_what_stays() {
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        println!("a reader beside a writer needs two cores");
        return;
    }
    for algorithm in [Algorithm::All, Algorithm::Largest] {
        let options = Options {
            asking: asking(algorithm),
            updating: Updating { updates: true, ..Updating::default() },
            ..tiny(TagKind::Tagnet)
        };
        let quiet = Options { updating: Updating::default(), ..options.clone() };
        for (record, quiet) in measure_every(&options).iter().zip(measure_every(&quiet)) {
            assert!(record.packets_per_s_updating > Some(0.0) && record.packets_per_s_quiet > Some(0.0));
            assert!(record.checked > quiet.checked && quiet.packets_per_s_updating.is_none());
        }
    }
}

#[test]
fn an_entry_that_changes_may_be_either_of_two_and_one_that_goes_may_be_missing() {
    let answer = |entries: &[u32]| {
        let mut answer = Answer::default();
        entries.iter().for_each(|entry| answer.add(EntryId(*entry)));
        answer
    };
    let fresh = 1 << 15;
    assert_eq!(answer(&[4, 6]), answer(&[fresh + 3, 7, 5, fresh]));
    assert_ne!(answer(&[4, 6]), answer(&[4]));
    assert_ne!(answer(&[4, 6]), answer(&[4, 8]));
    assert_ne!(Answer::of_largest(Some(EntryId(fresh))), Answer::of_largest(None));
}

#[test]
fn what_is_cut_off_is_said() {
    let mut options = tiny(TagKind::Tagnet);
    options.tuning.steps_max = Some(10);
    let records = measure(&options, &["trie", "rare-tag"], Progress::HIDDEN).expect("tiny tables fit");
    assert!(records.iter().all(|record| record.cut_off > 0.1 && record.steps_per_packet <= 10.0));
}

#[test]
fn hostile_packets_are_right_and_dearer() {
    let mut options = Options { draws: 100, ..tiny(TagKind::Tagnet) };
    // Above the default, because answers of searches that were cut off are not checked.
    options.tuning.steps_max = Some(1 << 24);
    let traffics = [Traffic::Drawn, Traffic::Dense, Traffic::Popular, Traffic::Full];
    for algorithm in [Algorithm::All, Algorithm::Largest] {
        let askings = traffics.map(|traffic| Asking { traffic, ..asking(algorithm) });
        for engine in ["trie", "rare-tag"] {
            let records = super::measure_all(&options, &[engine], &askings, Progress::HIDDEN);
            let records = records.expect("all answers are right");
            let (drawn, hostile) = records.split_first().expect("a record of each");
            assert_eq!(hostile.len(), 3);
            assert!(hostile.iter().all(|record| record.steps_per_packet > 2.0 * drawn.steps_per_packet));
            assert!(records.iter().all(|record| record.cut_off == 0.0 && record.checked > 0));
        }
    }
}

/// [TagNet §4.2]: the permutation and the removal of chains make the trie smaller. Packets have popular bits, too, so
/// they visit more nodes with the permutation, against the paper.
#[test]
fn the_permutation_saves_memory_and_costs_steps() {
    let trie = |no_permutation, chains| {
        let tuning =
            Tuning { no_permutation, chains, layout: LayoutChoice::Sibling, papers_search: true, steps_max: None };
        let options = Options { descriptors: 20_000, tuning, ..tiny(TagKind::Tagnet) };
        let record = measure(&options, &["trie"], Progress::HIDDEN).expect("a tiny trie").remove(0);
        (record.bytes_per_descriptor_counted, record.steps_per_packet)
    };
    for (chains, share_max) in [(ChainChoice::Kept, 0.9), (ChainChoice::Removed, 0.97)] {
        let (plain, permuted) = (trie(true, chains), trie(false, chains));
        assert!(permuted.0 < share_max * plain.0, "{chains:?}: {permuted:?} and {plain:?} bytes and steps");
        assert!(permuted.1 > 2.0 * plain.1, "{chains:?}: {permuted:?} and {plain:?} bytes and steps");
    }
    let (kept, removed) = (trie(false, ChainChoice::Kept), trie(false, ChainChoice::Removed));
    assert!(removed.0 < kept.0 / 2.0 && removed.1 < kept.1, "{removed:?} and {kept:?} bytes and steps");
}

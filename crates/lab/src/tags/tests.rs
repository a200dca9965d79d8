//! Every engine on every workload, tiny: that the lab measures, and that all answers are right.

use std::path::Path;

use super::options::Carried;
use super::*;
use crate::options::Measuring;
use crate::workload::TagKind;

/// Lists that lie beside a checkout, not in it.
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");

fn tiny(workload: TagKind) -> Options {
    let measuring = Measuring { seconds: 0.02, repetitions: 2, ..Default::default() };
    Options { descriptors: 3000, draws: 500, workload, data: DATA.into(), measuring, ..Options::default() }
}

/// Measures all engines; errors on wrong answers.
fn measure_all(options: &Options) -> Vec<Record> {
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
                let records = measure_all(&Options { algorithm, packets, ..tiny(workload) });
                assert!(records.iter().all(|record| record.matches_per_packet >= 1.0), "{workload:?}");
            }
        }
    }
}

#[test]
fn packets_of_unknown_tags_match_nothing() {
    let records = measure_all(&Options { match_rate: 0.0, ..tiny(TagKind::Zipf) });
    assert!(records.iter().all(|record| record.matches_per_packet < 0.1));
}

#[test]
fn the_fan_out_ends_a_search() {
    let records = measure_all(&Options { fanout: Some(1), ..tiny(TagKind::Tagnet) });
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
        measure_all(&Options { tuning, algorithm: Algorithm::Largest, ..tiny(TagKind::Tagnet) });
    }
}

#[test]
fn what_is_cut_off_is_said() {
    let mut options = tiny(TagKind::Tagnet);
    options.tuning.steps_max = Some(10);
    let records = measure(&options, &["trie"], Progress::HIDDEN).expect("a tiny table fits");
    assert!(records[0].cut_off > 0.1 && records[0].steps_per_packet <= 10.0);
}

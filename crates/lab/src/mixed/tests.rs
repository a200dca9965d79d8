use super::*;
use crate::options::Measuring;
use crate::workload::TagKind;

fn small() -> Options {
    Options {
        engine: "trie".to_owned(),
        descriptors: 2_000,
        workload: TagKind::Zipf,
        nodes: 300,
        edges: 700,
        draws: 3_000,
        measuring: Measuring { seconds: 0.05, ..Default::default() },
        ..Default::default()
    }
}

#[test]
fn flows_have_the_papers_packets_and_sizes() {
    let mix = |pull| Mix { pull, follow_ups: 15 };
    let records = measure(&small(), &[mix(0.0), mix(0.2), mix(1.0)], Progress::HIDDEN).unwrap();
    // [TagNet §4.5] Table 1.
    for (record, (bytes, by_locator)) in records.iter().zip([(1280.0, 0.0), (835.0, 0.77), (731.0, 0.94)]) {
        assert!((record.bytes_per_packet / bytes - 1.0).abs() < 0.05, "{record:?}");
        assert!((record.by_locator - by_locator).abs() < 0.05, "{record:?}");
        assert_eq!((record.wrong, record.checked), (0, record.packets_prepared as u64));
    }
    assert!(records[0].matches_per_push >= 1.0 && records[2].matches_per_push == 0.0);
}

#[test]
fn a_flow_may_end_with_its_first_answer() {
    let record = &measure(&small(), &[Mix { pull: 1.0, follow_ups: 0 }], Progress::HIDDEN).unwrap()[0];
    assert_eq!(record.by_locator, 0.5);
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |options: Options, pull| measure(&options, &[Mix { pull, follow_ups: 1 }], Progress::HIDDEN).is_err();
    assert!(refused(small(), 1.5));
    assert!(refused(Options { draws: 0, ..small() }, 0.5));
    assert!(refused(Options { engine: "none".to_owned(), ..small() }, 0.5));
}

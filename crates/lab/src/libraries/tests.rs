//! Tiny runs: all libraries must give the same answers.

use super::*;

fn tiny() -> Options {
    Options { made: true, seconds: 0.01, repetitions: 2, ..Options::default() }
}

#[test]
fn all_libraries_answer_alike() {
    for table in tiny().tables {
        let prepared = Prepared::new(table, "".as_ref(), true, 3000, 1).expect("no file");
        for library in libraries(table) {
            let record = measure::here(&tiny(), table, &prepared, library).expect("a small table");
            assert!(record.wrong == 0 && record.checked > 3000, "{record:?}");
            assert!((500..=3000).contains(&record.keys) && record.lookups_per_s > 0.0, "{record:?}");
            let is_static = ["fst", "sux-vfunc", "poptrie"].contains(library);
            assert_eq!(record.updates_per_s.is_none(), is_static, "{record:?}");
            assert_eq!(record.burst_lookups_per_s.is_some(), library.starts_with("byname"), "{record:?}");
        }
    }
}

#[test]
fn lists_that_are_too_short_are_repeated_with_numbers() {
    let keys = |wanted| keys::domains("".as_ref(), true, wanted, true).expect("no file");
    let (few, many) = (keys(100), keys(5000));
    assert!((90..=100).contains(&few.len()) && many.len() > 4000, "{} and {}", few.len(), many.len());
    assert!(many.iter().any(|key| key.ends_with("/1")) && few.iter().all(|key| !key.ends_with("/1")));
    assert!(few.iter().is_sorted() && few.iter().all(|key| key.starts_with('/')));
}

#[test]
fn unknown_libraries_are_refused_with_the_known_ones() {
    let options = Options { only: vec!["btree".to_owned()], ..tiny() };
    let error = measure::in_processes(&options, Progress::HIDDEN).expect_err("no such library").to_string();
    assert!(error.contains("'btree'") && error.contains("hashbrown"), "{error}");
}

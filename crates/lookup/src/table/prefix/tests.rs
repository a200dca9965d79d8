use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use byname_wire::url::UrlScheme;

use super::*;
use crate::BuildError;
use crate::file::Place;
use crate::table::Url;
use crate::temporary::Temporary;

/// Random keys of few components, so that many are prefixes of others.
fn keys(count: usize, seed: u64) -> impl Iterator<Item = String> {
    let mut state = seed;
    (0..count).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let depth = (state >> 33) % 6;
        (0..depth).map(|i| format!("/{}", (state >> (40 + 3 * i)) & 7)).collect()
    })
}

/// A map of rules, asked for each prefix, longest first.
#[derive(Default, Clone)]
struct Model(BTreeMap<String, String>);

impl Model {
    fn get(&self, key: &str) -> Option<Found<String>> {
        let ends = key.match_indices('/').map(|(at, _)| at).chain([key.len()]);
        let mut prefixes: Vec<_> = ends.map(|end| &key[..end]).collect();
        prefixes.dedup();
        prefixes.into_iter().rev().find_map(|prefix| {
            let value = self.0.get(prefix)?.clone();
            Some(Found { value, depth: prefix.matches('/').count() })
        })
    }
}

fn options(matching: Matching) -> PrefixOptions {
    PrefixOptions { matching, ..PrefixOptions::default() }
}

const ALL: [Matching; 3] = [Matching::Fast, Matching::Exact, Matching::ManyValues];

fn assert_same(table: &mut PrefixTable<String>, model: &Model) {
    assert_eq!(table.len(), model.0.len());
    let asked: Vec<_> = keys(3000, 77).map(|key| format!("{key}/9")).collect();
    let right: Vec<_> = asked.iter().map(|key| model.get(key)).collect();
    let mut reader = table.reader();
    let mut all = Vec::new();
    reader.get_all(&asked, &mut all).expect("short keys");
    assert_eq!(all, right);
    let each: Vec<_> = reader.get_each(asked.iter()).map(|found| found.expect("short keys")).collect();
    assert_eq!(each, right);
    for (key, right) in asked.iter().zip(right) {
        assert_eq!(table.get(key), Ok(right), "{key}");
    }
}

#[test]
fn tables_answer_as_a_map_of_prefixes_under_changes() {
    for matching in ALL {
        let mut table = PrefixTable::with_options(&options(matching)).expect("a little memory");
        let mut model = Model::default();
        for (i, key) in keys(2000, 5).enumerate() {
            if i % 3 == 0 {
                assert_eq!(table.remove(&key).expect("short keys"), model.0.remove(&key));
            } else {
                // Many different values come and go.
                let value = format!("value {}", i % 1500);
                assert_eq!(table.insert(&key, value.clone()).expect("room"), model.0.insert(key.clone(), value));
            }
            assert_eq!(table.rule(&key), Ok(model.0.get(&key).cloned()));
        }
        assert_same(&mut table, &model);
        // The same in one batch, with keys that come twice.
        let changes: Vec<_> = keys(500, 9).map(|key| (key.clone(), (key.len() % 4 != 0).then_some(key))).collect();
        for (key, value) in changes.clone() {
            match value {
                Some(value) => model.0.insert(key, value),
                None => model.0.remove(&key),
            };
        }
        table.apply(changes).expect("room");
        assert_same(&mut table, &model);
    }
}

#[test]
fn shrunk_tables_answer_and_change_as_before() {
    for matching in ALL {
        let mut table = PrefixTable::with_options(&options(matching)).expect("a little memory");
        let mut model = Model::default();
        for (i, key) in keys(2000, 5).enumerate() {
            let value = format!("value {}", i % 150);
            table.insert(&key, value.clone()).expect("room");
            model.0.insert(key, value);
        }
        let mut reader = table.reader();
        let before = (table.memory_bytes(), reader.memory_bytes());
        table.shrink().expect("a little memory");
        assert_same(&mut table, &model);
        let after = (table.memory_bytes(), reader.memory_bytes());
        assert!(if matching == Matching::Fast {
            after.0 * 2 < before.0 && after.1 < before.1
        } else {
            after == before
        });
        // Changes, of which the reader of before knows.
        for (i, key) in keys(1500, 11).enumerate() {
            let value = (i % 3 != 0).then(|| format!("other {i}"));
            table.apply([(&key, value.clone())]).expect("room");
            assert_eq!(reader.get(&key), table.get(&key));
            match value {
                Some(value) => model.0.insert(key, value),
                None => model.0.remove(&key),
            };
        }
        assert_same(&mut table, &model);
        let changed = table.memory_bytes();
        table.shrink().expect("nothing to do");
        assert_eq!(table.memory_bytes(), changed);
    }
}

#[test]
fn values_are_bounded_and_freed_with_their_last_rule() {
    let mut table = PrefixTable::new().expect("a little memory");
    for round in 0..5u64 {
        // Each round has values of its own, and together they are more than there are ids.
        let rules = (0..20_000u64).map(|i| (["x".to_owned(), i.to_string()], round << 32 | i));
        table.extend(rules).expect("room, once the values of earlier rounds are freed");
    }
    assert_eq!(table.get(["x", "19999"]).map(|found| found.map(|found| found.value)), Ok(Some(4 << 32 | 19_999)));
    let more = (0..60_000u64).map(|i| (["y".to_owned(), i.to_string()], i));
    assert!(matches!(table.extend(more), Err(TableError::Values { values_max: 65_535 })));
    let mut table = PrefixTable::with_options(&options(Matching::ManyValues)).expect("a little memory");
    table.extend((0..100_000u64).map(|i| (["y".to_owned(), i.to_string()], i))).expect("room");
    assert_eq!(table.get("/y/99999/z").map(|found| found.map(|found| found.value)), Ok(Some(99_999)));
}

#[test]
fn keys_over_the_limits_are_errors_and_change_nothing() {
    let mut table = PrefixTable::new().expect("a little memory");
    table.insert("/a", 1).expect("room");
    let deep = vec!["x"; 40];
    assert!(matches!(table.insert(&deep, 2), Err(TableError::Build(BuildError::TooDeep { depth: 40 }))));
    assert!(matches!(table.insert("x".repeat(10_000), 2), Err(TableError::Key(KeyError::TooLong { .. }))));
    assert!(matches!(table.apply([("/b", Some(2)), (&*"x/".repeat(200), Some(3))]), Err(TableError::Key(_))));
    assert_eq!((table.len(), table.get("/b/c")), (1, Ok(None)));
    // A key that is too long has its error in its place.
    let keys = ["/a/x".to_owned(), "x".repeat(10_000), "/a".to_owned()];
    let found: Vec<_> = table.reader().get_each(&keys).map(|found| found.map(|found| found.map(|f| f.value))).collect();
    assert_eq!(found, [Ok(Some(1)), Err(KeyError::TooLong { bytes: 10_000 }), Ok(Some(1))]);
    assert!(table.reader().get_all(&keys, &mut Vec::new()).is_err());
    // Lookups may be deeper than rules.
    assert_eq!(table.get("/a".repeat(100)).map(|found| found.map(|found| found.depth)), Ok(Some(1)));
}

#[test]
fn urls_of_one_site_share_a_rule_below_their_scheme() {
    let mut table = PrefixTable::new().expect("a little memory");
    table.insert(Url(UrlScheme::Site, "example.co.uk"), "blocked").expect("room");
    let found = table.get(Url(UrlScheme::Site, "https://ads.example.co.uk/x?y")).expect("a URL");
    assert_eq!(found.map(|found| found.value), Some("blocked"));
    assert_eq!(table.get(Url(UrlScheme::Site, "https://example.org/")), Ok(None));
    assert!(matches!(table.get(Url(UrlScheme::Site, "http://")), Err(KeyError::Url(_))));
}

/// Keys in the order that bulk loads want.
fn sorted(model: &Model) -> Vec<(String, String)> {
    let mut rules: Vec<_> = model.0.clone().into_iter().collect();
    rules.sort_by_key(|(key, _)| name(key).expect("short keys"));
    rules
}

#[test]
fn bulk_loads_and_files_answer_as_the_same_rules_one_by_one() {
    let file = Temporary::new("same");
    let mut model = Model(keys(3000, 3).map(|key| (key.clone(), format!("v{}", key.len()))).collect());
    let rules = sorted(&model);
    let mut reported = Vec::new();
    let loaded =
        PrefixTable::from_sorted(&PrefixOptions::default(), || rules.iter().cloned(), &mut |n| reported.push(n));
    let mut loaded = loaded.expect("sorted, and room");
    assert_eq!(reported.last(), Some(&model.0.len()));
    assert_same(&mut loaded, &model);
    let twice = rules.iter().rev().map(|(key, _)| (key.clone(), "earlier".to_owned())).chain(rules.clone());
    let mut unsorted = PrefixTable::from_rules(&PrefixOptions::default(), twice).expect("room");
    assert_same(&mut unsorted, &model);
    let mut plain = PrefixTable::new().expect("a little memory");
    plain.extend(rules.clone()).expect("room");
    for table in [&mut loaded, &mut plain] {
        table.save(&file.0).expect("a new file");
        for place in [Place::Mapped, Place::Copied(Pages::Small)] {
            let opening = Opening { place, checked: true };
            let mut opened = PrefixTable::open(&file.0, opening, &PrefixOptions::default()).expect("ours");
            assert_same(&mut opened, &model);
        }
    }
    // Changes beside the file, saved over it and opened again.
    let mut opened = PrefixTable::open(&file.0, Opening::default(), &PrefixOptions::default()).expect("ours");
    for (i, key) in keys(1000, 8).enumerate() {
        if i % 2 == 0 {
            assert_eq!(opened.remove(&key).expect("short keys"), model.0.remove(&key));
        } else {
            let value = format!("new {}", i % 7);
            assert_eq!(opened.insert(&key, value.clone()).expect("room"), model.0.insert(key, value));
        }
    }
    assert_same(&mut opened, &model);
    opened.save(&file.0).expect("over the old one");
    let mut again = PrefixTable::open(&file.0, Opening::default(), &PrefixOptions::default()).expect("ours");
    assert_same(&mut again, &model);
    assert_same(&mut opened, &model);
    let other = PrefixTable::<u64>::open(&file.0, Opening::default(), &PrefixOptions::default());
    assert!(matches!(other, Err(TableError::File(FileError::Malformed { .. }))));
}

#[test]
fn values_of_a_file_stay_while_rules_have_them() {
    let file = Temporary::new("values");
    let rules = (0..3000u64).map(|i| (["x".to_owned(), i.to_string()], i % 3));
    let mut table = PrefixTable::from_rules(&PrefixOptions::default(), rules).expect("room");
    table.save(&file.0).expect("a new file");
    let opened = PrefixTable::open(&file.0, Opening::default(), &PrefixOptions::default()).expect("ours");
    for mut table in [table, opened] {
        // All rules with an even number but one go, and so many values come that unused ones are freed.
        table.apply((1..1500u64).map(|i| (["x".to_owned(), (2 * i).to_string()], None))).expect("a little memory");
        for round in 0..3u64 {
            let crowd = (0..2000u64).map(|i| (["y".to_owned(), i.to_string()], 1000 * (round + 1) + i));
            table.extend(crowd).expect("room");
        }
        let found = |table: &mut PrefixTable<u64>, i: u64| table.rule(["x".to_owned(), i.to_string()]).expect("short");
        assert!((0..1500).all(|i| found(&mut table, 2 * i + 1) == Some((2 * i + 1) % 3)));
        assert_eq!((found(&mut table, 0), found(&mut table, 2)), (Some(0), None));
    }
}

#[test]
fn bulk_loads_refuse_what_is_not_sorted() {
    let load = |rules: &[&str]| {
        let rules = || rules.iter().map(|key| (key.to_string(), 1u8));
        PrefixTable::from_sorted(&PrefixOptions::default(), rules, &mut |_| {}).map(|table| table.len())
    };
    assert!(matches!(load(&["/a", "/a/b", "/b"]), Ok(3)));
    assert!(matches!(load(&["/", "/a"]), Ok(2)));
    assert!(matches!(load(&[]), Ok(0)));
    for unsorted in [&["/b", "/a"][..], &["/a", "/a"], &["/a/b", "/a"], &["/", "/"], &["/aa", "/b"]] {
        assert!(matches!(load(unsorted), Err(TableError::Build(BuildError::Unsorted))), "{unsorted:?}");
    }
    let matching = options(Matching::Exact);
    let table = PrefixTable::<u8>::with_options(&matching).expect("a little memory").save("/nowhere/x");
    assert!(matches!(table, Err(TableError::NoFile)));
}

/// What callers do in callbacks may panic: in an iterator of changes, in a value's hash, in a report of progress.
#[test]
fn a_panic_in_a_callback_leaves_the_table_as_it_was() {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    // Equal if their numbers are: what panics is no part of a value.
    let fails = Arc::new(AtomicBool::new(false));
    let value = |number| Number(number, fails.clone());
    #[derive(Clone, Debug)]
    struct Number(u32, Arc<AtomicBool>);
    impl PartialEq for Number {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }
    impl Eq for Number {}
    impl Hash for Number {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            assert!(!self.1.load(Ordering::Relaxed), "as planned");
            self.0.hash(state);
        }
    }
    for matching in ALL {
        let mut table = PrefixTable::with_options(&options(matching)).expect("a little memory");
        let mut reader = table.reader();
        table.extend((0..50).map(|i| (format!("/a/{i}"), value(i)))).expect("room");
        let changes = (0..100).map(|i| {
            assert!(i < 60, "as planned");
            (format!("/a/{i}"), (i % 2 == 0).then(|| value(1000 + i)))
        });
        assert!(catch_unwind(AssertUnwindSafe(|| table.apply(changes))).is_err());
        fails.store(true, Ordering::Relaxed);
        assert!(catch_unwind(AssertUnwindSafe(|| table.insert("/a/b", value(7)))).is_err());
        fails.store(false, Ordering::Relaxed);
        let mut found = |key: String| reader.get(key).expect("short keys").map(|found| found.value.0);
        assert!((0..50).all(|i| found(format!("/a/{i}/x")) == Some(i)) && found("/a/b".to_owned()).is_none());
        // It goes on.
        table.insert("/a/b", value(7)).expect("room");
        table.remove("/a/3").expect("short keys");
        assert_eq!((found("/a/b/c".to_owned()), found("/a/3".to_owned()), table.len()), (Some(7), None, 50));
    }
    let rules = || (0..200_000u32).map(|i| (vec![(i + (1 << 24)).to_be_bytes()], i % 9));
    let loaded = catch_unwind(|| {
        PrefixTable::from_sorted(&PrefixOptions::default(), rules, &mut |_| panic!("as planned")).is_ok()
    });
    assert!(loaded.is_err());
}

#[test]
fn readers_outlive_their_tables_and_files() {
    let file = Temporary::new("outlived");
    let mut readers = Vec::new();
    for matching in ALL {
        let mut table = PrefixTable::with_options(&options(matching)).expect("a little memory");
        table.extend((0..500).map(|i| (format!("/a/{i}"), format!("v{i}")))).expect("room");
        readers.push(table.reader());
        if matching == Matching::Fast {
            table.save(&file.0).expect("a new file");
            let opened = PrefixTable::open(&file.0, Opening::default(), &PrefixOptions::default()).expect("ours");
            readers.push(opened.reader());
            std::fs::remove_file(&file.0).expect("ours");
        }
    }
    assert_eq!(readers.len(), 4);
    let threads: Vec<_> = readers
        .into_iter()
        .map(|mut reader| {
            std::thread::spawn(move || {
                let mut found = |i: u32| reader.get(format!("/a/{i}/x")).expect("short keys").map(|found| found.value);
                (0..500).all(|i| found(i) == Some(format!("v{i}"))) && found(500).is_none()
            })
        })
        .collect();
    assert!(threads.into_iter().all(|thread| thread.join().expect("lookups do not panic")));
}

/// A value that the writer raises on several rules; readers of any of them never see an older one
/// than was there when their lookup began, while the table grows.
#[test]
fn readers_in_other_threads_follow() {
    let lookups =
        std::env::var("BYNAME_TEST_LOOKUPS").ok().and_then(|number| number.parse().ok()).unwrap_or(200_000u64);
    let mut table = PrefixTable::new().expect("a little memory");
    table.insert("/a/b", 0u64).expect("room");
    let (begun, applied, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let mut reader = table.reader();
        let reading = scope.spawn({
            let (begun, applied, stop) = (&begun, &applied, &stop);
            move || {
                let keys = ["/a/b/c", "/a/b", "/a/b/d/e/f"].repeat(11);
                let mut out = Vec::new();
                for _ in 0..lookups / 34 {
                    let from = applied.load(Ordering::Acquire);
                    reader.get_all(&keys, &mut out).expect("short keys");
                    let one = reader.get("/a/b/x").expect("a short key");
                    let to = begun.load(Ordering::Acquire);
                    for found in out.iter().chain([&one]) {
                        let version = found.as_ref().expect("the rule is always there").value;
                        assert!((from..=to).contains(&version), "{version} is not in {from}..={to}");
                    }
                }
                stop.store(true, Ordering::Release);
            }
        });
        let mut version = 0;
        while !stop.load(Ordering::Acquire) && !reading.is_finished() {
            version += 1;
            begun.store(version, Ordering::Release);
            table.insert("/a/b", version).expect("room");
            applied.store(version, Ordering::Release);
            // Others come and go, so that parts grow and values are freed.
            let crowd =
                (0..20).map(|i| ([format!("c{}", version % 500), i.to_string()], (version % 3 != 0).then_some(i)));
            table.apply(crowd).expect("room");
        }
        reading.join().expect("all answers are right");
    });
}

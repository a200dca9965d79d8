//! Tests of what only the compact engine has. `tests/prefix_engines` tests what all engines share.

use byname_wire::{Component, HashFunction, Name};

use super::*;
use crate::entry::EntryId;
use crate::oracle::Oracle;
use crate::prefix::PrefixMatch;

const KEY: NameHashKey = NameHashKey::new([5, 6]);

fn name(uri: &str) -> Name {
    uri.parse().expect("a name")
}

fn set(name: &Name, entry: u32) -> Change<Name> {
    Change::Set(name.clone(), EntryId(entry))
}

fn longest(key: &NameHashKey, fib: &dyn PrefixFib, name: &Name) -> Option<PrefixMatch> {
    let mut hashes = PrefixHashes::default();
    fib.longest_match(&NameView::new(key, name.as_ref(), &mut hashes))
}

/// Names from a small dense universe, with a seed.
fn names(count: usize, seed: u64) -> impl Iterator<Item = Name> {
    let mut state = seed;
    let mut below = move |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    (0..count).map(move |_| {
        let depth = below(8);
        (0..depth).fold(Name::default(), |name, _| name.join(Component::generic(&[b'a' + below(5) as u8])))
    })
}

fn empty(options: &Options) -> Compact {
    Compact::new(KEY, options).expect("a little memory")
}

#[test]
fn a_bulk_load_answers_as_the_same_rules_one_by_one() {
    for function in [HashFunction::SipHash13, HashFunction::Aes] {
        let key = NameHashKey::with_function(function, [1, 2]);
        let mut rules: Vec<_> = names(3000, 1).collect();
        rules.sort();
        rules.dedup();
        let mut oracle = Oracle::new();
        let changes: Vec<_> = (0..).zip(&rules).map(|(i, rule)| set(rule, i)).collect();
        oracle.apply(&changes).expect("the oracle takes all");
        let mut loader = BulkLoader::new(key, 2 * rules.len(), &Options::default()).expect("a little memory");
        for (i, rule) in (0..).zip(&rules) {
            loader.push(rule.as_ref(), EntryId(i)).expect("sorted, and room");
        }
        let fib = loader.finish().expect("room");
        for asked in rules.iter().cloned().chain(names(3000, 2)) {
            assert_eq!(longest(&key, &*fib, &asked), longest(&key, &oracle, &asked), "{asked}");
        }
    }
}

#[test]
fn a_bulk_load_says_what_it_cannot_take() {
    let loader = || {
        let mut loader = BulkLoader::new(KEY, 100, &Options::default()).expect("a kilobyte");
        loader.push(name("/b").as_ref(), EntryId(1)).expect("the first");
        loader
    };
    let refused = |uri: &str, entry| loader().push(name(uri).as_ref(), EntryId(entry)).expect_err("refused");
    assert_eq!(refused("/a", 1), BuildError::Unsorted);
    assert_eq!(refused("/b", 1), BuildError::Unsorted);
    assert_eq!(refused("/", 1), BuildError::Unsorted);
    assert_eq!(refused(&"/c".repeat(33), 1), BuildError::TooDeep { depth: 33 });
    let range = BuildError::EntryOutOfRange { entry: ENTRIES_MAX, entries_max: ENTRIES_MAX };
    assert_eq!(refused("/c", ENTRIES_MAX), range);
    let mut small = BulkLoader::new(KEY, 1, &Options::default()).expect("a kilobyte");
    let many = (0..1000u64).map(|i| Name::default().join_number(8, i));
    let full = many.map(|name| small.push(name.as_ref(), EntryId(1))).find_map(Result::err);
    assert!(matches!(full, Some(BuildError::Full { .. })), "{full:?}");
}

#[test]
fn a_table_that_expects_its_rules_is_not_replaced_while_they_come() {
    for expected in [0, 60_000] {
        let mut engine = empty(&Options::default());
        engine.expect(expected).expect("some memory");
        let rules: Vec<Name> = (0..50_000u64).map(|i| name("/a").join_number(8, i).join_number(8, 1)).collect();
        let mut replaced = 0;
        for (batch, from) in rules.chunks(1_000).zip((0..).step_by(1_000)) {
            let changes: Vec<_> = (from..).zip(batch).map(|(entry, rule)| set(rule, entry)).collect();
            replaced += usize::from(matches!(engine.apply(&changes).expect("room"), Update::Replace(_)));
        }
        // What was made before the first batch is published with it.
        assert_eq!(replaced <= 1, expected > 0, "{replaced} with {expected} expected");
        for (entry, rule) in (0..).zip(&rules).step_by(97) {
            assert_eq!(longest(&KEY, &*engine.query(), rule).map(|found| found.entry), Some(EntryId(entry)));
        }
    }
}

/// Ten thousand branches without rules inherit the answer of whatever is above them.
#[test]
fn a_rule_above_many_branches_changes_what_all_inherit() {
    let branch = |i: u64| name("/top").join_number(8, i);
    let below = |i: u64| [1u64, 2].map(|j| branch(i).join_number(8, j).join_number(8, 7));
    let mut engine = empty(&Options::default());
    for i in 0..10_000 {
        engine.apply(&below(i).map(|rule| set(&rule, 9))).expect("room");
    }
    let check = |engine: &Compact, expected: Option<(u32, usize)>| {
        for i in (0..10_000).step_by(7) {
            let found = longest(&KEY, &*engine.query(), &branch(i).join_number(8, 3));
            assert_eq!(found.map(|found| (found.entry.0, found.depth)), expected, "{i}");
        }
    };
    check(&engine, None);
    engine.apply(&[set(&name("/"), 1)]).expect("room");
    check(&engine, Some((1, 0)));
    engine.apply(&[set(&name("/top"), 2)]).expect("room");
    check(&engine, Some((2, 1)));
    engine.apply(&[set(&name("/top"), 3)]).expect("room");
    check(&engine, Some((3, 1)));
    engine.apply(&[Change::Remove(name("/top"))]).expect("no room needed");
    check(&engine, Some((1, 0)));
}

/// With fingerprints of one bit, most insertions meet one that looks alike.
#[test]
fn rules_that_look_alike_are_refused_with_their_whole_batch() {
    let mut engine = empty(&Options { fingerprint_bits: 1, ..Options::default() });
    let (mut refused, mut taken) = (0, 0);
    // Enough for 16-bit tags to meet within their buckets.
    for i in 0..60_000u64 {
        let rules = [0, 1].map(|j| Name::default().join_number(8, i % 77).join_number(8, 2 * i + j));
        let batch = rules.each_ref().map(|rule| set(rule, 5));
        match engine.apply(&batch) {
            Ok(_) => taken += 1,
            Err(error) => {
                assert_eq!(error, BuildError::Collision);
                refused += 1;
            }
        }
        assert_eq!(engine.len(), 2 * taken, "both or neither");
    }
    assert!(refused > 0 && taken > 50_000, "{refused} refused, {taken} taken");
}

#[test]
fn a_full_table_refuses_whole_batches() {
    let mut engine = empty(&Options { rules_max: 3, ..Options::default() });
    let rules = ["/a", "/a/b", "/c", "/d"].map(name);
    engine.apply(&[set(&rules[0], 1), set(&rules[1], 2)]).expect("two of three");
    assert_eq!(engine.apply(&[set(&rules[2], 3), set(&rules[3], 4)]).expect_err("four"), BuildError::Full { rules: 3 });
    assert_eq!((engine.len(), longest(&KEY, &*engine.query(), &rules[2])), (2, None));
    engine.apply(&[Change::Remove(rules[0].clone()), set(&rules[2], 3), set(&rules[3], 4)]).expect("three");
    assert_eq!(engine.len(), 3);
}

/// Only names that share first components with many others need more than one line at most depths.
#[test]
fn lines_read_are_few() {
    let mut engine = empty(&Options::default());
    let rule = |i: u64| (0..7).fold(Name::default(), |name, j| name.join_number(8, i * 7 + j));
    for i in 0..20_000 {
        engine.apply(&[set(&rule(i), 1)]).expect("room");
    }
    let lines = |name: &Name| {
        let mut hashes = PrefixHashes::default();
        let view = NameView::new(&KEY, name.as_ref(), &mut hashes);
        engine.query().lines_read(&view).expect("counted")
    };
    let mean = |from: u64| (from..from + 1000).map(|i| lines(&rule(i))).sum::<usize>() as f64 / 1000.0;
    assert!(mean(0) < 1.4, "{} lines for a rule", mean(0));
    assert!(mean(1_000_000) < 1.4, "{} lines for a foreign name", mean(1_000_000));
}

#[test]
fn a_rule_takes_at_most_15_bytes_of_the_query_half() {
    let mut engine = empty(&Options::default());
    let rule = |i: u64| Name::default().join_number(8, i % 1000).join_number(8, i / 1000);
    for batch in 0..300 {
        let changes: Vec<_> = (0..1000).map(|i| set(&rule(batch * 1000 + i), 1)).collect();
        engine.apply(&changes).expect("room");
    }
    // 300,000 rules, a thousand branches.
    let bytes = engine.query().memory_bytes() as f64 / 301_000.0;
    assert!((10.6..15.0).contains(&bytes), "{bytes} bytes a node");
    for i in 0..300_000 {
        engine.apply(&[Change::Remove(rule(i))]).expect("no room needed");
    }
    assert!(engine.is_empty());
    assert_eq!(longest(&KEY, &*engine.query(), &rule(5)), None);
}

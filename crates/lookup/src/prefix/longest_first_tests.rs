use byname_wire::name_hash::DEPTHS;
use byname_wire::{Component, PrefixHashes};

use super::*;
use crate::entry::EntryId;
use crate::prefix::rule_array::RuleKey;

const KEY: NameHashKey = NameHashKey::new([1, 2]);

fn name(components: &[&str]) -> Name {
    components.iter().fold(Name::default(), |name, c| name.join(Component::generic(c.as_bytes())))
}

fn longest(fib: &dyn PrefixFib, name: &Name) -> Option<(u32, usize)> {
    let mut prefixes = PrefixHashes::default();
    let view = NameView::new(&KEY, name.as_ref(), &mut prefixes);
    fib.longest_match(&view).map(|m| (m.entry.0, m.depth))
}

fn prepared(hash: u64, check: u64, entry: Option<u32>) -> Prepared {
    Prepared { key: RuleKey { hash, depth: 3, check }, above: None, entry: entry.map(EntryId) }
}

#[test]
fn a_replaced_query_half_stays_as_it_was() {
    let mut control = LongestFirst::new(KEY, 10_000);
    let (a, ab) = (name(&["a"]), name(&["a", "b"]));
    control.apply(&[Change::Set(a.clone(), EntryId(1))]).expect("room");
    let old = control.query();
    let many: Vec<_> = (0..1000).map(|i| Change::Set(name(&["x", &i.to_string()]), EntryId(i))).collect();
    let Update::Replace(new) = control.apply(&many).expect("room") else { panic!("1000 rules in 16 buckets") };
    control.apply(&[Change::Set(ab.clone(), EntryId(2)), Change::Remove(a.clone())]).expect("room");
    assert_eq!(longest(&*old, &ab), Some((1, 1)));
    assert_eq!(longest(&*new, &ab), Some((2, 2)));
    assert_eq!(longest(&*new, &a), None);
}

#[test]
fn small_changes_are_made_in_place() {
    let mut control = LongestFirst::new(KEY, 100);
    let fib = control.query();
    let a = name(&["a"]);
    for (change, answer) in [
        (Change::Set(a.clone(), EntryId(7)), Some((7, 1))),
        (Change::Set(a.clone(), EntryId(u32::MAX)), Some((u32::MAX, 1))),
        (Change::Remove(a.clone()), None),
        (Change::Remove(a.clone()), None),
        (Change::Set(Name::default(), EntryId(9)), Some((9, 0))),
    ] {
        assert!(matches!(control.apply(&[change]), Ok(Update::Patched)));
        assert_eq!(longest(&*fib, &a), answer);
    }
    assert_eq!(control.len(), 1);
}

#[test]
fn the_second_name_of_a_digest_is_refused_and_nothing_of_its_batch_applied() {
    let mut control = LongestFirst::new(KEY, 100);
    let admit = |control: &mut LongestFirst, changes: &[Prepared]| control.writer.admit(changes, 0);
    control.change(&prepared(5, 10, Some(1)));
    let collision = Err(BuildError::Collision);
    assert_eq!(admit(&mut control, &[prepared(6, 1, Some(1)), prepared(5, 11, Some(2))]), collision);
    assert_eq!(admit(&mut control, &[prepared(7, 1, Some(1)), prepared(7, 2, Some(1))]), collision);
    assert_eq!(admit(&mut control, &[prepared(7, 1, Some(1)), prepared(7, 1, Some(2))]), Ok(()));
    // Removing a name that was never accepted does not affect the rule that looks like it.
    let taken = RuleKey { hash: 5, depth: 3, check: 10 };
    control.change(&prepared(5, 11, None));
    assert_eq!(control.writer.find(&taken).map(|(_, rule)| rule.entry), Some(Some(EntryId(1))));
    // Names that the query half can tell apart are accepted: another depth, or another start of the
    // check half.
    assert_eq!(control.writer.find(&RuleKey { depth: 2, ..taken }), None);
    let other = prepared(5, 10 | 1 << 63, Some(4));
    assert_eq!(admit(&mut control, std::slice::from_ref(&other)), Ok(()));
    control.change(&other);
    for (key, entry) in [(taken, 1), (other.key, 4)] {
        assert_eq!(control.writer.find(&key).map(|(_, rule)| rule.entry), Some(Some(EntryId(entry))));
    }
}

#[test]
fn a_full_table_refuses_whole_batches() {
    let mut control = LongestFirst::new(KEY, 2);
    let set = |c: &str| Change::Set(name(&[c]), EntryId(1));
    let remove = |c: &str| Change::Remove(name(&[c]));
    control.apply(&[set("a"), set("b")]).expect("two fit");
    assert_eq!(control.apply(&[remove("x"), set("c")]).unwrap_err(), BuildError::Full { rules: 2 });
    assert_eq!(longest(&*control.query(), &name(&["c"])), None);
    assert_eq!(control.apply(&[set("c"), remove("a")]).unwrap_err(), BuildError::Full { rules: 2 });
    control.apply(&[remove("a"), set("c"), set("b"), set("c")]).expect("one out, one in");
    assert_eq!(control.len(), 2);
    assert_eq!(longest(&*control.query(), &name(&["c"])), Some((1, 1)));
}

#[test]
fn a_name_deeper_than_any_packet_is_refused() {
    let mut control = LongestFirst::new(KEY, 2);
    let deep = name(&["a"; DEPTHS]);
    assert_eq!(control.apply(&[Change::Set(deep, EntryId(1))]).unwrap_err(), BuildError::TooDeep { depth: DEPTHS });
    control.apply(&[Change::Set(name(&["a"; DEPTHS - 1]), EntryId(1))]).expect("128 components");
    assert_eq!(longest(&*control.query(), &name(&["a"; DEPTHS - 1])), Some((1, DEPTHS - 1)));
}

#[test]
fn places_are_used_again_only_after_reclaim() {
    // Room for four chunks. Without reclaim, all of it would be used.
    let mut control = LongestFirst::new(KEY, 1);
    let a = name(&["a"]);
    let replace = |i| [Change::Set(a.clone(), EntryId(i))];
    for i in 0..(ROOM_FACTOR * CHUNK) as u32 {
        control.apply(&replace(i)).expect("room");
    }
    assert_eq!(control.apply(&replace(0)).unwrap_err(), BuildError::Full { rules: 1 });
    control.reclaim();
    let memory = control.memory_bytes();
    for i in 0..1000 {
        control.apply(&[Change::Remove(a.clone()), Change::Set(a.clone(), EntryId(i))]).expect("reclaimed");
    }
    assert_eq!(control.memory_bytes(), memory);
}

#[test]
fn overflow_beyond_the_table_makes_it_larger() {
    let mut control = LongestFirst::new(KEY, 10_000);
    // All in bucket 0, whatever the table's size.
    let crowd: Vec<_> = (0..200u64).map(|i| prepared(i << 32, i, Some(i as u32))).collect();
    for change in &crowd {
        control.change(change);
    }
    for change in &crowd {
        assert_eq!(control.writer.find(&change.key).map(|(_, rule)| rule.entry), Some(change.entry));
    }
    assert_eq!(control.len(), 200);
}

/// [So §4.2]: the number of buckets is fixed, and chains are as long as the load factor makes them.
#[test]
fn a_preallocated_table_keeps_its_buckets_and_chains_grow() {
    let rules = 4096;
    let options = Options { rules_max: rules, preallocate: true, ..Options::default() };
    let lines = [1, 4, 16].map(|load_factor| {
        let mut control = LongestFirst::with_options(KEY, Options { load_factor, ..options }).expect("a few pages");
        let names: Vec<_> = (0..rules).map(|i| name(&["x", &i.to_string()])).collect();
        let sets: Vec<_> = (0..).zip(&names).map(|(i, name)| Change::Set(name.clone(), EntryId(i))).collect();
        for batch in sets.chunks(100) {
            assert!(matches!(control.apply(batch), Ok(Update::Patched)));
        }
        let memory = control.memory();
        assert_eq!(memory.buckets, rules / load_factor * 64);
        let fib = control.query();
        let mut prefixes = PrefixHashes::default();
        let lines = (0..).zip(&names).map(|(i, name)| {
            let view = NameView::new(&KEY, name.as_ref(), &mut prefixes);
            assert_eq!(fib.longest_match(&view).map(|found| found.entry), Some(EntryId(i)));
            fib.lines_read(&view).expect("counted")
        });
        (lines.sum::<usize>() as f64 / rules as f64, memory.overflow)
    });
    // One line for the rule, and the buckets of its chain up to it.
    assert!(lines[0].0 < 2.01 && lines[0].1 < 64 * 3, "{lines:?}");
    // With four rules a bucket, one bucket in twenty has a second; with sixteen, nearly all have.
    assert!((2.01..2.1).contains(&lines[1].0) && lines[1].1.abs_diff(52 * 64) < 20 * 64, "{lines:?}");
    assert!((2.5..3.0).contains(&lines[2].0) && lines[2].1.abs_diff(439 * 64) < 50 * 64, "{lines:?}");
}

#[test]
fn every_kind_of_prefetch_gives_the_same_answers() {
    for prefetch in [Prefetch::None, Prefetch::Cascade, Prefetch::AllAtOnce, Prefetch::AcrossBurst] {
        let options = Options { prefetch, ..Options::default() };
        let mut control = LongestFirst::with_options(KEY, options).expect("a small table");
        let rules = [name(&["a"]), name(&["a", "b"]), name(&["a", "b", "c", "d"])];
        let sets: Vec<_> = (0..).zip(&rules).map(|(i, rule)| Change::Set(rule.clone(), EntryId(i))).collect();
        control.apply(&sets).expect("room");
        let names: Vec<_> = (0..9).map(|i| name(&["a", "b", "c", "d", "e", "f"][..i % 7])).collect();
        let mut prefixes = vec![PrefixHashes::default(); names.len()];
        let pairs = names.iter().zip(&mut prefixes);
        let views: Vec<_> = pairs.map(|(name, prefixes)| NameView::new(&KEY, name.as_ref(), prefixes)).collect();
        let mut out = vec![None; views.len()];
        control.query().longest_match_burst(&views, &mut out);
        let depths: Vec<_> = out.iter().map(|found| found.map(|found| found.depth)).collect();
        let right = [None, Some(1), Some(2), Some(2), Some(4), Some(4), Some(4), None, Some(1)];
        assert_eq!(depths, right, "{prefetch:?}");
    }
}

#[test]
fn depths_without_rules_are_probed_only_when_asked_for() {
    let rules = [name(&["a"]), name(&["a", "b", "c", "d"])];
    let deep = name(&["a", "x", "x", "x", "x", "x", "x"]);
    let mut prefixes = PrefixHashes::default();
    let view = NameView::new(&KEY, deep.as_ref(), &mut prefixes);
    for (probe_empty_depths, probes) in [(false, 2), (true, 7)] {
        let options = Options { probe_empty_depths, ..Options::default() };
        let mut control = LongestFirst::with_options(KEY, options).expect("a small table");
        let sets: Vec<_> = rules.iter().map(|rule| Change::Set(rule.clone(), EntryId(0))).collect();
        control.apply(&sets).expect("room");
        assert_eq!(control.probes(&view), probes);
        control.apply(&[Change::Remove(rules[1].clone())]).expect("room");
        assert_eq!(control.probes(&view), if probe_empty_depths { 7 } else { 1 });
    }
}

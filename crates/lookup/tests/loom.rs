//! Models of lookups during writes: every order of their steps (with up to two preemptions, in CI),
//! and every value that the memory model lets a reader see.
//!
//! `./test.sh models` runs them.
#![cfg(loom)]

use std::sync::Arc;

use byname_lookup::prefix::two_stage::{self, StartDepth};
use byname_lookup::prefix::{LongestFirst, TwoStage, longest_first};
use byname_lookup::{Change, Control, EntryId, PrefixFib, Update};
use byname_wire::{Component, Name, NameHashKey, NameView, PrefixHashes};
use loom::sync::atomic::{AtomicU64, Ordering};

const KEY: NameHashKey = NameHashKey::new([1, 2]);

/// The first `depth` components of `/a/b/c`.
fn name(depth: usize) -> Name {
    [b"a", b"b", b"c"].iter().take(depth).fold(Name::default(), |name, c| name.join(Component::generic(*c)))
}

fn set(depth: usize, entry: u32) -> Change<Name> {
    Change::Set(name(depth), EntryId(entry))
}

fn remove(depth: usize) -> Change<Name> {
    Change::Remove(name(depth))
}

/// The entry for `/a/b/c`.
fn longest(fib: &dyn PrefixFib) -> Option<u32> {
    let (asked, mut prefixes) = (name(3), PrefixHashes::default());
    let view = NameView::new(&KEY, asked.as_ref(), &mut prefixes);
    let mut out = [None];
    fib.longest_match_burst(&[view], &mut out);
    out[0].map(|found| found.entry.0)
}

/// A table whose lookups start at depth `start`.
fn two_stage(start: usize, before: &[(usize, u32)]) -> TwoStage {
    let table = longest_first::Options { rules_max: 4, ..Default::default() };
    let options = two_stage::Options { table, start_depth: StartDepth::Fixed(start) };
    let mut control = TwoStage::with_options(KEY, options).expect("a small table");
    control.apply(&sets(before)).expect("room");
    control
}

fn longest_first(before: &[(usize, u32)]) -> LongestFirst {
    let mut control = LongestFirst::new(KEY, 4);
    control.apply(&sets(before)).expect("room");
    control
}

fn sets(rules: &[(usize, u32)]) -> Vec<Change<Name>> {
    rules.iter().map(|&(depth, entry)| set(depth, entry)).collect()
}

/// One lookup while `changes` are applied one by one. The answer must be in `right`.
fn model_of<E: Control<Name, Query = dyn PrefixFib>>(
    table: impl Fn() -> E + Send + Sync + 'static,
    changes: fn() -> Vec<Change<Name>>,
    right: &'static [Option<u32>],
) {
    loom::model(move || {
        let mut control = table();
        let fib = control.query();
        let looking = loom::thread::spawn(move || {
            let found = longest(&*fib);
            assert!(right.contains(&found), "{found:?} was never the answer");
        });
        for change in changes() {
            assert!(matches!(control.apply(&[change]), Ok(Update::Patched)));
        }
        looking.join().expect("the reader does not panic");
    });
}

/// The same for longest_first.
fn model(before: &'static [(usize, u32)], changes: fn() -> Vec<Change<Name>>, right: &'static [Option<u32>]) {
    model_of(move || longest_first(before), changes, right);
}

/// The same for two_stage that starts at depth `start`.
fn model_staged(
    start: usize,
    before: &'static [(usize, u32)],
    changes: fn() -> Vec<Change<Name>>,
    right: &'static [Option<u32>],
) {
    model_of(move || two_stage(start, before), changes, right);
}

#[test]
fn an_insertion_is_seen_whole_or_not() {
    model(&[(1, 10)], || vec![set(2, 20)], &[Some(10), Some(20)]);
}

#[test]
fn a_replacement_is_seen_whole_or_not() {
    model(&[(1, 10)], || vec![set(1, 11)], &[Some(10), Some(11)]);
}

#[test]
fn a_removal_is_seen_whole_or_not() {
    model(&[(0, 1), (1, 10)], || vec![remove(1)], &[Some(1), Some(10)]);
}

#[test]
fn a_route_that_moves_up_or_down_is_never_missed() {
    model(&[(1, 10)], || vec![set(2, 20), remove(1)], &[Some(10), Some(20)]);
    model(&[(2, 20)], || vec![set(1, 10), remove(2)], &[Some(10), Some(20)]);
}

#[test]
fn a_rule_that_comes_after_a_deeper_one_does_not_hide_it() {
    model(&[(0, 1)], || vec![set(2, 20), set(1, 10)], &[Some(1), Some(20)]);
}

#[test]
fn a_larger_table_is_published_whole() {
    loom::model(|| {
        let mut control = LongestFirst::new(KEY, 8);
        control.apply(&[set(1, 10)]).expect("room");
        let published = Arc::new(loom::sync::Mutex::new(control.query()));
        let looking = loom::thread::spawn({
            let published = published.clone();
            move || {
                let fib = published.lock().expect("not poisoned").clone();
                let found = longest(&*fib);
                // Nobody may see what the batch did in between.
                assert!([Some(10), Some(30)].contains(&found), "{found:?}");
            }
        });
        let many = [remove(1), set(2, 20), set(0, 1), set(3, 30), set(1, 11)];
        let others = (0..2).map(|i| Change::Set(Name::default().join_number(8, i), EntryId(0)));
        let Ok(Update::Replace(fib)) = control.apply(&many.into_iter().chain(others).collect::<Vec<_>>()) else {
            panic!("five rules need a second bucket")
        };
        *published.lock().expect("not poisoned") = fib;
        looking.join().expect("the reader does not panic");
    });
}

#[test]
fn a_rule_below_the_start_depth_comes_and_goes_with_its_virtual_rule() {
    model_staged(2, &[(1, 10)], || vec![set(3, 30)], &[Some(10), Some(30)]);
    model_staged(2, &[(1, 10), (3, 30)], || vec![remove(3)], &[Some(10), Some(30)]);
    model_staged(1, &[(1, 10), (2, 20)], || vec![set(3, 30)], &[Some(20), Some(30)]);
}

#[test]
fn a_rule_at_the_start_depth_never_hides_a_deeper_one() {
    model_staged(2, &[(2, 20), (3, 30)], || vec![remove(2)], &[Some(30)]);
    model_staged(2, &[(3, 30)], || vec![set(2, 20)], &[Some(30)]);
}

#[test]
fn a_route_that_crosses_the_start_depth_is_never_missed() {
    model_staged(2, &[(1, 10)], || vec![set(3, 30), remove(1)], &[Some(10), Some(30)]);
    model_staged(2, &[(3, 30)], || vec![set(1, 10), remove(3)], &[Some(10), Some(30)]);
    model_staged(2, &[(2, 20)], || vec![set(3, 30), remove(2)], &[Some(20), Some(30)]);
}

/// Two lookups with a quiescent point between them, while the start depth moves from `from` to
/// `to`, and the data of the old one is removed after a grace period.
fn model_of_a_move(from: usize, to: usize, before: &'static [(usize, u32)], right: u32) {
    loom::model(move || {
        let mut control = two_stage(from, before);
        let fib = control.query();
        let (epoch, passed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let looking = loom::thread::spawn({
            let (epoch, passed) = (epoch.clone(), passed.clone());
            move || {
                assert_eq!(longest(&*fib), Some(right));
                passed.store(epoch.load(Ordering::Acquire), Ordering::Release);
                assert_eq!(longest(&*fib), Some(right));
            }
        });
        assert!(matches!(control.set_start_depth(to), Ok(Update::Patched)));
        epoch.store(1, Ordering::Release);
        if passed.load(Ordering::Acquire) == 1 {
            control.reclaim();
        }
        looking.join().expect("the reader does not panic");
    });
}

#[test]
fn no_answer_changes_while_the_start_depth_moves() {
    model_of_a_move(2, 1, &[(0, 1), (3, 30)], 30);
    model_of_a_move(1, 2, &[(0, 1), (3, 30)], 30);
    model_of_a_move(3, 1, &[(1, 10), (2, 20)], 20);
}

#[test]
fn a_rule_that_comes_after_a_move_is_seen_whole_or_not() {
    loom::model(|| {
        let mut control = two_stage(2, &[(0, 1)]);
        let fib = control.query();
        let looking = loom::thread::spawn(move || {
            let found = longest(&*fib);
            assert!([Some(1), Some(30)].contains(&found), "{found:?} was never the answer");
        });
        control.set_start_depth(1).expect("room");
        control.apply(&[set(3, 30)]).expect("room");
        looking.join().expect("the reader does not panic");
    });
}

//! Models of binary search over prefix lengths during writes: slots, forwarding words and markers
//! change in place, and a table that grew is published.
//!
//! `./test.sh models` runs them.
#![cfg(loom)]

use std::sync::Arc;

use byname_lookup::prefix::binary_search::{BinarySearch, Options, Prefetch, Strategy};
use byname_lookup::{Change, Control, EntryId, PrefixFib, Update};
use byname_wire::{Component, Name, NameHashKey, NameView, PrefixHashes};

const KEY: NameHashKey = NameHashKey::new([1, 2]);

/// The first `depth` components of `/a/b/c`.
fn name(depth: usize) -> Name {
    Name::from_components([b"a", b"b", b"c"].iter().take(depth).map(|c| Component::generic(*c)))
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

fn engine(strategy: Strategy) -> BinarySearch {
    let prefetch = if strategy == Strategy::AtEnd { Prefetch::Burst } else { Prefetch::All };
    BinarySearch::new(KEY, Options { strategy, prefetch, ..Options::default() }).expect("small")
}

/// One lookup while `changes` are applied one by one to a table with `before`. The answer must be
/// in `right`.
fn model(before: &'static [(usize, u32)], changes: fn() -> Vec<Change<Name>>, right: &'static [Option<u32>]) {
    for strategy in [Strategy::AtEnd, Strategy::Always] {
        loom::model(move || {
            let mut control = engine(strategy);
            let first: Vec<_> = before.iter().map(|&(depth, entry)| set(depth, entry)).collect();
            control.apply(&first).expect("room");
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
}

/// `/a/b/c` has a marker at `/a/b`: two tables change.
#[test]
fn an_insertion_is_seen_whole_or_not() {
    model(&[(1, 10)], || vec![set(3, 30)], &[Some(10), Some(30)]);
}

#[test]
fn a_replacement_is_seen_whole_or_not() {
    model(&[(3, 30)], || vec![set(3, 31)], &[Some(30), Some(31)]);
}

#[test]
fn a_removal_is_seen_whole_or_not() {
    model(&[(1, 10), (3, 30)], || vec![remove(3)], &[Some(10), Some(30)]);
}

#[test]
fn a_marker_that_becomes_a_rule_and_one_again_is_never_missed() {
    model(&[(3, 30)], || vec![set(2, 20), remove(2)], &[Some(30)]);
}

#[test]
fn a_route_that_moves_up_or_down_is_never_missed() {
    model(&[(1, 10)], || vec![set(2, 20), remove(1)], &[Some(10), Some(20)]);
    model(&[(2, 20)], || vec![set(1, 10), remove(2)], &[Some(10), Some(20)]);
}

/// The marker at `/a/b` inherits `/a`, then nothing: `/` answers.
#[test]
fn what_a_marker_inherits_changes_in_place() {
    fn sibling() -> Name {
        name(2).join(Component::generic(b"x"))
    }
    loom::model(|| {
        let mut control = engine(Strategy::AtEnd);
        control.apply(&[set(0, 1), set(1, 10), Change::Set(sibling(), EntryId(33))]).expect("room");
        let fib = control.query();
        let looking = loom::thread::spawn(move || {
            let found = longest(&*fib);
            assert!([Some(10), Some(1)].contains(&found), "{found:?} was never the answer");
        });
        assert!(matches!(control.apply(&[remove(1)]), Ok(Update::Patched)));
        looking.join().expect("the reader does not panic");
    });
}

#[test]
fn a_larger_table_sends_the_readers_of_the_old_one_on() {
    loom::model(|| {
        let mut control = engine(Strategy::AtEnd);
        let other = |i| Change::Set(Name::default().join_number(8, i), EntryId(0));
        // The number of rules for which the table of length one was made.
        control.apply(&[set(1, 10), other(1), other(2), other(3)]).expect("room");
        let fib: Arc<dyn PrefixFib> = control.query();
        let looking = loom::thread::spawn(move || {
            let found = longest(&*fib);
            assert!([Some(10), Some(11)].contains(&found), "{found:?} was never the answer");
        });
        assert!(matches!(control.apply(&[other(4), set(1, 11)]), Ok(Update::Replace(_))));
        looking.join().expect("the reader does not panic");
    });
}

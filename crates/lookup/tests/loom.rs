//! Models of lookups under a writer: every order of their steps (of up to two preemptions, in CI),
//! and every value that the memory model lets a reader see.
//!
//! `./test.sh models` runs them.
#![cfg(loom)]

use std::sync::Arc;

use byname_lookup::prefix::LongestFirst;
use byname_lookup::{Change, Control, EntryId, PrefixFib, Update};
use byname_wire::{Component, Name, NameHashKey, NameView, PrefixHashes};

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

/// One lookup while `changes` are applied one by one to a table that holds `before`: the answer is
/// among `right`.
fn model(before: &'static [(usize, u32)], changes: fn() -> Vec<Change<Name>>, right: &'static [Option<u32>]) {
    loom::model(move || {
        let mut control = LongestFirst::new(KEY, 4);
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
                // What the batch did in between is not seen by anybody.
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

//! Models of lookups in the compact engine during writes: every order of their steps (with up to
//! two preemptions, in CI), and every value that the memory model lets a reader see.
//!
//! `./test.sh models` runs them.
#![cfg(loom)]

use byname_lookup::prefix::HashRoom;
use byname_lookup::prefix::compact::{BulkLoader, Compact, Options};
use byname_lookup::{Change, Control, EntryId, PrefixFib, Update};
use byname_wire::{Name, NameHashKey, NameView, PrefixHashes};

const KEY: NameHashKey = NameHashKey::new([1, 2]);

fn name(uri: &str) -> Name {
    uri.parse().expect("a name")
}

fn set(uri: &str, entry: u32) -> Change<Name> {
    Change::Set(name(uri), EntryId(entry))
}

fn remove(uri: &str) -> Change<Name> {
    Change::Remove(name(uri))
}

fn longest(fib: &dyn PrefixFib, asked: &Name) -> Option<u32> {
    let mut prefixes = PrefixHashes::default();
    let view = NameView::new(&KEY, asked.as_ref(), &mut prefixes);
    let mut out = [None];
    fib.longest_match_burst(&[view], &mut out);
    out[0].map(|found| found.entry.0)
}

/// Like [`longest`], with the name hashed only as deep as the search goes.
fn longest_of_name(fib: &dyn PrefixFib, asked: &Name) -> Option<u32> {
    let mut out = [None];
    fib.longest_match_names(&KEY, &[asked.as_ref()], &mut HashRoom::default(), &mut out);
    out[0].map(|found| found.entry.0)
}

/// One lookup of `asked` while `changes` are applied one by one to a table with `before`. The
/// answer must be in `right`.
fn model(
    before: &'static [(&str, u32)],
    changes: fn() -> Vec<Change<Name>>,
    asked: &'static str,
    right: &'static [Option<u32>],
) {
    model_of(longest, before, changes, asked, right);
}

fn model_of(
    look_up: fn(&dyn PrefixFib, &Name) -> Option<u32>,
    before: &'static [(&str, u32)],
    changes: fn() -> Vec<Change<Name>>,
    asked: &'static str,
    right: &'static [Option<u32>],
) {
    loom::model(move || {
        let mut control = Compact::new(KEY, &Options::default()).expect("a little memory");
        let first: Vec<_> = before.iter().map(|&(uri, entry)| set(uri, entry)).collect();
        control.apply(&first).expect("room");
        let fib = control.query();
        let asked = name(asked);
        let looking = loom::thread::spawn(move || {
            let found = look_up(&*fib, &asked);
            assert!(right.contains(&found), "{found:?} was never the answer");
        });
        for change in changes() {
            assert!(matches!(control.apply(&[change]), Ok(Update::Patched)));
        }
        looking.join().expect("the reader does not panic");
    });
}

#[test]
fn a_rule_below_a_leaf_is_seen_whole_or_not() {
    model(&[("/a", 1)], || vec![set("/a/b/c", 2)], "/a/b/c/d", &[Some(1), Some(2)]);
}

#[test]
fn a_replacement_is_seen_whole_or_not() {
    model(&[("/a", 1)], || vec![set("/a", 2)], "/a/b", &[Some(1), Some(2)]);
}

#[test]
fn a_split_that_moves_the_handle_disturbs_nobody() {
    // `/a/b/c` has its handle at depth 2, which the new rule `/a/b` takes over.
    model(&[("/a/b/c", 1)], || vec![set("/a/b", 2)], "/a/b/c", &[Some(1)]);
    model(&[("/a/b/c", 1)], || vec![set("/a/b", 2)], "/a/b/x", &[None, Some(2)]);
}

#[test]
fn a_branch_disturbs_nobody() {
    model(&[("/", 9), ("/a/b/c", 1)], || vec![set("/a/b/d", 2)], "/a/b/c", &[Some(1)]);
    model(&[("/", 9), ("/a/b/c", 1)], || vec![set("/a/x", 2)], "/a/b/c/d", &[Some(1)]);
}

#[test]
fn a_merge_that_moves_the_handle_disturbs_nobody() {
    model(&[("/a/b", 2), ("/a/b/c", 1)], || vec![remove("/a/b")], "/a/b/c", &[Some(1)]);
    model(&[("/a/b", 2), ("/a/b/c", 1)], || vec![remove("/a/b")], "/a/b/x", &[Some(2), None]);
    model(&[("/a/b/c", 1), ("/a/b/d", 2)], || vec![remove("/a/b/d")], "/a/b/c", &[Some(1)]);
}

#[test]
fn what_is_inherited_changes_with_its_rule() {
    let before = &[("/a", 1), ("/a/b/c", 2), ("/a/b/d", 3)];
    model(before, || vec![set("/a", 4)], "/a/b/x", &[Some(1), Some(4)]);
    model(before, || vec![remove("/a")], "/a/b/x", &[Some(1), None]);
    model(before, || vec![set("/a/b", 5)], "/a/b/x", &[Some(1), Some(5)]);
}

#[test]
fn a_route_that_moves_up_or_down_is_never_missed() {
    model(&[("/a", 1)], || vec![set("/a/b", 2), remove("/a")], "/a/b/c", &[Some(1), Some(2)]);
    model(&[("/a/b", 2)], || vec![set("/a", 1), remove("/a/b")], "/a/b/c", &[Some(1), Some(2)]);
}

#[test]
fn a_rule_that_comes_after_a_deeper_one_does_not_hide_it() {
    model(&[("/", 1)], || vec![set("/a/b", 2), set("/a", 3)], "/a/b", &[Some(1), Some(2)]);
    model(&[], || vec![set("/a", 2), set("/", 1)], "/a", &[None, Some(2)]);
}

#[test]
fn a_name_is_hashed_in_two_steps_and_found() {
    let before = &[("/a/b/c/d/e", 1)];
    let branch = || vec![set("/a/b/c/d/f", 2)];
    model_of(longest_of_name, before, branch, "/a/b/c/d/e", &[Some(1)]);
    model_of(longest_of_name, before, branch, "/a/b/c/d/f/g", &[None, Some(2)]);
}

#[test]
fn a_rule_deeper_than_all_is_seen_before_what_comes_after_it() {
    let before = &[("/a/b/c/d/e", 1)];
    let changes = || vec![set("/a/b/c/x/e/f/g/h/i", 2), set("/a", 3)];
    model_of(longest_of_name, before, changes, "/a/b/c/x/e/f/g/h/i", &[None, Some(2)]);
}

/// As [`model`], for rules that were loaded in bulk and changes beside them.
fn model_beside(
    loaded: &'static [(&str, u32)],
    changes: fn() -> Vec<Change<Name>>,
    asked: &'static str,
    right: &'static [Option<u32>],
) {
    loom::model(move || {
        let options = Options::default();
        let mut loader = BulkLoader::new(KEY, 2 * loaded.len(), &options).expect("a little memory");
        loaded.iter().for_each(|&(uri, entry)| loader.push(name(uri).as_ref(), EntryId(entry)).expect("sorted"));
        let mut control = loader.finish_table(&options).expect("a little memory");
        // The first change makes the table of changes.
        control.apply(&[set("/x", 9)]).expect("room");
        let fib = control.query();
        let asked = name(asked);
        let looking = loom::thread::spawn(move || {
            let found = longest(&*fib, &asked);
            assert!(right.contains(&found), "{found:?} was never the answer");
        });
        for change in changes() {
            assert!(matches!(control.apply(&[change]), Ok(Update::Patched)));
        }
        looking.join().expect("the reader does not panic");
    });
}

#[test]
fn a_loaded_rule_that_is_removed_or_replaced_is_seen_whole_or_not() {
    let loaded = &[("/a", 1), ("/a/b", 2)];
    model_beside(loaded, || vec![remove("/a/b")], "/a/b/c", &[Some(2), Some(1)]);
    model_beside(loaded, || vec![set("/a/b", 3)], "/a/b/c", &[Some(2), Some(3)]);
}

#[test]
fn a_lookup_that_begins_again_above_a_removed_rule_sees_no_later_removal_alone() {
    let loaded = &[("/a", 1), ("/a/b", 2)];
    // The rule is back before the one above it goes.
    let changes = || vec![remove("/a/b"), set("/a/b", 3), remove("/a")];
    model_beside(loaded, changes, "/a/b/c", &[Some(2), Some(1), Some(3)]);
}

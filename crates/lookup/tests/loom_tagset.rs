//! Models of packets in the tag-set trie during writes: every order of their steps (with up to two
//! preemptions, in CI), and every value that the memory model lets a reader see.
//!
//! `./test.sh models` runs them.
#![cfg(loom)]

use std::ops::ControlFlow;

use byname_lookup::tagset::TagQuery;
use byname_lookup::tagset::trie::{Options, TagTrie};
use byname_lookup::{Change, Control, EntryId, Pages, TagsetFib, Update};
use byname_wire::Descriptor;

fn tags(tags: &[&str]) -> Descriptor {
    Descriptor::of(tags).expect("few tags")
}

fn set(of: &[&str], entry: u32) -> Change<Descriptor> {
    Change::Set(tags(of), EntryId(entry))
}

fn all(fib: &dyn TagsetFib, packet: &Descriptor) -> Vec<u32> {
    let mut found = Vec::new();
    fib.all_subsets(&TagQuery::of_filter(packet.filter()), &mut |entry| {
        found.push(entry.0);
        ControlFlow::Continue(())
    });
    found.sort_unstable();
    found
}

/// A packet with `a` and `b` while changes are applied one by one to a table with `loaded` in its trie. The packet's
/// answer must be in `right`.
fn model(loaded: &'static [(&[&str], u32)], changes: fn() -> Vec<Change<Descriptor>>, right: &'static [&[u32]]) {
    loom::model(move || {
        let options = Options { list_max: 2, pages: Pages::Small, ..Options::default() };
        let loaded = loaded.iter().map(|&(of, entry)| (tags(of), EntryId(entry)));
        let mut control = TagTrie::load(&options, loaded).expect("a little memory");
        let fib = control.query();
        let asking = loom::thread::spawn(move || {
            let found = all(&*fib, &tags(&["a", "b"]));
            assert!(right.contains(&&*found), "{found:?} was never right");
        });
        for change in changes() {
            assert!(matches!(control.apply(&[change]), Ok(Update::Patched)));
        }
        asking.join().expect("the reader does not panic");
    });
}

#[test]
fn an_entry_is_replaced_in_one_step() {
    model(&[(&["a"], 1), (&["a", "b"], 2)], || vec![set(&["a"], 3)], &[&[1, 2], &[2, 3]]);
}

#[test]
fn a_removed_descriptor_comes_back_in_its_place() {
    let changes = || vec![Change::Remove(tags(&["a"])), set(&["a"], 3)];
    model(&[(&["a"], 1), (&["b"], 2)], changes, &[&[1, 2], &[2], &[2, 3]]);
}

#[test]
fn a_new_descriptor_is_seen_whole_or_not() {
    let changes = || vec![set(&["b"], 2), set(&["c"], 3)];
    model(&[(&["a"], 1)], changes, &[&[1], &[1, 2]]);
}

#[test]
fn a_descriptor_of_the_list_is_replaced_and_removed() {
    let changes = || vec![set(&["b"], 2), set(&["b"], 3), Change::Remove(tags(&["b"]))];
    model(&[], changes, &[&[], &[2], &[3]]);
}

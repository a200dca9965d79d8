//! Models of packets matched by the rarest-tag engine during writes: every order of their steps
//! (with up to two preemptions, in CI), and every value that the memory model lets a reader see.
//!
//! `./test.sh models` runs them.
#![cfg(loom)]

use std::ops::ControlFlow;

use byname_lookup::tagset::TagQuery;
use byname_lookup::tagset::rare_tag::{Options, RareTag};
use byname_lookup::{Change, Control, EntryId, Update};
use byname_wire::{Descriptor, TagDigest};

fn descriptor(tags: &[u32]) -> Descriptor {
    Descriptor::from_digests(tags.iter().map(|tag| TagDigest(*tag))).expect("few tags")
}

fn set(tags: &[u32], entry: u32) -> Change<Descriptor> {
    Change::Set(descriptor(tags), EntryId(entry))
}

/// One packet with tags 1, 2 and 3 while a table of `before` changes. It must find each descriptor
/// at most once, and `right` must accept what it finds.
fn model(before: &[Change<Descriptor>], changes: &[Change<Descriptor>], right: fn(&[u32]) -> bool) {
    let (before, changes) = (before.to_vec(), changes.to_vec());
    loom::model(move || {
        let options = Options { members_max: 1, ..Options::default() };
        let mut control = RareTag::new(7, &options).expect("little memory");
        control.apply(&before).expect("few descriptors");
        let fib = control.query();
        let asking = loom::thread::spawn(move || {
            let (tags, mut found) = (descriptor(&[1, 2, 3]), Vec::new());
            fib.all_subsets(&TagQuery::of_tags(tags.tags()), &mut |entry| {
                found.push(entry.0);
                ControlFlow::Continue(())
            });
            found.sort_unstable();
            assert!(right(&found), "{found:?}");
        });
        for change in &changes {
            assert!(matches!(control.apply(std::slice::from_ref(change)), Ok(Update::Patched)));
        }
        asking.join().expect("the reader does not panic");
    });
}

#[test]
fn a_descriptor_that_comes_or_goes_disturbs_no_other() {
    let changes = [set(&[1, 3], 20), Change::Remove(descriptor(&[1, 3]))];
    model(&[set(&[1, 2], 10)], &changes, |found| matches!(found, [10] | [10, 20]));
}

#[test]
fn an_entry_is_that_of_before_or_of_after() {
    model(&[set(&[1, 2], 10), set(&[1], 11)], &[set(&[1, 2], 12)], |found| matches!(found, [10, 11] | [11, 12]));
}

/// Tags 2 and 3 are in more descriptors than tag 1. Its node is wide, with a child for tag 2 that
/// has two descriptors; the third descriptor adds a child for tag 3.
#[test]
fn a_child_that_comes_disturbs_no_other() {
    let before = [set(&[2], 1), set(&[3], 2), set(&[2, 3], 3), set(&[1, 2], 4), set(&[1, 2, 3], 5)];
    let right = |found: &[u32]| matches!(found, [1, 2, 3, 4, 5] | [1, 2, 3, 4, 5, 6]);
    model(&before, &[set(&[1, 3], 6)], right);
}

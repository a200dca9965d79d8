//! Models of queries in Othello during writes: every order of their steps (with up to two
//! preemptions, in CI), and every value that the memory model lets a reader see.
//!
//! `./test.sh models` runs them.
#![cfg(loom)]

use byname_lookup::flat::othello::{Options, Othello};
use byname_lookup::{Change, Control, EntryId, FlatFib, Update};
use byname_wire::Digest;

/// The digest of the name of this number, as a keyed hash would make it.
fn digest(number: u64) -> Digest {
    let mix = |number: u64| (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Digest { hash: mix(mix(number + 1)), check: mix(mix(!number)) }
}

fn set(number: u64, entry: u32) -> Change<Digest> {
    Change::Set(digest(number), EntryId(entry))
}

fn alone(fib: &dyn FlatFib, name: Digest) -> Option<EntryId> {
    fib.entry(name)
}

fn in_burst(fib: &dyn FlatFib, name: Digest) -> Option<EntryId> {
    let mut out = [None];
    fib.entry_burst(&[name], &mut out);
    out[0]
}

/// One query of name 0 while `changes` are applied one by one to a table in which the first `names`
/// have entry 1. The answer must be in `right`.
fn model(
    entry_bits: u32,
    names: u64,
    changes: fn() -> Vec<Change<Digest>>,
    ask: fn(&dyn FlatFib, Digest) -> Option<EntryId>,
    right: &'static [u32],
) {
    loom::model(move || {
        let digests: Vec<_> = (0..names).map(digest).collect();
        let entries = vec![EntryId(1); digests.len()];
        let options = Options { entry_bits, ..Options::default() };
        let mut control = Othello::construct(options, &digests, &entries).expect("a little memory");
        let fib = control.query();
        let looking = loom::thread::spawn(move || {
            let found = ask(&*fib, digest(0)).expect("every query has an answer");
            assert!(right.contains(&found.0), "{found:?} was never the answer");
        });
        for change in changes() {
            assert!(matches!(control.apply(&[change]), Ok(Update::Patched)));
        }
        looking.join().expect("the reader does not panic");
    });
}

/// Values of 8 bits lie in one word each; with 27 bits some lie in two.
#[test]
fn another_entry_is_seen_whole_or_not() {
    for entry_bits in [8, 27] {
        model(entry_bits, 3, || vec![set(0, 0xfe)], alone, &[1, 0xfe]);
        model(entry_bits, 3, || vec![set(0, 0xfe)], in_burst, &[1, 0xfe]);
    }
}

#[test]
fn two_entries_in_turn_are_seen_whole_or_not() {
    model(27, 1, || vec![set(0, 0x7ff_fffe), set(0, 6)], alone, &[1, 0x7ff_fffe, 6]);
    model(27, 1, || vec![set(0, 0x7ff_fffe), set(0, 6)], in_burst, &[1, 0x7ff_fffe, 6]);
}

/// Enough names for trees of several edges. Some changes flip both values of name 0.
#[test]
fn changes_of_other_names_disturb_nobody() {
    for ask in [alone, in_burst] {
        model(32, 6, || vec![set(1, 8), set(2, 9)], ask, &[1]);
        model(32, 6, || vec![set(3, 8), Change::Remove(digest(3)), set(4, 9)], ask, &[1]);
        model(32, 4, || vec![set(7, 8), set(8, 9)], ask, &[1]);
    }
}

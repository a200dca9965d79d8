//! Models of queries to the line engine under a writer: every order of their steps (of up to two
//! preemptions, in CI), and every value that the memory model lets a reader see.
//!
//! `./test.sh models` runs them.
#![cfg(loom)]

use byname_lookup::flat::line::{LineRetrieval, Options};
use byname_lookup::{Change, Control, EntryId, Update};
use byname_wire::Digest;

/// A name in the first cell, with this rank: cells bump names of the highest ranks.
fn name(i: u64, rank: u64) -> Digest {
    Digest { hash: i << 8 | rank, check: (i + 1000).wrapping_mul(0x9e37_79b9_7f4a_7c15) }
}

/// One query of `asked` while `changes` are applied one by one to a table of entries of `entry_bits`
/// bits that holds `before`: the answer is among `right`.
fn model(entry_bits: u32, before: &[(Digest, u32)], changes: &[(Digest, Option<u32>)], asked: Digest, right: &[u32]) {
    let before: Vec<_> = before.iter().map(|&(name, entry)| (name, EntryId(entry))).collect();
    let changes: Vec<_> = changes.to_vec();
    let right = right.to_vec();
    loom::model(move || {
        let options = Options { entry_bits, ..Default::default() };
        let mut control = LineRetrieval::load(&options, &before).expect("a little memory");
        let fib = control.query();
        let right = right.clone();
        let asking = loom::thread::spawn(move || {
            let found = fib.entry(asked).map(|entry| entry.0);
            assert!(right.iter().any(|&right| found == Some(right)), "{found:?} was never the answer");
        });
        for &(name, entry) in &changes {
            let change = match entry {
                Some(entry) => Change::Set(name, EntryId(entry)),
                None => Change::Remove(name),
            };
            assert!(matches!(control.apply(&[change]), Ok(Update::Patched)));
        }
        asking.join().expect("the reader does not panic");
    });
}

/// As many names as a cell of entries of 32 bits has room for.
fn full_cell() -> Vec<(Digest, u32)> {
    (0..15).map(|i| (name(i, 100 + i), 0x0101_0101 * i as u32)).collect()
}

#[test]
fn an_entry_is_seen_as_it_was_or_as_it_is() {
    let before = [(name(1, 5), 0xffff_0000), (name(2, 6), 7)];
    model(32, &before, &[(name(1, 5), Some(0x0000_ffff))], name(1, 5), &[0xffff_0000, 0x0000_ffff]);
    let twice = [(name(1, 5), Some(1)), (name(1, 5), Some(2))];
    model(32, &before, &twice, name(1, 5), &[0xffff_0000, 1, 2]);
}

#[test]
fn a_new_name_disturbs_no_other() {
    let before = [(name(1, 5), 0xffff_0000), (name(2, 6), 7)];
    model(32, &before, &[(name(3, 9), Some(9)), (name(2, 6), None)], name(1, 5), &[0xffff_0000]);
}

#[test]
fn a_name_that_its_cell_bumps_is_never_missed() {
    let before = full_cell();
    // The cell is full: a name of lower rank takes the place of the highest.
    model(32, &before, &[(name(20, 1), Some(3))], name(14, 114), &[0x0e0e_0e0e]);
    model(32, &before, &[(name(20, 1), Some(3))], name(0, 100), &[0]);
}

#[test]
fn a_name_that_is_bumped_and_changed_is_never_missed() {
    let (last, entry) = (name(14, 114), 0x0e0e_0e0e);
    model(32, &full_cell(), &[(name(20, 1), Some(3)), (last, Some(5))], last, &[entry, 5]);
}

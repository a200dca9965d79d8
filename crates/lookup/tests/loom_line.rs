//! Models of queries to the line engine during writes: every order of their steps (with up to two
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

/// One query of `asked`, whose entry is `right`, while other names change one by one. Entries have
/// one bit, which gives the shortest cells and few enough orders to try.
///
/// Another model, beside the code, shows that readers see whole lines.
fn model(before: &[(Digest, u32)], changes: &[(Digest, Option<u32>)], asked: Digest, right: u32) {
    let before: Vec<_> = before.iter().map(|&(name, entry)| (name, EntryId(entry))).collect();
    let changes: Vec<_> = changes.to_vec();
    loom::model(move || {
        let options = Options { entry_bits: 1, ..Default::default() };
        let mut control = LineRetrieval::load(&options, &before).expect("a little memory");
        let fib = control.query();
        let asking = loom::thread::spawn(move || assert_eq!(fib.entry(asked), Some(EntryId(right))));
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

#[test]
fn a_new_name_disturbs_no_other() {
    let before = [(name(1, 5), 1), (name(2, 6), 0)];
    model(&before, &[(name(3, 9), Some(0)), (name(2, 6), None)], name(1, 5), 1);
}

/// The cell is full. One more name of lower rank displaces the highest, which moves to the next
/// level.
#[test]
fn a_name_that_its_cell_bumps_is_never_missed() {
    let full: Vec<_> = (0..112).map(|i| (name(i, 100 + i), i as u32 & 1)).collect();
    model(&full, &[(name(200, 1), Some(1))], name(111, 211), 1);
}

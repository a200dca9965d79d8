//! The memory of query halves: what a name takes, and that names which come and go leave nothing behind.

use byname_lookup::flat::line::{self, LineRetrieval};
use byname_lookup::flat::othello::{self, Othello};
use byname_lookup::{Change, EntryId};
use byname_wire::Digest;

use crate::engines::{ALL, Engine, Subject};
use crate::names::digest;

/// Enough names that what a table takes without names hardly counts.
const NAMES: usize = 1 << 17;
/// Bits of memory for a bit of an entry. [Concise §4.2] says at most 4 for Othello. No paper has line retrieval.
const OTHELLO_BITS_MAX: f64 = 3.0;
const LINE_BITS_MAX: f64 = 2.0;

/// The number of a name as a member of a table: each time that a name comes, it gets another entry.
fn set(number: usize, round: usize, entry_bits: u32) -> Change<Digest> {
    let entry = (number + round).wrapping_mul(0x9e37_79b9) as u32 >> (32 - entry_bits);
    Change::Set(digest(number), EntryId(entry))
}

/// Checks the memory of a table for each bit of an entry: of [`NAMES`] names that were built at once, that came in
/// batches, and that came and went.
fn check_bits(what: &str, entry_bits: u32, bits_max: f64, build: impl Fn(&[Digest], &[EntryId]) -> Engine) {
    let (names, entries): (Vec<_>, Vec<_>) = (0..NAMES)
        .map(|number| match set(number, 0, entry_bits) {
            Change::Set(name, entry) => (name, entry),
            Change::Remove(_) => unreachable!("it sets"),
        })
        .unzip();
    let check = |how: &str, subject: &Subject| {
        let bits = subject.fib.memory_bytes() as f64 * 8.0 / (NAMES as f64 * f64::from(entry_bits));
        assert!(bits <= bits_max, "{what}, entries of {entry_bits} bits, {how}: {bits} bits for one");
        // Fewer cannot hold these entries.
        assert!(bits >= 1.0, "{what}, entries of {entry_bits} bits, {how}: {bits} bits for one");
    };
    check("built at once", &Subject::of(build(&names, &entries)));
    let mut subject = Subject::of(build(&[], &[]));
    let numbers: Vec<_> = (0..NAMES).collect();
    for round in 0..3 {
        // At first, all names come. Later, a quarter of them goes and comes again.
        let coming = if round == 0 { &numbers[..] } else { &numbers[round * NAMES / 4..][..NAMES / 4] };
        for batch in coming.chunks(1024) {
            if round > 0 {
                let gone: Vec<_> = batch.iter().map(|&number| Change::Remove(digest(number))).collect();
                subject.apply(&gone).expect("names that are there");
            }
            let come: Vec<_> = batch.iter().map(|&number| set(number, round, entry_bits)).collect();
            subject.apply(&come).expect("room for these names");
            subject.engine.reclaim();
        }
        check(["grown", "changed", "changed twice"][round], &subject);
    }
}

#[test]
fn one_bit_of_an_entry_takes_at_most_four_bits() {
    for entry_bits in [1, 8] {
        check_bits("othello", entry_bits, OTHELLO_BITS_MAX, |names, entries| {
            let options = othello::Options { entry_bits, names_max: NAMES, ..Default::default() };
            Box::new(Othello::construct(options, names, entries).expect("room for these names"))
        });
        check_bits("line", entry_bits, LINE_BITS_MAX, |names, entries| {
            let options = line::Options { entry_bits, names_max: NAMES, ..Default::default() };
            let names: Vec<_> = names.iter().copied().zip(entries.iter().copied()).collect();
            Box::new(LineRetrieval::load(&options, &names).expect("room for these names"))
        });
    }
}

/// Each round has other names than the one before.
#[test]
fn no_engine_grows_by_coming_and_going() {
    const AT_ONCE: usize = 2000;
    for kind in ALL {
        let mut subject = Subject::new(kind, &[], &[]);
        let mut bytes = Vec::new();
        for round in 0..12 {
            let numbers: Vec<_> = (round * AT_ONCE..(round + 1) * AT_ONCE).collect();
            for set in [true, false] {
                for batch in numbers.chunks(100) {
                    let change = |&number| match set {
                        true => Change::Set(digest(number), EntryId(number as u32 & kind.entry_max)),
                        false => Change::Remove(digest(number)),
                    };
                    subject.apply(&batch.iter().map(change).collect::<Vec<_>>()).expect("room for these names");
                    subject.engine.reclaim();
                }
                bytes.push(subject.fib.memory_bytes());
            }
        }
        // In the first rounds, room may still grow to a size that fits. Sizes depend a little on the names.
        let (early, late) = (bytes[..8].iter().max(), bytes[8..].iter().max());
        let (early, late) = (early.expect("four rounds"), late.expect("eight rounds"));
        assert!(late * 4 <= early * 5, "{}: {bytes:?} bytes", kind.name);
    }
}

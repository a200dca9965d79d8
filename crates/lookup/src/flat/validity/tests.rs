use byname_wire::{Digest, NameHashKey};

use super::*;
use crate::entry::EntryId;
use crate::flat::othello::{Options, Othello};
use crate::oracle::FlatOracle;
use crate::update::{BuildError, Change, Control};

const KEY: NameHashKey = NameHashKey::new([1, 2]);

fn digest(number: u32) -> Digest {
    KEY.digest_bytes(&number.to_le_bytes())
}

fn othello(entry_bits: u32) -> Othello {
    Othello::new(Options { entry_bits, ..Options::default() }).expect("a little memory")
}

fn set(number: u32) -> Change<Digest> {
    Change::Set(digest(number), EntryId(number % 256))
}

/// Number of unknown names, of ten thousand, that get an entry. Checks that all known names get
/// theirs.
fn passed(control: &impl Control<Digest, Query = dyn FlatFib>, known: impl Iterator<Item = u32>) -> usize {
    let fib = control.query();
    for number in known {
        assert_eq!(fib.entry(digest(number)), Some(EntryId(number % 256)));
    }
    let unknown: Vec<_> = (1_000_000..1_010_000).map(digest).collect();
    let mut passed = 0;
    for names in unknown.chunks(64) {
        let mut out = vec![None; names.len()];
        fib.entry_burst(names, &mut out);
        assert!(names.iter().zip(&out).all(|(name, found)| fib.entry(*name) == *found));
        passed += out.iter().flatten().count();
    }
    passed
}

#[test]
fn a_checksum_tells_most_unknown_names() {
    let check = Check::new(8, 6);
    let mut control = Checked::new(othello(check.bits()), check);
    control.apply(&(0..5000).map(set).collect::<Vec<_>>()).expect("room");
    control.apply(&(0..1000).map(|number| Change::Remove(digest(number))).collect::<Vec<_>>()).expect("room");
    // The expected number is 156.
    let passed = passed(&control, 1000..5000);
    assert!((90..240).contains(&passed), "{passed}");
    let too_large = control.apply(&[Change::Set(digest(1), EntryId(256))]).expect_err("9 bits");
    assert_eq!(too_large, BuildError::EntryOutOfRange { entry: 256, entries_max: 256 });
}

#[test]
fn a_filter_tells_most_unknown_names() {
    let mut control = Filtered::new(othello(8), [], 0.02);
    for batch in 0..100 {
        let changes: Vec<_> = (batch * 100..batch * 100 + 100).map(set).collect();
        control.apply(&changes).expect("room");
        let gone = (batch * 100..batch * 100 + 50).map(|number| Change::Remove(digest(number)));
        control.apply(&gone.collect::<Vec<_>>()).expect("room");
    }
    let passed = passed(&control, (0..10_000).filter(|number| number % 100 >= 50));
    // The expected number is at most 200, and less if the filter has room.
    assert!((1..280).contains(&passed), "{passed}");
}

#[test]
fn a_filter_is_seen_by_readers_of_before() {
    let mut control = Filtered::new(FlatOracle::new(), [], 0.01);
    assert!(matches!(control.apply(&[set(1)]), Ok(Update::Replace(_))));
    let mut control = Filtered::new(othello(8), [], 0.01);
    let fib = control.query();
    assert!(matches!(control.apply(&[set(1)]), Ok(Update::Patched)));
    assert_eq!(fib.entry(digest(1)), Some(EntryId(1)));
}

#[test]
fn names_are_verified_whole() {
    let mut control = Verified::new(KEY, othello(16));
    let name = |number: u32| number.to_le_bytes().into();
    let set = |number: u32, entry: u32| Change::Set(name(number), EntryId(entry));
    for batch in 0..20 {
        let changes: Vec<_> = (batch * 50..batch * 50 + 100).map(|number| set(number, number + batch)).collect();
        control.apply(&changes).expect("room");
        control.apply(&[Change::Remove(name(batch)), set(batch, 7), Change::Remove(name(batch))]).expect("room");
    }
    let fib = control.query();
    for number in 0..2000u32 {
        let last = (number / 50).min(19);
        let right = (20..1050).contains(&number).then_some(EntryId(number + last));
        assert_eq!(fib.entry(&number.to_le_bytes()), right, "{number}");
    }
    assert_eq!(control.len(), 1030);
    assert!(matches!(control.apply(&[set(1, 0)]), Ok(Update::Patched)));
    assert_eq!(fib.entry(&1u32.to_le_bytes()), Some(EntryId(0)), "readers of before see it");
}

#[test]
fn what_the_engine_refuses_is_refused_whole() {
    let mut control = Verified::new(KEY, othello(1));
    let set = |number: u8| Change::Set([number].into(), EntryId(9));
    control.apply(&[set(0), set(1)]).expect("two numbers have one bit");
    assert!(control.apply(&[Change::Remove([0].into()), set(2), set(3)]).is_err());
    let fib = control.query();
    assert_eq!([0, 1, 2, 3].map(|number| fib.entry(&[number]).is_some()), [true, true, false, false]);
}

use std::collections::HashMap;

use super::*;
use crate::temporary::Temporary;

const CHECKED: Unknown = Unknown::Refused { check_bits: 20 };

fn options(value_bits: u32, unknown: Unknown) -> FlatOptions {
    FlatOptions { value_bits, unknown, ..FlatOptions::default() }
}

fn assert_same(table: &mut FlatTable, right: &HashMap<u64, u32>) {
    assert_eq!(table.len(), right.len());
    let mut reader = table.reader();
    let keys: Vec<u64> = right.keys().copied().collect();
    let values: Vec<_> = keys.iter().map(|key| right.get(key).copied()).collect();
    let mut all = Vec::new();
    reader.get_all(&keys, &mut all);
    assert_eq!(all, values);
    assert!(reader.get_each(keys.iter().copied()).eq(values.iter().copied()));
    assert!(keys.iter().zip(values).all(|(key, value)| table.get(key) == value));
}

#[test]
fn known_keys_have_their_values_whatever_unknown_ones_get() {
    for (bits, unknown) in
        [(1, Unknown::Anything), (8, Unknown::Anything), (32, Unknown::Anything), (12, CHECKED), (32, Unknown::Exact)]
    {
        let options = options(bits, unknown);
        let mut table = FlatTable::with_options(&options).expect("a little memory");
        let mut right = HashMap::new();
        let value = |key: u64| (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as u32;
        table.extend((0..3000u64).map(|key| (key, value(key)))).expect("room");
        right.extend((0..3000u64).map(|key| (key, value(key))));
        for key in (0..3000u64).step_by(3) {
            table.remove(key).expect("a little memory");
            right.remove(&key);
            table.insert(key + 1, value(key)).expect("room");
            right.insert(key + 1, value(key));
        }
        assert_same(&mut table, &right);
        let mut loaded = FlatTable::load(&options, right.iter().map(|(key, value)| (*key, *value)), &mut |_| {});
        assert_same(loaded.as_mut().expect("room"), &right);
    }
}

/// Several parts, which threads take in turn.
#[test]
fn tables_built_on_several_threads_are_those_of_one() {
    let keys = || (0..400_000u64).map(|key| (key, (key % 250) as u32));
    let key = Some(NameHashKey::new([3, 4]));
    let load = |threads| {
        let options = FlatOptions { threads, key, ..options(8, Unknown::Anything) };
        let mut reported = Vec::new();
        let table = FlatTable::load(&options, keys(), &mut |read| reported.push(read)).expect("room");
        assert!(reported.is_sorted() && reported.last() == Some(&400_000));
        table
    };
    let (mut one, mut three) = (load(1), load(3));
    assert!(keys().all(|(key, value)| three.get(key) == Some(value)));
    // Strangers' answers show that the tables are equal bit by bit.
    assert!((1_000_000..1_010_000u64).all(|key| one.get(key) == three.get(key)));
    three.insert(5u64, 9).expect("room");
    assert_eq!((three.get(5u64), three.len()), (Some(9), 400_000));
    let names_max = FlatOptions { threads: 3, keys_max: 1000, ..options(8, Unknown::Anything) };
    assert!(matches!(
        FlatTable::load(&names_max, keys(), &mut |_| {}),
        Err(TableError::Build(BuildError::Full { .. }))
    ));
}

#[test]
fn unknown_keys_get_what_the_options_say() {
    let unknown = |unknown| {
        let mut table = FlatTable::with_options(&options(12, unknown)).expect("a little memory");
        table.extend((0..3000u64).map(|key| (key, (key % 4096) as u32))).expect("room");
        (10_000..20_000u64).filter(|key| table.get(key).is_some()).count()
    };
    assert_eq!(unknown(Unknown::Exact), 0);
    assert!(unknown(CHECKED) <= 1, "2^-20 each");
    assert!(unknown(Unknown::Anything) > 9000);
    // Keys of different lengths are different keys.
    let mut table = FlatTable::with_options(&options(8, Unknown::Exact)).expect("a little memory");
    table.insert("", 1).expect("room");
    table.insert(vec![0u8; 100_000], 2).expect("room");
    assert_eq!((table.get(""), table.get(vec![0u8; 100_000]), table.get(vec![0u8; 99_999])), (Some(1), Some(2), None));
}

#[test]
fn what_does_not_fit_is_refused_with_its_numbers() {
    for (bits, unknown) in
        [(0, Unknown::Anything), (33, Unknown::Exact), (20, CHECKED), (8, Unknown::Refused { check_bits: 0 })]
    {
        let made = FlatTable::with_options(&options(bits, unknown));
        assert!(matches!(made, Err(TableError::Bits { value_bits, .. }) if value_bits == bits), "{bits} {unknown:?}");
    }
    let huge = Unknown::Refused { check_bits: u32::MAX };
    assert!(matches!(FlatTable::with_options(&options(8, huge)), Err(TableError::Bits { .. })));
    for unknown in [Unknown::Anything, CHECKED, Unknown::Exact] {
        let mut table = FlatTable::with_options(&options(8, unknown)).expect("a little memory");
        let refused = table.apply([("a", Some(255)), ("b", Some(256))]);
        let expected = BuildError::EntryOutOfRange { entry: 256, entries_max: 256 };
        assert!(matches!(refused, Err(TableError::Build(error)) if error == expected));
        assert_eq!(table.len(), 0);
    }
}

#[test]
fn panics_in_callbacks_change_nothing_and_readers_outlive_their_tables() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    for unknown in [Unknown::Anything, CHECKED, Unknown::Exact] {
        let mut table = FlatTable::with_options(&options(12, unknown)).expect("a little memory");
        table.extend((0..3000u64).map(|key| (key, key as u32 % 4000))).expect("room");
        let changes = (0..100u64).map(|key| {
            assert!(key < 50, "as planned");
            (key, Some(9))
        });
        assert!(catch_unwind(AssertUnwindSafe(|| table.apply(changes))).is_err());
        table.insert(7u64, 77).expect("room");
        let mut reader = table.reader();
        drop(table);
        let right = |key: u64| Some(if key == 7 { 77 } else { key as u32 % 4000 });
        let thread = std::thread::spawn(move || (0..3000u64).all(|key| reader.get(key) == right(key)));
        assert!(thread.join().expect("lookups do not panic"));
    }
}

#[test]
fn files_answer_as_their_tables_did() {
    let file = Temporary::new("same");
    for (bits, unknown) in [(1, Unknown::Anything), (3, Unknown::Anything), (32, Unknown::Anything), (12, CHECKED)] {
        let mut table = FlatTable::with_options(&options(bits, unknown)).expect("a little memory");
        let value = |key: u64| (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as u32;
        // Several parts, of which some were split.
        table.extend((0..200_000u64).map(|key| (key, value(key)))).expect("room");
        table.save(&file.0).expect("a new file");
        let mut reader = FlatReader::open(&file.0, Opening::default()).expect("ours");
        assert!((0..200_000u64).all(|key| reader.get(key) == Some(value(key))));
        let strangers: Vec<u64> = (1_000_000..1_001_000).collect();
        let mut found = Vec::new();
        reader.get_all(&strangers, &mut found);
        assert!(strangers.iter().zip(found).all(|(key, found)| table.get(key) == found));
    }
    let exact = FlatTable::with_options(&options(8, Unknown::Exact)).expect("a little memory").save(&file.0);
    assert!(matches!(exact, Err(TableError::NoFile)));
}

#[test]
fn forged_files_are_refused_or_give_wrong_answers() {
    let file = Temporary::new("forged");
    let mut table = FlatTable::with_options(&options(12, CHECKED)).expect("a little memory");
    table.extend((0..5000u64).map(|key| (key, (key % 4000) as u32))).expect("room");
    table.save(&file.0).expect("a new file");
    let whole = std::fs::read(&file.0).expect("ours");
    let section = |number: usize, at: usize| {
        let at = 48 + 24 * (number - 1) + at;
        u64::from_le_bytes(whole[at..at + 8].try_into().expect("eight")) as usize
    };
    let forge = |alter: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        alter(&mut bytes);
        for number in 1..=4 {
            let (from, len, at) = (section(number, 8), section(number, 16), 48 + 24 * (number - 1) + 4);
            let crc = crc32c::crc32c(&bytes[from..from + len]);
            bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        }
        let crc = crc32c::crc32c(&bytes[..4092]);
        bytes[4092..4096].copy_from_slice(&crc.to_le_bytes());
        std::fs::write(&file.0, bytes).expect("ours");
        FlatReader::open(&file.0, Opening::default())
    };
    // Bits of an entry, bits of a part, a part's number; cells; bits of a value and of a checksum.
    for (number, at, forged) in [
        (1, 0, 0u32),
        (1, 0, 33),
        (1, 4, 17),
        (1, 4, 1),
        (1, 8, 7),
        (2, 0, 0),
        (2, 4, u32::MAX),
        (4, 0, 31),
        (4, 4, 99),
    ] {
        let opened = forge(&|bytes| {
            let at = section(number, 8) + at;
            bytes[at..at + 4].copy_from_slice(&forged.to_le_bytes());
        });
        assert!(matches!(opened, Err(TableError::File(FileError::Malformed { .. }))), "{number} {at} {forged}");
    }
    let opened = forge(&|bytes| {
        let mut state = 9u64;
        for byte in &mut bytes[section(3, 8)..section(3, 8) + section(3, 16)] {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 33) as u8;
        }
    });
    let mut reader = opened.expect("right checksums");
    let keys: Vec<u64> = (0..5000).collect();
    reader.get_all(&keys, &mut Vec::new());
    assert!(keys.iter().all(|key| reader.get(key).is_none_or(|value| value < 4096)));
}

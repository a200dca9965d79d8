use std::collections::HashMap;

use super::*;

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

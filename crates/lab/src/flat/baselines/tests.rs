//! Compares each baseline with a map: all names must be right, or wrong no more often than the formula says.

use std::collections::BTreeMap;

use super::*;
use crate::workload::Random;

/// Actions of names, by the names' bytes.
#[derive(Default, Clone)]
struct Names {
    actions: BTreeMap<Vec<u8>, EntryId>,
    bytes: Option<usize>,
    room: usize,
}

impl Population for Names {
    fn len(&self) -> usize {
        self.actions.len()
    }

    fn names_max(&self) -> usize {
        self.actions.len() + self.room
    }

    fn bytes(&self) -> Option<usize> {
        self.bytes
    }

    fn visit(&self, visitor: &mut dyn FnMut(FlatName<'_>, EntryId)) {
        self.actions.iter().for_each(|(bytes, action)| visitor(name(bytes), *action));
    }
}

/// A name with a digest that replaces a keyed one.
fn name(bytes: &[u8]) -> FlatName<'_> {
    let hash = |seed| bytes.iter().fold(seed, |hash, &byte| Random::of(hash, byte.into()).bits());
    FlatName { bytes, digest: Digest { hash: hash(1), check: hash(2) } }
}

/// Random bytes: `size`, or 4 to 60 if there is no size.
fn bytes(random: &mut Random, size: Option<usize>) -> Vec<u8> {
    let size = size.unwrap_or_else(|| 4 + random.below(57) as usize);
    (0..size).map(|_| random.bits() as u8).collect()
}

fn action(random: &mut Random, action_bits: u32) -> EntryId {
    EntryId(random.below(1 << action_bits) as u32)
}

/// `count` random names, and two special names: zeros (or the empty name), and 0xff bytes.
fn random_names(count: usize, size: Option<usize>, action_bits: u32) -> Names {
    let mut random = Random::new(size.map_or(0, |size| size as u64) << 8 | u64::from(action_bits));
    let mut names = Names { bytes: size, ..Names::default() };
    while names.actions.len() < count {
        let bytes = bytes(&mut random, size);
        names.actions.insert(bytes, action(&mut random, action_bits));
    }
    names.actions.insert(vec![0; size.unwrap_or(0)], action(&mut random, action_bits));
    names.actions.insert(vec![0xff; size.unwrap_or(300)], action(&mut random, action_bits));
    names
}

/// Looks names up in bursts of all lengths. Checks that a burst of one gives the same answer.
fn answers(table: &dyn Baseline, names: &[FlatName<'_>]) -> Vec<Option<EntryId>> {
    let mut out = vec![None; names.len()];
    let (mut start, mut length) = (0, 1);
    while start < names.len() {
        let end = names.len().min(start + length);
        table.query_burst(&names[start..end], &mut out[start..end]);
        (start, length) = (end, length % BURST_MAX + 1);
    }
    for (name, found) in names.iter().zip(&out) {
        let mut alone = [None];
        table.query_burst(std::slice::from_ref(name), &mut alone);
        assert_eq!(alone[0], *found);
        assert!(table.lines_read(name) > 0);
    }
    out
}

/// Fails if more answers than the structure's own rate allows are wrong.
fn assert_right(which: &str, table: &dyn Baseline, actions: &BTreeMap<Vec<u8>, EntryId>) {
    let (names, right): (Vec<_>, Vec<_>) = actions.iter().map(|(bytes, action)| (name(bytes), Some(*action))).unzip();
    let wrong = answers(table, &names).iter().zip(&right).filter(|(found, right)| found != right).count();
    // The limit is generous enough that chance cannot exceed it. It is 0 if no wrong answers are allowed.
    let allowed = (names.len() as f64 * table.wrong_rate() * 2.0).ceil() * 4.0;
    assert!(wrong as f64 <= allowed, "{which}: {wrong} of {} wrong", names.len());
}

#[test]
fn every_baseline_knows_its_names() {
    for kind in KINDS {
        for size in [Some(6), Some(8), Some(16), Some(20), Some(32), Some(45), Some(11), None] {
            for action_bits in [1, 5, 8, 16] {
                let names = random_names(2000, size, action_bits);
                let table = (kind.construct)(&names, action_bits).expect("actions below two to the bits");
                assert_right(kind.name, &*table, &names.actions);
            }
        }
    }
}

#[test]
fn every_baseline_but_buffalo_takes_actions_of_32_bits() {
    for kind in KINDS.iter().filter(|kind| kind.name != "buffalo") {
        let names = random_names(500, Some(8), 32);
        let table = (kind.construct)(&names, 32).expect("32 bits");
        assert_right(kind.name, &*table, &names.actions);
    }
}

#[test]
fn few_names_are_no_special_case() {
    for kind in KINDS {
        for count in 0..20 {
            let mut names = random_names(count, Some(8), 8);
            names.actions.retain(|_, action| action.0 as usize % 20 <= count);
            let table = (kind.construct)(&names, 8).expect("actions of eight bits");
            assert_right(kind.name, &*table, &names.actions);
            let mut found = [None];
            table.query_burst(&[name(b"unknown!")], &mut found);
            table.query_burst(&[], &mut []);
        }
    }
}

#[test]
fn tables_of_whole_names_know_what_is_not_there() {
    for kind in KINDS.iter().filter(|kind| ["cuckoo", "binary_search"].contains(&kind.name)) {
        for size in [Some(6), Some(8), Some(45), None] {
            let mut names = random_names(2000, size, 8);
            let table = (kind.construct)(&names, 8).expect("actions of eight bits");
            let mut random = Random::new(7);
            let others: Vec<_> = (0..2000).map(|_| bytes(&mut random, size)).collect();
            let others: Vec<_> = others.iter().map(|bytes| name(bytes)).collect();
            assert!(answers(&*table, &others).iter().all(Option::is_none), "{}", kind.name);
            // Names that must be absent: a prefix of a stored name, and zeros.
            names.actions.remove(&vec![0; size.unwrap_or(0)]);
            let table = (kind.construct)(&names, 8).expect("actions of eight bits");
            let zeros = vec![0; size.unwrap_or(0)];
            assert_eq!(answers(&*table, &[name(&zeros), name(&[0xff; 299])]), [None, None], "{}", kind.name);
        }
    }
}

#[test]
fn changes_leave_what_a_map_has() {
    for kind in KINDS {
        for size in [Some(8), Some(45), None] {
            let mut names = random_names(3000, size, 8);
            names.room = 1000;
            let mut table = (kind.construct)(&names, 8).expect("actions of eight bits");
            let Some(changes) = table.changes() else { continue };
            let mut random = Random::new(5);
            let mut gone = Vec::new();
            for round in 0..20_000 {
                let adds = names.actions.len() < 2500 || (names.actions.len() < 3900 && random.below(3) == 0);
                let (bytes, before, after) = match adds {
                    true => (bytes(&mut random, size), None, Some(action(&mut random, 8))),
                    false => {
                        let from = bytes(&mut random, size);
                        let (bytes, before) =
                            names.actions.range(from..).next().unwrap_or(names.actions.iter().next().expect("many"));
                        let after = (random.below(2) == 0).then(|| action(&mut random, 8));
                        (bytes.clone(), Some(*before), after)
                    }
                };
                changes.change(name(&bytes), before, after).expect("there is room");
                match after {
                    Some(action) => _ = names.actions.insert(bytes, action),
                    None => {
                        names.actions.remove(&bytes);
                        gone.push(bytes);
                    }
                }
                assert!(round < 10 || names.actions.len() > 2000);
            }
            assert_right(kind.name, &*table, &names.actions);
            if kind.name == "cuckoo" {
                gone.retain(|bytes| !names.actions.contains_key(bytes));
                let gone: Vec<_> = gone.iter().map(|bytes| name(bytes)).collect();
                assert!(answers(&*table, &gone).iter().all(Option::is_none));
            }
        }
    }
}

#[test]
fn an_action_that_no_name_had_is_one_like_others() {
    for kind in KINDS {
        let mut names = random_names(500, Some(8), 8);
        names.actions.retain(|_, action| action.0 < 255);
        let mut table = (kind.construct)(&names, 8).expect("actions of eight bits");
        let Some(changes) = table.changes() else { continue };
        let (bytes, action) = names.actions.iter_mut().next().expect("hundreds");
        changes.change(name(bytes), Some(*action), Some(EntryId(255))).expect("eight bits");
        *action = EntryId(255);
        assert_right(kind.name, &*table, &names.actions);
        assert!(table.wrong_rate() < 2.0 * WRONG_RATE_MAX, "{}", kind.name);
    }
}

#[test]
fn filters_that_lose_all_names_are_empty() {
    for which in ["buffalo", "orthogonal"] {
        let kind = KINDS.iter().find(|kind| kind.name == which).expect("a baseline");
        let names = random_names(2000, Some(8), 8);
        let mut table = (kind.construct)(&names, 8).expect("actions of eight bits");
        let changes = table.changes().expect("filters change");
        for (bytes, action) in &names.actions {
            changes.change(name(bytes), Some(*action), None).expect("a deletion needs no room");
        }
        assert_eq!(table.wrong_rate(), 0.0);
        let known: Vec<_> = names.actions.keys().map(|bytes| name(bytes)).collect();
        let found = answers(&*table, &known);
        assert!(found.iter().all(|answer| *answer == found[0]), "{which}");
    }
}

#[test]
fn an_addition_without_room_changes_nothing() {
    let names = random_names(2000, Some(8), 8);
    let mut table = Cuckoo::<Inline<8>>::construct(&names, 8).expect("actions of eight bits");
    let (mut actions, mut random) = (names.actions.clone(), Random::new(3));
    let full = loop {
        let (bytes, action) = (bytes(&mut random, Some(8)), action(&mut random, 8));
        match table.change(name(&bytes), None, Some(action)) {
            Ok(()) => actions.insert(bytes, action),
            Err(error) => break error,
        };
    };
    // The name of zeros is stored separately.
    assert_eq!(full, BuildError::Full { rules: actions.len() - 1 });
    let load = actions.len() as f64 / (2000.0 / 0.95);
    assert!((0.95..1.0).contains(&load), "{load}");
    assert_right("cuckoo", &table, &actions);
}

#[test]
fn a_name_that_is_added_twice_is_there_once() {
    let names = random_names(100, None, 8);
    let mut table = Cuckoo::<Reference>::construct(&names, 8).expect("actions of eight bits");
    for (bytes, action) in &names.actions {
        table.change(name(bytes), None, Some(EntryId(action.0 ^ 3))).expect("it is there already");
        assert_eq!(answers(&table, &[name(bytes)]), [Some(EntryId(action.0 ^ 3))]);
        table.change(name(bytes), Some(*action), None).expect("a deletion needs no room");
        assert_eq!(answers(&table, &[name(bytes)]), [None]);
    }
}

#[test]
fn actions_that_do_not_fit_are_refused() {
    for kind in KINDS {
        let mut names = random_names(100, Some(8), 8);
        names.actions.insert(b"too much".to_vec(), EntryId(256));
        let refused = Some(BuildError::EntryOutOfRange { entry: 256, entries_max: 256 });
        assert_eq!((kind.construct)(&names, 8).err(), refused, "{}", kind.name);
        names.actions.remove(&b"too much"[..]);
        let mut table = (kind.construct)(&names, 8).expect("actions of eight bits");
        if let Some(changes) = table.changes() {
            assert_eq!(changes.change(name(b"too much"), None, Some(EntryId(256))).err(), refused, "{}", kind.name);
        }
        assert_right(kind.name, &*table, &names.actions);
    }
}

#[test]
fn filters_are_wrong_as_often_as_their_formula_says() {
    let names = random_names(20_000, Some(8), 8);
    let mut random = Random::new(1);
    let others: Vec<_> = (0..400_000).map(|_| bytes(&mut random, Some(8))).collect();
    let others: Vec<_> = others.iter().map(|bytes| name(bytes)).collect();
    for which in ["buffalo", "orthogonal"] {
        let kind = KINDS.iter().find(|kind| kind.name == which).expect("a baseline");
        let table = (kind.construct)(&names, 8).expect("actions of eight bits");
        assert!(table.wrong_rate() > WRONG_RATE_MAX / 3.0 && table.wrong_rate() < WRONG_RATE_MAX * 1.01);
        let answers = answers(&*table, &others);
        // Most unknown names get the answer for "no filter matches".
        let nothing = answers[0];
        let positives = answers.iter().filter(|answer| **answer != nothing).count() as f64;
        let expected = table.wrong_rate() * others.len() as f64;
        assert!((positives - expected).abs() < 5.0 * expected.sqrt(), "{which}: {positives}, not {expected}");
    }
}

#[test]
fn the_optimiser_pays_where_actions_differ_in_their_names() {
    // About half of the names have one action. The others are spread over the odd actions.
    let mut names = random_names(20_000, Some(8), 8);
    names.actions.values_mut().filter(|action| action.0 % 2 == 0).for_each(|action| *action = EntryId(0));
    let table = Buffalo::construct(&names, 8).expect("actions of eight bits");
    assert!(table.wrong_rate() <= WRONG_RATE_MAX * 1.001);
    let bits_per_name = table.memory_bytes() as f64 * 8.0 / names.len() as f64;
    // Equal shares need 46.5.
    assert!((30.0..45.0).contains(&bits_per_name), "{bits_per_name}");
    assert_right("buffalo", &table, &names.actions);
}

#[test]
fn memory_is_what_the_documentation_says() {
    let names = random_names(100_000, Some(8), 8);
    // Filters and blocks of random sizes take a little more memory than those of equal sizes.
    let documented = [
        ("cuckoo", 72.0 / 0.95..76.5),
        ("buffalo", 46.5..51.0),
        ("orthogonal", 93.0..95.5),
        ("setsep", 12.5..12.8),
        ("binary_search", 72.0..72.1),
    ];
    for (kind, (which, bits)) in KINDS.iter().zip(documented) {
        assert_eq!(kind.name, which);
        let table = (kind.construct)(&names, 8).expect("actions of eight bits");
        let bits_per_name = table.memory_bytes() as f64 * 8.0 / names.len() as f64;
        assert!(bits.contains(&bits_per_name), "{which}: {bits_per_name}");
    }
}

#[test]
fn crowded_groups_fall_back_to_digests() {
    /// Names that all hash to one bucket.
    struct OneBucket(Vec<(Digest, EntryId)>);

    impl Population for OneBucket {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn bytes(&self) -> Option<usize> {
            Some(0)
        }

        fn visit(&self, visitor: &mut dyn FnMut(FlatName<'_>, EntryId)) {
            self.0.iter().for_each(|&(digest, action)| visitor(FlatName { bytes: &[], digest }, action));
        }
    }

    let mut rules: Vec<_> =
        (0..60).map(|i| (Digest { hash: 5, check: Random::new(i).bits() }, EntryId(i as u32))).collect();
    let table = SetSep::construct(&OneBucket(rules.clone()), 8).expect("different digests");
    let names: Vec<_> = rules.iter().map(|&(digest, _)| FlatName { bytes: &[], digest }).collect();
    let right: Vec<_> = rules.iter().map(|&(_, action)| Some(action)).collect();
    assert_eq!(answers(&table, &names), right);

    // A digest with two actions has no function and cannot go into the fallback table.
    rules.push((rules[7].0, EntryId(8)));
    assert_eq!(SetSep::construct(&OneBucket(rules), 8).err(), Some(BuildError::Collision));
}

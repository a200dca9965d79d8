//! Tests of the whole table against a map, and of its costs.

use std::collections::HashMap;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::flat::BURST_MAX;

fn named(rng: &mut SmallRng, names: usize, entry_bits: u32) -> Vec<(Digest, EntryId)> {
    let entry = |rng: &mut SmallRng| EntryId(rng.random::<u32>() >> (32 - entry_bits));
    (0..names).map(|_| (Digest { hash: rng.random(), check: rng.random() }, entry(rng))).collect()
}

fn assert_answers(fib: &dyn FlatFib, names: &[(Digest, EntryId)]) {
    for names in names.chunks(BURST_MAX) {
        let asked: Vec<_> = names.iter().map(|&(name, _)| name).collect();
        let mut out = vec![None; asked.len()];
        fib.entry_burst(&asked, &mut out);
        for (found, (name, entry)) in out.iter().zip(names) {
            assert_eq!(*found, Some(*entry), "{name:?}");
        }
    }
}

fn bits_a_name(fib: &dyn FlatFib, names: usize) -> f64 {
    (fib.memory_bytes() * 8) as f64 / names as f64
}

#[test]
fn every_width_answers_every_name_with_all_instructions() {
    let mut rng = SmallRng::seed_from_u64(1);
    for entry_bits in 1..=32 {
        let names = named(&mut rng, 20_000, entry_bits);
        for instructions in [Instructions::Portable, Instructions::Avx2, Instructions::Avx512] {
            let options = Options { entry_bits, instructions, ..Default::default() };
            let control = LineRetrieval::load(&options, &names).expect("a little memory");
            assert_eq!(control.len(), names.len());
            assert_answers(&*control.query(), &names);
        }
    }
}

/// Applies batches of many sizes to tables that grow by a factor of a hundred and shrink again, and
/// checks every query half that readers get.
fn assert_changes_are_right(entry_bits: u32, names_most: usize, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let pool = named(&mut rng, names_most, entry_bits);
    let mut control = LineRetrieval::new(&Options { entry_bits, ..Default::default() });
    let mut fib = control.query();
    let mut known = HashMap::new();
    for turn in 0..60 {
        // Grow to four fifths, then shrink to a few.
        let wanted = if turn < 40 { names_most * (turn + 1) / 50 } else { names_most / (turn - 38) };
        while known.len().abs_diff(wanted) > names_most / 100 {
            let batch = [1, 7, 100, 5000][rng.random_range(0..4)].min(known.len().abs_diff(wanted));
            let changes: Vec<_> = (0..batch)
                .map(|_| {
                    let (name, _) = pool[rng.random_range(0..pool.len())];
                    let sets = rng.random_range(0..100) < if known.len() < wanted { 90 } else { 1 };
                    match sets {
                        true => Change::Set(name, EntryId(rng.random::<u32>() >> (32 - entry_bits))),
                        false => Change::Remove(name),
                    }
                })
                .collect();
            for change in &changes {
                match *change {
                    Change::Set(name, entry) => known.insert(name, entry),
                    Change::Remove(name) => known.remove(&name),
                };
            }
            if let Update::Replace(new) = control.apply(&changes).expect("in range") {
                fib = new;
            }
            assert_eq!(control.len(), known.len());
        }
        let known: Vec<_> = known.iter().map(|(&name, &entry)| (name, entry)).collect();
        assert_answers(&*fib, &known);
        assert_answers(&*control.query(), &known);
    }
}

#[test]
fn changes_of_all_kinds_are_right_while_tables_grow_and_shrink() {
    for entry_bits in [1, 8, 32] {
        assert_changes_are_right(entry_bits, 1000, u64::from(entry_bits));
    }
}

#[test]
fn parts_split_and_come_together() {
    let mut rng = SmallRng::seed_from_u64(6);
    let names = named(&mut rng, 300_000, 8);
    let mut control = LineRetrieval::new(&Options::default());
    let mut fib = control.query();
    for some in names.chunks(1000) {
        let changes: Vec<_> = some.iter().map(|&(name, entry)| Change::Set(name, entry)).collect();
        if let Update::Replace(new) = control.apply(&changes).expect("in range") {
            fib = new;
        }
    }
    assert_answers(&*fib, &names);
    // Up to an eighth is room for growth, and another eighth lies apart for now.
    let bits = bits_a_name(&*fib, names.len());
    assert!(bits < 12.0, "{bits}");
    assert!(control.control_bytes() < 36 * names.len(), "{}", control.control_bytes() / names.len());
}

#[test]
fn bits_a_name_stay_level_and_follow_the_entries() {
    let mut rng = SmallRng::seed_from_u64(7);
    let mut bits = |names, entry_bits| {
        let names = named(&mut rng, names, entry_bits);
        let control = LineRetrieval::load(&Options { entry_bits, ..Default::default() }, &names).expect("memory");
        bits_a_name(&*control.query(), names.len())
    };
    let [small, large] = [bits(200_000, 8), bits(1_000_000, 8)];
    // The counters of changes add a third of a bit for each name of the small table.
    assert!(small < 9.6 && large < 9.3 && large > 8.5, "{small} {large}");
    assert!(bits(200_000, 5) <= small * 5.0 / 8.0 * 1.02);
    assert!(bits(200_000, 32) <= 43.0);
}

#[test]
fn a_batch_is_applied_whole_or_not_at_all() {
    let mut rng = SmallRng::seed_from_u64(8);
    let names = named(&mut rng, 4, 8);
    let set = |i: usize| Change::Set(names[i].0, names[i].1);
    let mut control = LineRetrieval::new(&Options { names_max: 2, ..Default::default() });
    let wide = Change::Set(names[1].0, EntryId(256));
    let refused = control.apply(&[set(0), wide]).map(|_| ());
    assert_eq!(refused, Err(BuildError::EntryOutOfRange { entry: 256, entries_max: 256 }));
    assert_eq!(control.len(), 0);
    assert_eq!(control.apply(&[set(0), set(1), set(2)]).map(|_| ()), Err(BuildError::Full { rules: 2 }));
    assert_eq!(control.len(), 0);
    control.apply(&[set(0), set(1), set(0), Change::Remove(names[1].0), set(2)]).expect("two remain");
    assert_answers(&*control.query(), &[names[0], names[2]]);
}

#[test]
fn of_a_name_that_comes_twice_the_last_counts() {
    let mut rng = SmallRng::seed_from_u64(9);
    let mut names = named(&mut rng, 5000, 8);
    let again: Vec<_> = names[..1000].iter().map(|&(name, entry)| (name, EntryId(entry.0 ^ 1))).collect();
    names.extend(&again);
    let control = LineRetrieval::load(&Options::default(), &names).expect("memory");
    assert_eq!(control.len(), 5000);
    assert_answers(&*control.query(), &again);
    assert_answers(&*control.query(), &names[1000..5000]);
}

/// Names of one rank in one cell of the first level.
fn crowd(rng: &mut SmallRng, names: usize) -> Vec<(Digest, EntryId)> {
    let mut names = named(rng, names, 8);
    names.iter_mut().for_each(|(name, _)| name.hash = 7);
    names
}

#[test]
fn digests_that_no_keyed_hash_makes_are_refused_and_nothing_is_changed() {
    let mut rng = SmallRng::seed_from_u64(14);
    let skewed = |result: Result<(), BuildError>| matches!(result, Err(BuildError::Skewed { .. }));
    let many = crowd(&mut rng, 10_000);
    assert!(skewed(LineRetrieval::load(&Options::default(), &many).map(|_| ())));

    let pool = named(&mut rng, 4000, 8);
    let mut control = LineRetrieval::load(&Options::default(), &pool[..3000]).expect("memory");
    let mut fib = control.query();
    let mut known: HashMap<_, _> = pool[..3000].iter().copied().collect();
    let set = |&(name, entry): &(Digest, EntryId)| Change::Set(name, entry);
    let all: Vec<_> = many.iter().map(set).collect();
    assert!(skewed(control.apply(&all).map(|_| ())));
    let mut refused = 0;
    for crowd in many[..2000].chunks(40) {
        // Other names come, go and change beside them, some of them twice.
        let mut changes: Vec<_> = crowd.iter().map(set).collect();
        for _ in 0..120 {
            let (name, _) = pool[rng.random_range(0..pool.len())];
            let change = match rng.random_range(0..3) {
                0 => Change::Remove(name),
                _ => Change::Set(name, EntryId(rng.random_range(0..256))),
            };
            changes.insert(rng.random_range(0..changes.len()), change);
        }
        match control.apply(&changes) {
            Ok(update) => {
                for change in changes {
                    match change {
                        Change::Set(name, entry) => known.insert(name, entry),
                        Change::Remove(name) => known.remove(&name),
                    };
                }
                if let Update::Replace(new) = update {
                    fib = new;
                }
            }
            Err(BuildError::Skewed { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        assert_eq!(control.len(), known.len());
        let known: Vec<_> = known.iter().map(|(&name, &entry)| (name, entry)).collect();
        assert_answers(&*fib, &known);
        assert_answers(&*control.query(), &known);
    }
    assert!((1..50).contains(&refused), "{refused}");
}

#[test]
fn a_bulk_load_in_shares_equals_one_that_keeps_its_names() {
    let mut rng = SmallRng::seed_from_u64(10);
    let names = named(&mut rng, 500_000, 8);
    let mut told = Vec::new();
    let load = BulkLoad { names_at_once: 150_000, progress: &mut |names| told.push(names) };
    let fib = bulk_load(&Options::default(), || names.iter().copied(), load).expect("memory");
    assert_answers(&*fib, &names);
    assert_eq!(told.last(), Some(&names.len()));
    assert_eq!(told.len(), 4);
    let kept = LineRetrieval::load(&Options::default(), &names).expect("memory");
    assert_eq!(fib.memory_bytes(), kept.query().memory_bytes());
}

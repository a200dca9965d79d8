//! Files that are changed in place, against the oracle and against files made anew.

use std::collections::BTreeMap;

use byname_wire::NameHashKey;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::file::changes::tests::Temporary as WithChanges;
use crate::file::changes::tests::append_edits;
use crate::file::{Checked, Source};
use crate::oracle::Oracle;
use crate::prefix::PrefixFib;
use crate::prefix::compact::{BulkLoader, BulkTable, NodeCounter};
use crate::temporary::Temporary;
use crate::update::Control;

type Rules = BTreeMap<Name, EntryId>;

const KEY: NameHashKey = NameHashKey::new([7, 8]);

/// Names that are prefixes of each other, and share beginnings.
fn name(rng: &mut SmallRng) -> Name {
    let (depth, few) = (rng.random_range(0..7), rng.random_range(2..400));
    (0..depth).fold(Name::default(), |name, _| name.join_number(8, rng.random_range(0..few)))
}

fn rules(count: usize, rng: &mut SmallRng) -> Rules {
    (0..count).map(|_| (name(rng), EntryId(rng.random_range(0..10)))).collect()
}

fn save(rules: &Rules, options: &Options, path: &Path) {
    let mut counter = NodeCounter::default();
    rules.keys().for_each(|name| counter.push(name.as_ref()).unwrap());
    let mut loader = BulkLoader::new(KEY, counter.nodes_rounded(), options).unwrap();
    rules.iter().for_each(|(name, entry)| loader.push(name.as_ref(), *entry).unwrap());
    let mut table = loader.finish_table(options).unwrap();
    table.set_labels(vec![b"label".as_slice().into(); 10]);
    table.save(path).unwrap();
}

fn live<'a>(path: &Path, rules: impl IntoIterator<Item = (&'a Name, &'a EntryId)>) -> Result<LiveTable, LiveError> {
    let mut loader = LiveLoader::open(path, &Options::default())?;
    for (name, entry) in rules {
        loader.push(name.as_ref(), *entry)?;
    }
    loader.finish()
}

fn put(edits: &[Edit], path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    for Edit { at, bytes: new } in edits {
        bytes[*at as usize..][..new.len()].copy_from_slice(new);
    }
    std::fs::write(path, bytes).unwrap();
}

/// Some changes of rules that are there, and some new rules, above and below others.
fn changes(rules: &Rules, count: usize, rng: &mut SmallRng) -> Vec<Change<Name>> {
    let all: Vec<&Name> = rules.keys().collect();
    let changes = (0..count).map(|_| {
        let known = all.get(rng.random_range(0..all.len().max(1)));
        let entry = EntryId(rng.random_range(0..10));
        match (rng.random_range(0..5), known) {
            (0, Some(known)) => Change::Set((*known).clone(), entry),
            (1, Some(known)) => Change::Set((*known).clone().join_number(8, rng.random_range(0..3)), entry),
            (2 | 3, Some(known)) => Change::Remove((*known).clone()),
            _ => Change::Set(name(rng), entry),
        }
    });
    changes.collect()
}

fn assert_same<'a>(source: impl Into<Source<'a>>, rules: &Rules, rng: &mut SmallRng) {
    // Opening compares checksums.
    let table = BulkTable::open(source, Opening::default(), &Options::default()).unwrap();
    assert_eq!((table.len(), table.labels().len()), (rules.len(), 10));
    let mut oracle = Oracle::new();
    let all: Vec<_> = rules.iter().map(|(name, entry)| Change::Set(name.clone(), *entry)).collect();
    oracle.apply(&all).unwrap();
    let mut hashes = [PrefixHashes::default(), PrefixHashes::default()];
    let [one, two] = &mut hashes;
    let asked = rules.keys().cloned().chain((0..2_000).map(|_| name(rng)));
    for asked in asked.flat_map(|name| [name.clone(), name.join_number(8, 1)]) {
        let found = table.query().longest_match(&NameView::new(&KEY, asked.as_ref(), one));
        assert_eq!(found, oracle.longest_match(&NameView::new(&KEY, asked.as_ref(), two)), "{asked}");
    }
}

#[test]
fn files_that_change_answer_as_files_made_anew() {
    let file = Temporary::new("changes");
    // Without filters of depths, and with them; from nothing, too.
    for (seed, count) in [0, 1, 300, 40_000].into_iter().enumerate() {
        let rng = &mut SmallRng::seed_from_u64(seed as u64);
        let mut rules = rules(count, rng);
        save(&rules, &Options::default(), &file.0);
        let mut table = live(&file.0, &rules).unwrap();
        assert_same(&file.0, &rules, rng);
        for round in 0..12 {
            // The smallest tables have room for few rules.
            let changes = changes(&rules, if count < 300 { 2 } else { 12 }, rng);
            for change in &changes {
                match change.parts() {
                    (name, Some(entry)) => drop(rules.insert(name.clone(), entry)),
                    (name, None) => drop(rules.remove(name)),
                }
            }
            let edits = match table.apply(&changes) {
                Ok(edits) => edits,
                Err(error) => {
                    assert!(count < 300, "{error}");
                    save(&rules, &Options::default(), &file.0);
                    table = live(&file.0, &rules).unwrap();
                    continue;
                }
            };
            put(&edits, &file.0);
            assert_eq!(table.len(), rules.len());
            if round % 4 == 3 || count < 300 {
                assert_same(&file.0, &rules, rng);
                // Who has only the file and the rules goes on from there.
                table = live(&file.0, &rules).unwrap();
            }
        }
    }
}

#[test]
fn few_changes_write_few_lines() {
    let file = Temporary::new("lines");
    let rng = &mut SmallRng::seed_from_u64(5);
    let mut names: Rules = (0..50_000u64)
        .map(|i| {
            (Name::default().join_number(8, i % 97).join_number(8, i.wrapping_mul(0x9e37_79b9_7f4a_7c15)), EntryId(1))
        })
        .collect();
    save(&names, &Options::default(), &file.0);
    let mut table = live(&file.0, &names).unwrap();
    assert!(table.memory_bytes() < 95 * names.len(), "{} bytes", table.memory_bytes());
    let (mut lines, mut others) = (0, 0);
    for _ in 0..100 {
        let gone = names.keys().nth(rng.random_range(0..names.len())).unwrap().clone();
        let new = Name::default().join_number(8, rng.random_range(0..97)).join_number(8, rng.random());
        names.remove(&gone);
        names.insert(new.clone(), EntryId(2));
        let edits = table.apply(&[Change::Remove(gone), Change::Set(new, EntryId(2))]).unwrap();
        lines += edits.iter().filter(|edit| edit.bytes.len() == 64).count();
        // The header and the shape, and the filters of depths once.
        others += edits.iter().map(|edit| edit.bytes.len()).filter(|len| *len != 64).sum::<usize>();
    }
    assert!(others < 100 * 5_000 + 200_000, "{others} bytes");
    // Two changes: a line each, and more where entries make room.
    assert!((200..600).contains(&lines), "{lines} lines for 200 changes");
}

#[test]
fn what_a_file_cannot_take_is_refused() {
    let file = Temporary::new("refused");
    let rng = &mut SmallRng::seed_from_u64(6);
    let rules = rules(2_000, rng);
    save(&rules, &Options::default(), &file.0);
    let fresh = |i: u64| Change::Set(Name::default().join_number(8, i).join_number(8, 1 << 40 | i), EntryId(1));
    // Until it is full. What it took before is right.
    let mut table = live(&file.0, &rules).unwrap();
    let mut all = rules.clone();
    let refused = (0..3_000).find_map(|i| match table.apply(&[fresh(i)]) {
        Ok(edits) => {
            put(&edits, &file.0);
            all.insert(fresh(i).parts().0.clone(), EntryId(1));
            None
        }
        Err(error) => Some(error.to_string()),
    });
    assert_eq!(refused.as_deref(), Some("no memory for the table: a file cannot grow"));
    assert!(all.len() > rules.len() && all.len() < rules.len() + 1_000);
    assert_same(&file.0, &all, rng);

    let deep = (0..33).fold(Name::default(), |name, _| name.join_number(8, 1));
    for (change, error) in [
        (Change::Set(deep, EntryId(1)), BuildError::TooDeep { depth: 33 }),
        (Change::Set(Name::default(), EntryId(10)), BuildError::EntryOutOfRange { entry: 10, entries_max: 10 }),
    ] {
        let mut table = live(&file.0, &all).unwrap();
        assert!(matches!(table.apply(&[change]), Err(LiveError::Build(found)) if found == error));
    }
}

/// With fingerprints of one bit, names soon look alike.
#[test]
fn names_that_look_alike_are_refused() {
    let file = Temporary::new("alike");
    let rng = &mut SmallRng::seed_from_u64(7);
    let rules: Rules = (0..3_000).map(|_| (Name::default().join_number(8, rng.random()), EntryId(1))).collect();
    save(&rules, &Options { fingerprint_bits: 1, ..Options::default() }, &file.0);
    let mut table = live(&file.0, &rules).unwrap();
    let mut errors = Vec::new();
    for _ in 0..400_000 {
        let new = Name::default().join_number(8, rng.random());
        match table.apply(&[Change::Set(new.clone(), EntryId(2))]) {
            Ok(_) => drop(table.apply(&[Change::Remove(new)]).unwrap()),
            Err(error) => {
                errors.push(error.to_string());
                break;
            }
        }
    }
    assert_eq!(errors, [BuildError::Collision.to_string()]);
}

#[test]
fn files_of_other_rules_are_found_out() {
    let file = Temporary::new("others");
    let rng = &mut SmallRng::seed_from_u64(8);
    let rules = rules(500, rng);
    save(&rules, &Options::default(), &file.0);
    assert!(live(&file.0, &rules).is_ok());
    let (first, last) = (rules.keys().nth(7).unwrap().clone(), rules.keys().next_back().unwrap().clone());
    let mut less = rules.clone();
    less.remove(&first);
    let mut more = rules.clone();
    more.insert(last.join_number(8, 3), EntryId(1));
    let mut other = rules.clone();
    *other.get_mut(&first).unwrap() = EntryId(11);
    let mut root = rules.clone();
    root.entry(Name::default()).and_modify(|entry| entry.0 ^= 1).or_insert(EntryId(1));
    for wrong in [less, more, other, root, Rules::new()] {
        assert!(matches!(live(&file.0, &wrong), Err(LiveError::OtherRules)));
    }
    // In any order, and an entry twice, as the last time.
    assert!(live(&file.0, rules.iter().rev().chain(&rules)).is_ok());
    let mut bytes = std::fs::read(&file.0).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&file.0, bytes).unwrap();
    assert!(matches!(live(&file.0, &rules), Err(LiveError::File(_))));
}

/// A change is noted beside the file, which stays as it is.
#[test]
fn files_with_changes_beside_them_answer_as_files_made_anew() {
    let (file, checked) = (WithChanges::new("compact"), Checked::default());
    for (seed, count) in [(7, 500), (8, 30_000)] {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let mut rules = rules(count, rng);
        save(&rules, &Options::default(), &file.0);
        let _ = std::fs::remove_file(crate::file::changes::path_of(&file.0));
        let mut table = live(&file.0, &rules).unwrap();
        for round in 1..=40 {
            let changes = changes(&rules, 8, rng);
            for change in &changes {
                match change.parts() {
                    (name, Some(entry)) => drop(rules.insert(name.clone(), entry)),
                    (name, None) => drop(rules.remove(name)),
                }
            }
            append_edits(&file.0, &table.apply(&changes).unwrap());
            if round % 4 == 0 {
                for checked in [None, Some(&checked)] {
                    assert_same(Source { path: &file.0, changes: round, checked }, &rules, rng);
                }
            }
        }
    }
}

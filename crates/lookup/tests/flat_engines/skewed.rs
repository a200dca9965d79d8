//! Digests that no keyed hash makes. Othello answers correctly for them, or refuses them and
//! changes nothing.

use byname_lookup::flat::othello::{Options, Othello};
use byname_lookup::{BuildError, Change, Control, EntryId, Update};
use byname_wire::Digest;

use crate::names::digest;

/// More names than a part can have.
const CROWD: usize = 70_000;
const PART_MAX: usize = 65_534;

/// Makes digests of a few bits.
type Narrow = fn(u64) -> Digest;
const NARROW: &[(&str, Narrow)] = &[
    ("low bits of the hash", |bits| Digest { hash: bits, check: 0 }),
    ("high bits of the hash", |bits| Digest { hash: bits << 48, check: 0 }),
    ("low bits of the check", |bits| Digest { hash: 0, check: bits }),
    ("high bits of the check", |bits| Digest { hash: u64::MAX, check: bits << 48 }),
    ("both alike", |bits| Digest { hash: bits, check: bits }),
    ("contrary to each other", |bits| Digest { hash: bits << 48, check: !bits }),
];

fn entry_of(number: usize) -> EntryId {
    EntryId((number * 7 % 251) as u32)
}

fn set(name: Digest, entry: u32) -> Change<Digest> {
    Change::Set(name, EntryId(entry))
}

/// Builds, adds, alters and removes names of a few bits. The result is right, or refused and
/// unchanged.
fn check(what: &str, names: &[Digest], part_names: usize) {
    let options = Options { part_names, ..Options::default() };
    let (built, added) = names.split_at(names.len() / 2);
    let entries: Vec<_> = (0..built.len()).map(entry_of).collect();
    let mut othello = match Othello::construct(options, built, &entries) {
        Ok(othello) => othello,
        Err(BuildError::Skewed { .. }) => return println!("{what}: {} names are refused", built.len()),
        Err(error) => panic!("{what}: {error}"),
    };
    let (mut fib, mut right): (_, Vec<_>) = (othello.query(), entries.into_iter().map(Some).collect());
    right.resize(names.len(), None);
    let (mut replaced, mut refused) = (0, 0);
    let additions = (built.len()..names.len()).map(|at| (at, Some(entry_of(at))));
    let alterations = (0..names.len()).step_by(3).map(|at| (at, Some(EntryId(255))));
    let removals = (0..names.len()).step_by(names.len() / 40).map(|at| (at, None));
    assert!(!added.is_empty());
    for (round, (at, entry)) in additions.chain(alterations).chain(removals).enumerate() {
        let change = entry.map_or(Change::Remove(names[at]), |entry| Change::Set(names[at], entry));
        match othello.apply(&[change]) {
            Ok(update) => {
                right[at] = entry;
                if let Update::Replace(new) = update {
                    (fib, replaced) = (new, replaced + 1);
                }
            }
            Err(BuildError::Skewed { .. }) => refused += 1,
            Err(error) => panic!("{what}: {error}"),
        }
        assert_eq!(othello.entry(names[at]), right[at], "{what}");
        if round % 97 == 0 {
            for (name, right) in names.iter().zip(&right).filter(|(_, right)| right.is_some()) {
                assert_eq!(fib.entry(*name), *right, "{what}");
            }
        }
    }
    assert_eq!(othello.len(), right.iter().flatten().count());
    println!("{what}, parts of {part_names}: {replaced} times replaced, {refused} refused");
}

#[test]
fn narrow_digests_are_answered_right_or_refused() {
    for (what, narrow) in NARROW {
        // All digests of eight bits, and some of 16.
        let all: Vec<_> = (0..256).map(narrow).collect();
        let some: Vec<_> = (0..1000).map(|at| narrow((at * 40_503) & 0xffff)).collect();
        for part_names in [8, 100, 1 << 15] {
            check(what, &all, part_names);
            check(what, &some, part_names);
        }
    }
}

/// The number of names for which a part is built. Lattices of digests close many cycles, whatever the seed.
#[test]
fn many_narrow_digests_are_built_right_or_refused() {
    for (what, narrow) in NARROW {
        let names: Vec<_> = (0..30_000).map(|at| narrow((at * 40_503) & 0xffff)).collect();
        let entries: Vec<_> = (0..names.len()).map(entry_of).collect();
        match Othello::construct(Options::default(), &names, &entries) {
            Ok(othello) => {
                let fib = othello.query();
                assert!(names.iter().zip(&entries).all(|(name, entry)| fib.entry(*name) == Some(*entry)), "{what}");
                println!("{what}: {} bytes", fib.memory_bytes());
            }
            Err(error) => assert_eq!(error, BuildError::Skewed { names: names.len() }, "{what}"),
        }
    }
}

/// Names that differ in their check halves only, so that no split separates them.
fn alike(number: usize) -> Digest {
    Digest { hash: 0x0123_4567_89ab_cdef, check: digest(number).check }
}

#[test]
fn too_many_names_that_begin_alike_are_refused() {
    let names: Vec<_> = (0..CROWD).map(alike).collect();
    let entries = vec![EntryId(1); CROWD];
    for part_names in [1000, 40_000] {
        let options = || Options { part_names, ..Options::default() };
        let refused = Othello::construct(options(), &names, &entries).err();
        assert_eq!(refused, Some(BuildError::Skewed { names: CROWD }));

        // The maximum number of names of a part, and then one more name, after a change that is undone.
        let mut othello = Othello::construct(options(), &names[..PART_MAX], &entries[..PART_MAX]).expect("room");
        let fib = othello.query();
        let one_more = [set(names[0], 2), set(names[PART_MAX], 3)];
        assert_eq!(othello.apply(&one_more).err(), Some(BuildError::Skewed { names: PART_MAX + 1 }));
        assert_eq!((othello.len(), othello.entry(names[PART_MAX])), (PART_MAX, None));
        assert_eq!(fib.entry(names[0]), Some(EntryId(1)));
        // There is room for one of another kind.
        othello.apply(&[Change::Remove(names[5]), set(names[0], 2)]).expect("no name more");
        othello.apply(&[set(names[PART_MAX], 3)]).expect("room for one");
        assert_eq!(othello.query().entry(names[PART_MAX]), Some(EntryId(3)));
        assert_eq!(othello.query().entry(names[0]), Some(EntryId(2)));
    }
}

#[test]
fn a_batch_of_too_many_names_that_begin_alike_changes_nothing() {
    let mut othello = Othello::new(Options { part_names: 1000, ..Options::default() }).expect("a little memory");
    othello.apply(&[set(digest(0), 7)]).expect("room");
    let fib = othello.query();
    let spread = (1..3000).map(|number| set(digest(number), 8));
    let batch: Vec<_> = spread.chain((0..CROWD).map(|number| set(alike(number), 9))).collect();
    assert!(matches!(othello.apply(&batch), Err(BuildError::Skewed { names }) if names >= CROWD));
    assert_eq!((othello.len(), fib.entry(digest(0))), (1, Some(EntryId(7))));
    // Proper digests are accepted, however many come at once.
    let batch: Vec<_> = (0..CROWD).map(|number| set(digest(number), 9)).collect();
    othello.apply(&batch).expect("they spread over the parts");
    let fib = othello.query();
    assert!((0..CROWD).all(|number| fib.entry(digest(number)) == Some(EntryId(9))));
}

/// One name is not a crowd, however often it is given.
#[test]
fn a_name_given_many_times_is_one_name() {
    let names = vec![digest(1); CROWD];
    let entries: Vec<_> = (0..CROWD).map(|at| EntryId(at as u32 % 256)).collect();
    let mut othello = Othello::construct(Options::default(), &names, &entries).expect("room for one");
    assert_eq!((othello.len(), othello.entry(names[0])), (1, entries.last().copied()));
    let batch: Vec<_> = (0..CROWD).map(|at| set(digest(2), at as u32 % 200)).collect();
    othello.apply(&batch).expect("room for two");
    assert_eq!((othello.len(), othello.entry(digest(2))), (2, Some(EntryId((CROWD as u32 - 1) % 200))));
}

//! Random changes and queries, each answer for a known name compared with the oracle's.
//!
//! `BYNAME_TEST_OPERATIONS` sets the minimum number of operations checked, over all engines and
//! families of names. `BYNAME_TEST_SEED` sets where they start.

use std::fmt;

use byname_lookup::flat::BURST_MAX;
use byname_lookup::oracle::FlatOracle;
use byname_lookup::{BuildError, Change, Control, EntryId, FlatFib};
use byname_wire::Digest;

use crate::engines::{ALL, Kind, NAMES_MAX, Subject};
use crate::names::{FAMILIES, Family, digest};
use crate::suite::{self, Random, fewer};

/// Number of operations, unless the environment sets another.
const OPERATIONS: u64 = 1_500_000;

/// Names go by their numbers.
#[derive(Clone)]
enum Step {
    /// The table is rebuilt from these.
    Construct(Vec<(usize, u32)>),
    /// Entries for names; `None` removes one.
    Change(Vec<(usize, Option<u32>)>),
    /// A batch in which one entry is too large.
    Refuse(Vec<(usize, Option<u32>)>),
    Look(Vec<usize>),
    Reclaim,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Construct(names) => write!(f, "construct {names:?}"),
            Step::Change(changes) => write!(f, "change {changes:?}"),
            Step::Refuse(changes) => write!(f, "refuse {changes:?}"),
            Step::Look(names) => write!(f, "look {names:?}"),
            Step::Reclaim => f.write_str("reclaim"),
        }
    }
}

impl suite::Step for Step {
    fn smaller(self, fails: &mut dyn FnMut(Self) -> bool) -> Self {
        match self {
            Step::Construct(names) => Step::Construct(fewer(names, &mut |part| fails(Step::Construct(part.to_vec())))),
            Step::Change(changes) => Step::Change(fewer(changes, &mut |part| fails(Step::Change(part.to_vec())))),
            Step::Refuse(changes) => Step::Refuse(fewer(changes, &mut |part| fails(Step::Refuse(part.to_vec())))),
            Step::Look(names) => Step::Look(fewer(names, &mut |part| fails(Step::Look(part.to_vec())))),
            Step::Reclaim => Step::Reclaim,
        }
    }
}

/// Draws the steps of one case.
struct Draw<'a> {
    kind: &'a Kind,
    family: &'a Family,
    random: Random,
    /// Number of changes in eight that set a name: tables grow, churn or shrink.
    sets_in_8: usize,
}

impl<'a> Draw<'a> {
    fn new(kind: &'a Kind, family: &'a Family, seed: u64) -> Self {
        Draw { kind, family, random: Random(seed), sets_in_8: 6 }
    }

    fn steps(&mut self) -> Vec<Step> {
        (0..1 + self.random.below(200)).map(|_| self.step()).collect()
    }

    fn step(&mut self) -> Step {
        if self.random.one_in(40) {
            self.sets_in_8 = *self.random.pick(&[1, 4, 7]);
        }
        match self.random.below(64) {
            0 => Step::Construct(self.all()),
            1..=2 if self.kind.entry_max < u32::MAX => Step::Refuse(self.refused()),
            3..=10 => Step::Reclaim,
            11..=40 => Step::Change(self.batch()),
            _ => Step::Look((0..self.random.below(BURST_MAX + 1)).map(|_| self.name()).collect()),
        }
    }

    fn name(&mut self) -> usize {
        self.random.below(self.family.names)
    }

    fn entry(&mut self) -> u32 {
        match self.random.below(4) {
            0 => *self.random.pick(&[0, self.kind.entry_max]),
            _ => self.random.next() as u32 & self.kind.entry_max,
        }
    }

    /// Names in order, each at most once.
    fn all(&mut self) -> Vec<(usize, u32)> {
        let share = 1 + self.random.below(20);
        let chosen: Vec<_> = (0..self.family.names).filter(|_| self.random.one_in(share)).collect();
        chosen.into_iter().map(|name| (name, self.entry())).collect()
    }

    fn batch(&mut self) -> Vec<(usize, Option<u32>)> {
        let len = match self.random.below(16) {
            0..=8 => 1,
            9..=14 => 1 + self.random.below(self.family.batch_max.min(12)),
            _ => 1 + self.random.below(self.family.batch_max),
        };
        let change = |_| {
            let set = self.random.below(8) < self.sets_in_8;
            (self.name(), set.then(|| self.entry()))
        };
        (0..len).map(change).collect()
    }

    fn refused(&mut self) -> Vec<(usize, Option<u32>)> {
        let mut changes = self.batch();
        let at = self.random.below(changes.len() + 1);
        changes.insert(at, (self.name(), Some(self.kind.entry_max + 1)));
        changes
    }
}

fn changes(of: &[(usize, Option<u32>)]) -> Vec<Change<Digest>> {
    of.iter()
        .map(|&(name, entry)| match entry {
            Some(entry) => Change::Set(digest(name), EntryId(entry)),
            None => Change::Remove(digest(name)),
        })
        .collect()
}

/// An engine beside the oracle.
struct Check<'a> {
    kind: &'a Kind,
    subject: Subject,
    oracle: FlatOracle,
    operations: u64,
    /// Most names at a time.
    peak: usize,
}

impl<'a> Check<'a> {
    /// Runs the steps on an empty table. Returns the operations whose outcome was checked.
    fn run(kind: &'a Kind, steps: &[Step]) -> Result<u64, String> {
        let mut check =
            Check { kind, subject: Subject::new(kind, &[], &[]), oracle: FlatOracle::new(), operations: 0, peak: 0 };
        for step in steps {
            match step {
                Step::Construct(names) => check.construct(names)?,
                Step::Change(changes) => check.change(changes)?,
                Step::Refuse(changes) => check.refuse(changes)?,
                Step::Look(names) => check.look(names.iter().copied())?,
                Step::Reclaim => check.subject.engine.reclaim(),
            }
            check.peak = check.peak.max(check.oracle.len());
        }
        check.memory()?;
        Ok(check.operations)
    }

    fn construct(&mut self, names: &[(usize, u32)]) -> Result<(), String> {
        let (digests, entries): (Vec<_>, Vec<_>) =
            names.iter().map(|&(name, entry)| (digest(name), EntryId(entry))).unzip();
        self.subject = Subject::new(self.kind, &digests, &entries);
        self.oracle = FlatOracle::new();
        let changes: Vec<_> = digests.iter().zip(&entries).map(|(name, entry)| Change::Set(*name, *entry)).collect();
        self.oracle.apply(&changes).expect("the oracle takes all");
        self.operations += names.len() as u64;
        self.look(names.iter().map(|&(name, _)| name))
    }

    fn change(&mut self, of: &[(usize, Option<u32>)]) -> Result<(), String> {
        self.subject.apply(&changes(of)).map_err(|error| format!("refuses what it takes: {error}"))?;
        self.oracle.apply(&changes(of)).expect("the oracle takes all");
        self.operations += of.len() as u64;
        self.look(of.iter().map(|&(name, _)| name))
    }

    fn refuse(&mut self, of: &[(usize, Option<u32>)]) -> Result<(), String> {
        // Shrinking may leave nothing to refuse.
        let too_large = of.iter().any(|&(_, entry)| entry.is_some_and(|entry| entry > self.kind.entry_max));
        match self.subject.apply(&changes(of)) {
            Ok(()) if too_large => return Err("takes what it must refuse".into()),
            Err(BuildError::EntryOutOfRange { entry, .. }) if too_large && entry > self.kind.entry_max => {}
            Err(error) => return Err(format!("says of an entry that is too large '{error}'")),
            Ok(()) => drop(self.oracle.apply(&changes(of))),
        }
        self.operations += 1;
        self.look(of.iter().map(|&(name, _)| name))
    }

    /// Asks for the names in bursts, and for the first of each burst alone.
    fn look(&mut self, names: impl Iterator<Item = usize>) -> Result<(), String> {
        let (numbers, names): (Vec<_>, Vec<_>) = names.map(|number| (number, digest(number))).unzip();
        for (numbers, names) in numbers.chunks(BURST_MAX).zip(names.chunks(BURST_MAX)) {
            let mut found = vec![None; names.len()];
            self.subject.fib.entry_burst(names, &mut found);
            for ((number, name), found) in numbers.iter().zip(names).zip(found) {
                self.compare(*number, *name, found, "in a burst")?;
            }
            let found = self.subject.fib.entry(names[0]);
            self.compare(numbers[0], names[0], found, "by itself")?;
            let lines = self.subject.fib.lines_read(names[0]);
            if lines.is_some() != self.kind.lines_max.is_some() || lines > self.kind.lines_max {
                return Err(format!("{}: {lines:?} cache lines read", numbers[0]));
            }
        }
        Ok(())
    }

    fn compare(&mut self, number: usize, name: Digest, found: Option<EntryId>, how: &str) -> Result<(), String> {
        // Unknown names may get any answer.
        let Some(right) = self.oracle.entry(name) else { return Ok(()) };
        self.operations += 1;
        if found == Some(right) { Ok(()) } else { Err(format!("{number}: {found:?} {how}, not {right:?}")) }
    }

    fn memory(&self) -> Result<(), String> {
        let (bytes, names) = (self.subject.fib.memory_bytes(), self.oracle.len());
        // Three of four entries are random, so no engine can do with fewer bits.
        let entry_bits = self.kind.entry_max.count_ones() as usize;
        let least = names * entry_bits * 3 / 4 / 8;
        // A table that takes more than this has kept something of the names that went.
        let most_names: Vec<_> = (0..self.peak).map(digest).collect();
        let built = Subject::new(self.kind, &most_names, &vec![EntryId(0); self.peak]);
        let most = self.kind.times_built * built.fib.memory_bytes();
        let sane = (least..=most).contains(&bytes);
        if sane { Ok(()) } else { Err(format!("says that {names} names of {} take {bytes} bytes", self.peak)) }
    }
}

/// How many operations this run is to check.
pub fn operations() -> u64 {
    suite::operations(OPERATIONS)
}

/// Runs cases of one kind of engine and one family until `operations` operations are checked.
fn run_cases(kind: &Kind, family: &Family, seed: u64, operations: u64) -> u64 {
    let draw = |seed| Draw::new(kind, family, seed).steps();
    suite::run_cases((kind.name, family.name), seed, operations, draw, |steps| Check::run(kind, steps))
}

#[test]
fn every_engine_answers_as_the_oracle() {
    suite::run_all(ALL, FAMILIES, operations(), run_cases);
}

#[test]
fn a_full_table_refuses_a_batch_whole() {
    for kind in ALL {
        let names: Vec<_> = (0..NAMES_MAX).map(digest).collect();
        let mut subject = Subject::new(kind, &names, &vec![EntryId(1); NAMES_MAX]);
        let set = |number, entry| Change::Set(digest(number), EntryId(entry));
        let one_more = [set(0, 0), Change::Remove(digest(1)), set(1, 0), set(NAMES_MAX, 0)];
        assert_eq!(subject.apply(&one_more), Err(BuildError::Full { rules: NAMES_MAX }), "{}", kind.name);
        assert_eq!(subject.fib.entry(digest(0)), Some(EntryId(1)), "{}", kind.name);
        let as_many = [set(0, 0), Change::Remove(digest(1)), set(NAMES_MAX, 0)];
        assert_eq!(subject.apply(&as_many), Ok(()), "{}", kind.name);
        assert_eq!(subject.fib.entry(digest(NAMES_MAX)), Some(EntryId(0)), "{}", kind.name);
    }
}

//! Random changes and lookups, each answer compared with the oracle's.
//!
//! `BYNAME_TEST_OPERATIONS` sets the minimum number of operations checked, over all engines and
//! families of names. `BYNAME_TEST_SEED` sets where they start.

use std::fmt;

use byname_lookup::oracle::Oracle;
use byname_lookup::prefix::{BURST_MAX, HashRoom};
use byname_lookup::{BuildError, Change, Control, EntryId};
use byname_wire::Name;
use byname_wire::name::COMPONENTS_MAX;

use crate::engines::{ALL, Burst, Kind, Subject, lines_read, longest, longest_of_names};
use crate::names::{FAMILIES, Family};
use crate::suite::{self, Random, fewer};

/// Number of operations, unless the environment sets another.
const OPERATIONS: u64 = 3_000_000;
/// More memory than this, beyond an empty table's, shows a large leak: for a few rules, and for each rule that was
/// there at a time. `growth.rs` finds small ones.
const FEW_RULES_BYTES: usize = 128 << 10;
const RULE_BYTES: usize = 1 << 10;

#[derive(Clone)]
enum Step {
    Change(Vec<Change<Name>>),
    /// A batch with something that the engine must refuse.
    Refuse(Vec<Change<Name>>),
    Look(Vec<Name>),
    Reclaim,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, changes) = match self {
            Step::Look(names) => return write!(f, "look {names:?}"),
            Step::Reclaim => return write!(f, "reclaim"),
            Step::Change(changes) => ("change", changes),
            Step::Refuse(changes) => ("refuse", changes),
        };
        f.write_str(what)?;
        for change in changes {
            match change {
                Change::Set(name, entry) => write!(f, " {name}={}", entry.0)?,
                Change::Remove(name) => write!(f, " -{name}")?,
            }
        }
        Ok(())
    }
}

impl suite::Step for Step {
    fn smaller(self, fails: &mut dyn FnMut(Self) -> bool) -> Self {
        match self {
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
    /// Number of changes in eight that set a rule: tables grow, churn or shrink.
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
        match self.random.below(16) {
            0 => Step::Refuse(self.refused()),
            1..=3 => Step::Reclaim,
            4..=11 => Step::Change(self.batch()),
            _ => Step::Look(self.names()),
        }
    }

    fn batch(&mut self) -> Vec<Change<Name>> {
        let len = match self.random.below(16) {
            0..=8 => 1,
            9..=14 => 1 + self.random.below(self.family.batch_max.min(12)),
            _ => 1 + self.random.below(self.family.batch_max),
        };
        (0..len).map(|_| self.change()).collect()
    }

    fn change(&mut self) -> Change<Name> {
        // A rule that the engine cannot have may still be removed, which has no effect.
        let (set, random) = (self.random.below(8) < self.sets_in_8, &mut self.random);
        match set {
            true => Change::Set((self.family.rule)(random, self.kind.depth_max), self.entry()),
            false => Change::Remove((self.family.rule)(random, COMPONENTS_MAX)),
        }
    }

    /// Few entries, so that neighbours often share one.
    fn entry(&mut self) -> EntryId {
        EntryId(*self.random.pick(&[0, 1, 2, 1000, self.kind.entry_max]))
    }

    fn refused(&mut self) -> Vec<Change<Name>> {
        let mut changes = self.batch();
        let at = self.random.below(changes.len() + 1);
        let bad = match self.kind.entry_max.checked_add(1) {
            Some(above) if self.random.one_in(2) => Change::Set(Name::default(), EntryId(above)),
            _ => {
                let depth = self.kind.depth_max + 1 + self.random.below(COMPONENTS_MAX - self.kind.depth_max + 1);
                Change::Set((0..depth).fold(Name::default(), |name, _| name.join_number(8, 97)), EntryId(1))
            }
        };
        changes.insert(at, bad);
        changes
    }

    fn names(&mut self) -> Vec<Name> {
        (0..self.random.below(BURST_MAX + 1)).map(|_| (self.family.asked)(&mut self.random)).collect()
    }
}

/// An engine beside the oracle.
struct Check<'a> {
    kind: &'a Kind,
    subject: Subject,
    oracle: Oracle,
    room: HashRoom,
    operations: u64,
    /// Most rules at a time.
    peak: usize,
}

impl<'a> Check<'a> {
    /// Runs the steps on an empty table. Returns the operations whose outcome was checked.
    fn run(kind: &'a Kind, steps: &[Step]) -> Result<u64, String> {
        let (subject, oracle) = (Subject::new(kind), Oracle::new());
        let mut check = Check { kind, subject, oracle, room: HashRoom::default(), operations: 0, peak: 0 };
        for step in steps {
            match step {
                Step::Change(changes) => check.change(changes)?,
                Step::Refuse(changes) => check.refuse(changes)?,
                Step::Look(names) => check.look(names)?,
                Step::Reclaim => check.subject.engine.reclaim(),
            }
            check.peak = check.peak.max(check.oracle.len());
        }
        check.memory()?;
        Ok(check.operations)
    }

    fn change(&mut self, changes: &[Change<Name>]) -> Result<(), String> {
        self.subject.apply(changes).map_err(|error| format!("refuses what it takes: {error}"))?;
        self.oracle.apply(changes).expect("the oracle takes all");
        self.operations += changes.len() as u64;
        self.look_at_changed(changes)
    }

    fn refuse(&mut self, changes: &[Change<Name>]) -> Result<(), String> {
        let too_deep = changes.iter().find_map(|change| match change {
            Change::Set(name, _) => Some(name.as_ref().len()).filter(|&depth| depth > self.kind.depth_max),
            Change::Remove(_) => None,
        });
        match (self.subject.apply(changes), too_deep) {
            (Ok(()), _) => return Err("takes what it must refuse".into()),
            (Err(BuildError::TooDeep { depth }), Some(drawn)) if depth == drawn => {}
            (Err(error), Some(_)) => return Err(format!("calls a name that is too deep '{error}'")),
            (Err(_), None) => {}
        }
        self.operations += 1;
        self.look_at_changed(changes)
    }

    fn look_at_changed(&mut self, changes: &[Change<Name>]) -> Result<(), String> {
        let names: Vec<_> = changes
            .iter()
            .map(|(Change::Set(name, _) | Change::Remove(name))| name)
            // A refused name may be too long to look up.
            .filter(|name| name.as_ref().len() <= COMPONENTS_MAX)
            .cloned()
            .collect();
        names.chunks(BURST_MAX).try_for_each(|names| self.look(names))
    }

    /// Looks the names up in one burst, and the first one by itself.
    fn look(&mut self, names: &[Name]) -> Result<(), String> {
        let fib = &*self.subject.fib;
        let burst = match self.operations % 4 {
            0 => Burst::new(names).longest(fib),
            // Without the hashes that the table does not use.
            1 => Burst::cut(names, fib).longest(fib),
            2 => Burst::at_depths(names, fib).longest(fib),
            // The engine remembers what it met; sometimes it starts again.
            _ if self.operations.is_multiple_of(5) => longest_of_names(fib, names, &mut HashRoom::default()),
            _ => longest_of_names(fib, names, &mut self.room),
        };
        let mut right = Vec::new();
        for (name, found) in names.iter().zip(burst) {
            right.push(longest(&self.oracle, name));
            if found != right[right.len() - 1] {
                return Err(format!("{name}: {found:?} in a burst, not {:?}", right[right.len() - 1]));
            }
        }
        self.operations += names.len() as u64;
        let Some((first, &right)) = names.first().zip(right.first()) else { return Ok(()) };
        let found = longest(fib, first);
        if found != right {
            return Err(format!("{first}: {found:?} by itself, not {right:?}"));
        }
        self.operations += 1;
        let lines = lines_read(fib, first);
        let right = match (self.kind.lines_max, lines) {
            (None, None) => true,
            // A table without rules below `/` may answer without being read.
            (Some(lines_max), Some(lines)) => lines <= lines_max && (lines > 0 || found.is_none_or(|m| m.depth == 0)),
            _ => false,
        };
        if right { Ok(()) } else { Err(format!("{first}: {lines:?} cache lines read")) }
    }

    fn memory(&self) -> Result<(), String> {
        let (bytes, rules) = (self.subject.fib.memory_bytes(), self.oracle.len());
        // No engine takes less than a byte for a rule.
        let bytes_max = Subject::new(self.kind).fib.memory_bytes() + FEW_RULES_BYTES + self.peak * RULE_BYTES;
        let sane = (rules..=bytes_max).contains(&bytes);
        if sane { Ok(()) } else { Err(format!("says that {rules} rules of {} take {bytes} bytes", self.peak)) }
    }
}

/// Number of operations that this run must check.
pub fn operations() -> u64 {
    suite::operations(OPERATIONS)
}

/// Runs cases of one kind of engine and one family until this many operations are checked.
fn run_cases(kind: &Kind, family: &Family, seed: u64, operations: u64) -> u64 {
    let draw = |seed| Draw::new(kind, family, seed).steps();
    suite::run_cases((kind.name, family.name), seed, operations, draw, |steps| Check::run(kind, steps))
}

#[test]
fn every_engine_answers_as_the_oracle() {
    suite::run_all(ALL, FAMILIES, operations(), run_cases);
}

//! Random changes and packets, each answer compared with the oracle's.
//!
//! `BYNAME_TEST_OPERATIONS` sets the minimum number of operations checked, over all engines and
//! families of descriptors. `BYNAME_TEST_SEED` sets where they start.

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;

use byname_lookup::oracle::TagsetOracle;
use byname_lookup::tagset::{BURST_MAX, Effort, TagQuery};
use byname_lookup::{BuildError, Change, Control, EntryId, TagsetFib};
use byname_wire::Descriptor;
use byname_wire::tagset::Filter;

use crate::engines::{ALL, Keeps, Kind, Subject};
use crate::suite::{self, Random, fewer};
use crate::vocabulary::{FAMILIES, Family};

/// Number of operations, unless the environment sets another.
const OPERATIONS: u64 = 1_000_000;
/// More memory than this, beyond an empty table's, shows a large leak: for a few descriptors, of which some kinds have
/// two tables, and for each descriptor that was there at a time. `limits.rs` finds small ones.
const FEW_DESCRIPTORS_BYTES: usize = 512 << 10;
const DESCRIPTOR_BYTES: usize = 1 << 10;

/// The content of a packet.
#[derive(Clone)]
pub enum Packet {
    Tags(Descriptor),
    Filter(Filter),
}

impl Packet {
    pub fn query(&self) -> TagQuery<'_> {
        match self {
            Packet::Tags(descriptor) => TagQuery::of_tags(descriptor.tags()),
            Packet::Filter(filter) => TagQuery::of_filter(*filter),
        }
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::Tags(descriptor) => write!(f, "{:?}", descriptor.tags()),
            Packet::Filter(filter) => write!(f, "{filter:?}"),
        }
    }
}

#[derive(Clone)]
enum Step {
    Change(Vec<Change<Descriptor>>),
    /// With a seed for what is refused and where visits end.
    Ask(Vec<Packet>, u64),
    Reclaim,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Change(changes) => {
                f.write_str("change")?;
                changes.iter().try_for_each(|change| match change {
                    Change::Set(descriptor, entry) => write!(f, " {:?}={}", descriptor.tags(), entry.0),
                    Change::Remove(descriptor) => write!(f, " -{:?}", descriptor.tags()),
                })
            }
            Step::Ask(packets, seed) => write!(f, "ask {packets:?} seed {seed:#x}"),
            Step::Reclaim => f.write_str("reclaim"),
        }
    }
}

impl suite::Step for Step {
    fn smaller(self, fails: &mut dyn FnMut(Self) -> bool) -> Self {
        match self {
            Step::Change(changes) => Step::Change(fewer(changes, &mut |part| fails(Step::Change(part.to_vec())))),
            Step::Ask(packets, seed) => {
                Step::Ask(fewer(packets, &mut |part| fails(Step::Ask(part.to_vec(), seed))), seed)
            }
            Step::Reclaim => Step::Reclaim,
        }
    }
}

/// Draws the steps of one case.
struct Draw<'a> {
    kind: &'a Kind,
    family: &'a Family,
    random: Random,
    /// Number of changes in eight that set a descriptor: tables grow, churn or shrink.
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
            0 => Step::Reclaim,
            1..=4 => Step::Change(self.batch()),
            _ => {
                let packets = (0..1 + self.random.below(BURST_MAX)).map(|_| self.packet()).collect();
                Step::Ask(packets, self.random.next())
            }
        }
    }

    fn batch(&mut self) -> Vec<Change<Descriptor>> {
        let len = match self.random.below(16) {
            0..=7 => 1,
            8..=14 => 1 + self.random.below(self.family.batch_max.min(12)),
            _ => 1 + self.random.below(self.family.batch_max),
        };
        (0..len).map(|_| self.change()).collect()
    }

    fn change(&mut self) -> Change<Descriptor> {
        let descriptor = self.family.descriptor(&mut self.random);
        match self.random.below(8) < self.sets_in_8 {
            true => Change::Set(descriptor, self.entry()),
            false => Change::Remove(descriptor),
        }
    }

    /// Few entries, which descriptors share, or one of many. Now and then one that is too large.
    fn entry(&mut self) -> EntryId {
        EntryId(match self.random.below(64) {
            0 => self.kind.entry_max.saturating_add(1),
            1..=20 => *self.random.pick(&[0, 1, 2, self.kind.entry_max]),
            _ => self.random.below(self.kind.entry_max as usize) as u32,
        })
    }

    fn packet(&mut self) -> Packet {
        let (family, random) = (self.family, &mut self.random);
        if random.one_in(16) {
            return Packet::Filter(family.filter(random));
        }
        let descriptor = family.packet(random);
        let by_tags = self.kind.keeps == Keeps::Tags && random.below(4) > 0;
        if by_tags { Packet::Tags(descriptor) } else { Packet::Filter(descriptor.filter()) }
    }
}

/// An engine beside the oracle.
struct Check<'a> {
    kind: &'a Kind,
    subject: Subject,
    oracle: TagsetOracle,
    /// The descriptor that owns each filter, for engines that store only filters.
    owners: HashMap<Filter, Descriptor>,
    operations: u64,
    /// Most descriptors at a time.
    peak: usize,
}

impl<'a> Check<'a> {
    /// Runs the steps on an empty table. Returns the operations whose outcome was checked.
    fn run(kind: &'a Kind, steps: &[Step]) -> Result<u64, String> {
        let (subject, oracle) = (Subject::new(kind), TagsetOracle::new());
        let mut check = Check { kind, subject, oracle, owners: HashMap::new(), operations: 0, peak: 0 };
        for step in steps {
            match step {
                Step::Change(changes) => check.change(changes)?,
                Step::Ask(packets, seed) => check.ask(packets, &mut Random(*seed))?,
                Step::Reclaim => check.subject.engine.reclaim(),
            }
            check.peak = check.peak.max(check.oracle.len());
        }
        check.memory()?;
        Ok(check.operations)
    }

    fn change(&mut self, changes: &[Change<Descriptor>]) -> Result<(), String> {
        let owners = self.expected(changes);
        match (self.subject.apply(changes), &owners) {
            (Ok(()), Ok(_)) => {
                self.oracle.apply(changes).expect("the oracle takes all");
            }
            (Err(BuildError::Collision), Err(BuildError::Collision)) => {}
            (Err(BuildError::EntryOutOfRange { .. }), Err(BuildError::EntryOutOfRange { .. })) => {}
            (result, _) => return Err(format!("{result:?} where {:?} is right", owners.map(|_| ()))),
        }
        self.owners = owners.unwrap_or_else(|_| std::mem::take(&mut self.owners));
        self.operations += 1;
        let touched = changes.iter().map(|(Change::Set(d, _) | Change::Remove(d))| Packet::Filter(d.filter()));
        let touched: Vec<_> = touched.take(BURST_MAX).collect();
        self.ask(&touched, &mut Random(self.operations))
    }

    /// The owners of filters after a batch, or why it must be refused.
    fn expected(&self, changes: &[Change<Descriptor>]) -> Result<HashMap<Filter, Descriptor>, BuildError> {
        let mut owners = self.owners.clone();
        for change in changes {
            if let Change::Set(_, entry) = change
                && entry.0 > self.kind.entry_max
            {
                return Err(BuildError::EntryOutOfRange { entry: entry.0, entries_max: self.kind.entry_max });
            }
        }
        for change in changes.iter().filter(|_| self.kind.keeps == Keeps::Filters) {
            match change {
                Change::Set(descriptor, _) => {
                    let owner = owners.entry(descriptor.filter()).or_insert_with(|| descriptor.clone());
                    if owner != descriptor {
                        return Err(BuildError::Collision);
                    }
                }
                Change::Remove(descriptor) if owners.get(&descriptor.filter()) == Some(descriptor) => {
                    owners.remove(&descriptor.filter());
                }
                Change::Remove(_) => {}
            }
        }
        Ok(owners)
    }

    /// Asks for packets in one burst, and for the first by itself.
    fn ask(&mut self, packets: &[Packet], random: &mut Random) -> Result<(), String> {
        let refused = random.below(3) as u32;
        let accept = |entry: EntryId| refused == 0 || entry.0 % 3 != refused;
        let queries: Vec<_> = packets.iter().map(Packet::query).collect();
        let fib = &*self.subject.fib;

        let (mut all, mut efforts) = (vec![Vec::new(); queries.len()], vec![Effort::default(); queries.len()]);
        let mut visit = |at: usize, entry| {
            all[at].push(entry);
            ControlFlow::Continue(())
        };
        fib.all_subsets_burst(&queries, &mut visit, &mut efforts);
        let mut largest = vec![(None, Effort::default()); queries.len()];
        fib.largest_subset_burst(&queries, &mut |_, entry| accept(entry), &mut largest);
        for (((packet, query), (all, walk)), found) in
            packets.iter().zip(&queries).zip(all.iter().zip(efforts)).zip(largest)
        {
            self.check_all(query, all, walk, usize::MAX).map_err(|error| format!("{packet:?} in a burst: {error}"))?;
            self.check_largest(query, &accept, found).map_err(|error| format!("{packet:?} in a burst: {error}"))?;
        }
        self.operations += 2 * queries.len() as u64;

        let Some((query, packet)) = queries.first().zip(packets.first()) else { return Ok(()) };
        let (k, mut some) = (1 + random.below(4), Vec::new());
        let walk = fib.all_subsets(query, &mut |entry| {
            some.push(entry);
            if some.len() == k { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        self.check_all(query, &some, walk, k).map_err(|error| format!("{packet:?}, {k} of all: {error}"))?;
        let found = fib.largest_subset(query, &mut |entry| accept(entry));
        self.check_largest(query, &accept, found).map_err(|error| format!("{packet:?} by itself: {error}"))?;
        self.operations += 2;
        Ok(())
    }

    /// Checks what was visited, up to `k` entries.
    fn check_all(&self, query: &TagQuery<'_>, found: &[EntryId], walk: Effort, k: usize) -> Result<(), String> {
        self.check_walk(walk)?;
        let mut right = Vec::new();
        self.oracle.all_subsets(query, &mut |entry| {
            right.push(entry);
            ControlFlow::Continue(())
        });
        right.sort_unstable();
        let mut sorted = found.to_vec();
        sorted.sort_unstable();
        let mut rest = right.iter();
        let among = sorted.iter().all(|entry| rest.any(|other| other == entry));
        let enough = if walk.cut_off { found.len() <= k } else { found.len() == k.min(right.len()) };
        if among && enough { Ok(()) } else { Err(format!("{found:?}, not {right:?}, {walk:?}")) }
    }

    fn check_largest(
        &self,
        query: &TagQuery<'_>,
        accept: &dyn Fn(EntryId) -> bool,
        (found, walk): (Option<EntryId>, Effort),
    ) -> Result<(), String> {
        self.check_walk(walk)?;
        if walk.cut_off {
            return self.check_some_subset(query, accept, found);
        }
        let (right, _) = self.oracle.largest_subset(query, &mut |entry| accept(entry));
        if found == right { Ok(()) } else { Err(format!("the largest is {found:?}, not {right:?}")) }
    }

    /// An answer found before the limit of steps is at least a subset.
    fn check_some_subset(
        &self,
        query: &TagQuery<'_>,
        accept: &dyn Fn(EntryId) -> bool,
        found: Option<EntryId>,
    ) -> Result<(), String> {
        let Some(found) = found else { return Ok(()) };
        let mut is_subset = false;
        self.oracle.all_subsets(query, &mut |entry| {
            is_subset |= entry == found;
            if is_subset { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if is_subset && accept(found) { Ok(()) } else { Err(format!("{found:?} is no subset that is accepted")) }
    }

    /// A walk is cut off if and only if it reached the limit.
    fn check_walk(&self, walk: Effort) -> Result<(), String> {
        let sane = walk.steps <= self.kind.steps_max && (!walk.cut_off || walk.steps == self.kind.steps_max);
        if sane { Ok(()) } else { Err(format!("{walk:?}, of at most {} steps", self.kind.steps_max)) }
    }

    fn memory(&self) -> Result<(), String> {
        let (bytes, descriptors) = (self.subject.fib.memory_bytes(), self.oracle.len());
        // No engine takes less than an entry for a descriptor.
        let empty = Subject::new(self.kind).fib.memory_bytes();
        let bytes_max = empty + FEW_DESCRIPTORS_BYTES + self.peak * DESCRIPTOR_BYTES;
        let sane = (4 * descriptors..=bytes_max).contains(&bytes);
        let peak = self.peak;
        if sane { Ok(()) } else { Err(format!("says that {descriptors} descriptors of {peak} take {bytes} bytes")) }
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

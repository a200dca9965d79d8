//! Rates of changes, alone and beside a reader.
//!
//! The writer adds names that are not in the table and deletes them again; the next round adds other names. Names that
//! stay in the table get another action, and then their own again. Alone, the measured loop includes hashing the names.
//! Beside a reader, the writer has the digests prepared.

use std::time::{Duration, Instant};

use byname_lookup::{BuildError, Change, EntryId, FlatFib};
use byname_wire::Digest;

use super::baselines::{self, FlatName};
use super::engine::{Setup, Subject};
use super::hasher::Hasher;
use super::queries::Queries;
use super::reader::Reader;
use super::table::{Asked, Table};
use crate::machine::cores;
use crate::timing::median;
use crate::workload::Permutation;
use crate::writer::{self, Changes};

/// Number of names that are added to a table of `names` and deleted again. It is small, so that the table stays about
/// equally full.
pub fn fresh(names: u64) -> u64 {
    (names / 64).clamp(64, 1 << 18)
}

/// Maximum number of further samples that are added in turn.
const SAMPLES_MAX: usize = 15;

/// The action that replaces `action`.
pub fn other(action: EntryId) -> EntryId {
    EntryId(action.0 ^ 1)
}

/// Some names with their actions.
pub struct Sample {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// One action per name.
    pub actions: Vec<EntryId>,
}

impl Sample {
    fn of(setup: &Setup<'_>, numbers: impl Iterator<Item = u64>) -> Self {
        let mut sample = Sample { bytes: Vec::new(), ends: Vec::new(), actions: Vec::new() };
        for number in numbers {
            setup.names.write(number, &mut sample.bytes);
            sample.ends.push(sample.bytes.len());
            sample.actions.push(setup.names.action(number, setup.action_bits));
        }
        sample
    }

    /// Names that are not in the table.
    pub fn fresh(setup: &Setup<'_>) -> Self {
        let len = setup.names.len();
        Sample::of(setup, len..len + fresh(len))
    }

    /// Names that are neither in the table nor in [`Sample::in_turn`]. A table that once held a name may still return
    /// its action.
    pub fn unseen(setup: &Setup<'_>) -> Self {
        let (len, fresh) = (setup.names.len(), fresh(setup.names.len()));
        Sample::of(setup, len + fresh..len + 2 * fresh)
    }

    /// [`Sample::fresh`] and further samples of other names, so that names stay new for more rounds.
    fn in_turn(setup: &Setup<'_>) -> Vec<Self> {
        let (len, fresh) = (setup.names.len(), fresh(setup.names.len()));
        // There may be fewer short names outside the table than inside.
        let others = (2..len / fresh).take(SAMPLES_MAX).map(|at| len + at * fresh);
        std::iter::once(len).chain(others).map(|first| Sample::of(setup, first..first + fresh)).collect()
    }

    /// Names from all over the table.
    pub fn stable(setup: &Setup<'_>, seed: u64) -> Self {
        let len = setup.names.len();
        let all = Permutation::new(len, !seed);
        Sample::of(setup, (0..fresh(len).min(len)).map(move |i| all.at(i)))
    }

    /// The bytes of all names.
    pub fn names(&self) -> Vec<&[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end]).collect()
    }

    /// The digests of all names.
    pub fn digests(&self, hasher: &Hasher) -> Vec<Digest> {
        self.names().into_iter().map(|name| hasher.digest(name)).collect()
    }
}

/// Changes per second, by kind.
pub struct Rates {
    /// Additions of new names.
    pub adds_per_s: f64,
    /// Changes of a name's action.
    pub alters_per_s: f64,
    /// Deletions of names.
    pub deletes_per_s: f64,
}

/// The action before and after a change; `None` if the name is absent.
type BeforeAndAfter = (Option<EntryId>, Option<EntryId>);

/// Changes the table for some time, in rounds of each kind. An added name was in none of the dozen or so rounds before,
/// if there are enough names. At the end the table is as before. Returns `None` if the table takes no changes.
///
/// # Errors
/// If the engine refuses a change.
pub fn rates(
    table: &mut Table,
    setup: &Setup<'_>,
    batch: usize,
    seed: u64,
    duration: Duration,
) -> Result<Option<Rates>, BuildError> {
    let (fresh, stable) = (Sample::in_turn(setup), Sample::stable(setup, seed));
    let stable_names = stable.names();
    let own = |i: usize| Some(stable.actions[i]);
    let another = |i: usize| Some(other(stable.actions[i]));
    let mut rounds: [Vec<f64>; 3] = Default::default();
    std::thread::scope(|scope| -> Result<(), BuildError> {
        let writing = scope.spawn(|| {
            cores::pin(0);
            let Some(mut changing) = Changing::of(table) else { return Ok(()) };
            let mut apply = |names: &[&[u8]], change: &dyn Fn(usize) -> BeforeAndAfter| {
                changing.rate(setup.hasher, names, batch, change)
            };
            let start = Instant::now();
            for fresh in fresh.iter().cycle() {
                if !rounds[0].is_empty() && start.elapsed() >= duration {
                    break;
                }
                let fresh_names = fresh.names();
                rounds[0].push(apply(&fresh_names, &|i| (None, Some(fresh.actions[i])))?);
                rounds[1].push(apply(&stable_names, &|i| (own(i), another(i)))?);
                rounds[1].push(apply(&stable_names, &|i| (another(i), own(i)))?);
                rounds[2].push(apply(&fresh_names, &|i| (Some(fresh.actions[i]), None))?);
            }
            Ok(())
        });
        writing.join().expect("engines do not panic")
    })?;
    if rounds[0].is_empty() {
        return Ok(None);
    }
    let [adds_per_s, alters_per_s, deletes_per_s] = rounds.map(|rates| median(&rates));
    Ok(Some(Rates { adds_per_s, alters_per_s, deletes_per_s }))
}

/// The part of an engine that takes changes.
enum Changing<'a> {
    Subject(&'a mut Subject),
    Baseline(&'a mut dyn baselines::Changes),
}

impl<'a> Changing<'a> {
    fn of(table: &'a mut Table) -> Option<Self> {
        Some(match table {
            Table::Halves { subject, .. } => Changing::Subject(subject.as_mut()?),
            Table::Baseline(baseline) => Changing::Baseline(baseline.changes()?),
        })
    }

    /// Hashes and changes names, batch by batch. Returns changes per second.
    fn rate(
        &mut self,
        hasher: &Hasher,
        names: &[&[u8]],
        batch: usize,
        change: &dyn Fn(usize) -> BeforeAndAfter,
    ) -> Result<f64, BuildError> {
        let (mut digests, mut changes) = (vec![Digest::default(); batch], Vec::with_capacity(batch));
        let start = Instant::now();
        for (at, names) in names.chunks(batch).enumerate() {
            let digests = &mut digests[..names.len()];
            hasher.digest_burst(names, digests);
            let changed = digests.iter().enumerate().map(|(i, digest)| (i, *digest, change(batch * at + i)));
            match self {
                Changing::Subject(subject) => {
                    changes.clear();
                    changes.extend(changed.map(|(_, name, (_, after))| match after {
                        Some(action) => Change::Set(name, action),
                        None => Change::Remove(name),
                    }));
                    subject.apply(&changes)?;
                    subject.reclaim();
                }
                Changing::Baseline(baseline) => {
                    for (i, digest, (before, after)) in changed {
                        baseline.change(FlatName { bytes: names[i], digest }, before, after)?;
                    }
                }
            }
        }
        Ok(names.len() as f64 / start.elapsed().as_secs_f64())
    }
}

/// Prepares changes for a writer beside a reader: one third adds names, one third deletes them again, and one third
/// changes actions of names that stay.
pub fn prepare(setup: &Setup<'_>, batch: usize, seed: u64) -> Changes<Digest> {
    let (fresh, stable) = (Sample::fresh(setup), Sample::stable(setup, seed));
    let (mut forth, mut back) = (Vec::new(), Vec::new());
    let mut alters = stable.digests(setup.hasher).into_iter().zip(&stable.actions);
    for (i, (name, action)) in fresh.digests(setup.hasher).into_iter().zip(&fresh.actions).enumerate() {
        forth.push(Change::Set(name, *action));
        back.push(Change::Remove(name));
        // Alterations are a third of all changes; half of them are on the way back.
        if i % 2 == 0
            && let Some((name, action)) = alters.next()
        {
            forth.push(Change::Set(name, other(*action)));
            back.push(Change::Set(name, *action));
        }
    }
    Changes::there_and_back(&forth, &back, batch)
}

/// A reader that checks its answers.
pub struct CheckedReader<'a> {
    reader: Reader<'a>,
    expected: Vec<EntryId>,
    /// Number of answers so far.
    pub checked: u64,
    /// Number of answers that were right neither before nor after any change.
    pub wrong: u64,
}

impl<'a> CheckedReader<'a> {
    /// Reads names that are never deleted.
    pub fn new(setup: &Setup<'a>, queries: &'a Queries, burst: usize) -> Self {
        let action = |i| setup.names.action(queries.number(i, setup.names), setup.action_bits);
        let expected = (0..queries.len()).map(action).collect();
        CheckedReader { reader: Reader::new(queries, setup.hasher, burst, 0), expected, checked: 0, wrong: 0 }
    }
}

impl writer::Reader<dyn FlatFib> for CheckedReader<'_> {
    #[inline]
    fn look_up(&mut self, fib: &dyn FlatFib) -> usize {
        let range = self.reader.look_up(Asked::Fib(fib));
        let names = range.len();
        let pairs = self.reader.answers().iter().zip(&self.expected[range]);
        let is_wrong = |(found, expected): &(&Option<EntryId>, &EntryId)| {
            **found != Some(**expected) && **found != Some(other(**expected))
        };
        self.wrong += pairs.filter(is_wrong).count() as u64;
        self.checked += names as u64;
        names
    }
}

//! Changes of rules, alone and beside a reader.
//!
//! A third of the changes add rules, a third remove them again, and a third replace the entries of
//! rules that stay. They are prepared before, in batches, and gone through forwards and backwards.
//! The reader compares every answer with what it must be: the rules it asks for stay, with one of
//! two entries.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use byname_lookup::{BuildError, Change, EntryId, PrefixFib, PrefixMatch, Update};
use byname_wire::{Name, NameHashKey, NameRef};

use super::check::expected;
use super::cores;
use super::engine::Subject;
use super::reader::{Reader, rate};
use crate::workload::{NameSet, Random, Workload};

/// How many rules are added to a table of `rules`, and removed again: few, so that it is about as
/// full as it was.
pub fn fresh(rules: u64) -> u64 {
    (rules / 64).clamp(64, 1 << 18)
}

/// Prepared changes, and the way back.
pub struct Changes {
    batches: Vec<Vec<Change<Name>>>,
    /// The next batch to apply.
    at: usize,
}

impl Changes {
    /// For a table that holds the workload's rules.
    pub fn prepare(workload: &dyn Workload, batch: usize, seed: u64) -> Self {
        let mut random = Random::new(!seed);
        let mut octets = Vec::new();
        let (mut forth, mut back) = (Vec::new(), Vec::new());
        for i in 0..fresh(workload.rules()) {
            workload.write_miss(&mut random, &mut octets);
            let name = NameRef::new_checked_before(&octets).to_name();
            forth.push(Change::Set(name.clone(), EntryId(0)));
            back.push(Change::Remove(name));
            // As many replacements as additions and removals, half of them on the way back.
            if i % 2 == 0 {
                let rule = random.below(workload.rules());
                workload.write_rule(rule, &mut octets);
                let (name, entry) = (NameRef::new_checked_before(&octets).to_name(), workload.entry(rule));
                forth.push(Change::Set(name.clone(), other(entry)));
                back.push(Change::Set(name, entry));
            }
        }
        back.reverse();
        let batches = forth.chunks(batch).chain(back.chunks(batch)).map(<[_]>::to_vec).collect();
        Changes { batches, at: 0 }
    }

    fn next(&mut self) -> &[Change<Name>] {
        let at = self.at;
        self.at = (at + 1) % self.batches.len();
        &self.batches[at]
    }
}

/// The entry that a rule is given in exchange.
fn other(entry: EntryId) -> EntryId {
    EntryId(entry.0 ^ 1)
}

/// What a writer and a reader share.
struct Table {
    fib: Mutex<Arc<dyn PrefixFib>>,
    /// Batches applied.
    applied: AtomicU64,
    /// Of which the reader has noticed so many, between two bursts.
    seen: AtomicU64,
    stop: AtomicBool,
}

/// A reader that checks its answers.
pub struct CheckedReader<'a> {
    reader: Reader<'a>,
    expected: Vec<Option<PrefixMatch>>,
    /// Answers so far.
    pub checked: u64,
    /// Those that were right neither before nor after any change.
    pub wrong: u64,
}

impl<'a> CheckedReader<'a> {
    /// Of names whose rules are not removed.
    pub fn new(workload: &dyn Workload, names: &'a NameSet, key: &'a NameHashKey, burst: usize) -> Self {
        let expected = (0..names.len()).map(|i| expected(workload, names, i)).collect();
        CheckedReader { reader: Reader::new(names, key, burst, 0), expected, checked: 0, wrong: 0 }
    }

    #[inline]
    fn look_up(&mut self, fib: &dyn PrefixFib) -> usize {
        let range = self.reader.look_up(fib);
        let names = range.len();
        let is_right = |found: &Option<PrefixMatch>, expected: &Option<PrefixMatch>| match (found, expected) {
            (Some(found), Some(expected)) => {
                found.depth == expected.depth && (found.entry == expected.entry || found.entry == other(expected.entry))
            }
            (found, expected) => found.is_none() && expected.is_none(),
        };
        let pairs = self.reader.answers().iter().zip(&self.expected[range]);
        self.wrong += pairs.filter(|(found, expected)| !is_right(found, expected)).count() as u64;
        self.checked += names as u64;
        names
    }
}

/// Rates with a writer and a reader at work.
pub struct Rates {
    /// Changes a second.
    pub updates_per_s: f64,
    /// Lookups a second beside them; 0 without a reader.
    pub lookups_per_s: f64,
}

/// Lets a writer apply changes for some time, at `pace` changes a second or as fast as it can, with
/// a reader on another core if there is one.
///
/// # Errors
/// If the engine refuses a change.
pub fn run(
    subject: &mut Subject,
    changes: &mut Changes,
    reader: Option<&mut CheckedReader<'_>>,
    pace: Option<u64>,
    duration: Duration,
) -> Result<Rates, BuildError> {
    let table = Table {
        fib: Mutex::new(subject.query()),
        applied: AtomicU64::new(0),
        seen: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let has_reader = reader.is_some();
    thread::scope(|scope| {
        let reading = reader.map(|reader| scope.spawn(|| read(&table, reader)));
        let writing = scope.spawn(|| {
            cores::pin(1);
            let _at_end = AtEnd(|| table.stop.store(true, Ordering::Release));
            write(&table, subject, changes, has_reader, pace, duration)
        });
        let lookups_per_s = reading.map_or(0.0, |thread| thread.join().expect("engines do not panic"));
        let updates_per_s = writing.join().expect("engines do not panic")?;
        Ok(Rates { updates_per_s, lookups_per_s })
    })
}

/// Does something when a thread ends, in whichever way.
struct AtEnd<F: FnMut()>(F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The same reader without a writer.
pub fn read_quietly(fib: &dyn PrefixFib, reader: &mut CheckedReader<'_>, duration: Duration) -> f64 {
    let reading = || {
        cores::pin(0);
        rate(duration, || reader.look_up(fib))
    };
    thread::scope(|scope| scope.spawn(reading).join().expect("engines do not panic"))
}

fn read(table: &Table, reader: &mut CheckedReader<'_>) -> f64 {
    cores::pin(0);
    // A reader that panics must not leave the writer waiting.
    let _at_end = AtEnd(|| table.seen.store(u64::MAX, Ordering::Release));
    let current = || table.fib.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (mut fib, mut seen) = (current(), 0);
    let start = Instant::now();
    let mut names = 0;
    while !table.stop.load(Ordering::Acquire) {
        names += reader.look_up(&*fib);
        // Between two bursts nothing of the table is held: a quiescent point.
        let applied = table.applied.load(Ordering::Acquire);
        if applied != seen {
            fib = current();
            seen = applied;
            table.seen.store(seen, Ordering::Release);
        }
    }
    names as f64 / start.elapsed().as_secs_f64()
}

fn write(
    table: &Table,
    subject: &mut Subject,
    changes: &mut Changes,
    has_reader: bool,
    pace: Option<u64>,
    duration: Duration,
) -> Result<f64, BuildError> {
    let start = Instant::now();
    let mut done = 0;
    let mut applied = 0;
    while start.elapsed() < duration {
        let batch = changes.next();
        done += batch.len();
        if let Update::Replace(fib) = subject.apply(batch)? {
            *table.fib.lock().unwrap_or_else(PoisonError::into_inner) = fib;
        }
        applied += 1;
        table.applied.store(applied, Ordering::Release);
        while has_reader && table.seen.load(Ordering::Acquire) < applied {
            spin_loop();
        }
        subject.reclaim();
        if let Some(pace) = pace {
            let due = Duration::from_secs_f64(done as f64 / pace as f64);
            thread::sleep(due.min(duration).saturating_sub(start.elapsed()));
        }
    }
    Ok(done as f64 / start.elapsed().as_secs_f64())
}

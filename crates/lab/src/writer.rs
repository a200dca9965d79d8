//! A writer that changes a table, alone and beside a reader on another core.
//!
//! Changes are prepared in batches, and are applied forward and then undone. So the table stays about equally full.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use byname_lookup::{BuildError, Change, Control, Update};

use crate::machine::cores;
use crate::timing::rate;

/// Prepared changes, and the changes that undo them.
pub struct Changes<K> {
    batches: Vec<Vec<Change<K>>>,
    /// Number of the next batch to apply.
    at: usize,
}

impl<K: Clone> Changes<K> {
    /// Makes batches of `batch` changes: `forth` in order, and then `back` in reverse order.
    pub fn there_and_back(forth: &[Change<K>], back: &[Change<K>], batch: usize) -> Self {
        let back: Vec<_> = back.iter().rev().cloned().collect();
        let batches = forth.chunks(batch).chain(back.chunks(batch)).map(<[_]>::to_vec).collect();
        Changes { batches, at: 0 }
    }
}

impl<K> Changes<K> {
    /// Applies the rest of the way back, so that the table is as before.
    ///
    /// # Errors
    /// If the engine refuses a change.
    pub fn go_back<Q: ?Sized>(&mut self, subject: &mut dyn Control<K, Query = Q>) -> Result<(), BuildError> {
        while self.at != 0 {
            subject.apply(self.next())?;
            subject.reclaim();
        }
        Ok(())
    }

    fn next(&mut self) -> &[Change<K>] {
        let at = self.at;
        self.at = (at + 1) % self.batches.len();
        &self.batches[at]
    }
}

/// A reader that looks names up and checks the answers.
pub trait Reader<Q: ?Sized> {
    /// Looks up a burst. Returns its number of names.
    fn look_up(&mut self, fib: &Q) -> usize;

    /// Prepares for the next measurement.
    fn rewind(&mut self) {}
}

/// The state that a writer and a reader share.
struct Table<Q: ?Sized> {
    fib: Mutex<Arc<Q>>,
    /// Number of batches that the writer has applied.
    applied: AtomicU64,
    /// Number of batches that the reader has noticed, between two bursts.
    seen: AtomicU64,
    stop: AtomicBool,
}

/// Rates of a writer and a reader together.
pub struct Rates {
    /// Changes per second.
    pub updates_per_s: f64,
    /// Lookups per second during the changes; 0 without a reader.
    pub lookups_per_s: f64,
}

/// Lets a writer apply changes for `duration`, at `pace` changes per second or as fast as it can. A reader runs on
/// another core, if there is one.
///
/// # Errors
/// If the engine refuses a change.
pub fn run<K: Send, Q: ?Sized + Send + Sync>(
    subject: &mut (dyn Control<K, Query = Q> + Send),
    changes: &mut Changes<K>,
    reader: Option<&mut (dyn Reader<Q> + Send)>,
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

/// Runs a closure when a thread ends, even by a panic.
struct AtEnd<F: FnMut()>(F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Measures the same reader without a writer.
pub fn read_quietly<Q: ?Sized + Sync>(fib: &Q, reader: &mut (dyn Reader<Q> + Send), duration: Duration) -> f64 {
    let reading = || {
        cores::pin(0);
        rate(duration, || reader.look_up(fib))
    };
    thread::scope(|scope| scope.spawn(reading).join().expect("engines do not panic"))
}

fn read<Q: ?Sized>(table: &Table<Q>, reader: &mut dyn Reader<Q>) -> f64 {
    cores::pin(0);
    // A reader that panics must not leave the writer waiting.
    let _at_end = AtEnd(|| table.seen.store(u64::MAX, Ordering::Release));
    let current = || table.fib.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (mut fib, mut seen) = (current(), 0);
    let start = Instant::now();
    let mut names = 0;
    while !table.stop.load(Ordering::Acquire) {
        names += reader.look_up(&*fib);
        // Between two bursts the reader holds nothing of the table: a quiescent point.
        let applied = table.applied.load(Ordering::Acquire);
        if applied != seen {
            fib = current();
            seen = applied;
            table.seen.store(seen, Ordering::Release);
        }
    }
    names as f64 / start.elapsed().as_secs_f64()
}

fn write<K, Q: ?Sized>(
    table: &Table<Q>,
    subject: &mut dyn Control<K, Query = Q>,
    changes: &mut Changes<K>,
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

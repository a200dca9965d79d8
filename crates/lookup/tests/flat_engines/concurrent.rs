//! Readers during writes at full rate: a name that exists before and after a change always has the
//! entry from before or after.
//!
//! The entry of each watched name is the number of its last change. The writer counts the changes
//! that it begins and those that it has finished. An answer must lie between the last change
//! finished before its query and the last one begun when it arrived. Other names come and go
//! meanwhile.
//!
//! `BYNAME_TEST_OPERATIONS` sets how many answers are checked, over all engines.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use byname_lookup::flat::BURST_MAX;
use byname_lookup::{Change, EntryId, FlatFib, Update};

use crate::engines::{ALL, Engine, Kind};
use crate::names::digest;
use crate::property::operations;
use crate::suite::Random;

const WATCHED: usize = BURST_MAX;
/// The other names.
const OTHERS: usize = 3000;

/// The state that the writer and the reader share.
struct Stage {
    /// The query half to read through, and its number.
    published: Mutex<(u64, Arc<dyn FlatFib>)>,
    generation: AtomicU64,
    /// The generation that the reader reads through.
    reader_generation: AtomicU64,
    /// Changes of each watched name.
    begun: Vec<AtomicU64>,
    finished: Vec<AtomicU64>,
    /// Changes in all.
    written: AtomicU64,
    stop: AtomicBool,
}

/// Ends the other thread's work when this thread ends, for whatever reason.
struct StopAll<'a>(&'a Stage);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
    }
}

impl Stage {
    fn new(engine: &Engine) -> Self {
        let counters = || (0..WATCHED).map(|_| AtomicU64::new(0)).collect();
        Stage {
            published: Mutex::new((0, engine.query())),
            generation: AtomicU64::new(0),
            reader_generation: AtomicU64::new(0),
            begun: counters(),
            finished: counters(),
            written: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Changes names until the reader has seen enough.
    fn write(&self, kind: &Kind, mut engine: Engine, seed: u64) {
        let _stop = StopAll(self);
        let (mut random, mut adding) = (Random(seed), true);
        while !self.stopped() {
            if random.one_in(OTHERS) {
                adding = !adding;
            }
            let watched = random.one_in(2).then(|| random.below(WATCHED));
            let change = match watched {
                Some(at) => {
                    let change = self.begun[at].load(Ordering::Relaxed) + 1;
                    self.begun[at].store(change, Ordering::SeqCst);
                    Change::Set(digest(at), EntryId(change as u32 & kind.entry_max))
                }
                None => {
                    let other = digest(WATCHED + random.below(OTHERS));
                    let entry = EntryId(random.next() as u32 & kind.entry_max);
                    if adding { Change::Set(other, entry) } else { Change::Remove(other) }
                }
            };
            if let Update::Replace(fib) = engine.apply(&[change]).expect("few names") {
                self.publish(fib);
                engine.reclaim();
            }
            if let Some(at) = watched {
                self.finished[at].store(self.begun[at].load(Ordering::Relaxed), Ordering::SeqCst);
            }
            self.written.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives a new query half to the reader, and waits until it has it.
    fn publish(&self, fib: Arc<dyn FlatFib>) {
        let generation = self.generation.load(Ordering::SeqCst) + 1;
        *self.published.lock().expect("not poisoned") = (generation, fib);
        self.generation.store(generation, Ordering::SeqCst);
        while self.reader_generation.load(Ordering::SeqCst) < generation && !self.stopped() {
            // The reader may have no processor of its own.
            std::thread::yield_now();
        }
    }

    /// Asks until this many answers were checked during this many changes. Returns how many were.
    fn read(&self, kind: &Kind, answers: u64, changes: u64) -> u64 {
        let _stop = StopAll(self);
        let names: Vec<_> = (0..WATCHED).map(digest).collect();
        let (mut checked, mut generation, mut fib) = (0, 0, self.published.lock().expect("not poisoned").1.clone());
        let (mut before, mut found) = (vec![0; WATCHED], vec![None; WATCHED]);
        for round in 0.. {
            let is_enough = checked >= answers && self.written.load(Ordering::Relaxed) >= changes;
            if is_enough || self.stopped() {
                break;
            }
            if round % 64 == 0 {
                // The writer may have no processor of its own.
                std::thread::yield_now();
            }
            if self.generation.load(Ordering::SeqCst) != generation {
                (generation, fib) = self.published.lock().expect("not poisoned").clone();
                self.reader_generation.store(generation, Ordering::SeqCst);
            }
            for (before, finished) in before.iter_mut().zip(&self.finished) {
                *before = finished.load(Ordering::SeqCst);
            }
            fib.entry_burst(&names, &mut found);
            for (at, (&before, &found)) in before.iter().zip(&found).enumerate() {
                checked += self.check(kind, at, before, found);
            }
            let at = round % WATCHED;
            let before = self.finished[at].load(Ordering::SeqCst);
            checked += self.check(kind, at, before, fib.entry(names[at]));
        }
        checked
    }

    /// Checks an answer to a query before which change `first` was finished. Returns 1, or 0 if any
    /// answer would be right.
    fn check(&self, kind: &Kind, at: usize, first: u64, found: Option<EntryId>) -> u64 {
        let last = self.begun[at].load(Ordering::SeqCst);
        if last - first >= u64::from(kind.entry_max) {
            return 0;
        }
        let is_right = (first..=last).any(|change| found == Some(EntryId(change as u32 & kind.entry_max)));
        assert!(is_right, "{}: name {at} has {found:?} during changes {first} to {last}", kind.name);
        1
    }
}

#[test]
fn each_answer_is_that_of_before_or_of_after_a_change() {
    let answers = operations() / ALL.len() as u64;
    for (seed, kind) in (1..).zip(ALL) {
        let names: Vec<_> = (0..WATCHED).map(digest).collect();
        let engine = (kind.build)(&names, &[EntryId(0); WATCHED]);
        let stage = Stage::new(&engine);
        let checked = std::thread::scope(|scope| {
            let reader = scope.spawn(|| stage.read(kind, answers, answers / 1000));
            scope.spawn(|| stage.write(kind, engine, seed));
            reader.join().expect("each answer was right")
        });
        let written = stage.written.into_inner();
        println!("{}: {checked} answers checked under {written} changes", kind.name);
        assert!(checked >= answers);
    }
}

//! Readers during writes at full rate: a descriptor that exists before and after every change is
//! always found, with the entry from before or after.
//!
//! The entry of each watched descriptor is the number of its last change. The writer counts the
//! change that it begins and the one that it has finished. An answer must lie between the last
//! change finished before its query and the last one begun when it arrived. Other descriptors come
//! and go meanwhile.
//!
//! `BYNAME_TEST_OPERATIONS` sets how many answers are checked, over all engines.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use byname_lookup::tagset::{BURST_MAX, Effort, TagQuery};
use byname_lookup::{BuildError, Change, EntryId, TagsetFib, Update};
use byname_wire::tagset::Filter;
use byname_wire::{Descriptor, TagDigest};

use crate::engines::{ALL, Engine, Keeps, Kind};
use crate::property::operations;
use crate::suite::Random;
use crate::vocabulary::FAMILIES;

const WATCHED: usize = BURST_MAX;
/// The watched descriptors have entries with this bit.
const IS_WATCHED: u32 = 1 << 30;

/// The state that the writer and the reader share.
struct Stage {
    /// The query half to read through, and its number.
    published: Mutex<(u64, Arc<dyn TagsetFib>)>,
    generation: AtomicU64,
    /// The generation that the reader reads through.
    reader_generation: AtomicU64,
    /// Changes of each watched descriptor.
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

/// Three tags that no other descriptor has together, and one that others have.
fn watched(number: usize) -> Descriptor {
    let own = |i: usize| TagDigest(Random((number * 8 + i) as u64 ^ 0x1f83_d9ab).next() as u32);
    Descriptor::from_digests([own(0), own(1), own(2), common()]).expect("few tags")
}

/// A tag that all packets here have.
fn common() -> TagDigest {
    TagDigest(Random(0).next() as u32)
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

    /// Changes descriptors until the reader has seen enough.
    fn write(&self, mut engine: Engine, seed: u64) {
        let _stop = StopAll(self);
        let family = FAMILIES.iter().find(|family| family.name == "forty tags").expect("it is there");
        let (mut random, mut adding) = (Random(seed), true);
        while !self.stopped() {
            if random.one_in(3000) {
                adding = !adding;
            }
            let watched_at = random.one_in(2).then(|| random.below(WATCHED));
            let change = match watched_at {
                Some(at) => {
                    let change = self.begun[at].load(Ordering::Relaxed) + 1;
                    self.begun[at].store(change, Ordering::SeqCst);
                    Change::Set(watched(at), EntryId(IS_WATCHED + change as u32))
                }
                None => {
                    let (other, entry) = (family.descriptor(&mut random), EntryId(random.below(1000) as u32));
                    if adding { Change::Set(other, entry) } else { Change::Remove(other) }
                }
            };
            match engine.apply(&[change]) {
                Ok(Update::Replace(fib)) => {
                    self.publish(fib);
                    engine.reclaim();
                }
                Ok(Update::Patched) => {}
                Err(error) => assert_eq!(error, BuildError::Collision, "few descriptors"),
            }
            if let Some(at) = watched_at {
                self.finished[at].store(self.begun[at].load(Ordering::Relaxed), Ordering::SeqCst);
            }
            self.written.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives a new query half to the reader, and waits until it has it.
    fn publish(&self, fib: Arc<dyn TagsetFib>) {
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
        let packets: Vec<_> = (0..WATCHED).map(watched).collect();
        let queries: Vec<_> = packets.iter().map(|packet| query(kind, packet)).collect();
        let (mut checked, mut generation, mut fib) = (0, 0, self.published.lock().expect("not poisoned").1.clone());
        let (mut before, mut largest) = (vec![0; WATCHED], vec![(None, Effort::default()); WATCHED]);
        for round in 0u64.. {
            let is_enough = checked >= answers && self.written.load(Ordering::Relaxed) >= changes;
            if is_enough || self.stopped() {
                break;
            }
            if round.is_multiple_of(64) {
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
            if round.is_multiple_of(2) {
                fib.largest_subset_burst(&queries, &mut |_, entry| entry.0 >= IS_WATCHED, &mut largest);
                for (at, (&before, &(found, walk))) in before.iter().zip(&largest).enumerate() {
                    checked += self.check(kind, at, before, found, walk);
                }
                continue;
            }
            for (at, (query, &before)) in queries.iter().zip(&before).enumerate() {
                let mut found = None;
                let walk = fib.all_subsets(query, &mut |entry| {
                    assert!(entry.0 < IS_WATCHED || found.is_none(), "{}: found twice", kind.name);
                    found = found.or((entry.0 >= IS_WATCHED).then_some(entry));
                    ControlFlow::Continue(())
                });
                checked += self.check(kind, at, before, found, walk);
            }
        }
        checked
    }

    /// Checks an answer to a query before which change `first` was finished. Returns 1, or 0 if the
    /// descriptor need not be there.
    fn check(&self, kind: &Kind, at: usize, first: u64, found: Option<EntryId>, walk: Effort) -> u64 {
        let last = self.begun[at].load(Ordering::SeqCst);
        if walk.cut_off {
            return 0;
        }
        let is_right = (first..=last).any(|change| found == Some(EntryId(IS_WATCHED + change as u32)));
        assert!(is_right, "{}: descriptor {at} has {found:?} during changes {first} to {last}", kind.name);
        1
    }
}

fn query<'a>(kind: &Kind, packet: &'a Descriptor) -> TagQuery<'a> {
    match kind.keeps {
        Keeps::Tags => TagQuery::of_tags(packet.tags()),
        Keeps::Filters => TagQuery::of_filter(Filter::of(packet.tags())),
    }
}

#[test]
fn what_is_there_before_and_after_a_change_is_found() {
    // A limited engine may miss what would need more steps.
    let kinds: Vec<_> = ALL.iter().filter(|kind| kind.steps_max == u32::MAX).collect();
    let answers = operations() / 5 / kinds.len() as u64;
    for (seed, kind) in (1..).zip(kinds) {
        let mut engine = (kind.build)();
        let first: Vec<_> = (0..WATCHED).map(|at| Change::Set(watched(at), EntryId(IS_WATCHED))).collect();
        engine.apply(&first).expect("few descriptors");
        let stage = Stage::new(&engine);
        let checked = std::thread::scope(|scope| {
            let reader = scope.spawn(|| stage.read(kind, answers, answers / 1000));
            scope.spawn(|| stage.write(engine, seed));
            reader.join().expect("each answer was right")
        });
        let written = stage.written.into_inner();
        println!("{}: {checked} answers checked under {written} changes", kind.name);
        assert!(checked >= answers);
    }
}

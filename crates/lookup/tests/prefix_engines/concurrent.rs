//! Readers during writes: each answer was right at some moment during its lookup.
//!
//! All changes are drawn in advance, with the oracle's answer for each watched name after each
//! change. The writer counts the change that it begins and the one that it has finished. A reader's
//! answer must belong to a version between the last one finished before its lookup began and the
//! last one begun when it ended.
//!
//! An engine may promise less: a lookup is right if it overlaps at most a number of changes
//! ([`Kind::overlapped_max`]). Other answers are neither checked nor counted.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use byname_lookup::oracle::Oracle;
use byname_lookup::prefix::HashRoom;
use byname_lookup::{Change, Control, EntryId, PrefixFib, PrefixMatch, Update};
use byname_wire::Name;
use byname_wire::name::COMPONENTS_MAX;

use crate::engines::{ALL, Burst, Engine, Kind, longest, longest_of_names};
use crate::names::name;
use crate::property::operations;
use crate::suite::Random;

/// Number of changes between two moments at which the writer waits for the reader and reclaims.
const RUN: usize = 64;
/// Minimum number of rounds of checked lookups in each such interval.
const ROUNDS: u64 = 32;

/// The writer's batches, and the right answers after each of them.
struct Script {
    watched: Vec<Name>,
    batches: Vec<Vec<Change<Name>>>,
    /// `right[v]`: the answers for `watched` after the first `v` batches.
    right: Vec<Vec<Option<PrefixMatch>>>,
}

impl Script {
    fn new(watched: Vec<Name>, batches: impl IntoIterator<Item = Vec<Change<Name>>>) -> Self {
        let mut oracle = Oracle::new();
        let answers = |oracle: &Oracle| watched.iter().map(|name| longest(oracle, name)).collect();
        let mut right: Vec<Vec<_>> = vec![answers(&oracle)];
        let batches: Vec<_> = batches.into_iter().collect();
        for batch in &batches {
            oracle.apply(batch).expect("the oracle takes all");
            right.push(answers(&oracle));
        }
        Script { watched, batches, right }
    }

    /// Arbitrary changes of a few rules, one at a time. Now and then a crowd of others is added or
    /// removed, for which a table must be rebuilt.
    fn random(changes: usize) -> Self {
        let watched =
            ["/", "/a", "/b", "/a/a", "/a/b", "/a/b/a", "/a/a/a/a", "/a/a/b/x", "/a/b/a/b", "/b/b/b/b/b", "/b/a/x/y/z"];
        let rules: Vec<_> = (0..5)
            .flat_map(|depth| (0..1 << depth).map(move |bits: u32| (depth, bits)))
            .map(|(depth, bits)| {
                name(&(0..depth).map(|i| if bits >> i & 1 == 0 { "/a" } else { "/b" }).collect::<String>())
            })
            .collect();
        let mut random = Random(11);
        let batches = (0..changes).map(|i| {
            if i % 500 == 499 {
                return crowd(i / 500);
            }
            let rule = random.pick(&rules).clone();
            let entry = EntryId(random.below(3) as u32);
            vec![if random.one_in(2) { Change::Set(rule, entry) } else { Change::Remove(rule) }]
        });
        Script::new(watched.iter().map(|uri| name(uri)).collect(), batches)
    }

    /// One route that moves up and down a chain of names. Between any two changes one or two rules
    /// cover the watched names, so "no match" is always wrong. Other rules at all depths make
    /// lookups long.
    fn moving_route(changes: usize, depth_max: usize) -> Self {
        let chain = |component: &str, depth: usize| name(&component.repeat(depth));
        let rules: Vec<_> = (0..=depth_max).map(|depth| chain("/a", depth)).collect();
        let set = |depth: usize| Change::Set(rules[depth].clone(), EntryId(depth as u32));
        let others = (1..=depth_max).map(|depth| Change::Set(chain("/b", depth), EntryId(99)));
        let mut batches = vec![others.chain([set(0)]).collect()];
        let (mut random, mut at) = (Random(3), 0);
        while batches.len() < changes {
            let to = (at + 1 + random.below(depth_max)) % (depth_max + 1);
            batches.push(vec![set(to)]);
            batches.push(vec![Change::Remove(rules[at].clone())]);
            at = to;
        }
        Script::new(vec![chain("/a", depth_max), chain("/a", depth_max - 1), chain("/a", COMPONENTS_MAX)], batches)
    }
}

/// Thousands of names that have no watched name below.
fn crowd(number: usize) -> Vec<Change<Name>> {
    let rule = |i: u64| name("/crowd").join_number(8, i % 50).join_number(8, i);
    let size = 200 << (number / 2 % 5);
    (0..size)
        .map(|i| if number.is_multiple_of(2) { Change::Set(rule(i), EntryId(7)) } else { Change::Remove(rule(i)) })
        .collect()
}

/// The state that the writer and the reader share.
struct Stage {
    /// The query half to read through, and its number.
    published: Mutex<(u64, Arc<dyn PrefixFib>)>,
    generation: AtomicU64,
    begun: AtomicU64,
    finished: AtomicU64,
    /// The generation that the reader reads through.
    reader_generation: AtomicU64,
    /// Number of rounds that the reader has finished, and of those whose answers it could check.
    rounds: AtomicU64,
    rounds_checked: AtomicU64,
    /// The script has ended, or a thread has failed.
    stop: AtomicBool,
}

/// Ends the other thread's waiting when this thread ends, for whatever reason.
struct StopAll<'a>(&'a Stage);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
    }
}

impl Stage {
    fn new(engine: &Engine) -> Self {
        Stage {
            published: Mutex::new((0, engine.query())),
            generation: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            reader_generation: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            rounds_checked: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Waits until the reader has got that far.
    fn wait(&self, counter: &AtomicU64, at_least: u64) {
        let mut spins = 0;
        while counter.load(Ordering::SeqCst) < at_least && !self.stopped() {
            spins += 1;
            // The reader may have no processor of its own.
            if spins % 1000 == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }

    fn write(&self, mut engine: Engine, script: &Script) {
        let _stop = StopAll(self);
        let mut random = Random(5);
        for (version, batch) in (1..).zip(&script.batches) {
            self.begun.store(version, Ordering::SeqCst);
            if let Update::Replace(fib) = engine.apply(batch).expect("few rules") {
                let generation = self.generation.load(Ordering::SeqCst) + 1;
                *self.published.lock().expect("not poisoned") = (generation, fib);
                self.generation.store(generation, Ordering::SeqCst);
                self.wait(&self.reader_generation, generation);
            }
            self.finished.store(version, Ordering::SeqCst);
            // Changes come in groups, and one by one.
            for _ in 0..*random.pick(&[0, 0, 0, 0, 10, 100]) {
                std::hint::spin_loop();
            }
            if version.is_multiple_of(RUN as u64) {
                self.wait(&self.rounds_checked, version / RUN as u64 * ROUNDS);
                // After the current round the reader holds nothing that was removed so far.
                self.wait(&self.rounds, self.rounds.load(Ordering::SeqCst) + 1);
                engine.reclaim();
            }
            if self.stopped() {
                return;
            }
        }
    }

    /// Looks up until the script has ended. Returns how many answers were checked.
    fn read(&self, kind: &Kind, script: &Script) -> u64 {
        let _stop = StopAll(self);
        let burst = Burst::new(&script.watched);
        let (mut checked, mut generation, mut fib) = (0, 0, self.published.lock().expect("not poisoned").1.clone());
        for round in 0.. {
            if self.stopped() {
                break;
            }
            if self.generation.load(Ordering::SeqCst) != generation {
                (generation, fib) = self.published.lock().expect("not poisoned").clone();
                self.reader_generation.store(generation, Ordering::SeqCst);
            }
            let first = self.finished.load(Ordering::SeqCst);
            let answers = match round % 2 {
                0 => burst.longest(&*fib),
                _ => longest_of_names(&*fib, &script.watched, &mut HashRoom::default()),
            };
            let of_burst = self.check(kind, script, &answers, 0, first);
            let at = round % script.watched.len();
            let first = self.finished.load(Ordering::SeqCst);
            let answer = fib.longest_match(&burst.views()[at]);
            checked += of_burst + self.check(kind, script, &[answer], at, first);
            self.rounds_checked.fetch_add(u64::from(of_burst > 0), Ordering::SeqCst);
            self.rounds.fetch_add(1, Ordering::SeqCst);
        }
        checked
    }

    /// Checks answers for the watched names from `at` on, looked up after change `first` was
    /// finished. Returns the number of answers checked.
    fn check(&self, kind: &Kind, script: &Script, answers: &[Option<PrefixMatch>], at: usize, first: u64) -> u64 {
        let last = self.begun.load(Ordering::SeqCst);
        if last - first > kind.overlapped_max {
            return 0;
        }
        let versions: RangeInclusive<_> = first as usize..=last as usize;
        for (i, answer) in (at..).zip(answers) {
            let right: Vec<_> = script.right[versions.clone()].iter().map(|right| right[i]).collect();
            assert!(
                right.contains(answer),
                "{}: {} gives {answer:?} during changes {versions:?}: {:?}; right were {right:?}",
                kind.name,
                script.watched[i],
                &script.batches[first as usize..last as usize],
            );
        }
        answers.len() as u64
    }
}

fn run(kind: &Kind, script: &Script) -> u64 {
    let engine = (kind.build)();
    let stage = Stage::new(&engine);
    let checked = std::thread::scope(|scope| {
        let reader = scope.spawn(|| stage.read(kind, script));
        scope.spawn(|| stage.write(engine, script));
        reader.join().expect("each answer was right")
    });
    assert_eq!(stage.finished.into_inner(), script.batches.len() as u64);
    checked
}

#[test]
fn each_answer_was_right_while_it_was_looked_up() {
    let changes = operations() as usize / 20 / ALL.len();
    let random = Script::random(changes);
    for kind in ALL {
        for script in [&random, &Script::moving_route(changes, kind.depth_max)] {
            let checked = run(kind, script);
            println!("{}: {checked} answers checked under a writer", kind.name);
            let rounds = script.batches.len() as u64 / RUN as u64 * ROUNDS;
            assert!(checked >= rounds * script.watched.len() as u64);
        }
    }
}

//! A writer of routes beside workers: the FIB work of the router's control thread.
//!
//! One third of the updates add rules, one third remove them again, and one third change the nexthops of rules that
//! packets match. Updates are due at even intervals. When several are due, the writer publishes them together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use byname_control::fib_writer::{FibEngine, FibWriter};
use byname_forward::tables::{Nexthop, Tables};
use byname_lookup::EntryId;
use byname_wire::{Name, NameRef};
use hdrhistogram::Histogram;

use super::consumers::producer;
use crate::machine::cores;
use crate::workload::{Random, Workload};

/// Number of rules that come and go, and of rules that stay and are changed.
const RULES: u64 = 1 << 16;
/// Maximum number of updates that are published together.
const BATCH_MAX: u64 = 4096;
/// Time to sleep when no update is due.
const NAP: Duration = Duration::from_micros(50);
/// Latencies are recorded up to this value.
const LATENCY_NS_MAX: u64 = 10_000_000_000;

/// A rule, and its group of nexthops while it is in the FIB.
struct Rule {
    name: Name,
    group: Option<EntryId>,
}

/// The only writer of a FIB, with the updates that it will write.
pub struct Updates {
    writer: FibWriter,
    /// Rules that come and go. Half of them are in the FIB at any time.
    passing: Vec<Rule>,
    /// Rules that stay.
    staying: Vec<Rule>,
    /// Two nexthops with the same face but different costs, so that they are two groups.
    ways: [[Nexthop; 1]; 2],
    done: u64,
    /// Time of all measurements, and the number of updates in them.
    elapsed: Duration,
    measured: u64,
    latency: Histogram<u64>,
}

/// Results of the updates.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Updates per second.
    pub per_s: f64,
    /// Median time from when an update was due until workers saw it, in microseconds.
    pub us: f64,
    /// The p99 of that time.
    pub us_p99: f64,
    /// The maximum of that time.
    pub us_max: f64,
}

/// Maximum number of rules added to a FIB of `rules`.
pub fn added(rules: u64) -> u64 {
    RULES.min(rules) + 1
}

impl Updates {
    /// Makes a writer for the engine that holds the workload's rules. The rules that it changes lead to the producer of
    /// the first of `threads` threads.
    pub fn new(engine: FibEngine, tables: &Arc<Tables>, workload: &dyn Workload, threads: usize, seed: u64) -> Self {
        let mut random = Random::new(!seed);
        let mut bytes = Vec::new();
        let (mut passing, mut staying) = (Vec::new(), Vec::new());
        for _ in 0..RULES.min(workload.rules()) {
            workload.write_miss(&mut random, &mut bytes);
            passing.push(Rule { name: NameRef::new_checked_before(&bytes).to_name(), group: None });
            workload.write_rule(random.below(workload.rules()), &mut bytes);
            staying.push(Rule { name: NameRef::new_checked_before(&bytes).to_name(), group: None });
        }
        let mut updates = Updates {
            writer: FibWriter::new(engine, Arc::clone(tables)),
            passing,
            staying,
            ways: [0, 1].map(|cost| [Nexthop { face: producer(0, threads), cost }]),
            done: 0,
            elapsed: Duration::ZERO,
            measured: 0,
            latency: Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("these bounds are allowed"),
        };
        // This rule keeps the second group of nexthops in use at all times, because rules of the workload use its id,
        // too.
        workload.write_miss(&mut random, &mut bytes);
        let mut anchor = Rule { name: NameRef::new_checked_before(&bytes).to_name(), group: None };
        set(&mut updates.writer, &mut anchor, &updates.ways[1]);
        let half = updates.passing.len() / 2;
        updates.passing[half..].iter_mut().for_each(|rule| set(&mut updates.writer, rule, &updates.ways[0]));
        updates.staying.iter_mut().for_each(|rule| set(&mut updates.writer, rule, &updates.ways[0]));
        updates.writer.commit();
        updates
    }

    /// Runs `work` while updates come at `per_s` per second.
    pub fn beside<T>(&mut self, per_s: u64, core: usize, work: impl FnOnce() -> T) -> T {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let writing = scope.spawn(|| {
                cores::pin(core);
                self.write(per_s, &stop);
            });
            let found = work();
            stop.store(true, Ordering::Relaxed);
            writing.join().expect("the writer does not panic");
            found
        })
    }

    /// Results of all updates so far.
    pub fn written(&self) -> Written {
        let us = |ns: u64| ns as f64 / 1e3;
        Written {
            per_s: self.measured as f64 / self.elapsed.as_secs_f64(),
            us: us(self.latency.value_at_quantile(0.5)),
            us_p99: us(self.latency.value_at_quantile(0.99)),
            us_max: us(self.latency.max()),
        }
    }

    /// Number of updates that the FIB refused.
    pub fn refused(&self) -> u64 {
        self.writer.failures()
    }

    fn write(&mut self, per_s: u64, stop: &AtomicBool) {
        let start = Instant::now();
        let due_at = |update: u64| Duration::from_secs_f64(update as f64 / per_s as f64);
        let mut done = 0;
        while !stop.load(Ordering::Relaxed) {
            let due = (start.elapsed().as_secs_f64() * per_s as f64) as u64;
            if due == done {
                thread::sleep(NAP);
                continue;
            }
            let batch = done..due.min(done + BATCH_MAX);
            batch.clone().for_each(|_| self.update());
            self.writer.commit();
            let now = start.elapsed();
            for update in batch.clone() {
                self.latency.saturating_record(now.saturating_sub(due_at(update)).as_nanos() as u64);
            }
            done = batch.end;
        }
        self.elapsed += start.elapsed();
        self.measured += done;
    }

    fn update(&mut self) {
        let at = self.done / 3;
        let of = |rules: &[Rule], at: u64| (at % rules.len() as u64) as usize;
        match self.done % 3 {
            0 => {
                let rule = of(&self.passing, at);
                set(&mut self.writer, &mut self.passing[rule], &self.ways[0]);
            }
            1 => {
                let rule = of(&self.passing, at + self.passing.len() as u64 / 2);
                let Rule { name, group } = &mut self.passing[rule];
                self.writer.clear(name.as_ref(), group);
            }
            _ => {
                let way = (1 + at / self.staying.len() as u64) % 2;
                let rule = of(&self.staying, at);
                set(&mut self.writer, &mut self.staying[rule], &self.ways[way as usize]);
            }
        }
        self.done += 1;
    }
}

fn set(writer: &mut FibWriter, rule: &mut Rule, nexthops: &[Nexthop]) {
    writer.set(rule.name.as_ref(), &mut rule.group, nexthops);
}

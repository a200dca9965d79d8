//! Frames in memory [Concise §6.4.1]: a generator, the switch, and counters where frames leave, on one
//! core.
//!
//! The generator writes the addresses into the next of many frames, which lie one behind the other in
//! memory beyond the caches, and hands over a burst. What leaves is counted, not copied. Each frame has
//! the port that it must leave by in its payload, so that all frames are checked, those that are timed.
//!
//! Tables take turns, and with them one that knows all answers: the share of its rate that a table
//! reaches is what looking up costs of all that is done to a frame.

use std::sync::Arc;

use anyhow::ensure;
use byname_forward::Ticks;
use byname_forward::switch::frame::{Arrived, TAG_BYTES, TAG_ETHER_TYPE};
use byname_forward::switch::{PORTS_MAX, Plan, Role, Switch};
use byname_lookup::{FlatFib, prefetch};
use byname_wire::NameHashKey;
use smallvec::SmallVec;

use super::foretold::Foretold;
use super::options::{From, Options};
use super::record::{MemoryRecord, Passage, Tried};
use super::stations::{Addresses, Stations};
use super::tables::{self, Named};
use crate::progress::Progress;
use crate::timing::{median, rate_of_all};

/// Frames that are forwarded together, as the switch's thread takes them.
const BURST: usize = 64;
/// Places in a frame: behind the addresses, and behind an EtherType.
const TAG_AT: usize = 12;
const MARK: usize = 2;
/// Frames begin where cache lines do.
const LINE: usize = 64;
/// Of tables that may be wrong, how many times as often as they say they are: what was drawn is no
/// average.
const WRONG_TIMES: f64 = 10.0;
/// What the table that knows all answers is called.
const FORETOLD: &str = "foretold";

/// Measures all tables at each size, in turn; a record of each.
pub fn measure(options: &Options, progress: Progress) -> anyhow::Result<Vec<MemoryRecord>> {
    options.measuring.ensure_possible()?;
    ensure!(options.draws >= BURST as u64, "there must be frames (--draws)");
    ensure!(!options.compare.is_empty(), "there must be a table (--compare)");
    let mut records = Vec::new();
    for &names in &options.names {
        let bench = Bench::build(options, names, progress)?;
        for &octets in &options.octets {
            records.extend(bench.measure(octets.into(), progress)?);
        }
    }
    let far = |record: &&MemoryRecord| {
        let Passage { checked, wrong, lost, .. } = record.passage;
        (wrong + lost) as f64 > WRONG_TIMES * record.wrong_rate * checked as f64
    };
    if let Some(Passage { engine, checked, wrong, lost, .. }) = records.iter().find(far).map(|r| &r.passage) {
        anyhow::bail!("of {checked} frames {wrong} left by the wrong port and {lost} not at all, by {engine}");
    }
    Ok(records)
}

/// All tables of so many names.
struct Bench<'a> {
    options: &'a Options,
    key: NameHashKey,
    draws: Arc<[Addresses]>,
    names: u64,
    tables: Vec<(&'a str, tables::Table)>,
}

/// One thread's part of one table's measurement.
struct Lane<'a> {
    switch: Switch,
    draws: &'a [Addresses],
    next: usize,
    passed: u64,
    left: u64,
    wrong: u64,
}

/// Frames of one thread, all of which are the same but for what the generator writes.
struct Frames {
    octets: Vec<u8>,
    /// Where the first begins.
    start: usize,
    /// From one to the next.
    stride: usize,
    len: usize,
    count: usize,
    next: usize,
    /// Where the mark is in each.
    mark_at: usize,
}

impl<'a> Bench<'a> {
    fn build(options: &'a Options, names: u64, progress: Progress) -> anyhow::Result<Self> {
        let seed = options.measuring.seed;
        let stations = Stations::new(names, PORTS_MAX as u8, seed)?;
        let key = super::key(options);
        let spinner = progress.spinner("drawing frames");
        let mut draws = stations.draw(options.trace.as_deref(), options.draws, seed)?;
        // Whole bursts, so that all threads begin with one.
        draws.truncate(draws.len() / BURST * BURST);
        ensure!(!draws.is_empty(), "the trace is too short");
        let mut tables = Vec::new();
        for engine in &options.compare {
            spinner.set_message(format!("building {engine} of {names} names"));
            tables.push((engine.as_str(), tables::build(engine, Named { stations: &stations, key: &key })?));
        }
        spinner.finish_and_clear();
        Ok(Bench { options, key, draws: draws.into(), names, tables })
    }

    fn measure(&self, octets: usize, progress: Progress) -> anyhow::Result<Vec<MemoryRecord>> {
        let options = self.options;
        let threads = options.measuring.threads;
        let spinner = progress.spinner(&format!("forwarding frames of {octets} octets by {} names", self.names));
        let mut frames: Vec<_> = (0..threads).map(|_| Frames::new(options, octets)).collect();
        let first = |thread| self.draws.len() / BURST * thread / threads * BURST;
        let lanes = |fib: &dyn Fn(usize) -> Arc<dyn FlatFib>| -> Vec<_> {
            (0..threads).map(|thread| Lane::new(self, fib(thread), first(thread))).collect()
        };
        let foretold = |thread| Arc::new(Foretold::new(self.draws.clone(), options.from, first(thread))) as _;
        let mut all = vec![lanes(&foretold)];
        all.extend(self.tables.iter().map(|(_, table)| lanes(&|_| table.fib.clone())));
        let mut rates = vec![Vec::new(); all.len()];
        let step = options.measuring.repetition();
        // The first round finds caches and the processor's clock cold.
        for round in 0..=options.measuring.repetitions {
            for (lanes, rates) in all.iter_mut().zip(&mut rates) {
                let mut pairs: Vec<_> = lanes.iter_mut().zip(&mut frames).collect();
                let rate = rate_of_all(&mut pairs, step, |(lane, frames)| lane.forward(frames));
                if round > 0 {
                    rates.push(rate);
                }
            }
        }
        spinner.finish_and_clear();
        let limit = median(&rates[0]);
        let nothing = (FORETOLD, 0, 0.0);
        let engines = self.tables.iter().map(|(name, table)| (*name, table.fib.memory_bytes(), table.wrong_rate));
        let engines = std::iter::once(nothing).chain(engines);
        Ok(engines
            .zip(all.iter().zip(&rates))
            .map(|(e, (lanes, rates))| self.record(octets, e, lanes, rates, limit))
            .collect())
    }

    fn record(
        &self,
        octets: usize,
        (engine, table_bytes, wrong_rate): (&str, usize, f64),
        lanes: &[Lane<'_>],
        rates: &[f64],
        limit: f64,
    ) -> MemoryRecord {
        let options = self.options;
        let sum = |of: fn(&Lane<'_>) -> u64| lanes.iter().map(of).sum();
        let counts = [sum(|lane| lane.passed), sum(|lane| lane.wrong), sum(|lane| lane.passed - lane.left)];
        let table = Tried { engine, names: self.names, bytes: table_bytes };
        let passage = Passage::new(options, octets, self.draws.len(), &table, rates, limit, counts);
        MemoryRecord {
            frame_memory: options.frame_memory,
            threads: options.measuring.threads,
            ns_per_frame: options.measuring.threads as f64 * 1e9 / passage.frames_per_s,
            wrong_rate,
            passage,
        }
    }
}

impl<'a> Lane<'a> {
    fn new(bench: &'a Bench<'_>, fib: Arc<dyn FlatFib>, first: usize) -> Self {
        let mut switch = Switch::new(PORTS_MAX);
        let mut roles = vec![Role::Host; PORTS_MAX];
        if bench.options.from == From::Switch {
            roles[0] = Role::Trunk { floods: false };
        }
        switch.set_plan(Plan { epoch: 1, hop_limit: 16, roles });
        switch.set_table(bench.key, fib);
        Lane { switch, draws: &bench.draws, next: first, passed: 0, left: 0, wrong: 0 }
    }

    /// Makes a burst and forwards it; returns how many frames it has.
    fn forward(&mut self, frames: &mut Frames) -> usize {
        let burst = &self.draws[self.next..self.next + BURST];
        self.next = if self.next + BURST == self.draws.len() { 0 } else { self.next + BURST };
        let arrived = frames.make(burst);
        let (left, wrong) = (&mut self.left, &mut self.wrong);
        // Nothing here depends on the time: no frame waits, and no source is news.
        self.switch.forward(Ticks(0), 0, &arrived, &mut |port, _, rest| {
            *left += 1;
            *wrong += u64::from(rest[MARK] as usize != port);
            Ok(())
        });
        self.passed += burst.len() as u64;
        burst.len()
    }
}

impl Frames {
    fn new(options: &Options, len: usize) -> Self {
        let stride = len.next_multiple_of(LINE);
        // Two bursts at least: one is made while the memory is asked for the next.
        let count = (options.frame_memory as usize / stride / BURST).max(2) * BURST;
        let mut octets = vec![0; count * stride + LINE];
        let start = octets.as_ptr().align_offset(LINE);
        let tagged = options.from == From::Switch;
        for frame in octets[start..].chunks_exact_mut(stride) {
            frame[TAG_AT..].fill(0x45);
            if tagged {
                frame[TAG_AT..TAG_AT + 2].copy_from_slice(&TAG_ETHER_TYPE.to_be_bytes());
                frame[TAG_AT + 2..TAG_AT + 4].copy_from_slice(&[1, 16]);
            }
        }
        let mark_at = TAG_AT + MARK + if tagged { TAG_BYTES } else { 0 };
        Frames { octets, start, stride, len, count, next: 0, mark_at }
    }

    /// Writes the addresses into the next burst of frames. The one behind it is on its way into the caches
    /// meanwhile, as a network card would put it there.
    fn make(&mut self, burst: &[Addresses]) -> SmallVec<[Arrived<'_>; BURST]> {
        let (start, stride) = (self.start + self.next * self.stride, self.stride);
        self.next = if self.next + BURST >= self.count { 0 } else { self.next + BURST };
        let next = self.start + self.next * stride;
        for i in 0..BURST {
            prefetch::read(&self.octets[next + i * stride]);
        }
        let frames = self.octets[start..][..burst.len() * stride].chunks_exact_mut(stride);
        let made = frames.zip(burst).map(|(frame, Addresses { destination, source, port })| {
            frame[..6].copy_from_slice(&destination.0);
            frame[6..12].copy_from_slice(&source.0);
            frame[self.mark_at] = *port;
            Arrived { octets: &frame[..self.len], vlan: None }
        });
        made.collect()
    }
}

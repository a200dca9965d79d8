//! Frames in memory [Concise §6.4.1]: a generator, the switch, and counters at its output, on one core.
//!
//! The generator writes addresses into the next of many frames, which lie one after the other in memory larger than the
//! caches, and hands over a burst. Frames that leave are counted, not copied. The payload of each frame contains the
//! port by which it must leave, so all frames are checked, including the timed ones.
//!
//! Tables take turns with a table that knows all answers. The rate relative to that table's shows the share of lookups
//! in the cost of a frame.

use std::sync::Arc;

use anyhow::ensure;
use byname_forward::Ticks;
use byname_lookup::{FlatFib, prefetch};
use byname_switch::frame::{Arrived, TAG_BYTES, TAG_ETHER_TYPE};
use byname_switch::switch::{PORTS_MAX, Plan, Role, Sent, Switch};
use byname_wire::NameHashKey;
use smallvec::SmallVec;

use super::foretold::Foretold;
use super::options::{From, Options};
use super::record::{MemoryRecord, Passage, Tried};
use super::stations::{Addresses, Stations};
use super::tables::{self, Named};
use crate::harness::warm_in_turn;
use crate::progress::Progress;
use crate::timing::{median, rate_of_all};

/// Frames per burst, as in the switch's thread.
const BURST: usize = 64;
/// Offsets in a frame: behind the addresses, and behind an EtherType.
const TAG_AT: usize = 12;
const MARK: usize = 2;
/// Frames begin at cache lines.
const LINE: usize = 64;
/// A table may be wrong this many times as often as its own formula says, because the drawn names may be worse than the
/// average.
const WRONG_TIMES: f64 = 10.0;
/// Name of the table that knows all answers.
const FORETOLD: &str = "foretold";

/// Measures all tables at each size, in turn. Returns one record of each.
pub fn measure(options: &Options, progress: Progress) -> anyhow::Result<Vec<MemoryRecord>> {
    options.measuring.ensure_possible()?;
    let names_max = options.names.iter().max().copied().unwrap_or_default();
    crate::options::ensure_addresses_fit(names_max)?;
    ensure!(options.draws >= BURST as u64, "there must be at least {BURST} frames (--draws)");
    ensure!(!options.compare.is_empty(), "there must be at least one table (--compare)");
    let mut records = Vec::new();
    for &names in &options.names {
        let bench = Bench::build(options, names, progress)?;
        for &bytes in &options.bytes {
            records.extend(bench.measure(bytes.into(), progress)?);
        }
    }
    let far = |record: &&MemoryRecord| {
        let Passage { checked, wrong, lost, .. } = record.passage;
        (wrong + lost) as f64 > WRONG_TIMES * record.wrong_rate * checked as f64
    };
    if let Some(Passage { engine, checked, wrong, lost, .. }) = records.iter().find(far).map(|r| &r.passage) {
        anyhow::bail!("{engine}: of {checked} frames, {wrong} left by a wrong port and {lost} did not leave");
    }
    Ok(records)
}

/// All tables of `names` names.
struct Bench<'a> {
    options: &'a Options,
    key: NameHashKey,
    draws: Arc<[Addresses]>,
    names: u64,
    tables: Vec<(&'a str, tables::Table)>,
}

/// One thread's part of the measurement of one table.
struct Lane<'a> {
    switch: Switch,
    draws: &'a [Addresses],
    next: usize,
    passed: u64,
    left: u64,
    wrong: u64,
}

/// The frames of one thread. They differ only in what the generator writes.
struct Frames {
    bytes: Vec<u8>,
    /// Offset of the first frame.
    start: usize,
    /// Distance from one frame to the next.
    stride: usize,
    len: usize,
    count: usize,
    next: usize,
    /// Offset of the port number in each frame.
    mark_at: usize,
}

impl<'a> Bench<'a> {
    fn build(options: &'a Options, names: u64, progress: Progress) -> anyhow::Result<Self> {
        let seed = options.measuring.seed;
        let stations = Stations::new(names, PORTS_MAX as u8, seed)?;
        let key = super::key(options);
        let spinner = progress.spinner("drawing frames");
        let mut draws = stations.draw(options.trace.as_deref(), options.draws, seed)?;
        // Only whole bursts, so that every thread begins at the start of a burst.
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

    fn measure(&self, bytes: usize, progress: Progress) -> anyhow::Result<Vec<MemoryRecord>> {
        let options = self.options;
        let threads = options.measuring.threads;
        let spinner = progress.spinner(&format!("forwarding frames of {bytes} bytes by {} names", self.names));
        let mut frames: Vec<_> = (0..threads).map(|_| Frames::new(options, bytes)).collect();
        let first = |thread| self.draws.len() / BURST * thread / threads * BURST;
        let lanes = |fib: &dyn Fn(usize) -> Arc<dyn FlatFib>| -> Vec<_> {
            (0..threads).map(|thread| Lane::new(self, fib(thread), first(thread))).collect()
        };
        let foretold = |thread| Arc::new(Foretold::new(self.draws.clone(), options.from, first(thread))) as _;
        let mut all = vec![lanes(&foretold)];
        all.extend(self.tables.iter().map(|(_, table)| lanes(&|_| table.fib.clone())));
        let rates = warm_in_turn(&mut all, &options.measuring, |lanes, duration| {
            let mut pairs: Vec<_> = lanes.iter_mut().zip(&mut frames).collect();
            rate_of_all(&mut pairs, duration, |(lane, frames)| lane.forward(frames))
        });
        spinner.finish_and_clear();
        let limit = median(&rates[0]);
        let nothing = (FORETOLD, 0, 0.0);
        let engines = self.tables.iter().map(|(name, table)| (*name, table.fib.memory_bytes(), table.wrong_rate));
        let engines = std::iter::once(nothing).chain(engines);
        Ok(engines
            .zip(all.iter().zip(&rates))
            .map(|(e, (lanes, rates))| self.record(bytes, e, lanes, rates, limit))
            .collect())
    }

    fn record(
        &self,
        bytes: usize,
        (engine, table_bytes, wrong_rate): (&str, usize, f64),
        lanes: &[Lane<'_>],
        rates: &[f64],
        limit: f64,
    ) -> MemoryRecord {
        let options = self.options;
        let sum = |of: fn(&Lane<'_>) -> u64| lanes.iter().map(of).sum();
        let counts = [sum(|lane| lane.passed), sum(|lane| lane.wrong), sum(|lane| lane.passed - lane.left)];
        let table = Tried { engine, names: self.names, bytes: table_bytes };
        let passage = Passage::new(options, bytes, self.draws.len(), &table, rates, limit, counts);
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
        switch.set_plan(Plan { epoch: 1, hop_limit: 16, roles, ..Plan::default() });
        switch.set_table(bench.key, fib);
        Lane { switch, draws: &bench.draws, next: first, passed: 0, left: 0, wrong: 0 }
    }

    /// Makes a burst and forwards it. Returns its number of frames.
    fn forward(&mut self, frames: &mut Frames) -> usize {
        let burst = &self.draws[self.next..self.next + BURST];
        self.next = if self.next + BURST == self.draws.len() { 0 } else { self.next + BURST };
        let arrived = frames.make(burst);
        let (left, wrong) = (&mut self.left, &mut self.wrong);
        // Time does not matter here: no frame waits, and no source is news.
        self.switch.forward(Ticks(0), 0, &arrived, &mut |port, _, rest| {
            *left += 1;
            *wrong += u64::from(rest[MARK] as usize != port);
            Ok(Sent::Left)
        });
        self.passed += burst.len() as u64;
        burst.len()
    }
}

impl Frames {
    fn new(options: &Options, len: usize) -> Self {
        let stride = len.next_multiple_of(LINE);
        // At least two bursts: one is made while the other is prefetched.
        let count = (options.frame_memory as usize / stride / BURST).max(2) * BURST;
        let mut bytes = vec![0; count * stride + LINE];
        let start = bytes.as_ptr().align_offset(LINE);
        let tagged = options.from == From::Switch;
        for frame in bytes[start..].chunks_exact_mut(stride) {
            frame[TAG_AT..].fill(0x45);
            if tagged {
                frame[TAG_AT..TAG_AT + 2].copy_from_slice(&TAG_ETHER_TYPE.to_be_bytes());
                frame[TAG_AT + 2..TAG_AT + 4].copy_from_slice(&[1, 16]);
            }
        }
        let mark_at = TAG_AT + MARK + if tagged { TAG_BYTES } else { 0 };
        Frames { bytes, start, stride, len, count, next: 0, mark_at }
    }

    /// Writes the addresses into the next burst of frames. Meanwhile it prefetches the burst after it, as a network
    /// card would put it into the caches.
    fn make(&mut self, burst: &[Addresses]) -> SmallVec<[Arrived<'_>; BURST]> {
        let (start, stride) = (self.start + self.next * self.stride, self.stride);
        self.next = if self.next + BURST >= self.count { 0 } else { self.next + BURST };
        let next = self.start + self.next * stride;
        for i in 0..BURST {
            prefetch::read(&self.bytes[next + i * stride]);
        }
        let frames = self.bytes[start..][..burst.len() * stride].chunks_exact_mut(stride);
        let made = frames.zip(burst).map(|(frame, Addresses { destination, source, port })| {
            frame[..6].copy_from_slice(&destination.0);
            frame[6..12].copy_from_slice(&source.0);
            frame[self.mark_at] = *port;
            Arrived { bytes: &frame[..self.len], vlan: None }
        });
        made.collect()
    }
}

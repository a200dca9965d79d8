//! The worker: Interest, Data and Nack pipelines over one PIT/CS shard, and those without state.
//!
//! A burst is handled in stages, so that its memory reads overlap (`burst`): all packets are parsed
//! and their prefixes hashed; then each meets the PIT/CS; then the FIB is asked for all that missed,
//! in one burst; then strategies decide.

mod burst;

use std::sync::Arc;
use std::time::Duration;

use byname_lookup::EntryId;
use byname_lookup::prefix::BURST_MAX;
use byname_wire::name_hash::DepthSet;
use byname_wire::{FaceId, Name, NameHashKey, NameRef, NameView, PrefixHashes};

use crate::counters::Drops;
use crate::dead_nonces::DeadNonces;
use crate::dispatch::{Joined, Parcel, Shard, TokenMaker};
use crate::face_table::{Face, FaceCounters, FaceTable, LinkType, Scope};
use crate::pipeline::{Addressed, Miss, Parsed, Reached};
use crate::pit_cs::{Met, PitCs, SlotId};
use crate::port::{Outgoing, Received};
use crate::stages::{Stage, StageTimes, Stopwatch};
use crate::strategy::{Decision, Measurements, Situation, StrategyChoice, StrategyTable};
use crate::tables::{Nexthop, Tables, TablesReader};
use crate::ticks::Ticks;
use crate::timers::TimerWheel;
use burst::Wanted;

pub use burst::Prefetch;

/// Sizes and limits of a worker.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// Most PIT entries.
    pub pit_entries_max: usize,
    /// Most Data packets in the CS; can be changed later.
    pub cs_packets_max: usize,
    /// Most memory of the CS, in bytes of packet buffers.
    pub cs_bytes_max: usize,
    /// Replacement policy of the CS.
    pub cs_policy: CsPolicy,
    /// Nonces remembered of Interests that are gone.
    pub dead_nonces_max: usize,
    /// How the memory is asked for what a burst will read.
    pub prefetch: Prefetch,
    /// Producer region: names that end a forwarding hint.
    pub producer_regions: Vec<Name>,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        WorkerConfig {
            pit_entries_max: 65_536,
            cs_packets_max: 65_536,
            cs_bytes_max: 128 << 20,
            cs_policy: CsPolicy::Lru,
            dead_nonces_max: 1 << 18,
            prefetch: Prefetch::AllAtOnce,
            producer_regions: Vec::new(),
        }
    }
}

/// Replacement policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CsPolicy {
    /// Least recently used.
    Lru,
    /// Scan-resistant: S3-FIFO, a small FIFO in front of a main one, with a ghost list.
    S3Fifo,
}

/// What the CS holds and how it does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CsInfo {
    pub packets_max: u64,
    pub admit: bool,
    pub serve: bool,
    pub packets: u64,
    pub bytes: u64,
    pub hits: u64,
    pub misses: u64,
}

impl CsInfo {
    /// What several content stores hold together; they have the same settings.
    pub fn sum(of: impl IntoIterator<Item = CsInfo>) -> CsInfo {
        let add = |a: CsInfo, b: CsInfo| CsInfo {
            packets_max: a.packets_max.saturating_add(b.packets_max),
            admit: a.admit,
            serve: a.serve,
            packets: a.packets + b.packets,
            bytes: a.bytes + b.bytes,
            hits: a.hits + b.hits,
            misses: a.misses + b.misses,
        };
        of.into_iter().reduce(add).unwrap_or_default()
    }
}

/// Counts of one worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct WorkerCounters {
    pub faces: FaceCounters,
    pub satisfied_interests: u64,
    pub unsatisfied_interests: u64,
    pub pit_entries: u64,
    pub cs: CsInfo,
    pub strategy_choices: u64,
    pub measurements: u64,
    /// Names whose Data all workers share ([`crate::hot`]).
    pub hot_names: u64,
    /// Interests that it was given for such names, wherever their home is.
    pub spread_interests: u64,
    /// Those of them that it answered; the others went home.
    pub spread_hits: u64,
    /// Drops by reason, the reason in words fit for a metric label.
    pub drops: Vec<(&'static str, u64)>,
    /// Where its time goes, in the bursts that are timed.
    pub stages: StageTimes,
    /// In these bursts, what the FIB read.
    pub fib_lines: FibLines,
}

/// Cache lines of the FIB that lookups read, of those that were counted: none where its engine does not
/// tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FibLines {
    /// Lookups that were counted.
    pub lookups: u64,
    /// Lines that they read.
    pub lines: u64,
}

impl WorkerCounters {
    /// Adds another worker's counts.
    pub fn add(&mut self, other: &WorkerCounters) {
        self.faces.add(&other.faces);
        self.satisfied_interests += other.satisfied_interests;
        self.unsatisfied_interests += other.unsatisfied_interests;
        self.pit_entries += other.pit_entries;
        self.cs = CsInfo::sum([other.cs, self.cs]);
        // All have the same.
        self.strategy_choices = self.strategy_choices.max(other.strategy_choices);
        self.measurements += other.measurements;
        self.hot_names = self.hot_names.max(other.hot_names);
        self.spread_interests += other.spread_interests;
        self.spread_hits += other.spread_hits;
        self.add_drops(&other.drops);
        self.stages.add(&other.stages);
        self.fib_lines.lookups += other.fib_lines.lookups;
        self.fib_lines.lines += other.fib_lines.lines;
    }

    /// Adds drops, also for reasons that were none before.
    pub fn add_drops(&mut self, drops: &[(&'static str, u64)]) {
        for &(reason, count) in drops {
            match self.drops.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, known)) => *known += count,
                None => self.drops.push((reason, count)),
            }
        }
    }
}

/// One PIT/CS shard and its pipelines.
pub struct Worker {
    pub(crate) key: NameHashKey,
    pub(crate) tables: TablesReader,
    pub(crate) producer_regions: Vec<Name>,
    pub(crate) faces: FaceTable,
    pub(crate) table: PitCs,
    pub(crate) wheel: TimerWheel,
    pub(crate) dead_nonces: DeadNonces,
    pub(crate) strategies: StrategyTable,
    pub(crate) measurements: Measurements,
    /// For Interests that leave, where there are several workers.
    pub(crate) tokens: Option<TokenMaker>,
    pub(crate) drops: Drops,
    pub(crate) counts: Counts,
    pub(crate) stopwatch: Stopwatch,
    /// State of the generator of nonces.
    pub(crate) random: u64,
    /// Of each packet of a burst that was parsed, the hashes of its prefixes.
    pub(crate) hashes: Vec<PrefixHashes>,
    /// Of Interests of the burst, so many components are, and the whole.
    pub(crate) hashed_depth: usize,
    /// Prefixes of Interests are hashed at these depths, those that tables have.
    hashed: DepthSet,
    pub(crate) misses: Vec<Miss>,
    pub(crate) decision: Decision,
    /// Of one Data.
    pub(crate) met: Met,
    /// Of one Interest, where it may be sent.
    pub(crate) nexthops: Vec<Nexthop>,
    prefetch: Prefetch,
    /// Packets that were parsed elsewhere.
    burst: Vec<Received>,
    /// What was parsed, and where in the burst it is.
    parsed: Vec<(usize, Parsed)>,
    /// Of each that was parsed.
    wanted: Vec<Wanted>,
    /// Of each that was parsed, where the PIT may become full: what the FIB says of it.
    routes_ahead: Vec<Option<(EntryId, u64)>>,
    /// Interests that are for their home to answer.
    strays: Vec<Parcel>,
    pub(crate) addressed: Addressed,
}

/// Counts that only ever grow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Of faces that are gone.
    pub gone_faces: FaceCounters,
    pub satisfied: u64,
    pub unsatisfied: u64,
    pub cs_hits: u64,
    pub cs_misses: u64,
    /// Interests for hot names that came because of them.
    pub spread: u64,
    /// Those that it answered.
    pub spread_hits: u64,
    pub fib_lines: FibLines,
}

impl Worker {
    /// A worker over `tables`, hashing names with `key` (the FIB's key). `seed` starts the
    /// generator of nonces, for Interests that come without.
    pub fn new(config: WorkerConfig, key: NameHashKey, tables: Arc<Tables>, seed: u64) -> Self {
        Worker {
            key,
            tables: tables.reader(),
            faces: FaceTable::default(),
            table: PitCs::new(&config, key),
            wheel: TimerWheel::new(Ticks(0)),
            dead_nonces: DeadNonces::new(config.dead_nonces_max),
            producer_regions: config.producer_regions,
            strategies: StrategyTable::default(),
            measurements: Measurements::default(),
            tokens: None,
            drops: Drops::default(),
            counts: Counts::default(),
            stopwatch: Stopwatch::default(),
            random: seed,
            hashes: vec![PrefixHashes::default(); BURST_MAX],
            hashed_depth: 0,
            hashed: DepthSet::EMPTY,
            misses: Vec::with_capacity(BURST_MAX),
            decision: Decision::default(),
            met: Met::default(),
            nexthops: Vec::new(),
            prefetch: config.prefetch,
            burst: Vec::new(),
            parsed: Vec::with_capacity(BURST_MAX),
            wanted: Vec::with_capacity(BURST_MAX),
            routes_ahead: Vec::with_capacity(BURST_MAX),
            strays: Vec::new(),
            addressed: Addressed::default(),
        }
    }

    /// Makes it one of several. To be called before its first packet.
    pub fn join(&mut self, shard: Shard) {
        if let Some(Joined { short_names, tokens, shared_store }) = shard.0 {
            self.table.share_short_names(short_names);
            self.tokens = Some(tokens);
            if let Some(store) = shared_store {
                self.table.share_through(store);
            }
        }
    }

    /// Makes a face known. Packets from and to unknown faces are dropped.
    pub fn face_up(&mut self, face: FaceId, scope: Scope, link_type: LinkType) {
        let known = Face {
            scope,
            link_type,
            local_fields: false,
            is_endpoint: false,
            counters: FaceCounters::default(),
            reached: Reached::default(),
        };
        self.faces.entry(face).or_insert(known);
    }

    /// Forgets a face.
    pub fn face_down(&mut self, face: FaceId) {
        if let Some(gone) = self.faces.remove(&face) {
            self.counts.gone_faces.add(&gone.counters);
        }
    }

    /// Lets NextHopFaceId and cache policy from this face be heeded (they are ignored otherwise).
    pub fn set_local_fields(&mut self, face: FaceId, enabled: bool) {
        if let Some(face) = self.faces.get_mut(&face) {
            face.local_fields = enabled;
        }
    }

    /// Lets packets that are addressed to this face's application reach it; false if there is no
    /// such face.
    pub fn set_endpoint(&mut self, face: FaceId) -> bool {
        self.faces.get_mut(&face).map(|face| face.is_endpoint = true).is_some()
    }

    /// Times one burst in so many, and counts what the FIB reads in it: see [`crate::stages`].
    pub fn time_stages(&mut self, stopwatch: Stopwatch) {
        self.stopwatch = stopwatch;
    }

    /// Handles all of `input` (drained) and what timers owe at `now`; appends to `output`.
    pub fn poll(&mut self, now: Ticks, input: &mut Vec<Received>, output: &mut Vec<Outgoing>) {
        self.begin(now);
        for burst in input.chunks_mut(BURST_MAX) {
            self.parse_burst(burst);
            self.stopwatch.lap(Stage::Parse, burst.len());
            self.handle_burst(now, burst, output);
        }
        input.clear();
        self.end();
    }

    /// As [`Worker::poll`], for packets that a [`Dispatcher`](crate::dispatch::Dispatcher) has parsed.
    pub fn poll_parcels(&mut self, now: Ticks, input: &mut Vec<Parcel>, output: &mut Vec<Outgoing>) {
        self.begin(now);
        let mut burst = std::mem::take(&mut self.burst);
        let mut parcels = input.drain(..);
        while parcels.len() > 0 {
            let left = parcels.len();
            self.stage_burst(now, parcels.by_ref().take(BURST_MAX), &mut burst, output);
            self.stopwatch.lap(Stage::Parse, left - parcels.len());
            self.handle_burst(now, &mut burst, output);
            burst.clear();
        }
        self.burst = burst;
        self.end();
    }

    /// The Interests of what it was given that are not for it, after all: to be given to
    /// [`Dispatcher::dispatch_home`](crate::dispatch::Dispatcher::dispatch_home) after each
    /// [`Worker::poll_parcels`].
    pub fn strays(&mut self) -> std::vec::Drain<'_, Parcel> {
        self.strays.drain(..)
    }

    fn begin(&mut self, now: Ticks) {
        self.stopwatch.start();
        self.tables.begin_burst();
        let mut due = 0;
        // What is over is over before the input is looked at, so that Data which comes too late
        // is unsolicited however long the thread slept.
        while let Some(slot) = self.wheel.pop_due(now) {
            self.expire(now, slot);
            due += 1;
        }
        self.stopwatch.lap(Stage::Timers, due);
    }

    fn end(&mut self) {
        // The thread may sleep now: the control side must not wait for it.
        self.tables.end_burst();
        self.stopwatch.stop(false);
    }

    /// When `poll` has timer work to do, if nothing arrives before.
    pub fn next_deadline(&self) -> Option<Ticks> {
        self.wheel.next_deadline()
    }

    /// Replaces all strategy choices; where none is for `/`, the default serves it.
    pub fn set_strategy_choices(&mut self, choices: &[StrategyChoice]) {
        self.strategies.set(&self.key, choices);
        let pending: Vec<SlotId> = self.table.pending().collect();
        for slot in pending {
            let name = NameView::new(&self.key, self.table.slot(slot).name(), &mut self.hashes[0]);
            let strategy = self.strategies.choose(&name) as u16;
            if let Some(pit) = self.table.slot_mut(slot).pit_mut() {
                pit.strategy = strategy;
            }
        }
    }

    /// Changes the CS; `None` leaves a setting as it is.
    pub fn cs_config(&mut self, packets_max: Option<usize>, admit: Option<bool>, serve: Option<bool>) {
        self.table.cs_config(packets_max, admit, serve);
    }

    /// Erases up to `count_max` Data packets under `prefix`; returns how many went, and whether more are left.
    pub fn cs_erase(&mut self, prefix: NameRef<'_>, count_max: usize) -> (usize, bool) {
        self.table.erase(prefix, count_max)
    }

    /// Counts of one face since it came up.
    pub fn face_counters(&self, face: FaceId) -> Option<FaceCounters> {
        self.faces.get(&face).map(|f| f.counters)
    }

    /// State of the content store.
    pub fn cs_info(&self) -> CsInfo {
        CsInfo { hits: self.counts.cs_hits, misses: self.counts.cs_misses, ..self.table.cs_info() }
    }

    /// Cache lines of the longest chain in the index of PIT and content store: many only if names
    /// collide. Looks at the whole index.
    pub fn longest_chain(&self) -> usize {
        self.table.longest_chain()
    }

    /// Counts of the worker.
    pub fn counters(&self) -> WorkerCounters {
        let mut faces = self.counts.gone_faces;
        for face in self.faces.values() {
            faces.add(&face.counters);
        }
        WorkerCounters {
            faces,
            satisfied_interests: self.counts.satisfied,
            unsatisfied_interests: self.counts.unsatisfied,
            pit_entries: self.table.pit_len() as u64,
            cs: self.cs_info(),
            strategy_choices: self.strategies.count() as u64,
            measurements: self.measurements.count() as u64,
            hot_names: self.table.shared_len(),
            spread_interests: self.counts.spread,
            spread_hits: self.counts.spread_hits,
            drops: self.drops.all(),
            stages: *self.stopwatch.times(),
            fib_lines: self.counts.fib_lines,
        }
    }

    /// The time of a pending Interest is over.
    fn expire(&mut self, now: Ticks, slot: SlotId) {
        let hash = self.table.slot(slot).hash;
        let Some(pit) = self.table.slot(slot).pit() else { return };
        for record in &pit.out_records {
            self.dead_nonces.insert(now, hash, record.nonce);
        }
        let strategy = self.strategies.strategy(usize::from(pit.strategy));
        if strategy.measures() {
            let mut situation =
                Situation { now, nexthops: &[], prefix_hash: pit.prefix_hash, measurements: &mut self.measurements };
            strategy.on_expiry(&mut situation, pit);
        }
        self.counts.unsatisfied += 1;
        self.table.remove(slot);
    }

    /// Removes a pending Interest before its time, without an answer.
    pub(crate) fn drop_pending(&mut self, now: Ticks, slot: SlotId) {
        self.wheel.clear(slot);
        self.expire(now, slot);
    }

    /// A random number (SplitMix64): for nonces, not for secrets.
    pub(crate) fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

/// Longest time that an Interest may be pending, whatever it asks for.
pub(crate) const LIFETIME_MAX: Duration = Duration::from_secs(24 * 3600);

#[cfg(test)]
mod tests;

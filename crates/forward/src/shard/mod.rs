//! A shard: the tables that one thread owns, and its notes about the burst in hand.
//!
//! The tables hold pending Interests, cached Data, faces, timers, dead nonces, strategies and measurements. The pipelines
//! (`pipeline`) are methods on a shard. A [`Worker`](crate::Worker) is its public front.

mod burst;
mod exchange;
mod memory;
mod sharing;

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use byname_lookup::EntryId;
use byname_lookup::memory::Refused;
use byname_lookup::prefix::BURST_MAX;
use byname_wire::name_hash::DepthSet;
use byname_wire::{FaceId, Name, NameHashKey, NameView, PrefixHashes};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use thiserror::Error;

use crate::counters::{Counts, CsInfo, Drops, WorkerCounters};
use crate::crossing::Parcel;
use crate::dead_nonces::DeadNonces;
use crate::dispatch::{Home, Joined, Membership, TokenMaker};
use crate::face_table::{Face, FaceCounters, FaceTable, LinkType, Reached, Scope};
use crate::learning::Listener;
use crate::loans::Loan;
use crate::packet::Addressed;
use crate::pit_cs::{Met, PitCs, SlotId};
use crate::popular::Popularity;
use crate::port::Received;
use crate::settings::{Prefetch, WorkerConfig};
use crate::stages::Stopwatch;
use crate::strategy::{Decision, Measurements, StrategyChoice, StrategyTable};
use crate::tables::{Nexthop, Tables, TablesReader};
use crate::ticks::Ticks;
use crate::timers::TimerWheel;
use crate::trace::Traces;
use crate::whereabouts::{Network, Sources, Whereabouts};

pub(crate) use burst::{Burst, Miss, Route, Staged, Wanted};
pub use exchange::{NONCES_KEPT_FOR, NewTables, OldTables, Progress, SLICE};
pub(crate) use sharing::{Noted, Open, Sharing};

/// Places for names of packets that this thread received, and for those of packets that other threads gave it.
pub(crate) const PLACES: usize = 2 * BURST_MAX;

/// The tables that one thread owns, and its notes about the burst in hand.
// Aligned: it shares no pair of cache lines with what another thread writes.
#[repr(align(128))]
pub(crate) struct Shard {
    pub key: NameHashKey,
    pub tables: TablesReader,
    pub producer_regions: Vec<Name>,
    pub faces: FaceTable,
    pub sources: Sources,
    pub accept_unasked_data: bool,
    pub table: PitCs,
    pub wheel: TimerWheel,
    pub dead_nonces: DeadNonces,
    pub strategies: StrategyTable,
    pub measurements: Measurements,
    /// Makes tokens for Interests that leave; `None` for a worker that is alone.
    pub tokens: Option<TokenMaker>,
    pub drops: Drops,
    pub counts: Counts,
    pub stopwatch: Stopwatch,
    /// Makes nonces.
    pub random: SmallRng,
    /// The prefix hashes of the burst's names.
    pub hashes: Vec<PrefixHashes>,
    /// Where the entries of these names are counted, if this worker claims names.
    pub homes: [Home; PLACES],
    /// Greatest depth at which the burst's Interests are hashed, besides their whole names.
    pub hashed_depth: usize,
    /// Depths at which the burst's Interests are hashed: those that the tables have.
    pub hashed: DepthSet,
    pub misses: Vec<Miss>,
    pub decision: Decision,
    /// Scratch: the entries that one Data packet meets.
    pub met: Met,
    /// Scratch: the faces that one Interest may be sent to.
    pub nexthops: Vec<Nexthop>,
    /// Room for the nexthops of a way to another node of a partition.
    pub way_nexthops: Vec<Nexthop>,
    pub prefetch: Prefetch,
    /// The parsed packets of the burst.
    pub parsed: Vec<Staged>,
    /// The memory that each parsed packet needs.
    pub wanted: Vec<Wanted>,
    /// The FIB's answer for each hashed name; empty unless Interests may be routed one by one.
    pub routes_ahead: Vec<Option<(EntryId, u64)>>,
    /// Packets of the burst that other threads have parsed.
    pub given: Vec<Received>,
    /// Packets for other workers: Interests for hot names that their home must answer, and packets whose names have got
    /// another home.
    pub strays: Vec<Parcel>,
    /// PIT entries that all workers share, if they do.
    pub sharing: Option<Box<Sharing>>,
    pub addressed: Addressed,
    /// Faces that are not local.
    pub remote_faces: BTreeSet<FaceId>,
    /// Receives notices about routes that Data teaches.
    pub listener: Option<Listener>,
    /// News of faces that several threads send on, for the loop of this thread.
    pub loans: Vec<(FaceId, Option<Loan>)>,
    /// What is watched.
    pub traces: Traces,
    /// What is counted of popular prefixes.
    pub popularity: Popularity,
    /// An exchange of these tables, if one is in progress.
    pub exchange: Option<Box<exchange::Exchange>>,
}

/// A table of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Pending Interests and Data: [`WorkerConfig::pit_entries_max`] and [`WorkerConfig::cs_packets_max`].
    PitCs,
    /// [`WorkerConfig::dead_nonces_max`].
    DeadNonces,
}

/// The system refuses the memory for a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the system refuses {bytes} bytes of memory for {table:?}")]
pub struct NoMemory {
    /// The table.
    pub table: Table,
    /// Number of bytes that were requested.
    pub bytes: usize,
}

impl Shard {
    /// An empty shard; see `Worker::try_new`.
    ///
    /// # Errors
    /// If the system refuses memory for a table.
    pub fn try_new(config: WorkerConfig, key: NameHashKey, tables: Arc<Tables>, seed: u64) -> Result<Self, NoMemory> {
        let no_memory = |table| move |Refused { bytes }| NoMemory { table, bytes };
        Ok(Shard {
            key,
            tables: tables.reader(),
            faces: FaceTable::default(),
            sources: Sources::default(),
            accept_unasked_data: config.accept_unasked_data,
            table: PitCs::new(&config, key).map_err(no_memory(Table::PitCs))?,
            wheel: TimerWheel::new(Ticks(0)),
            dead_nonces: DeadNonces::new(config.dead_nonces_max).map_err(no_memory(Table::DeadNonces))?,
            producer_regions: config.producer_regions,
            strategies: StrategyTable::default(),
            measurements: Measurements::default(),
            tokens: None,
            drops: Drops::default(),
            counts: Counts::default(),
            stopwatch: Stopwatch::default(),
            random: SmallRng::seed_from_u64(seed),
            hashes: vec![PrefixHashes::default(); PLACES],
            homes: [Home::default(); PLACES],
            hashed_depth: 0,
            hashed: DepthSet::EMPTY,
            misses: Vec::with_capacity(BURST_MAX),
            decision: Decision::default(),
            met: Met::default(),
            nexthops: Vec::new(),
            way_nexthops: Vec::new(),
            prefetch: Prefetch::default(),
            parsed: Vec::with_capacity(BURST_MAX),
            wanted: Vec::with_capacity(BURST_MAX),
            routes_ahead: Vec::with_capacity(PLACES),
            given: Vec::with_capacity(BURST_MAX),
            strays: Vec::new(),
            sharing: None,
            addressed: Addressed::default(),
            remote_faces: BTreeSet::new(),
            listener: None,
            loans: Vec::new(),
            traces: Traces::default(),
            popularity: Popularity::default(),
            exchange: None,
        })
    }

    /// Makes the shard one of several; see `Worker::join`.
    pub fn join(&mut self, membership: Membership) {
        if let Some(Joined { short_names, residence, tokens, shared_store, shared_pit }) = membership.0 {
            self.table.share_short_names(short_names);
            if let Some(residence) = residence {
                self.table.claim_names(residence);
            }
            self.tokens = Some(tokens);
            if let Some(store) = shared_store {
                self.table.share_through(store);
            }
            self.sharing = shared_pit.map(Sharing::new);
        }
    }

    /// Adds a face; see `Worker::face_up_at`.
    pub fn face_up_at(&mut self, face: FaceId, scope: Scope, link_type: LinkType, whereabouts: Whereabouts) {
        let Entry::Vacant(place) = self.faces.entry(face) else { return };
        // Programs on this host do not forge addresses.
        let whereabouts = if scope == Scope::Local { Whereabouts::Alone } else { whereabouts };
        let source = self.sources.enter(&whereabouts);
        if scope == Scope::NonLocal {
            self.remote_faces.insert(face);
        }
        place.insert(Face {
            scope,
            link_type,
            local_fields: false,
            is_endpoint: false,
            is_lent: false,
            counters: FaceCounters::default(),
            reached: Reached::default(),
            whereabouts,
            source,
        });
    }

    /// The members of a face's group are now in other networks.
    pub fn set_networks(&mut self, face: FaceId, networks: Arc<[Network]>) {
        if let Some(Whereabouts::Networks(known)) = self.faces.get_mut(&face).map(|face| &mut face.whereabouts) {
            *known = networks;
        }
    }

    /// Forgets a face.
    pub fn face_down(&mut self, face: FaceId) {
        self.remote_faces.remove(&face);
        if let Some(gone) = self.faces.remove(&face) {
            self.sources.leave(&gone.whereabouts, gone.source);
            self.counts.gone_faces.add(&gone.counters);
            if gone.is_lent {
                self.loans.push((face, None));
            }
        }
    }

    /// See `Worker::lend_face`.
    pub fn lend_face(&mut self, face: FaceId, loan: Option<Loan>) {
        let Some(known) = self.faces.get_mut(&face) else { return };
        if loan.is_some() || known.is_lent {
            known.is_lent = loan.is_some();
            self.loans.push((face, loan));
        }
    }

    /// Replaces all strategy choices.
    pub fn set_strategy_choices(&mut self, choices: &[StrategyChoice]) {
        self.strategies.set(&self.key, choices);
        self.rechoose_when_moved();
        let pending: Vec<SlotId> = self.table.pending().collect();
        for slot in pending {
            let name = NameView::new(&self.key, self.table.slot(slot).name(), &mut self.hashes[0]);
            let strategy = self.strategies.choose(&name) as u16;
            if let Some(pit) = self.table.slot_mut(slot).pit_mut() {
                (pit.strategy, pit.strategy_word) = (strategy, 0);
            }
        }
    }

    /// State of the content store.
    pub fn cs_info(&self) -> CsInfo {
        let (info, (_, not_moved)) = (self.table.cs_info(), self.not_moved());
        CsInfo {
            packets: info.packets + not_moved.packets,
            bytes: info.bytes + not_moved.bytes,
            hits: self.counts.cs_hits,
            misses: self.counts.cs_misses,
            ..info
        }
    }

    /// All counts.
    pub fn counters(&self) -> WorkerCounters {
        let mut faces = self.counts.gone_faces;
        for face in self.faces.values() {
            faces.add(&face.counters);
        }
        WorkerCounters {
            faces,
            satisfied_interests: self.counts.satisfied,
            unsatisfied_interests: self.counts.unsatisfied,
            pit_entries: (self.table.pit_len() + self.not_moved().0) as u64,
            cs: self.cs_info(),
            strategy_choices: self.strategies.count() as u64,
            measurements: self.measurements.count() as u64,
            hot_names: self.table.shared_len(),
            spread_interests: self.counts.spread,
            spread_hits: self.counts.spread_hits,
            spread_joins: self.counts.spread_joins,
            spread_busy: self.counts.spread_busy,
            shared_pit_entries: self.sharing.as_ref().map_or(0, |sharing| sharing.shared.len()),
            drops: self.drops.all(),
            stages: *self.stopwatch.times(),
            fib_lines: self.counts.fib_lines,
        }
    }
}

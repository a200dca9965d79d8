//! The worker: Interest, Data and Nack pipelines over one PIT/CS shard.

use std::sync::Arc;

use byname_wire::{FaceId, Name, NameHashKey, NameRef};

use crate::face_table::{FaceCounters, LinkType, Scope};
use crate::port::{Outgoing, Received};
use crate::strategy::StrategyChoice;
use crate::tables::Tables;
use crate::ticks::Ticks;

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
    /// Drops by reason, the reason in words fit for a metric label.
    pub drops: Vec<(&'static str, u64)>,
}

/// One PIT/CS shard and its pipelines.
pub struct Worker {}

impl Worker {
    /// A worker over `tables`, hashing names with `key` (the FIB's key).
    pub fn new(_config: WorkerConfig, _key: NameHashKey, _tables: Arc<Tables>, _seed: u64) -> Self {
        todo!()
    }
    /// Makes a face known. Packets from and to unknown faces are dropped.
    pub fn face_up(&mut self, _face: FaceId, _scope: Scope, _link_type: LinkType) {
        todo!()
    }
    /// Forgets a face.
    pub fn face_down(&mut self, _face: FaceId) {
        todo!()
    }
    /// Lets NextHopFaceId and cache policy from this face be heeded (they are ignored otherwise).
    pub fn set_local_fields(&mut self, _face: FaceId, _enabled: bool) {
        todo!()
    }
    /// Handles all of `input` (drained) and what timers owe at `now`; appends to `output`.
    pub fn poll(&mut self, _now: Ticks, _input: &mut Vec<Received>, _output: &mut Vec<Outgoing>) {
        todo!()
    }
    /// When `poll` has timer work to do, if nothing arrives before.
    pub fn next_deadline(&self) -> Option<Ticks> {
        todo!()
    }
    /// Replaces all strategy choices; the one for `/` must be among them.
    pub fn set_strategy_choices(&mut self, _choices: &[StrategyChoice]) {
        todo!()
    }
    /// Changes the CS; `None` leaves a setting as it is.
    pub fn cs_config(&mut self, _packets_max: Option<usize>, _admit: Option<bool>, _serve: Option<bool>) {
        todo!()
    }
    /// Erases up to `count_max` Data packets under `prefix`; returns how many went, and whether more are left.
    pub fn cs_erase(&mut self, _prefix: NameRef<'_>, _count_max: usize) -> (usize, bool) {
        todo!()
    }
    /// Counts of one face since it came up.
    pub fn face_counters(&self, _face: FaceId) -> Option<FaceCounters> {
        todo!()
    }
    /// Counts of the worker.
    pub fn counters(&self) -> WorkerCounters {
        todo!()
    }
}

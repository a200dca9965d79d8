//! The worker: the public front of a shard and its pipelines.

use std::sync::Arc;

use byname_lookup::prefix::BURST_MAX;
use byname_wire::{FaceId, Name, NameHashKey, NameRef};
use rand::RngExt;

use crate::cached::{CachedData, CachedOrder};
use crate::crossing::{Handed, Parcel};
use crate::dispatch::{Dispatcher, Membership};
use crate::face_table::{FaceCounters, LinkType, Scope};
use crate::learning::Listener;
use crate::loans::Loan;
use crate::popular::Traffic;
use crate::port::{Outgoing, Received};
use crate::shard::{Burst, Shard};
use crate::stages::{Stage, Stopwatch};
use crate::strategy::StrategyChoice;
use crate::tables::Tables;
use crate::ticks::Ticks;
use crate::trace::{Filter, Taken};
use crate::whereabouts::{Network, Whereabouts};

pub use crate::counters::{CsInfo, FibLines, WorkerCounters};
#[cfg(feature = "lab")]
pub use crate::settings::Prefetch;
pub use crate::settings::{CsPolicy, TableMemory, WorkerConfig};
pub use crate::shard::{NONCES_KEPT_FOR, NewTables, NoMemory, OldTables, Progress, SLICE, Table};

/// One shard and its pipelines.
pub struct Worker {
    pub(crate) shard: Shard,
}

impl Worker {
    /// A worker over `tables` that hashes names with `key` (the FIB's key). `seed` starts the generator of nonces, for
    /// Interests that come without one.
    ///
    /// # Panics
    /// If the system refuses memory; see [`Worker::try_new`].
    pub fn new(config: WorkerConfig, key: NameHashKey, tables: Arc<Tables>, seed: u64) -> Self {
        Worker::try_new(config, key, tables, seed).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`Worker::new`], for tables that may be too large for the memory.
    ///
    /// # Errors
    /// If the system refuses memory for a table.
    pub fn try_new(config: WorkerConfig, key: NameHashKey, tables: Arc<Tables>, seed: u64) -> Result<Self, NoMemory> {
        Ok(Worker { shard: Shard::try_new(config, key, tables, seed)? })
    }

    /// Makes it one of several workers. Must be called before its first packet.
    pub fn join(&mut self, membership: Membership) {
        self.shard.join(membership);
    }

    /// Reads this replica of the FIB ([`Tables::replicated`]). Must be called before its first packet.
    ///
    /// # Panics
    /// If there is no such replica.
    pub fn use_replica(&mut self, replica: usize) {
        self.shard.tables.use_replica(replica);
    }

    /// Adds a face. Packets from and to unknown faces are dropped.
    pub fn face_up(&mut self, face: FaceId, scope: Scope, link_type: LinkType) {
        self.face_up_at(face, scope, link_type, Whereabouts::Alone);
    }

    /// Adds a face and the location of its peer. The faces of one source share one source's part of the tables. Peers
    /// on the link of a group may answer for the group.
    pub fn face_up_at(&mut self, face: FaceId, scope: Scope, link_type: LinkType, whereabouts: Whereabouts) {
        self.shard.face_up_at(face, scope, link_type, whereabouts);
    }

    /// The members of a face's group are now in other networks.
    pub fn set_networks(&mut self, face: FaceId, networks: Arc<[Network]>) {
        self.shard.set_networks(face, networks);
    }

    /// Forgets a face.
    pub fn face_down(&mut self, face: FaceId) {
        self.shard.face_down(face);
    }

    /// Whether the worker obeys NextHopFaceId and cache policy from this face. It ignores them at first.
    pub fn set_local_fields(&mut self, face: FaceId, enabled: bool) {
        if let Some(face) = self.shard.faces.get_mut(&face) {
            face.local_fields = enabled;
        }
    }

    /// Other threads may send on this face with what the loan says; `None`: only its owner sends. See [`crate::loans`].
    pub fn lend_face(&mut self, face: FaceId, loan: Option<Loan>) {
        self.shard.lend_face(face, loan);
    }

    /// Whether there are news of loans.
    pub fn has_loans(&self) -> bool {
        !self.shard.loans.is_empty()
    }

    /// News of loans since the last call, in their order. `None`: the loan has ended.
    pub fn take_loans(&mut self) -> Vec<(FaceId, Option<Loan>)> {
        std::mem::take(&mut self.shard.loans)
    }

    /// Delivers packets that are addressed to this face's application. Returns false if there is no such face.
    pub fn set_endpoint(&mut self, face: FaceId) -> bool {
        self.shard.faces.get_mut(&face).map(|face| face.is_endpoint = true).is_some()
    }

    /// Whether packets that are addressed to this face's application are delivered.
    pub fn is_endpoint(&self, face: FaceId) -> bool {
        self.shard.faces.get(&face).is_some_and(|face| face.is_endpoint)
    }

    /// Replaces all strategy choices. If there is none for `/`, the default strategy serves it.
    pub fn set_strategy_choices(&mut self, choices: &[StrategyChoice]) {
        self.shard.set_strategy_choices(choices);
        self.shard.settle_soon();
    }

    /// Sends notices about routes that Data teaches to `listener`.
    pub fn tell_routes(&mut self, listener: Listener) {
        self.shard.listener = Some(listener);
    }

    /// Times one burst in many by `stopwatch`, and counts what the FIB reads in that burst: see [`crate::stages`].
    pub fn time_stages(&mut self, stopwatch: Stopwatch) {
        self.shard.stopwatch = stopwatch;
    }

    /// Chooses how the worker prefetches what a burst will read.
    #[cfg(feature = "lab")]
    pub fn set_prefetch(&mut self, prefetch: Prefetch) {
        (self.shard.prefetch, self.shard.table.prefetch) = (prefetch, prefetch);
    }

    /// Handles all packets of `input`, which it drains, and the timers that are due at `now`. Appends to `output`.
    pub fn poll(&mut self, now: Ticks, input: &mut Vec<Received>, output: &mut Vec<Outgoing>) {
        self.shard.begin(now, output);
        for burst in input.chunks_mut(BURST_MAX) {
            self.shard.parse_burst(burst);
            self.shard.stopwatch.lap(Stage::Parse, burst.len());
            self.shard.handle_burst(now, &mut Burst::new(burst, &mut []), output);
        }
        input.clear();
        self.shard.end();
    }

    /// As [`Worker::poll`], for packets that dispatchers of other threads have parsed.
    pub fn poll_parcels(&mut self, now: Ticks, input: &mut Vec<Parcel>, output: &mut Vec<Outgoing>) {
        self.shard.begin_sharing(now, input, output);
        self.poll_late_parcels(now, input, output);
    }

    /// As [`Worker::poll_parcels`], for parcels that join the round of the last poll.
    pub(crate) fn poll_late_parcels(&mut self, now: Ticks, input: &mut Vec<Parcel>, output: &mut Vec<Outgoing>) {
        self.shard.begin(now, output);
        self.handle_given(now, &mut input.drain(..), output);
        self.shard.end();
    }

    /// As [`Worker::poll`], for one of several workers: handles the packets of `input` whose home is here, and `parcels`
    /// from other threads, in common bursts. Hands the other packets of `input` to `send` with the number of their
    /// worker, and further copies of Data with any number.
    pub(crate) fn poll_and_dispatch(
        &mut self,
        now: Ticks,
        dispatcher: &mut Dispatcher,
        parcels: &mut Vec<Parcel>,
        input: &mut Vec<Received>,
        mut send: impl FnMut(usize, Handed<'_>),
        output: &mut Vec<Outgoing>,
    ) {
        self.shard.begin_sharing(now, parcels, output);
        self.shard.begin(now, output);
        // They arrive while this thread's packets are sorted.
        parcels.iter().take(BURST_MAX).for_each(|parcel| self.shard.prefetch_given(parcel));
        let mut parcels = parcels.drain(..);
        for burst in input.chunks_mut(BURST_MAX) {
            self.shard.sort_burst(now, burst, dispatcher, &mut send, output);
            self.handle_together(now, burst, &mut parcels, output);
        }
        input.clear();
        self.handle_given(now, &mut parcels, output);
        self.shard.end();
    }

    fn handle_given(&mut self, now: Ticks, parcels: &mut std::vec::Drain<'_, Parcel>, output: &mut Vec<Outgoing>) {
        while parcels.len() > 0 {
            self.shard.begin_burst();
            self.handle_together(now, &mut [], parcels, output);
        }
    }

    /// Handles the packets of `own` that are parsed and at home here, and as many of the parcels as fit into the burst.
    fn handle_together(
        &mut self,
        now: Ticks,
        own: &mut [Received],
        parcels: &mut std::vec::Drain<'_, Parcel>,
        output: &mut Vec<Outgoing>,
    ) {
        let before = parcels.len();
        self.shard.stage_given(now, own, parcels, output);
        self.shard.stopwatch.lap(Stage::Parse, before - parcels.len());
        parcels.as_slice().iter().take(BURST_MAX).for_each(|parcel| self.shard.prefetch_given(parcel));
        let mut given = std::mem::take(&mut self.shard.given);
        let mut burst = Burst::new(own, &mut given);
        self.shard.settle_burst(&mut burst, output);
        self.shard.handle_burst(now, &mut burst, output);
        self.shard.share_pending(now);
        given.clear();
        self.shard.given = given;
    }

    /// Interests for hot names that this worker could not answer for their home, and packets whose names have got another
    /// home. The caller gives them to
    /// [`Dispatcher::dispatch_home`](crate::dispatch::Dispatcher::dispatch_home) after each [`Worker::poll_parcels`].
    pub fn strays(&mut self) -> std::vec::Drain<'_, Parcel> {
        self.shard.strays.drain(..)
    }

    /// Whether packets wait for the next round: because another thread has the lock of a shared PIT entry, because news
    /// of a face are still on their way, or because a name has got another home just now.
    pub fn has_postponed(&self) -> bool {
        self.shard.has_postponed() || !self.shard.strays.is_empty()
    }

    /// When timers need the next `poll`, if no packet arrives earlier.
    pub fn next_deadline(&self) -> Option<Ticks> {
        if self.shard.is_exchanging() { Some(Ticks(0)) } else { self.shard.wheel.next_deadline() }
    }

    /// Changes settings of the CS; `None` leaves a setting as it is.
    pub fn cs_config(&mut self, packets_max: Option<usize>, admit: Option<bool>, serve: Option<bool>) {
        self.shard.table.cs_config(packets_max, admit, serve);
        self.shard.settle_soon();
    }

    /// Uses other tables from the next round on, or as soon as the entries of an earlier exchange have moved. The entries
    /// follow: see [`Progress`]. Returns tables that were to be used after an earlier exchange, and now are not.
    pub fn exchange_tables(&mut self, new: Box<NewTables>) -> Option<Box<NewTables>> {
        self.shard.exchange_tables(new)
    }

    /// How far the exchange of tables is, and the memory that it has left so far. Freeing it takes time, so that another
    /// thread does that. `forget_nonces`: [`NONCES_KEPT_FOR`] has passed since the progress was [`Progress::Remembering`].
    pub fn take_old_tables(&mut self, forget_nonces: bool) -> (Progress, Vec<OldTables>) {
        let left = self.shard.take_old_tables(forget_nonces);
        (self.shard.exchange_progress(), left)
    }

    /// Changes what ends a forwarding hint, and whether Data satisfies an Interest that was not sent to its face.
    pub fn set_rules(&mut self, producer_regions: Vec<Name>, accept_unasked_data: bool) {
        (self.shard.producer_regions, self.shard.accept_unasked_data) = (producer_regions, accept_unasked_data);
        self.shard.settle_soon();
    }

    /// Erases up to `count_max` Data packets under `prefix`. Returns how many it erased and whether more are left.
    pub fn cs_erase(&mut self, prefix: NameRef<'_>, count_max: usize) -> (usize, bool) {
        self.shard.erase(prefix, count_max)
    }

    /// Up to `max` Data packets of the content store, most valuable first.
    pub fn cached_order(&self, max: usize) -> CachedOrder {
        self.shard.table.cached_order(max)
    }

    /// Copies of these Data, as far as they are still in the content store.
    pub fn copy_cached(&self, order: &CachedOrder, now: Ticks) -> Vec<CachedData> {
        self.shard.table.copy_cached(order, now)
    }

    /// Puts Data of another process into the content store. The last are the most valuable ones. Their home is here.
    pub fn restore_cached(&mut self, cached: Vec<CachedData>, now: Ticks) {
        self.shard.table.restore_cached(cached, now);
    }

    /// Counts of one face since it came up.
    pub fn face_counters(&self, face: FaceId) -> Option<FaceCounters> {
        self.shard.faces.get(&face).map(|f| f.counters)
    }

    /// Adds what another process has counted for a face.
    pub fn add_face_counters(&mut self, face: FaceId, counters: &FaceCounters) {
        if let Some(face) = self.shard.faces.get_mut(&face) {
            face.counters.add(counters);
        }
    }

    /// State of the content store.
    pub fn cs_info(&self) -> CsInfo {
        self.shard.cs_info()
    }

    /// Cache lines of the longest chain in the index of PIT and content store. Many lines only if names collide. Reads
    /// the whole index.
    #[cfg(feature = "lab")]
    pub fn longest_chain(&self) -> usize {
        self.shard.table.longest_chain()
    }

    /// Counts of the worker.
    pub fn counters(&self) -> WorkerCounters {
        self.shard.counters()
    }

    /// Begins or ends to count packets by prefix.
    pub fn count_popular(&mut self, now: Ticks, on: bool) {
        let seed = self.shard.random.random();
        self.shard.popularity.turn(now, on, seed);
    }

    /// The most popular prefixes in the last whole window.
    pub fn popular(&mut self, now: Ticks) -> Traffic {
        self.shard.popularity.traffic(now)
    }

    /// Begins to watch packets. Returns false if there are [`WATCHES_MAX`](crate::trace::WATCHES_MAX) watches already.
    pub fn watch(&mut self, id: u64, filter: Filter) -> bool {
        self.shard.traces.watch(id, filter)
    }

    /// Takes up to `events_max` events of a watch; none if there is no such watch.
    pub fn take_events(&mut self, id: u64, events_max: usize) -> Taken {
        self.shard.traces.take(id, events_max)
    }

    /// Ends a watch, and forgets its events.
    pub fn unwatch(&mut self, id: u64) {
        self.shard.traces.unwatch(id);
    }
}

#[cfg(test)]
mod tests;

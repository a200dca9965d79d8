//! An Interest becomes pending: a new PIT entry, or one more downstream of an entry.

use byname_wire::{NackReason, NameView};
use smallvec::SmallVec;

use crate::counters::DropReason;
use crate::packet::{InterestInfo, name_in};
use crate::packet_pool::Packet;
use crate::pit_cs::{InRecord, PitEntry, SlotId};
use crate::port::Outgoing;
use crate::shard::Shard;
use crate::ticks::Ticks;
use crate::trace::Subject;
use crate::whereabouts::SourceId;

/// Maximum of downstreams that one entry records.
const IN_RECORDS_MAX: usize = 256;

impl Shard {
    pub(super) fn add_pending(
        &mut self,
        place: usize,
        record: InRecord,
        packet: Packet,
        info: &InterestInfo,
        source: SourceId,
        output: &mut Vec<Outgoing>,
    ) -> SlotId {
        let now = record.arrived;
        if self.table.is_full() {
            // Routing may refuse some pending Interests, which frees entries.
            self.route_misses(now, output);
        }
        while let Some(victim) = self.table.victim() {
            self.drops.count(DropReason::PitFull);
            self.ask_for_victim_after(victim);
            self.evict_pending(now, victim);
        }
        let name = NameView::from_filled(name_in(&packet, info.name), &self.hashes[place]);
        let (hash, expiry) = (name.full_hash(), record.expiry);
        let strategy = self.strategies.choose(&name);
        let depth = name.len() as u8;
        let has_implicit_digest = name.ends_in_implicit_digest();
        let entry = || PitEntry {
            can_be_prefix: info.can_be_prefix,
            must_be_fresh: info.must_be_fresh,
            depth,
            has_implicit_digest,
            hops_left: hops_left(info),
            nonce: record.nonce,
            strategy: strategy as u16,
            directed: false,
            unrouted: false,
            source,
            non_discovery: false,
            wants_announcement: false,
            prefix_hash: 0,
            expiry,
            strategy_word: 0,
            in_records: SmallVec::from_buf([record]),
            out_records: SmallVec::new(),
        };
        if let Some(free) = self.table.prefetch_free() {
            self.wheel.prefetch(free);
        }
        let slot = self.table.insert_pit(hash, packet, info.name, (source, self.homes[place]), entry);
        self.wheel.start(slot, expiry);
        slot
    }

    fn evict_pending(&mut self, now: Ticks, victim: SlotId) {
        if self.traces.is_on() {
            self.tell_end(now, victim, Subject::Eviction);
        }
        self.drop_pending(now, victim);
    }

    /// Prefetches what is needed to evict the pending Interest after `victim`: in a flood of Interests, each new one
    /// evicts another.
    fn ask_for_victim_after(&self, victim: SlotId) {
        let Some(next) = self.table.victim_after(victim).filter(|_| self.prefetch.is_on()) else { return };
        // Its timer was prefetched when it was second in line.
        self.wheel.prefetch_neighbors(next);
        if let Some(second) = self.table.victim_after(next) {
            self.wheel.prefetch(second);
        }
        let slot = self.table.slot(next);
        for record in slot.pit().iter().flat_map(|pit| &pit.out_records) {
            self.dead_nonces.prefetch(slot.hash, record.nonce);
        }
    }

    /// Adds a downstream to a pending Interest, or renews one. Returns false if there are too many.
    pub(super) fn add_downstream(
        &mut self,
        slot: SlotId,
        record: InRecord,
        source: SourceId,
        output: &mut Vec<Outgoing>,
    ) -> bool {
        let Some(pit) = self.table.slot_mut(slot).pit_mut() else { return false };
        if let Some(old) = pit.in_records.iter_mut().find(|r| r.face == record.face) {
            *old = record;
            return true;
        }
        if pit.in_records.len() == IN_RECORDS_MAX {
            return self.take_place(slot, record, source, output);
        }
        let now = record.arrived;
        if self.table.is_full_of_downstreams() {
            self.route_misses(now, output);
        }
        while let Some(victim) = self.table.victim_for_downstream() {
            if victim == slot {
                return false;
            }
            self.drops.count(DropReason::PitFull);
            self.evict_pending(now, victim);
        }
        self.table.add_in_record(slot, record);
        true
    }

    /// Replaces a downstream of a full entry by the newcomer: the source with most of them loses one. Returns false if
    /// the newcomer's own source would have to lose it.
    #[cold]
    fn take_place(&mut self, slot: SlotId, record: InRecord, source: SourceId, output: &mut Vec<Outgoing>) -> bool {
        let Some(pit) = self.table.slot(slot).pit() else { return false };
        let waiting = &pit.in_records;
        // A downstream counts for no source if its face has gone or its time is over: no answer reaches it.
        let source_of = |r: &InRecord| self.faces.get(&r.face).filter(|_| r.expiry > record.arrived).map(|f| f.source);
        let mut sources = [None; IN_RECORDS_MAX];
        sources.iter_mut().zip(waiting).for_each(|(source, r)| *source = source_of(r));
        let is_gone = |i: &usize| sources[*i].is_none();
        let victim = (1..waiting.len()).find(is_gone).or_else(|| {
            let mut sorted = sources;
            sorted.sort_unstable();
            let largest = sorted.chunk_by(|a, b| a == b).max_by_key(|of_source| of_source.len())?;
            let own = sources.iter().filter(|s| **s == Some(source)).count();
            // The first downstream always stays: the largest source has at least two, and loses its last.
            (largest.len() > own + 1).then(|| sources.iter().rposition(|s| *s == largest[0]))?
        });
        let Some(victim) = victim else { return false };
        let yields = &waiting[victim];
        let downstream = (yields.face, yields.nonce, yields.pit_token);
        if sources[victim].is_some() {
            self.drops.count(DropReason::TooManyDownstreams);
            self.refuse_downstream(slot, downstream, NackReason::Congestion, output);
        }
        if let Some(pit) = self.table.slot_mut(slot).pit_mut() {
            pit.in_records[victim] = record;
        }
        true
    }

    /// A pending Interest came once more. The entry keeps the latest packet, which is the one to send upstream.
    pub(super) fn renew_pending(&mut self, slot: SlotId, packet: Packet, info: &InterestInfo) {
        let Some(pit) = self.table.slot_mut(slot).pit_mut() else { return };
        (pit.nonce, pit.hops_left) = (info.nonce.unwrap_or(pit.nonce), hops_left(info));
        // A downstream that asks again may wait for less time than before.
        let expiry = pit.in_records.iter().map(|r| r.expiry).max().unwrap_or(pit.expiry);
        if expiry != pit.expiry {
            pit.expiry = expiry;
            self.wheel.set(slot, expiry);
        }
        self.table.replace_interest(slot, packet, info.name.start);
    }
}

/// The HopLimit of an Interest, already lowered; the largest number if it has none.
fn hops_left(info: &InterestInfo) -> u8 {
    info.hop_limit.map_or(u8::MAX, |limit| limit.value)
}

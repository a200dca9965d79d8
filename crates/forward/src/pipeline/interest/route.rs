//! From a miss to its nexthops: the FIB entry, the strategy's decision, and the packets to send.

use byname_wire::FaceId;

use crate::counters::DropReason;
use crate::pipeline::nexthops::is_usable;
use crate::pit_cs::{Kind, OutRecord, SlotId};
use crate::port::Outgoing;
use crate::shard::{Miss, Route, Shard};
use crate::stages::Stage;
use crate::tables::Nexthop;
use crate::ticks::Ticks;

impl Shard {
    /// Looks up all misses of the burst so far in the FIB, and lets their strategies decide. Must be called before
    /// another packet meets an entry that waits for its route. That packet must find the entry as if it had come in a
    /// later burst.
    pub(crate) fn route_misses(&mut self, now: Ticks, output: &mut Vec<Outgoing>) {
        let mut misses = std::mem::take(&mut self.misses);
        // More packets of the burst may follow, so this lap counts no packets.
        self.stopwatch.lap(Stage::PitCs, 0);
        self.match_misses(&mut misses);
        for miss in &misses {
            self.table.set_unrouted(miss.slot, false);
            self.route(now, miss, output);
        }
        self.stopwatch.lap(Stage::Strategy, misses.len());
        misses.clear();
        self.misses = misses;
    }

    pub(crate) fn route(&mut self, now: Ticks, miss: &Miss, output: &mut Vec<Outgoing>) {
        let entry = match miss.route {
            Route::Entry(entry) => entry,
            Route::Fib => None,
            Route::Face(face) => {
                if is_usable(&self.table, &self.faces, miss.slot, miss.ingress)(&Nexthop { face, cost: 0 }) {
                    if let Some(pit) = self.table.slot_mut(miss.slot).pit_mut() {
                        (pit.directed, pit.non_discovery) = (true, miss.non_discovery);
                    }
                    return self.send_interest(now, miss, face, output);
                }
                self.drops.count(DropReason::NextHopFaceId);
                // The Interest of another downstream may have been sent already.
                if self.table.slot(miss.slot).pit().is_some_and(|p| p.out_records.is_empty()) {
                    self.drop_pending(now, miss.slot);
                }
                return;
            }
        };
        let fib_entry = entry.map(|(entry, _)| entry);
        self.ask_strategy(now, miss.slot, miss.ingress, fib_entry, |strategy, situation, pit, decision| {
            (pit.directed, pit.non_discovery) = (false, miss.non_discovery);
            pit.prefix_hash = entry.map_or(0, |(_, hash)| hash);
            situation.prefix_hash = pit.prefix_hash;
            strategy.after_interest(situation, pit, decision);
        });
        for i in 0..self.decision.forward.len() {
            self.send_interest(now, miss, self.decision.forward[i], output);
        }
        if self.decision.flood {
            self.flood(now, miss, output);
        }
        if let Some(wake_at) = self.decision.wake_at {
            self.wake_strategy_at(miss.slot, wake_at);
        }
        if let Some(reason) = self.decision.refuse {
            if self.dies_of_hop_limit(miss.slot, miss.ingress, fib_entry) {
                self.drops.count(DropReason::HopLimit);
                return self.drop_pending(now, miss.slot);
            }
            self.refuse(now, miss.slot, reason, output);
        }
    }

    /// Sends a pending Interest upstream.
    pub(in crate::pipeline) fn send_interest(
        &mut self,
        now: Ticks,
        miss: &Miss,
        to: FaceId,
        output: &mut Vec<Outgoing>,
    ) {
        self.send_pending(now, miss.slot, to, miss.expiry, output);
        if let Some(sent) = output.last_mut() {
            sent.fields.incoming_face_id = Some(miss.ingress);
            sent.fields.congestion_mark = miss.congestion_mark;
        }
    }

    /// Sends the packet of a pending Interest upstream and records this.
    pub(in crate::pipeline) fn send_pending(
        &mut self,
        now: Ticks,
        slot: SlotId,
        to: FaceId,
        expiry: Ticks,
        output: &mut Vec<Outgoing>,
    ) {
        let slot = self.table.slot_mut(slot);
        let (packet, Kind::Pit(pit)) = (&slot.packet, &mut slot.kind) else { return };
        let record =
            OutRecord { face: to, nonce: pit.nonce, sent: now, expiry, nacked: None, non_discovery: pit.non_discovery };
        match pit.out_records.iter_mut().find(|r| r.face == to) {
            Some(old) => *old = record,
            None => pit.out_records.push(record),
        }
        let outgoing = Outgoing::append(output);
        outgoing.face = to;
        if let Some(tokens) = &self.tokens {
            outgoing.fields.pit_token = tokens.token(pit.can_be_prefix, usize::from(pit.depth));
        }
        outgoing.fields.non_discovery = pit.non_discovery;
        outgoing.packet.fill(packet.clone());
        if let Some(face) = self.faces.get_mut(&to) {
            face.counters.out_interests += 1;
        }
    }
}

//! Nacks: the strategy tries elsewhere, or refuses downstream too.

use byname_wire::{Interest, NackReason, NameView};

use crate::counters::Drop;
use crate::face_table::LinkType;
use crate::pipeline::{InterestInfo, name_in};
use crate::port::{Outgoing, Received};
use crate::strategy::Situation;
use crate::ticks::Ticks;
use crate::worker::Worker;

impl Worker {
    /// An upstream refuses an Interest.
    pub(crate) fn on_nack(
        &mut self,
        now: Ticks,
        hashes: usize,
        received: &Received,
        info: InterestInfo,
        output: &mut Vec<Outgoing>,
    ) {
        let Some(face) = self.faces.get_mut(&received.face) else { return self.drops.count(Drop::UnknownFace) };
        face.counters.in_nacks += 1;
        let point_to_point = face.link_type == LinkType::PointToPoint;
        // It may answer one of these, and what it tells the strategy comes after them.
        self.route_misses(now, output);
        let name = NameView::from_filled(name_in(&received.packet, info.name), &self.hashes[hashes]);
        let slot = self.table.find_pit(&name, info.can_be_prefix, info.must_be_fresh).filter(|_| point_to_point);
        let Some(slot) = slot else { return self.drops.count(Drop::UnsolicitedNack) };
        let pit = self.table.slot_mut(slot).pit_mut().expect("found as pending");
        let record = pit.out_records.iter_mut().find(|r| {
            // Peers may answer an Interest that was sent again since: only the latest counts.
            r.face == received.face && Some(r.nonce) == info.nonce && r.nacked.is_none()
        });
        let Some(record) = record else { return self.drops.count(Drop::UnsolicitedNack) };
        record.nacked = Some(received.fields.nack.unwrap_or(NackReason::None));
        let expiry = record.expiry;
        let ingress = pit.in_records.iter().max_by_key(|r| r.arrived).map_or(pit.owner(), |r| r.face);

        // The way that it took before: where the consumer said and nowhere else, by its hint, by its name.
        let directed = pit.directed;
        let sent = Interest::decode(&self.table.slot(slot).packet).ok();
        let entry = match sent.filter(|i| !i.forwarding_hint_value.is_empty()) {
            _ if directed => None,
            Some(hinted) => self.match_forwarding_hint(&hinted).map(|(entry, _)| entry),
            None => self.tables.fib().longest_match(&name.up_to(self.hashed_depth)).map(|m| m.entry),
        };
        self.find_usable(slot, ingress, entry);
        let pit = self.table.slot_mut(slot).pit_mut().expect("found as pending");
        let mut situation = Situation {
            now,
            nexthops: &self.nexthops,
            prefix_hash: pit.prefix_hash,
            measurements: &mut self.measurements,
        };
        self.decision.clear();
        self.strategies.strategy(usize::from(pit.strategy)).after_nack(&mut situation, pit, &mut self.decision);
        for i in 0..self.decision.forward.len() {
            self.send_pending(now, slot, self.decision.forward[i], expiry, output);
            if let Some(sent) = output.last_mut() {
                sent.fields.incoming_face_id = Some(ingress);
            }
        }
        if let Some(reason) = self.decision.refuse {
            self.refuse(now, slot, reason, output);
        }
    }
}

//! The pipeline of Nacks: the strategy tries another nexthop or refuses downstream too.

use byname_wire::{NackReason, NameView};

use crate::counters::DropReason;
use crate::face_table::LinkType;
use crate::packet::{InterestInfo, name_in};
use crate::port::{Outgoing, Received};
use crate::shard::Shard;
use crate::ticks::Ticks;

impl Shard {
    /// Handles the Nack of an upstream. `place` is its place among the parsed packets of the burst.
    pub(crate) fn on_nack(
        &mut self,
        now: Ticks,
        place: usize,
        received: &Received,
        info: InterestInfo,
        output: &mut Vec<Outgoing>,
    ) {
        let Some(face) = self.faces.get_mut(&received.face) else { return self.drops.count(DropReason::UnknownFace) };
        face.counters.in_nacks += 1;
        let point_to_point = face.link_type == LinkType::PointToPoint;
        // The Nack may answer one of these misses, and the strategy must see them before it.
        self.route_misses(now, output);
        let name = NameView::from_filled(name_in(&received.packet, info.name), &self.hashes[place]);
        let slot = self.table.find_pit(&name, info.can_be_prefix, info.must_be_fresh).filter(|_| point_to_point);
        let Some(slot) = slot else { return self.drops.count(DropReason::UnsolicitedNack) };
        let pit = self.table.slot_mut(slot).pit_mut().expect("found as pending");
        let record = pit.out_records.iter_mut().find(|r| {
            // A Nack may answer an Interest that was sent again since. Only the latest nonce counts.
            r.face == received.face && Some(r.nonce) == info.nonce && r.nacked.is_none()
        });
        let Some(record) = record else { return self.drops.count(DropReason::UnsolicitedNack) };
        let reason = received.fields.nack.unwrap_or(NackReason::None);
        record.nacked = Some(reason);
        let (expiry, along_route) = (record.expiry, record.non_discovery);
        let learns = self.strategies.strategy(usize::from(pit.strategy)).learns_routes();
        let lost_route = (learns && along_route && reason == NackReason::NoRoute).then(|| name.name().to_name());
        let way = self.way_of(slot, |fib| fib.longest_match(&name.up_to(self.hashed_depth)).map(|m| m.entry));
        if let Some(name) = lost_route {
            self.tell_refused(name, received.face);
        }
        self.reconsider(now, slot, way, expiry, output, |strategy, situation, pit, decision| {
            strategy.after_nack(situation, pit, decision);
        });
    }
}

//! Flooded Interests, and routes that Data teaches, for the strategy `self-learning`.

use byname_wire::{FaceId, NackReason, Name, NameRef};

use super::nexthops::is_usable;
use crate::counters::DropReason;
use crate::face_table::Scope;
use crate::learning::{Notice, Taught};
use crate::packet::{NameRange, name_in};
use crate::packet_pool::Packet;
use crate::pit_cs::{PitEntry, SlotId};
use crate::port::{Outgoing, Received};
use crate::shard::{Miss, Shard};
use crate::strategy::{Answer, Situation};
use crate::tables::Nexthop;
use crate::ticks::Ticks;

/// Maximum of faces that one Interest is flooded to: those that came up first. Faces from the configuration come before
/// those of strangers, who may make very many.
const FLOOD_MAX: usize = 64;

impl Shard {
    /// Sends a pending Interest to all neighbors.
    pub(super) fn flood(&mut self, now: Ticks, miss: &Miss, output: &mut Vec<Outgoing>) {
        // One more face than the limit: the Interest mostly came from one of them.
        let faces = self.remote_faces.iter().take(FLOOD_MAX + 1);
        self.nexthops.clear();
        self.nexthops.extend(faces.map(|face| Nexthop { face: *face, cost: 0 }));
        self.nexthops.retain(is_usable(&self.table, &self.faces, miss.slot, miss.ingress));
        self.nexthops.truncate(FLOOD_MAX);
        for i in 0..self.nexthops.len() {
            self.send_interest(now, miss, self.nexthops[i].face, output);
        }
        match self.table.slot(miss.slot).pit() {
            Some(pit) if pit.out_records.is_empty() && pit.hops_left == 0 => {
                self.drops.count(DropReason::HopLimit);
                self.drop_pending(now, miss.slot);
            }
            Some(pit) if pit.out_records.is_empty() => self.refuse(now, miss.slot, NackReason::NoRoute, output),
            _ => {}
        }
    }

    /// Lets the strategy of a pending Interest learn from Data that answers it. Returns the prefix announcement to send
    /// on with the Data.
    pub(super) fn learn(&mut self, now: Ticks, slot: SlotId, received: &Received, name: NameRange) -> Option<Packet> {
        let came_with = received.fields.prefix_announcement.clone();
        let Some(pit) = self.table.slot(slot).pit() else { return came_with };
        let name = name_in(&received.packet, name);
        let answer = Answer { face: received.face, name, is_announced: came_with.is_some() };
        let asked = self.table.slot(slot).name();
        let mut situation = Situation::at_end(now, asked, pit.prefix_hash, &mut self.measurements);
        let strategy = self.strategies.strategy(usize::from(pit.strategy));
        let lesson = strategy.before_satisfy(&mut situation, pit, &answer);
        let goes_on = match came_with {
            None if lesson.announce => self.announcement_for(pit, name),
            came_with => came_with,
        };
        if let Some(taught) = lesson.tell {
            let announcement = goes_on.clone().filter(|_| taught == Taught::Announced);
            self.tell(Notice { taught, name: name.to_name(), face: received.face, announcement });
        }
        goes_on
    }

    /// Tells the control side that an upstream has no route for an Interest that was sent along a route.
    pub(super) fn tell_refused(&mut self, name: Name, face: FaceId) {
        self.tell(Notice { taught: Taught::Refused, name, face, announcement: None });
    }

    fn tell(&mut self, notice: Notice) {
        if let Some(listener) = &mut self.listener
            && !listener(notice)
        {
            self.drops.count(DropReason::NoticesFull);
        }
    }

    /// The announcement to send with Data of this name, if another host waits for the Data.
    fn announcement_for(&self, pit: &PitEntry, name: NameRef<'_>) -> Option<Packet> {
        let is_remote = |face| self.faces.get(&face).is_some_and(|f| f.scope == Scope::NonLocal);
        if !pit.in_records.iter().any(|r| is_remote(r.face)) {
            return None;
        }
        self.tables.announcement(name).map(|bytes| Packet::copy_from(&bytes))
    }
}

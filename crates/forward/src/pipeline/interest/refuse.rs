//! Refusal of Interests: Nacks to downstreams.

use byname_wire::interest::with_nonce;
use byname_wire::{FaceId, Interest, NackReason, PitToken};
use smallvec::SmallVec;

use crate::face_table::LinkType;
use crate::packet_pool::Packet;
use crate::pit_cs::SlotId;
use crate::port::{LinkFields, Outgoing, Received};
use crate::shard::Shard;
use crate::ticks::Ticks;

impl Shard {
    /// Refuses a pending Interest to all of its downstreams and removes it.
    pub(in crate::pipeline) fn refuse(
        &mut self,
        now: Ticks,
        slot: SlotId,
        reason: NackReason,
        output: &mut Vec<Outgoing>,
    ) {
        let Some(pit) = self.table.slot(slot).pit() else { return };
        let waiting: SmallVec<[(FaceId, u32, PitToken); 4]> =
            pit.in_records.iter().filter(|r| r.expiry > now).map(|r| (r.face, r.nonce, r.pit_token)).collect();
        for downstream in waiting {
            self.refuse_downstream(slot, downstream, reason, output);
        }
        self.drop_pending(now, slot);
    }

    /// Refuses a pending Interest to one downstream.
    pub(super) fn refuse_downstream(
        &mut self,
        slot: SlotId,
        (face, nonce, token): (FaceId, u32, PitToken),
        reason: NackReason,
        output: &mut Vec<Outgoing>,
    ) {
        if self.faces.get(&face).is_none_or(|f| f.link_type != LinkType::PointToPoint) {
            return;
        }
        let packet = self.table.slot(slot).packet.clone();
        // The peer identifies its Interest by the nonce that it sent.
        let interest = Interest::decode(&packet).expect("it was parsed when it came");
        let packet = match interest.nonce {
            Some(n) if n != nonce => Packet::copy_from(&with_nonce(&interest, nonce)),
            _ => packet,
        };
        self.send_nack(face, packet, reason, token, output);
    }

    /// Refuses a received Interest that has no place in the PIT.
    pub(super) fn refuse_received(
        &mut self,
        received: &mut Received,
        link_type: LinkType,
        reason: NackReason,
        output: &mut Vec<Outgoing>,
    ) {
        // Others in a group may have a better answer.
        if link_type == LinkType::PointToPoint {
            let token = received.fields.pit_token;
            self.send_nack(received.face, received.packet.take(), reason, token, output);
        }
    }

    fn send_nack(
        &mut self,
        face: FaceId,
        packet: Packet,
        reason: NackReason,
        pit_token: PitToken,
        output: &mut Vec<Outgoing>,
    ) {
        if let Some(face) = self.faces.get_mut(&face) {
            face.counters.out_nacks += 1;
        }
        output.push(Outgoing {
            face,
            fields: LinkFields { pit_token, nack: Some(reason), ..Default::default() },
            packet,
        });
    }
}

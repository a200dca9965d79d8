//! The pipeline of Interests: the content store answers, or the strategy chooses nexthops.
//!
//! An Interest takes these steps:
//!
//! 1. [`Shard::accept_interest`] drops it if its scope or HopLimit forbids it to pass.
//! 2. `complete` lowers its HopLimit, and adds a nonce if it has none.
//! 3. `find_settled` looks up its name in the PIT and the content store. An Interest that loops is refused (`refuse`).
//!    If Data is found, [`Shard::send_stored`] answers, and the way ends here.
//! 4. `add_pending` or `add_downstream` (`pending`) records the Interest in the PIT. It is now a [`Miss`].
//! 5. `match_misses` (`fib`) finds the FIB entries of all misses.
//! 6. `route` (`route`) lets the strategy decide, for each miss, on the nexthops that it may use (`nexthops`).
//! 7. [`Shard::send_interest`] sends the packet and records the upstream.
//!
//! Each Interest of a burst takes steps 1 to 4 before the next. The misses of a burst take steps 5 to 7 together, in
//! [`Shard::route_misses`] at its end, so that the memory reads of FIB lookups overlap. Misses take these steps earlier
//! if another packet of the burst meets the entry of a miss (an Interest of the same name, Data, or a Nack), or if the
//! PIT is full. Where this may happen often, [`Shard::match_ahead`] looks up the whole burst in the FIB before step 1.

mod fib;
mod pending;
mod refuse;
mod rewrite;
mod route;
mod shared;

pub(in crate::pipeline) use fib::OwnRules;

use std::time::Duration;

use byname_wire::interest::{HopLimit, with_nonce};
use byname_wire::{FaceId, Interest, NackReason, NameView};
use rand::RngExt;

use crate::counters::DropReason;
use crate::face_table::{LinkType, Scope};
use crate::packet::{InterestInfo, LOCALHOST, lower_hop_limit, name_in};
use crate::packet_pool::Packet;
use crate::pit_cs::{Found, InRecord, PitEntry, SlotId};
use crate::port::{LinkFields, Outgoing, Received};
use crate::settings::LIFETIME_MAX;
use crate::shard::{Miss, Route, Shard};
use crate::ticks::Ticks;
use crate::whereabouts::SourceId;
use rewrite::{rewrite, without_forwarding_hint};

/// Properties of the face that an Interest came from.
pub(super) struct Ingress {
    link_type: LinkType,
    local_fields: bool,
    source: SourceId,
}

impl Shard {
    /// Handles an Interest that arrived. `place` is its place among the parsed packets of the burst.
    pub(crate) fn on_interest(
        &mut self,
        now: Ticks,
        place: usize,
        received: &mut Received,
        mut info: InterestInfo,
        output: &mut Vec<Outgoing>,
    ) {
        let Some(ingress) = self.accept_interest(received, &info) else { return };
        let Ingress { link_type, local_fields, source } = ingress;
        let nonce = self.complete(received, &mut info);
        let found = self.find_settled(now, place, received, &info, output);
        let name = NameView::from_filled(name_in(&received.packet, info.name), &self.hashes[place]);
        let pending = found.pending.and_then(|s| self.table.slot(s).pit());
        if self.dead_nonces.contains(now, name.full_hash(), nonce)
            || pending.is_some_and(|p| loops(p, received.face, link_type, nonce))
        {
            self.drops.count(DropReason::Loop);
            return self.refuse_received(received, link_type, NackReason::Duplicate, output);
        }
        if let Some(data) = found.data {
            if info.is_hot && self.table.slot(data).name_bytes() == name.name().value() {
                self.table.share(data, name.digest(name.len()));
            }
            return self.answer_from_store(data, received, output);
        }
        self.counts.cs_misses += 1;

        let lifetime = Duration::from_millis(info.lifetime_ms).min(LIFETIME_MAX);
        let record = InRecord {
            face: received.face,
            nonce,
            arrived: now,
            expiry: now + lifetime,
            pit_token: received.fields.pit_token,
        };
        let route = self.route_of(received, &info, local_fields);
        let (ingress, expiry) = (received.face, record.expiry);
        let congestion_mark = received.fields.congestion_mark;
        let slot = match found.pending {
            Some(slot) => {
                if !self.add_downstream(slot, record, source, output) {
                    self.drops.count(DropReason::TooManyDownstreams);
                    return self.refuse_received(received, link_type, NackReason::Congestion, output);
                }
                self.renew_pending(slot, received.packet.take(), &info);
                slot
            }
            None => self.add_pending(place, record, received.packet.take(), &info, source, output),
        };
        self.table.set_unrouted(slot, true);
        let non_discovery = received.fields.non_discovery;
        self.misses.push(Miss { slot, place, ingress, expiry, congestion_mark, non_discovery, route });
    }

    /// Counts an Interest that arrived. Returns the properties of its face, or `None` if the Interest is dropped.
    pub(super) fn accept_interest(&mut self, received: &Received, info: &InterestInfo) -> Option<Ingress> {
        let Some(face) = self.faces.get_mut(&received.face) else {
            self.drops.count(DropReason::UnknownFace);
            return None;
        };
        face.counters.in_interests += 1;
        if face.scope == Scope::NonLocal && name_in(&received.packet, info.name).value().starts_with(LOCALHOST) {
            self.drops.count(DropReason::Scope);
            return None;
        }
        if info.hop_limit.is_some_and(|limit| limit.value == 0) {
            self.drops.count(DropReason::HopLimit);
            return None;
        }
        Some(Ingress { link_type: face.link_type, local_fields: face.local_fields, source: face.source })
    }

    /// Lowers the HopLimit of an Interest, removes a forwarding hint that has done its work, and adds a missing nonce.
    /// Returns the nonce.
    #[inline]
    fn complete(&mut self, received: &mut Received, info: &mut InterestInfo) -> u32 {
        if let Some(limit) = info.hop_limit {
            lower_hop_limit(&mut received.packet, limit);
            info.hop_limit = Some(HopLimit { value: limit.value - 1, ..limit });
        }
        if info.nonce.is_none() {
            let nonce = self.random.random();
            rewrite(&mut received.packet, info, |interest| with_nonce(interest, nonce));
        }
        if info.has_forwarding_hint && self.in_producer_region(&received.packet) {
            rewrite(&mut received.packet, info, without_forwarding_hint);
        }
        info.nonce.expect("set above where there was none")
    }

    /// Finds the slots for an Interest. If it meets the entry of a miss, the misses are routed first.
    #[inline]
    fn find_settled(
        &mut self,
        now: Ticks,
        place: usize,
        received: &Received,
        info: &InterestInfo,
        output: &mut Vec<Outgoing>,
    ) -> Found {
        if info.can_be_prefix {
            self.table.keep_prefix_index(now);
        }
        let mut found = self.find(&received.packet, info, place, now);
        if found.pending.is_some_and(|slot| self.table.is_unrouted(slot)) {
            self.route_misses(now, output);
            found = self.find(&received.packet, info, place, now);
        }
        found
    }

    fn find(&self, packet: &Packet, info: &InterestInfo, place: usize, now: Ticks) -> Found {
        let name = NameView::from_filled(name_in(packet, info.name), &self.hashes[place]);
        self.table.find(&name, info.can_be_prefix, info.must_be_fresh, now)
    }

    /// Decides how nexthops are found: the consumer's choice, the forwarding hint, or the name.
    #[inline]
    fn route_of(&self, received: &Received, info: &InterestInfo, local_fields: bool) -> Route {
        match received.fields.next_hop_face_id.filter(|_| local_fields) {
            Some(face) => Route::Face(face),
            None if info.has_forwarding_hint => {
                let interest = Interest::decode(&received.packet).expect("it was parsed when it came");
                Route::Entry(self.match_forwarding_hint(&interest))
            }
            None => Route::Fib,
        }
    }

    fn answer_from_store(&mut self, data: SlotId, received: &Received, output: &mut Vec<Outgoing>) {
        let packet = self.table.slot(data).packet.clone();
        self.table.used(data);
        self.send_stored(packet, received, output);
    }

    /// Answers an Interest with stored Data.
    pub(super) fn send_stored(&mut self, packet: Packet, received: &Received, output: &mut Vec<Outgoing>) {
        self.counts.cs_hits += 1;
        if let Some(face) = self.faces.get_mut(&received.face) {
            face.counters.out_data += 1;
        }
        let fields = LinkFields {
            pit_token: received.fields.pit_token,
            incoming_face_id: Some(FaceId::CONTENT_STORE),
            ..Default::default()
        };
        output.push(Outgoing { face: received.face, fields, packet });
    }
}

/// Whether an Interest with this nonce has looped back to its pending entry.
fn loops(pit: &PitEntry, from: FaceId, link_type: LinkType, nonce: u32) -> bool {
    // The only neighbor on a point-to-point link may send the same Interest again.
    let again = link_type == LinkType::PointToPoint && pit.in_record(from).is_some_and(|r| r.nonce == nonce);
    !again && (pit.in_records.iter().any(|r| r.nonce == nonce) || pit.out_records.iter().any(|r| r.nonce == nonce))
}

//! Data: to all who wait for it, and into the content store.

use std::time::Duration;

use byname_wire::{FaceId, NameView, PitToken};
use smallvec::SmallVec;

use crate::counters::Drop;
use crate::dead_nonces;
use crate::face_table::{LinkType, Scope};
use crate::packet_pool::Packet;
use crate::pipeline::{Copies, DataInfo, LOCALHOST, name_in};
use crate::pit_cs::{NameRange, SlotId};
use crate::port::{LinkFields, Outgoing, Received};
use crate::strategy::Situation;
use crate::ticks::Ticks;
use crate::worker::Worker;

/// Up to so many who wait are searched from end to end; more are sorted.
const SEARCHED_MAX: usize = 32;

impl Worker {
    /// Data arrived.
    pub(crate) fn on_data(
        &mut self,
        now: Ticks,
        hashes: usize,
        received: &mut Received,
        info: DataInfo,
        output: &mut Vec<Outgoing>,
    ) {
        let Some(face) = self.faces.get_mut(&received.face) else { return self.drops.count(Drop::UnknownFace) };
        face.counters.in_data += u64::from(info.copies != Copies::Further);
        let local_fields = face.local_fields;
        let octets = name_in(&received.packet, info.name).value();
        if face.scope == Scope::NonLocal && octets.starts_with(LOCALHOST) {
            return self.drops.count(Drop::Scope);
        }
        let mut satisfied = self.find_satisfied(&received.packet, info.name, hashes);
        if !self.misses.is_empty() && satisfied.iter().any(|&slot| self.concerns_misses(slot)) {
            self.route_misses(now, output);
            satisfied = self.find_satisfied(&received.packet, info.name, hashes);
        }
        if satisfied.is_empty() {
            if info.copies == Copies::Lone {
                self.drops.count(Drop::UnsolicitedData);
            }
            return;
        }

        let freshness = Duration::from_millis(info.freshness_ms);
        let mut waiting = SmallVec::<[(FaceId, PitToken); 4]>::new();
        let mut same_name = None;
        for slot in satisfied {
            self.satisfy(now, slot, received.face, freshness, &mut waiting);
            if same_name.is_none() && self.table.slot(slot).name_octets() == octets {
                same_name = Some(slot);
            } else {
                self.table.remove(slot);
            }
        }
        if waiting.len() > SEARCHED_MAX {
            waiting.sort_unstable_by(|(a, s), (b, t)| a.cmp(b).then_with(|| s.as_slice().cmp(t.as_slice())));
            waiting.dedup();
        }
        if self.table.admits() && !(local_fields && received.fields.no_cache) {
            let name = NameView::from_filled(name_in(&received.packet, info.name), &self.hashes[hashes]);
            self.table.admit(&name, received.packet.clone(), info.name, now + freshness, same_name);
        } else if let Some(slot) = same_name {
            self.table.remove(slot);
        }
        let mut left = waiting.len();
        for (to, pit_token) in waiting {
            let fields = LinkFields {
                pit_token,
                incoming_face_id: Some(received.face),
                congestion_mark: received.fields.congestion_mark,
                ..Default::default()
            };
            if let Some(face) = self.faces.get_mut(&to) {
                face.counters.out_data += 1;
            }
            left -= 1;
            let packet = if left == 0 { received.packet.take() } else { received.packet.clone() };
            output.push(Outgoing { face: to, fields, packet });
        }
    }

    fn find_satisfied(&self, packet: &Packet, name: NameRange, hashes: usize) -> SmallVec<[SlotId; 4]> {
        let name = NameView::from_filled(name_in(packet, name), &self.hashes[hashes]);
        self.table.find_satisfied(&name, packet)
    }

    /// Whether Interests that came before and are not routed yet must be, before this one is satisfied:
    /// it is one of them, or its strategy learns from what comes.
    fn concerns_misses(&mut self, slot: SlotId) -> bool {
        let Some(pit) = self.table.slot(slot).pit() else { return false };
        pit.unrouted || self.strategies.strategy(usize::from(pit.strategy)).measures()
    }

    /// Ends the wait of a pending Interest: adds who waits for it to `waiting`, each once as long
    /// as they are few.
    fn satisfy(
        &mut self,
        now: Ticks,
        slot: SlotId,
        upstream: FaceId,
        freshness: Duration,
        waiting: &mut SmallVec<[(FaceId, PitToken); 4]>,
    ) {
        self.wheel.clear(slot);
        let hash = self.table.slot(slot).hash;
        let Some(pit) = self.table.slot(slot).pit() else { return };
        let strategy = self.strategies.strategy(usize::from(pit.strategy));
        if strategy.measures() {
            let mut situation =
                Situation { now, nexthops: &[], prefix_hash: pit.prefix_hash, measurements: &mut self.measurements };
            strategy.before_satisfy(&mut situation, pit, upstream);
        }
        for record in pit.in_records.iter().filter(|r| r.expiry > now) {
            let Some(face) = self.faces.get(&record.face) else { continue };
            let downstream = (record.face, record.pit_token);
            let known = || waiting.len() <= SEARCHED_MAX && waiting.contains(&downstream);
            if (record.face != upstream || face.link_type == LinkType::AdHoc) && !known() {
                waiting.push(downstream);
            }
        }
        // Cached Data answers what comes back in a circle, unless it goes stale before.
        if pit.must_be_fresh && freshness < dead_nonces::LIFETIME {
            for record in &pit.out_records {
                self.dead_nonces.insert(now, hash, record.nonce);
            }
        }
        self.counts.satisfied += 1;
    }
}

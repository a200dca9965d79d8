//! Data: to all who wait for it, and into the content store.

use std::time::Duration;

use byname_wire::NameView;

use crate::counters::Drop;
use crate::dead_nonces;
use crate::face_table::{LinkType, Scope};
use crate::packet_pool::Packet;
use crate::pipeline::{Copies, DataInfo, LOCALHOST, name_in};
use crate::pit_cs::{NameRange, SlotId};
use crate::port::{Outgoing, Received};
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
        self.meet(&received.packet, info.name, hashes);
        if !self.misses.is_empty() && (0..self.met.pending.len()).any(|i| self.concerns_misses(self.met.pending[i])) {
            self.route_misses(now, output);
            self.meet(&received.packet, info.name, hashes);
        }
        if self.met.pending.is_empty() {
            if info.copies == Copies::Lone {
                self.drops.count(Drop::UnsolicitedData);
            }
            return;
        }

        let freshness = Duration::from_millis(info.freshness_ms);
        // All who wait are behind this one.
        let first = output.len();
        let mut same_name = None;
        for i in 0..self.met.pending.len() {
            let slot = self.met.pending[i];
            self.satisfy(now, slot, received, freshness, first, output);
            if same_name.is_none() && self.table.slot(slot).name_octets() == octets {
                same_name = Some(slot);
            } else {
                self.table.remove(slot);
            }
        }
        if output.len() - first > SEARCHED_MAX {
            dedup_downstreams(output, first);
        }
        if self.table.admits() && !(local_fields && received.fields.no_cache) {
            let packet = received.packet.take();
            self.table.admit(&self.hashes[hashes], packet, info.name, now + freshness, same_name, self.met.stored);
        } else if let Some(slot) = same_name {
            self.table.remove(slot);
        }
        for outgoing in &output[first..] {
            if let Some(face) = self.faces.get_mut(&outgoing.face) {
                face.counters.out_data += 1;
            }
        }
    }

    fn meet(&mut self, packet: &Packet, name: NameRange, hashes: usize) {
        let name = NameView::from_filled(name_in(packet, name), &self.hashes[hashes]);
        self.table.find_satisfied(&name, packet, &mut self.met);
    }

    /// Whether Interests that came before and are not routed yet must be, before this one is satisfied:
    /// it is one of them, or its strategy learns from what comes.
    fn concerns_misses(&mut self, slot: SlotId) -> bool {
        let Some(pit) = self.table.slot(slot).pit() else { return false };
        pit.unrouted || self.strategies.strategy(usize::from(pit.strategy)).measures()
    }

    /// Ends the wait of a pending Interest: the Data goes to who waits for it, to each once as long as
    /// those from `first` on are few.
    fn satisfy(
        &mut self,
        now: Ticks,
        slot: SlotId,
        received: &Received,
        freshness: Duration,
        first: usize,
        output: &mut Vec<Outgoing>,
    ) {
        let upstream = received.face;
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
            let is_known = |waiting: &[Outgoing]| {
                let is_it = |o: &Outgoing| o.face == record.face && o.fields.pit_token == record.pit_token;
                waiting.len() <= SEARCHED_MAX && waiting.iter().any(is_it)
            };
            if (record.face != upstream || face.link_type == LinkType::AdHoc) && !is_known(&output[first..]) {
                let sent = Outgoing::append(output);
                sent.face = record.face;
                sent.fields.pit_token = record.pit_token;
                sent.fields.incoming_face_id = Some(upstream);
                sent.fields.congestion_mark = received.fields.congestion_mark;
                sent.packet.fill(received.packet.clone());
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

/// Leaves each downstream from `first` on once.
#[cold]
fn dedup_downstreams(output: &mut Vec<Outgoing>, first: usize) {
    let mut waiting = output.split_off(first);
    let key = |o: &Outgoing| (o.face, o.fields.pit_token);
    waiting.sort_unstable_by(|a, b| {
        a.face.cmp(&b.face).then_with(|| a.fields.pit_token.as_slice().cmp(b.fields.pit_token.as_slice()))
    });
    waiting.dedup_by(|a, b| key(a) == key(b));
    output.append(&mut waiting);
}

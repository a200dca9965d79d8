//! The pipeline of Data: satisfy pending Interests and fill the content store.

use std::time::Duration;

use byname_wire::{FaceId, NameView};

use crate::counters::DropReason;
use crate::crossing::{Handed, Parcel};
use crate::dead_nonces;
use crate::face_table::{FaceTable, LinkType, Scope};
use crate::packet::{Copies, DataInfo, LOCALHOST, NameRange, Parsed, name_in};
use crate::packet_pool::Packet;
use crate::pit_cs::{OutRecord, SlotId};
use crate::port::{Outgoing, Received};
use crate::shard::Shard;
use crate::ticks::Ticks;

/// Up to this many downstreams are searched linearly; more are sorted.
const SEARCHED_MAX: usize = 32;

/// Data on its way to its downstreams.
struct Arrival {
    name: NameRange,
    freshness: Duration,
    /// Index in the output of the first packet for a downstream. Each downstream gets the Data once; beyond
    /// [`SEARCHED_MAX`], duplicates are removed at the end.
    first: usize,
}

impl Shard {
    /// Handles Data that arrived. `place` is its place among the parsed packets of the burst.
    pub(crate) fn on_data(
        &mut self,
        now: Ticks,
        place: usize,
        received: &mut Received,
        info: DataInfo,
        output: &mut Vec<Outgoing>,
    ) {
        let Some(face) = self.faces.get_mut(&received.face) else { return self.drops.count(DropReason::UnknownFace) };
        face.counters.in_data += u64::from(matches!(info.copies, Copies::Lone | Copies::First));
        let local_fields = face.local_fields;
        let bytes = name_in(&received.packet, info.name).value();
        if face.scope == Scope::NonLocal && bytes.starts_with(LOCALHOST) {
            return self.drops.count(DropReason::Scope);
        }
        self.meet(&received.packet, info.name, place);
        if !self.misses.is_empty() && (0..self.met.pending.len()).any(|i| self.concerns_misses(self.met.pending[i])) {
            self.route_misses(now, output);
            self.meet(&received.packet, info.name, place);
        }
        if self.met.pending.is_empty() {
            return self.drop_or_pass_on(received, info);
        }

        if !self.accept_unasked_data {
            self.forget_unasked(received.face);
            if self.met.pending.is_empty() {
                return self.drops.count(DropReason::UnaskedData);
            }
        }

        let freshness = Duration::from_millis(info.freshness_ms);
        let first = output.len();
        let arrival = Arrival { name: info.name, freshness, first };
        let mut same_name = None;
        for i in 0..self.met.pending.len() {
            let slot = self.met.pending[i];
            self.satisfy(now, slot, received, &arrival, output);
            if same_name.is_none() && self.table.slot(slot).name_bytes() == bytes {
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
            self.table.admit(&self.hashes[place], packet, info.name, now + freshness, same_name, self.met.stored);
        } else if let Some(slot) = same_name {
            self.table.remove(slot);
        }
        for outgoing in &output[first..] {
            if let Some(face) = self.faces.get_mut(&outgoing.face) {
                face.counters.out_data += 1;
            }
        }
    }

    /// Handles Data that nobody here waits for. Its name may have got another home since its Interest was sent.
    #[cold]
    fn drop_or_pass_on(&mut self, received: &mut Received, info: DataInfo) {
        // Other workers may wait for a copy, so only a lone Data packet can be unsolicited. Notifications come from the
        // router itself, whether or not an Interest waits.
        if !matches!(info.copies, Copies::Lone | Copies::Passed) || received.face == FaceId::INTERNAL {
            return;
        }
        let name = name_in(&received.packet, info.name);
        if self.table.residence().is_some_and(|residence| residence.elsewhere(name).is_some()) {
            let parsed = &Parsed::Data(DataInfo { copies: Copies::Passed, ..info });
            self.strays.push(Handed::new(received, parsed).into());
        } else {
            self.drops.count(DropReason::UnsolicitedData);
        }
    }

    /// Drops Data from another thread if its hash alone says that nobody here waits for it. So what nobody asked for
    /// costs little: its bytes stay in the other thread's caches. Returns whether it was dropped.
    pub(crate) fn drop_unmet(&mut self, parcel: &Parcel) -> bool {
        let Some(hash) = parcel.hash() else { return false };
        let is_watched = self.popularity.is_on() || self.traces.is_on();
        // Claimed names may have got another home, and shared entries may wait for the next round. Or the Interest is in this
        // burst, and so was sent to nobody yet: what nobody was asked for may answer it.
        let may_be_late = self.table.residence().is_some() || self.sharing.is_some() || self.accept_unasked_data;
        if is_watched || may_be_late || parcel.face() == FaceId::INTERNAL || self.table.may_satisfy(hash) {
            return false;
        }
        match self.faces.get_mut(&parcel.face()) {
            Some(face) => {
                face.counters.in_data += 1;
                self.drops.count(DropReason::UnsolicitedData);
            }
            None => self.drops.count(DropReason::UnknownFace),
        }
        true
    }

    fn meet(&mut self, packet: &Packet, name: NameRange, place: usize) {
        let name = NameView::from_filled(name_in(packet, name), &self.hashes[place]);
        self.table.find_satisfied(&name, packet, &mut self.met);
    }

    /// Drops those Interests from `met` that were not sent to this face: a face answers only what it was asked.
    #[inline]
    fn forget_unasked(&mut self, from: FaceId) {
        let (table, faces) = (&self.table, &self.faces);
        self.met.pending.retain(|&slot| {
            table.slot(slot).pit().is_some_and(|pit| {
                pit.out_records.iter().any(|r| r.face == from) || was_asked_in_group(&pit.out_records, faces, from)
            })
        });
    }

    /// Whether the misses of the burst must be routed before this Interest is satisfied: it is one of them, or its
    /// strategy learns from Data.
    fn concerns_misses(&mut self, slot: SlotId) -> bool {
        let Some(pit) = self.table.slot(slot).pit() else { return false };
        pit.unrouted || self.strategies.strategy(usize::from(pit.strategy)).measures()
    }

    /// Ends the wait of a pending Interest: sends the Data to its downstreams.
    fn satisfy(
        &mut self,
        now: Ticks,
        slot: SlotId,
        received: &Received,
        arrival: &Arrival,
        output: &mut Vec<Outgoing>,
    ) {
        let upstream = received.face;
        self.wheel.clear(slot);
        let hash = self.table.slot(slot).hash;
        let Some(pit) = self.table.slot(slot).pit() else { return };
        let measures = self.strategies.strategy(usize::from(pit.strategy)).measures();
        let mut announcement = received.fields.prefix_announcement.clone();
        if measures {
            announcement = self.learn(now, slot, received, arrival.name);
        }
        let Some(pit) = self.table.slot(slot).pit() else { return };
        for record in pit.in_records.iter().filter(|r| r.expiry > now) {
            let Some(face) = self.faces.get(&record.face) else { continue };
            let is_known = |waiting: &[Outgoing]| {
                let is_it = |o: &Outgoing| o.face == record.face && o.fields.pit_token == record.pit_token;
                waiting.len() <= SEARCHED_MAX && waiting.iter().any(is_it)
            };
            if (record.face != upstream || face.link_type == LinkType::AdHoc) && !is_known(&output[arrival.first..]) {
                let sent = Outgoing::append(output);
                sent.face = record.face;
                sent.fields.pit_token = record.pit_token;
                sent.fields.incoming_face_id = Some(upstream);
                sent.fields.congestion_mark = received.fields.congestion_mark;
                if let Some(announcement) = announcement.as_ref().filter(|_| face.scope == Scope::NonLocal) {
                    sent.fields.prefix_announcement = Some(announcement.clone());
                }
                sent.packet.fill(received.packet.clone());
            }
        }
        // An Interest that loops back meets the cached Data. If that goes stale early, only the dead nonce list catches
        // the loop.
        if pit.must_be_fresh && arrival.freshness < dead_nonces::LIFETIME {
            for record in &pit.out_records {
                self.dead_nonces.insert(now, hash, record.nonce);
            }
        }
        if self.popularity.is_on()
            && let Some(first) = pit.in_records.iter().map(|record| record.arrived).min()
        {
            self.popularity.answered(now.since(first));
        }
        self.counts.satisfied += 1;
    }
}

/// Whether an Interest was sent to a group on whose link this face's peer is.
#[cold]
fn was_asked_in_group(sent: &[OutRecord], faces: &FaceTable, from: FaceId) -> bool {
    let Some(peer) = faces.get(&from).map(|face| &face.whereabouts) else { return false };
    sent.iter()
        .filter_map(|record| faces.get(&record.face))
        .any(|asked| asked.link_type != LinkType::PointToPoint && asked.whereabouts.group_reaches(peer))
}

/// Removes duplicate downstreams from `first` on.
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

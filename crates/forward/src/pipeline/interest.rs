//! Interests: from arrival to the content store's answer, or to the nexthops that the strategy
//! chooses.

use std::time::Duration;

use byname_lookup::EntryId;
use byname_wire::interest::with_nonce;
use byname_wire::tlv::{Reader, push_nested, types};
use byname_wire::{FaceId, Interest, NackReason, NameView, PitToken, PrefixHashes};
use smallvec::SmallVec;

use crate::counters::Drop;
use crate::face_table::{LinkType, Scope};
use crate::packet_pool::Packet;
use crate::pipeline::nexthops::is_usable;
use crate::pipeline::{InterestInfo, LOCALHOST, interest_info, lower_hop_limit, name_in};
use crate::pit_cs::{Found, InRecord, Kind, OutRecord, PitEntry, SlotId};
use crate::port::{LinkFields, Outgoing, Received};
use crate::stages::Stage;
use crate::strategy::Situation;
use crate::tables::Nexthop;
use crate::ticks::Ticks;
use crate::worker::{LIFETIME_MAX, Worker};

/// Downstreams that one entry records.
const IN_RECORDS_MAX: usize = 256;

/// An Interest that the content store could not answer, on its way to the FIB and its strategy.
pub(crate) struct Miss {
    /// Its PIT entry, which stays until the FIB has answered.
    pub slot: SlotId,
    /// Which of the burst's prefix hashes are its.
    pub hashes: usize,
    ingress: FaceId,
    expiry: Ticks,
    congestion_mark: u64,
    route: Route,
}

enum Route {
    /// By the FIB, by its own name.
    Fib,
    /// The FIB entry and the hash of its prefix, where there is one.
    Entry(Option<(EntryId, u64)>),
    /// Where the consumer said.
    Face(FaceId),
}

impl Miss {
    /// Whether the FIB is to be asked.
    pub fn wants_fib(&self) -> bool {
        matches!(self.route, Route::Fib)
    }

    /// The FIB entry that it goes by.
    pub fn entry(&self) -> Option<EntryId> {
        match self.route {
            Route::Entry(entry) => entry.map(|(entry, _)| entry),
            Route::Fib | Route::Face(_) => None,
        }
    }

    /// What the FIB said.
    pub fn set_route(&mut self, entry: Option<(EntryId, u64)>) {
        self.route = Route::Entry(entry);
    }
}

/// What the face that an Interest came from decides.
pub(super) struct Ingress {
    link_type: LinkType,
    local_fields: bool,
}

impl Worker {
    /// An Interest arrived.
    pub(crate) fn on_interest(
        &mut self,
        now: Ticks,
        hashes: usize,
        received: &mut Received,
        mut info: InterestInfo,
        output: &mut Vec<Outgoing>,
    ) {
        let Some(Ingress { link_type, local_fields }) = self.accept_interest(received, &info) else { return };
        let hops_left = match info.hop_limit {
            Some(limit) => {
                lower_hop_limit(&mut received.packet, limit);
                limit.value - 1
            }
            None => u8::MAX,
        };
        if info.nonce.is_none() {
            let nonce = self.random() as u32;
            rewrite(&mut received.packet, &mut info, |interest| with_nonce(interest, nonce));
        }
        let nonce = info.nonce.expect("set above where there was none");
        if info.has_forwarding_hint && self.in_producer_region(&received.packet) {
            rewrite(&mut received.packet, &mut info, without_forwarding_hint);
        }

        if info.can_be_prefix {
            self.table.keep_prefix_index(now);
        }
        let mut found = self.find(&received.packet, &info, hashes, now);
        if found.pending.is_some_and(|slot| self.table.is_unrouted(slot)) {
            self.route_misses(now, output);
            found = self.find(&received.packet, &info, hashes, now);
        }
        let name = NameView::from_filled(name_in(&received.packet, info.name), &self.hashes[hashes]);
        let pending = found.pending.and_then(|s| self.table.slot(s).pit());
        if self.dead_nonces.contains(now, name.full_hash(), nonce)
            || pending.is_some_and(|p| loops(p, received.face, link_type, nonce))
        {
            self.drops.count(Drop::Loop);
            if link_type == LinkType::PointToPoint {
                let token = received.fields.pit_token;
                self.send_nack(received.face, received.packet.take(), NackReason::Duplicate, token, output);
            }
            return;
        }
        if let (Some(data), false) = (found.data, pending.is_some_and(|p| is_waited_for(p, now))) {
            if info.is_hot && self.table.slot(data).name_octets() == name.name().value() {
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
        let route = match received.fields.next_hop_face_id.filter(|_| local_fields) {
            Some(face) => Route::Face(face),
            None if info.has_forwarding_hint => {
                let interest = Interest::decode(&received.packet).expect("it was parsed when it came");
                Route::Entry(self.match_forwarding_hint(&interest))
            }
            None => Route::Fib,
        };
        let (ingress, expiry) = (received.face, record.expiry);
        let congestion_mark = received.fields.congestion_mark;
        let slot = match found.pending {
            Some(slot) => {
                if !self.add_downstream(slot, record, received.packet.take(), &info, hops_left, output) {
                    return self.drops.count(Drop::TooManyDownstreams);
                }
                slot
            }
            None => self.add_pending(hashes, record, received.packet.take(), &info, hops_left, output),
        };
        self.table.set_unrouted(slot, true);
        self.misses.push(Miss { slot, hashes, ingress, expiry, congestion_mark, route });
    }

    /// Counts an Interest that arrived; of its face what decides what may become of it, unless it must
    /// go no further.
    pub(super) fn accept_interest(&mut self, received: &Received, info: &InterestInfo) -> Option<Ingress> {
        let Some(face) = self.faces.get_mut(&received.face) else {
            self.drops.count(Drop::UnknownFace);
            return None;
        };
        face.counters.in_interests += 1;
        if face.scope == Scope::NonLocal && name_in(&received.packet, info.name).value().starts_with(LOCALHOST) {
            self.drops.count(Drop::Scope);
            return None;
        }
        if info.hop_limit.is_some_and(|limit| limit.value == 0) {
            self.drops.count(Drop::HopLimit);
            return None;
        }
        Some(Ingress { link_type: face.link_type, local_fields: face.local_fields })
    }

    fn find(&self, packet: &Packet, info: &InterestInfo, hashes: usize, now: Ticks) -> Found {
        let name = NameView::from_filled(name_in(packet, info.name), &self.hashes[hashes]);
        self.table.find(&name, info.can_be_prefix, info.must_be_fresh, now)
    }

    /// Asks the FIB for all misses of the burst so far, and their strategies what to do. To be called
    /// before another packet meets an entry that waits for this: it must find it as it would have,
    /// had it come in a burst of its own.
    pub(crate) fn route_misses(&mut self, now: Ticks, output: &mut Vec<Outgoing>) {
        let mut misses = std::mem::take(&mut self.misses);
        // Some of the burst may be yet to come.
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

    fn route(&mut self, now: Ticks, miss: &Miss, output: &mut Vec<Outgoing>) {
        let entry = match miss.route {
            Route::Entry(entry) => entry,
            Route::Fib => None,
            Route::Face(face) => {
                if is_usable(&self.table, &self.faces, miss.slot, miss.ingress)(&Nexthop { face, cost: 0 }) {
                    if let Some(pit) = self.table.slot_mut(miss.slot).pit_mut() {
                        pit.directed = true;
                    }
                    return self.send_interest(now, miss, face, output);
                }
                self.drops.count(Drop::NextHopFaceId);
                // For others it may be on its way already.
                if self.table.slot(miss.slot).pit().is_some_and(|p| p.out_records.is_empty()) {
                    self.drop_pending(now, miss.slot);
                }
                return;
            }
        };
        self.find_usable(miss.slot, miss.ingress, entry.map(|(entry, _)| entry));
        let Some(pit) = self.table.slot_mut(miss.slot).pit_mut() else { return };
        pit.directed = false;
        pit.prefix_hash = entry.map_or(0, |(_, hash)| hash);
        let mut situation = Situation {
            now,
            nexthops: &self.nexthops,
            prefix_hash: pit.prefix_hash,
            measurements: &mut self.measurements,
        };
        self.decision.clear();
        let strategy = self.strategies.strategy(usize::from(pit.strategy));
        strategy.after_interest(&mut situation, pit, &mut self.decision);
        for i in 0..self.decision.forward.len() {
            self.send_interest(now, miss, self.decision.forward[i], output);
        }
        if let Some(reason) = self.decision.refuse {
            self.refuse(now, miss.slot, reason, output);
        }
    }

    /// Sends a pending Interest upstream.
    fn send_interest(&mut self, now: Ticks, miss: &Miss, to: FaceId, output: &mut Vec<Outgoing>) {
        self.send_pending(now, miss.slot, to, miss.expiry, output);
        if let Some(sent) = output.last_mut() {
            sent.fields.incoming_face_id = Some(miss.ingress);
            sent.fields.congestion_mark = miss.congestion_mark;
        }
    }

    /// Sends the packet of a pending Interest upstream and records that.
    pub(crate) fn send_pending(
        &mut self,
        now: Ticks,
        slot: SlotId,
        to: FaceId,
        expiry: Ticks,
        output: &mut Vec<Outgoing>,
    ) {
        let slot = self.table.slot_mut(slot);
        let (packet, Kind::Pit(pit)) = (&slot.packet, &mut slot.kind) else { return };
        let record = OutRecord { face: to, nonce: pit.nonce, sent: now, expiry, nacked: None };
        match pit.out_records.iter_mut().find(|r| r.face == to) {
            Some(old) => *old = record,
            None => pit.out_records.push(record),
        }
        let outgoing = Outgoing::append(output);
        outgoing.face = to;
        if let Some(tokens) = &self.tokens {
            outgoing.fields.pit_token = tokens.token(pit.can_be_prefix, usize::from(pit.depth));
        }
        outgoing.packet.fill(packet.clone());
        if let Some(face) = self.faces.get_mut(&to) {
            face.counters.out_interests += 1;
        }
    }

    /// Refuses a pending Interest to all who wait for it, and removes it.
    pub(crate) fn refuse(&mut self, now: Ticks, slot: SlotId, reason: NackReason, output: &mut Vec<Outgoing>) {
        let Some(pit) = self.table.slot(slot).pit() else { return };
        let waiting: SmallVec<[(FaceId, u32, PitToken); 4]> =
            pit.in_records.iter().filter(|r| r.expiry > now).map(|r| (r.face, r.nonce, r.pit_token)).collect();
        for (face, nonce, token) in waiting {
            let point_to_point = self.faces.get(&face).is_some_and(|f| f.link_type == LinkType::PointToPoint);
            if !point_to_point {
                continue;
            }
            let packet = self.table.slot(slot).packet.clone();
            // The peer knows its Interest by the nonce it sent.
            let interest = Interest::decode(&packet).expect("it was parsed when it came");
            let packet = match interest.nonce {
                Some(n) if n != nonce => Packet::copy_from(&with_nonce(&interest, nonce)),
                _ => packet,
            };
            self.send_nack(face, packet, reason, token, output);
        }
        self.drop_pending(now, slot);
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

    fn answer_from_store(&mut self, data: SlotId, received: &Received, output: &mut Vec<Outgoing>) {
        let packet = self.table.slot(data).packet.clone();
        self.table.used(data);
        self.send_stored(packet, received, output);
    }

    /// Answers an Interest with Data that was stored.
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

    /// One more downstream for a pending Interest, or the same once more. The entry keeps the
    /// latest packet: it is the one to send upstream. False if there are too many.
    fn add_downstream(
        &mut self,
        slot: SlotId,
        record: InRecord,
        packet: Packet,
        info: &InterestInfo,
        hops_left: u8,
        output: &mut Vec<Outgoing>,
    ) -> bool {
        let (now, nonce) = (record.arrived, record.nonce);
        let Some(pit) = self.table.slot_mut(slot).pit_mut() else { return false };
        match pit.in_records.iter().position(|r| r.face == record.face) {
            Some(old) => pit.in_records[old] = record,
            None if pit.in_records.len() == IN_RECORDS_MAX => return false,
            None => {
                if self.table.is_full_of_downstreams() {
                    self.route_misses(now, output);
                }
                while let Some(victim) = self.table.victim_for_downstream() {
                    if victim == slot {
                        return false;
                    }
                    self.drops.count(Drop::PitFull);
                    self.drop_pending(now, victim);
                }
                self.table.add_in_record(slot, record);
            }
        }
        let Some(pit) = self.table.slot_mut(slot).pit_mut() else { return false };
        (pit.nonce, pit.hops_left) = (nonce, hops_left);
        // Whoever asks again may wait for less time than before.
        let expiry = pit.in_records.iter().map(|r| r.expiry).max().unwrap_or(pit.expiry);
        if expiry != pit.expiry {
            pit.expiry = expiry;
            self.wheel.set(slot, expiry);
        }
        self.table.replace_interest(slot, packet, info.name.start);
        true
    }

    fn add_pending(
        &mut self,
        hashes: usize,
        record: InRecord,
        packet: Packet,
        info: &InterestInfo,
        hops_left: u8,
        output: &mut Vec<Outgoing>,
    ) -> SlotId {
        let now = record.arrived;
        if self.table.is_full() {
            // Some may be refused, and leave room.
            self.route_misses(now, output);
        }
        while let Some(victim) = self.table.victim() {
            self.drops.count(Drop::PitFull);
            self.ask_for_victim_after(victim);
            self.drop_pending(now, victim);
        }
        let name = NameView::from_filled(name_in(&packet, info.name), &self.hashes[hashes]);
        let (hash, owner, expiry) = (name.full_hash(), record.face, record.expiry);
        let strategy = self.strategies.choose(&name);
        let depth = name.len() as u8;
        let has_implicit_digest = name.ends_in_implicit_digest();
        let entry = || PitEntry {
            can_be_prefix: info.can_be_prefix,
            must_be_fresh: info.must_be_fresh,
            depth,
            has_implicit_digest,
            hops_left,
            nonce: record.nonce,
            strategy: strategy as u16,
            directed: false,
            unrouted: false,
            prefix_hash: 0,
            expiry,
            suppression_ns: 0,
            in_records: SmallVec::from_buf([record]),
            out_records: SmallVec::new(),
        };
        if let Some(free) = self.table.prefetch_free() {
            self.wheel.prefetch(free);
        }
        let slot = self.table.insert_pit(hash, packet, info.name, owner, entry);
        self.wheel.start(slot, expiry);
        slot
    }

    fn in_producer_region(&self, packet: &Packet) -> bool {
        let interest = Interest::decode(packet).expect("it was parsed when it came");
        let mut delegations = interest.forwarding_hint();
        delegations.any(|d| self.producer_regions.iter().any(|region| d.is_prefix_of(&region.as_ref())))
    }

    /// The FIB entry of the first delegation that has one other than that of `/`.
    pub(crate) fn match_forwarding_hint(&self, interest: &Interest<'_>) -> Option<(EntryId, u64)> {
        let fib = self.tables.fib();
        let mut hashes = PrefixHashes::default();
        let mut of_root = None;
        for delegation in interest.forwarding_hint() {
            let name = NameView::new(&self.key, delegation, &mut hashes);
            match fib.longest_match(&name) {
                Some(found) if found.depth > 0 => return Some((found.entry, name.hash(found.depth))),
                found => of_root = found.map(|f| (f.entry, name.hash(0))),
            }
        }
        of_root
    }
}

/// Whether an Interest with this nonce, which is pending already, came back in a circle.
fn loops(pit: &PitEntry, from: FaceId, link_type: LinkType, nonce: u32) -> bool {
    // The one neighbour of a point-to-point link may send an Interest again as it is.
    let again = link_type == LinkType::PointToPoint && pit.in_record(from).is_some_and(|r| r.nonce == nonce);
    !again && (pit.in_records.iter().any(|r| r.nonce == nonce) || pit.out_records.iter().any(|r| r.nonce == nonce))
}

/// Whether some downstream still waits.
fn is_waited_for(pit: &PitEntry, now: Ticks) -> bool {
    pit.in_records.iter().any(|r| r.expiry > now)
}

/// Puts a changed copy in the place of an Interest; the name stays.
fn rewrite(packet: &mut Packet, info: &mut InterestInfo, change: impl FnOnce(&Interest<'_>) -> Vec<u8>) {
    let interest = Interest::decode(packet).expect("it was parsed when it came");
    let changed = Packet::copy_from(&change(&interest));
    let interest = Interest::decode(&changed).expect("one element was added or left out");
    *info = InterestInfo { is_hot: info.is_hot, ..interest_info(&interest) };
    *packet = changed;
}

/// Copies an Interest without its ForwardingHint.
fn without_forwarding_hint(interest: &Interest<'_>) -> Vec<u8> {
    let whole = Reader::new(interest.wire).next_tlv().ok().flatten().expect("it was parsed when it came");
    let mut copy = Vec::with_capacity(interest.wire.len());
    push_nested(&mut copy, types::INTEREST, |copy| {
        let mut elements = Reader::new(whole.value);
        while let Ok(Some(element)) = elements.next_tlv() {
            if element.typ != types::FORWARDING_HINT {
                copy.extend_from_slice(element.wire);
            }
        }
    });
    copy
}

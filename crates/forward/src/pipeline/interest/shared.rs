//! Interests for hot names in PIT entries that all workers share: see [`crate::hot`].
//!
//! Any worker joins Interests ([`Shard::join_shared`]). The other functions are the home's. It opens an entry after the
//! burst that made an Interest for a hot name pending. It *settles* the entry before the next packet about the name and
//! before the Interest expires: it closes the entry, and takes over what has joined.
//!
//! If the lock of an entry is taken, the packet about it waits for the next round. It also waits if a downstream that
//! joined has a face that this worker has not heard of yet. The news of that face are in the queue by then, because the
//! thread that joined the Interest had sent them before.

use std::time::Duration;

use byname_lookup::prefix::BURST_MAX;
use byname_wire::interest::HopLimit;
use byname_wire::name_hash::Digest;
use byname_wire::{NackReason, NameView};
use smallvec::SmallVec;

use crate::counters::DropReason;
use crate::crossing::{Handed, Parcel};
use crate::face_table::LinkType;
use crate::hot::{Asking, Busy, DOWNSTREAMS_MAX, Downstream, Opened, Pending, PlaceId, SharedPit, Verdict, Waiting};
use crate::packet::{InterestInfo, Parsed, lower_hop_limit, name_in};
use crate::pit_cs::InRecord;
use crate::port::{Outgoing, Received};
use crate::settings::LIFETIME_MAX;
use crate::shard::{Burst, Noted, Open, Shard, Sharing, Staged};
use crate::ticks::Ticks;

use super::Ingress;

/// After this time, the home tries again to settle an entry that is over.
const RETRY: Duration = Duration::from_millis(1);

/// Whether a packet about an entry may go its way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Settled {
    Now,
    NextRound,
}

impl Shard {
    /// Joins an Interest to the shared entry of its name, whose digest is `name`. Returns false if the Interest must go
    /// home. Then nothing has happened.
    pub(in crate::pipeline) fn join_shared(
        &mut self,
        now: Ticks,
        name: Digest,
        received: &mut Received,
        info: &InterestInfo,
        output: &mut Vec<Outgoing>,
    ) -> bool {
        let fields = &received.fields;
        let is_plain = !info.can_be_prefix
            && !info.has_forwarding_hint
            && info.nonce.is_some()
            && fields.next_hop_face_id.is_none()
            && !fields.non_discovery;
        let Some(mut sharing) = self.sharing.take_if(|_| is_plain) else { return false };
        sharing.name.clear();
        sharing.name.extend_from_slice(name_in(&received.packet, info.name).value());
        let lifetime = Duration::from_millis(info.lifetime_ms).min(LIFETIME_MAX);
        let asking = Asking {
            name: &sharing.name,
            must_be_fresh: info.must_be_fresh,
            face: received.face,
            now,
            expiry: now + lifetime,
        };
        let joins = |opened: Opened<'_>| self.join_opened(&asking, opened, received, *info);
        let outcome = sharing.shared.with(name, &asking, joins);
        self.sharing = Some(sharing);
        match outcome {
            Ok(Some(None)) => true,
            Ok(Some(Some(link_type))) => {
                self.drops.count(DropReason::Loop);
                self.refuse_received(received, link_type, NackReason::Duplicate, output);
                true
            }
            Ok(None) => false,
            Err(Busy) => {
                self.counts.spread_busy += 1;
                false
            }
        }
    }

    /// Joins an Interest to an entry that has room for it, unless the Interest is dropped. If it loops, returns the
    /// link type of its face.
    fn join_opened(
        &mut self,
        asking: &Asking<'_>,
        mut opened: Opened<'_>,
        received: &mut Received,
        mut info: InterestInfo,
    ) -> Option<LinkType> {
        let Ingress { link_type, .. } = self.accept_interest(received, &info)?;
        let nonce = info.nonce?;
        if opened.verdict(nonce, link_type == LinkType::PointToPoint) == Verdict::Loops {
            return Some(link_type);
        }
        self.counts.cs_misses += 1;
        self.counts.spread_joins += 1;
        if let Some(limit) = info.hop_limit {
            lower_hop_limit(&mut received.packet, limit);
            info.hop_limit = Some(HopLimit { value: limit.value - 1, ..limit });
        }
        let waiting = Waiting {
            face: received.face,
            nonce,
            arrived: asking.now,
            expiry: asking.expiry,
            pit_token: received.fields.pit_token,
        };
        opened.join(waiting, received.packet.take(), info);
        None
    }

    /// Settles the entries whose pending Interests would expire now.
    fn settle_due(&mut self, now: Ticks, output: &mut Vec<Outgoing>) {
        let is_due = self.wheel.next_deadline().is_some_and(|at| at <= now);
        let Some(mut sharing) = self.sharing.take_if(|sharing| is_due && !sharing.open.is_empty()) else { return };
        let due: SmallVec<[u64; 8]> =
            sharing.open.keys().copied().filter(|hash| self.is_over(now, &sharing, *hash)).collect();
        for hash in due {
            self.settle(&mut sharing, hash, output);
            let slot = sharing.open.get(&hash).and_then(|open| self.table.pending_with_hash(hash, open.must_be_fresh));
            if let Some(slot) = slot {
                self.wheel.set(slot, now + RETRY);
            }
        }
        self.sharing = Some(sharing);
    }

    /// Whether the pending Interest of an open entry has expired, or was evicted.
    fn is_over(&self, now: Ticks, sharing: &Sharing, hash: u64) -> bool {
        let open = sharing.open.get(&hash);
        let slot = open.and_then(|open| self.table.pending_with_hash(hash, open.must_be_fresh));
        slot.and_then(|slot| self.table.slot(slot).pit()).is_none_or(|pit| pit.expiry <= now)
    }

    /// Settles all open entries whose locks are free.
    pub(crate) fn settle_all(&mut self, output: &mut Vec<Outgoing>) {
        let Some(mut sharing) = self.sharing.take() else { return };
        let open: Vec<u64> = sharing.open.keys().copied().collect();
        for hash in open {
            self.settle(&mut sharing, hash, output);
        }
        self.sharing = Some(sharing);
    }

    /// Settles the entries that packets of this burst are about, before the burst is handled. Packets that must wait
    /// for the next round leave the burst.
    pub(crate) fn settle_burst(&mut self, burst: &mut Burst<'_>, output: &mut Vec<Outgoing>) {
        let Some(room) = self.sharing.as_ref().map(|sharing| Sharing::room(sharing.open.len())) else { return };
        if room > 0 && self.table.may_fill_up(self.parsed.len() + room) {
            // A full PIT evicts entries by its fair shares, and all downstreams must count for these.
            self.settle_all(output);
        }
        let Some(mut sharing) = self.sharing.take() else { return };
        let mut i = 0;
        while i < self.parsed.len() {
            let hash = self.wanted[i].hash;
            let was_open = sharing.open.contains_key(&hash);
            if sharing.must_wait(hash) || was_open && self.settle(&mut sharing, hash, output) == Settled::NextRound {
                let Staged { at, parsed, .. } = self.parsed.remove(i);
                self.wanted.remove(i);
                let handed = Handed::new(burst.packet_mut(at), &parsed);
                sharing.postponed.push((hash, handed.into()));
                continue;
            }
            if let Staged { at, place, parsed: Parsed::Interest(info) } = &self.parsed[i]
                && (info.is_hot || was_open)
                && !info.can_be_prefix
            {
                let name = NameView::from_filled(name_in(&burst.packet(*at).packet, info.name), &self.hashes[*place]);
                let name = name.digest(name.len());
                sharing.noted.push(Noted { name, must_be_fresh: info.must_be_fresh });
            }
            i += 1;
        }
        self.sharing = Some(sharing);
    }

    /// Begins a round: adds the packets that have waited for it before `parcels`, and settles what is over.
    pub(crate) fn begin_sharing(&mut self, now: Ticks, parcels: &mut Vec<Parcel>, output: &mut Vec<Outgoing>) {
        let Some(sharing) = &mut self.sharing else { return };
        sharing.unheard.clear();
        if !sharing.postponed.is_empty() {
            parcels.splice(..0, sharing.postponed.drain(..).map(|(_, parcel)| parcel));
        }
        if std::mem::take(&mut sharing.settles_all) {
            self.settle_all(output);
        }
        self.settle_due(now, output);
    }

    /// Settles all entries in the next round: settings have changed that decided what may join.
    pub(crate) fn settle_soon(&mut self) {
        if let Some(sharing) = &mut self.sharing {
            sharing.settles_all = true;
        }
    }

    /// Whether packets wait for the next round.
    pub(crate) fn has_postponed(&self) -> bool {
        self.sharing.as_ref().is_some_and(|sharing| !sharing.postponed.is_empty())
    }

    /// Closes an entry, and adds what has joined it to the pending Interest.
    fn settle(&mut self, sharing: &mut Sharing, hash: u64, output: &mut Vec<Outgoing>) -> Settled {
        let Some(Open { place, must_be_fresh }) = sharing.open.get(&hash).copied() else { return Settled::Now };
        if sharing.shared.close(place, &mut sharing.joined) == Err(Busy) {
            self.counts.spread_busy += 1;
            return Settled::NextRound;
        }
        sharing.open.remove(&hash);
        let Some((packet, info)) = sharing.joined.latest.take() else { return Settled::Now };
        let slot = self
            .table
            .pending_with_hash(hash, must_be_fresh)
            .filter(|slot| self.table.slot(*slot).name_bytes() == name_in(&packet, info.name).value());
        let is_unheard = |waiting: &Waiting| !self.faces.contains_key(&waiting.face);
        let settled = if sharing.joined.waiting.iter().any(is_unheard) {
            sharing.unheard.push(hash);
            Settled::NextRound
        } else {
            Settled::Now
        };
        for Waiting { face, nonce, arrived, expiry, pit_token } in sharing.joined.waiting.drain(..) {
            let pit = slot.and_then(|slot| Some((slot, self.table.slot(slot).pit()?)));
            let Some((slot, pit)) = pit else {
                // A full PIT has evicted the pending Interest while the lock was taken.
                self.drops.count(DropReason::PitFull);
                continue;
            };
            let source = self.faces.get(&face).map_or(pit.source, |face| face.source);
            let record = InRecord { face, nonce, arrived, expiry, pit_token };
            if !self.add_downstream(slot, record, source, output) {
                self.drops.count(DropReason::TooManyDownstreams);
                self.refuse_downstream(slot, (face, nonce, pit_token), NackReason::Congestion, output);
            }
        }
        if let Some(slot) = slot {
            self.renew_pending(slot, packet, &info);
        }
        settled
    }

    /// Opens entries for the hot names whose Interests became pending in this burst, or are pending still.
    pub(crate) fn share_pending(&mut self, now: Ticks) {
        let Some(mut sharing) = self.sharing.take_if(|sharing| !sharing.noted.is_empty()) else { return };
        for Noted { name, must_be_fresh } in std::mem::take(&mut sharing.noted) {
            let room = BURST_MAX + Sharing::room(sharing.open.len() + 1);
            if sharing.open.contains_key(&name.hash) || self.table.may_fill_up(room) {
                continue;
            }
            if let Some(place) = self.open_shared(now, &sharing.shared, name, must_be_fresh) {
                sharing.open.insert(name.hash, Open { place, must_be_fresh });
            }
        }
        self.sharing = Some(sharing);
    }

    fn open_shared(&mut self, now: Ticks, shared: &SharedPit, name: Digest, must_be_fresh: bool) -> Option<PlaceId> {
        let slot = self.table.pending_with_hash(name.hash, must_be_fresh)?;
        let pit = self.table.slot(slot).pit()?;
        let follows_routes = !pit.directed && !pit.non_discovery && !pit.wants_announcement;
        let quiet_until = self.strategies.strategy(usize::from(pit.strategy)).quiet_until(pit)?;
        let is_open_to_others =
            follows_routes && quiet_until.min(pit.expiry) > now && pit.in_records.len() < DOWNSTREAMS_MAX;
        // Such Data answers others than this Interest.
        if !is_open_to_others || !must_be_fresh && self.table.has_data_with_hash(name.hash) {
            return None;
        }
        let slot = self.table.slot(slot);
        let pit = slot.pit()?;
        let pending = Pending { name: slot.name_bytes(), must_be_fresh, quiet_until, expiry: pit.expiry };
        let downstream = |r: &InRecord| Downstream { face: r.face, nonce: r.nonce, expiry: r.expiry };
        let downstreams = pit.in_records.iter().map(downstream);
        shared.open(name, &pending, downstreams, pit.out_records.iter().map(|r| r.nonce))
    }
}

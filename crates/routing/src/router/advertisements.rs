//! Advertisements: what this router tells its neighbours, and what they tell.

use byname_wire::interest::Interest;
use byname_wire::{FaceId, Name};

use crate::config::is_router_of;
use crate::fetcher::Purpose;
use crate::ids::{RouterId, SELF};
use crate::names;
use crate::neighbours::{Tale, Told};
use crate::note::Note;
use crate::objects::Kind;
use crate::rib;
use crate::tlv::{self, AdvEntry, SeqNoEntry};

use super::checks::Check;
use super::{MS_MAX, NEIGHBOURS, Router};

/// Lifetime of sync Interests, which nobody answers.
const SYNC_LIFETIME_MS: u64 = 1_000;
/// A start may not be later than this, compared with the clock [State Vector Sync v3].
pub(super) const FUTURE_SECONDS: u64 = 86_400;
/// What failed is fetched again after this time.
const RETRY_MS: u64 = 1_000;

impl Router {
    /// The advertisement may have changed: make a new one soon.
    pub(super) fn advertise_soon(&mut self) {
        let at = self.now_ms().saturating_add(self.config.timing.advertise_delay.as_millis() as u64);
        self.advertise_ms = self.advertise_ms.min(at);
    }

    pub(super) fn advertise(&mut self) {
        self.advertise_ms = MS_MAX;
        let routers = &self.routers;
        let content = tlv::encode_advertisement(routers.iter().filter_map(|(id, known)| {
            let best = known.best?;
            Some((routers.name(id), routers.name(best.nexthop), best.cost, best.other_cost))
        }));
        self.publish_advertisement(content);
    }

    pub(super) fn publish_advertisement(&mut self, content: Vec<u8>) {
        self.advertisement_seq += 1;
        self.counters.advertisements_out += 1;
        let base = names::advertisement(self.config.router.as_ref(), self.config.boot, self.advertisement_seq);
        self.objects.insert(Kind::Advertisement, base, content, self.config.timing.snapshot_every);
        self.send_advertisement_syncs(None);
    }

    /// Says which advertisement is the last: on one face, or on all.
    pub(super) fn send_advertisement_syncs(&mut self, only: Option<FaceId>) {
        let active = self.active_faces();
        let mut passive: Vec<FaceId> =
            self.neighbours.values().flat_map(|neighbour| &neighbour.links).map(|link| link.face).collect();
        passive.sort_unstable();
        passive.dedup();
        passive.retain(|face| !active.contains(face));
        if only.is_none() {
            let period_ms = self.config.timing.advertise.as_millis() as u64;
            self.heartbeat_ms = self.now_ms() + period_ms;
        }
        if self.advertisement_seq == 0 {
            return;
        }
        let mut entries = Vec::new();
        let start = SeqNoEntry { boot: self.config.boot, seq: self.advertisement_seq };
        tlv::push_state_entry(&mut entries, self.config.router.as_ref(), [start]);
        let content = tlv::encode_state_vector(&entries);
        let Some(data) = self.sign(self.names.own_sync_data(), content) else { return };
        for (faces, name) in [(active, self.names.sync_active.clone()), (passive, self.names.sync_passive.clone())] {
            for face in faces.into_iter().filter(|face| only.is_none_or(|only| only == *face)) {
                self.counters.advertisement_syncs_out += 1;
                self.send_to_neighbours(name.clone(), &data, face, SYNC_LIFETIME_MS);
            }
        }
    }

    pub(super) fn on_advertisement_sync(&mut self, interest: &Interest<'_>, face: FaceId, is_active: bool) {
        let Some(data) = self.inner_data(interest, face, NEIGHBOURS) else { return };
        let vector = tlv::decode_state_vector(data.content).unwrap_or_default();
        // A router speaks only for itself.
        let [(router, start)] = vector[..] else { return self.malformed() };
        let sender = names::sender_of_sync(data.name);
        if sender.as_ref().map(Name::as_ref) != Some(router) || !is_router_of(self.config.network.as_ref(), router) {
            return self.malformed();
        }
        if router == self.config.router.as_ref() {
            return;
        }
        if start.boot > self.clock.unix_seconds().saturating_add(FUTURE_SECONDS) {
            self.counters.replayed += 1;
            return;
        }
        let check =
            Check::AdvertisementSync { router: router.to_name(), face, is_active, boot: start.boot, seq: start.seq };
        self.check(check, &data, Some(face), NEIGHBOURS);
    }

    /// Fetches advertisements that are due, and drops what was only kept for restarts.
    pub(super) fn poll_neighbours(&mut self) {
        let now_ms = self.now_ms();
        let ids: Vec<RouterId> = self.neighbours.keys().copied().collect();
        for id in ids {
            let Some(neighbour) = self.neighbours.get_mut(&id) else { continue };
            if !neighbour.stale.is_empty() && now_ms >= neighbour.stale_until_ms {
                let stale = std::mem::take(&mut neighbour.stale);
                self.dirty_routers.extend(stale.into_keys());
            }
            if neighbour.fetch_ms.is_none_or(|at| at > now_ms) {
                continue;
            }
            neighbour.fetch_ms = None;
            let ((boot, seq), face) = (neighbour.claimed, neighbour.face());
            let is_other = |purpose: &Purpose| match purpose {
                Purpose::Advertisement { router, boot: other, seq: number } => {
                    *router == id && (*other, *number) != (boot, seq)
                }
                _ => false,
            };
            self.fetcher.cancel(is_other);
            let base = names::advertisement(self.routers.name(id), boot, seq);
            let bytes_max = self.config.limits.advertisement_bytes;
            self.fetcher.start(Purpose::Advertisement { router: id, boot, seq }, base, face, bytes_max, false);
        }
    }

    pub(super) fn on_advertisement(&mut self, id: RouterId, which: (u64, u64), content: Option<Vec<u8>>) {
        let now_ms = self.now_ms();
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return };
        if neighbour.claimed != which {
            return;
        }
        let Some(content) = content else {
            self.counters.fetches_failed += 1;
            neighbour.fetch_ms = Some(now_ms + RETRY_MS);
            return;
        };
        match tlv::decode_advertisement(&content, self.config.limits.routers + 1) {
            Ok(entries) => self.apply_advertisement(id, which, &entries),
            Err(_) => self.malformed(),
        }
    }

    fn apply_advertisement(&mut self, id: RouterId, which: (u64, u64), entries: &[AdvEntry<'_>]) {
        self.counters.advertisements_in += 1;
        let mut told = Tale::of(self.routers.len());
        let mut over = 0;
        let now_ms = self.now_ms();
        let mut room = self.room_for_routers(id);
        for entry in entries {
            let is_next_hop = entry.next_hop == self.config.router.as_ref();
            let Some(cost) = rib::told_cost(is_next_hop, entry.cost, entry.other_cost) else { continue };
            let router = match self.routers.find(entry.destination) {
                Some(router) => {
                    // Whoever comes after it in this advertisement must not take its place.
                    self.routers.get_mut(router).unreachable_since_ms = now_ms;
                    router
                }
                None if room == 0 => {
                    over += 1;
                    continue;
                }
                None => {
                    room -= 1;
                    let Some(router) = self.admit_router(entry.destination, Some(id)) else { continue };
                    router
                }
            };
            if router != SELF {
                // Its entry for itself is no link. One through this router tells of another way.
                let is_linked = router != id && entry.next_hop == entry.destination;
                told.insert(router, Told { cost: cost as u8, is_linked });
            }
        }
        if over > 0 {
            self.counters.over_limit += over;
            self.note(Note::LimitReached { limit: "routers" });
        }
        self.use_advertisement(id, which, told);
    }

    fn use_advertisement(&mut self, id: RouterId, which: (u64, u64), told: Tale) {
        let now_ms = self.now_ms();
        let stale_ms = self.config.timing.stale_for.as_millis() as u64;
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return };
        let before = std::mem::replace(&mut neighbour.told, told);
        let is_restart = neighbour.used.is_some_and(|used| used.0 != which.0);
        neighbour.used = Some(which);
        self.dirty_routers.extend(before.differences(&neighbour.told));
        if is_restart && stale_ms > 0 {
            // It knows little yet. Its forwarder may still have the routes of its earlier run.
            neighbour.stale.extend(before.iter());
            neighbour.stale_until_ms = now_ms + stale_ms;
            self.alarms.insert((now_ms + stale_ms, id));
        }
        let told = &neighbour.told;
        neighbour.stale.retain(|router, _| told.get(*router).is_none());
    }
}

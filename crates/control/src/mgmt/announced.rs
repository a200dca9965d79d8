//! Prefix announcements whose routes are in the RIB, and routes learned from Data.
//!
//! An announcement comes with `rib/announce`. It may also come with Data, if the strategy `self-learning` flooded the
//! Interest. Its route lives for the announced time. A learned route is also removed when no Data has used it for
//! [`LEARNED_MS`], or when the nexthop reports that it has no route. Workers attach the announcements in store to Data,
//! so that other hosts can learn from them.
//!
//! Limits: announcements in total and per face; verified announcements from Data per second, in total and per face.
//! Beyond a limit, announcements are refused and counted. Existing routes stay.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use byname_forward::FaceId;
use byname_forward::face_table::FaceMap;
use byname_forward::learning::{Notice, Taught};
use byname_forward::tables::Announcements;
use byname_wire::{Data, Name, NameRef};

use super::announcement::Announcement;
use super::execute::{ANNOUNCED_COST, deadline};
use super::news::Change;
use super::tlv::{origin, route_flags};
use super::{Management, Moment};
use crate::rib::Route;
use byname_trust::validator::Outcome;

/// Lifetime of a learned route after Data has used it, as in NFD.
const LEARNED_MS: u64 = 600_000;
/// Most announcements by default.
pub const ANNOUNCEMENTS_MAX: usize = 4096;
/// One face may have this fraction of all announcements: an eighth.
const FACE_PART: usize = 8;
/// Rate limits for verifying announcements that come with Data: per face and in total.
const OF_FACE: Limit = Limit { per_second: 10, burst: 50 };
const IN_ALL: Limit = Limit { per_second: 200, burst: 400 };

/// Outcomes of the announcements that came with Data, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LearningCounters {
    /// Routes created, or renewed by another announcement.
    pub learned: u64,
    /// Announcements refused: malformed, without rights for a route, or not for a prefix of the Data's name.
    pub refused: u64,
    /// Announcements that exceeded a limit.
    pub limited: u64,
    /// Routes removed because their nexthop has no route.
    pub withdrawn: u64,
}

impl LearningCounters {
    /// All counters, with their metric labels.
    pub fn all(&self) -> [(&'static str, u64); 4] {
        let LearningCounters { learned, refused, limited, withdrawn } = *self;
        [("learned", learned), ("refused", refused), ("limited", limited), ("withdrawn", withdrawn)]
    }
}

/// An announcement whose route is in the RIB.
struct Kept {
    /// The Data packet.
    packet: Arc<[u8]>,
    /// End of its validity. `None`: unlimited.
    valid_until_ms: Option<u64>,
    /// When its route expires. `None`: never.
    expires_at_ms: Option<u64>,
    /// Whether it came with Data.
    is_learned: bool,
}

/// All announcements whose routes are in the RIB.
pub(super) struct Announced {
    kept: BTreeMap<(Name, FaceId), Kept>,
    deadlines: BTreeSet<(u64, Name, FaceId)>,
    of_face: FaceMap<usize>,
    rates: FaceMap<Rate>,
    rate: Rate,
    max: usize,
    changed: bool,
    pub counters: LearningCounters,
}

impl Announced {
    /// An empty store for at most `max` announcements.
    pub fn new(max: usize) -> Self {
        Announced {
            kept: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            of_face: FaceMap::default(),
            rates: FaceMap::default(),
            rate: Rate::default(),
            max,
            changed: false,
            counters: LearningCounters::default(),
        }
    }

    /// Changes the limit. Announcements beyond it stay.
    pub fn limit(&mut self, max: usize) {
        self.max = max;
    }

    /// Number of announcements.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// When the next announcement expires.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.deadlines.first().map(|(at, ..)| *at)
    }

    /// Removes expired announcements. Their routes expire by themselves.
    pub fn expire(&mut self, now_ms: u64) {
        while let Some((at, prefix, face)) = self.deadlines.pop_first() {
            if at > now_ms {
                self.deadlines.insert((at, prefix, face));
                return;
            }
            self.forget(prefix, face);
        }
    }

    /// Removes the announcements of a removed face.
    pub fn forget_face(&mut self, face: FaceId) {
        self.rates.remove(&face);
        if self.of_face.contains_key(&face) {
            let of_face: Vec<Name> =
                self.kept.keys().filter(|(_, f)| *f == face).map(|(name, _)| name.clone()).collect();
            of_face.into_iter().for_each(|prefix| self.forget(prefix, face));
        }
    }

    /// Removes one announcement.
    pub fn forget(&mut self, prefix: Name, face: FaceId) {
        let key = (prefix, face);
        let Some(kept) = self.kept.remove(&key) else { return };
        let (prefix, _) = key;
        if let Some(at) = kept.expires_at_ms {
            self.deadlines.remove(&(at, prefix, face));
        }
        if let Some(count) = self.of_face.get_mut(&face) {
            *count -= 1;
            if *count == 0 {
                self.of_face.remove(&face);
            }
        }
        self.changed = true;
    }

    /// The announcements that workers attach to Data, if they have changed since the last call.
    pub fn take_changed(&mut self) -> Option<Announcements> {
        let all = self.kept.iter().map(|((prefix, _), kept)| (prefix.clone(), Arc::clone(&kept.packet)));
        std::mem::take(&mut self.changed).then(|| Announcements::new(all))
    }

    /// Whether the face may have another announcement, or already has this one.
    fn has_room(&self, prefix: &Name, face: FaceId) -> bool {
        let of_face = self.of_face.get(&face).copied().unwrap_or(0);
        let has_room = self.kept.len() < self.max && of_face < self.max.div_ceil(FACE_PART);
        has_room || self.kept.contains_key(&(prefix.clone(), face))
    }

    fn keep(&mut self, prefix: Name, face: FaceId, kept: Kept) {
        self.forget(prefix.clone(), face);
        if let Some(at) = kept.expires_at_ms {
            self.deadlines.insert((at, prefix.clone(), face));
        }
        *self.of_face.entry(face).or_default() += 1;
        self.kept.insert((prefix, face), kept);
        self.changed = true;
    }

    /// Changes the time at which an announcement expires.
    fn extend(&mut self, prefix: Name, face: FaceId, expires_at_ms: u64) {
        let key = (prefix, face);
        let Some(kept) = self.kept.get_mut(&key) else { return };
        let before = kept.expires_at_ms.replace(expires_at_ms);
        let (prefix, face) = key;
        if let Some(before) = before {
            self.deadlines.remove(&(before, prefix.clone(), face));
        }
        self.deadlines.insert((expires_at_ms, prefix, face));
    }

    /// The learned announcement from this face with the longest prefix of a name.
    fn learned(&self, name: NameRef<'_>, face: FaceId) -> Option<(Name, &Kept)> {
        self.of_face.get(&face)?;
        (0..=name.len()).rev().find_map(|depth| {
            let key = (name.prefix(depth).to_name(), face);
            let kept = self.kept.get(&key).filter(|kept| kept.is_learned)?;
            Some((key.0, kept))
        })
    }

    /// Takes a token for verifying an announcement from a face. Returns false if there is none.
    fn may_verify(&mut self, face: FaceId, now_ms: u64) -> bool {
        self.rates.entry(face).or_default().takes(OF_FACE, now_ms) && self.rate.takes(IN_ALL, now_ms)
    }
}

/// Rate and size of a token bucket.
#[derive(Clone, Copy)]
struct Limit {
    per_second: u64,
    burst: u64,
}

/// A token bucket, represented by the time at which it is full again.
#[derive(Default)]
struct Rate {
    full_at_ms: u64,
}

impl Rate {
    fn takes(&mut self, limit: Limit, now_ms: u64) -> bool {
        let one_ms = 1000 / limit.per_second;
        let full_at_ms = self.full_at_ms.max(now_ms) + one_ms;
        let takes = full_at_ms <= now_ms + limit.burst * one_ms;
        if takes {
            self.full_at_ms = full_at_ms;
        }
        takes
    }
}

impl Management {
    /// Handles a worker's notice about a route.
    pub fn notice(&mut self, notice: &Notice, now: Moment) {
        match notice.taught {
            Taught::Announced => self.learn(notice, None, now),
            Taught::Answered => self.renew(notice.name.as_ref(), notice.face, now),
            Taught::Refused => {
                if let Some((prefix, _)) = self.announced.learned(notice.name.as_ref(), notice.face) {
                    self.rib.unregister(&mut self.fib, prefix.as_ref(), notice.face, origin::PREFIX_ANNOUNCEMENT);
                    self.news.count(Change::RouteRemoved, 1);
                    self.announced.forget(prefix, notice.face);
                    self.announced.counters.withdrawn += 1;
                }
            }
        }
    }

    /// Creates or renews the route of a verified announcement.
    pub(super) fn announce(
        &mut self,
        announcement: &Announcement<'_>,
        face: FaceId,
        is_learned: bool,
        now: Moment,
    ) -> Result<(Route, u64), crate::rib::RibError> {
        let valid_ms = announcement.lifetime_ms(now.unix_ms);
        let lifetime_ms = if is_learned { valid_ms.min(LEARNED_MS) } else { valid_ms };
        let route = Route {
            face,
            origin: origin::PREFIX_ANNOUNCEMENT,
            cost: ANNOUNCED_COST,
            flags: route_flags::CHILD_INHERIT,
            expires_at_ms: deadline(Some(lifetime_ms), now),
        };
        let is_new = !self.rib.has_route(announcement.prefix, &route);
        self.rib.register(&mut self.fib, announcement.prefix, &route)?;
        if is_new {
            self.tell_added(announcement.prefix, &route);
        }
        let prefix = announcement.prefix.to_name();
        if self.announced.has_room(&prefix, face) {
            let kept = Kept {
                packet: announcement.data.wire.into(),
                valid_until_ms: deadline(Some(valid_ms), now),
                expires_at_ms: route.expires_at_ms,
                is_learned,
            };
            self.announced.keep(prefix, face, kept);
        }
        Ok((route, lifetime_ms))
    }

    /// Makes the route of an announcement that came with Data. `chain` is what is known of its signer's chain after it
    /// had to wait for certificates.
    pub(super) fn learn(&mut self, notice: &Notice, chain: Option<Outcome>, now: Moment) {
        let face = notice.face;
        let data = notice.announcement.as_deref().and_then(|packet| Data::decode(packet).ok());
        let announcement = data.and_then(|data| Announcement::of(data).ok());
        let named_so = announcement.filter(|a| a.prefix.is_prefix_of(&notice.name.as_ref()));
        let Some(announcement) = named_so.filter(|a| a.lifetime_ms(now.unix_ms) > 0) else {
            self.announced.counters.refused += 1;
            return;
        };
        let prefix = announcement.prefix.to_name();
        let known = self.announced.kept.get(&(prefix.clone(), face));
        if known.is_some_and(|kept| *kept.packet == *announcement.data.wire) {
            return self.renew(announcement.prefix, face, now);
        }
        let may_verify = chain.is_some() || self.announced.may_verify(face, now.ms);
        if !self.announced.has_room(&prefix, face) || !may_verify {
            self.announced.counters.limited += 1;
            return;
        }
        let (scope, data) = (self.scope_of(face), &announcement.data);
        let chain = match chain {
            Some(outcome) => Some(outcome),
            None => match self.authorizer.chain_of_announcement(data, scope, face, now).outcome() {
                Ok(chain) => chain,
                Err(id) => return self.waiting.park_notice(id, notice),
            },
        };
        let authorized = self.authorizer.authorize_announcement(data, scope, now.unix_ms, chain.as_ref());
        let may = authorized.and_then(|signer| self.check_route(announcement.prefix, face, &signer, face));
        if may.is_err() || !self.face_exists(face) {
            self.announced.counters.refused += 1;
            return;
        }
        match self.announce(&announcement, face, true, now) {
            Ok(_) => self.announced.counters.learned += 1,
            Err(_) => self.announced.counters.limited += 1,
        }
    }

    /// Data has used a learned route: extends its lifetime, at most to the end of its announcement's validity.
    fn renew(&mut self, name: NameRef<'_>, face: FaceId, now: Moment) {
        let Some((prefix, kept)) = self.announced.learned(name, face) else { return };
        let expires_at_ms = kept.valid_until_ms.unwrap_or(u64::MAX).min(now.ms + LEARNED_MS);
        let route = Route {
            face,
            origin: origin::PREFIX_ANNOUNCEMENT,
            cost: ANNOUNCED_COST,
            flags: route_flags::CHILD_INHERIT,
            expires_at_ms: Some(expires_at_ms),
        };
        // This replaces an existing route, so it needs no more room.
        if self.rib.register(&mut self.fib, prefix.as_ref(), &route).is_ok() {
            self.announced.extend(prefix, face, expires_at_ms);
        }
    }
}

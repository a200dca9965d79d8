//! Publications of prefixes: this router's, and those of others.

use std::collections::BTreeSet;

use byname_trust::Rights;
use byname_wire::name::component_type::VERSION;
use byname_wire::{Name, NameRef};

use crate::config::Config;
use crate::fetcher::Purpose;
use crate::ids::{PrefixId, RouterId, SELF};
use crate::names;
use crate::note::Note;
use crate::objects::Kind;
use crate::publisher::{Applied, Step};
use crate::tlv::{self, PrefixOp};

use super::routes::PREFIX_INFINITY;
use super::{MS_MAX, Router};

/// Bytes of changes in one publication: it fits into one segment.
const PUBLICATION_BYTES: usize = 6_000;
/// Most prefixes of one router that are remembered because it may not announce them.
const OUTSIDE_MAX: usize = 64;

impl Router {
    /// Prefixes of this host have changed: publish that soon.
    pub(super) fn publish_soon(&mut self) {
        let at = self.now_ms().saturating_add(self.config.timing.publish_delay.as_millis() as u64);
        self.publish_ms = self.publish_ms.min(at);
    }

    /// Tells the network that this router has started, and announces nothing yet.
    pub(super) fn publish_start(&mut self) {
        self.publish_ms = MS_MAX;
        self.publish(true, &[], &[]);
        self.publish_snapshot();
    }

    pub(super) fn publish_reset(&mut self) {
        self.publish(true, &[], &[]);
        self.send_prefix_sync(None);
    }

    pub(super) fn publish_changes(&mut self) {
        self.publish_ms = MS_MAX;
        let (additions, removals, denied) = self.local.take_changes(|prefix| {
            let Config { policy, rights, router, .. } = &self.config;
            policy.announces(prefix).permits() && may_announce(rights, router.as_ref(), prefix)
        });
        self.counters.denied += denied;
        let mut additions = &additions[..];
        let mut removals = &removals[..];
        while !additions.is_empty() || !removals.is_empty() {
            let now;
            (now, additions) = additions.split_at(fitting(additions.iter().map(|(name, _)| name)));
            let gone;
            (gone, removals) = match additions.is_empty() {
                true => removals.split_at(fitting(removals)),
                false => (&[][..], removals),
            };
            self.publish(false, now, gone);
        }
        if self.publication_seq >= self.snapshot_seq + self.config.timing.snapshot_every {
            self.publish_snapshot();
        }
    }

    fn publish(&mut self, reset: bool, additions: &[(Name, u64)], removals: &[Name]) {
        let router = self.config.router.as_ref();
        let content = tlv::encode_prefix_ops(
            &*self.version,
            router,
            reset,
            additions.iter().map(|(name, cost)| (name.as_ref(), *cost)),
            removals.iter().map(Name::as_ref),
        );
        self.publication_seq += 1;
        self.counters.publications_out += 1;
        let base = self.names.publication(router, self.config.boot, self.publication_seq);
        self.objects.insert(Kind::Publication, base, content, self.config.timing.snapshot_every);
        let now_ms = self.now_ms();
        self.sync_timer.hasten(now_ms);
    }

    fn publish_snapshot(&mut self) {
        let router = self.config.router.as_ref();
        let told = self.local.all_told().map(|(name, cost)| (name.as_ref(), cost));
        let content = tlv::encode_prefix_ops(&*self.version, router, true, told, []);
        self.snapshot_seq = self.publication_seq;
        self.counters.snapshots_out += 1;
        let base = names::versioned(&self.names.snapshots(router, self.config.boot), self.snapshot_seq);
        self.objects.insert(Kind::Snapshot, base, content, self.config.timing.snapshot_every);
    }

    /// Fetches what a router has published, if it is reachable.
    pub(super) fn fetch_publications(&mut self, id: RouterId) {
        let now_ms = self.now_ms();
        let bytes_max = self.config.limits.publication_bytes;
        let snapshot_every = self.config.timing.snapshot_every;
        let known = self.routers.get_mut(id);
        if known.best.is_none() || id == SELF {
            return;
        }
        let router = Name::clone(&known.name);
        for step in known.publisher.steps(snapshot_every, now_ms) {
            let (purpose, base) = match step {
                Step::FindSnapshot { boot } => {
                    let snapshots = self.names.snapshots(router.as_ref(), boot);
                    (Purpose::Metadata { router: id, boot }, names::metadata(snapshots.as_ref()))
                }
                Step::Fetch { boot, seq } => {
                    (Purpose::Publication { router: id, boot, seq }, self.names.publication(router.as_ref(), boot, seq))
                }
            };
            let is_claim = self.routers.get(id).publisher.is_claim(purpose.boot());
            self.fetcher.start(purpose, base, None, bytes_max, is_claim);
        }
        if let Some(at) = self.routers.get(id).publisher.retry_ms(now_ms) {
            self.alarms.insert((at, id));
        }
    }

    /// Something that was fetched is there, or could not be fetched.
    pub(super) fn on_fetched(&mut self, purpose: Purpose, content: Option<Vec<u8>>) {
        let now_ms = self.now_ms();
        let id = purpose.router();
        if let Purpose::Advertisement { boot, seq, .. } = purpose {
            return self.on_advertisement(id, (boot, seq), content);
        }
        self.counters.fetches_failed += u64::from(content.is_none());
        // A snapshot may be newer than what others have told.
        if matches!(purpose, Purpose::Snapshot { .. }) {
            self.forget_heard(id);
        }
        let publisher = &mut self.routers.get_mut(id).publisher;
        let applied = match (purpose, content) {
            (Purpose::Metadata { boot, .. }, Some(content)) => {
                self.on_metadata(id, boot, &content);
                Vec::new()
            }
            (Purpose::Snapshot { boot, version, .. }, Some(content)) => {
                self.counters.snapshots_in += 1;
                publisher.snapshot_arrived(boot, version, content).into_iter().collect()
            }
            (Purpose::Publication { boot, seq, .. }, Some(content)) => {
                self.counters.publications_in += 1;
                publisher.arrived(boot, seq, content)
            }
            (Purpose::Publication { boot, seq, .. }, None) => {
                publisher.failed(boot, Some(seq), now_ms);
                Vec::new()
            }
            (Purpose::Metadata { boot, .. } | Purpose::Snapshot { boot, .. }, None) => {
                publisher.failed(boot, None, now_ms);
                Vec::new()
            }
            (Purpose::Advertisement { .. }, _) => Vec::new(),
        };
        applied.into_iter().for_each(|applied| self.apply(id, &applied));
        self.fetch_publications(id);
    }

    fn on_metadata(&mut self, id: RouterId, boot: u64, content: &[u8]) {
        let now_ms = self.now_ms();
        let snapshots = self.names.snapshots(self.routers.name(id), boot);
        let version = tlv::decode_metadata(content).ok().and_then(|name| {
            let is_right = names::without_last(name.as_ref(), 1) == snapshots.as_ref();
            names::last_number(name.as_ref(), VERSION).filter(|_| is_right)
        });
        let publisher = &mut self.routers.get_mut(id).publisher;
        match version {
            Some(version) if publisher.found(boot, version) => {
                let purpose = Purpose::Snapshot { router: id, boot, version };
                let bytes_max = self.config.limits.publication_bytes;
                self.fetcher.start(purpose, names::versioned(&snapshots, version), None, bytes_max, false);
            }
            // An earlier snapshot than what is known: the next try fetches publications.
            Some(_) => publisher.failed(boot, None, now_ms),
            None => {
                publisher.failed(boot, None, now_ms);
                self.malformed();
            }
        }
    }

    /// Takes over what a router has published.
    fn apply(&mut self, id: RouterId, applied: &Applied) {
        let mut ops = Vec::new();
        let decoded = tlv::decode_prefix_ops(&*self.version, &applied.content, |op| ops.push(op));
        // A router publishes only what it serves itself.
        if decoded.as_ref() != Ok(self.routers.get(id).name.as_ref()) {
            return self.malformed();
        }
        if applied.is_new_start {
            self.keep_as_stale(id, applied.boot);
        }
        let mut gone: BTreeSet<PrefixId> = BTreeSet::new();
        let (mut refused, mut outside) = (0, 0);
        for op in ops {
            match op {
                PrefixOp::Reset => {
                    let known = self.routers.get_mut(id);
                    known.outside.clear();
                    gone.append(&mut known.prefixes.clone());
                }
                PrefixOp::Add(prefix, _) if !self.may_announce(id, &prefix) => {
                    outside += 1;
                    // Perhaps an earlier certificate permitted it.
                    if let Some(found) = self.prefixes.find(&prefix) {
                        gone.insert(found);
                    }
                    self.note_outside(id, prefix);
                }
                PrefixOp::Add(prefix, cost) => match self.add_prefix(id, &prefix, cost) {
                    Some(added) => drop(gone.remove(&added)),
                    None => refused += 1,
                },
                PrefixOp::Remove(prefix) => {
                    self.routers.get_mut(id).outside.remove(&prefix);
                    if let Some(found) = self.prefixes.find(&prefix) {
                        gone.remove(&found);
                        self.drop_prefix(id, found);
                    }
                }
            }
        }
        gone.into_iter().for_each(|prefix| self.drop_prefix(id, prefix));
        for (count, why) in [
            (refused, "they are reserved, or there are too many"),
            (outside, "its certificate or the trust schema does not let it announce them"),
        ] {
            if count > 0 {
                let router = self.routers.name(id).to_name();
                self.note(Note::PrefixesRefused { router, count, why: why.to_owned() });
            }
        }
    }

    /// A part of what a router publishes is trusted. These are the rights of whoever signed it.
    pub(super) fn note_rights(&mut self, purpose: Purpose, rights: Rights) {
        if !matches!(purpose, Purpose::Advertisement { .. }) {
            self.routers.get_mut(purpose.router()).rights = rights;
        }
    }

    fn may_announce(&self, id: RouterId, prefix: &Name) -> bool {
        may_announce(&self.routers.get(id).rights, self.routers.name(id), prefix.as_ref())
    }

    fn note_outside(&mut self, id: RouterId, prefix: Name) {
        self.counters.outside_rights += 1;
        let known = self.routers.get_mut(id);
        if known.outside.len() < OUTSIDE_MAX {
            known.outside.insert(prefix);
        }
    }

    /// A router has restarted. What it announced before stays for a while.
    fn keep_as_stale(&mut self, id: RouterId, boot: u64) {
        if self.make_stale(id) {
            let router = self.routers.name(id).to_name();
            self.note(Note::RouterRestarted { router, boot });
        }
    }

    /// Keeps what a router has announced for a while, in which it must announce it again. Returns whether there is
    /// something.
    fn make_stale(&mut self, id: RouterId) -> bool {
        let now_ms = self.now_ms();
        let stale_ms = self.config.timing.stale_for.as_millis() as u64;
        let known = self.routers.get_mut(id);
        if known.prefixes.is_empty() {
            return false;
        }
        let mut before = std::mem::take(&mut known.prefixes);
        known.stale.append(&mut before);
        known.stale_until_ms = now_ms.saturating_add(stale_ms);
        self.alarms.insert((known.stale_until_ms, id));
        true
    }

    /// Fetches again what routers have announced: others are trusted now.
    pub(super) fn recheck_publications(&mut self) {
        let is_publication = |purpose: &Purpose| !matches!(purpose, Purpose::Advertisement { .. });
        self.fetcher.cancel(is_publication);
        for id in self.routers.ids().into_iter().filter(|id| *id != SELF) {
            self.make_stale(id);
            self.routers.get_mut(id).publisher.begin_anew();
            self.fetch_publications(id);
        }
    }

    fn add_prefix(&mut self, id: RouterId, prefix: &Name, cost: u64) -> Option<PrefixId> {
        if self.names.is_reserved(prefix.as_ref()) || cost >= PREFIX_INFINITY {
            self.counters.denied += 1;
            return None;
        }
        let limits = &self.config.limits;
        let known = self.routers.get(id);
        let of_router = known.prefixes.len() + known.stale.len();
        let is_announced = |found: &PrefixId| known.prefixes.contains(found) || known.stale.contains(found);
        let found = self.prefixes.find(prefix);
        if !found.as_ref().is_some_and(is_announced) {
            // If the table is full, a router may still have its fair share.
            let fair_share = limits.prefixes / self.routers.len();
            let has_room = self.prefixes.len() < limits.prefixes || of_router < fair_share;
            if of_router >= limits.prefixes_per_router || !has_room {
                self.counters.over_limit += 1;
                return None;
            }
        }
        let added = found.unwrap_or_else(|| self.prefixes.insert(prefix));
        if !self.config.policy.accepts(prefix.as_ref(), self.routers.name(id)).permits() {
            self.counters.denied += 1;
        }
        if self.prefixes.set_exit(added, id, cost) {
            self.dirty_prefixes.insert(added);
        }
        let known = self.routers.get_mut(id);
        known.stale.remove(&added);
        known.prefixes.insert(added);
        Some(added)
    }

    fn drop_prefix(&mut self, id: RouterId, prefix: PrefixId) {
        let known = self.routers.get_mut(id);
        if known.prefixes.remove(&prefix) | known.stale.remove(&prefix) {
            self.withdraw_exit(prefix, id);
        }
    }

    /// Does what is due for single routers.
    pub(super) fn poll_alarms(&mut self) {
        let now_ms = self.now_ms();
        while let Some((_, id)) = self.alarms.first().copied().filter(|(at, _)| *at <= now_ms) {
            self.alarms.pop_first();
            let known = self.routers.get_mut(id);
            if !known.stale.is_empty() && now_ms >= known.stale_until_ms {
                let stale = std::mem::take(&mut known.stale);
                for prefix in stale {
                    self.withdraw_exit(prefix, id);
                }
            }
            self.fetch_publications(id);
        }
    }
}

/// Whether a router with these rights may announce a prefix. It may always announce its own name.
pub(super) fn may_announce(rights: &Rights, router: NameRef<'_>, prefix: NameRef<'_>) -> bool {
    router.is_prefix_of(&prefix) || rights.permits(prefix)
}

/// How many of these names fit into one publication: at least one.
fn fitting<'a>(names: impl IntoIterator<Item = &'a Name>) -> usize {
    // A name's types and lengths, and its cost.
    const OVERHEAD: usize = 20;
    let mut bytes = 0;
    let mut count = 0;
    for name in names {
        bytes += name.value().len() + OVERHEAD;
        if bytes > PUBLICATION_BYTES && count > 0 {
            break;
        }
        count += 1;
    }
    count
}

//! Prefix sync: which publications exist in the network [State Vector Sync v3].

use std::hash::BuildHasher;

use byname_wire::interest::{Interest, InterestBuilder};
use byname_wire::{FaceId, Name};

use crate::action::Action;
use crate::ids::{RouterId, SELF};
use crate::routers::Known;
use crate::sync::{Found, VECTOR_BYTES_MAX};
use crate::tlv;

use super::advertisements::FUTURE_SECONDS;
use super::checks::Check;
use super::packets::HOPS_TO_NEIGHBOUR;
use super::{NETWORK, Router};

/// Lifetime of sync Interests, which nobody answers.
const LIFETIME_MS: u64 = 1_000;
/// Parts of a large vector that are sent at once.
const PARTS_MAX: usize = 8;

impl Router {
    pub(super) fn on_prefix_sync(&mut self, interest: &Interest<'_>, face: FaceId) {
        let Some(data) = self.inner_data(interest, face, NETWORK) else { return };
        let sender = self.names.sender_of_prefix_sync(data.name);
        let vector = tlv::decode_state_vector(data.content);
        let (Some(sender), Ok(vector)) = (sender, vector) else { return self.malformed() };
        if sender == self.config.router {
            return;
        }
        let latest = self.clock.unix_seconds().saturating_add(FUTURE_SECONDS);
        if vector.iter().any(|(_, start)| start.boot > latest) {
            self.counters.replayed += 1;
            return;
        }
        let (vector, is_private) = (data.content.to_vec(), interest.hop_limit.is_some());
        self.check(Check::PrefixSync { vector, is_private }, &data, Some(face), NETWORK);
    }

    /// A vector whose signature is right. `is_private`: the others of the network have not heard it.
    pub(super) fn on_trusted_vector(&mut self, content: &[u8], is_private: bool) {
        let Ok(vector) = tlv::decode_state_vector(content) else { return self.malformed() };
        self.counters.prefix_syncs_in += 1;
        let is_whole = content.len() < VECTOR_BYTES_MAX;
        let now_ms = self.now_ms();
        let excused_ms = self.config.timing.suppression.as_millis() as u64;
        let mut found = Found { is_outdated: false, is_excused: true };
        let mut lacking = Vec::new();
        let mut news = Vec::new();
        let mut has = std::collections::BTreeSet::new();
        for starts in vector.chunk_by(|(router, _), (next, _)| router == next) {
            let hash = self.hasher.hash_one(starts);
            if let Some(id) = self.heard.get(&hash).copied().filter(|_| !is_whole) {
                for (_, start) in starts {
                    self.lacking.remove(&(id, start.boot));
                }
                continue;
            }
            let Some(id) = self.admit_router(starts[0].0, None) else { continue };
            let (mut is_news, mut is_known) = (false, id != SELF);
            for (_, start) in starts {
                if is_whole {
                    has.insert((id, start.boot));
                }
                let known = self.known_seq(id, start.boot);
                is_known &= start.seq == known;
                if start.seq < known {
                    found.is_outdated = true;
                    let grown_ms = self.routers.get(id).publisher.grown_ms(start.boot);
                    found.is_excused &= id != SELF && now_ms <= grown_ms.saturating_add(excused_ms);
                    lacking.push((id, start.boot));
                } else {
                    self.lacking.remove(&(id, start.boot));
                }
                // Nobody else knows what this router publishes now.
                if start.seq > known && (id, start.boot) != (SELF, self.config.boot) {
                    let max = self.config.limits.boots_per_router;
                    if self.routers.get_mut(id).publisher.learn(start.boot, start.seq, max, now_ms) {
                        is_news = true;
                        news.push((id, start.boot));
                    }
                }
            }
            if is_news {
                self.forget_heard(id);
            }
            if is_news && id != SELF {
                self.fetch_publications(id);
            }
            if is_known && !is_whole {
                self.forget_heard(id);
                self.routers.get_mut(id).heard = Some(hash);
                self.heard.insert(hash, id);
            }
        }
        if is_whole {
            lacking.extend(self.missing_in(&has));
            found.is_outdated |= !lacking.is_empty();
            found.is_excused &= lacking.iter().all(|which| has.contains(which));
        }
        self.consider(found, lacking);
        if is_private && !news.is_empty() {
            if self.sync_timer.spread(&self.config.timing, &mut self.random, now_ms) {
                self.lacking.clear();
            }
            self.lacking.extend(news);
        }
    }

    /// What is known of a router changes.
    pub(super) fn forget_heard(&mut self, id: RouterId) {
        if let Some(hash) = self.routers.get_mut(id).heard.take() {
            self.heard.remove(&hash);
        }
    }

    /// Starts that a vector does not have at all.
    fn missing_in(&self, has: &std::collections::BTreeSet<(RouterId, u64)>) -> Vec<(RouterId, u64)> {
        let mut missing = Vec::new();
        for (id, known) in self.routers.iter() {
            missing.extend(known.publisher.starts().map(|start| (id, start.boot)).filter(|which| !has.contains(which)));
        }
        let own = (SELF, self.config.boot);
        if self.publication_seq > 0 && !has.contains(&own) {
            missing.push(own);
        }
        missing
    }

    fn consider(&mut self, found: Found, lacking: Vec<(RouterId, u64)>) {
        let now_ms = self.now_ms();
        let was_suppressed = self.sync_timer.is_suppressed();
        self.sync_timer.receive(found, &self.config.timing, &mut self.random, now_ms);
        if !self.sync_timer.is_suppressed() {
            self.lacking.clear();
        } else if !was_suppressed {
            self.lacking = lacking.into_iter().collect();
        } else if self.lacking.is_empty() {
            self.sync_timer.satisfied();
        }
    }

    fn known_seq(&self, id: RouterId, boot: u64) -> u64 {
        match (id, boot) {
            (SELF, boot) if boot == self.config.boot => self.publication_seq,
            _ => self.routers.get(id).publisher.latest(boot),
        }
    }

    pub(super) fn poll_prefix_sync(&mut self) {
        let now_ms = self.now_ms();
        if self.sync_timer.expire(&self.config.timing, &mut self.random, now_ms) {
            self.lacking.clear();
            self.send_prefix_sync(None);
        }
    }

    /// Tells which publications exist: the neighbour on one face, or the whole network.
    pub(super) fn send_prefix_sync(&mut self, face: Option<FaceId>) {
        for _ in 0..PARTS_MAX {
            let entries = self.next_part();
            let content = tlv::encode_state_vector(&entries);
            let name = self.names.own_prefix_sync_data(self.config.boot, self.clock.unix_micros());
            let Some(data) = self.sign(name, content) else { return };
            self.counters.prefix_syncs_out += 1;
            let mut interest = InterestBuilder::new(self.names.prefix_sync_interest.clone(), self.nonce())
                .lifetime_ms(LIFETIME_MS)
                .application_parameters(data);
            if face.is_some() {
                interest = interest.hop_limit(HOPS_TO_NEIGHBOUR);
            }
            self.act(Action::SendInterest { wire: interest.encode(), face });
            if self.part_from.is_none() {
                break;
            }
        }
    }

    /// Entries of the next part of the vector. If all fit, it is the whole vector. Every part has this router's own entry,
    /// so that others always learn what is new.
    fn next_part(&mut self) -> Vec<u8> {
        let from = self.part_from.take();
        let is_after = |name: &Name| from.as_ref().is_none_or(|from| name > from);
        let mut part = vec![SELF];
        let mut entries = Vec::new();
        self.push_entry(SELF, self.routers.get(SELF), &mut entries);
        let others = || self.routers.iter().filter(|(id, _)| *id != SELF);
        for (id, known) in others().filter(|(_, known)| is_after(&known.name)) {
            if entries.len() > VECTOR_BYTES_MAX {
                self.part_from = part.last().map(|last| self.routers.name(*last).to_name());
                break;
            }
            self.push_entry(id, known, &mut entries);
            part.push(id);
        }
        // The last part is filled up with the first entries: others would take a short one for the whole vector.
        let is_last = from.is_some() && self.part_from.is_none();
        for (id, known) in others().filter(|(_, known)| is_last && !is_after(&known.name)) {
            if entries.len() > VECTOR_BYTES_MAX {
                break;
            }
            self.push_entry(id, known, &mut entries);
            part.push(id);
        }
        part.sort_by_key(|id| self.routers.name(*id));
        entries.clear();
        part.into_iter().for_each(|id| self.push_entry(id, self.routers.get(id), &mut entries));
        entries
    }

    fn push_entry(&self, id: RouterId, known: &Known, out: &mut Vec<u8>) {
        let own = tlv::SeqNoEntry { boot: self.config.boot, seq: self.publication_seq };
        let own = (id == SELF && own.seq > 0).then_some(own);
        let starts: Vec<tlv::SeqNoEntry> = known.publisher.starts().chain(own).collect();
        if !starts.is_empty() {
            tlv::push_state_entry(out, known.name.as_ref().as_ref(), starts);
        }
    }
}

#[cfg(test)]
mod tests {
    use byname_trust::{Moment, Signer};

    use super::*;
    use crate::config::Config;

    #[test]
    fn no_part_of_a_large_vector_looks_like_a_whole_one() {
        for count in [10, 140, 150, 160, 300, 500] {
            let config = Config::new("/net".parse().unwrap(), "/net/self".parse().unwrap(), 1_700_000_000);
            let now = Moment { ms: 0, unix_ms: 1_700_000_000_000 };
            let mut router = Router::new(config, Signer::digest(), now).unwrap();
            for i in 0..count {
                let name: Name = format!("/net/r{i:04}").parse().unwrap();
                let id = router.routers.insert(name.as_ref(), None, 0);
                assert!(router.routers.get_mut(id).publisher.learn(1_700_000_000, 5, 4, 0));
            }
            let mut told = std::collections::BTreeSet::new();
            let mut parts = 0;
            loop {
                let content = tlv::encode_state_vector(&router.next_part());
                let vector = tlv::decode_state_vector(&content).unwrap();
                let names: std::collections::BTreeSet<Name> = vector.iter().map(|(name, _)| name.to_name()).collect();
                assert_eq!(names.len(), vector.len(), "each is in a part once");
                told.extend(names);
                parts += 1;
                let is_whole = content.len() < VECTOR_BYTES_MAX;
                assert_eq!(is_whole, parts == 1 && router.part_from.is_none(), "{count} routers, part {parts}");
                if router.part_from.is_none() {
                    break;
                }
            }
            assert_eq!(told.len(), count + 1);
        }
    }
}

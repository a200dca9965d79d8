//! Interests for certificates.
//!
//! The first Interest for a certificate goes to the face that the packet came from, as NFD's does: a host that registers
//! its first prefix has no route yet. The next ones take turns with the ordinary way, by routes. All have the forwarding
//! hint, as those of ndn-dv: the peer at that face may be another router, which finds the certificate by the hint.
//! Packets of different faces have Interests of their own, so that one face's wrong answers do not stop another's.

use std::collections::BTreeMap;

use byname_wire::{Name, NameRef};

use super::{Origin, RequestId};

/// Interests for one certificate.
const TRIES: u32 = 3;
/// Most names that are remembered as failed.
const FAILED_MAX: usize = 1024;

/// An Interest to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Name of the certificate, or a prefix of it.
    pub name: Name,
    /// The face to send it to. `None`: by routes.
    pub face: Option<u64>,
    /// The forwarding hint. Empty: none.
    pub forwarding_hint: Vec<Name>,
    /// InterestLifetime in ms.
    pub lifetime_ms: u64,
}

/// A certificate's locator, and the face of the packets that need it.
type Key = (Name, Option<u64>);

struct Fetch {
    forwarding_hint: Vec<Name>,
    waiting: Vec<RequestId>,
    tries: u32,
    next_try_ms: u64,
    interval_ms: u64,
    ends_ms: u64,
}

#[derive(Default)]
pub(super) struct Fetches {
    open: BTreeMap<Key, Fetch>,
    /// Until when what could not be fetched is not tried again.
    failed: BTreeMap<Key, u64>,
}

impl Fetches {
    /// Whether this could not be fetched a short time ago.
    pub(super) fn has_failed(&self, locator: &Name, face: Option<u64>, now_ms: u64) -> bool {
        self.failed.get(&(locator.clone(), face)).is_some_and(|until| *until > now_ms)
    }

    pub(super) fn want(&mut self, locator: Name, origin: &Origin, id: RequestId, now_ms: u64, timeout_ms: u64) {
        let fetch = self.open.entry((locator, origin.face)).or_insert_with(|| Fetch {
            forwarding_hint: origin.forwarding_hint.clone(),
            waiting: Vec::new(),
            tries: 0,
            next_try_ms: now_ms,
            interval_ms: (timeout_ms / u64::from(TRIES)).max(1),
            ends_ms: now_ms.saturating_add(timeout_ms),
        });
        fetch.waiting.push(id);
    }

    /// The requests that wait for a certificate with this name.
    pub(super) fn waiting_for(&self, name: NameRef<'_>) -> Vec<(Name, Option<u64>, RequestId)> {
        let mut found = Vec::new();
        if self.open.is_empty() {
            return found;
        }
        for depth in 1..=name.len() {
            let locator = name.prefix(depth).to_name();
            let of_locator = self.open.range((locator.clone(), None)..).take_while(|((other, _), _)| *other == locator);
            for ((_, face), fetch) in of_locator {
                found.extend(fetch.waiting.iter().map(|id| (locator.clone(), *face, *id)));
            }
        }
        found
    }

    pub(super) fn forget(&mut self, locator: &Name, face: Option<u64>, id: RequestId) {
        let key = (locator.clone(), face);
        if let Some(fetch) = self.open.get_mut(&key) {
            fetch.waiting.retain(|other| *other != id);
            if fetch.waiting.is_empty() {
                self.open.remove(&key);
            }
        }
    }

    pub(super) fn forget_request(&mut self, id: RequestId) {
        self.open.retain(|_, fetch| {
            fetch.waiting.retain(|other| *other != id);
            !fetch.waiting.is_empty()
        });
    }

    /// Makes the next tries for this name due now.
    pub(super) fn hasten(&mut self, name: NameRef<'_>, now_ms: u64) -> bool {
        let mut is_known = false;
        for ((locator, _), fetch) in &mut self.open {
            if locator.as_ref() == name {
                fetch.next_try_ms = now_ms;
                is_known = true;
                if fetch.tries >= TRIES {
                    fetch.ends_ms = now_ms;
                }
            }
        }
        is_known
    }

    /// Makes the second try for this name due now, if the first one got a wrong answer. Later tries keep their times: then
    /// somebody answers wrongly each time.
    pub(super) fn repeat(&mut self, name: NameRef<'_>, now_ms: u64) {
        for ((locator, _), fetch) in &mut self.open {
            if fetch.tries == 1 && locator.as_ref().is_prefix_of(&name) {
                fetch.next_try_ms = now_ms;
            }
        }
    }

    /// Ends the fetches whose time is over, and remembers that they failed.
    pub(super) fn expire(&mut self, now_ms: u64, failed_for_ms: u64) -> Vec<(Name, Vec<RequestId>)> {
        self.failed.retain(|_, until| *until > now_ms);
        let over: Vec<Key> =
            self.open.iter().filter(|(_, fetch)| fetch.ends_ms <= now_ms).map(|(key, _)| key.clone()).collect();
        let mut ended = Vec::new();
        for key in over {
            let Some(fetch) = self.open.remove(&key) else { continue };
            ended.push((key.0.clone(), fetch.waiting));
            if self.failed.len() < FAILED_MAX {
                self.failed.insert(key, now_ms.saturating_add(failed_for_ms));
            }
        }
        ended
    }

    /// The Interests that are due.
    pub(super) fn due(&mut self, now_ms: u64) -> Vec<Wanted> {
        let mut due = Vec::new();
        for ((locator, face), fetch) in &mut self.open {
            if fetch.tries >= TRIES || fetch.next_try_ms > now_ms {
                continue;
            }
            let direct = face.filter(|_| fetch.tries.is_multiple_of(2));
            due.push(Wanted {
                name: locator.clone(),
                face: direct,
                forwarding_hint: fetch.forwarding_hint.clone(),
                lifetime_ms: fetch.interval_ms,
            });
            fetch.tries += 1;
            fetch.next_try_ms = now_ms.saturating_add(fetch.interval_ms);
        }
        due
    }

    pub(super) fn next_deadline_ms(&self) -> Option<u64> {
        let of = |fetch: &Fetch| if fetch.tries < TRIES { fetch.next_try_ms.min(fetch.ends_ms) } else { fetch.ends_ms };
        self.open.values().map(of).min()
    }
}

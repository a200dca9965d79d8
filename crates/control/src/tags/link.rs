//! What passes between this router and one neighbour on one tree.
//!
//! Each side sends updates in a row, one at a time, each again until it is answered: an update that
//! is lost is mended by the answer that stays out. Whoever starts anew begins a *session*, whose
//! first update makes the other forget all that it was told before; and whoever forgets by himself,
//! because nothing came for long, answers with a new session of his own, whereupon all is told
//! again. Without changes an empty update goes out every [`KEEPALIVE_MS`].

use std::collections::BTreeMap;
use std::sync::Arc;

use byname_wire::interest::InterestBuilder;
use byname_wire::{Descriptor, Name, TreeId};

use super::message::{DescriptorList, Update};

/// How often a neighbour hears of us.
pub(super) const KEEPALIVE_MS: u64 = 10_000;
/// A neighbour that is silent for so long is forgotten.
const SILENCE_MAX_MS: u64 = 3 * KEEPALIVE_MS + KEEPALIVE_MS / 2;
/// How long to wait for an answer, at first and at most.
const RETRY_MS: u64 = 500;
const RETRY_MAX_MS: u64 = 8000;

/// One neighbour on one tree.
pub(super) struct Link {
    tree: TreeId,
    /// Ours.
    session: u64,
    sequence: u64,
    /// The last word on each descriptor that the neighbour is to hear of.
    pending: BTreeMap<Arc<Descriptor>, bool>,
    in_flight: Option<InFlight>,
    /// When to send, if there is nothing to tell.
    keepalive_at_ms: u64,
    /// What the neighbour's answers said last: as long as they say the same, it remembers.
    remembered_since: Option<u64>,
    /// The session and sequence of the neighbour's last update.
    heard: Option<(u64, u64)>,
    /// Since when we remember what the neighbour told.
    remembers_since: u64,
    silent_at_ms: Option<u64>,
}

struct InFlight {
    name: Name,
    parameters: Vec<u8>,
    again_at_ms: u64,
    wait_ms: u64,
}

/// What an answer means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The neighbour knows.
    Taken,
    /// It has forgotten all.
    TellAll,
}

/// What an update means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It changes what is known.
    Changes,
    /// As before, but all that was known before is void.
    FromNothing,
    /// It came before.
    Again,
}

impl Link {
    /// A link on which nothing was said; `session` is larger than that of all links before.
    pub(super) fn new(tree: TreeId, session: u64) -> Self {
        Link {
            tree,
            session,
            sequence: 0,
            pending: BTreeMap::new(),
            in_flight: None,
            keepalive_at_ms: 0,
            remembered_since: None,
            heard: None,
            remembers_since: session,
            silent_at_ms: None,
        }
    }

    /// The neighbour is to hear of this.
    pub(super) fn tell(&mut self, descriptor: Arc<Descriptor>, is_advertised: bool) {
        self.pending.insert(descriptor, is_advertised);
    }

    /// Begins again from nothing.
    pub(super) fn restart(&mut self, session: u64) {
        (self.session, self.sequence) = (session, 0);
        self.pending.clear();
        self.in_flight = None;
        self.keepalive_at_ms = 0;
    }

    /// When [`Link::poll`] has something to send, or [`Link::is_silent`] becomes true.
    pub(super) fn next_deadline_ms(&self) -> u64 {
        let send = match &self.in_flight {
            Some(in_flight) => in_flight.again_at_ms,
            None if self.pending.is_empty() => self.keepalive_at_ms,
            None => 0,
        };
        self.silent_at_ms.map_or(send, |at| at.min(send))
    }

    /// The Interest to send now, if it is time.
    pub(super) fn poll(&mut self, now_ms: u64, command: &Name, nonce: u32) -> Option<Vec<u8>> {
        if self.in_flight.as_ref().is_some_and(|in_flight| in_flight.again_at_ms > now_ms) {
            return None;
        }
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.wait_ms = (2 * in_flight.wait_ms).min(RETRY_MAX_MS);
            in_flight.again_at_ms = now_ms + in_flight.wait_ms;
        } else if self.pending.is_empty() && now_ms < self.keepalive_at_ms {
            return None;
        } else {
            self.in_flight = Some(self.next_update(now_ms));
            self.keepalive_at_ms = now_ms + KEEPALIVE_MS;
        }
        let in_flight = self.in_flight.as_mut()?;
        // Or else a refusal that the content store keeps would answer for ever.
        let interest = InterestBuilder::new(command.clone(), nonce).must_be_fresh(true).lifetime_ms(RETRY_MS);
        let wire = interest.application_parameters(in_flight.parameters.clone()).encode();
        if let Ok(interest) = byname_wire::Interest::decode(&wire) {
            in_flight.name = interest.name.to_name();
        }
        Some(wire)
    }

    /// Whether this is the name of the update that waits for its answer.
    pub(super) fn awaits(&self, name: &Name) -> bool {
        self.in_flight.as_ref().is_some_and(|in_flight| in_flight.name == *name)
    }

    /// The update that was sent was taken; `remembers_since` came with the answer.
    pub(super) fn answered(&mut self, remembers_since: u64) -> Answer {
        self.in_flight = None;
        match self.remembered_since.replace(remembers_since) {
            Some(before) if before != remembers_since => Answer::TellAll,
            _ => Answer::Taken,
        }
    }

    /// An update came.
    pub(super) fn hear(&mut self, update: &Update, now_ms: u64) -> Heard {
        let what = match self.heard {
            // Late; or the neighbour's clock was set back, and it will soon seem silent.
            Some((session, _)) if session > update.session => return Heard::Again,
            Some((session, sequence)) if session == update.session && sequence >= update.sequence => Heard::Again,
            Some((session, _)) if session == update.session => Heard::Changes,
            _ => Heard::FromNothing,
        };
        self.silent_at_ms = Some(now_ms + SILENCE_MAX_MS);
        if what != Heard::Again {
            self.heard = Some((update.session, update.sequence));
        }
        what
    }

    /// Since when we remember what the neighbour told: a session of ours.
    pub(super) fn remembers_since(&self) -> u64 {
        self.remembers_since
    }

    /// Whether the neighbour has said nothing for long; what it told is then to be forgotten.
    pub(super) fn is_silent(&mut self, now_ms: u64, session: u64) -> bool {
        let is_silent = self.silent_at_ms.is_some_and(|at| at <= now_ms);
        if is_silent {
            (self.silent_at_ms, self.heard) = (None, None);
            self.remembers_since = session;
        }
        is_silent
    }

    fn next_update(&mut self, now_ms: u64) -> InFlight {
        self.sequence += 1;
        let (mut advertised, mut withdrawn) = (DescriptorList::default(), DescriptorList::default());
        while let Some(next) = self.pending.first_entry() {
            let list = if *next.get() { &mut advertised } else { &mut withdrawn };
            if !list.push(next.key()) {
                break;
            }
            next.remove();
        }
        let parameters = Update::encode(self.tree, self.session, self.sequence, &advertised, &withdrawn);
        InFlight { name: Name::default(), parameters, again_at_ms: now_ms + RETRY_MS, wait_ms: RETRY_MS }
    }
}

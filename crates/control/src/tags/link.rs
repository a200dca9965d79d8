//! The protocol between this router and one neighbour on one tree.
//!
//! Each side sends its updates one at a time. It repeats an update until the answer arrives, which repairs losses. A
//! restarted sender begins a *session*, whose first update makes the receiver forget all earlier ones. A receiver also
//! forgets when no update arrives for long. It then answers with a new session of its own, and the sender repeats
//! everything. Without changes, an empty update is sent every [`KEEPALIVE_MS`].
//!
//! An update also says when its sender has told all, and has heard the same from all its other neighbours on the tree.
//! So the leaves begin, and a router that hears it from each neighbour knows that packets that begin there reach everybody.
//!
//! The receiver's session is random, and each update echoes it. A receiver answers an update with another echo, but
//! does not apply it. Recordings from before a receiver's last restart or timeout are therefore useless. Later
//! recordings have a sequence number that was already received. Updates and answers are signed (`trust`).

use std::collections::BTreeSet;
use std::sync::Arc;

use byname_wire::interest::InterestBuilder;
use byname_wire::{Data, Descriptor, Interest, Name, TreeId};
use ring::rand::{SecureRandom, SystemRandom};

use super::message::{DescriptorList, Update};
use super::trust::{Allowance, NeighborKeys};

/// Interval between updates when there are no changes.
pub(super) const KEEPALIVE_MS: u64 = 10_000;
/// Time after which a silent neighbour's advertisements are removed.
const SILENCE_MAX_MS: u64 = 3 * KEEPALIVE_MS + KEEPALIVE_MS / 2;
/// First and longest interval between repetitions of an update.
const RETRY_MS: u64 = 500;
const RETRY_MAX_MS: u64 = 2000;
/// When an update is sent again that the neighbour has refused: it may not know yet that this router is its neighbour.
/// Doubles with each refusal.
const REFUSED_MS: u64 = 20;

/// State of one neighbour on one tree.
pub(super) struct Link {
    tree: TreeId,
    /// `None`: the neighbour's messages are accepted without a signature.
    pub(super) keys: Option<Arc<NeighborKeys>>,
    allowance: Allowance,
    /// Session of this router as a sender.
    session: u64,
    sequence: u64,
    /// Changes to send: a descriptor is in one of them. What comes is sent first, so that packets find a covering
    /// descriptor, or those that it covered, at any time.
    to_advertise: BTreeSet<Arc<Descriptor>>,
    to_withdraw: BTreeSet<Arc<Descriptor>>,
    in_flight: Option<InFlight>,
    /// When to send an empty update.
    keepalive_at_ms: u64,
    /// The neighbour's session from its last answer. While it stays the same, the neighbour remembers earlier updates.
    remembered_since: Option<u64>,
    /// Session and sequence of the neighbour's last update.
    heard: Option<(u64, u64)>,
    /// Session of this router as a receiver. It changes whenever the neighbour's advertisements are removed.
    remembers_since: u64,
    silent_at_ms: Option<u64>,
    /// Whether the neighbour has told all, as [`Update::is_complete`] says.
    pub(super) is_complete: bool,
    /// Whether this router has all to tell, and whether it has said so in this session.
    may_complete: bool,
    has_completed: bool,
}

struct InFlight {
    name: Name,
    parameters: Vec<u8>,
    refusals: u32,
    again_at_ms: u64,
    wait_ms: u64,
}

/// Meaning of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The neighbour has the update.
    Taken,
    /// The neighbour has forgotten all updates.
    TellAll,
}

/// Meaning of an update.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A new update.
    Changes,
    /// A new update of a new session: earlier advertisements are void.
    FromNothing,
    /// A repeated or outdated update.
    Again,
    /// The update echoes another session of this router.
    NotForUs,
    /// The neighbour exceeds its rate.
    TooMany,
}

impl Link {
    /// A link without any messages yet. `session` is larger than that of all earlier links.
    pub(super) fn new(tree: TreeId, session: u64, keys: Option<Arc<NeighborKeys>>) -> Self {
        Link {
            tree,
            keys,
            allowance: Allowance::default(),
            session,
            sequence: 0,
            to_advertise: BTreeSet::new(),
            to_withdraw: BTreeSet::new(),
            in_flight: None,
            keepalive_at_ms: 0,
            remembered_since: None,
            heard: None,
            remembers_since: draw_session(),
            silent_at_ms: None,
            is_complete: false,
            may_complete: false,
            has_completed: false,
        }
    }

    /// Whether all that this router will know of has been queued, until it changes.
    pub(super) fn set_may_complete(&mut self, may_complete: bool) {
        self.may_complete = may_complete;
    }

    /// Whether an update must say that this router has told all.
    fn must_complete(&self) -> bool {
        self.may_complete && !self.has_completed && self.remembered_since.is_some()
    }

    fn is_quiet(&self) -> bool {
        self.to_advertise.is_empty() && self.to_withdraw.is_empty() && !self.must_complete()
    }

    /// Queues a change of a descriptor for the neighbour.
    pub(super) fn tell(&mut self, descriptor: Arc<Descriptor>, is_advertised: bool) {
        let (now, not) = match is_advertised {
            true => (&mut self.to_advertise, &mut self.to_withdraw),
            false => (&mut self.to_withdraw, &mut self.to_advertise),
        };
        not.remove(&descriptor);
        now.insert(descriptor);
    }

    /// Begins a new session, with nothing queued.
    pub(super) fn restart(&mut self, session: u64) {
        (self.session, self.sequence) = (session, 0);
        self.to_advertise.clear();
        self.to_withdraw.clear();
        self.in_flight = None;
        self.keepalive_at_ms = 0;
        self.has_completed = false;
    }

    /// When [`Link::poll`] has something to send, or [`Link::is_silent`] becomes true.
    pub(super) fn next_deadline_ms(&self) -> u64 {
        let send = match &self.in_flight {
            Some(in_flight) => in_flight.again_at_ms,
            None if self.is_quiet() => self.keepalive_at_ms,
            None => 0,
        };
        self.silent_at_ms.map_or(send, |at| at.min(send))
    }

    /// Returns the Interest to send now, if there is one.
    pub(super) fn poll(&mut self, now_ms: u64, unix_ms: u64, command: &Name, nonce: u32) -> Option<Vec<u8>> {
        if self.in_flight.as_ref().is_some_and(|in_flight| in_flight.again_at_ms > now_ms) {
            return None;
        }
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.wait_ms = (2 * in_flight.wait_ms).min(RETRY_MAX_MS);
            in_flight.again_at_ms = now_ms + in_flight.wait_ms;
        } else if self.is_quiet() && now_ms < self.keepalive_at_ms {
            return None;
        } else {
            self.in_flight = Some(self.next_update(now_ms));
            self.keepalive_at_ms = now_ms + KEEPALIVE_MS;
        }
        let in_flight = self.in_flight.as_mut()?;
        // Without MustBeFresh, a refusal in a content store would answer all repetitions.
        let interest = InterestBuilder::new(command.clone(), nonce).must_be_fresh(true).lifetime_ms(RETRY_MS);
        let interest = interest.application_parameters(in_flight.parameters.clone());
        let wire = match &self.keys {
            Some(keys) => {
                keys.sign(&interest, unix_ms).inspect_err(|error| tracing::error!(%error, "no update")).ok()?
            }
            None => interest.encode(),
        };
        if let Ok(interest) = Interest::decode(&wire) {
            in_flight.name = interest.name.to_name();
        }
        Some(wire)
    }

    /// Whether `name` is that of the update in flight.
    pub(super) fn awaits(&self, name: &Name) -> bool {
        self.in_flight.as_ref().is_some_and(|in_flight| in_flight.name == *name)
    }

    /// Whether the neighbour signed this update.
    pub(super) fn trusts(&self, update: &Interest<'_>, unix_ms: u64) -> bool {
        self.keys.as_ref().is_none_or(|keys| keys.has_signed(update, unix_ms))
    }

    /// Whether the neighbour signed this answer.
    pub(super) fn trusts_answer(&self, answer: &Data<'_>, unix_ms: u64) -> bool {
        self.keys.as_ref().is_none_or(|keys| keys.has_signed_answer(answer, unix_ms))
    }

    /// Handles an answer to the update in flight. `remembers_since` is the neighbour's session in it.
    pub(super) fn answered(&mut self, remembers_since: u64) -> Answer {
        self.in_flight = None;
        match self.remembered_since.replace(remembers_since) {
            Some(before) if before == remembers_since => Answer::Taken,
            _ => Answer::TellAll,
        }
    }

    /// Handles an answer that was not believed, or refuses the update: it is sent again before long.
    pub(super) fn refused(&mut self, now_ms: u64) {
        if let Some(in_flight) = &mut self.in_flight {
            let wait_ms = REFUSED_MS << in_flight.refusals.min(8);
            in_flight.refusals += 1;
            in_flight.again_at_ms = in_flight.again_at_ms.min(now_ms + wait_ms);
        }
    }

    /// Handles an update of the neighbour.
    pub(super) fn hear(&mut self, update: &Update, now_ms: u64) -> Heard {
        if update.echo != self.remembers_since {
            return Heard::NotForUs;
        }
        if !self.allowance.take(now_ms) {
            return Heard::TooMany;
        }
        let what = match self.heard {
            // Either a late update, or the neighbour's clock was set back. In the second case the neighbour soon counts
            // as silent, and begins again.
            Some((session, _)) if session > update.session => return Heard::Again,
            Some((session, sequence)) if session == update.session && sequence >= update.sequence => Heard::Again,
            Some((session, _)) if session == update.session => Heard::Changes,
            _ => Heard::FromNothing,
        };
        if what != Heard::Again {
            // A repeated update may be a stranger's recording, so it does not keep the neighbour alive.
            self.silent_at_ms = Some(now_ms + SILENCE_MAX_MS);
            self.heard = Some((update.session, update.sequence));
            if what == Heard::FromNothing {
                // Has it forgotten what this router told, without having been silent for long? Its answer will tell.
                self.keepalive_at_ms = 0;
            }
            self.is_complete = update.is_complete || self.is_complete && what == Heard::Changes;
            // A neighbour that did not know this router as one does so now.
            if let Some(in_flight) = self.in_flight.as_mut().filter(|in_flight| in_flight.refusals > 0) {
                (in_flight.refusals, in_flight.wait_ms, in_flight.again_at_ms) = (0, RETRY_MS / 2, now_ms);
            }
        }
        what
    }

    /// Session of this router as a receiver.
    pub(super) fn remembers_since(&self) -> u64 {
        self.remembers_since
    }

    /// Whether the neighbour has been silent for too long. The caller must then remove its advertisements.
    pub(super) fn is_silent(&mut self, now_ms: u64) -> bool {
        let is_silent = self.silent_at_ms.is_some_and(|at| at <= now_ms);
        if is_silent {
            (self.silent_at_ms, self.heard, self.is_complete) = (None, None, false);
            self.remembers_since = draw_session();
        }
        is_silent
    }

    fn next_update(&mut self, now_ms: u64) -> InFlight {
        self.sequence += 1;
        let (mut advertised, mut withdrawn) = (DescriptorList::default(), DescriptorList::default());
        while self.to_advertise.first().is_some_and(|next| advertised.push(next)) {
            self.to_advertise.pop_first();
        }
        while self.to_advertise.is_empty()
            && self.to_withdraw.first().is_some_and(|next| withdrawn.push_beside(next, &advertised))
        {
            self.to_withdraw.pop_first();
        }
        let echo = self.remembered_since.unwrap_or(0);
        let mut parameters = Update::encode(self.tree, self.session, self.sequence, echo, &advertised, &withdrawn);
        if self.may_complete && self.to_advertise.is_empty() && self.remembered_since.is_some() {
            Update::push_complete(&mut parameters);
            self.has_completed = true;
        }
        InFlight { name: Name::default(), parameters, refusals: 0, again_at_ms: now_ms + RETRY_MS, wait_ms: RETRY_MS }
    }
}

/// A random session for a receiver, never 0.
fn draw_session() -> u64 {
    let mut session = [0; 8];
    let drawn = SystemRandom::new().fill(&mut session);
    drawn.expect("the system's randomness, which was there when the router started, does not end");
    u64::from_be_bytes(session) >> 1 | 1
}

//! Interests that wait for Data.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use byname_trust::validator::RequestId;
use byname_wire::interest::{InterestBuilder, with_nonce};
use byname_wire::name::component_type;
use byname_wire::{Component, Data, DecodeError, Interest, Name, NameRef};

use super::{CommandId, FindId, InterestId};
use crate::link::{DataPacket, ExchangeError, satisfies};

/// What an answer is for.
#[derive(Debug, Clone)]
pub(super) enum Purpose {
    /// The application asked.
    Application,
    /// The application asked, and the session signs.
    Signed(Box<InterestBuilder>),
    /// A command of the application. Without an id, the session repeats it by itself.
    Command { id: Option<CommandId>, module: String, verb: String, parameters: Vec<u8> },
    /// The registration of this prefix.
    Registration(Name),
    /// A question about an object.
    Find(FindId),
}

#[derive(Debug)]
pub(super) struct Pending {
    wire: Vec<u8>,
    pub name: Name,
    can_be_prefix: bool,
    lifetime: Duration,
    /// When this try is over. None: its answer waits for certificates.
    deadline: Option<Duration>,
    pub began: Duration,
    /// When this try first lost its connection, or began without one.
    stalled_since: Option<Duration>,
    tries_left: u32,
    pub tries: u32,
    pub purpose: Purpose,
    /// Data that waits for its certificates.
    answer: Option<(RequestId, DataPacket)>,
}

impl Pending {
    fn interest(&self) -> Interest<'_> {
        Interest::decode(&self.wire).expect("was decoded before it was stored")
    }

    fn move_deadline(
        &mut self,
        id: InterestId,
        to: Option<Duration>,
        deadlines: &mut BTreeSet<(Duration, InterestId)>,
    ) {
        if let Some(deadline) = self.deadline {
            deadlines.remove(&(deadline, id));
        }
        self.deadline = to;
        deadlines.extend(to.map(|deadline| (deadline, id)));
    }

    /// The packet with another nonce. It waits for its lifetime.
    fn send_again(
        &mut self,
        id: InterestId,
        deadlines: &mut BTreeSet<(Duration, InterestId)>,
        now: Duration,
    ) -> Vec<u8> {
        self.wire = with_nonce(&self.interest(), rand::random());
        self.move_deadline(id, Some(now.saturating_add(self.lifetime)), deadlines);
        self.wire.clone()
    }
}

/// All Interests that wait.
#[derive(Default)]
pub(super) struct Interests {
    by_id: BTreeMap<InterestId, Pending>,
    by_name: BTreeMap<Name, Vec<InterestId>>,
    deadlines: BTreeSet<(Duration, InterestId)>,
    /// Number of those that longer names may answer.
    with_prefix: usize,
    /// Number of those that end with an implicit digest.
    with_digest: usize,
}

impl Interests {
    /// Adds an Interest. `outage_max`: there is no connection, and it waits for one this long.
    pub fn add(
        &mut self,
        id: InterestId,
        wire: Vec<u8>,
        tries: u32,
        purpose: Purpose,
        outage_max: Option<Duration>,
        now: Duration,
    ) -> Result<(), ExchangeError> {
        let interest = Interest::decode(&wire).map_err(|error| ExchangeError::unsendable(&wire, error))?;
        let (name, can_be_prefix) = (interest.name.to_name(), interest.can_be_prefix);
        let lifetime = Duration::from_millis(interest.lifetime_or_default_ms());
        let tries_left = tries.saturating_sub(1);
        let pending = Pending {
            name,
            can_be_prefix,
            lifetime,
            deadline: Some(now.saturating_add(outage_max.unwrap_or(lifetime))),
            began: now,
            stalled_since: outage_max.map(|_| now),
            tries_left,
            tries: 1,
            purpose,
            answer: None,
            wire,
        };
        self.insert(id, pending);
        Ok(())
    }

    fn insert(&mut self, id: InterestId, pending: Pending) {
        self.with_prefix += usize::from(pending.can_be_prefix);
        self.with_digest += usize::from(has_digest(pending.name.as_ref()));
        self.by_name.entry(pending.name.clone()).or_default().push(id);
        self.deadlines.extend(pending.deadline.map(|deadline| (deadline, id)));
        self.by_id.insert(id, pending);
    }

    /// Sends another packet for an Interest from now on: a command that is signed again.
    pub fn replace(&mut self, id: InterestId, wire: Vec<u8>) -> Result<(), DecodeError> {
        let name = Interest::decode(&wire)?.name.to_name();
        if let Some(pending) = self.remove(id) {
            self.insert(id, Pending { name, wire, ..pending });
        }
        Ok(())
    }

    pub fn remove(&mut self, id: InterestId) -> Option<Pending> {
        let pending = self.by_id.remove(&id)?;
        if let Some(deadline) = pending.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        self.with_prefix -= usize::from(pending.can_be_prefix);
        self.with_digest -= usize::from(has_digest(pending.name.as_ref()));
        if let Some(ids) = self.by_name.get_mut(&pending.name) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_name.remove(&pending.name);
            }
        }
        Some(pending)
    }

    pub fn wire(&self, id: InterestId) -> &[u8] {
        self.by_id.get(&id).map_or(&[], |pending| &pending.wire)
    }

    /// The Interests that this Data answers. Those whose answer is being checked are left out.
    pub fn answered_by(&self, data: &Data<'_>) -> Vec<InterestId> {
        if self.by_name.is_empty() {
            return Vec::new();
        }
        let name = data.name.to_name();
        let mut names = vec![];
        if self.with_prefix > 0 {
            names.extend((0..data.name.len()).map(|depth| data.name.prefix(depth).to_name()));
        }
        if self.with_digest > 0 {
            let digest = data.implicit_digest();
            names.push(name.join(Component { typ: component_type::IMPLICIT_SHA256_DIGEST, value: &digest }));
        }
        names.push(name);
        let mut found: Vec<InterestId> = names.iter().flat_map(|name| self.named(name.as_ref())).collect();
        let fits = |id: &InterestId| {
            self.by_id.get(id).is_some_and(|pending| pending.answer.is_none() && satisfies(&pending.interest(), data))
        };
        found.retain(fits);
        found
    }

    /// The Interests with this name.
    pub fn named(&self, name: NameRef<'_>) -> Vec<InterestId> {
        self.by_name.get(&name.to_name()).cloned().unwrap_or_default()
    }

    /// An answer waits for its certificates. Until then the Interest does not expire.
    pub fn hold(&mut self, id: InterestId, answer: DataPacket, check: RequestId) {
        if let Some(pending) = self.by_id.get_mut(&id) {
            pending.move_deadline(id, None, &mut self.deadlines);
            pending.answer = Some((check, answer));
        }
    }

    /// Interests whose answers are being checked.
    pub fn held(&self) -> Vec<(InterestId, RequestId)> {
        let check = |(id, pending): (&InterestId, &Pending)| pending.answer.as_ref().map(|(check, _)| (*id, *check));
        self.by_id.iter().filter_map(check).collect()
    }

    /// The check that an Interest's answer waits for.
    pub fn check_of(&self, id: InterestId) -> Option<RequestId> {
        self.by_id.get(&id)?.answer.as_ref().map(|(check, _)| *check)
    }

    /// Whether an Interest is a command, which only the router answers.
    pub fn is_to_router(&self, id: InterestId) -> bool {
        self.by_id.get(&id).is_some_and(|pending| match pending.purpose {
            Purpose::Command { .. } | Purpose::Registration(_) => true,
            Purpose::Application | Purpose::Signed(_) | Purpose::Find(_) => false,
        })
    }

    /// What an Interest is for.
    pub fn purpose(&self, id: InterestId) -> Option<&Purpose> {
        self.by_id.get(&id).map(|pending| &pending.purpose)
    }

    /// The Interests that the session signs, and that wait for answers.
    pub fn signed(&self) -> Vec<InterestId> {
        let is_signed = |pending: &Pending| {
            pending.answer.is_none() && matches!(pending.purpose, Purpose::Command { .. } | Purpose::Signed(_))
        };
        self.by_id.iter().filter(|(_, pending)| is_signed(pending)).map(|(id, _)| *id).collect()
    }

    /// Ends the wait of [`Interests::hold`]: removes the Interest with its answer.
    pub fn release(&mut self, id: InterestId) -> Option<(Pending, DataPacket)> {
        let mut pending = self.remove(id)?;
        let (_, answer) = pending.answer.take()?;
        Some((pending, answer))
    }

    /// Prepares the next try of an Interest. Returns its packet, with another nonce. `None`: there was the last try.
    pub fn try_again(&mut self, id: InterestId, now: Duration) -> Option<Vec<u8>> {
        let pending = self.by_id.get_mut(&id)?;
        pending.tries_left = pending.tries_left.checked_sub(1)?;
        pending.tries += 1;
        pending.stalled_since = None;
        Some(pending.send_again(id, &mut self.deadlines, now))
    }

    /// Whether an Interest has tries left.
    pub fn has_tries(&self, id: InterestId) -> bool {
        self.by_id.get(&id).is_some_and(|pending| pending.tries_left > 0)
    }

    /// The connection is gone. Each try waits for another one. A try ends when it has been without one, or has gone on
    /// losing them, for `outage_max`.
    pub fn suspend(&mut self, outage_max: Duration, now: Duration) {
        for (id, pending) in &mut self.by_id {
            let since = *pending.stalled_since.get_or_insert(now);
            pending.move_deadline(*id, Some(since.saturating_add(outage_max)), &mut self.deadlines);
        }
    }

    /// There is another connection. Returns the packets to send, with other nonces: the network may still know the earlier
    /// ones. Each waits for its whole lifetime again.
    pub fn renew(&mut self, now: Duration) -> Vec<Vec<u8>> {
        let mut wires = Vec::new();
        for (id, pending) in &mut self.by_id {
            match pending.answer {
                Some(_) => pending.move_deadline(*id, None, &mut self.deadlines),
                None => wires.push(pending.send_again(*id, &mut self.deadlines, now)),
            }
        }
        wires
    }

    /// Interests that only mattered on the connection that is gone.
    pub fn bound_to_connection(&self) -> Vec<InterestId> {
        let is_bound =
            |pending: &Pending| matches!(pending.purpose, Purpose::Registration(_) | Purpose::Command { id: None, .. });
        self.by_id.iter().filter(|(_, pending)| is_bound(pending)).map(|(id, _)| *id).collect()
    }

    /// An Interest whose time is over, if there is one.
    pub fn expired(&self, now: Duration) -> Option<InterestId> {
        self.deadlines.first().filter(|(deadline, _)| *deadline <= now).map(|(_, id)| *id)
    }

    pub fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }
}

fn has_digest(name: NameRef<'_>) -> bool {
    name.component(-1).is_some_and(|last| last.typ == component_type::IMPLICIT_SHA256_DIGEST)
}

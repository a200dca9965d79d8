//! Interests that wait for Data.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use byname_trust::validator::RequestId;
use byname_wire::interest::with_nonce;
use byname_wire::name::component_type;
use byname_wire::{Component, Data, DecodeError, Interest, Name, NameRef};

use super::{CommandId, FindId, InterestId};
use crate::link::{DataPacket, satisfies};

/// What an answer is for.
#[derive(Debug, Clone)]
pub(super) enum Purpose {
    /// The application asked.
    Application,
    /// A command of the application, with its name for errors.
    Command(CommandId, String),
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
    deadline: Duration,
    pub began: Duration,
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
    /// Adds an Interest. Returns its name.
    pub fn add(
        &mut self,
        id: InterestId,
        wire: Vec<u8>,
        tries: u32,
        purpose: Purpose,
        now: Duration,
    ) -> Result<(), DecodeError> {
        let interest = Interest::decode(&wire)?;
        let (name, can_be_prefix) = (interest.name.to_name(), interest.can_be_prefix);
        let lifetime = Duration::from_millis(interest.lifetime_or_default_ms());
        self.with_prefix += usize::from(can_be_prefix);
        self.with_digest += usize::from(has_digest(name.as_ref()));
        self.by_name.entry(name.clone()).or_default().push(id);
        let deadline = now.saturating_add(lifetime);
        self.deadlines.insert((deadline, id));
        let tries_left = tries.saturating_sub(1);
        let pending = Pending {
            name,
            can_be_prefix,
            lifetime,
            deadline,
            began: now,
            tries_left,
            tries: 1,
            purpose,
            answer: None,
            wire,
        };
        self.by_id.insert(id, pending);
        Ok(())
    }

    pub fn remove(&mut self, id: InterestId) -> Option<Pending> {
        let pending = self.by_id.remove(&id)?;
        self.deadlines.remove(&(pending.deadline, id));
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
            self.deadlines.remove(&(pending.deadline, id));
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
        let is_command = |pending: &Pending| matches!(pending.purpose, Purpose::Command(..) | Purpose::Registration(_));
        self.by_id.get(&id).is_some_and(is_command)
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
        pending.wire = with_nonce(&pending.interest(), rand::random());
        self.deadlines.remove(&(pending.deadline, id));
        pending.deadline = now.saturating_add(pending.lifetime);
        self.deadlines.insert((pending.deadline, id));
        Some(pending.wire.clone())
    }

    /// The Interests that are still worth sending on a new connection. Each waits for its whole lifetime again.
    pub fn renew(&mut self, now: Duration) -> Vec<Vec<u8>> {
        let mut wires = Vec::new();
        for (id, pending) in &mut self.by_id {
            if pending.answer.is_none() && !matches!(pending.purpose, Purpose::Registration(_)) {
                self.deadlines.remove(&(pending.deadline, *id));
                pending.deadline = now.saturating_add(pending.lifetime);
                self.deadlines.insert((pending.deadline, *id));
                wires.push(pending.wire.clone());
            }
        }
        wires
    }

    /// Interests that only mattered on the connection that is gone.
    pub fn bound_to_connection(&self) -> Vec<InterestId> {
        let is_bound = |pending: &Pending| matches!(pending.purpose, Purpose::Registration(_));
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

//! State Vector Sync, version 3: the members of a group learn what each has published.
//!
//! Each member has a sequence number that counts its publications. The *state vector* has the numbers of all members.
//! A member sends its vector in an Interest below `/<group>/v=3`: when it publishes, when it sees that another member
//! knows less, and every 30 s. The vector is the content of Data in the Interest's ApplicationParameters, so that it is
//! signed like all Data. Nobody answers such an Interest. ndnd speaks the same protocol. Routers must send the Interests
//! to all members: the strategy of the group's prefix is multicast.
//!
//! The application decides how it publishes. [`publication_name`] is a name for that.
//!
//! # Bounds
//! A vector fits in a packet. Members that would make the own vector too large are not taken up, and are counted
//! ([`StateVectorSync::refused`]). What others claim of this member is ignored.
//! A member that starts again has a later boot time, and a sequence of its own.

mod vector;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use byname_trust::validator::RequestId;
use byname_wire::Name;
use byname_wire::name::component_type;

pub use vector::StateVector;

use crate::clock::Now;

/// Version of the protocol, in the names of sync Interests.
const VERSION: u64 = 3;
/// States of other members may wait for certificates. A new one replaces the oldest.
const CHECKS_MAX: usize = 32;
/// A vector with a boot time so far in the future is ignored.
const FUTURE_MAX_S: u64 = 86_400;
/// Largest encoded vector: with names and a signature, it still fits in a packet.
const VECTOR_BYTES_MAX: usize = 7_000;
/// Decay of the suppression timeout: most members wait long, and few answer early.
const DECAY: f64 = 10.0;

/// Times of the protocol.
///
/// ```
/// use std::time::Duration;
/// use byname_client::sync::SyncOptions;
///
/// let options = SyncOptions { period: Duration::from_secs(5), ..SyncOptions::default() };
/// assert_eq!(options.suppression, Duration::from_millis(200));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncOptions {
    /// Time between two sync Interests of a member that has nothing to tell.
    pub period: Duration,
    /// Time within which several members may notice that one knows less. Usually only one of them tells it.
    pub suppression: Duration,
    /// Boot time of this member, in s since 1970; 0: now. A member that keeps its publications keeps its boot time.
    pub boot: u64,
    /// The state to begin with, from an earlier run.
    pub state: StateVector,
}

impl Default for SyncOptions {
    fn default() -> Self {
        SyncOptions {
            period: Duration::from_secs(30),
            suppression: Duration::from_millis(200),
            boot: 0,
            state: StateVector::default(),
        }
    }
}

/// Publications of another member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The member.
    pub node: Name,
    /// Its boot time, in s since 1970.
    pub boot: u64,
    /// Number of the first publication that is new.
    pub first: u64,
    /// Number of the newest one.
    pub last: u64,
}

/// The name `/<node>/<group>/t=<boot>/seq=<number>`, which a member may give to a publication.
///
/// ```
/// use byname_client::sync::publication_name;
///
/// let name = publication_name(&"/alice".parse()?, &"/chat".parse()?, 1795000000, 3);
/// assert_eq!(name.to_string(), "/alice/chat/t=1795000000/seq=3");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn publication_name(node: &Name, group: &Name, boot: u64, number: u64) -> Name {
    node.join_name(group.as_ref())
        .join_number(component_type::TIMESTAMP, boot)
        .join_number(component_type::SEQUENCE_NUM, number)
}

/// A group that the application is a member of.
#[derive(Debug)]
pub struct Group {
    /// Prefix of its sync Interests.
    pub(crate) prefix: Name,
    pub(crate) sync: StateVectorSync,
    /// Data that waits for certificates.
    pub(crate) checks: VecDeque<(RequestId, Vec<u8>)>,
    pub(crate) rejected: u64,
}

impl Group {
    pub(crate) fn new(group: Name, node: Name, options: SyncOptions, now: Now) -> Self {
        let prefix = group.join_number(component_type::VERSION, VERSION);
        let sync = StateVectorSync::new(node, options, now);
        Group { prefix, sync, checks: VecDeque::new(), rejected: 0 }
    }

    /// Number of states that were not trusted, or malformed.
    pub fn rejected(&self) -> u64 {
        self.rejected
    }

    /// The group's protocol.
    pub fn sync(&self) -> &StateVectorSync {
        &self.sync
    }

    /// A state waits for its certificates. Returns the check that makes room for it.
    pub(crate) fn hold(&mut self, check: RequestId, packet: Vec<u8>) -> Option<RequestId> {
        let oldest = if self.checks.len() == CHECKS_MAX { self.checks.pop_front() } else { None };
        self.checks.push_back((check, packet));
        oldest.map(|(check, _)| check)
    }
}

/// The protocol of one member, without I/O.
///
/// ```
/// use std::time::Duration;
/// use byname_client::Now;
/// use byname_client::sync::{StateVectorSync, SyncOptions};
///
/// let now = Now { elapsed: Duration::ZERO, unix: Duration::from_secs(1_795_000_000) };
/// let mut alice = StateVectorSync::new("/alice".parse()?, SyncOptions::default(), now);
/// let mut bob = StateVectorSync::new("/bob".parse()?, SyncOptions::default(), now);
/// assert_eq!(alice.publish(now.elapsed), 1);
/// assert!(alice.poll(now.elapsed), "the others must hear of it at once");
/// let updates = bob.on_vector(alice.state(), now);
/// assert_eq!((updates[0].node.to_string(), updates[0].last), ("/alice".to_owned(), 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StateVectorSync {
    node: Name,
    boot: u64,
    options: SyncOptions,
    state: StateVector,
    /// When each member's number changed last.
    changed: BTreeMap<Name, Duration>,
    /// What others have sent since this member noticed that one of them knows less. `None`: all know the same.
    heard: Option<StateVector>,
    deadline: Duration,
    refused: u64,
}

impl StateVectorSync {
    /// A member with this name.
    pub fn new(node: Name, options: SyncOptions, now: Now) -> Self {
        let boot = if options.boot == 0 { now.unix.as_secs() } else { options.boot };
        StateVectorSync {
            node,
            boot,
            state: options.state.clone(),
            options,
            changed: BTreeMap::new(),
            heard: None,
            // A new member shows itself at once.
            deadline: now.elapsed,
            refused: 0,
        }
    }

    /// Name of this member.
    pub fn node(&self) -> &Name {
        &self.node
    }

    /// Boot time of this member.
    pub fn boot(&self) -> u64 {
        self.boot
    }

    /// The numbers of all members.
    pub fn state(&self) -> &StateVector {
        &self.state
    }

    /// Number of members that were not taken up, because the vector is full.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Counts a publication of this member. Returns its number. The vector is due at once.
    pub fn publish(&mut self, now: Duration) -> u64 {
        let number = self.state.number(&self.node, self.boot).saturating_add(1);
        self.state.set(self.node.clone(), self.boot, number);
        self.changed.insert(self.node.clone(), now);
        self.deadline = now;
        // The members that know less are told by this.
        self.heard = None;
        number
    }

    /// Makes the vector due, for example when the group can reach this member.
    pub fn hurry(&mut self, now: Duration) {
        self.deadline = now;
        self.heard = None;
    }

    /// Takes the vector of another member. Returns what is new.
    pub fn on_vector(&mut self, vector: &StateVector, now: Now) -> Vec<Update> {
        if vector.entries().any(|(_, boot, _)| boot > now.unix.as_secs().saturating_add(FUTURE_MAX_S)) {
            return Vec::new();
        }
        let (mut updates, mut is_outdated, mut is_recent) = (Vec::new(), false, true);
        for (node, boot, number) in vector.entries() {
            let known = self.state.number(node, boot);
            let is_own = boot == self.boot && *node == self.node;
            if number > known && is_own {
                // Only this member counts its publications.
                continue;
            }
            if number > known {
                if !self.has_room(node, boot) {
                    self.refused += 1;
                    continue;
                }
                self.state.set(node.clone(), boot, number);
                self.changed.insert(node.clone(), now.elapsed);
                updates.push(Update { node: node.clone(), boot, first: known + 1, last: number });
            } else if number < known {
                is_outdated = true;
                is_recent &= self.is_recent(node, now.elapsed);
            }
        }
        if self.state.entries().any(|(node, boot, _)| vector.number(node, boot) == 0) {
            is_outdated = true;
            is_recent = false;
        }
        if let Some(heard) = &mut self.heard {
            heard.merge_known(vector, &self.state);
        }
        if !is_outdated {
            self.rest(now.elapsed);
        } else if !is_recent && self.heard.is_none() {
            // Its sender may be about to hear what changed a moment ago. All else it must be told.
            let mut heard = StateVector::default();
            heard.merge_known(vector, &self.state);
            self.heard = Some(heard);
            self.deadline = now.elapsed + self.suppression();
        }
        updates
    }

    /// When [`StateVectorSync::poll`] has something to do.
    pub fn next_deadline(&self) -> Duration {
        self.deadline
    }

    /// Returns whether the vector must be sent now.
    pub fn poll(&mut self, now: Duration) -> bool {
        if now < self.deadline {
            return false;
        }
        let is_told_by_others = self.heard.as_ref().is_some_and(|heard| !self.state.is_ahead_of(heard));
        self.rest(now);
        !is_told_by_others
    }

    fn rest(&mut self, now: Duration) {
        self.heard = None;
        self.deadline = now + self.options.period.mul_f64(0.9 + 0.2 * rand::random::<f64>());
    }

    fn suppression(&self) -> Duration {
        let part: f64 = rand::random();
        self.options.suppression.mul_f64(1.0 - ((part - 1.0) * DECAY).exp())
    }

    fn is_recent(&self, node: &Name, now: Duration) -> bool {
        self.changed.get(node).is_some_and(|at| now.saturating_sub(*at) <= self.options.suppression)
    }

    fn has_room(&self, node: &Name, boot: u64) -> bool {
        self.state.number(node, boot) > 0
            || self.state.encoded_bytes_max() + vector::entry_bytes_max(node) <= VECTOR_BYTES_MAX
    }
}

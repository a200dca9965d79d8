//! Commands that have been sent, until their answers have come.
//!
//! Answers may come in any order, because several packet threads may handle the commands. They are handed on in the
//! order in which the commands were sent.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use byname_control::mgmt::tlv::ControlParameters;
use byname_wire::name::{NameRef, component_type};
use byname_wire::{Data, DecodeError, Interest, Name};

use super::direct::Change;
use byname_client::management::{LIFETIME, ManagementError, answered, command_interest};
use byname_client::{ConnectionLost, ExchangeError, Fields, Link};

/// Most commands in flight: enough to keep the router busy while it waits for its disk, which answers many commands at
/// once, and fewer than the router's queue of 4,096 for management.
const COMMANDS_MAX: usize = 1024;

/// A command in flight.
struct Sent {
    change: Change,
    line: u64,
    face_id: u64,
    deadline: Instant,
    answer: Option<Result<ControlParameters, ManagementError>>,
}

/// A command that has been answered, or was not answered in time.
pub struct Done {
    /// What was asked.
    pub change: Change,
    /// Number of its line.
    pub line: u64,
    /// The face of the route.
    pub face_id: u64,
    /// The answer.
    pub answer: Result<ControlParameters, ManagementError>,
}

/// The commands in flight, in the order in which they were sent.
pub struct InFlight {
    /// Whether the connection is local to the router's host.
    local: bool,
    sent: VecDeque<Sent>,
    /// Number of the first of `sent`, counted from the first command of all.
    first: u64,
    /// Numbers of commands by the digest at the end of their names.
    by_digest: HashMap<[u8; 32], u64>,
    /// The routes that commands in flight change.
    routes: HashSet<Route>,
}

/// Face, prefix and origin.
type Route = (u64, Name, u64);

fn route_of(change: &Change, face_id: u64) -> Route {
    let (prefix, origin) = change.route();
    (face_id, prefix.clone(), origin)
}

impl InFlight {
    /// No commands, for a connection that is local to the router's host or not.
    pub fn new(local: bool) -> Self {
        InFlight { local, sent: VecDeque::new(), first: 0, by_digest: HashMap::new(), routes: HashSet::new() }
    }

    /// Whether no command is in flight.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Whether there is room for one more command.
    pub fn has_room(&self) -> bool {
        self.sent.len() < COMMANDS_MAX
    }

    /// Whether a command in flight changes the same route. The order of two such commands matters.
    pub fn changes(&self, change: &Change, face_id: u64) -> bool {
        self.routes.contains(&route_of(change, face_id))
    }

    /// Queues a command, to be sent with the next [`InFlight::receive`]. No other command in flight may change its route.
    pub fn push(&mut self, client: &mut Link, change: Change, line: u64, face_id: u64) -> Result<(), DecodeError> {
        let (verb, parameters) = match &change {
            Change::Add(args) => ("register", args.parameters(face_id)),
            Change::Remove(args) => ("unregister", args.parameters(face_id)),
        };
        let packet = command_interest("rib", verb, &parameters);
        let name = Interest::decode(&packet)?.name;
        let digest = digest_of(&name).expect("a signed Interest's name ends with a digest");
        self.by_digest.insert(digest, self.first + self.sent.len() as u64);
        client.outbox().push(&packet, Fields::default());
        self.routes.insert(route_of(&change, face_id));
        self.sent.push_back(Sent { change, line, face_id, deadline: Instant::now() + LIFETIME, answer: None });
        Ok(())
    }

    /// Sends what is queued, and waits for some answers.
    pub fn receive(&mut self, client: &mut Link) -> Result<(), ConnectionLost> {
        let Some(oldest) = self.sent.front() else { return Ok(()) };
        let local = self.local;
        let wait = oldest.deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        client.receive(wait, |incoming, _| {
            let (name, answer) = if let Some(reason) = incoming.nack {
                let Ok(interest) = Interest::decode(incoming.packet) else { return };
                let name = interest.name.to_name();
                (interest.name, Err(ExchangeError::Nack { name, reason }))
            } else {
                let Ok(data) = Data::decode(incoming.packet) else { return };
                (data.name, Ok(data.content))
            };
            let number = digest_of(&name).and_then(|digest| self.by_digest.remove(&digest));
            let Some(sent) = number.and_then(|number| self.sent.get_mut((number - self.first) as usize)) else {
                return;
            };
            let command = sent.change.command();
            sent.answer = Some(match answer {
                Ok(content) => answered(command, content),
                Err(error) => Err(unanswered(command, error, local)),
            });
        })
    }

    /// The oldest command, if its answer has come or its time is over.
    pub fn next_done(&mut self) -> Option<Done> {
        let oldest = self.sent.front()?;
        if oldest.answer.is_none() && oldest.deadline > Instant::now() {
            return None;
        }
        let Sent { change, line, face_id, answer, .. } = self.sent.pop_front()?;
        self.first += 1;
        self.routes.remove(&route_of(&change, face_id));
        let answer = answer.unwrap_or_else(|| {
            let first = self.first;
            self.by_digest.retain(|_, number| *number >= first);
            let error = ExchangeError::Timeout { name: change.route().0.clone(), waited: LIFETIME, tries: 1 };
            Err(unanswered(change.command(), error, self.local))
        });
        Some(Done { change, line, face_id, answer })
    }

    /// First and last line of the commands that have no answer yet.
    pub fn lines(&self) -> Option<(u64, u64)> {
        Some((self.sent.front()?.line, self.sent.back()?.line))
    }
}

fn digest_of(name: &NameRef<'_>) -> Option<[u8; 32]> {
    let last = name.component(-1).filter(|last| last.typ == component_type::PARAMETERS_SHA256_DIGEST)?;
    last.value.try_into().ok()
}

fn unanswered(command: &str, error: ExchangeError, local: bool) -> ManagementError {
    ManagementError::Unanswered { command: command.to_owned(), error, local }
}

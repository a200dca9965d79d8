//! Commands that have been sent, until their answers have come.
//!
//! Answers may come in any order, because several packet threads may handle the commands. They are handed on in the
//! order in which the commands were sent.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

use byname_control::mgmt::tlv::ControlParameters;
use byname_wire::name::{NameRef, component_type};
use byname_wire::{Data, DecodeError, Interest, Name};

use byname_client::management::{LIFETIME, ManagementError, answered, command_interest};
use byname_client::{ConnectionLost, ExchangeError, Fields, Link};

/// Most commands in flight: enough to keep the router busy while it waits for its disk, which answers many commands at
/// once, and fewer than the router's queue of 4,096 for management.
const COMMANDS_MAX: usize = 1024;

/// A command that does not wait for the answers to those before it.
pub trait Request {
    /// What it changes. The order of two commands about the same matters.
    type About: Eq + Hash;

    /// What it changes.
    fn about(&self) -> Self::About;
    /// The name that it is about, for messages.
    fn name(&self) -> &Name;
    /// Module and verb.
    fn command(&self) -> (&'static str, &'static str);
    /// The parameters.
    fn parameters(&self) -> ControlParameters;
}

/// A command in flight.
struct Sent<R> {
    request: R,
    line: u64,
    deadline: Instant,
    answer: Option<Result<ControlParameters, ManagementError>>,
}

/// A command that has been answered, or was not answered in time.
pub struct Done<R> {
    /// What was asked.
    pub request: R,
    /// Number of its line.
    pub line: u64,
    /// The answer.
    pub answer: Result<ControlParameters, ManagementError>,
}

/// The commands in flight, in the order in which they were sent.
pub struct InFlight<R: Request> {
    /// Whether the connection is local to the router's host.
    local: bool,
    sent: VecDeque<Sent<R>>,
    /// Number of the first of `sent`, counted from the first command of all.
    first: u64,
    /// Numbers of commands by the digest at the end of their names.
    by_digest: HashMap<[u8; 32], u64>,
    /// What commands in flight change.
    changing: HashSet<R::About>,
}

impl<R: Request> InFlight<R> {
    /// No commands, for a connection that is local to the router's host or not.
    pub fn new(local: bool) -> Self {
        InFlight { local, sent: VecDeque::new(), first: 0, by_digest: HashMap::new(), changing: HashSet::new() }
    }

    /// Whether no command is in flight.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Whether there is room for one more command.
    pub fn has_room(&self) -> bool {
        self.sent.len() < COMMANDS_MAX
    }

    /// Whether a command in flight changes the same.
    pub fn changes(&self, request: &R) -> bool {
        self.changing.contains(&request.about())
    }

    /// Queues a command, to be sent with the next [`InFlight::receive`]. No other command in flight may change the same.
    pub fn push(&mut self, client: &mut Link, request: R, line: u64) -> Result<(), DecodeError> {
        let (module, verb) = request.command();
        let packet = command_interest(module, verb, &request.parameters());
        let name = Interest::decode(&packet)?.name;
        let digest = digest_of(&name).expect("a signed Interest's name ends with a digest");
        self.by_digest.insert(digest, self.first + self.sent.len() as u64);
        client.outbox().push(&packet, Fields::default());
        self.changing.insert(request.about());
        self.sent.push_back(Sent { request, line, deadline: Instant::now() + LIFETIME, answer: None });
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
            let command = words(&sent.request);
            sent.answer = Some(match answer {
                Ok(content) => answered(&command, content),
                Err(error) => Err(unanswered(command, error, local)),
            });
        })
    }

    /// The oldest command, if its answer has come or its time is over.
    pub fn next_done(&mut self) -> Option<Done<R>> {
        let oldest = self.sent.front()?;
        if oldest.answer.is_none() && oldest.deadline > Instant::now() {
            return None;
        }
        let Sent { request, line, answer, .. } = self.sent.pop_front()?;
        self.first += 1;
        self.changing.remove(&request.about());
        let answer = answer.unwrap_or_else(|| {
            let first = self.first;
            self.by_digest.retain(|_, number| *number >= first);
            let error = ExchangeError::Timeout { name: request.name().clone(), waited: LIFETIME, tries: 1 };
            Err(unanswered(words(&request), error, self.local))
        });
        Some(Done { request, line, answer })
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

/// The command in messages.
fn words(request: &impl Request) -> String {
    let (module, verb) = request.command();
    format!("{module}/{verb}")
}

fn unanswered(command: String, error: ExchangeError, local: bool) -> ManagementError {
    ManagementError::Unanswered { command, error, local }
}

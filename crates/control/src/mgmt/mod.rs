//! The NFD management protocol: commands, datasets and notifications.
//!
//! [`Management`] answers the Interests that the worker forwards to the internal face. It runs
//! without a thread or a clock of its own; [`crate::service`] drives it.

mod announcement;
mod command;
mod dataset;
mod events;
mod execute;
mod faces;
mod strategies;
mod tags;
#[cfg(test)]
mod tests;
pub mod tlv;

use byname_face::{FaceEvent, ForwarderHandle};
use byname_forward::face_table::{FaceMap, Scope};
use byname_forward::{FaceId, Packet};
use byname_wire::data::DataBuilder;
use byname_wire::name::component_type;
use byname_wire::{DecodeError, Interest, Name, PACKET_BYTES_MAX};

pub use command::Command;

use self::dataset::{Datasets, Source, Sources};
use self::events::FaceEvents;
use self::strategies::StrategyChoices;
use self::tlv::{ControlParameters, ControlResponse, Element, FaceQueryFilter};
use crate::fib_writer::FibWriter;
use crate::rib::{Rib, RibError, Route};
use crate::security::{Authorizer, Module};
use crate::tags::TagRouting;

/// FreshnessPeriod of all answers, as in NFD.
const RESPONSE_FRESHNESS_MS: u64 = 1000;
/// Components of `/localhost/nfd/<module>/<verb>`.
const VERB_END: usize = 4;
/// Names that the outcome of one step is to touch at most, of routes that expire.
const EXPIRE_STEP: usize = 4096;

/// One moment on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds on a clock that never steps.
    pub ms: u64,
    /// Milliseconds since the Unix epoch.
    pub unix_ms: u64,
}

/// What management did, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ManagementCounters {
    /// Commands answered with 200.
    pub commands_ok: u64,
    /// Commands answered with another code, refused ones included.
    pub commands_failed: u64,
    /// Datasets published.
    pub datasets: u64,
    /// Notifications sent.
    pub notifications: u64,
    /// Packets that were no Interest that management knows what to do with.
    pub ignored: u64,
}

/// Everything that management decides on.
pub struct Management {
    forwarder: ForwarderHandle,
    authorizer: Authorizer,
    rib: Rib,
    fib: FibWriter,
    tags: TagRouting,
    strategies: StrategyChoices,
    /// Scope of each face that is there, as far as events have told.
    scopes: FaceMap<Scope>,
    datasets: Datasets,
    events: FaceEvents,
    counters: ManagementCounters,
    started_unix_ms: u64,
    /// `/localhost/nfd` and `/localhop/nfd`.
    prefixes: [Name; 2],
    more_to_search: bool,
}

impl Management {
    /// Management of a forwarder. `strategies` are pairs of a prefix and a strategy's name.
    ///
    /// Until [`Management::commit`] nothing reaches the forwarder.
    pub fn new(
        forwarder: ForwarderHandle,
        authorizer: Authorizer,
        routes_max: usize,
        fib: FibWriter,
        tags: TagRouting,
        strategies: impl IntoIterator<Item = (Name, Name)>,
        now: Moment,
    ) -> Self {
        let prefixes = ["/localhost/nfd", "/localhop/nfd"].map(|uri| uri.parse().expect("a literal name"));
        let events: Name = "/localhost/nfd/faces/events".parse().expect("a literal name");
        let mut management = Management {
            forwarder,
            authorizer,
            rib: Rib::new(routes_max),
            fib,
            tags,
            strategies: StrategyChoices::new(strategies),
            scopes: FaceMap::default(),
            datasets: Datasets::default(),
            events: FaceEvents::new(events),
            counters: ManagementCounters::default(),
            started_unix_ms: now.unix_ms,
            prefixes,
            more_to_search: false,
        };
        for prefix in &management.prefixes {
            let added = management.rib.add_nexthop(&mut management.fib, prefix.as_ref(), FaceId::INTERNAL, 0);
            added.expect("an empty RIB has room");
        }
        management
    }

    /// The RIB.
    pub fn rib(&self) -> &Rib {
        &self.rib
    }

    /// The RIB, to observe routes of an origin.
    pub fn rib_mut(&mut self) -> &mut Rib {
        &mut self.rib
    }

    /// The FIB.
    pub fn fib(&self) -> &FibWriter {
        &self.fib
    }

    /// What it did.
    pub fn counters(&self) -> ManagementCounters {
        self.counters
    }

    /// Adds a route that no command asked for: one of the configuration.
    pub fn add_route(&mut self, name: &Name, route: &Route) -> Result<(), RibError> {
        self.rib.register(&mut self.fib, name.as_ref(), route)
    }

    /// Notes what happened to a face; returns the notification to send.
    pub fn face_event(&mut self, event: &FaceEvent) -> Packet {
        match event {
            FaceEvent::Created(status) => {
                self.scopes.insert(status.id, status.scope);
            }
            FaceEvent::Destroyed(status) => {
                self.scopes.remove(&status.id);
                self.rib.remove_face(&mut self.fib, status.id);
                self.tags.remove_face(status.id);
                self.more_to_search = true;
            }
            FaceEvent::Up(_) | FaceEvent::Down(_) => {}
        }
        self.counters.notifications += 1;
        self.events.notify(event)
    }

    /// When [`Management::advance`] has something to do; `Some(0)`: now.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        if self.more_to_search {
            return Some(0);
        }
        [self.rib.next_deadline_ms(), self.datasets.next_deadline_ms()].into_iter().flatten().min()
    }

    /// Removes routes that expired or whose face is gone, a bounded number at a time.
    pub fn advance(&mut self, now: Moment) {
        self.rib.expire(&mut self.fib, now.ms, EXPIRE_STEP);
        self.more_to_search = self.rib.search_step(&mut self.fib);
        self.datasets.evict(now.ms);
    }

    /// Makes all changes so far visible to the worker. To be called before answers are sent.
    pub fn commit(&mut self) {
        self.fib.commit();
        self.tags.commit();
        if let Some(choices) = self.strategies.take_changed() {
            self.forwarder.set_strategy_choices(choices);
        }
    }

    /// The answer to an Interest from the internal face, if it deserves one now.
    pub fn answer(&mut self, wire: &[u8], incoming: FaceId, now: Moment) -> Option<Packet> {
        let answer = self.try_answer(wire, incoming, now);
        self.counters.ignored += u64::from(answer.is_none());
        answer
    }

    fn try_answer(&mut self, wire: &[u8], incoming: FaceId, now: Moment) -> Option<Packet> {
        let interest = Interest::decode(wire).ok()?;
        let [localhost, localhop] = [0, 1].map(|i| self.prefixes[i].as_ref().is_prefix_of(&interest.name));
        if !localhost && !localhop {
            return None;
        }
        let mut components = interest.name.components().skip(VERB_END - 2);
        let (module, verb) = (components.next()?.value, components.next()?.value);
        // ndnd's clients say /localhop whenever they speak TCP, to a forwarder on their own host too.
        let from_host = localhost || self.scope_of(incoming) == Scope::Local;
        if (module, verb) == (b"tags", b"update") {
            return self.answer_tag_update(&interest, incoming, now);
        }
        match Command::from_names(module, verb) {
            // Neighbours may register, if they may anything.
            Some((command, Module::Rib)) => self.answer_command(&interest, command, Module::Rib, incoming, now),
            Some((command, module)) if from_host => self.answer_command(&interest, command, module, incoming, now),
            _ if !from_host => None,
            _ if (module, verb) == (b"faces", b"events") => self.events.answer(&interest),
            _ if is_dataset(module, verb) => self.answer_dataset(&interest, module, verb, now),
            _ if interest.application_parameters.is_some() || components.next().is_some() => {
                respond(&interest, &ControlResponse::new(501, "Unknown command"))
            }
            _ => None,
        }
    }

    fn answer_command(
        &mut self,
        interest: &Interest<'_>,
        command: Command,
        module: Module,
        incoming: FaceId,
        now: Moment,
    ) -> Option<Packet> {
        let scope = self.scope_of(incoming);
        let response = match self.authorizer.authorize(interest, module, scope, now.unix_ms) {
            Err(refusal) => ControlResponse::new(403, refusal.to_string()),
            Ok(_) if command == Command::RibAnnounce => self.rib_announce(interest, incoming, scope, now),
            Ok(_) if module == Module::Tags => self.tag_command(command, interest, incoming),
            Ok(_) => match parameters(interest) {
                Err(error) => ControlResponse::new(400, format!("Malformed command: {error}")),
                Ok(parameters) => match command.validate(&parameters) {
                    Err(why) => ControlResponse::new(400, why),
                    Ok(()) => self.execute(command, parameters, incoming, now),
                },
            },
        };
        if response.code == 200 {
            self.counters.commands_ok += 1;
        } else {
            self.counters.commands_failed += 1;
        }
        respond(interest, &response)
    }

    fn answer_dataset(&mut self, interest: &Interest<'_>, module: &[u8], verb: &[u8], now: Moment) -> Option<Packet> {
        let is_query = verb == b"query";
        let dataset_len = VERB_END + usize::from(is_query);
        let sources = Sources { rib: &self.rib, fib: &self.fib, now_ms: now.ms };
        let len = interest.name.len();
        if len > dataset_len && interest.name.component(-1).is_some_and(dataset::names_part) {
            return self.datasets.segment(interest.name, &sources);
        }
        // pynfdc signs what it asks, though nobody checks who reads.
        let is_signed =
            interest.name.component(-1).is_some_and(|last| last.typ == component_type::PARAMETERS_SHA256_DIGEST);
        if len != dataset_len + usize::from(is_signed) || !interest.can_be_prefix {
            return None;
        }
        if interest.name.value().len() > dataset::NAME_BYTES_MAX {
            return None;
        }
        let content = match (module, verb) {
            (b"rib", _) => Source::Rib(None),
            (b"fib", _) => Source::Fib(None),
            _ => match self.whole_dataset(interest, module, verb, now) {
                Ok(content) => Source::Whole(content),
                Err(response) => return respond_with_nack(interest, &response),
            },
        };
        self.counters.datasets += 1;
        let sources = Sources { rib: &self.rib, fib: &self.fib, now_ms: now.ms };
        Some(self.datasets.publish(&interest.name.to_name(), content, &sources, now.unix_ms))
    }

    /// The content of a dataset that is never large.
    fn whole_dataset(
        &mut self,
        interest: &Interest<'_>,
        module: &[u8],
        verb: &[u8],
        now: Moment,
    ) -> Result<Vec<u8>, ControlResponse> {
        let mut out = Vec::new();
        match (module, verb) {
            (b"faces", b"channels") => {
                for local_uri in self.forwarder.channels() {
                    tlv::ChannelStatus { local_uri }.encode_to(&mut out);
                }
            }
            (b"faces", _) => {
                let filter = match interest.name.component(VERB_END as isize) {
                    Some(filter) if verb == b"query" => FaceQueryFilter::decode(filter.value),
                    _ => Ok(FaceQueryFilter::default()),
                };
                let filter = filter.map_err(|_| ControlResponse::new(400, "Malformed filter"))?;
                let entries = self.forwarder.faces();
                let entries = entries.iter().map(faces::dataset_entry).filter(|entry| faces::matches(&filter, entry));
                entries.for_each(|entry| entry.encode_to(&mut out));
            }
            (b"cs", _) => execute::cs_info(&self.forwarder.cs_info()).encode_to(&mut out),
            (b"strategy-choice", _) => {
                for (name, strategy) in self.strategies.iter() {
                    let strategy = tlv::StrategyName(strategy.clone());
                    tlv::StrategyChoice { name: name.clone(), strategy }.encode_to(&mut out);
                }
            }
            _ => self.general_status(now).encode_value(&mut out),
        }
        Ok(out)
    }

    /// The scope of a face; of one that is gone, or was never there, the less trusted.
    fn scope_of(&self, face: FaceId) -> Scope {
        let known = self.scopes.get(&face).copied();
        known.or_else(|| self.forwarder.face(face).map(|status| status.scope)).unwrap_or(Scope::NonLocal)
    }

    fn face_exists(&self, face: FaceId) -> bool {
        self.scopes.contains_key(&face) || self.forwarder.face(face).is_some()
    }
}

fn is_dataset(module: &[u8], verb: &[u8]) -> bool {
    const DATASETS: [(&[u8], &[u8]); 8] = [
        (b"faces", b"list"),
        (b"faces", b"query"),
        (b"faces", b"channels"),
        (b"fib", b"list"),
        (b"rib", b"list"),
        (b"cs", b"info"),
        (b"strategy-choice", b"list"),
        (b"status", b"general"),
    ];
    DATASETS.contains(&(module, verb))
}

/// The ControlParameters in a command's name.
fn parameters(interest: &Interest<'_>) -> Result<ControlParameters, DecodeError> {
    let component = interest.name.component(VERB_END as isize);
    let component = component.ok_or(DecodeError::Missing(tlv::types::CONTROL_PARAMETERS))?;
    ControlParameters::decode(component.value)
}

fn respond(interest: &Interest<'_>, response: &ControlResponse) -> Option<Packet> {
    let answer = |response: &ControlResponse| {
        let data = DataBuilder::new(interest.name.to_name()).freshness_ms(RESPONSE_FRESHNESS_MS);
        let content = if response.body.is_empty() {
            // python-ndn reads parameters out of every answer, a refusal too.
            response.clone().with_body(&ControlParameters::default()).encode()
        } else {
            response.encode()
        };
        packet_of(&data.content(content).encode())
    };
    answer(response).or_else(|| answer(&ControlResponse::new(response.code, "")))
}

/// What NFD answers in place of a dataset.
fn respond_with_nack(interest: &Interest<'_>, response: &ControlResponse) -> Option<Packet> {
    let data = DataBuilder::new(interest.name.to_name()).freshness_ms(RESPONSE_FRESHNESS_MS);
    let data = data.content_type(byname_wire::data::content_type::NACK);
    packet_of(&data.content(response.encode()).encode())
}

/// A packet of these octets, unless they are too many: an answer repeats the Interest's name, and
/// often what the name says once more in its content.
fn packet_of(octets: &[u8]) -> Option<Packet> {
    (octets.len() <= PACKET_BYTES_MAX).then(|| Packet::copy_from(octets))
}

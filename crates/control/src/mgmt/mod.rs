//! The NFD management protocol: commands, datasets and notifications.
//!
//! [`Management`] answers the Interests that the worker forwards to the internal face. It has no thread or clock of its
//! own; `service` drives it.

mod announced;
mod announcement;
pub mod audit;
mod audited;
mod batch;
mod command;
mod creation;
mod dataset;
mod durable;
mod events;
mod execute;
mod explain;
mod faces;
mod flat;
mod handover;
pub mod json;
mod news;
pub mod reload;
mod strategies;
mod tags;
#[cfg(test)]
mod tests;
mod trace;
mod traffic;
pub mod view;
mod waiting;

use std::time::Duration;

use byname_face::{FaceEvent, FaceStatus, ForwarderHandle, Registration};
use byname_forward::face_table::{FaceMap, Scope};
use byname_forward::{FaceId, Packet};
use byname_wire::data::DataBuilder;
use byname_wire::name::component_type;
use byname_wire::{DecodeError, Interest, Name, NameRef, PACKET_BYTES_MAX};

pub use announced::{ANNOUNCEMENTS_MAX, LearningCounters};
pub use command::Command;
pub use creation::Created;
pub use durable::{Restored, Returned};

/// Elements of the protocol.
pub use byname_mgmt as tlv;
pub use byname_trust::Moment;

use self::announced::Announced;
use self::audit::{Audit, Entry};
use self::creation::Creations;
use self::dataset::{Datasets, Source, Sources};
use self::durable::Durable;
use self::events::FaceEvents;
use self::faces::AnswerForm;
use self::flat::FlatNames;
use self::news::{Change, News};
use self::reload::Reloads;
use self::strategies::StrategyChoices;
use self::tags::OwnTrees;
use self::tlv::{ControlParameters, ControlResponse, Element, FaceQueryFilter};
use self::trace::Traces;
use self::traffic::Counting;
use self::waiting::Waiting;
use crate::balance::{Balancer, FaceLoad};
use crate::fib_writer::FibWriter;
use crate::metrics::Snapshot;
use crate::own_names::{localhop_prefix, localhost_prefix};
use crate::rib::Rib;
use crate::security::{Authorizer, Module, Refusal};
use crate::state::records::ContentStoreRecord;
use crate::tags::TagRouting;
use byname_trust::validator::Outcome;

/// FreshnessPeriod of all answers, as in NFD.
const RESPONSE_FRESHNESS_MS: u64 = 1000;
/// Number of components in `/localhost/nfd/<module>/<verb>`.
const VERB_END: usize = 4;
/// Most names whose expired routes one step removes.
const EXPIRE_STEP: usize = 4096;

/// Counters of management.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ManagementCounters {
    /// Commands answered with 200.
    pub commands_ok: u64,
    /// Commands answered with another code, including refused ones.
    pub commands_failed: u64,
    /// Datasets published.
    pub datasets: u64,
    /// Notifications sent.
    pub notifications: u64,
    /// `faces/create` commands whose answer had to wait for a connection.
    pub commands_deferred: u64,
    /// Packets without an answer: neither a valid command nor a request for a dataset or notification.
    pub ignored: u64,
}

/// State of management: RIB, FIB, rights, strategies, announcements and datasets.
pub struct Management {
    forwarder: ForwarderHandle,
    authorizer: Authorizer,
    rib: Rib,
    fib: FibWriter,
    tags: TagRouting,
    trees: OwnTrees,
    strategies: StrategyChoices,
    flat: FlatNames,
    announced: Announced,
    /// Scope of each existing face, from the events so far.
    scopes: FaceMap<Scope>,
    datasets: Datasets,
    events: FaceEvents,
    counters: ManagementCounters,
    creations: Creations,
    started_unix_ms: u64,
    /// `/localhost/nfd` and `/localhop/nfd`.
    prefixes: [Name; 2],
    more_to_search: bool,
    /// Moves faces between packet threads, if there are several.
    balancer: Option<Balancer>,
    /// Settings of the content store that commands have changed.
    content_store: ContentStoreRecord,
    /// Restarts that failed, and why the last one did.
    failed_restarts: (u64, Option<String>),
    /// What this process has taken over from another one, in words.
    taken_over: Option<String>,
    durable: Durable,
    /// The condition of the store, in words; see [`Management::say_state`].
    state: String,
    /// Passes commands of the module `config` to the process.
    reloads: Option<Reloads>,
    /// Lines of the audit log for commands that the process carries out.
    reload_entries: Vec<(Name, Box<Entry>)>,
    audit: Audit,
    news: News,
    traces: Traces,
    /// Whether packet threads count popular prefixes.
    counting: Counting,
    /// Commands and announcements that wait for certificates.
    waiting: Waiting,
}

impl Management {
    /// Creates the management of a forwarder. `strategies` are pairs of a prefix and a strategy name.
    ///
    /// Nothing reaches the forwarder before [`Management::commit`].
    pub fn new(
        forwarder: ForwarderHandle,
        authorizer: Authorizer,
        routes_max: usize,
        fib: FibWriter,
        tags: TagRouting,
        strategies: impl IntoIterator<Item = (Name, Name)>,
        now: Moment,
    ) -> Self {
        let prefixes = [localhost_prefix(), localhop_prefix()];
        let events: Name = "/localhost/nfd/faces/events".parse().expect("a literal name");
        let mut management = Management {
            forwarder,
            authorizer,
            rib: Rib::new(routes_max),
            fib,
            tags,
            trees: OwnTrees::default(),
            strategies: StrategyChoices::new(strategies),
            flat: FlatNames::default(),
            announced: Announced::new(ANNOUNCEMENTS_MAX),
            scopes: FaceMap::default(),
            datasets: Datasets::default(),
            events: FaceEvents::new(events),
            counters: ManagementCounters::default(),
            creations: Creations::default(),
            started_unix_ms: now.unix_ms,
            prefixes,
            more_to_search: false,
            balancer: None,
            content_store: ContentStoreRecord::default(),
            failed_restarts: (0, None),
            taken_over: None,
            durable: Durable::default(),
            state: "not kept".to_owned(),
            reloads: None,
            reload_entries: Vec::new(),
            audit: Audit::off(),
            news: News::default(),
            traces: Traces::default(),
            counting: Counting::default(),
            waiting: Waiting::default(),
        };
        management.fib.watch(management.tags.labels().cloned());
        for prefix in &management.prefixes {
            let kept = management.rib.keep_own(&mut management.fib, prefix.clone());
            kept.expect("an empty RIB has room");
        }
        management.serve_certificates();
        management
    }

    /// The RIB.
    pub fn rib(&self) -> &Rib {
        &self.rib
    }

    /// The RIB, for observing routes and taking its events.
    pub fn rib_mut(&mut self) -> &mut Rib {
        &mut self.rib
    }

    /// The face to this host's hub, if there is one.
    pub fn hub(&self) -> Option<FaceId> {
        self.rib.hub(self.prefixes[1].as_ref())
    }

    /// Whether a face leads to an application on this host.
    pub fn is_local(&self, face: FaceId) -> bool {
        self.scope_of(face) == Scope::Local
    }

    /// The FIB.
    pub fn fib(&self) -> &FibWriter {
        &self.fib
    }

    /// The FIB, for exchanging its engine.
    pub(crate) fn fib_mut(&mut self) -> &mut FibWriter {
        &mut self.fib
    }

    /// Rights of signers.
    pub fn authorizer_mut(&mut self) -> &mut Authorizer {
        &mut self.authorizer
    }

    /// The counters.
    pub fn counters(&self) -> ManagementCounters {
        self.counters
    }

    /// Sets the limit on announcements, which also limits routes learned from Data. Those beyond it stay.
    pub fn limit_announcements(&mut self, announcements_max: usize) {
        self.announced.limit(announcements_max);
    }

    /// Moves faces from busy packet threads to idle ones, if there are several threads. Loads are measured over `period`.
    pub fn balance_threads(&mut self, period: Duration, now: Moment) {
        let is_wanted = self.forwarder.threads() > 1 && !period.is_zero();
        self.balancer = is_wanted.then(|| Balancer::new(period, now.ms));
    }

    /// Number of announcements in store.
    pub fn announcements(&self) -> usize {
        self.announced.len()
    }

    /// Outcomes of the announcements that came with Data.
    pub fn learning_counters(&self) -> LearningCounters {
        self.announced.counters
    }

    /// All counters of management and of the packet threads at this moment, with series for so many faces.
    pub fn snapshot(&self, faces_max: usize) -> Snapshot {
        let faces = self.forwarder.faces();
        let refusals = self.authorizer.refusals();
        Snapshot {
            counters: self.forwarder.counters(),
            threads: self.forwarder.thread_statuses(),
            links: self.forwarder.link_totals(&faces),
            faces,
            faces_max,
            routes: self.rib.len() as u64,
            announcements: self.announcements() as u64,
            learning: self.learning_counters().all(),
            trust: self.trust_counters(),
            fib_entries: self.fib.len() as u64,
            descriptors: self.tags.len() as u64,
            descriptors_refused: self.tags.refused(),
            refusals: Refusal::ALL.into_iter().map(|refusal| (refusal.label(), refusals.of(refusal))).collect(),
            advertised: Vec::new(),
            store: None,
            audit_lost: self.audit.lost(),
            routing: None,
            certificate: None,
        }
    }

    /// Sets the words that `status/general` has about the store.
    pub fn say_state(&mut self, words: String) {
        self.state = words;
    }

    /// Begins a round of work at this time.
    pub fn begin_round(&mut self, now: Moment) {
        if let Some(summary) = self.news.advance(now.ms) {
            tracing::info!("in the last second also: {summary}");
        }
    }

    /// Logs a change of a face, or counts it. The router's own faces are no news.
    fn tell_face(&mut self, change: Change, words: &str, status: &FaceStatus) {
        if status.id >= FaceId::FIRST && self.news.lists(change) {
            tracing::info!(face = status.id.0, remote = %status.remote, local = %status.local, "{words}");
        }
    }

    /// Handles a face event. Returns the notification to send.
    pub fn face_event(&mut self, event: &FaceEvent) -> Packet {
        match event {
            FaceEvent::Created(status) => {
                self.scopes.insert(status.id, status.scope);
                self.durable.face_exists(status);
                self.audit.face_up(status);
                self.tell_face(Change::FaceCreated, "a face was created", status);
            }
            FaceEvent::Destroyed(status) => {
                self.scopes.remove(&status.id);
                self.durable.face_gone(status.id);
                self.rib.remove_face(&mut self.fib, status.id);
                self.tags.remove_face(status.id);
                self.leave_trees_of(status.id);
                self.announced.forget_face(status.id);
                self.more_to_search = true;
                self.traces.stop(&self.forwarder, status.id);
                self.audit.face_down(status.id);
                self.tell_face(Change::FaceClosed, "a face was closed", status);
            }
            FaceEvent::Up(status) => self.tell_face(Change::FaceUp, "a face is up", status),
            FaceEvent::Down(status) => self.tell_face(Change::FaceDown, "a face is down", status),
        }
        self.counters.notifications += 1;
        self.events.notify(event)
    }

    /// When [`Management::advance`] must be called. `Some(0)`: now.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        if self.more_to_search {
            return Some(0);
        }
        let announced = self.announced.next_deadline_ms();
        let balancer = self.balancer.as_ref().map(Balancer::next_deadline_ms);
        let (rib, datasets) = (self.rib.next_deadline_ms(), self.datasets.next_deadline_ms());
        let (durable, news) = (self.durable.next_deadline_ms(), self.news.next_deadline_ms());
        let (certificates, traces) = (self.authorizer.validator().next_deadline_ms(), self.traces.next_deadline_ms());
        let counting = self.counting.next_deadline_ms();
        [rib, datasets, announced, balancer, certificates, durable, news, traces, counting].into_iter().flatten().min()
    }

    /// Removes expired routes and routes of removed faces, a bounded number per call.
    pub fn advance(&mut self, now: Moment) {
        self.begin_round(now);
        let routes = self.rib.len();
        self.rib.expire(&mut self.fib, now.ms, EXPIRE_STEP);
        self.news.count(Change::RouteExpired, routes.saturating_sub(self.rib.len()) as u64);
        self.more_to_search = self.rib.search_step(&mut self.fib);
        self.datasets.evict(now.ms);
        self.announced.expire(now.ms);
        self.withdraw_stale(now.ms);
        self.traces.expire(&self.forwarder, now.ms);
        self.counting.expire(&self.forwarder, now.ms);
        if self.balancer.as_ref().is_some_and(|balancer| balancer.next_deadline_ms() <= now.ms) {
            self.balance(now);
        }
    }

    /// Moves a face to another packet thread, if the threads have been uneven for long.
    fn balance(&mut self, now: Moment) {
        let (Some(balancer), forwarder) = (&mut self.balancer, &self.forwarder) else { return };
        let busy_ns = forwarder.thread_statuses().iter().map(|thread| thread.activity.busy_ns).collect();
        let Some(uneven) = balancer.measure(now.ms, busy_ns) else { return };
        let movable = forwarder.movable_faces(uneven.busiest);
        let load = |status: FaceStatus| FaceLoad {
            face: status.id,
            packets: status.counters.packets(),
            is_movable: movable.contains(&status.id),
        };
        let of_busiest = forwarder.faces().into_iter().filter(|status| status.thread == uneven.busiest);
        let faces: Vec<FaceLoad> = of_busiest.map(load).collect();
        let Some(face) = balancer.choose(&uneven, &faces) else { return };
        balancer.settle(now.ms, face);
        let (from, to) = (uneven.busiest, uneven.idlest);
        match forwarder.move_face(face, to as u64) {
            Ok(status) => {
                let (load, gap) = (format!("{:.2}", uneven.load), format!("{:.2}", uneven.gap));
                let remote = status.remote;
                tracing::info!(face = face.0, %remote, from, to, %load, %gap, "a face moved to an idle packet thread");
            }
            Err(error) => tracing::debug!(face = face.0, from, to, %error, "a face did not move"),
        }
    }

    /// Makes all changes so far visible to the workers. Call it before the answers are sent.
    pub fn commit(&mut self) {
        self.fib.commit();
        self.lead_labels();
        self.tags.commit();
        self.use_completed();
        if let Some(announcements) = self.announced.take_changed() {
            self.fib.tables().replace_announcements(announcements);
        }
        if let Some(choices) = self.strategies.take_changed() {
            self.forwarder.set_strategy_choices(choices);
        }
        self.tell_routed();
    }

    /// Tells the forwarder which faces have gained or lost their routes. Faces with routes do not make room for new
    /// peers.
    fn tell_routed(&mut self) {
        let mut changed = self.rib.take_routed();
        changed.append(&mut self.tags.take_routed());
        if changed.is_empty() {
            return;
        }
        let has_routes = |face| (face, self.rib.has_routes(face) || self.tags.has_routes(face));
        self.forwarder.set_routed(changed.into_iter().map(has_routes).collect());
    }

    /// The answer to an Interest from the internal face. `None` if it gets none, or gets it later.
    pub fn answer(&mut self, wire: &[u8], incoming: FaceId, now: Moment) -> Option<Packet> {
        let deferred = |management: &Self| (management.counters.commands_deferred, management.waiting.parked());
        let before = deferred(self);
        let answer = self.try_answer(wire, incoming, now);
        self.counters.ignored += u64::from(answer.is_none() && deferred(self) == before);
        answer
    }

    fn try_answer(&mut self, wire: &[u8], incoming: FaceId, now: Moment) -> Option<Packet> {
        let interest = Interest::decode(wire).ok()?;
        let [localhost, localhop] = [0, 1].map(|i| self.prefixes[i].as_ref().is_prefix_of(&interest.name));
        if !localhost && !localhop {
            return self.answer_with_certificate(&interest);
        }
        let mut components = interest.name.components().skip(VERB_END - 2);
        let (module, verb) = (components.next()?.value, components.next()?.value);
        // ndnd's clients use /localhop whenever they speak TCP, even to a forwarder on their own host.
        let from_host = localhost || self.scope_of(incoming) == Scope::Local;
        if (module, verb) == (b"tags", b"update") {
            return self.answer_tag_update(&interest, incoming, now);
        }
        if localhop && from_host && self.hub().is_some() {
            // The Interest is for the hub. The strategy has tried the last nexthop, which is this router, too.
            return None;
        }
        match Command::from_names(module, verb) {
            // From a neighbour, only commands of the RIB module are accepted, if its rights allow them.
            Some((command, Module::Rib)) => self.answer_command(&interest, command, Module::Rib, incoming, now),
            Some((command, module)) if from_host => self.answer_command(&interest, command, module, incoming, now),
            _ if !from_host => None,
            _ if (module, verb) == (b"faces", b"events") => self.events.answer(&interest),
            _ if is_dataset(module, verb) => self.answer_dataset(&interest, module, verb, now),
            _ if interest.application_parameters.is_some() || components.next().is_some() => {
                respond(interest.name, &ControlResponse::new(501, "Unknown command"))
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
        match self.authorizer.chain_of_command(interest, (module, scope), incoming, now).outcome() {
            Ok(chain) => self.answer_with_chain(interest, (command, module), incoming, chain, now),
            Err(id) => {
                self.waiting.park_command(id, interest, incoming);
                None
            }
        }
    }

    /// Goes on with a command when its signer's chain is known, if one is needed.
    fn answer_with_chain(
        &mut self,
        interest: &Interest<'_>,
        (command, module): (Command, Module),
        incoming: FaceId,
        chain: Option<Outcome>,
        now: Moment,
    ) -> Option<Packet> {
        let scope = self.scope_of(incoming);
        let authorized = self.authorizer.authorize(interest, module, scope, now.unix_ms, chain.as_ref());
        let mut entry = self.entry(interest, command, incoming, authorized.as_ref().ok(), now);
        let mut response = match authorized {
            Err(refusal) => ControlResponse::new(403, waiting::words(refusal, chain.as_ref())),
            Ok(signer) if command == Command::RibAnnounce => self.rib_announce(interest, signer, incoming, now)?,
            Ok(signer) if matches!(command, Command::RibBatch | Command::FlatBatch) => {
                self.batch(command, interest, &signer, incoming, now)
            }
            Ok(signer) if command == Command::TagsPlace => self.tags_place(interest, &signer, incoming),
            Ok(_) if module == Module::Tags => self.tag_command(command, interest, incoming),
            Ok(signer) => match parameters(interest) {
                Err(error) => ControlResponse::new(400, format!("Malformed command: {error}")),
                Ok(parameters) => match command.validate(&parameters) {
                    Err(why) => ControlResponse::new(400, why),
                    Ok(()) => match self.check_rights(command, &parameters, &signer, incoming) {
                        Err(refusal) => ControlResponse::new(403, self.authorizer.refuse(refusal).to_string()),
                        Ok(()) if command == Command::FaceCreate => {
                            self.face_create(interest, &parameters, &mut entry)?
                        }
                        Ok(()) if module == Module::Config => {
                            self.ask_for_reload(command, interest, &parameters, &mut entry)?
                        }
                        Ok(()) => {
                            if command == Command::RibRegister && faces::face_of(&parameters, incoming) == incoming {
                                let prefix = parameters.name.clone().unwrap_or_default();
                                self.note_registration(interest, prefix, incoming);
                            }
                            self.execute(command, parameters, incoming, now)
                        }
                    },
                },
            },
        };
        if module == Module::Faces {
            AnswerForm::of(interest).apply(&mut response);
        }
        self.audit(entry, &response);
        self.respond_to_command(interest.name, &response)
    }

    fn respond_to_command(&mut self, name: NameRef<'_>, response: &ControlResponse) -> Option<Packet> {
        if response.code == 200 {
            self.counters.commands_ok += 1;
        } else {
            self.counters.commands_failed += 1;
        }
        respond(name, response)
    }

    /// Makes sure that an application receives the answer to its registration before any Interest on the new route.
    fn note_registration(&self, interest: &Interest<'_>, prefix: Name, face: FaceId) {
        if !self.rib.leads_to(prefix.as_ref(), face) {
            let command = interest.name.to_name();
            self.forwarder.answer_before_interests(Registration { face, prefix, command });
        }
    }

    fn answer_dataset(&mut self, interest: &Interest<'_>, module: &[u8], verb: &[u8], now: Moment) -> Option<Packet> {
        let is_about_one = verb == b"query" || module == b"explain";
        let dataset_len = VERB_END + usize::from(is_about_one);
        let sources = Sources { rib: &self.rib, fib: &self.fib, now_ms: now.ms };
        let len = interest.name.len();
        if len > dataset_len && interest.name.component(-1).is_some_and(dataset::names_part) {
            return self.datasets.segment(interest.name, &sources);
        }
        // pynfdc signs dataset requests, though no signature is required.
        let is_signed =
            interest.name.component(-1).is_some_and(|last| last.typ == component_type::PARAMETERS_SHA256_DIGEST);
        if len != dataset_len + usize::from(is_signed) || !interest.can_be_prefix {
            return None;
        }
        if interest.name.value().len() > dataset::NAME_BYTES_MAX {
            return match module {
                b"explain" => respond_with_nack(interest, &ControlResponse::new(414, "The name is too long")),
                _ => None,
            };
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

    /// The content of a dataset that is always small.
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
                for entry in faces::dataset(&self.forwarder.faces()) {
                    if faces::matches(&filter, &entry) {
                        entry.encode_to(&mut out);
                    }
                }
            }
            (b"explain", _) => {
                let component = interest.name.component(VERB_END as isize).map_or(&[][..], |name| name.value);
                self.explain_route(component, now)?.encode_value(&mut out);
            }
            (b"traffic", _) => self.traffic(now).encode_value(&mut out),
            (b"cs", _) => execute::cs_info(&self.forwarder.cs_info()).encode_to(&mut out),
            (b"flat", _) => self.flat.encode(&mut out),
            (b"tags", _) => self.list_tags(&mut out),
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

    /// Scope of a face. An unknown face counts as non-local.
    fn scope_of(&self, face: FaceId) -> Scope {
        let known = self.scopes.get(&face).copied();
        known.or_else(|| self.forwarder.face(face).map(|status| status.scope)).unwrap_or(Scope::NonLocal)
    }

    fn face_exists(&self, face: FaceId) -> bool {
        self.scopes.contains_key(&face) || self.forwarder.face(face).is_some()
    }
}

fn is_dataset(module: &[u8], verb: &[u8]) -> bool {
    const DATASETS: [(&[u8], &[u8]); 12] = [
        (b"faces", b"list"),
        (b"faces", b"query"),
        (b"faces", b"channels"),
        (b"fib", b"list"),
        (b"rib", b"list"),
        (b"cs", b"info"),
        (b"strategy-choice", b"list"),
        (b"flat", b"list"),
        (b"tags", b"list"),
        (b"status", b"general"),
        (b"explain", b"route"),
        (b"traffic", b"prefixes"),
    ];
    DATASETS.contains(&(module, verb))
}

/// Decodes the ControlParameters in a command's name.
fn parameters(interest: &Interest<'_>) -> Result<ControlParameters, DecodeError> {
    let component = interest.name.component(VERB_END as isize);
    let component = component.ok_or(DecodeError::Missing(tlv::types::CONTROL_PARAMETERS))?;
    ControlParameters::decode(component.value)
}

fn respond(name: NameRef<'_>, response: &ControlResponse) -> Option<Packet> {
    let answer = |response: &ControlResponse| packet_of(&response_data(name, response).encode());
    answer(response).or_else(|| answer(&ControlResponse::new(response.code, "")))
}

/// The Data of an answer, before it is signed.
fn response_data(name: NameRef<'_>, response: &ControlResponse) -> DataBuilder {
    let content = if response.body.is_empty() {
        // python-ndn decodes parameters from every answer, even from a refusal.
        response.clone().with_body(&ControlParameters::default()).encode()
    } else {
        response.encode()
    };
    DataBuilder::new(name.to_name()).freshness_ms(RESPONSE_FRESHNESS_MS).content(content)
}

/// The content Nack that NFD sends in place of a dataset.
fn respond_with_nack(interest: &Interest<'_>, response: &ControlResponse) -> Option<Packet> {
    let data = DataBuilder::new(interest.name.to_name()).freshness_ms(RESPONSE_FRESHNESS_MS);
    let data = data.content_type(byname_wire::data::content_type::NACK);
    packet_of(&data.content(response.encode()).encode())
}

/// The packet of these bytes. `None` if it is too large: an answer repeats the Interest's name, and its content often
/// repeats the name's parameters.
fn packet_of(bytes: &[u8]) -> Option<Packet> {
    (bytes.len() <= PACKET_BYTES_MAX).then(|| Packet::copy_from(bytes))
}

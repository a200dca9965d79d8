//! The routing application: moves packets between the protocol and the router.
//!
//! It does what NLSR or ndn-dv do beside NFD. It registers prefixes and creates faces by management commands, hears of
//! faces and of applications' prefixes in the same way, and sends Interests to neighbours through its own face.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use byname_control::config::Config;
use byname_control::mgmt::tlv::ControlParameters;
use byname_routing::{Command, Event, NeighbourSettings, Router, ValidationId, Validity};
use byname_trust::validator::Signed;
use byname_trust::{Certificate, Moment};
use byname_wire::tlv::types;
use byname_wire::{Data, FaceId, Interest, NameRef};

use super::answers::Answers;
use super::checks::{Checked, Checks};
use super::commands::{Commands, Dataset, Purpose};
use super::faces::{Faces, News};
use super::identity::Identity;
use super::link::{Fields, Link, Received};
use super::measures::Measures;
use super::places::Places;
use super::registrations::Registrations;
use super::settings;
use super::suspensions::Suspensions;

/// Bit of LocalFieldsEnabled in the flags of a face.
const LOCAL_FIELDS: u64 = 1;
/// How often the keys are read again, and what is measured is published.
const KEYS_INTERVAL: Duration = Duration::from_secs(600);
const MEASURES_INTERVAL: Duration = Duration::from_secs(1);
/// How long the last words may take at the end.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What the process asks of the application.
pub enum Request {
    /// Take over another configuration; names and intervals are the same.
    Configure(Box<Config>),
    /// Take a neighbour in addition to those of the configuration.
    AddNeighbour(NeighbourSettings),
    /// Leave the neighbour at this URI.
    RemoveNeighbour(String),
    /// Say farewell to the network, and end.
    Stop,
}

/// The application.
pub struct Application {
    pub(super) link: Link,
    pub(super) core: Router,
    pub(super) commands: Commands,
    pub(super) registrations: Registrations,
    pub(super) suspensions: Suspensions,
    pub(super) places: Places,
    pub(super) faces: Faces,
    pub(super) checks: Checks<ValidationId>,
    pub(super) measures: Measures,
    /// Settings that were refused, and when to ask for them again.
    pub(super) refused: Vec<(Instant, (&'static str, &'static str), ControlParameters)>,
    answers: Answers,
    config: Config,
    identity: Identity,
    pub(super) clock: Clock,
    keys_at: Instant,
    measures_at: Instant,
    /// Whether it looks for neighbours.
    looks: bool,
    /// Whether the end of the certificate was warned of.
    is_warned: bool,
}

/// One time for all: monotonic, and since the Unix epoch.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Clock { start: Instant::now() }
    }

    /// Now.
    pub fn now(&self) -> Moment {
        Moment { ms: milliseconds(self.start.elapsed()) + 1, unix_ms: unix_ms() }
    }

    fn instant(&self, ms: u64) -> Option<Instant> {
        self.start.checked_add(Duration::from_millis(ms.saturating_sub(1)))
    }
}

/// Milliseconds since the Unix epoch.
pub fn unix_ms() -> u64 {
    milliseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What an application is made of.
pub struct Parts {
    /// The connection to the router.
    pub link: Link,
    /// The protocol.
    pub core: Router,
    /// Signs commands, and remembers them.
    pub commands: Commands,
    /// Whom to believe.
    pub checks: Checks<ValidationId>,
    /// Where counters go.
    pub measures: Measures,
    /// The configuration.
    pub config: Config,
    /// This router's keys.
    pub identity: Identity,
    /// The clock with which the protocol was made.
    pub clock: Clock,
}

impl Application {
    /// An application that has sent nothing yet.
    pub fn new(parts: Parts) -> Self {
        let Parts { link, core, commands, checks, measures, config, identity, clock } = parts;
        let now = Instant::now();
        Application {
            link,
            core,
            commands,
            registrations: Registrations::default(),
            suspensions: Suspensions::default(),
            places: Places::default(),
            faces: Faces::default(),
            checks,
            measures,
            refused: Vec::new(),
            answers: Answers::default(),
            config,
            identity,
            clock,
            keys_at: now + KEYS_INTERVAL,
            measures_at: now,
            looks: false,
            is_warned: false,
        }
    }

    /// Runs until it is asked to stop, or the router closes the connection.
    ///
    /// # Errors
    /// The router has closed the connection.
    pub fn run(mut self, requests: &Receiver<Request>, bell: &UnixStream) -> io::Result<()> {
        self.begin();
        loop {
            silence(bell);
            loop {
                match requests.try_recv() {
                    Ok(Request::Stop) | Err(TryRecvError::Disconnected) => return self.stop(bell),
                    Ok(request) => self.heed(request),
                    Err(TryRecvError::Empty) => break,
                }
            }
            self.round()?;
            self.link.wait(bell, self.next_deadline().saturating_duration_since(Instant::now()));
        }
    }

    /// Receives, lets time pass, and does what the protocol wants done.
    fn round(&mut self) -> io::Result<()> {
        let mut arrived = Vec::new();
        self.link.receive(|_, received| arrived.push(Arrived::of(received)))?;
        for packet in arrived {
            self.on_packet(&packet);
            self.act();
        }
        let now = self.clock.now();
        self.core.poll(now);
        self.act();
        self.checks.take_poisoned().into_iter().for_each(|name| self.erase(name));
        for (face, interest) in self.checks.interests(now) {
            self.link.send(&interest, Fields { next_hop: face, ..Fields::default() });
        }
        let done = self.checks.done();
        done.into_iter().for_each(|checked| self.tell_validity(checked));
        self.act();
        self.on_time(Instant::now());
        self.link.flush()
    }

    fn begin(&mut self) {
        let now = Instant::now();
        let parameters =
            ControlParameters { flags: Some(LOCAL_FIELDS), mask: Some(LOCAL_FIELDS), ..ControlParameters::default() };
        self.set(("faces", "update"), parameters, now);
        let routes = self.commands.dataset(Dataset::Routes, now);
        self.link.send(&routes, Fields::default());
    }

    /// Begins to look for neighbours. The protocol must know first which routes an earlier process has left.
    pub(super) fn look_for_neighbours(&mut self, now: Instant) {
        if std::mem::replace(&mut self.looks, true) {
            return;
        }
        for interest in [self.commands.dataset(Dataset::Faces, now), self.commands.face_event(None, now)] {
            self.link.send(&interest, Fields::default());
        }
        for neighbour in settings::neighbours(&self.config) {
            self.tell(Event::NeighbourConfigured(neighbour));
        }
    }

    /// Tells the protocol something.
    pub(super) fn tell(&mut self, event: Event<'_>) {
        self.core.handle(event, self.clock.now());
    }

    /// Finds out whether a packet with this name is trusted.
    pub(super) fn check(&mut self, signed: &Signed<'_>, name: NameRef<'_>, face: Option<FaceId>, id: ValidationId) {
        let face = face.map(|face| face.0);
        if let Some(checked) = self.checks.check(signed, name, face, id, self.clock.now()) {
            self.tell_validity(checked);
        }
    }

    fn tell_validity(&mut self, (id, verdict): Checked<ValidationId>) {
        let validity = match verdict {
            Ok(rights) => Validity::Trusted(rights),
            Err(rejection) => Validity::Refused(rejection.to_string()),
        };
        self.tell(Event::Validated { id, validity });
    }

    fn on_packet(&mut self, packet: &Arrived) {
        let wire = &packet.wire[..];
        if packet.is_nack {
            if let Ok(interest) = Interest::decode(wire) {
                match self.commands.on_nack(interest.name) {
                    Some(purpose) => self.unanswered(purpose),
                    None => self.tell(Event::Nack { name: interest.name }),
                }
            }
        } else if wire.first() == Some(&(types::INTEREST as u8)) {
            let Ok(interest) = Interest::decode(wire) else { return };
            if let Some(answer) = self.answer(&interest) {
                self.link.send(&answer, Fields { pit_token: packet.pit_token, ..Fields::default() });
            } else if let Some(face) = packet.face {
                self.tell(Event::Interest { wire, face: FaceId(face) });
            }
        } else if let Ok(data) = Data::decode(wire) {
            let now = Instant::now();
            if let Some((answer, next)) = self.commands.on_data(&data, now) {
                next.iter().for_each(|interest| self.link.send(interest, Fields::default()));
                self.on_answer(answer, now);
            } else if !self.checks.on_data(&data, self.clock.now()) {
                self.tell(Event::Data { wire });
            }
        }
    }

    /// Answers questions of operators, and Interests for this router's certificate.
    fn answer(&mut self, interest: &Interest<'_>) -> Option<Vec<u8>> {
        let is_asked_for = |certificate: &&Certificate| {
            let name = certificate.name.as_ref();
            interest.name == name || interest.can_be_prefix && interest.name.is_prefix_of(&name)
        };
        if let Some(certificate) = self.identity.served().find(is_asked_for) {
            return Some(certificate.packet.to_vec());
        }
        let settled = (self.registrations.confirmed(), self.registrations.is_settled());
        self.answers.answer(interest, &self.core, &self.faces, self.identity.certificate.as_ref(), settled)
    }

    /// Asks for a setting, again and again until it is made.
    pub(super) fn set(&mut self, what: (&'static str, &'static str), parameters: ControlParameters, now: Instant) {
        let purpose = Purpose::Setting { what, parameters: Box::new(parameters.clone()) };
        let wire = self.commands.command(what, &parameters, purpose, now);
        self.link.send(&wire, Fields::default());
    }

    fn on_time(&mut self, now: Instant) {
        for purpose in self.commands.expired(now) {
            self.unanswered(purpose);
        }
        for (_, what, parameters) in self.refused.extract_if(.., |(at, ..)| *at <= now).collect::<Vec<_>>() {
            self.set(what, parameters, now);
        }
        self.register(now);
        // A face that is only doubted is suspended, although no route changes.
        if self.registrations.is_settled() && self.core.is_settled() && !self.core.has_doubts() {
            self.suspensions.end_all();
        }
        self.suspend(now);
        self.place(now);
        if self.keys_at <= now {
            self.keys_at = now + KEYS_INTERVAL;
            self.read_keys();
        }
        if self.measures_at <= now {
            self.measures_at = now + MEASURES_INTERVAL;
            let ends_ms = self.identity.certificate.as_ref().map(|certificate| certificate.not_after_ms);
            let numbers = (self.registrations.refused, ends_ms);
            let uri_of = |face| self.faces.uri(face);
            self.measures.publish(&self.core.status(), uri_of, self.checks.counters(), numbers);
        }
    }

    fn next_deadline(&self) -> Instant {
        let now = Instant::now();
        let checks = self.checks.next_deadline_ms().and_then(|ms| self.clock.instant(ms));
        let core = self.clock.instant(self.core.wake_at_ms());
        let refused = self.refused.iter().map(|(at, ..)| *at).min();
        let told =
            [self.registrations.next_deadline(now), self.suspensions.next_deadline(now), self.places.next_deadline()];
        let others = [refused, checks, core, self.commands.next_deadline()].into_iter().chain(told);
        others.flatten().chain([self.keys_at, self.measures_at]).min().unwrap_or(now)
    }

    /// Reads the folder of keys. A renewed certificate is used at once; what cannot be used changes nothing.
    fn read_keys(&mut self) {
        let now_ms = unix_ms();
        match Identity::load(&self.config, now_ms) {
            Ok(identity) if !identity.is_like(&self.identity) => self.use_identity(identity),
            Ok(_) => {}
            Err(error) => tracing::warn!("the router keeps its keys: {error:#}"),
        }
        if let Some(warning) = self.identity.warning(now_ms) {
            if !std::mem::replace(&mut self.is_warned, true) {
                tracing::warn!("{warning}");
            }
        } else {
            self.is_warned = false;
        }
    }

    fn use_identity(&mut self, identity: Identity) {
        let validator = match self.config.routing.insecure {
            true => None,
            false => Some(identity.validator()),
        };
        match identity.signer() {
            Ok(signer) => {
                for id in self.checks.replace(validator) {
                    self.tell(Event::Validated { id, validity: Validity::Refused("the keys have changed".to_owned()) });
                }
                self.core.set_signer(signer);
                self.tell(Event::Command(Command::SetRights(identity.own_rights())));
                let name = identity.certificate.as_ref().map(|certificate| certificate.name.to_string());
                tracing::info!(certificate = name.as_deref().unwrap_or("none"), "routing has new keys");
                let others = !identity.believes_like(&self.identity);
                let before = std::mem::replace(&mut self.identity, identity).certificate;
                // It is fresh for longer than it may be valid.
                let is_now =
                    |old: &Certificate| self.identity.certificate.as_ref().is_some_and(|of| of.name == old.name);
                if let Some(old) = before.filter(|old| !is_now(old)) {
                    self.erase(old.name);
                }
                if others {
                    self.tell(Event::Command(Command::Recheck));
                }
            }
            Err(error) => tracing::warn!("the router keeps its keys: {error:#}"),
        }
    }

    fn heed(&mut self, request: Request) {
        match request {
            Request::Configure(config) => self.configure(*config),
            Request::AddNeighbour(neighbour) => self.tell(Event::NeighbourConfigured(neighbour)),
            Request::RemoveNeighbour(uri) => self.tell(Event::NeighbourRemoved { uri: &uri }),
            Request::Stop => {}
        }
        self.act();
    }

    fn configure(&mut self, config: Config) {
        let (before, after) = (settings::neighbours(&self.config), settings::neighbours(&config));
        for gone in before.iter().filter(|old| !after.iter().any(|new| new.uri == old.uri)) {
            self.tell(Event::NeighbourRemoved { uri: &gone.uri });
        }
        // Before the first answer of the router, the configuration waits for it as a whole.
        let looks = self.looks;
        for new in after.into_iter().filter(|new| looks && !before.contains(new)) {
            self.tell(Event::NeighbourConfigured(new));
        }
        if config.routing.policy != self.config.routing.policy
            && let Ok(policy) = settings::policy(&config)
        {
            self.tell(Event::Command(Command::SetPolicy(policy)));
        }
        if config.routing.tree_priority != self.config.routing.tree_priority {
            self.tell(Event::Command(Command::SetTreePriority(config.routing.tree_priority)));
        }
        self.config = config;
        self.read_keys();
    }

    /// Tells what has become of a face.
    pub(super) fn on_face(&mut self, news: News) {
        match news {
            News::Multicast(face) if self.config.routing.multicast => {
                self.tell(Event::MulticastFace { face: FaceId(face) });
            }
            News::Multicast(_) => {}
            News::Up(face) => self.tell(Event::FaceUp { face: FaceId(face) }),
            News::Down(face) => self.tell(Event::FaceDown { face: FaceId(face) }),
            News::Destroyed(face) => {
                self.registrations.face_gone(face);
                self.suspensions.face_gone(face);
                self.tell(Event::FaceDestroyed { face: FaceId(face) });
            }
        }
    }

    /// Says farewell, and waits until the router has taken it.
    fn stop(mut self, bell: &UnixStream) -> io::Result<()> {
        self.tell(Event::Command(Command::Stop));
        self.act();
        let until = Instant::now() + LAST_WORDS;
        while Instant::now() < until {
            self.register(Instant::now());
            self.link.flush()?;
            if self.registrations.is_settled() {
                break;
            }
            self.link.wait(bell, until.saturating_duration_since(Instant::now()).min(Duration::from_millis(20)));
            let mut arrived = Vec::new();
            self.link.receive(|_, received| arrived.push(Arrived::of(received)))?;
            arrived.iter().for_each(|packet| self.on_packet(packet));
        }
        Ok(())
    }
}

/// A packet from the router, copied.
struct Arrived {
    wire: Vec<u8>,
    pit_token: byname_wire::PitToken,
    is_nack: bool,
    face: Option<u64>,
}

impl Arrived {
    fn of(received: Received<'_>) -> Self {
        Arrived {
            wire: received.packet.to_vec(),
            pit_token: received.pit_token,
            is_nack: received.nack.is_some(),
            face: received.face,
        }
    }
}

/// Takes the bytes that rang.
fn silence(mut bell: &UnixStream) {
    let mut bytes = [0; 64];
    while matches!(io::Read::read(&mut bell, &mut bytes), Ok(len) if len == bytes.len()) {}
}

//! Readvertisement: tells others which prefixes the applications of this host serve. It uses the commands that
//! applications use: `<destination>/rib/{register,unregister}/<ControlParameters>/<digest>`.
//!
//! There are two destinations:
//!
//! - A routing daemon on this host, `/localhost/nlsr`. It receives routes of origin 65 (client). Its command names have
//!   six components, as NLSR and ndnd's ndn-dv expect.
//! - The hub, `/localhop/nfd`, which is what NFD calls `auto_prefix_propagate`. It receives routes to applications of
//!   this host, in commands signed with the host's key. A route at or below a configured prefix is advertised as the
//!   shortest such prefix. Other routes are not advertised.
//!
//! Follows NFD (daemon/rib/readvertise). Differs after a failure, where NFD tells the destination nothing for up to an
//! hour:
//!
//! - A prefix is advertised once, as long as it has at least one route.
//! - While the destination does not answer, one command at a time probes it. The interval grows from 1 to 60 seconds.
//!   After an answer, the other commands follow, several at a time.
//! - A refused command is repeated after an interval that grows with each refusal.
//! - Each advertisement is repeated from time to time, because the destination may have restarted.
//! - What the destination was told survives the router ([`Readvertiser::take_told`]). After a restart, it is told to
//!   forget prefixes whose applications have not come back in time.
//!
//! The state machine does no I/O. The control thread sends the Interests that [`Readvertiser::poll`] returns, and
//! passes the answers back.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use byname_forward::FaceId;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Component, Data, Name, NameRef};

use crate::config::{Propagate, Readvertise};
use crate::mgmt::tlv::{ControlParameters, ControlResponse, Element, origin};
use crate::own_names::localhop_prefix;
use crate::rib::RouteEvent;
use crate::security::Signer;

/// Most prefixes, and most routes below configured prefixes. Further ones are left out and counted.
pub const PREFIXES_MAX: usize = 1 << 20;

const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// How far signature times may be ahead of the clock.
const CLOCK_AHEAD_MS: u64 = 60_000;
/// Refresh intervals after which the hub drops a registration that was not refreshed.
const HUB_KEEPS: u32 = 4;

/// A destination of advertisements, with its settings.
pub struct Destination {
    /// Its name in the log.
    title: &'static str,
    /// Its management prefix.
    prefix: Name,
    signer: Signer,
    /// Parameters of a registration, without the name.
    registration: ControlParameters,
    /// Parameters of an unregistration, without the name.
    unregistration: ControlParameters,
    /// Most commands in flight.
    in_flight_max: usize,
    /// How long to wait for an answer.
    timeout: Duration,
    /// Interval between repetitions.
    refresh: Duration,
    /// Interval after the first refusal.
    retry: Duration,
    policy: Policy,
}

/// Which routes are advertised.
enum Policy {
    /// Routes of origin 65 (client), each under its own name.
    Clients,
    /// Routes to applications of this host at or below one of these prefixes, under the shortest such prefix.
    Below {
        prefixes: Vec<Name>,
        /// The advertised routes: name, face and origin.
        routes: HashSet<(Name, FaceId, u64)>,
    },
}

impl Destination {
    /// Label of a routing daemon.
    pub const DAEMON: &str = "daemon";
    /// Label of the hub.
    pub const HUB: &str = "hub";

    /// A routing daemon on this host.
    pub fn daemon(config: Readvertise) -> Self {
        Destination {
            title: "the routing daemon",
            prefix: config.prefix,
            signer: Signer::digest(),
            registration: ControlParameters { cost: Some(0), ..Default::default() },
            unregistration: ControlParameters::default(),
            in_flight_max: 32,
            timeout: config.timeout,
            refresh: config.refresh,
            // Frequent repetition would only fill the log.
            retry: config.refresh,
            policy: Policy::Clients,
        }
    }

    /// The hub, with `signer` for this host's commands.
    pub fn hub(config: &Propagate, signer: Signer) -> Self {
        let unregistration = ControlParameters { origin: Some(origin::CLIENT), ..Default::default() };
        let kept_ms = u64::try_from((config.refresh * HUB_KEEPS).as_millis()).unwrap_or(u64::MAX);
        Destination {
            title: "the hub",
            prefix: localhop_prefix(),
            signer,
            registration: ControlParameters {
                cost: Some(config.cost),
                expiration_period_ms: Some(kept_ms),
                ..unregistration.clone()
            },
            unregistration,
            // NFD refuses a command signed before the last one that it received, and commands may be reordered.
            in_flight_max: 1,
            timeout: config.timeout,
            refresh: config.refresh,
            retry: BACKOFF_MAX.min(config.refresh),
            policy: Policy::Below { prefixes: config.prefixes(), routes: HashSet::new() },
        }
    }

    /// The management prefix of the destination.
    pub fn prefix(&self) -> &Name {
        &self.prefix
    }

    /// Label of the destination in metrics.
    pub fn label(&self) -> &'static str {
        match self.policy {
            Policy::Clients => Destination::DAEMON,
            Policy::Below { .. } => Destination::HUB,
        }
    }

    /// Whether the RIB must report routes of every origin.
    pub fn wants_all_routes(&self) -> bool {
        matches!(self.policy, Policy::Below { .. })
    }
}

impl Policy {
    /// The prefix under which a route is advertised, if it is. `is_local` says that the route leads to an application
    /// of this host; it is used for added routes only.
    fn prefix_of(&mut self, event: &RouteEvent, is_local: bool) -> Option<Name> {
        match self {
            Policy::Clients => (event.origin == origin::CLIENT).then(|| event.name.clone()),
            Policy::Below { prefixes, routes } => {
                let covers = |prefix: &&Name| prefix.as_ref().is_prefix_of(&event.name.as_ref());
                let route = || (event.name.clone(), event.face, event.origin);
                let shortest = prefixes.iter().filter(covers).min_by_key(|prefix| prefix.as_ref().len())?;
                let changes = match event.added {
                    true => is_local && routes.len() < PREFIXES_MAX && routes.insert(route()),
                    false => routes.remove(&route()),
                };
                changes.then(|| shortest.clone())
            }
        }
    }
}

/// The verb of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Register,
    Unregister,
}

impl Verb {
    fn name(self) -> &'static [u8] {
        match self {
            Verb::Register => b"register",
            Verb::Unregister => b"unregister",
        }
    }
}

/// A prefix that an application serves, or that the destination must still forget.
#[derive(Debug, Default)]
struct Advertised {
    /// Number of its routes. At 0, the destination must forget the prefix.
    routes: u32,
    /// Whether a registration was sent that the destination may have received.
    told: bool,
    /// Whether the last answer was 200.
    accepted: bool,
    /// Refusals since the last acceptance.
    refusals: u32,
    /// Whether the prefix is in `waiting` or `in_flight`.
    busy: bool,
    /// Whether it changed while a command was in flight.
    again: bool,
    /// Whether an earlier process told the destination, and no application has come back yet.
    inherited: bool,
    refresh_at: Option<Instant>,
}

struct InFlight {
    prefix: Name,
    verb: Verb,
    deadline: Instant,
}

/// Whether the destination answers commands.
enum State {
    Answers,
    Silent { backoff: Duration, probe_at: Instant },
}

/// Keeps one destination up to date.
pub struct Readvertiser {
    destination: Destination,
    prefixes: HashMap<Name, Advertised>,
    waiting: VecDeque<Name>,
    in_flight: HashMap<Name, InFlight>,
    refreshes: BTreeSet<(Instant, Name)>,
    state: State,
    /// Number of prefixes that the destination has accepted.
    accepted: usize,
    failures: u64,
    left_out: u64,
    /// Wall-clock time of the last signature, in ms.
    signed_ms: u64,
    /// Prefixes that the destination was told, or has forgotten; see [`Readvertiser::take_told`].
    told: Vec<(Name, bool)>,
    /// When inherited prefixes without an application must be forgotten.
    inherited_until: Option<Instant>,
    /// If the destination must forget everything: when that must be done.
    retires_until: Option<Instant>,
}

impl Readvertiser {
    /// A readvertiser without routes.
    pub fn new(destination: Destination, now: Instant) -> Self {
        Readvertiser {
            destination,
            prefixes: HashMap::new(),
            waiting: VecDeque::new(),
            in_flight: HashMap::new(),
            refreshes: BTreeSet::new(),
            state: State::Silent { backoff: Duration::ZERO, probe_at: now },
            accepted: 0,
            failures: 0,
            left_out: 0,
            signed_ms: 0,
            told: Vec::new(),
            inherited_until: None,
            retires_until: None,
        }
    }

    /// Takes over what an earlier process has told the destination. Prefixes for which no application has come back at
    /// `until` will be unregistered.
    pub fn inherit(&mut self, told: impl IntoIterator<Item = Name>, until: Instant) {
        for prefix in told {
            if self.prefixes.len() >= PREFIXES_MAX {
                self.left_out += 1;
            } else if let Some(advertised) = self.prefixes.get_mut(&prefix) {
                advertised.told = true;
            } else {
                self.prefixes.insert(prefix, Advertised { told: true, inherited: true, ..Advertised::default() });
                self.inherited_until = Some(until);
            }
        }
    }

    /// Prefixes that the destination may know (true), or does not know any more (false), since the last call, in order.
    pub fn take_told(&mut self) -> Vec<(Name, bool)> {
        std::mem::take(&mut self.told)
    }

    /// From now on, makes the destination forget all prefixes, until this time at most. A destination that does not answer
    /// now is not waited for.
    pub fn retire(&mut self, until: Instant) {
        self.retires_until = Some(until);
        if matches!(self.state, State::Silent { .. }) {
            self.prefixes.clear();
        }
        for prefix in self.prefixes.keys().cloned().collect::<Vec<_>>() {
            if let Some(advertised) = self.prefixes.get_mut(&prefix) {
                advertised.routes = 0;
            }
            self.changed(prefix);
        }
    }

    /// Whether the destination has forgotten all prefixes after [`Readvertiser::retire`], or the time for that is over.
    pub fn has_retired(&self, now: Instant) -> bool {
        self.retires_until.is_some_and(|until| self.prefixes.is_empty() || until <= now)
    }

    /// Number of prefixes that are advertised or will be.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Whether there are no such prefixes.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// Number of routes left out because of [`PREFIXES_MAX`].
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Number of prefixes that the destination has accepted.
    pub fn accepted(&self) -> usize {
        self.accepted
    }

    /// Number of commands that were refused or not answered.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// The destination.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Handles an added or removed route. `is_local` says whether it leads to an application of this host. Routes under
    /// `/localhost` and `/localhop` are not advertised. A route for the destination's own prefix says that the
    /// destination has appeared.
    pub fn route_changed(&mut self, event: &RouteEvent, is_local: bool, now: Instant) {
        if self.retires_until.is_some() {
            return;
        }
        if event.name == self.destination.prefix {
            if event.added {
                self.destination_appeared(now);
            }
        } else if is_global(event.name.as_ref())
            && let Some(prefix) = self.destination.policy.prefix_of(event, is_local)
        {
            if event.added { self.route_added(prefix) } else { self.route_removed(prefix) }
        }
    }

    /// Handles a new connection to the destination: probes it at once, and advertises everything again.
    pub fn destination_appeared(&mut self, now: Instant) {
        // It may be a new process that knows no earlier advertisement.
        for (prefix, advertised) in &mut self.prefixes {
            if !advertised.busy && !advertised.inherited {
                advertised.busy = true;
                self.waiting.push_back(prefix.clone());
            }
        }
        self.state = State::Silent { backoff: Duration::ZERO, probe_at: now };
    }

    /// Returns the signed Interests to send now. `unix_ms` is the wall-clock time for signatures.
    pub fn poll(&mut self, now: Instant, unix_ms: u64) -> Vec<Vec<u8>> {
        self.time_out(now);
        self.take_refreshes(now);
        self.forget_inherited(now);
        let in_flight_max = match self.state {
            State::Answers => self.destination.in_flight_max,
            State::Silent { probe_at, .. } if now >= probe_at => 1,
            State::Silent { .. } => 0,
        };
        let mut interests = Vec::new();
        while self.in_flight.len() < in_flight_max
            && let Some(prefix) = self.waiting.pop_front()
        {
            interests.extend(self.command(prefix, now, unix_ms));
        }
        interests
    }

    /// When to call [`Readvertiser::poll`] again, unless something else happens before.
    pub fn next_deadline(&self) -> Option<Instant> {
        let answers = self.in_flight.values().map(|command| command.deadline).min();
        let refresh = self.refreshes.first().map(|(at, _)| *at);
        let probe = match self.state {
            State::Silent { probe_at, .. } if !self.waiting.is_empty() && self.in_flight.is_empty() => Some(probe_at),
            _ => None,
        };
        let others = [self.inherited_until, self.retires_until];
        [answers, refresh, probe].into_iter().chain(others).flatten().min()
    }

    /// Handles Data for the control side. Returns false if it answers no command of this destination.
    pub fn on_data(&mut self, data: &Data<'_>, now: Instant) -> bool {
        let Some(command) = self.in_flight.remove(&data.name.to_name()) else { return false };
        self.state = State::Answers;
        let response = ControlResponse::decode(data.content).unwrap_or_else(|_| ControlResponse::new(0, "no answer"));
        if response.code != 200 {
            let (prefix, to) = (&command.prefix, self.destination.title);
            tracing::warn!(%prefix, code = response.code, text = response.text, "{to} refuses to register a prefix");
        }
        self.settle(command, response.code == 200, now);
        true
    }

    /// Handles a Nack or a failure to send an Interest. Returns false if it is none of this destination's commands.
    pub fn on_nack(&mut self, name: NameRef<'_>, now: Instant) -> bool {
        let Some(command) = self.in_flight.remove(&name.to_name()) else { return false };
        self.fail(command, now);
        true
    }

    fn route_added(&mut self, prefix: Name) {
        if self.prefixes.len() >= PREFIXES_MAX && !self.prefixes.contains_key(&prefix) {
            self.left_out += 1;
            return;
        }
        let advertised = self.prefixes.entry(prefix.clone()).or_default();
        advertised.inherited = false;
        advertised.routes += 1;
        if advertised.routes == 1 {
            self.changed(prefix);
        }
    }

    fn route_removed(&mut self, prefix: Name) {
        let Some(advertised) = self.prefixes.get_mut(&prefix) else { return };
        advertised.routes = advertised.routes.saturating_sub(1);
        if advertised.routes == 0 {
            self.changed(prefix);
        }
    }

    fn changed(&mut self, prefix: Name) {
        let Some(advertised) = self.prefixes.get_mut(&prefix) else { return };
        if advertised.busy {
            advertised.again = true;
        } else if advertised.routes == 0 && !advertised.told {
            self.forget(prefix);
        } else {
            advertised.busy = true;
            self.waiting.push_back(prefix);
        }
    }

    fn forget(&mut self, prefix: Name) {
        if let Some(Advertised { refresh_at: Some(at), .. }) = self.prefixes.remove(&prefix) {
            self.refreshes.remove(&(at, prefix));
        }
    }

    /// The next command about a prefix. `None` if none is needed any more.
    fn command(&mut self, prefix: Name, now: Instant, unix_ms: u64) -> Option<Vec<u8>> {
        let advertised = self.prefixes.get_mut(&prefix)?;
        advertised.again = false;
        let verb = if advertised.routes > 0 { Verb::Register } else { Verb::Unregister };
        if verb == Verb::Unregister && !advertised.told {
            self.forget(prefix);
            return None;
        }
        let parameters = match verb {
            Verb::Register => &self.destination.registration,
            Verb::Unregister => &self.destination.unregistration,
        };
        let parameters = ControlParameters { name: Some(prefix.clone()), ..parameters.clone() };
        if !std::mem::replace(&mut advertised.told, true) {
            self.told.push((prefix.clone(), true));
        }
        let name = self
            .destination
            .prefix
            .join(Component::generic(b"rib"))
            .join(Component::generic(verb.name()))
            .join(Component::generic(&parameters.encode()));
        let lifetime_ms = u64::try_from(self.destination.timeout.as_millis()).unwrap_or(u64::MAX);
        // NFD refuses a second command with the same key and time. If the clock was set back far, follow it.
        let next_ms = Some(self.signed_ms + 1).filter(|&next_ms| next_ms < unix_ms.saturating_add(CLOCK_AHEAD_MS));
        self.signed_ms = unix_ms.max(next_ms.unwrap_or(0));
        let builder = InterestBuilder::new(name, unix_ms as u32).must_be_fresh(true).lifetime_ms(lifetime_ms);
        // Signing can fail only if the system has no randomness.
        let interest = self.destination.signer.sign_command(&builder, self.signed_ms).ok()?;
        let signed_name = byname_wire::Interest::decode(&interest).ok()?.name.to_name();
        self.in_flight.insert(signed_name, InFlight { prefix, verb, deadline: now + self.destination.timeout });
        Some(interest)
    }

    /// Handles an answer to a command.
    fn settle(&mut self, command: InFlight, is_accepted: bool, now: Instant) {
        self.failures += u64::from(!is_accepted);
        let Some(advertised) = self.prefixes.get_mut(&command.prefix) else { return };
        advertised.busy = false;
        advertised.refusals = if is_accepted { 0 } else { advertised.refusals.saturating_add(1) };
        if command.verb == Verb::Unregister {
            advertised.told = false;
            self.told.push((command.prefix.clone(), false));
        }
        note_accepted(&mut self.accepted, advertised, is_accepted && command.verb == Verb::Register);
        if advertised.again || advertised.routes == 0 {
            self.changed(command.prefix);
            return;
        }
        let Destination { refresh, retry, .. } = self.destination;
        let wait = match advertised.refusals {
            0 => refresh,
            refusals => retry.saturating_mul(1 << (refusals - 1).min(16)).min(refresh.max(retry)),
        };
        let refresh_at = now + wait;
        if let Some(before) = advertised.refresh_at.replace(refresh_at) {
            self.refreshes.remove(&(before, command.prefix.clone()));
        }
        self.refreshes.insert((refresh_at, command.prefix));
    }

    /// Handles a command that was lost or not answered.
    fn fail(&mut self, command: InFlight, now: Instant) {
        self.failures += 1;
        if let Some(advertised) = self.prefixes.get_mut(&command.prefix) {
            note_accepted(&mut self.accepted, advertised, false);
        }
        self.waiting.push_front(command.prefix);
        let backoff = match self.state {
            State::Answers => BACKOFF_MIN,
            // When several commands fail at once, the first one has already set the next probe.
            State::Silent { probe_at, .. } if probe_at > now => return,
            State::Silent { backoff, .. } => (backoff * 2).clamp(BACKOFF_MIN, BACKOFF_MAX),
        };
        self.state = State::Silent { backoff, probe_at: now + backoff };
    }

    fn time_out(&mut self, now: Instant) {
        let late: HashSet<Name> =
            self.in_flight.iter().filter(|(_, c)| c.deadline <= now).map(|(name, _)| name.clone()).collect();
        for name in late {
            if let Some(command) = self.in_flight.remove(&name) {
                self.fail(command, now);
            }
        }
    }

    /// Gives up applications that have not come back.
    fn forget_inherited(&mut self, now: Instant) {
        if self.inherited_until.take_if(|until| *until <= now).is_none() {
            return;
        }
        let mut alone = Vec::new();
        for (prefix, advertised) in &mut self.prefixes {
            if std::mem::take(&mut advertised.inherited) {
                alone.push(prefix.clone());
            }
        }
        alone.into_iter().for_each(|prefix| self.changed(prefix));
    }

    fn take_refreshes(&mut self, now: Instant) {
        while self.refreshes.first().is_some_and(|(at, _)| *at <= now) {
            let Some((at, prefix)) = self.refreshes.pop_first() else { return };
            let Some(advertised) = self.prefixes.get_mut(&prefix) else { continue };
            // Skip it if its refresh time has changed or a command is already queued.
            if advertised.refresh_at == Some(at) && !advertised.busy {
                advertised.busy = true;
                self.waiting.push_back(prefix);
            }
        }
    }
}

/// Records the destination's last answer about a prefix, and updates the number of accepted prefixes.
fn note_accepted(count: &mut usize, advertised: &mut Advertised, is_accepted: bool) {
    *count = *count + usize::from(is_accepted) - usize::from(advertised.accepted);
    advertised.accepted = is_accepted;
}

fn is_global(prefix: NameRef<'_>) -> bool {
    prefix
        .component(0)
        .is_none_or(|first| first != Component::generic(b"localhost") && first != Component::generic(b"localhop"))
}

#[cfg(test)]
mod tests;

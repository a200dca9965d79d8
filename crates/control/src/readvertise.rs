//! Readvertisement: a routing daemon on this host learns which prefixes its applications serve.
//!
//! Routes of origin 65 (client) become commands to
//! `/localhost/nlsr/rib/{register,unregister}/<ControlParameters>/<digest>`: six components, as
//! NLSR and ndnd's ndn-dv expect. Follows NFD (daemon/rib/readvertise), and differs where NFD
//! tells the daemon nothing for up to an hour after a failure:
//!
//! - A prefix is advertised while any route of it exists, once, however many there are.
//! - While the daemon does not answer, one command at a time probes for it, after 1 second at
//!   first and 60 at most. When it answers, all else follows, [`IN_FLIGHT_MAX`] at a time.
//! - Each advertisement is repeated every hour, for a daemon that was started anew.
//!
//! The state machine does no input or output: the control thread sends what [`Readvertiser::poll`]
//! yields, and hands back what arrives.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use byname_wire::interest::InterestBuilder;
use byname_wire::{Component, Data, Name, NameRef};

use crate::config::Readvertise;
use crate::mgmt::tlv::{ControlParameters, ControlResponse, Element};
use crate::security::Signer;

/// Origin of routes that applications registered.
pub const ORIGIN_CLIENT: u64 = 65;
/// Commands that wait for an answer at once.
pub const IN_FLIGHT_MAX: usize = 32;
/// Most prefixes; more are not advertised, and counted.
pub const PREFIXES_MAX: usize = 1 << 20;

const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// What is told the daemon.
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

/// A prefix that some application serves, or that the daemon still has to forget.
#[derive(Debug, Default)]
struct Advertised {
    /// Routes of it. At 0 the daemon is to forget it.
    routes: u32,
    /// The daemon was told to advertise it, and may have heard.
    told: bool,
    /// Stands in `waiting` or `in_flight`.
    busy: bool,
    /// Changed while a command was in flight.
    again: bool,
    refresh_at: Option<Instant>,
}

struct InFlight {
    prefix: Name,
    verb: Verb,
    deadline: Instant,
}

/// Whether the daemon answers.
enum Daemon {
    Answers,
    Silent { backoff: Duration, probe_at: Instant },
}

/// Keeps a routing daemon informed.
pub struct Readvertiser {
    config: Readvertise,
    signer: Signer,
    prefixes: HashMap<Name, Advertised>,
    waiting: VecDeque<Name>,
    in_flight: HashMap<Name, InFlight>,
    /// In the order of their times, since all wait equally long.
    refreshes: VecDeque<(Instant, Name)>,
    daemon: Daemon,
    left_out: u64,
}

impl Readvertiser {
    /// One with no routes yet.
    pub fn new(config: Readvertise, now: Instant) -> Self {
        Readvertiser {
            config,
            signer: Signer::digest(),
            prefixes: HashMap::new(),
            waiting: VecDeque::new(),
            in_flight: HashMap::new(),
            refreshes: VecDeque::new(),
            daemon: Daemon::Silent { backoff: Duration::ZERO, probe_at: now },
            left_out: 0,
        }
    }

    /// Prefixes that are advertised, or to be.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// Routes that were left out because there were [`PREFIXES_MAX`] prefixes.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// A client route of `prefix` was added. Those under `/localhost` and `/localhop` stay here.
    pub fn route_added(&mut self, prefix: NameRef<'_>) {
        if !is_global(prefix) {
            return;
        }
        let prefix = prefix.to_name();
        if self.prefixes.len() >= PREFIXES_MAX && !self.prefixes.contains_key(&prefix) {
            self.left_out += 1;
            return;
        }
        let advertised = self.prefixes.entry(prefix.clone()).or_default();
        advertised.routes += 1;
        if advertised.routes == 1 {
            self.changed(prefix);
        }
    }

    /// A client route of `prefix` is gone.
    pub fn route_removed(&mut self, prefix: NameRef<'_>) {
        let prefix = prefix.to_name();
        let Some(advertised) = self.prefixes.get_mut(&prefix) else { return };
        advertised.routes = advertised.routes.saturating_sub(1);
        if advertised.routes == 0 {
            self.changed(prefix);
        }
    }

    /// The daemon has registered the prefix that it listens on: do not wait to probe for it.
    pub fn daemon_appeared(&mut self, now: Instant) {
        // It is new, and knows nothing of what the last one was told.
        for (prefix, advertised) in &mut self.prefixes {
            if !advertised.busy {
                advertised.busy = true;
                self.waiting.push_back(prefix.clone());
            }
        }
        self.daemon = Daemon::Silent { backoff: Duration::ZERO, probe_at: now };
    }

    /// Signed Interests that are to be sent now. `unix_ms` is the wall clock, for signatures.
    pub fn poll(&mut self, now: Instant, unix_ms: u64) -> Vec<Vec<u8>> {
        self.time_out(now);
        self.take_refreshes(now);
        let in_flight_max = match self.daemon {
            Daemon::Answers => IN_FLIGHT_MAX,
            Daemon::Silent { probe_at, .. } if now >= probe_at => 1,
            Daemon::Silent { .. } => 0,
        };
        let mut interests = Vec::new();
        while self.in_flight.len() < in_flight_max
            && let Some(prefix) = self.waiting.pop_front()
        {
            interests.extend(self.command(prefix, now, unix_ms));
        }
        interests
    }

    /// When to call [`Readvertiser::poll`] again, if nothing else happens before.
    pub fn next_deadline(&self) -> Option<Instant> {
        let answers = self.in_flight.values().map(|command| command.deadline).min();
        let refresh = self.refreshes.front().map(|(at, _)| *at);
        let probe = match self.daemon {
            Daemon::Silent { probe_at, .. } if !self.waiting.is_empty() && self.in_flight.is_empty() => Some(probe_at),
            _ => None,
        };
        [answers, refresh, probe].into_iter().flatten().min()
    }

    /// A Data packet that came for the control side; false if it answers no command of ours.
    pub fn on_data(&mut self, data: &Data<'_>, now: Instant) -> bool {
        let Some(command) = self.in_flight.remove(&data.name.to_name()) else { return false };
        self.daemon = Daemon::Answers;
        let code = ControlResponse::decode(data.content).map_or(0, |response| response.code);
        if code != 200 {
            tracing::warn!(prefix = %command.prefix, code, "the routing daemon refuses to readvertise");
        }
        // A refusal stands until the next refresh: to insist would only fill the log.
        self.settle(command, now);
        true
    }

    /// A Nack, or a failure to send, for an Interest of this name; false if it is none of ours.
    pub fn on_nack(&mut self, name: NameRef<'_>, now: Instant) -> bool {
        let Some(command) = self.in_flight.remove(&name.to_name()) else { return false };
        self.fail(command, now);
        true
    }

    fn changed(&mut self, prefix: Name) {
        let Some(advertised) = self.prefixes.get_mut(&prefix) else { return };
        if advertised.busy {
            advertised.again = true;
        } else if advertised.routes == 0 && !advertised.told {
            self.prefixes.remove(&prefix);
        } else {
            advertised.busy = true;
            self.waiting.push_back(prefix);
        }
    }

    /// The next command about a prefix; none if there is nothing to say any more.
    fn command(&mut self, prefix: Name, now: Instant, unix_ms: u64) -> Option<Vec<u8>> {
        let advertised = self.prefixes.get_mut(&prefix)?;
        advertised.again = false;
        let verb = if advertised.routes > 0 { Verb::Register } else { Verb::Unregister };
        if verb == Verb::Unregister && !advertised.told {
            self.prefixes.remove(&prefix);
            return None;
        }
        let mut parameters = ControlParameters { name: Some(prefix.clone()), ..Default::default() };
        if verb == Verb::Register {
            advertised.told = true;
            parameters.cost = Some(0);
        }
        let name = self
            .config
            .prefix
            .join(Component::generic(b"rib"))
            .join(Component::generic(verb.name()))
            .join(Component::generic(&parameters.encode()));
        let lifetime_ms = u64::try_from(self.config.timeout.as_millis()).unwrap_or(u64::MAX);
        let builder = InterestBuilder::new(name, unix_ms as u32).must_be_fresh(true).lifetime_ms(lifetime_ms);
        // A digest signs whatever it is given; only randomness for the nonce could be lacking.
        let interest = self.signer.sign_command(&builder, unix_ms).ok()?;
        let signed_name = byname_wire::Interest::decode(&interest).ok()?.name.to_name();
        self.in_flight.insert(signed_name, InFlight { prefix, verb, deadline: now + self.config.timeout });
        Some(interest)
    }

    /// The daemon has heard a command.
    fn settle(&mut self, command: InFlight, now: Instant) {
        let Some(advertised) = self.prefixes.get_mut(&command.prefix) else { return };
        advertised.busy = false;
        if command.verb == Verb::Unregister {
            advertised.told = false;
        }
        if advertised.again || advertised.routes == 0 {
            self.changed(command.prefix);
            return;
        }
        let refresh_at = now + self.config.refresh;
        advertised.refresh_at = Some(refresh_at);
        self.refreshes.push_back((refresh_at, command.prefix));
    }

    /// The daemon has not heard a command, or not answered it.
    fn fail(&mut self, command: InFlight, now: Instant) {
        self.waiting.push_front(command.prefix);
        let backoff = match self.daemon {
            Daemon::Answers => BACKOFF_MIN,
            // Of several commands that fail at once, the first has set the next probe.
            Daemon::Silent { probe_at, .. } if probe_at > now => return,
            Daemon::Silent { backoff, .. } => (backoff * 2).clamp(BACKOFF_MIN, BACKOFF_MAX),
        };
        self.daemon = Daemon::Silent { backoff, probe_at: now + backoff };
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

    fn take_refreshes(&mut self, now: Instant) {
        while self.refreshes.front().is_some_and(|(at, _)| *at <= now) {
            let Some((at, prefix)) = self.refreshes.pop_front() else { return };
            let Some(advertised) = self.prefixes.get_mut(&prefix) else { continue };
            // Told again since, or about to be.
            if advertised.refresh_at == Some(at) && !advertised.busy {
                advertised.busy = true;
                self.waiting.push_back(prefix);
            }
        }
    }
}

fn is_global(prefix: NameRef<'_>) -> bool {
    prefix
        .component(0)
        .is_none_or(|first| first != Component::generic(b"localhost") && first != Component::generic(b"localhop"))
}

#[cfg(test)]
mod tests {
    use byname_wire::data::DataBuilder;
    use byname_wire::{Interest, tlv};

    use super::*;

    const UNIX_MS: u64 = 1_795_000_000_000;

    fn name(uri: &str) -> Name {
        uri.parse().expect("a name written in this file")
    }

    /// A daemon that answers everything with `code`, and what it heard.
    fn answer(
        readvertiser: &mut Readvertiser,
        interests: &[Vec<u8>],
        code: u64,
        now: Instant,
    ) -> Vec<(String, String)> {
        let mut heard = Vec::new();
        for wire in interests {
            let interest = Interest::decode(wire).expect("an Interest");
            assert_eq!(interest.name.len(), 6, "ndnd wants exactly six components");
            assert!(name("/localhost/nlsr/rib").as_ref().is_prefix_of(&interest.name));
            let verb = String::from_utf8(interest.name.component(3).expect("a verb").value.to_vec()).expect("text");
            let parameters =
                ControlParameters::decode(interest.name.component(4).expect("parameters").value).expect("parameters");
            heard.push((verb, parameters.name.expect("a name").to_string()));
            let response = ControlResponse::new(code, "").encode();
            let data = DataBuilder::new(interest.name.to_name()).content(response).encode();
            assert!(readvertiser.on_data(&Data::decode(&data).expect("Data"), now));
        }
        heard
    }

    fn heard(readvertiser: &mut Readvertiser, now: Instant) -> Vec<(String, String)> {
        let interests = readvertiser.poll(now, UNIX_MS);
        answer(readvertiser, &interests, 200, now)
    }

    fn said(verb: &str, prefix: &str) -> (String, String) {
        (verb.to_owned(), prefix.to_owned())
    }

    #[test]
    fn a_prefix_is_advertised_once_and_withdrawn_with_its_last_route() {
        let now = Instant::now();
        let mut readvertiser = Readvertiser::new(Readvertise::default(), now);
        readvertiser.route_added(name("/app").as_ref());
        readvertiser.route_added(name("/app").as_ref());
        assert_eq!(heard(&mut readvertiser, now), [said("register", "/app")]);
        readvertiser.route_removed(name("/app").as_ref());
        assert_eq!(heard(&mut readvertiser, now), []);
        readvertiser.route_removed(name("/app").as_ref());
        assert_eq!(heard(&mut readvertiser, now), [said("unregister", "/app")]);
        assert!(readvertiser.is_empty());
        assert_eq!(readvertiser.poll(now, UNIX_MS).len(), 0);
    }

    #[test]
    fn local_prefixes_stay_here() {
        let mut readvertiser = Readvertiser::new(Readvertise::default(), Instant::now());
        readvertiser.route_added(name("/localhost/app").as_ref());
        readvertiser.route_added(name("/localhop/app").as_ref());
        assert!(readvertiser.is_empty());
    }

    #[test]
    fn a_silent_daemon_is_probed_with_one_command_ever_less_often() {
        let start = Instant::now();
        let mut readvertiser = Readvertiser::new(Readvertise::default(), start);
        for i in 0..100 {
            readvertiser.route_added(name(&format!("/app/{i}")).as_ref());
        }
        let mut now = start;
        let mut probes = Vec::new();
        while now < start + Duration::from_secs(600) {
            for wire in readvertiser.poll(now, UNIX_MS) {
                let interest = Interest::decode(&wire).expect("an Interest");
                assert!(readvertiser.on_nack(interest.name, now));
                probes.push((now - start).as_secs());
            }
            now = readvertiser.next_deadline().expect("prefixes wait");
        }
        assert_eq!(probes, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303, 363, 423, 483, 543]);
        assert_eq!(readvertiser.waiting.len(), 100, "none is lost, none is doubled");

        // It appears: all follows at once.
        readvertiser.daemon_appeared(now);
        let mut all = Vec::new();
        for _ in 0..20 {
            all.extend(heard(&mut readvertiser, now));
        }
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 100);
    }

    #[test]
    fn no_answer_is_waited_for_longer_than_the_timeout() {
        let now = Instant::now();
        let mut readvertiser = Readvertiser::new(Readvertise::default(), now);
        readvertiser.route_added(name("/app").as_ref());
        assert_eq!(readvertiser.poll(now, UNIX_MS).len(), 1);
        assert_eq!(readvertiser.next_deadline(), Some(now + Duration::from_secs(10)));
        let later = now + Duration::from_secs(10);
        assert_eq!(readvertiser.poll(later, UNIX_MS).len(), 0);
        let probe = readvertiser.next_deadline().expect("a probe");
        assert_eq!(heard(&mut readvertiser, probe), [said("register", "/app")]);
    }

    #[test]
    fn what_changes_while_a_command_is_in_flight_is_told_afterwards() {
        let now = Instant::now();
        let mut readvertiser = Readvertiser::new(Readvertise::default(), now);
        readvertiser.route_added(name("/app").as_ref());
        let interests = readvertiser.poll(now, UNIX_MS);
        readvertiser.route_removed(name("/app").as_ref());
        assert_eq!(answer(&mut readvertiser, &interests, 200, now), [said("register", "/app")]);
        assert_eq!(heard(&mut readvertiser, now), [said("unregister", "/app")]);
        assert!(readvertiser.is_empty());
    }

    #[test]
    fn advertisements_are_refreshed() {
        let now = Instant::now();
        let mut readvertiser = Readvertiser::new(Readvertise::default(), now);
        readvertiser.route_added(name("/app").as_ref());
        assert_eq!(heard(&mut readvertiser, now).len(), 1);
        let hour = now + Duration::from_secs(3600);
        assert_eq!(readvertiser.next_deadline(), Some(hour));
        assert_eq!(heard(&mut readvertiser, hour), [said("register", "/app")]);
        assert_eq!(readvertiser.refreshes.len(), 1);
    }

    #[test]
    fn a_refusal_is_not_repeated_before_the_refresh() {
        let now = Instant::now();
        let mut readvertiser = Readvertiser::new(Readvertise::default(), now);
        readvertiser.route_added(name("/app").as_ref());
        let interests = readvertiser.poll(now, UNIX_MS);
        answer(&mut readvertiser, &interests, 403, now);
        assert_eq!(readvertiser.poll(now + Duration::from_secs(100), UNIX_MS).len(), 0);
    }

    #[test]
    fn commands_are_signed_interests() {
        let now = Instant::now();
        let mut readvertiser = Readvertiser::new(Readvertise::default(), now);
        readvertiser.route_added(name("/app").as_ref());
        let interests = readvertiser.poll(now, UNIX_MS);
        let interest = Interest::decode(&interests[0]).expect("an Interest");
        assert!(interest.parameters_digest_matches());
        assert_eq!(interest.signature.expect("signed").info.time_ms, Some(UNIX_MS));
        assert_eq!(interest.wire[0], tlv::types::INTEREST as u8);
    }

    #[test]
    fn others_data_is_not_ours() {
        let now = Instant::now();
        let mut readvertiser = Readvertiser::new(Readvertise::default(), now);
        let data = DataBuilder::new(name("/other")).encode();
        assert!(!readvertiser.on_data(&Data::decode(&data).expect("Data"), now));
        assert!(!readvertiser.on_nack(name("/other").as_ref(), now));
    }
}

//! The core of an application, without I/O: what it has asked for, what it produces, and what it is subscribed to.
//!
//! The caller owns the connection. It hands over what arrives ([`Session::on_packet`]), says when connections begin and
//! end ([`Session::on_connected`], [`Session::on_disconnected`]), calls [`Session::poll`] when
//! [`Session::next_deadline`] has come, and takes events ([`Session::next_event`]). What a session sends, it puts into
//! the caller's [`Outbox`]. [`crate::Client`] does this with blocking sockets, and `AsyncClient` (feature `tokio`) with
//! asynchronous ones.
//!
//! When a connection is gone, everything stays. On the next one, the session sends again what has not been answered,
//! and registers its prefixes and descriptors again. Meanwhile, the clocks of Interests, transfers and certificates stand
//! still, for at most [`SessionOptions::outage_max`]: this ends each try of an Interest, and each transfer that makes no
//! progress, with an error that says so.
//!
//! Over datagrams, nothing tells that a router has restarted, or that it has forgotten a face that was idle. There, the
//! session repeats its registrations and descriptors every [`SessionOptions::refresh`].
//!
//! # Bounds
//! The application decides how much it asks for. Strangers decide what arrives: each packet makes at most one event, so
//! the queue of events is bounded by what the caller hands over before it takes them. Data waits for certificates only
//! if it was asked for. A group's state is bounded by [`crate::sync`].

mod arriving;
mod event;
mod interests;
mod producers;
mod producing;
mod requests;
mod tagged;
mod transfers;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use byname_mgmt::{ControlResponse, Element};
use byname_trust::{Signer, SignerError, Validator};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Descriptor, Name};

pub use event::{Event, Request};

use crate::clock::{Now, as_ms};
use crate::fetch::{Object, Segments};
use crate::link::{DataPacket, ExchangeError};
use crate::management::{LIFETIME, ManagementError, management_name, outcome, signed_by};
use crate::outbox::{Fields, Outbox};
use crate::signed::Replays;
use crate::sync::Group;
use crate::transport::Peer;
use crate::verify::Checker;
use interests::{Interests, Purpose};
use producers::Producers;
use requests::Check;
use transfers::{Search, Transfer};

/// Numbers that one session has given out.
macro_rules! ids {
    ($($(#[$meta:meta])* $name:ident;)*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) u64);
    )*};
}
ids! {
    /// An Interest of [`Session::express`].
    InterestId;
    /// A command of [`Session::command`].
    CommandId;
    /// A search of [`Session::find`].
    FindId;
    /// A transfer of [`Session::fetch`].
    FetchId;
    /// A group of [`Session::join`].
    GroupId;
    /// A check of [`Session::check_request`].
    CheckId;
}

/// Keys of an application, whom it trusts, and how it treats its connection.
pub struct SessionOptions {
    /// Signs Data, commands and the state of groups. The default is a digest, which proves nothing about the sender.
    pub signer: Signer,
    /// Decides which Data is trusted. Without one, only changed content is refused.
    pub validator: Option<Validator>,
    /// Longest time that a request or a transfer waits for a connection, without any progress. [`Duration::MAX`]: for ever.
    pub outage_max: Duration,
    /// How often registrations and descriptors are repeated over datagrams. A producer is back so soon after its router has
    /// restarted. A router forgets the face of a producer that is silent for longer: byname and NFD after 10 minutes.
    /// Address translators between them may do so after 30 s. At least a second.
    pub refresh: Duration,
}

/// Longest wait for a connection, if the application does not say how long.
const OUTAGE_MAX: Duration = Duration::from_secs(60);
/// Registrations over datagrams are repeated so often, if the application does not say how often.
const REFRESH: Duration = Duration::from_secs(25);
/// For so long after a connection that follows another one, other applications of a router that has restarted may not be back yet.
const SETTLING: Duration = Duration::from_secs(4);

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions { signer: Signer::digest(), validator: None, outage_max: OUTAGE_MAX, refresh: REFRESH }
    }
}

/// The state of an application.
///
/// ```
/// use std::time::Duration;
/// use byname_client::session::{Event, Session, SessionOptions};
/// use byname_client::transport::Peer;
/// use byname_client::{Incoming, Now, Outbox, interest};
/// use byname_wire::data::DataBuilder;
/// use byname_wire::{LpPacket, Name};
///
/// let name: Name = "/example/hello".parse()?;
/// let now = Now { elapsed: Duration::ZERO, unix: Duration::from_secs(1_795_000_000) };
/// let mut outbox = Outbox::new(None, 0);
/// let mut session = Session::new(SessionOptions::default());
/// session.on_connected(Peer { is_local: true, is_datagram: false }, now, &mut outbox);
/// let id = session.express(interest(&name).encode(), 1, now, &mut outbox)?;
/// assert_eq!(outbox.frames().count(), 1);
///
/// // The caller has sent the frame, and Data arrives.
/// let data = DataBuilder::new(name).content(b"hi".to_vec()).encode();
/// session.on_packet(&Incoming::bare(&data), now, &mut outbox);
/// let Some(Event::Answer { id: answered, result: Ok(packet) }) = session.next_event() else { panic!() };
/// assert_eq!((answered, packet.data().content), (id, &b"hi"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session {
    signer: Signer,
    checker: Checker,
    /// The router; `None` without a connection.
    peer: Option<Peer>,
    outage_max: Duration,
    refresh: Duration,
    /// Whether there was a connection before, so that another one is a return.
    had_connection: bool,
    /// Until then, other applications may not be back after an outage.
    settled_at: Duration,
    /// Whether a packet has arrived on this connection.
    has_heard: bool,
    interests: Interests,
    producers: Producers,
    searches: BTreeMap<FindId, Search>,
    transfers: BTreeMap<FetchId, Transfer>,
    groups: BTreeMap<GroupId, Group>,
    /// Descriptors that every router must be told.
    advertised: Vec<Descriptor>,
    /// Whether the application has asked for addresses: only then does a router deliver to them.
    has_addresses: bool,
    /// When descriptors are to be repeated.
    repeat_at: Option<Duration>,
    /// Requests whose signers' certificates are not here yet.
    checks: VecDeque<Check>,
    replays: Replays,
    events: VecDeque<Event>,
    last_id: u64,
}

impl Session {
    /// A session without a connection.
    pub fn new(options: SessionOptions) -> Self {
        Session {
            signer: options.signer,
            checker: Checker::new(options.validator),
            peer: None,
            outage_max: options.outage_max,
            refresh: options.refresh,
            had_connection: false,
            settled_at: Duration::ZERO,
            has_heard: false,
            interests: Interests::default(),
            producers: Producers::default(),
            searches: BTreeMap::new(),
            transfers: BTreeMap::new(),
            groups: BTreeMap::new(),
            advertised: Vec::new(),
            has_addresses: false,
            repeat_at: None,
            checks: VecDeque::new(),
            replays: Replays::default(),
            events: VecDeque::new(),
            last_id: 0,
        }
    }

    /// There is a connection.
    pub fn on_connected(&mut self, peer: Peer, now: Now, outbox: &mut Outbox) {
        self.peer = Some(peer);
        self.replays.start(now);
        self.has_heard = false;
        if std::mem::replace(&mut self.had_connection, true) {
            self.settled_at = now.elapsed.saturating_add(SETTLING);
        }
        self.producers.forget_registrations(now.elapsed);
        for id in self.interests.signed() {
            self.sign_again(id, now);
        }
        for wire in self.interests.renew(now.elapsed) {
            outbox.push(&wire, Fields::default());
        }
        self.checker.on_connected(now.moment());
        self.advertise_again(now, outbox);
        self.poll(now, outbox);
    }

    /// The connection is gone.
    pub fn on_disconnected(&mut self, now: Now) {
        self.peer = None;
        self.repeat_at = None;
        self.transfers.values_mut().for_each(|transfer| transfer.on_connection_lost(now.elapsed));
        for id in self.interests.bound_to_connection() {
            self.interests.remove(id);
        }
        self.interests.suspend(self.outage_max, now.elapsed);
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        self.peer.is_some()
    }

    /// Whether a packet has arrived on this connection. Before that, the peer may be no router.
    pub fn has_heard(&self) -> bool {
        self.has_heard
    }

    /// The next event.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Sends an Interest. Each of `tries` has a new nonce and waits for the Interest's lifetime. The answer is an
    /// [`Event::Answer`].
    ///
    /// # Errors
    /// `interest` is malformed or too large.
    pub fn express(
        &mut self,
        interest: Vec<u8>,
        tries: u32,
        now: Now,
        outbox: &mut Outbox,
    ) -> Result<InterestId, ExchangeError> {
        self.express_for(Purpose::Application, interest, tries, now, outbox)
    }

    /// Sends an Interest of the session itself. If it cannot be sent, this is its result.
    fn ask_for(&mut self, purpose: Purpose, interest: Vec<u8>, tries: u32, now: Now, outbox: &mut Outbox) {
        if let Err(error) = self.express_for(purpose.clone(), interest, tries, now, outbox) {
            self.finish(InterestId(0), purpose, Err(error), now, outbox);
        }
    }

    fn express_for(
        &mut self,
        purpose: Purpose,
        interest: Vec<u8>,
        tries: u32,
        now: Now,
        outbox: &mut Outbox,
    ) -> Result<InterestId, ExchangeError> {
        let id = InterestId(self.new_id());
        let outage_max = self.peer.is_none().then_some(self.outage_max);
        self.interests.add(id, interest, tries, purpose, outage_max, now.elapsed)?;
        if self.peer.is_some() {
            outbox.push(self.interests.wire(id), Fields::default());
        }
        Ok(id)
    }

    /// Stops waiting for an answer.
    pub fn cancel(&mut self, id: InterestId) {
        if let Some(check) = self.interests.check_of(id) {
            self.checker.forget(check);
        }
        self.interests.remove(id);
    }

    /// Number of Interests that wait.
    pub fn waiting(&self) -> usize {
        self.interests.len()
    }

    /// The session's key.
    pub fn signer(&self) -> &Signer {
        &self.signer
    }

    /// Signs Data with the session's key.
    ///
    /// # Errors
    /// The key cannot sign.
    pub fn sign(&self, data: &DataBuilder) -> Result<Vec<u8>, SignerError> {
        self.signer.sign_data(data)
    }

    /// Sends a management command with its parameters in ApplicationParameters. The answer is an [`Event::Commanded`].
    ///
    /// # Errors
    /// The session's key cannot sign.
    pub fn command(
        &mut self,
        module: &str,
        verb: &str,
        parameters: &[u8],
        now: Now,
        outbox: &mut Outbox,
    ) -> Result<CommandId, SignerError> {
        let id = CommandId(self.new_id());
        self.send_command(Some(id), (module, verb), parameters, now, outbox)?;
        Ok(id)
    }

    /// Sends a command. Without an id, nobody waits for its answer.
    fn send_command(
        &mut self,
        id: Option<CommandId>,
        (module, verb): (&str, &str),
        parameters: &[u8],
        now: Now,
        outbox: &mut Outbox,
    ) -> Result<(), SignerError> {
        let name = management_name("localhost", module, verb);
        let interest = signed_by(&self.signer, name, parameters.to_vec(), None, now.unix_ms())?;
        let (module, verb, parameters) = (module.to_owned(), verb.to_owned(), parameters.to_vec());
        self.ask_for(Purpose::Command { id, module, verb, parameters }, interest, 1, now, outbox);
        Ok(())
    }

    /// Does what is due: ends what waits too long, and sends again what was lost.
    pub fn poll(&mut self, now: Now, outbox: &mut Outbox) {
        if self.peer.is_none() {
            return self.end_long_waits(now, outbox);
        }
        while let Some(id) = self.interests.expired(now.elapsed) {
            if self.interests.has_tries(id) {
                self.sign_again(id, now);
            }
            if let Some(wire) = self.interests.try_again(id, now.elapsed) {
                outbox.push(&wire, Fields::default());
            } else if let Some(pending) = self.interests.remove(id) {
                let waited = now.elapsed.saturating_sub(pending.began);
                let error = ExchangeError::Timeout { name: pending.name, waited, tries: pending.tries };
                self.finish(id, pending.purpose, Err(error), now, outbox);
            }
        }
        self.check_again(now, outbox);
        self.register_due(now, outbox);
        self.repeat_descriptors(now, outbox);
        self.transfers.values_mut().for_each(|transfer| transfer.poll(now.elapsed, outbox));
        self.poll_groups(now, outbox);
    }

    /// Without a connection: ends what has waited too long for one.
    fn end_long_waits(&mut self, now: Now, outbox: &mut Outbox) {
        while let Some(id) = self.interests.expired(now.elapsed) {
            if let Some(check) = self.interests.check_of(id) {
                self.checker.forget(check);
            }
            let Some(pending) = self.interests.remove(id) else { continue };
            let waited = now.elapsed.saturating_sub(pending.began);
            self.finish(id, pending.purpose, Err(ExchangeError::Offline { name: pending.name, waited }), now, outbox);
        }
        if let Some(before) = now.elapsed.checked_sub(self.outage_max) {
            while let Some((prefix, since)) = self.producers.next_untold(before) {
                let error = ExchangeError::Offline { name: prefix.clone(), waited: now.elapsed.saturating_sub(since) };
                let command = "rib/register".to_owned();
                let error = ManagementError::Unanswered { command, error, local: true };
                self.events.push_back(Event::NotRegistered { prefix, error });
            }
        }
        let outage_max = self.outage_max;
        self.transfers.values_mut().for_each(|transfer| transfer.wait_for_connection(outage_max, now.elapsed));
    }

    /// When [`Session::poll`] has something to do, on the clock of [`Now::elapsed`].
    pub fn next_deadline(&self, now: Now) -> Option<Duration> {
        let of_interests = self.interests.next_deadline();
        if self.peer.is_none() {
            let transfers = self.transfers.values().filter_map(|transfer| transfer.offline_deadline(self.outage_max));
            let producers = self.producers.untold_since().map(|since| since.saturating_add(self.outage_max));
            return transfers.chain(producers).chain(of_interests).min();
        }
        let checks = self.checker.next_deadline_ms().map(Duration::from_millis);
        let transfers = self.transfers.values().filter_map(|transfer| transfer.next_deadline(now.elapsed));
        let groups = self.groups.values().map(|group| group.sync.next_deadline());
        let single = [of_interests, checks, self.producers.next_deadline(), self.repeat_at];
        transfers.chain(groups).chain(single.into_iter().flatten()).min()
    }

    fn is_local(&self) -> bool {
        self.peer.is_some_and(|peer| peer.is_local)
    }

    fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Sends Interests for certificates, and goes on with what has waited for them.
    fn check_again(&mut self, now: Now, outbox: &mut Outbox) {
        for wanted in self.checker.poll(now.moment()) {
            let interest = InterestBuilder::new(wanted.name, rand::random()).can_be_prefix(true);
            let interest = interest.lifetime_ms(wanted.lifetime_ms).forwarding_hint(wanted.forwarding_hint);
            outbox.push(&interest.encode(), Fields::default());
        }
        for (id, check) in self.interests.held() {
            let Some(outcome) = self.checker.take(check) else { continue };
            if let Some((pending, answer)) = self.interests.release(id) {
                let name = answer.data().name.to_name();
                let result = outcome.map(|()| answer).map_err(|doubt| ExchangeError::Untrusted { name, doubt });
                self.finish(id, pending.purpose, result, now, outbox);
            }
        }
        self.check_groups_again(now);
        self.check_requests_again(now);
    }

    /// Takes the final result of an Interest.
    fn finish(
        &mut self,
        id: InterestId,
        purpose: Purpose,
        result: Result<DataPacket, ExchangeError>,
        now: Now,
        outbox: &mut Outbox,
    ) {
        match purpose {
            Purpose::Application | Purpose::Signed(_) => self.events.push_back(Event::Answer { id, result }),
            Purpose::Command { id: Some(id), module, verb, .. } => {
                let result = self.response(format!("{module}/{verb}"), result);
                self.on_commanded(id, result);
            }
            Purpose::Command { id: None, .. } => {}
            Purpose::Registration(prefix) => {
                let response = self.response("rib/register".to_owned(), result);
                let outcome = response.and_then(|response| outcome("rib/register".to_owned(), response));
                let refresh = self.next_refresh(now);
                if !self.producers.on_answer(&prefix, outcome.is_ok(), refresh, now.elapsed) {
                    return;
                }
                if outcome.is_ok() {
                    // What a member has sent before reached only those who were there earlier.
                    self.groups.values_mut().filter(|group| group.prefix == prefix).for_each(|group| {
                        group.sync.hurry(now.elapsed);
                    });
                    self.poll_groups(now, outbox);
                }
                self.events.push_back(match outcome {
                    Ok(_) => Event::Registered { prefix },
                    Err(error) => Event::NotRegistered { prefix, error },
                });
            }
            Purpose::Find(id) => self.on_found(id, result, now, outbox),
        }
    }

    fn response(
        &self,
        command: String,
        result: Result<DataPacket, ExchangeError>,
    ) -> Result<ControlResponse, ManagementError> {
        let local = self.is_local();
        let answer = result.map_err(|error| ManagementError::Unanswered { command: command.clone(), error, local })?;
        ControlResponse::decode(answer.data().content).map_err(|error| ManagementError::Malformed { command, error })
    }
}

/// An Interest with a random nonce, to which options may be added.
///
/// ```
/// let interest = byname_client::interest(&"/example/hello".parse()?).must_be_fresh(true).lifetime_ms(1000);
/// assert!(byname_wire::Interest::decode(&interest.encode()).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn interest(name: &Name) -> InterestBuilder {
    InterestBuilder::new(name.clone(), rand::random()).lifetime_ms(as_ms(LIFETIME))
}

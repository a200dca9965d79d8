//! The blocking client: a [`Session`] on a [`Link`].

mod fetching;
mod groups;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use byname_mgmt::ControlResponse;
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Interest, Name};
use thiserror::Error;

use crate::backoff::Backoff;
use crate::clock::{Clock, Now};
use crate::failure::{ClientCounters, Failure, Failures, ReplyError};
use crate::link::{ConnectionLost, DataPacket, ExchangeError, Link};
use crate::management::{ManagementError, RegisterOptions};
use crate::outbox::Outbox;
use crate::publish::Publication;
use crate::session::{CommandId, Event, InterestId, Request, Session, SessionOptions};
use crate::signed::RequestDoubt;
use crate::socket::ConnectError;
use crate::transport::{Environment, Transport, TransportError};

pub use fetching::{FetchFileError, Fetching};

/// Events that nobody has taken. A new one replaces the oldest.
const UNCLAIMED_MAX: usize = 10_000;
/// First and longest pause between two attempts to connect again.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// How a client connects, and its keys.
pub struct ClientOptions {
    /// Transports to try, in order.
    pub transports: Vec<Transport>,
    /// Pauses between attempts to connect again. `None`: the loss of the connection is an error.
    pub reconnect: Option<Backoff>,
    /// Keys, and whom to trust.
    pub session: SessionOptions,
}

impl ClientOptions {
    /// The transport that the environment names, as for all NDN applications: `NDN_CLIENT_TRANSPORT`, `client.conf`, or
    /// the usual Unix sockets. The client connects again when the router is gone.
    ///
    /// # Errors
    /// The environment names something else than a transport.
    pub fn of_environment() -> Result<Self, TransportError> {
        Ok(ClientOptions::new(Environment::of_process().candidates(None)?))
    }

    /// These transports. The client connects again when the router is gone.
    pub fn new(transports: Vec<Transport>) -> Self {
        let reconnect = Some(Backoff::new(RECONNECT.0, RECONNECT.1));
        ClientOptions { transports, reconnect, session: SessionOptions::default() }
    }
}

/// The reason why a client did not connect as the environment says.
#[derive(Debug, Error)]
pub enum StartError {
    /// The environment is wrong.
    #[error(transparent)]
    Environment(#[from] TransportError),
    /// No router answers.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// What a function answers.
type Answer = dyn FnMut(&Interest<'_>) -> Option<DataBuilder> + Send;

/// What a function answers to a key.
type SignedAnswer = dyn FnMut(&Interest<'_>, &Name) -> Option<DataBuilder> + Send;

/// What answers the Interests below a prefix.
enum Handler {
    Function(Box<Answer>),
    SignedFunction(Box<SignedAnswer>),
    Publication(Box<Publication>),
}

/// Why a wait ended without a result.
#[derive(Debug)]
enum Stopped {
    Interrupted,
    Lost(ConnectionLost),
}

impl From<Stopped> for ExchangeError {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Interrupted => ExchangeError::Interrupted,
            Stopped::Lost(lost) => ExchangeError::Lost(lost),
        }
    }
}

/// A blocking application of named data.
///
/// All its work is done in the calls of its methods, in the caller's thread: while one waits for an answer, the others'
/// packets are handled, too. An application that only produces calls [`Client::run`].
///
/// ```no_run
/// use byname_client::{Client, interest};
///
/// let mut client = Client::of_environment()?;
/// let data = client.express(&interest(&"/example/hello".parse()?), 3)?;
/// println!("{}", String::from_utf8_lossy(data.data().content));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct Client {
    link: Option<Link>,
    transports: Vec<Transport>,
    reconnect: Option<Backoff>,
    /// When to try to connect again.
    next_attempt: Duration,
    session: Session,
    clock: Clock,
    handlers: BTreeMap<Name, Handler>,
    unclaimed: VecDeque<Event>,
    failures: Failures,
    counters: ClientCounters,
    interrupted: Arc<AtomicBool>,
    /// Takes what is sent while there is no connection.
    nowhere: Outbox,
}

impl Client {
    /// Connects as the environment says ([`ClientOptions::of_environment`]).
    ///
    /// # Errors
    /// No router answers, or the environment is wrong.
    pub fn of_environment() -> Result<Client, StartError> {
        Ok(Client::connect(ClientOptions::of_environment()?)?)
    }

    /// Connects.
    ///
    /// # Errors
    /// No router answers.
    pub fn connect(options: ClientOptions) -> Result<Client, ConnectError> {
        let link = Link::connect(&options.transports)?;
        Ok(Client::over(link, options))
    }

    /// A client over a connection that exists already.
    pub fn over(link: Link, options: ClientOptions) -> Client {
        let mut client = Client {
            interrupted: link.interrupt_flag(),
            link: None,
            transports: options.transports,
            reconnect: options.reconnect,
            next_attempt: Duration::ZERO,
            session: Session::new(options.session),
            clock: Clock::start(),
            handlers: BTreeMap::new(),
            unclaimed: VecDeque::new(),
            failures: Failures::default(),
            counters: ClientCounters::default(),
            nowhere: Outbox::new(None, 0),
        };
        client.take_over(link);
        client
    }

    /// A flag that ends all waiting. A signal handler, or another thread, may set it.
    pub fn interrupt_flag(&self) -> Arc<AtomicBool> {
        self.interrupted.clone()
    }

    /// Whether the flag of [`Client::interrupt_flag`] is set.
    pub fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The connection, for programs that handle some packets by themselves. `None`: it is gone.
    pub fn link(&mut self) -> Option<&mut Link> {
        self.link.as_mut()
    }

    /// The state of the application.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// What the client could not do, and what nobody took from it in time.
    pub fn counters(&self) -> ClientCounters {
        self.counters
    }

    /// The newest Interests that the client could not answer, without those that were taken before: at most 100.
    /// [`Client::counters`] counts all.
    pub fn take_failures(&mut self) -> Vec<Failure> {
        self.failures.take()
    }

    /// What is published under this name. `None`: nothing is.
    pub fn publication(&self, name: &Name) -> Option<&Publication> {
        match self.handlers.get(name) {
            Some(Handler::Publication(publication)) => Some(publication),
            _ => None,
        }
    }

    /// Sends an Interest and waits for its Data. Each of `tries` has a new nonce and waits for the Interest's lifetime.
    ///
    /// # Errors
    /// There is no Data, or it is not trusted.
    pub fn express(&mut self, interest: &InterestBuilder, tries: u32) -> Result<DataPacket, ExchangeError> {
        let id = self.begin(interest, tries)?;
        self.answer(id)
    }

    /// Sends an Interest that is signed by the client's key, and waits for its Data. Each of `tries` is signed again, and
    /// waits for the Interest's lifetime.
    ///
    /// # Errors
    /// The key cannot sign, there is no Data, or it is not trusted.
    pub fn express_signed(&mut self, interest: &InterestBuilder, tries: u32) -> Result<DataPacket, ExchangeError> {
        let id = self.with(|session, now, outbox| session.express_signed(interest.clone(), tries, now, outbox))?;
        self.answer(id)
    }

    /// Sends an Interest and does not wait. [`Client::answer`] waits: so several may be under way.
    ///
    /// # Errors
    /// The Interest is malformed or too large.
    pub fn begin(&mut self, interest: &InterestBuilder, tries: u32) -> Result<InterestId, ExchangeError> {
        self.with(|session, now, outbox| session.express(interest.encode(), tries, now, outbox))
    }

    /// Waits for the answer to an Interest of [`Client::begin`].
    ///
    /// # Errors
    /// There is no Data, or it is not trusted.
    pub fn answer(&mut self, id: InterestId) -> Result<DataPacket, ExchangeError> {
        let claimed = self.wait_for(|event| match event {
            Event::Answer { id: answered, result } if answered == id => Ok(result),
            other => Err(other),
        });
        match claimed {
            Ok(result) => result,
            Err(stopped) => {
                self.session.cancel(id);
                Err(stopped.into())
            }
        }
    }

    /// Answers the Interests below a prefix with what `handler` returns, signed by the client's key. Waits until the
    /// prefix is registered at the router. The handler is called while one of the client's methods runs.
    ///
    /// An answer that cannot be signed, or is larger than a packet, is not sent. [`Client::take_failures`] has it.
    ///
    /// # Errors
    /// The router does not answer, or refuses.
    ///
    /// # Panics
    /// A panic in `handler` leaves by the method of the client that is running, and its Interest gets no answer. The client
    /// stays usable: whoever catches the panic may call its methods again, and the handler is asked again.
    pub fn produce(
        &mut self,
        prefix: &Name,
        handler: impl FnMut(&Interest<'_>) -> Option<DataBuilder> + Send + 'static,
    ) -> Result<(), ManagementError> {
        self.produce_by(prefix, Handler::Function(Box::new(handler)), RegisterOptions::default())
    }

    /// Like [`Client::produce`], for signed Interests. The handler is called with those that the validator accepts and that
    /// are no replays, and with the name of the key that has signed them. Others get no answer: [`Client::take_failures`]
    /// says why. [`crate::signed`] has the rules.
    ///
    /// # Errors
    /// The router does not answer, or refuses.
    pub fn produce_signed(
        &mut self,
        prefix: &Name,
        handler: impl FnMut(&Interest<'_>, &Name) -> Option<DataBuilder> + Send + 'static,
    ) -> Result<(), ManagementError> {
        self.produce_by(prefix, Handler::SignedFunction(Box::new(handler)), RegisterOptions::default())
    }

    /// Publishes an object, until it is withdrawn.
    ///
    /// # Errors
    /// The router does not answer, or refuses.
    pub fn publish(&mut self, publication: Publication, options: RegisterOptions) -> Result<(), ManagementError> {
        let prefix = publication.name().clone();
        self.produce_by(&prefix, Handler::Publication(Box::new(publication)), options)
    }

    /// Answers Interests below a prefix no more.
    pub fn withdraw_prefix(&mut self, prefix: &Name) {
        self.handlers.remove(prefix);
        self.with(|session, now, outbox| session.withdraw_prefix(prefix, now, outbox));
    }

    fn produce_by(&mut self, prefix: &Name, handler: Handler, options: RegisterOptions) -> Result<(), ManagementError> {
        self.handlers.insert(prefix.clone(), handler);
        let is_new = self.with(|session, now, outbox| session.produce(prefix.clone(), options, now, outbox));
        if !is_new && self.session.is_registered(prefix) {
            return Ok(());
        }
        let registered = self.wait_for(|event| match event {
            Event::Registered { prefix: registered } if registered == *prefix => Ok(Ok(())),
            Event::NotRegistered { prefix: refused, error } if refused == *prefix => Ok(Err(error)),
            other => Err(other),
        });
        let outcome = registered.unwrap_or_else(|stopped| Err(self.unanswered("rib/register", stopped)));
        if outcome.is_err() {
            self.withdraw_prefix(prefix);
        }
        outcome
    }

    /// Handles packets for this long, or until the flag of [`Client::interrupt_flag`] is set.
    ///
    /// # Errors
    /// The connection is gone, and the client was told not to connect again.
    pub fn run(&mut self, wait: Duration) -> Result<(), ConnectionLost> {
        let end = self.clock.now().elapsed.saturating_add(wait);
        loop {
            let left = end.saturating_sub(self.clock.now().elapsed);
            if left.is_zero() || self.interrupted() {
                return Ok(());
            }
            self.step(left)?;
        }
    }

    /// Sends a management command with its parameters in ApplicationParameters, and waits for the answer, whatever its
    /// code.
    ///
    /// # Errors
    /// The router does not answer.
    pub fn command(&mut self, module: &str, verb: &str, parameters: &[u8]) -> Result<ControlResponse, ManagementError> {
        let command = format!("{module}/{verb}");
        let begun = self.with(|session, now, outbox| session.command(module, verb, parameters, now, outbox));
        let id = begun.map_err(|error| ManagementError::Unsigned { command: command.clone(), error })?;
        self.response(id, &command)
    }

    fn response(&mut self, id: CommandId, command: &str) -> Result<ControlResponse, ManagementError> {
        let claimed = self.wait_for(|event| match event {
            Event::Commanded { id: answered, result } if answered == id => Ok(result),
            other => Err(other),
        });
        claimed.unwrap_or_else(|stopped| Err(self.unanswered(command, stopped)))
    }

    fn unanswered(&self, command: &str, stopped: Stopped) -> ManagementError {
        let local = self.link.as_ref().is_some_and(Link::is_local);
        ManagementError::Unanswered { command: command.to_owned(), error: stopped.into(), local }
    }

    /// Calls the session. What it sends leaves with the next step.
    fn with<T>(&mut self, call: impl FnOnce(&mut Session, Now, &mut Outbox) -> T) -> T {
        let outbox = match &mut self.link {
            Some(link) => link.outbox(),
            None => {
                self.nowhere.clear();
                &mut self.nowhere
            }
        };
        call(&mut self.session, self.clock.now(), outbox)
    }

    /// Waits for an event that `claim` takes. It returns other events.
    fn wait_for<T>(&mut self, mut claim: impl FnMut(Event) -> Result<T, Event>) -> Result<T, Stopped> {
        loop {
            for _ in 0..self.unclaimed.len() {
                let Some(event) = self.unclaimed.pop_front() else { break };
                match claim(event) {
                    Ok(claimed) => return Ok(claimed),
                    Err(event) => self.unclaimed.push_back(event),
                }
            }
            if self.interrupted() {
                return Err(Stopped::Interrupted);
            }
            self.step(Duration::MAX).map_err(Stopped::Lost)?;
        }
    }

    /// Handles the packets that arrive within `wait`, and what is due. Returns early if something has happened.
    fn step(&mut self, wait: Duration) -> Result<(), ConnectionLost> {
        let now = self.clock.now();
        let until_due = self.session.next_deadline(now).map_or(wait, |due| due.saturating_sub(now.elapsed));
        let wait = wait.min(until_due);
        let Client { link, session, clock, .. } = self;
        match link {
            Some(link) => {
                let received = link.receive(wait, |incoming, outbox| session.on_packet(&incoming, clock.now(), outbox));
                if let Err(lost) = received {
                    self.on_lost(lost)?;
                }
            }
            None => self.try_to_connect(wait, now),
        }
        if let (true, Some(backoff)) = (self.session.has_heard(), &mut self.reconnect) {
            backoff.reset();
        }
        self.with(|session, now, outbox| session.poll(now, outbox));
        self.dispatch();
        match &mut self.link {
            Some(link) => link.flush().or_else(|lost| self.on_lost(lost)),
            None => Ok(()),
        }
    }

    fn on_lost(&mut self, lost: ConnectionLost) -> Result<(), ConnectionLost> {
        self.link = None;
        self.session.on_disconnected(self.clock.now());
        let Some(backoff) = &mut self.reconnect else { return Err(lost) };
        self.next_attempt = self.clock.now().elapsed + backoff.next_pause();
        Ok(())
    }

    /// Connects again if it is time for that, and sleeps otherwise.
    fn try_to_connect(&mut self, wait: Duration, now: Now) {
        // Short, because a signal ends no sleep.
        const SLEEP_MAX: Duration = Duration::from_millis(50);
        let pause = self.next_attempt.saturating_sub(now.elapsed);
        if !pause.is_zero() {
            return std::thread::sleep(pause.min(wait).min(SLEEP_MAX));
        }
        match Link::connect(&self.transports) {
            Ok(link) => self.take_over(link.with_interrupt_flag(self.interrupted.clone())),
            Err(_) => {
                let pause = self.reconnect.as_mut().map_or(SLEEP_MAX, Backoff::next_pause);
                self.next_attempt = self.clock.now().elapsed + pause;
            }
        }
    }

    fn take_over(&mut self, link: Link) {
        let peer = link.peer();
        self.link = Some(link);
        self.with(|session, now, outbox| session.on_connected(peer, now, outbox));
    }

    /// Hands requests to their handlers, and keeps all other events.
    fn dispatch(&mut self) {
        while let Some(event) = self.session.next_event() {
            match event {
                Event::Request(request) => self.handle(request),
                Event::Checked { request, result, .. } => self.handle_signed(&request, result),
                event => {
                    if self.unclaimed.len() == UNCLAIMED_MAX
                        && let Some(oldest) = self.unclaimed.pop_front()
                    {
                        oldest.count_dropped(&mut self.counters);
                    }
                    self.unclaimed.push_back(event);
                }
            }
        }
    }

    fn handle(&mut self, request: Request) {
        let Client { handlers, session, clock, link: Some(link), failures, counters, .. } = self else { return };
        let answered = match handlers.get_mut(request.prefix()) {
            Some(Handler::Function(function)) => match function(&request.interest()) {
                Some(data) => session.reply(&request, &data, link.outbox()),
                None => Ok(()),
            },
            Some(Handler::Publication(publication)) => session.reply_from(&request, publication, link.outbox()),
            Some(Handler::SignedFunction(_)) => {
                session.check_request(request, clock.now());
                return;
            }
            None => Ok(()),
        };
        if let Err(error) = answered {
            counters.failures += 1;
            failures.push(Failure { name: request.interest().name.to_name(), error });
        }
    }

    /// Answers a request that was checked.
    fn handle_signed(&mut self, request: &Request, result: Result<Name, Box<RequestDoubt>>) {
        let Client { handlers, session, link: Some(link), failures, counters, .. } = self else { return };
        let Some(Handler::SignedFunction(function)) = handlers.get_mut(request.prefix()) else { return };
        let interest = request.interest();
        let answered = match result.map(|key| function(&interest, &key)) {
            Ok(Some(data)) => session.reply(request, &data, link.outbox()),
            Ok(None) => Ok(()),
            Err(doubt) => Err(ReplyError::Untrusted(doubt)),
        };
        if let Err(error) = answered {
            counters.failures += 1;
            failures.push(Failure { name: interest.name.to_name(), error });
        }
    }
}

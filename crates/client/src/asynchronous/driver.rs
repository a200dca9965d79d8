//! The task that owns a session and its socket.

use std::collections::HashMap;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use byname_mgmt::ControlResponse;
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::tagnet::Address;
use byname_wire::{Descriptor, NackReason, Name};
use tokio::io::Interest as Readiness;
use tokio::io::Ready;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::watcher::Watcher;
use crate::backoff::Backoff;
use crate::client::ClientOptions;
use crate::clock::{Clock, Now};
use crate::failure::{ClientCounters, Failure, Failures, ReplyError};
use crate::fetch::{Chunk, Discovery, FetchError, FetchOptions, Object};
use crate::link::{DataPacket, ExchangeError};
use crate::management::{ManagementError, RegisterOptions};
use crate::outbox::{Outbox, PacketTooLarge};
use crate::publish::Publication;
use crate::reassembly::Reassembly;
use crate::session::{CheckId, CommandId, Event, FetchId, FindId, GroupId, InterestId, Request, Session};
use crate::signed::RequestDoubt;
use crate::socket::ConnectError;
use crate::socket::Socket;
use crate::sync::{SyncOptions, Update};
use crate::tags::{FanOutLimit, Message};
use crate::transport::Transport;

/// What a handle wants the task to do.
pub(super) type Call = Box<dyn FnOnce(&mut Driver) + Send>;
type Connecting = JoinHandle<Result<Socket, ConnectError>>;

/// While so much waits to be sent, nothing is read: the router must take something first.
const OUTPUT_MAX: usize = 4 << 20;

struct Connection {
    socket: Socket,
    watcher: Watcher,
    outbox: Outbox,
    reassembly: Reassembly,
}

/// What takes the Interests below a prefix.
pub(super) enum Taker {
    Application(mpsc::Sender<Request>),
    Publication(Box<Publication>),
}

/// State of the task.
pub(super) struct Driver {
    connection: Option<Connection>,
    connecting: Option<Connecting>,
    transports: Vec<Transport>,
    reconnect: Option<Backoff>,
    next_attempt: Duration,
    session: Session,
    clock: Clock,
    nowhere: Outbox,
    calls: Option<mpsc::Receiver<Call>>,
    wake: Arc<Notify>,
    answers: HashMap<InterestId, oneshot::Sender<Result<DataPacket, ExchangeError>>>,
    commands: HashMap<CommandId, oneshot::Sender<Result<ControlResponse, ManagementError>>>,
    searches: HashMap<FindId, oneshot::Sender<Result<Object, ExchangeError>>>,
    registering: HashMap<Name, oneshot::Sender<Result<(), ManagementError>>>,
    producers: HashMap<Name, Taker>,
    fetches: HashMap<FetchId, mpsc::Sender<Result<Chunk, FetchError>>>,
    groups: HashMap<GroupId, mpsc::Sender<Vec<Update>>>,
    messages: Option<mpsc::Sender<Message>>,
    checks: HashMap<CheckId, Checked>,
    failures: Failures,
    counters: ClientCounters,
    /// Whether the client was closed.
    is_closed: bool,
}

impl Driver {
    pub async fn connect(
        options: ClientOptions,
        calls: mpsc::Receiver<Call>,
        wake: Arc<Notify>,
    ) -> Result<Self, ConnectError> {
        let socket = connect(options.transports.clone()).await;
        let socket = socket.unwrap_or_else(|_| Err(ConnectError { attempts: Vec::new() }))?;
        let mut driver = Driver {
            connection: None,
            connecting: None,
            transports: options.transports,
            reconnect: options.reconnect,
            next_attempt: Duration::ZERO,
            session: Session::new(options.session),
            clock: Clock::start(),
            nowhere: Outbox::new(None, 0),
            calls: Some(calls),
            wake,
            answers: HashMap::new(),
            commands: HashMap::new(),
            searches: HashMap::new(),
            registering: HashMap::new(),
            producers: HashMap::new(),
            fetches: HashMap::new(),
            groups: HashMap::new(),
            messages: None,
            checks: HashMap::new(),
            failures: Failures::default(),
            counters: ClientCounters::default(),
            is_closed: false,
        };
        driver.take_over(socket);
        Ok(driver)
    }

    /// Works until all handles are gone, the client is closed, or the connection is lost and must not be made again.
    pub async fn run(mut self) {
        let Some(mut calls) = self.calls.take() else { return };
        let wake = self.wake.clone();
        loop {
            let now = self.clock.now();
            let pause = self.pause(now);
            tokio::select! {
                call = calls.recv() => match call {
                    Some(call) => call(&mut self),
                    None => return,
                },
                () = wake.notified() => {}
                ready = ready(&mut self.connection) => self.transfer(ready),
                socket = connected(&mut self.connecting) => self.on_attempt(socket),
                () = tokio::time::sleep(pause) => {}
            }
            while let Ok(call) = calls.try_recv() {
                call(&mut self);
            }
            if let (true, Some(backoff)) = (self.session.has_heard(), &mut self.reconnect) {
                backoff.reset();
            }
            self.with(|session, now, outbox| session.poll(now, outbox));
            self.dispatch();
            self.hand_out_chunks();
            self.send();
            if self.is_closed || self.connection.is_none() && self.reconnect.is_none() {
                return;
            }
            self.connect_again();
        }
    }

    /// Time until something is due.
    fn pause(&self, now: Now) -> Duration {
        let until = |due: Duration| due.saturating_sub(now.elapsed);
        let of_session = self.session.next_deadline(now).map(until);
        let is_waiting = self.connection.is_none() && self.connecting.is_none();
        let of_attempt = is_waiting.then(|| until(self.next_attempt));
        of_session.into_iter().chain(of_attempt).min().unwrap_or(Duration::from_secs(3600))
    }

    pub fn with<T>(&mut self, call: impl FnOnce(&mut Session, Now, &mut Outbox) -> T) -> T {
        let outbox = match &mut self.connection {
            Some(connection) => &mut connection.outbox,
            None => {
                self.nowhere.clear();
                &mut self.nowhere
            }
        };
        call(&mut self.session, self.clock.now(), outbox)
    }

    /// Reads what has arrived.
    fn transfer(&mut self, ready: io::Result<Ready>) {
        let Driver { connection: Some(connection), session, clock, .. } = self else { return };
        let Connection { socket, watcher, outbox, reassembly } = connection;
        let outcome = ready.and_then(|ready| {
            if !ready.is_readable() && !ready.is_read_closed() {
                return Ok(());
            }
            let now = clock.now();
            // If there is nothing to read, this waits for more.
            watcher.try_io(Readiness::READABLE, || {
                socket.read(|frame| reassembly.accept(frame, |packet| session.on_packet(&packet, now, outbox)))
            })
        });
        if outcome.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
            self.on_lost();
        }
    }

    fn send(&mut self) {
        let Some(Connection { socket, watcher, outbox, .. }) = &mut self.connection else { return };
        // If the router does not take all, this waits until it takes more.
        let outcome = watcher.try_io(Readiness::WRITABLE, || {
            socket.send(outbox)?;
            if socket.wants_to_send(outbox) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        if outcome.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
            self.on_lost();
        }
    }

    fn on_lost(&mut self) {
        self.connection = None;
        self.session.on_disconnected(self.clock.now());
        if let Some(backoff) = &mut self.reconnect {
            self.next_attempt = self.clock.now().elapsed + backoff.next_pause();
        }
    }

    fn connect_again(&mut self) {
        let is_due = self.next_attempt <= self.clock.now().elapsed;
        if self.connection.is_none() && self.connecting.is_none() && is_due {
            self.connecting = Some(connect(self.transports.clone()));
        }
    }

    fn on_attempt(&mut self, socket: Option<Socket>) {
        self.connecting = None;
        match (socket, &mut self.reconnect) {
            (Some(socket), _) => self.take_over(socket),
            (None, Some(backoff)) => self.next_attempt = self.clock.now().elapsed + backoff.next_pause(),
            (None, None) => {}
        }
    }

    fn take_over(&mut self, mut socket: Socket) {
        let (peer, outbox) = (socket.peer(), Outbox::new(socket.mtu(), rand::random()));
        let Ok(watcher) = Watcher::of(&mut socket) else { return self.on_lost() };
        self.connection = Some(Connection { socket, watcher, outbox, reassembly: Reassembly::default() });
        self.with(|session, now, outbox| session.on_connected(peer, now, outbox));
    }

    /// Hands events to those who wait for them. Nobody minds if they do not wait any more.
    fn dispatch(&mut self) {
        while let Some(event) = self.session.next_event() {
            match event {
                Event::Answer { id, result } => drop(self.answers.remove(&id).map(|sender| sender.send(result))),
                Event::Commanded { id, result } => drop(self.commands.remove(&id).map(|sender| sender.send(result))),
                Event::Found { id, result } => drop(self.searches.remove(&id).map(|sender| sender.send(result))),
                Event::Registered { prefix } => {
                    drop(self.registering.remove(&prefix).map(|sender| sender.send(Ok(()))));
                }
                Event::NotRegistered { prefix, error } => {
                    // The session goes on trying if the prefix was registered before.
                    if let Some(sender) = self.registering.remove(&prefix) {
                        self.withdraw_prefix(&prefix);
                        drop(sender.send(Err(error)));
                    }
                }
                Event::Request(request) => self.hand_over(request),
                Event::Checked { id, request, result } => {
                    let checked = result.map(|key| (request, key));
                    drop(self.checks.remove(&id).map(|sender| sender.send(checked)));
                }
                Event::Updates { group, updates } => {
                    let taken = self.groups.get(&group).map(|sender| sender.try_send(updates));
                    self.counters.updates_dropped += u64::from(taken.is_some_and(|taken| taken.is_err()));
                }
                Event::Message(message) => {
                    let is_taken = self.messages.as_ref().is_some_and(|sender| sender.try_send(message).is_ok());
                    self.counters.messages_dropped += u64::from(!is_taken);
                }
            }
        }
        self.answers.retain(|id, sender| {
            let is_wanted = !sender.is_closed();
            if !is_wanted {
                self.session.cancel(*id);
            }
            is_wanted
        });
    }

    fn hand_over(&mut self, request: Request) {
        let Driver { producers, session, connection, counters, .. } = self;
        let answered = match producers.get_mut(request.prefix()) {
            Some(Taker::Application(sender)) => {
                if let Err(TrySendError::Full(request)) = sender.try_send(request) {
                    counters.requests_dropped += 1;
                    // Who asks then sends less, and asks elsewhere or again.
                    if let Some(connection) = connection {
                        session.refuse(&request, NackReason::Congestion, &mut connection.outbox);
                    }
                }
                return;
            }
            Some(Taker::Publication(publication)) => match connection {
                Some(connection) => session.reply_from(&request, publication, &mut connection.outbox),
                None => return,
            },
            None => return,
        };
        if let Err(error) = answered {
            self.on_failure(&request, error);
        }
    }

    fn on_failure(&mut self, request: &Request, error: ReplyError) {
        self.counters.failures += 1;
        self.failures.push(Failure { name: request.interest().name.to_name(), error });
    }

    /// Hands out the segments for which there is room.
    fn hand_out_chunks(&mut self) {
        let now = self.clock.now();
        let Driver { fetches, session, .. } = self;
        fetches.retain(|id, sender| {
            loop {
                let Ok(permit) = sender.try_reserve() else {
                    let is_wanted = !sender.is_closed();
                    if !is_wanted {
                        session.end_fetch(*id);
                    }
                    return is_wanted;
                };
                match session.take_chunk(*id, now) {
                    Ok(Some(chunk)) => permit.send(Ok(chunk)),
                    Ok(None) if session.is_fetched(*id) => {
                        session.end_fetch(*id);
                        return false;
                    }
                    Ok(None) => return true,
                    Err(error) => {
                        permit.send(Err(error));
                        return false;
                    }
                }
            }
        });
    }

    pub fn express(
        &mut self,
        interest: &InterestBuilder,
        tries: u32,
        sender: oneshot::Sender<Result<DataPacket, ExchangeError>>,
    ) {
        match self.with(|session, now, outbox| session.express(interest.encode(), tries, now, outbox)) {
            Ok(id) => drop(self.answers.insert(id, sender)),
            Err(error) => drop(sender.send(Err(error))),
        }
    }

    pub fn express_signed(
        &mut self,
        interest: InterestBuilder,
        tries: u32,
        sender: oneshot::Sender<Result<DataPacket, ExchangeError>>,
    ) {
        match self.with(|session, now, outbox| session.express_signed(interest, tries, now, outbox)) {
            Ok(id) => drop(self.answers.insert(id, sender)),
            Err(error) => drop(sender.send(Err(error))),
        }
    }

    pub fn check(&mut self, request: Request, done: Checked) {
        let id = self.with(|session, now, _| session.check_request(request, now));
        self.checks.insert(id, done);
    }

    pub fn produce(
        &mut self,
        prefix: Name,
        options: RegisterOptions,
        taker: Taker,
        done: oneshot::Sender<Result<(), ManagementError>>,
    ) {
        self.producers.insert(prefix.clone(), taker);
        let is_new = self.with(|session, now, outbox| session.produce(prefix.clone(), options, now, outbox));
        if !is_new && self.session.is_registered(&prefix) {
            drop(done.send(Ok(())));
        } else {
            self.registering.insert(prefix, done);
        }
    }

    pub fn withdraw_prefix(&mut self, prefix: &Name) {
        self.producers.remove(prefix);
        self.with(|session, now, outbox| session.withdraw_prefix(prefix, now, outbox));
    }

    pub fn reply(&mut self, request: &Request, data: &DataBuilder) {
        if let Err(error) = self.with(|session, _, outbox| session.reply(request, data, outbox)) {
            self.on_failure(request, error);
        }
    }

    pub fn refuse(&mut self, request: &Request, reason: NackReason) {
        self.with(|session, _, outbox| session.refuse(request, reason, outbox));
    }

    pub fn tell_counters(&mut self, done: oneshot::Sender<ClientCounters>) {
        let _ = done.send(self.counters);
    }

    pub fn take_failures(&mut self, done: oneshot::Sender<Vec<Failure>>) {
        let _ = done.send(self.failures.take());
    }

    pub fn command(&mut self, module: &str, verb: &str, parameters: &[u8], done: Commanded) {
        let begun = self.with(|session, now, outbox| session.command(module, verb, parameters, now, outbox));
        self.await_last(&format!("{module}/{verb}"), begun.map(|id| vec![id]), done);
    }

    pub fn find(
        &mut self,
        name: Name,
        how: Discovery,
        lifetime: Duration,
        sender: oneshot::Sender<Result<Object, ExchangeError>>,
    ) {
        let id = self.with(|session, now, outbox| session.find(name, how, lifetime, now, outbox));
        self.searches.insert(id, sender);
    }

    pub fn fetch(
        &mut self,
        object: Name,
        options: FetchOptions,
        chunks: mpsc::Sender<Result<Chunk, FetchError>>,
        done: oneshot::Sender<FetchId>,
    ) {
        let id = self.with(|session, now, outbox| session.fetch(object, options, now, outbox));
        self.fetches.insert(id, chunks);
        let _ = done.send(id);
    }

    pub fn end_fetch(&mut self, id: FetchId) {
        self.fetches.remove(&id);
        self.session.end_fetch(id);
    }

    pub fn join(
        &mut self,
        group: Name,
        node: Name,
        options: SyncOptions,
        updates: mpsc::Sender<Vec<Update>>,
        done: oneshot::Sender<(GroupId, u64)>,
    ) {
        let id = self.with(|session, now, outbox| session.join(group, node, options, now, outbox));
        self.groups.insert(id, updates);
        let boot = self.session.group(id).map_or(0, |group| group.sync().boot());
        let _ = done.send((id, boot));
    }

    pub fn leave(&mut self, id: GroupId) {
        self.groups.remove(&id);
        self.with(|session, now, outbox| session.leave(id, now, outbox));
    }

    pub fn publish_in(&mut self, id: GroupId, done: oneshot::Sender<u64>) {
        if let Some(number) = self.with(|session, now, outbox| session.publish_in(id, now, outbox)) {
            let _ = done.send(number);
        }
    }

    pub fn advertise(&mut self, descriptors: &[Descriptor], done: Commanded) {
        let begun = self.with(|session, now, outbox| session.advertise(descriptors, now, outbox));
        self.await_last("tags/advertise", begun, done);
    }

    pub fn withdraw(&mut self, descriptors: &[Descriptor], done: Commanded) {
        let begun = self.with(|session, now, outbox| session.withdraw(descriptors, now, outbox));
        self.await_last("tags/withdraw", begun, done);
    }

    pub fn ask_addresses(&mut self, done: Commanded) {
        let begun = self.with(|session, now, outbox| session.ask_addresses(now, outbox)).map(|id| vec![id]);
        self.await_last("tags/locators", begun, done);
    }

    /// The router answers commands in order, so the last answer is that of all.
    fn await_last(&mut self, command: &str, begun: Result<Vec<CommandId>, byname_trust::SignerError>, done: Commanded) {
        match begun.map(|ids| ids.last().copied()) {
            Ok(Some(id)) => drop(self.commands.insert(id, done)),
            Ok(None) => drop(done.send(Ok(ControlResponse::new(200, "OK")))),
            Err(error) => drop(done.send(Err(ManagementError::Unsigned { command: command.to_owned(), error }))),
        }
    }

    pub fn send_to_tags(
        &mut self,
        descriptor: &Descriptor,
        limit: FanOutLimit,
        source: Address,
        payload: &[u8],
        done: oneshot::Sender<Result<(), PacketTooLarge>>,
    ) {
        let sent = self.with(|session, _, outbox| session.send_to_tags(descriptor, limit, source, payload, outbox));
        let _ = done.send(sent);
    }

    pub fn send_to(
        &mut self,
        destination: Address,
        source: Address,
        payload: &[u8],
        done: oneshot::Sender<Result<(), PacketTooLarge>>,
    ) {
        let sent = self.with(|session, _, outbox| session.send_to(destination, source, payload, outbox));
        let _ = done.send(sent);
    }

    pub fn close(&mut self) {
        self.is_closed = true;
    }

    pub fn messages_to(&mut self, sender: mpsc::Sender<Message>) {
        self.messages = Some(sender);
    }
}

/// Takes a request that was checked, and the key that has signed it.
type Checked = oneshot::Sender<Result<(Request, Name), Box<RequestDoubt>>>;
type Commanded = oneshot::Sender<Result<ControlResponse, ManagementError>>;

/// Waits until the socket can be read, or written if something waits for that.
async fn ready(connection: &mut Option<Connection>) -> io::Result<Ready> {
    let Some(Connection { socket, watcher, outbox, .. }) = connection else { return pending().await };
    let wants_to_send = socket.wants_to_send(outbox);
    let interest = match wants_to_send {
        true if outbox.bytes().len() > OUTPUT_MAX => Readiness::WRITABLE,
        true => Readiness::READABLE | Readiness::WRITABLE,
        false => Readiness::READABLE,
    };
    watcher.ready(interest).await
}

/// Waits for an attempt to connect.
async fn connected(connecting: &mut Option<Connecting>) -> Option<Socket> {
    match connecting {
        Some(attempt) => attempt.await.ok().and_then(Result::ok),
        None => pending().await,
    }
}

/// Connects on a thread that may block.
fn connect(transports: Vec<Transport>) -> Connecting {
    tokio::task::spawn_blocking(move || Socket::connect_first(&transports).map(|(socket, _)| socket))
}

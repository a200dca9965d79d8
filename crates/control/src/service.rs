//! The control thread: answers management Interests and commits routes.
//!
//! The thread sleeps until one of these happens: the worker forwards a packet to the internal face, a face comes or
//! goes, a route expires, or the process sends a request. Interests are answered in batches. All changes of a batch
//! reach the FIB together, before the answers are sent.

mod changes;
mod destinations;
mod door;
mod fib;

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use byname_face::pulse::{Doing, Pulse, Watched};
use byname_face::{FaceEvent, ForwarderHandle, InternalFace, InternalSender};
use byname_forward::learning::Notice;
use byname_forward::tables::Tables;
use byname_forward::{FaceId, LinkFields, Packet};
use byname_lookup::BuildError;
use byname_lookup::locator::Trees;
use byname_wire::tlv::types::INTEREST;
use byname_wire::{Data, Interest, Name};
use crossbeam_channel::{Receiver, Select, Sender, TryRecvError, bounded};
use thiserror::Error;

use self::door::Guests;
pub use self::door::{Door, GUESTS, TellAnswer, guest_face};
use crate::fib_writer::{FibWriter, Replica};
use crate::metrics;
use crate::mgmt::audit::Audit;
pub use crate::mgmt::reload::Limits;
use crate::mgmt::tlv::{ControlResponse, Element};
use crate::mgmt::{Management, Restored};
use crate::readvertise::{Destination, Readvertiser};
use crate::rib::{RibError, Route};
use crate::security::Authorizer;
use crate::state::records::{Snapshot, ToldRecord};
use crate::state::{Change, Keeper, Opened, Store};
use crate::tags::bulk::TagFib;
use crate::tags::{OwnTree, TagLimits, TagRouting};
use byname_trust::Moment;

/// Most packets from the worker in a batch. Small, so that the packet thread and this thread overlap.
const BATCH_MAX: usize = 32;
/// Most route notices handled per round before packets, because verifying a notice takes time.
const NOTICES_PER_ROUND: usize = 8;
/// Capacity of the process's request queue.
const REQUESTS_MAX: usize = 16;
/// How often to retry an answer while the queue to the worker is full.
const SEND_TRIES: u32 = 100;
/// Delay between retries.
const SEND_WAIT: Duration = Duration::from_micros(100);

/// Startup parameters of the control thread.
pub struct ControlConfig {
    /// Rights of signers.
    pub authorizer: Authorizer,
    /// Most routes.
    pub routes_max: usize,
    /// Most prefix announcements to keep. The same limit holds for routes learned from Data.
    pub announcements_max: usize,
    /// Strategy names by prefix.
    pub strategies: Vec<(Name, Name)>,
    /// Time over which the loads of packet threads are measured before a face moves. Zero: faces do not move by
    /// themselves.
    pub balance_period: Duration,
    /// Most descriptors.
    pub tag_limits: TagLimits,
    /// Destinations of route advertisements: a routing daemon, the hub, both or none.
    pub destinations: Vec<Destination>,
    /// The audit log.
    pub audit: Audit,
}

/// The packet thread's endpoints for the control thread, created by [`byname_face::io_loop::start`].
pub struct Forwarder {
    /// Commands to the packet thread.
    pub handle: ForwarderHandle,
    /// The internal face.
    pub internal: InternalFace,
    /// Face events.
    pub events: Receiver<FaceEvent>,
    /// Route notices from workers.
    pub notices: Receiver<Notice>,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ControlError {
    /// The RIB refuses.
    #[error(transparent)]
    Rib(#[from] RibError),
    /// The FIB cannot be rebuilt.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A strategy cannot be chosen.
    #[error("{0}")]
    Strategy(String),
    /// The thread has ended.
    #[error("the control thread has ended")]
    Ended,
}

type Request = Box<dyn FnOnce(&mut Service) + Send>;

/// A running control thread. The thread ends when the handle is dropped.
pub struct ControlHandle {
    requests: Sender<Request>,
    /// Carries no messages. Dropping it ends the thread.
    owner: Option<Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
    pulse: Option<Watched>,
}

/// Requests snapshots from the control thread, without waiting.
#[derive(Clone)]
pub struct Snapshots {
    requests: Sender<Request>,
    faces_max: usize,
}

impl ControlHandle {
    /// Sets the trees for forwarding and for tag routing, in place of earlier ones.
    pub fn set_trees(&self, trees: Trees, own: Vec<OwnTree>) -> Result<(), ControlError> {
        self.call(move |management| {
            management.join_trees(trees, own);
            management.commit();
        })
    }

    /// Runs `job` on the control thread, which does nothing else meanwhile. All commands that it has taken are answered
    /// before. The store is closed, and opened again afterwards if this process goes on.
    ///
    /// # Errors
    /// If the thread has ended.
    pub fn hand_over<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Departure<'_>) -> R + Send + 'static,
    ) -> Result<R, ControlError> {
        self.call_service(move |service| {
            service.management.commit();
            let store = service.keeper.as_ref().map(|keeper| keeper.status().path);
            service.close_state();
            service.send_answers();
            let done = job(&mut Departure { service });
            store.iter().for_each(|path| service.reopen_state(path));
            done
        })
    }

    /// Takes over what another process has told of its management. Returns the number of routes that stay behind.
    ///
    /// # Errors
    /// If the thread has ended.
    pub fn take_over(&self, snapshot: Snapshot) -> Result<usize, ControlError> {
        self.call_service(move |service| {
            let now = service.clock.now();
            service.management.take_over(snapshot, now)
        })
    }

    /// Changes management between two batches of commands.
    ///
    /// # Errors
    /// If the thread has ended.
    pub fn with_management<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Management) -> R + Send + 'static,
    ) -> Result<R, ControlError> {
        self.call(job)
    }

    /// Takes over the records of an earlier process. Keeps all further changes in its store, if there is one. Routes that
    /// somebody must confirm are removed after `stale_for`. Call this when the faces and routes of the configuration
    /// exist.
    pub fn take_over_state(
        &self,
        store: Option<Store>,
        records: Snapshot,
        stale_for: Duration,
    ) -> Result<Restored, ControlError> {
        let stale_for_ms = u64::try_from(stale_for.as_millis()).unwrap_or(u64::MAX);
        self.call_service(move |service| {
            let mut records = records;
            service.inherit(std::mem::take(&mut records.told), stale_for);
            let restored = service.management.restore(records, stale_for_ms, service.clock.now());
            service.management.commit();
            match store {
                Some(store) => service.start_keeper(store),
                None => service.management.keep_no_more(),
            }
            restored
        })
    }

    /// Keeps all routes of lasting faces in the store, after the faces and routes of another process were taken over. Those
    /// of the configuration are not kept.
    ///
    /// # Errors
    /// If the thread has ended.
    pub fn keep_all_routes(&self, configured: Vec<(Name, Route)>) -> Result<(), ControlError> {
        self.call_at(move |management, now| management.keep_all_routes(&configured, now))
    }

    /// Sets the words that `status/general` has about the state, if none is kept.
    pub fn say_state(&self, words: String) -> Result<(), ControlError> {
        self.call(move |management| management.say_state(words))
    }

    /// Writes what is left to write, and closes the store. The faces that end with this process stay in it.
    pub fn close_state(&self) -> Result<(), ControlError> {
        self.call_service(Service::close_state)
    }

    /// Requests snapshots for metrics, with series for at most so many faces.
    pub fn snapshots(&self, faces_max: usize) -> Snapshots {
        Snapshots { requests: self.requests.clone(), faces_max }
    }

    /// The door for other threads of this process.
    pub fn door(&self) -> Door {
        Door::new(self.requests.clone())
    }

    /// The thread, for a caller that watches whether it ends by itself. After this call, dropping the handle only tells
    /// the thread to end; the caller joins it.
    pub fn take_thread(&mut self) -> Option<JoinHandle<()>> {
        self.thread.take()
    }

    /// What the thread does, for one watcher.
    pub fn take_pulse(&mut self) -> Option<Watched> {
        self.pulse.take()
    }

    fn call<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Management) -> R + Send + 'static,
    ) -> Result<R, ControlError> {
        self.call_service(move |service| job(&mut service.management))
    }

    fn call_at<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Management, Moment) -> R + Send + 'static,
    ) -> Result<R, ControlError> {
        self.call_service(move |service| {
            let now = service.clock.now();
            job(&mut service.management, now)
        })
    }

    fn call_service<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Service) -> R + Send + 'static,
    ) -> Result<R, ControlError> {
        let (reply, answer) = bounded(1);
        let request: Request = Box::new(move |service| {
            let _ = reply.send(job(service));
        });
        self.requests.send(request).map_err(|_| ControlError::Ended)?;
        answer.recv().map_err(|_| ControlError::Ended)
    }
}

impl Drop for ControlHandle {
    fn drop(&mut self) {
        self.owner = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the control thread has panicked");
        }
    }
}

impl Snapshots {
    /// Asks the control thread to take a snapshot and to call `tell` with it. Returns false if its queue is full or it
    /// has ended; `tell` is then never called.
    pub fn ask(&self, tell: impl FnOnce(metrics::Snapshot) + Send + 'static) -> bool {
        let faces_max = self.faces_max;
        self.requests.try_send(Box::new(move |service| tell(service.snapshot(faces_max)))).is_ok()
    }
}

/// The replicas of the FIB of names, and the FIB of descriptors.
pub type Engines = (Vec<Replica>, TagFib);

/// Starts the control thread of a forwarder. Its workers read `tables`, which publish the query halves of the engines;
/// all are still empty.
pub fn start(
    config: ControlConfig,
    forwarder: Forwarder,
    (replicas, TagFib { engine, labels }): Engines,
    tables: Arc<Tables>,
) -> std::io::Result<ControlHandle> {
    let (requests, receiver) = bounded(REQUESTS_MAX);
    let (owner, owned) = bounded(0);
    let clock = Clock { start: Instant::now() };
    let now = clock.now();
    let tag_fib = FibWriter::new(engine, Arc::clone(&tables));
    let mut management = Management::new(
        forwarder.handle,
        config.authorizer,
        config.routes_max,
        FibWriter::replicated(replicas, tables),
        TagRouting::new(tag_fib, config.tag_limits, now.unix_ms).with_labels(labels),
        config.strategies,
        now,
    );
    management.limit_announcements(config.announcements_max);
    management.balance_threads(config.balance_period, now);
    management.audit_to(config.audit);
    let guests = door::welcome_guests(&mut management);
    // Clients may connect as soon as this function returns, so the FIB must be ready.
    management.commit();
    let pulse = Pulse::new("byname-control");
    let watched = pulse.watched();
    let service = Service {
        management,
        pulse,
        internal: forwarder.internal,
        events: forwarder.events,
        notices: forwarder.notices,
        requests: receiver,
        owner: owned,
        readvertisers: Vec::new(),
        coming: config.destinations,
        clock,
        guests,
        keeper: None,
        inbox: Vec::new(),
        outbox: Vec::new(),
    };
    let thread = std::thread::Builder::new().name("byname-control".into()).spawn(move || service.run())?;
    Ok(ControlHandle { requests, owner: Some(owner), thread: Some(thread), pulse: Some(watched) })
}

/// The control thread of a process that hands over to another one.
pub struct Departure<'a> {
    service: &'a mut Service,
}

impl Departure<'_> {
    /// Gives `tell` all routes and settings; see [`Management::hand_over`].
    ///
    /// # Errors
    /// An error of `tell`.
    pub fn records<E>(&self, tell: impl FnMut(Snapshot) -> Result<(), E>) -> Result<(), E> {
        self.service.management.hand_over(self.service.clock.now(), tell)
    }

    /// Management, for what has to be closed before the other process opens it.
    pub fn management(&mut self) -> &mut Management {
        &mut self.service.management
    }

    /// Packets for management that are not handled yet. If this process goes on after all, it handles them.
    pub fn waiting(&mut self) -> &[(LinkFields, Packet)] {
        let service = &mut *self.service;
        service.inbox.extend(service.internal.from_worker.try_iter());
        &service.inbox
    }
}

struct Clock {
    start: Instant,
}

impl Clock {
    fn now(&self) -> Moment {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        // `ms` starts at 1: a deadline of 0 means "now".
        Moment { ms: ms(self.start.elapsed()) + 1, unix_ms: ms(since_epoch) }
    }
}

struct Service {
    management: Management,
    pulse: Pulse,
    internal: InternalFace,
    events: Receiver<FaceEvent>,
    notices: Receiver<Notice>,
    requests: Receiver<Request>,
    /// Disconnects when the thread must end.
    owner: Receiver<Infallible>,
    readvertisers: Vec<Readvertiser>,
    /// Destinations that wait until others have gone.
    coming: Vec<Destination>,
    clock: Clock,
    /// Commands of other threads of this process.
    guests: Arc<Guests>,
    /// `None`: nothing survives this process.
    keeper: Option<Keeper>,
    inbox: Vec<(LinkFields, Packet)>,
    outbox: Vec<Packet>,
}

/// The other end of a channel is gone.
struct Ended;

impl Service {
    fn run(mut self) {
        while self.round().is_ok() {
            self.pulse.note(Doing::Nothing);
            self.wait();
        }
        self.close_state();
    }

    /// Handles pending input, up to one batch of packets.
    fn round(&mut self) -> Result<(), Ended> {
        next(&self.owner)?;
        self.pulse.note(Doing::Management);
        let now = self.clock.now();
        self.management.begin_round(now);
        while self.inbox.len() < BATCH_MAX
            && !self.is_full()
            && let Some(received) = next(&self.internal.from_worker)?
        {
            self.inbox.push(received);
        }
        // Taken before the events, so that a face is announced before the command that created it is answered.
        let mut created = Vec::new();
        while let Some(one) = next(self.management.creations())? {
            created.push(one);
        }
        // Handle events before the Interests in the inbox: those events include the faces that the Interests came from.
        while let Some(event) = next(&self.events)? {
            self.outbox.push(self.management.face_event(&event));
            if let FaceEvent::Up(status) = &event {
                self.face_is_up(status.id);
            }
        }
        for one in created {
            let answer = self.management.face_created(one);
            self.answer(answer, now);
        }
        while let Some(one) = next(self.management.returned())? {
            self.management.face_returned(one, now);
        }
        for _ in 0..NOTICES_PER_ROUND {
            let Some(notice) = next(&self.notices)? else { break };
            self.management.notice(&notice, now);
        }
        // Changes by events are no command's own: its answer need not wait for them.
        self.collect_changes(now);
        for answer in self.management.go_on(now) {
            self.answer(answer, now);
        }
        for (fields, packet) in std::mem::take(&mut self.inbox) {
            self.receive(&fields, &packet, now);
        }
        if self.management.next_deadline_ms().is_some_and(|at| at <= now.ms) {
            self.management.advance(now);
        }
        while let Some(request) = next(&self.requests)? {
            self.pulse.note(Doing::Command);
            request(self);
        }
        self.pulse.note(Doing::Commit);
        self.management.commit();
        self.pulse.note(Doing::Other);
        self.keep(now);
        self.send_answers();
        for (face, interest) in self.management.certificate_interests(now) {
            let fields = LinkFields { next_hop_face_id: face, ..LinkFields::default() };
            // What is lost is sent again.
            send(&self.internal.sender, &fields, &Packet::copy_from(&interest));
        }
        for (face, interest) in self.management.tags_mut().poll(now) {
            let fields = LinkFields { next_hop_face_id: Some(face), ..LinkFields::default() };
            // A lost advertisement is sent again, so a full queue needs no other handling.
            send(&self.internal.sender, &fields, &Packet::copy_from(&interest));
        }
        self.readvertise(now);
        Ok(())
    }

    fn receive(&mut self, fields: &LinkFields, packet: &Packet, now: Moment) {
        let is_interest = packet.first() == Some(&(INTEREST as u8));
        if is_interest && fields.nack.is_none() {
            let incoming = fields.incoming_face_id.unwrap_or(FaceId::NONE);
            let answer = self.management.answer(packet, incoming, now);
            self.answer(answer, now);
        } else if !self.management.certificate_news(packet, now) && !self.is_tag_answer(packet, now) {
            let now = Instant::now();
            if !is_interest && let Ok(data) = Data::decode(packet) {
                self.readvertisers.iter_mut().any(|readvertiser| readvertiser.on_data(&data, now));
            } else if let Ok(interest) = Interest::decode(packet) {
                self.readvertisers.iter_mut().any(|readvertiser| readvertiser.on_nack(interest.name, now));
            }
        }
    }

    /// Sends the answer to a command after this batch. If the command is about something durable, the answer waits until
    /// all changes so far are on the disk.
    fn answer(&mut self, answer: Option<Packet>, now: Moment) {
        let is_touched = self.management.take_touched(now);
        let Some(answer) = answer else { return };
        match &mut self.keeper {
            Some(keeper) if is_touched => keeper.hold(answer),
            _ => self.outbox.push(answer),
        }
    }

    /// Passes changes to the writing thread, with the answers that wait for them.
    fn keep(&mut self, now: Moment) {
        self.collect_changes(now);
        let Some(keeper) = &mut self.keeper else { return };
        keeper.turn();
        if let Some(words) = keeper.news_of_condition() {
            self.management.say_state(words);
        }
    }

    /// Keeps all changes from now on in this store.
    fn start_keeper(&mut self, store: Store) {
        let (sender, guests) = (self.internal.sender.clone(), Arc::clone(&self.guests));
        match Keeper::start(store, Box::new(move |answer| send_answer(&sender, &guests, &answer))) {
            Ok(keeper) => {
                self.management.say_state(keeper.status().words());
                self.keeper = Some(keeper);
            }
            Err(error) => {
                self.management.keep_no_more();
                self.state_is_lost(&error.to_string());
            }
        }
    }

    fn state_is_lost(&mut self, why: &str) {
        tracing::error!("faces and routes are forgotten at the next restart: {why}");
        self.management.say_state(format!("not kept any more: {why}"));
    }

    fn collect_changes(&mut self, now: Moment) {
        let mut changes = self.management.take_changes(now);
        for readvertiser in &mut self.readvertisers {
            let destination = readvertiser.destination().label().to_owned();
            changes.extend(readvertiser.take_told().into_iter().map(|(prefix, is_told)| {
                let told = ToldRecord { destination: destination.clone(), prefix };
                if is_told { Change::Told(told) } else { Change::ForgetTold(told) }
            }));
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.add(changes);
        }
    }

    /// Whether too many answers wait for the disk.
    fn is_full(&self) -> bool {
        self.keeper.as_ref().is_some_and(Keeper::is_full)
    }

    /// Goes on with a store that was closed for another process, which has not taken over.
    fn reopen_state(&mut self, path: &Path) {
        match Store::open(path) {
            Ok(Opened { store, .. }) => {
                self.management.keep_again();
                self.start_keeper(store);
            }
            Err(error) => self.state_is_lost(&error.to_string()),
        }
    }

    fn close_state(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            keeper.add(self.management.take_changes(self.clock.now()));
            self.management.keep_no_more();
            keeper.close();
        }
    }

    fn send_answers(&mut self) {
        let (sender, guests) = (&self.internal.sender, &self.guests);
        self.outbox.drain(..).for_each(|answer| send_answer(sender, guests, &answer));
    }

    /// Whether this is a neighbour's answer about descriptors. If so, it has been processed.
    fn is_tag_answer(&mut self, packet: &Packet, now: Moment) -> bool {
        let Ok(data) = Data::decode(packet) else { return false };
        let Ok(response) = ControlResponse::decode(data.content) else { return false };
        self.management.tags_mut().answered(&data, (response.code, &response.body), now)
    }

    /// Passes route changes to the destinations, and sends the commands that are due.
    fn readvertise(&mut self, now: Moment) {
        let mut readvertisers = std::mem::take(&mut self.readvertisers);
        let instant = Instant::now();
        for event in self.management.rib_mut().take_events() {
            let is_local = self.management.is_local(event.face);
            for readvertiser in &mut readvertisers {
                readvertiser.route_changed(&event, is_local, instant);
            }
        }
        self.readvertisers = readvertisers;
        // After the events: a new destination is told of all routes that there are now.
        self.exchange_destinations(instant);
        let mut readvertisers = std::mem::take(&mut self.readvertisers);
        for readvertiser in &mut readvertisers {
            for interest in readvertiser.poll(instant, now.unix_ms) {
                let sent = send(&self.internal.sender, &LinkFields::default(), &Packet::copy_from(&interest));
                if !sent && let Ok(interest) = Interest::decode(&interest) {
                    readvertiser.on_nack(interest.name, instant);
                }
            }
        }
        self.readvertisers = readvertisers;
    }

    /// Gives the destinations what an earlier process told them.
    fn inherit(&mut self, told: Vec<ToldRecord>, stale_for: Duration) {
        let until = Instant::now() + stale_for;
        for readvertiser in &mut self.readvertisers {
            let label = readvertiser.destination().label();
            let of_it = told.iter().filter(|told| told.destination == label);
            readvertiser.inherit(of_it.map(|told| told.prefix.clone()), until);
        }
    }

    /// The connection of a face is up again. If the hub is behind it, the hub may have restarted and forgotten the
    /// registrations.
    fn face_is_up(&mut self, face: FaceId) {
        if self.management.hub() == Some(face) {
            let of_hub = |readvertiser: &&mut Readvertiser| readvertiser.destination().wants_all_routes();
            self.readvertisers.iter_mut().filter(of_hub).for_each(|hub| hub.destination_appeared(Instant::now()));
        }
    }

    /// All counters at this moment, with series for so many faces.
    fn snapshot(&self, faces_max: usize) -> metrics::Snapshot {
        let count = |of: &Readvertiser| (of.destination().label(), of.accepted() as u64, of.failures());
        let advertised = self.readvertisers.iter().map(count).collect();
        let store = self.keeper.as_ref().map(Keeper::status);
        metrics::Snapshot { advertised, store, ..self.management.snapshot(faces_max) }
    }

    /// Sleeps until there is something to do.
    fn wait(&self) {
        let mut select = Select::new();
        select.recv(&self.events);
        if !self.keeper.as_ref().is_some_and(Keeper::is_full_for_now) {
            select.recv(&self.internal.from_worker);
        }
        select.recv(&self.requests);
        select.recv(self.management.creations());
        select.recv(self.management.returned());
        if let Some(keeper) = &self.keeper {
            select.recv(keeper.news());
        }
        select.recv(&self.notices);
        select.recv(&self.owner);
        let tags = self.management.tags().next_deadline_ms();
        let management = self.management.next_deadline_ms().into_iter().chain(tags).min();
        let management = management.map(|at| Duration::from_millis(at.saturating_sub(self.clock.now().ms)));
        let readvertisers = self.readvertisers.iter().filter_map(Readvertiser::next_deadline);
        let readvertisers = readvertisers.map(|at| at.saturating_duration_since(Instant::now()));
        match management.into_iter().chain(readvertisers).min() {
            Some(wait) => {
                let _ = select.ready_timeout(wait);
            }
            None => {
                select.ready();
            }
        }
    }
}

/// Sends a packet to the worker. Returns false if its queue stays full.
fn send(sender: &InternalSender, fields: &LinkFields, packet: &Packet) -> bool {
    for _ in 0..SEND_TRIES {
        if sender.send(fields.clone(), packet.clone()) {
            return true;
        }
        std::thread::sleep(SEND_WAIT);
    }
    false
}

/// Sends an answer to the guest who awaits it, or else to the worker.
fn send_answer(sender: &InternalSender, guests: &Guests, answer: &Packet) {
    if guests.take(answer) {
        return;
    }
    // A dataset must be fresh each time.
    let fields = LinkFields { no_cache: true, ..LinkFields::default() };
    if !send(sender, &fields, answer) {
        tracing::warn!("the first packet thread's queue is full: an answer is dropped");
    }
}

fn next<T>(receiver: &Receiver<T>) -> Result<Option<T>, Ended> {
    match receiver.try_recv() {
        Ok(item) => Ok(Some(item)),
        Err(TryRecvError::Empty) => Ok(None),
        Err(TryRecvError::Disconnected) => Err(Ended),
    }
}

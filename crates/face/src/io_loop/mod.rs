//! The packet thread runs ports, workers, and the control side's commands.
//!
//! Each round reads the clock once, and takes a bounded burst from every port that has input. It lets the worker handle
//! the burst, hands the worker's output to the ports, and flushes them. Between rounds the thread carries out a few
//! commands. Without work it spins for [`IoConfig::spin`], since waking from sleep costs tens of microseconds. Then it
//! sleeps until a descriptor is ready, a command comes, or a deadline of the worker or of a port is due. There is no
//! periodic tick.
//!
//! With one worker (`Workers::Here`) all of that is one thread: packets are forwarded and sent before another thread
//! could wake. With [`Workers::Threads`] the loop passes packets to the workers, and sends their output.

mod handle;
mod pin;
mod registrations;
mod shares;
mod worker_thread;
mod workers;

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byname_forward::face_table::{FaceCounters, FaceMap};
use byname_forward::learning::Notice;
use byname_forward::stages::{self, Stage, Stopwatch};
use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received, Ticks, Worker};
use byname_lookup::memory::{Refused, with_room};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use mio::{Events, Poll, Token};
use thiserror::Error;

use crate::event_queue::EventQueue;
use crate::face::{
    CreateFaceError, Creation, FaceChange, FaceEvent, FaceRequest, FaceStatus, LinkCounters, UpdateFaceError,
};
use crate::memory::{self, InternalFace};
use crate::port::{Port, PortContext, Readiness, split_token};
use crate::uri::FaceUri;
use crate::waker::LoopWaker;
use handle::{Command, CreationReply};
use registrations::Registrations;
use workers::{Pool, Surroundings};

pub use handle::{ForwarderHandle, LinkTotals};
pub use registrations::Registration;
pub use workers::{RingStatus, WorkerStatus, Workers};

const WAKER_TOKEN: Token = Token(usize::MAX);
/// Readiness events taken at once.
const POLL_EVENTS: usize = 256;
/// Commands carried out in one round.
const COMMANDS_PER_ROUND: usize = 16;
/// Rounds with known input between two polls of the descriptors.
const ROUNDS_PER_POLL: u32 = 4;
/// Interval of attempts to deliver a backlog of events while nothing else happens.
const BACKLOG_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of notices about learned routes on their way to the control side.
const NOTICES_MAX: usize = 256;
/// Time that queued output may take to leave at the end.
const DRAIN_TIME: Duration = Duration::from_millis(500);
/// Maximum number of requests for faces that wait for connections.
const CREATING_MAX: usize = 256;

/// Limits of the packet thread.
#[derive(Debug, Clone)]
pub struct IoConfig {
    /// Time to look for input before sleeping.
    pub spin: Duration,
    /// Approximate number of packets to take from one port before others have their turn.
    pub burst_max: usize,
    /// Packets that may wait in each direction of the internal face.
    pub internal_max: usize,
    /// Face events that may wait for the control side before they are condensed.
    pub events_max: usize,
}

impl Default for IoConfig {
    fn default() -> Self {
        IoConfig { spin: Duration::from_micros(50), burst_max: 64, internal_max: 4096, events_max: 4096 }
    }
}

/// Reason why the packet thread does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The system gives no event queue or thread.
    #[error("cannot set up the packet thread: {0}")]
    System(#[source] std::io::Error),
    /// The system refuses memory.
    #[error("the system refuses {bytes} bytes of memory for {queue:?}")]
    Memory {
        /// The queue that needs the memory.
        queue: Queue,
        /// Bytes that were asked for.
        bytes: usize,
    },
    /// A port cannot start.
    #[error("cannot start port {port}: {error}")]
    Port {
        /// Name of the port.
        port: String,
        /// Error of the system.
        #[source]
        error: std::io::Error,
    },
}

/// A queue between threads, whose memory is reserved at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Queues between the packet thread and its workers.
    Rings,
    /// Queue of [`IoConfig::internal_max`] packets.
    Internal,
    /// Queue of [`IoConfig::events_max`] events.
    Events,
}

/// A running packet thread.
pub struct Running {
    /// Sends commands to it.
    pub handle: ForwarderHandle,
    /// The control side's end of [`FaceId::INTERNAL`].
    pub internal: InternalFace,
    /// Events of faces. Those of faces that ports made at the start come first.
    pub events: Receiver<FaceEvent>,
    /// Notices of workers about routes that they learn from Data. A few fit; the rest are dropped and counted.
    pub notices: Receiver<Notice>,
    /// Ends after [`ForwarderHandle::shutdown`].
    pub thread: JoinHandle<()>,
}

/// Starts the packet thread with these workers and ports, and the internal face.
pub fn start(config: IoConfig, workers: impl Into<Workers>, ports: Vec<Box<dyn Port>>) -> Result<Running, StartError> {
    let poll = Poll::new().map_err(StartError::System)?;
    let waker = LoopWaker::new(poll.registry(), WAKER_TOKEN).map_err(StartError::System)?;
    check_queues(&config)?;
    let (internal_port, internal) = memory::internal(config.internal_max, waker.clone());
    let clock = Clock { epoch: Instant::now() };
    let surroundings = Surroundings { clock, spin: config.spin, waker: waker.clone() };
    let mut workers = workers.into();
    let notices = listen(&mut workers);
    let (workers, processor) = Pool::start(workers, &surroundings)?;
    let worker_count = workers.len();
    // Use the standard library's channel. When the packet thread ends, its receiver drops all waiting commands and
    // their reply senders. A bounded channel of crossbeam keeps them, and callers would wait forever.
    let (commands, receiver) = mpsc::sync_channel(handle::COMMANDS_MAX);
    let (last_counts, faces_left) = unbounded();
    let (announced, registrations) = unbounded();
    let (event_queue, events) = EventQueue::new(config.events_max);
    let mut io_loop = IoLoop {
        config,
        poll,
        waker: waker.clone(),
        workers,
        ports: Vec::new(),
        commands: receiver,
        next_command: None,
        event_queue,
        faces: FaceMap::default(),
        next_face_id: FaceId::FIRST.0,
        clock,
        stopwatch: clock.stopwatch(),
        now: Ticks(0),
        received: Vec::new(),
        outgoing: Vec::new(),
        registrations: Registrations::new(registrations),
        port_events: Vec::new(),
        creating: Vec::new(),
        creations: Vec::new(),
        gone: Vec::new(),
        leaving: FaceMap::default(),
        gone_links: LinkCounters::default(),
        links_told: LinkCounters::default(),
        last_counts,
        faces_left,
        stopping: false,
    };
    io_loop.add_ports(vec![Box::new(internal_port)])?;
    io_loop.add_ports(ports)?;
    let thread = std::thread::Builder::new()
        .name("byname-packets".into())
        .spawn(move || {
            pin::to(processor);
            io_loop.run();
        })
        .map_err(StartError::System)?;
    Ok(Running {
        handle: ForwarderHandle::new(commands, announced, waker, worker_count),
        internal,
        events,
        notices,
        thread,
    })
}

/// Connects the workers' notices about routes to a receiver.
fn listen(workers: &mut Workers) -> Receiver<Notice> {
    let (tell, notices) = bounded(NOTICES_MAX);
    for worker in workers.each_mut() {
        let tell = tell.clone();
        worker.tell_routes(Box::new(move |notice| tell.try_send(notice).is_ok()));
    }
    notices
}

/// Checks that the system has memory for the channels. When the channels themselves are made, refused memory would end
/// the process.
fn check_queues(config: &IoConfig) -> Result<(), StartError> {
    let no_memory = |queue| move |Refused { bytes }| StartError::Memory { queue, bytes };
    // A channel stores a sequence number with each item.
    with_room::<(u64, LinkFields, Packet)>(config.internal_max).map_err(no_memory(Queue::Internal))?;
    with_room::<(u64, FaceEvent)>(config.events_max).map_err(no_memory(Queue::Events))?;
    Ok(())
}

struct IoLoop {
    config: IoConfig,
    poll: Poll,
    waker: LoopWaker,
    workers: Pool,
    ports: Vec<Box<dyn Port>>,
    commands: mpsc::Receiver<Command>,
    /// A received command that is not carried out yet.
    next_command: Option<Command>,
    event_queue: EventQueue,
    /// Index of each face's port.
    faces: FaceMap<usize>,
    next_face_id: u64,
    clock: Clock,
    stopwatch: Stopwatch,
    now: Ticks,
    received: Vec<Received>,
    outgoing: Vec<Outgoing>,
    registrations: Registrations,
    port_events: Vec<(usize, FaceEvent)>,
    /// Requests for faces whose connections are being made.
    creating: Vec<(FaceUri, CreationReply)>,
    /// Outcomes of these requests, as ports report them.
    creations: Vec<(FaceUri, Creation)>,
    /// Faces that ended in this round. Workers are told after they have got the faces' last packets.
    gone: Vec<FaceStatus>,
    /// Ended faces, with the number of workers that still have to forget them.
    leaving: FaceMap<(FaceStatus, usize)>,
    /// Sum of the link counters of all ended faces.
    gone_links: LinkCounters,
    /// Sum over all faces that was reported last. It never falls.
    links_told: LinkCounters,
    /// Workers send their final counters of a face here when they forget it.
    last_counts: Sender<(FaceId, FaceCounters)>,
    faces_left: Receiver<(FaceId, FaceCounters)>,
    stopping: bool,
}

impl IoLoop {
    /// Starts ports, and stores each at its index.
    fn add_ports(&mut self, ports: Vec<Box<dyn Port>>) -> Result<(), StartError> {
        for port in ports {
            let index = self.ports.len();
            self.ports.push(port);
            self.with_port(index, |port, cx| port.start(cx))
                .map_err(|error| StartError::Port { port: self.ports[index].name().to_owned(), error })?;
        }
        self.apply_events();
        Ok(())
    }

    fn run(mut self) {
        let mut events = Events::with_capacity(POLL_EVENTS);
        let mut rounds = 0;
        let mut last_busy = Instant::now();
        loop {
            self.now = self.clock.now();
            let mut busy = self.round();
            busy |= self.run_commands();
            if self.workers.has_failed() {
                tracing::error!("a worker thread has ended by itself");
                break;
            }
            if self.stopping {
                break;
            }
            rounds += 1;
            if self.has_input() && rounds % ROUNDS_PER_POLL != 0 {
                continue;
            }
            if busy {
                last_busy = Instant::now();
            }
            let wait = if busy || last_busy.elapsed() < self.config.spin { Some(Duration::ZERO) } else { self.wait() };
            self.poll_events(&mut events, wait);
        }
        self.drain(&mut events);
    }

    /// Runs one burst through ports and worker. Returns whether there was anything to do.
    fn round(&mut self) -> bool {
        let mut busy = false;
        self.stopwatch.start();
        let takes_input = !self.workers.is_behind();
        for port in 0..self.ports.len() {
            if self.ports[port].next_deadline().is_some_and(|at| at <= self.now) {
                self.with_port(port, |port, cx| port.on_deadline(cx));
                busy = true;
            }
            if takes_input && self.ports[port].has_input() {
                let burst_max = self.config.burst_max;
                self.with_port(port, |port, cx| port.receive(cx, burst_max));
                busy = true;
            }
        }
        self.apply_events();
        let received = self.received.len();
        self.stopwatch.lap_if_any(Stage::Receive, received);
        busy |= self.workers.poll(self.now, &mut self.received, &mut self.outgoing);
        let sent = self.outgoing.len();
        // A worker on this thread times its stages itself.
        let dispatched = if self.workers.are_threads() { received + sent } else { 0 };
        self.stopwatch.lap_if_any(Stage::Dispatch, dispatched);
        self.transmit();
        self.stopwatch.lap_if_any(Stage::Send, sent);
        self.stopwatch.stop(received + sent == 0);
        self.apply_events();
        self.bury();
        if self.event_queue.is_backlogged() {
            self.event_queue.flush();
        }
        busy
    }

    /// Hands output to the ports, one call for each run of packets of one port, and flushes all ports.
    fn transmit(&mut self) {
        let mut outgoing = std::mem::take(&mut self.outgoing);
        self.registrations.sort(self.now, &mut outgoing);
        let mut rest = &mut outgoing[..];
        while let Some(first) = rest.first() {
            let (mut face, port) = (first.face, self.faces.get(&first.face).copied());
            let is_of_port = |next: &&Outgoing| {
                let is = next.face == face || self.faces.get(&next.face).copied() == port;
                face = next.face;
                is
            };
            let burst = rest.iter().take_while(is_of_port).count();
            let (burst, behind) = rest.split_at_mut(burst);
            if let Some(port) = port {
                self.with_port(port, |port, cx| port.transmit(cx, burst));
            }
            rest = behind;
        }
        for port in 0..self.ports.len() {
            self.with_port(port, |port, cx| port.flush(cx));
        }
        outgoing.clear();
        self.outgoing = outgoing;
    }

    fn run_commands(&mut self) -> bool {
        for n in 0..COMMANDS_PER_ROUND {
            let command = self.next_command.take().or_else(|| self.commands.try_recv().ok());
            let Some(command) = command else { return n > 0 };
            command(self);
            self.apply_events();
        }
        true
    }

    fn has_command(&mut self) -> bool {
        if self.next_command.is_none() {
            self.next_command = self.commands.try_recv().ok();
        }
        self.next_command.is_some()
    }

    fn has_input(&mut self) -> bool {
        self.ports.iter().any(|p| p.has_input()) || self.workers.has_output() || !self.faces_left.is_empty()
    }

    /// Time to sleep, after telling the wakers about it. `None` means forever.
    fn wait(&mut self) -> Option<Duration> {
        self.waker.fall_asleep();
        for port in &mut self.ports {
            port.fall_asleep(self.now);
        }
        if self.has_input() || self.has_command() {
            return Some(Duration::ZERO);
        }
        let deadlines = self.ports.iter().filter_map(|p| p.next_deadline()).chain(self.workers.next_deadline());
        let deadlines = deadlines.chain(self.registrations.next_deadline());
        let deadline = deadlines.min().map(|at| at.since(self.clock.now()));
        if self.event_queue.is_backlogged() {
            return Some(deadline.map_or(BACKLOG_INTERVAL, |d| d.min(BACKLOG_INTERVAL)));
        }
        deadline
    }

    fn poll_events(&mut self, events: &mut Events, wait: Option<Duration>) {
        let polled = self.poll.poll(events, wait);
        self.waker.awake();
        if let Err(error) = polled {
            if error.kind() != std::io::ErrorKind::Interrupted {
                tracing::error!(%error, "cannot wait for input");
                std::thread::sleep(BACKLOG_INTERVAL);
            }
            return;
        }
        if events.is_empty() {
            return;
        }
        self.now = self.clock.now();
        for event in events.iter().filter(|e| e.token() != WAKER_TOKEN) {
            let (port, key) = split_token(event.token());
            let readiness = Readiness::of(event);
            self.with_port(port, |port, cx| port.ready(cx, key, readiness));
        }
    }

    /// Gives queued output some time to leave, then closes everything by dropping it.
    fn drain(mut self, events: &mut Events) {
        self.workers.end(&mut self.outgoing);
        self.transmit();
        let end = Instant::now() + DRAIN_TIME;
        while self.ports.iter().any(|p| p.has_output()) && Instant::now() < end {
            self.poll_events(events, Some(Duration::from_millis(10)));
            for port in 0..self.ports.len() {
                self.with_port(port, |port, cx| port.flush(cx));
            }
        }
    }

    /// Tells the workers and the control side what ports reported.
    fn apply_events(&mut self) {
        if self.port_events.is_empty() && self.creations.is_empty() {
            return;
        }
        let mut events = std::mem::take(&mut self.port_events);
        for (port, event) in events.drain(..) {
            match event {
                FaceEvent::Created(status) => {
                    self.faces.insert(status.id, port);
                    let (face, scope, link_type) = (status.id, status.scope, status.link_type);
                    let (local_fields, whereabouts) = (status.flags.local_fields, status.whereabouts());
                    self.each_worker(move |worker| {
                        worker.face_up_at(face, scope, link_type, whereabouts);
                        worker.set_local_fields(face, local_fields);
                    });
                    self.event_queue.push(FaceEvent::Created(status));
                }
                FaceEvent::Destroyed(status) => self.gone.push(status),
                FaceEvent::Up(status) => {
                    let face = status.id;
                    if let Some(networks) = status.networks.clone() {
                        self.each_worker(move |worker| worker.set_networks(face, networks));
                    }
                    self.event_queue.push(FaceEvent::Up(status));
                }
                changed => self.event_queue.push(changed),
            }
        }
        self.port_events = events;
        self.answer_creations();
    }

    /// Answers the requests that wait for a face. The first one created it; for the others it exists already.
    fn answer_creations(&mut self) {
        for (remote, outcome) in std::mem::take(&mut self.creations) {
            let mut outcome = outcome;
            for (_, reply) in self.creating.extract_if(.., |(waits_for, _)| *waits_for == remote) {
                let next = match &outcome {
                    Ok(status) => Err(CreateFaceError::Exists(Box::new(status.clone()))),
                    Err(error) => Err(error.clone()),
                };
                reply(std::mem::replace(&mut outcome, next));
            }
        }
    }

    fn bury(&mut self) {
        for status in std::mem::take(&mut self.gone) {
            let face = status.id;
            self.faces.remove(&face);
            self.gone_links.add(&status.link);
            self.leaving.insert(face, (status, self.workers.len()));
            let last_counts = self.last_counts.clone();
            self.each_worker(move |worker| {
                let counters = worker.face_counters(face).unwrap_or_default();
                worker.face_down(face);
                // The loop exists as long as its workers.
                let _ = last_counts.send((face, counters));
            });
        }
        while let Ok((face, counters)) = self.faces_left.try_recv() {
            let Some((status, workers)) = self.leaving.get_mut(&face) else { continue };
            status.counters.add(&counters);
            *workers -= 1;
            if *workers == 0
                && let Some((status, _)) = self.leaving.remove(&face)
            {
                self.event_queue.push(FaceEvent::Destroyed(status));
            }
        }
    }

    /// Runs `tell` on all workers, after the packets that they have been given so far.
    fn each_worker(&mut self, tell: impl FnOnce(&mut Worker) + Clone + Send + 'static) {
        self.workers.each(0..self.workers.len(), |_| Box::new(tell.clone()));
    }

    /// Creates a face. Returns `None` if a connection must be made first: `reply` then gets the outcome.
    fn create_face(&mut self, request: &FaceRequest, reply: CreationReply) -> Option<Creation> {
        if self.creating.len() >= CREATING_MAX {
            let text = format!("{CREATING_MAX} connections are being made already; try again later");
            return Some(Err(CreateFaceError::Failed(text)));
        }
        match self.ask_ports_for_face(request) {
            Ok(status) if status.id == FaceId::NONE => {
                self.creating.push((status.remote, reply));
                None
            }
            decided => Some(decided),
        }
    }

    fn ask_ports_for_face(&mut self, request: &FaceRequest) -> Creation {
        for port in 0..self.ports.len() {
            match self.with_port(port, |port, cx| port.create_face(cx, request)) {
                None => {}
                Some(done) => return done,
            }
        }
        let (remote, local) = (&request.remote, &request.local);
        Err(if remote.is_group() {
            CreateFaceError::Unacceptable("multicast faces are made at the start, by configuration".into())
        } else if matches!((remote, local), (FaceUri::Ethernet(_), None)) {
            CreateFaceError::Unacceptable(
                "a face to a station needs the interface as its LocalUri, dev://eth0 or so".into(),
            )
        } else {
            let from = local.as_ref().map(|local| format!(" from {local}")).unwrap_or_default();
            CreateFaceError::Failed(format!("No channel here can connect to {remote}{from}"))
        })
    }

    fn update_face(&mut self, face: FaceId, change: &FaceChange) -> Result<FaceStatus, UpdateFaceError> {
        let Some(&port) = self.faces.get(&face) else { return Err(UpdateFaceError::NotFound) };
        let status = self.with_port(port, |port, cx| port.update_face(cx, face, change))?;
        let local_fields = status.flags.local_fields;
        self.each_worker(move |worker| worker.set_local_fields(face, local_fields));
        Ok(status)
    }

    fn destroy_face(&mut self, face: FaceId) -> bool {
        let Some(&port) = self.faces.get(&face) else { return false };
        let destroyed = self.with_port(port, |port, cx| port.destroy_face(cx, face));
        self.apply_events();
        self.bury();
        destroyed
    }

    fn set_routed(&mut self, face: FaceId, routed: bool) {
        // A face that is gone needs nothing.
        if let Some(&port) = self.faces.get(&face) {
            self.ports[port].set_routed(face, routed);
        }
    }

    fn status(&self, face: FaceId) -> Option<FaceStatus> {
        let port = *self.faces.get(&face)?;
        self.ports[port].status(self.clock.now(), face)
    }

    /// Packets dropped outside of workers, by reason.
    fn drops(&self) -> Vec<(&'static str, u64)> {
        self.ports.iter().flat_map(|p| p.drops()).chain(self.workers.drops()).collect()
    }

    /// Link counters of all faces since the start, if existing faces have counted `live`. A face may have ended since
    /// `live` was read: its counts are then in both sums. The result never falls, so it stays at that value until other
    /// faces have counted as much.
    fn link_totals(&mut self, mut live: LinkCounters) -> LinkTotals {
        live.add(&self.gone_links);
        self.links_told.raise(&live);
        LinkTotals { counters: self.links_told, closed: self.ports.iter().flat_map(|p| p.closed()).collect() }
    }

    fn with_port<R>(&mut self, port: usize, f: impl FnOnce(&mut dyn Port, &mut PortContext<'_>) -> R) -> R {
        let mut cx = PortContext {
            now: self.now,
            port,
            registry: self.poll.registry(),
            waker: &self.waker,
            next_face_id: &mut self.next_face_id,
            received: &mut self.received,
            events: &mut self.port_events,
            creations: &mut self.creations,
        };
        f(&mut *self.ports[port], &mut cx)
    }
}

/// The only clock of a forwarder.
#[derive(Clone, Copy)]
struct Clock {
    epoch: Instant,
}

impl Clock {
    fn now(self) -> Ticks {
        Ticks(u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn stopwatch(self) -> Stopwatch {
        Stopwatch::new(stages::ONE_IN, move || self.now())
    }
}

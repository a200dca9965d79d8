//! The packet thread: ports, one worker, and the control side's commands.
//!
//! Each round reads the clock once, takes a bounded burst from every port that has input, lets the
//! worker handle it, hands out what the worker yields, and flushes the ports; between rounds it
//! carries out commands, a few at a time. With nothing to do it spins for [`IoConfig::spin`], since
//! to wake from sleep costs tens of microseconds, and then sleeps until a descriptor is ready, a
//! command comes, or a deadline of the worker or of a port is due. There is no periodic tick.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byname_forward::face_table::FaceMap;
use byname_forward::strategy::StrategyChoice;
use byname_forward::worker::{CsInfo, WorkerCounters};
use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received, Ticks, Worker};
use byname_wire::Name;
use crossbeam_channel::{Receiver, Sender, bounded};
use mio::{Events, Poll, Token};
use thiserror::Error;

use crate::event_queue::EventQueue;
use crate::face::{CreateFaceError, FaceChange, FaceEvent, FaceRequest, FaceStatus, UpdateFaceError};
use crate::memory;
use crate::port::{Port, PortContext, Readiness, split_token};
use crate::waker::LoopWaker;

const WAKER_TOKEN: Token = Token(usize::MAX);
/// Readiness events taken at once.
const POLL_EVENTS: usize = 256;
/// Commands carried out in one round.
const COMMANDS_PER_ROUND: usize = 16;
/// Commands that wait; senders wait then.
const COMMANDS_MAX: usize = 256;
/// Rounds with input at hand between two looks at the readiness of descriptors.
const ROUNDS_PER_POLL: u32 = 4;
/// Faces whose status is read in one command.
const STATUSES_PER_COMMAND: usize = 256;
/// Data erased from the content store in one command.
const ERASED_PER_COMMAND: usize = 1024;
/// How often a backlog of events is tried again, while nothing else happens.
const BACKLOG_INTERVAL: Duration = Duration::from_millis(100);
/// How long output that is queued at the end may take.
const DRAIN_TIME: Duration = Duration::from_millis(500);

/// Limits of the packet thread.
#[derive(Debug, Clone)]
pub struct IoConfig {
    /// How long to look for input before sleeping.
    pub spin: Duration,
    /// About how many packets to take from one port before others have their turn.
    pub burst_max: usize,
    /// Packets that wait in each direction of the internal face.
    pub internal_max: usize,
    /// Face events that wait for the control side before they are condensed.
    pub events_max: usize,
}

impl Default for IoConfig {
    fn default() -> Self {
        IoConfig { spin: Duration::from_micros(50), burst_max: 64, internal_max: 4096, events_max: 4096 }
    }
}

/// Why the packet thread does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The system gives no event queue or thread.
    #[error("cannot set up the packet thread: {0}")]
    System(#[source] std::io::Error),
    /// A port cannot begin.
    #[error("cannot start port {port}: {error}")]
    Port {
        /// The port's name.
        port: String,
        /// What the system said.
        #[source]
        error: std::io::Error,
    },
}

/// A packet thread that runs.
pub struct Running {
    /// Commands to it.
    pub handle: ForwarderHandle,
    /// The control side's end of [`FaceId::INTERNAL`].
    pub internal: InternalFace,
    /// What happens to faces. Those that ports made at the start come first.
    pub events: Receiver<FaceEvent>,
    /// Ends after [`ForwarderHandle::shutdown`].
    pub thread: JoinHandle<()>,
}

/// Starts the packet thread with these ports and the internal face.
pub fn start(config: IoConfig, worker: Worker, ports: Vec<Box<dyn Port>>) -> Result<Running, StartError> {
    let poll = Poll::new().map_err(StartError::System)?;
    let waker = LoopWaker::new(poll.registry(), WAKER_TOKEN).map_err(StartError::System)?;
    let (internal_port, internal) = memory::internal(config.internal_max, waker.clone());
    let (commands, receiver) = bounded(COMMANDS_MAX);
    let (event_queue, events) = EventQueue::new(config.events_max);
    let mut io_loop = IoLoop {
        config,
        poll,
        waker: waker.clone(),
        worker,
        ports: Vec::new(),
        commands: receiver,
        event_queue,
        faces: FaceMap::default(),
        next_face_id: FaceId::FIRST.0,
        epoch: Instant::now(),
        now: Ticks(0),
        received: Vec::new(),
        outgoing: Vec::new(),
        port_events: Vec::new(),
        gone: Vec::new(),
        stopping: false,
    };
    io_loop.add_ports(vec![Box::new(internal_port)])?;
    io_loop.add_ports(ports)?;
    let thread = std::thread::Builder::new()
        .name("byname-packets".into())
        .spawn(move || io_loop.run())
        .map_err(StartError::System)?;
    Ok(Running { handle: ForwarderHandle { commands, waker }, internal, events, thread })
}

type Command = Box<dyn FnOnce(&mut IoLoop) + Send>;

/// The control side's hold on the packet thread: each call is carried out between two bursts.
///
/// After [`ForwarderHandle::shutdown`], or if the thread is gone, calls answer as a forwarder
/// without faces would.
#[derive(Clone)]
pub struct ForwarderHandle {
    commands: Sender<Command>,
    waker: LoopWaker,
}

impl ForwarderHandle {
    /// Starts more ports: those whose peers may find the control side ready.
    pub fn add_ports(&self, ports: Vec<Box<dyn Port>>) -> Result<(), StartError> {
        self.call(move |io_loop| io_loop.add_ports(ports)).unwrap_or(Ok(()))
    }
    /// Creates a face, or says that it exists.
    pub fn create_face(&self, request: FaceRequest) -> Result<FaceStatus, CreateFaceError> {
        self.call(move |io_loop| io_loop.create_face(&request))
            .unwrap_or_else(|| Err(CreateFaceError::Failed("the forwarder is shutting down".into())))
    }
    /// Changes a face.
    pub fn update_face(&self, face: FaceId, change: FaceChange) -> Result<FaceStatus, UpdateFaceError> {
        self.call(move |io_loop| io_loop.update_face(face, &change)).unwrap_or(Err(UpdateFaceError::NotFound))
    }
    /// Destroys a face; false if there is none such.
    pub fn destroy_face(&self, face: FaceId) -> bool {
        self.call(move |io_loop| io_loop.destroy_face(face)).unwrap_or(false)
    }
    /// Lets locator-addressed packets to this face's application reach it; false if there is none
    /// such.
    pub fn set_endpoint(&self, face: FaceId) -> bool {
        self.call(move |io_loop| io_loop.worker.set_endpoint(face)).unwrap_or(false)
    }
    /// All faces, by id.
    pub fn faces(&self) -> Vec<FaceStatus> {
        let mut ids = self.call(|io_loop| io_loop.faces.keys().copied().collect::<Vec<_>>()).unwrap_or_default();
        ids.sort_unstable();
        let mut faces = Vec::with_capacity(ids.len());
        // In parts, so that traffic goes on meanwhile.
        for part in ids.chunks(STATUSES_PER_COMMAND) {
            let part = part.to_vec();
            let statuses = self.call(move |io_loop| part.into_iter().filter_map(|id| io_loop.status(id)).collect());
            faces.extend::<Vec<_>>(statuses.unwrap_or_default());
        }
        faces
    }
    /// One face.
    pub fn face(&self, face: FaceId) -> Option<FaceStatus> {
        self.call(move |io_loop| io_loop.status(face)).flatten()
    }
    /// Local URIs of all channels (listeners).
    pub fn channels(&self) -> Vec<String> {
        self.call(|io_loop| io_loop.ports.iter().flat_map(|p| p.channels()).collect()).unwrap_or_default()
    }
    /// Replaces all strategy choices.
    pub fn set_strategy_choices(&self, choices: Vec<StrategyChoice>) {
        self.call(move |io_loop| io_loop.worker.set_strategy_choices(&choices));
    }
    /// State of the content store.
    pub fn cs_info(&self) -> CsInfo {
        self.call(|io_loop| io_loop.worker.cs_info()).unwrap_or_default()
    }
    /// Changes the content store; returns how it is now.
    pub fn cs_config(&self, packets_max: Option<usize>, admit: Option<bool>, serve: Option<bool>) -> CsInfo {
        let info = self.call(move |io_loop| {
            io_loop.worker.cs_config(packets_max, admit, serve);
            io_loop.worker.cs_info()
        });
        info.unwrap_or_default()
    }
    /// Erases Data under a prefix: how many went, and whether more are left.
    pub fn cs_erase(&self, prefix: Name, count_max: usize) -> (usize, bool) {
        let mut erased = 0;
        loop {
            // In parts, so that traffic goes on meanwhile.
            let (prefix, part) = (prefix.clone(), (count_max - erased).min(ERASED_PER_COMMAND));
            let done = self.call(move |io_loop| io_loop.worker.cs_erase(prefix.as_ref(), part));
            let (n, more) = done.unwrap_or_default();
            erased += n;
            if !more || n == 0 || erased >= count_max {
                return (erased, more);
            }
        }
    }
    /// Counts of the worker; among its drops are those of ports.
    pub fn counters(&self) -> WorkerCounters {
        self.call(|io_loop| io_loop.counters()).unwrap_or_default()
    }
    /// Sends what is queued, closes all faces and ends the thread.
    pub fn shutdown(&self) {
        self.call(|io_loop| io_loop.stopping = true);
    }

    fn call<R: Send + 'static>(&self, job: impl FnOnce(&mut IoLoop) -> R + Send + 'static) -> Option<R> {
        let (reply, answer) = bounded(1);
        let command: Command = Box::new(move |io_loop| {
            let _ = reply.send(job(io_loop));
        });
        self.commands.send(command).ok()?;
        self.waker.wake();
        answer.recv().ok()
    }
}

/// The control side's end of [`FaceId::INTERNAL`].
///
/// What the worker forwards to that face arrives in `from_worker`, with `incoming_face_id` set in
/// its fields; what is sent to `to_worker` arrives at the worker as if from that face. Both are
/// bounded: when full, the packet is dropped and counted.
pub struct InternalFace {
    /// Interests for management, and Data for Interests that the control side sent.
    pub from_worker: Receiver<(LinkFields, Packet)>,
    to_worker: Sender<(LinkFields, Packet)>,
    waker: LoopWaker,
    dropped: Arc<AtomicU64>,
}

impl InternalFace {
    pub(crate) fn new(
        from_worker: Receiver<(LinkFields, Packet)>,
        to_worker: Sender<(LinkFields, Packet)>,
        waker: LoopWaker,
        dropped: Arc<AtomicU64>,
    ) -> Self {
        InternalFace { from_worker, to_worker, waker, dropped }
    }

    /// Sends a packet to the worker; false if the queue was full.
    pub fn send(&self, fields: LinkFields, packet: Packet) -> bool {
        let sent = self.to_worker.try_send((fields, packet)).is_ok();
        if !sent {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        self.waker.wake();
        sent
    }
}

struct IoLoop {
    config: IoConfig,
    poll: Poll,
    waker: LoopWaker,
    worker: Worker,
    ports: Vec<Box<dyn Port>>,
    commands: Receiver<Command>,
    event_queue: EventQueue,
    /// The port of each face.
    faces: FaceMap<usize>,
    next_face_id: u64,
    epoch: Instant,
    now: Ticks,
    received: Vec<Received>,
    outgoing: Vec<Outgoing>,
    port_events: Vec<(usize, FaceEvent)>,
    /// Faces that ended in this round: the worker hears of it once their last packets are handled.
    gone: Vec<FaceStatus>,
    stopping: bool,
}

impl IoLoop {
    /// Starts ports, each at its index.
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
            self.now = self.ticks();
            let mut busy = self.round();
            busy |= self.run_commands();
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

    /// One burst through ports and worker; whether there was anything to do.
    fn round(&mut self) -> bool {
        let mut busy = false;
        for port in 0..self.ports.len() {
            if self.ports[port].next_deadline().is_some_and(|at| at <= self.now) {
                self.with_port(port, |port, cx| port.on_deadline(cx));
                busy = true;
            }
            if self.ports[port].has_input() {
                let burst_max = self.config.burst_max;
                self.with_port(port, |port, cx| port.receive(cx, burst_max));
                busy = true;
            }
        }
        self.apply_events();
        let due = self.worker.next_deadline().is_some_and(|at| at <= self.now);
        if due || !self.received.is_empty() {
            self.worker.poll(self.now, &mut self.received, &mut self.outgoing);
            busy = true;
        }
        self.transmit();
        for port in 0..self.ports.len() {
            self.with_port(port, |port, cx| port.flush(cx));
        }
        self.apply_events();
        self.bury();
        if self.event_queue.is_backlogged() {
            self.event_queue.flush();
        }
        busy
    }

    fn transmit(&mut self) {
        let mut outgoing = std::mem::take(&mut self.outgoing);
        for packet in outgoing.drain(..) {
            if let Some(&port) = self.faces.get(&packet.face) {
                self.with_port(port, |port, cx| port.transmit(cx, packet));
            }
        }
        self.outgoing = outgoing;
    }

    fn run_commands(&mut self) -> bool {
        for n in 0..COMMANDS_PER_ROUND {
            let Ok(command) = self.commands.try_recv() else { return n > 0 };
            command(self);
            self.apply_events();
        }
        true
    }

    fn has_input(&self) -> bool {
        self.ports.iter().any(|p| p.has_input())
    }

    /// How long to sleep, having told wakers that we are about to; `None`: for ever.
    fn wait(&mut self) -> Option<Duration> {
        self.waker.fall_asleep();
        if self.has_input() || !self.commands.is_empty() {
            return Some(Duration::ZERO);
        }
        let deadlines = self.ports.iter().filter_map(|p| p.next_deadline()).chain(self.worker.next_deadline());
        let deadline = deadlines.min().map(|at| at.since(self.ticks()));
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
        self.now = self.ticks();
        for event in events.iter().filter(|e| e.token() != WAKER_TOKEN) {
            let (port, key) = split_token(event.token());
            let readiness = Readiness {
                readable: event.is_readable() || event.is_read_closed() || event.is_error(),
                writable: event.is_writable() || event.is_write_closed() || event.is_error(),
                closed: event.is_read_closed() || event.is_error(),
            };
            self.with_port(port, |port, cx| port.ready(cx, key, readiness));
        }
    }

    /// Gives queued output some time to leave, then closes everything by dropping it.
    fn drain(mut self, events: &mut Events) {
        let end = Instant::now() + DRAIN_TIME;
        while self.ports.iter().any(|p| p.has_output()) && Instant::now() < end {
            self.poll_events(events, Some(Duration::from_millis(10)));
            for port in 0..self.ports.len() {
                self.with_port(port, |port, cx| port.flush(cx));
            }
        }
    }

    /// Tells the worker and the control side what ports reported.
    fn apply_events(&mut self) {
        if self.port_events.is_empty() {
            return;
        }
        let mut events = std::mem::take(&mut self.port_events);
        for (port, event) in events.drain(..) {
            match event {
                FaceEvent::Created(status) => {
                    self.faces.insert(status.id, port);
                    self.worker.face_up(status.id, status.scope, status.link_type);
                    self.worker.set_local_fields(status.id, status.flags.local_fields);
                    self.event_queue.push(FaceEvent::Created(status));
                }
                FaceEvent::Destroyed(status) => self.gone.push(status),
                FaceEvent::Up(status) => {
                    let status = self.with_counters(status);
                    self.event_queue.push(FaceEvent::Up(status));
                }
                FaceEvent::Down(status) => {
                    let status = self.with_counters(status);
                    self.event_queue.push(FaceEvent::Down(status));
                }
            }
        }
        self.port_events = events;
    }

    fn bury(&mut self) {
        for status in std::mem::take(&mut self.gone) {
            let status = self.with_counters(status);
            self.worker.face_down(status.id);
            self.faces.remove(&status.id);
            self.event_queue.push(FaceEvent::Destroyed(status));
        }
    }

    fn create_face(&mut self, request: &FaceRequest) -> Result<FaceStatus, CreateFaceError> {
        for port in 0..self.ports.len() {
            match self.with_port(port, |port, cx| port.create_face(cx, request)) {
                None => {}
                Some(Err(CreateFaceError::Exists(status))) => {
                    return Err(CreateFaceError::Exists(Box::new(self.with_counters(*status))));
                }
                Some(done) => return done,
            }
        }
        Err(CreateFaceError::Unacceptable("no listener here can make a face of this kind".into()))
    }

    fn update_face(&mut self, face: FaceId, change: &FaceChange) -> Result<FaceStatus, UpdateFaceError> {
        let Some(&port) = self.faces.get(&face) else { return Err(UpdateFaceError::NotFound) };
        let status = self.with_port(port, |port, cx| port.update_face(cx, face, change))?;
        self.worker.set_local_fields(face, status.flags.local_fields);
        Ok(self.with_counters(status))
    }

    fn destroy_face(&mut self, face: FaceId) -> bool {
        let Some(&port) = self.faces.get(&face) else { return false };
        let destroyed = self.with_port(port, |port, cx| port.destroy_face(cx, face));
        self.apply_events();
        self.bury();
        destroyed
    }

    fn status(&self, face: FaceId) -> Option<FaceStatus> {
        let port = *self.faces.get(&face)?;
        self.ports[port].status(self.ticks(), face).map(|s| self.with_counters(s))
    }

    fn counters(&self) -> WorkerCounters {
        let mut counters = self.worker.counters();
        for (reason, count) in self.ports.iter().flat_map(|p| p.drops()) {
            match counters.drops.iter_mut().find(|d| d.0 == reason) {
                Some(known) => known.1 += count,
                None => counters.drops.push((reason, count)),
            }
        }
        counters
    }

    fn with_counters(&self, mut status: FaceStatus) -> FaceStatus {
        status.counters = self.worker.face_counters(status.id).unwrap_or_default();
        status
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
        };
        f(&mut *self.ports[port], &mut cx)
    }

    fn ticks(&self) -> Ticks {
        Ticks(u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

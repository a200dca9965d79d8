//! The packet thread: ports, workers, and the control side's commands.
//!
//! Each round reads the clock once, takes a bounded burst from every port that has input, lets the
//! worker handle it, hands out what the worker yields, and flushes the ports; between rounds it
//! carries out commands, a few at a time. With nothing to do it spins for [`IoConfig::spin`], since
//! to wake from sleep costs tens of microseconds, and then sleeps until a descriptor is ready, a
//! command comes, or a deadline of the worker or of a port is due. There is no periodic tick.
//!
//! With one worker (`Workers::Here`) all of that is one thread: what is received is forwarded and sent
//! before another thread could have been woken. With [`Workers::Threads`] the loop gives packets to
//! them and sends what comes back.

mod handle;
mod pin;
mod shares;
mod worker_thread;
mod workers;

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byname_forward::face_table::{FaceCounters, FaceMap};
use byname_forward::stages::{self, Stage, Stopwatch};
use byname_forward::{FaceId, Outgoing, Received, Ticks, Worker};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use mio::{Events, Poll, Token};
use thiserror::Error;

use crate::event_queue::EventQueue;
use crate::face::{CreateFaceError, FaceChange, FaceEvent, FaceRequest, FaceStatus, UpdateFaceError};
use crate::memory;
use crate::port::{Port, PortContext, Readiness, split_token};
use crate::waker::LoopWaker;
use handle::Command;
use workers::{Pool, Surroundings};

pub use handle::{ForwarderHandle, InternalFace};
pub use workers::{RingStatus, WorkerStatus, Workers};

const WAKER_TOKEN: Token = Token(usize::MAX);
/// Readiness events taken at once.
const POLL_EVENTS: usize = 256;
/// Commands carried out in one round.
const COMMANDS_PER_ROUND: usize = 16;
/// Rounds with input at hand between two looks at the readiness of descriptors.
const ROUNDS_PER_POLL: u32 = 4;
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

/// Starts the packet thread with these workers and ports and the internal face.
pub fn start(config: IoConfig, workers: impl Into<Workers>, ports: Vec<Box<dyn Port>>) -> Result<Running, StartError> {
    let poll = Poll::new().map_err(StartError::System)?;
    let waker = LoopWaker::new(poll.registry(), WAKER_TOKEN).map_err(StartError::System)?;
    let (internal_port, internal) = memory::internal(config.internal_max, waker.clone());
    let clock = Clock { epoch: Instant::now() };
    let surroundings = Surroundings { clock, spin: config.spin, waker: waker.clone() };
    let (workers, processor) = Pool::start(workers.into(), &surroundings).map_err(StartError::System)?;
    let worker_count = workers.len();
    let (commands, receiver) = bounded(handle::COMMANDS_MAX);
    let (last_counts, faces_left) = unbounded();
    let (event_queue, events) = EventQueue::new(config.events_max);
    let mut io_loop = IoLoop {
        config,
        poll,
        waker: waker.clone(),
        workers,
        ports: Vec::new(),
        commands: receiver,
        event_queue,
        faces: FaceMap::default(),
        next_face_id: FaceId::FIRST.0,
        clock,
        stopwatch: clock.stopwatch(),
        now: Ticks(0),
        received: Vec::new(),
        outgoing: Vec::new(),
        port_events: Vec::new(),
        gone: Vec::new(),
        leaving: FaceMap::default(),
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
    Ok(Running { handle: ForwarderHandle::new(commands, waker, worker_count), internal, events, thread })
}

struct IoLoop {
    config: IoConfig,
    poll: Poll,
    waker: LoopWaker,
    workers: Pool,
    ports: Vec<Box<dyn Port>>,
    commands: Receiver<Command>,
    event_queue: EventQueue,
    /// The port of each face.
    faces: FaceMap<usize>,
    next_face_id: u64,
    clock: Clock,
    stopwatch: Stopwatch,
    now: Ticks,
    received: Vec<Received>,
    outgoing: Vec<Outgoing>,
    port_events: Vec<(usize, FaceEvent)>,
    /// Faces that ended in this round: workers hear of it once they have been given their last packets.
    gone: Vec<FaceStatus>,
    /// Faces that so many workers have still to forget.
    leaving: FaceMap<(FaceStatus, usize)>,
    /// Where workers say what they have counted of a face that they forget.
    last_counts: Sender<(FaceId, FaceCounters)>,
    faces_left: Receiver<(FaceId, FaceCounters)>,
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

    /// One burst through ports and worker; whether there was anything to do.
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
        // A worker that is here times its stages itself.
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

    /// Hands out what is to be sent, to each port what comes in a row for its faces, and flushes all ports.
    fn transmit(&mut self) {
        let mut outgoing = std::mem::take(&mut self.outgoing);
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
            let Ok(command) = self.commands.try_recv() else { return n > 0 };
            command(self);
            self.apply_events();
        }
        true
    }

    fn has_input(&mut self) -> bool {
        self.ports.iter().any(|p| p.has_input()) || self.workers.has_output() || !self.faces_left.is_empty()
    }

    /// How long to sleep, having told wakers that we are about to; `None`: for ever.
    fn wait(&mut self) -> Option<Duration> {
        self.waker.fall_asleep();
        for port in &mut self.ports {
            port.fall_asleep(self.now);
        }
        if self.has_input() || !self.commands.is_empty() {
            return Some(Duration::ZERO);
        }
        let deadlines = self.ports.iter().filter_map(|p| p.next_deadline()).chain(self.workers.next_deadline());
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
                    let (face, scope, link_type) = (status.id, status.scope, status.link_type);
                    let local_fields = status.flags.local_fields;
                    self.each_worker(move |worker| {
                        worker.face_up(face, scope, link_type);
                        worker.set_local_fields(face, local_fields);
                    });
                    self.event_queue.push(FaceEvent::Created(status));
                }
                FaceEvent::Destroyed(status) => self.gone.push(status),
                changed => self.event_queue.push(changed),
            }
        }
        self.port_events = events;
    }

    fn bury(&mut self) {
        for status in std::mem::take(&mut self.gone) {
            let face = status.id;
            self.faces.remove(&face);
            self.leaving.insert(face, (status, self.workers.len()));
            let last_counts = self.last_counts.clone();
            self.each_worker(move |worker| {
                let counters = worker.face_counters(face).unwrap_or_default();
                worker.face_down(face);
                // The loop is there as long as its workers.
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

    /// Tells all workers something, after the packets that they were given so far.
    fn each_worker(&mut self, tell: impl FnOnce(&mut Worker) + Clone + Send + 'static) {
        self.workers.each(0..self.workers.len(), |_| Box::new(tell.clone()));
    }

    fn create_face(&mut self, request: &FaceRequest) -> Result<FaceStatus, CreateFaceError> {
        for port in 0..self.ports.len() {
            match self.with_port(port, |port, cx| port.create_face(cx, request)) {
                None => {}
                Some(done) => return done,
            }
        }
        Err(CreateFaceError::Unacceptable("no listener here can make a face of this kind".into()))
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

    fn status(&self, face: FaceId) -> Option<FaceStatus> {
        let port = *self.faces.get(&face)?;
        self.ports[port].status(self.clock.now(), face)
    }

    /// What was dropped outside of workers, by reason.
    fn drops(&self) -> Vec<(&'static str, u64)> {
        self.ports.iter().flat_map(|p| p.drops()).chain(self.workers.drops()).collect()
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
}

/// The one clock of a forwarder.
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

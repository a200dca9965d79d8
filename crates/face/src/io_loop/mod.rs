//! A packet thread runs ports, a worker, and the control side's commands.
//!
//! Each round reads the clock once, and takes a bounded burst from every port that has input. It lets the worker handle
//! the burst, hands the worker's output to the ports, and flushes them. Between rounds the thread carries out a few
//! commands. Without work it spins for [`IoConfig::spin`], since waking from sleep costs tens of microseconds. Then it
//! sleeps until a descriptor is ready, a command comes, or a deadline of the worker or of a port is due. There is no
//! periodic tick.
//!
//! By default there is one such thread: packets are forwarded and sent before another thread could wake. With several
//! [`Workers`] there is a thread for each of them. Each thread owns ports, the faces on these ports, and one shard of
//! PIT and content store. Packets that belong to another thread cross a ring ([`byname_forward::seat`]).

mod cached;
mod crew;
mod explain;
mod handle;
mod handover;
mod interfaces;
mod lending;
mod moving;
mod pin;
mod popular;
mod registrations;
mod status;
mod tables;
mod trace;

use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byname_forward::face_table::{FaceCounters, FaceMap};
use byname_forward::learning::Notice;
use byname_forward::seat::{Owners, Seat};
use byname_forward::stages::{self, Stage, Stopwatch};
use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received, Ticks};
use byname_lookup::memory::{Refused, with_room};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use mio::{Events, Poll, Token};
use thiserror::Error;

use crate::event_queue::EventQueue;
use crate::face::{
    CreateFaceError, Creation, FaceChange, FaceEvent, FaceRequest, FaceStatus, LinkCounters, UpdateFaceError,
    decided_on,
};
use crate::handover::FormerFace;
use crate::memory::{self, InternalFace};
use crate::nodes::Placement;
use crate::port::{Port, PortContext, Readiness, split_token};
use crate::pulse::{Doing, Pulse, Watched};
use crate::uri::FaceUri;
use crate::waker::LoopWaker;
use crew::{Crew, Pause, number_of};
use handle::{Command, CreationReply, Line};
use lending::{Leaving, Loans};
use moving::GoneFaces;
use registrations::Registrations;
use status::{Lately, WorkTime};

pub use byname_forward::seat::{RingStatus, Workers};
pub use cached::CachedCount;
pub use explain::Explained;
pub use handle::{ForwarderHandle, LinkTotals};
pub use registrations::Registration;
pub use status::{Activity, ThreadStatus, imbalance};
pub use trace::Seen;

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

/// Limits of a packet thread.
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
    /// Whether threads rest that have little to do: the first thread then runs their loops.
    pub rests: bool,
}

impl Default for IoConfig {
    fn default() -> Self {
        IoConfig { spin: Duration::from_micros(50), burst_max: 64, internal_max: 4096, events_max: 4096, rests: true }
    }
}

/// Reason why a packet thread does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The system gives no event queue or thread.
    #[error("cannot set up a packet thread: {0}")]
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
    /// Queues between packet threads.
    Rings,
    /// Queue of [`IoConfig::internal_max`] packets.
    Internal,
    /// Queue of [`IoConfig::events_max`] events.
    Events,
}

/// Running packet threads.
pub struct Running {
    /// Sends commands to them.
    pub handle: ForwarderHandle,
    /// The control side's end of [`FaceId::INTERNAL`].
    pub internal: InternalFace,
    /// Events of faces. Those of faces that ports made at the start come first.
    pub events: Receiver<FaceEvent>,
    /// Notices of workers about routes that they learn from Data. A few fit; the rest are dropped and counted.
    pub notices: Receiver<Notice>,
    /// What each thread does, for a watcher.
    pub pulses: Vec<Watched>,
    /// The first thread. It ends after [`ForwarderHandle::shutdown`], after all others.
    pub thread: JoinHandle<()>,
}

/// Starts a packet thread for each worker. The first gets these ports and the internal face.
pub fn start(config: IoConfig, workers: impl Into<Workers>, ports: Vec<Box<dyn Port>>) -> Result<Running, StartError> {
    let mut workers = workers.into();
    check_queues(&config)?;
    let threads = workers.len();
    let polls = (0..threads).map(|_| Poll::new()).collect::<Result<Vec<_>, _>>().map_err(StartError::System)?;
    let waker = |poll: &Poll| LoopWaker::new(poll.registry(), WAKER_TOKEN);
    let wakers = polls.iter().map(waker).collect::<Result<Vec<_>, _>>().map_err(StartError::System)?;
    let (internal_port, internal) = memory::internal(config.internal_max, wakers[0].clone());
    let clock = Clock { epoch: Instant::now() };
    let notices = listen(&mut workers, clock);
    let placement = Placement::on_this_machine(threads, workers.are_pinned());
    let (event_queue, events) = EventQueue::new(config.events_max);
    let (ending, gone_faces) = (Arc::<Ending>::default(), GoneFaces::default());
    let (mut lines, mut loops) = (Vec::new(), Vec::new());
    let no_memory = |Refused { bytes }| StartError::Memory { queue: Queue::Rings, bytes };
    let first = polls[0].registry().try_clone().map_err(StartError::System)?;
    for (seat, poll) in workers.seats().map_err(no_memory)?.into_iter().zip(polls) {
        let waker = wakers[seat.number()].clone();
        let (ending, gone_faces) = (Arc::clone(&ending), gone_faces.clone());
        let shared = Shared { clock, event_queue: event_queue.another(), ending, gone_faces };
        let node = placement.node(seat.number());
        let (mut io_loop, line) = IoLoop::new(config.clone(), seat, poll, waker, shared);
        io_loop.node = node;
        loops.push(io_loop);
        lines.push(line);
    }
    let pulses = loops.iter().map(|io_loop| io_loop.pulse.watched()).collect();
    loops[0].add_ports(vec![Box::new(internal_port)])?;
    loops[0].add_ports(ports)?;
    loops.iter_mut().for_each(|io_loop| io_loop.pulse.note(Doing::Nothing));
    let crew = Arc::new(Crew::new(loops.into_iter(), first));
    let spawn = |number: usize, others: Vec<JoinHandle<()>>| {
        let name = name_of(number);
        let (processor, at_end) = (placement.processor(number), WakeAtEnd(Arc::clone(&crew)));
        let body = move || {
            pin::to(processor);
            at_end.0.run(number);
            drop(at_end);
            if others.into_iter().filter_map(|other| other.join().err()).count() > 0 {
                tracing::error!("a packet thread has panicked");
            }
        };
        std::thread::Builder::new().name(name).spawn(body).map_err(StartError::System)
    };
    let others = (1..threads).map(|number| spawn(number, Vec::new())).collect::<Result<Vec<_>, _>>()?;
    let thread = spawn(0, others)?;
    let handle = ForwarderHandle::new(lines, ending, gone_faces);
    Ok(Running { handle, internal, events, notices, pulses, thread })
}

/// Name of a packet thread.
fn name_of(number: usize) -> String {
    if number == 0 { "byname-packets".to_owned() } else { format!("byname-packet{number}") }
}

/// Wakes all threads when dropped, so that they check whether one of them has failed.
struct WakeAtEnd(Arc<Crew>);

impl Drop for WakeAtEnd {
    fn drop(&mut self) {
        self.0.wake_all();
    }
}

/// How far the threads have come on their way to the end.
#[derive(Default)]
struct Ending {
    /// 1 once the end is wanted.
    wanted: AtomicUsize,
    /// Threads that take no more input.
    stopped: AtomicUsize,
    /// Threads whose workers have handled all packets.
    finished: AtomicUsize,
}

/// What all loops share.
struct Shared {
    clock: Clock,
    event_queue: EventQueue,
    ending: Arc<Ending>,
    gone_faces: GoneFaces,
}

/// Connects the workers' notices about routes to a receiver, and gives them a clock for their stages.
fn listen(workers: &mut Workers, clock: Clock) -> Receiver<Notice> {
    let (tell, notices) = bounded(NOTICES_MAX);
    for worker in workers.each_mut() {
        let tell = tell.clone();
        worker.time_stages(clock.stopwatch());
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
    events: Events,
    waker: LoopWaker,
    seat: Seat,
    ports: Vec<Box<dyn Port>>,
    commands: mpsc::Receiver<Command>,
    /// A received command that is not carried out yet.
    next_command: Option<Command>,
    event_queue: EventQueue,
    /// Index of each face's port.
    faces: FaceMap<usize>,
    /// The threads that own the faces of other threads.
    owners: Owners,
    next_face_id: u64,
    clock: Clock,
    ending: Arc<Ending>,
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
    /// Faces of another process that are made anew here.
    former: Vec<FormerFace>,
    /// Dropped packets to faces that this thread should own and does not have: faces that are gone.
    no_face: u64,
    /// Faces that ended in this round. Workers are told after they have got the faces' last packets.
    gone: Vec<FaceStatus>,
    /// Ended faces that some workers still have to forget.
    leaving: FaceMap<Leaving>,
    loans: Loans,
    /// Packets that ports leave to the owners of their faces.
    left: Vec<Outgoing>,
    /// Sum of the link counters of all ended faces.
    gone_links: LinkCounters,
    /// Ended faces that had moved.
    gone_faces: GoneFaces,
    /// What ports have counted that were removed.
    removed: interfaces::Removed,
    /// Faces that came from other threads, and faces that left for them.
    faces_come: u64,
    faces_left_for: u64,
    /// Workers send their final counters of a face here when they forget it.
    last_counts: Sender<(FaceId, FaceCounters)>,
    faces_left: Receiver<(FaceId, FaceCounters)>,
    stopping: bool,
    /// How much it does, which is less during a handover to another process.
    running: handover::Running,
    /// Rounds so far.
    rounds: u32,
    last_busy: Instant,
    work_time: WorkTime,
    /// Packets that the worker has handled lately.
    handled: Lately,
    pulse: Pulse,
    /// Number of the memory node of this thread's processor.
    node: Option<u32>,
    /// In the first loop: threads that rest, and whose descriptors are ready.
    nested_ready: Vec<usize>,
    pause: Pause,
    /// Time until which the thread is not called.
    pause_until: Ticks,
}

impl IoLoop {
    /// A loop without ports, and the line to it.
    fn new(config: IoConfig, seat: Seat, poll: Poll, waker: LoopWaker, shared: Shared) -> (IoLoop, Line) {
        let Shared { clock, event_queue, ending, gone_faces } = shared;
        // Use the standard library's channel. When the packet thread ends, its receiver drops all waiting commands and
        // their reply senders. A bounded channel of crossbeam keeps them, and callers would wait forever.
        let (commands, receiver) = mpsc::sync_channel(handle::COMMANDS_MAX);
        let (last_counts, faces_left) = unbounded();
        let (announced, registrations) = unbounded();
        let line = Line::new(commands, announced, waker.clone());
        let io_loop = IoLoop {
            config,
            poll,
            events: Events::with_capacity(POLL_EVENTS),
            waker,
            next_face_id: FaceId::FIRST.0 + seat.number() as u64,
            owners: Owners::new(seat.threads()),
            pulse: Pulse::new(name_of(seat.number())),
            seat,
            ports: Vec::new(),
            commands: receiver,
            next_command: None,
            event_queue,
            faces: FaceMap::default(),
            clock,
            ending,
            stopwatch: clock.stopwatch(),
            now: Ticks(0),
            received: Vec::new(),
            outgoing: Vec::new(),
            registrations: Registrations::new(registrations),
            port_events: Vec::new(),
            creating: Vec::new(),
            creations: Vec::new(),
            former: Vec::new(),
            no_face: 0,
            gone: Vec::new(),
            leaving: FaceMap::default(),
            loans: Loans::default(),
            left: Vec::new(),
            gone_links: LinkCounters::default(),
            gone_faces,
            removed: interfaces::Removed::default(),
            faces_come: 0,
            faces_left_for: 0,
            last_counts,
            faces_left,
            stopping: false,
            running: handover::Running::default(),
            rounds: 0,
            last_busy: Instant::now(),
            work_time: WorkTime::default(),
            handled: Lately::default(),
            node: None,
            nested_ready: Vec::new(),
            pause: Pause::default(),
            pause_until: Ticks(0),
        };
        (io_loop, line)
    }

    /// Starts ports, and stores each at its index.
    fn add_ports(&mut self, ports: Vec<Box<dyn Port>>) -> Result<(), StartError> {
        let first = self.ports.len();
        ports.iter().for_each(|port| self.pulse.add_port(port.name()));
        self.ports.extend(ports);
        self.start_ports(first)
    }

    /// Starts the ports from this index on.
    fn start_ports(&mut self, first: usize) -> Result<(), StartError> {
        for index in first..self.ports.len() {
            self.with_port(Doing::Command, index, |port, cx| port.start(cx))
                .map_err(|error| StartError::Port { port: self.ports[index].name().to_owned(), error })?;
        }
        self.apply_events();
        Ok(())
    }

    /// Runs one round, and a few commands. Returns whether there was anything to do.
    fn step(&mut self) -> bool {
        self.now = self.clock.now();
        self.handled.note(self.now, || self.seat.handled().unwrap_or_default());
        let busy = self.running != handover::Running::Frozen && self.round();
        busy | self.run_commands()
    }

    /// Whether the loop must end.
    fn has_ended(&self) -> bool {
        if self.seat.is_deserted() && self.ending.wanted.load(Ordering::SeqCst) == 0 {
            tracing::error!("another packet thread has ended by itself");
            return true;
        }
        self.stopping
    }

    /// Whether there is something to do without readiness of a descriptor.
    fn needs_round(&mut self) -> bool {
        self.has_input()
            || self.has_command()
            || self.event_queue.is_backlogged()
            || self.next_deadline().is_some_and(|at| at <= self.clock.now())
    }

    fn note_busy(&mut self) {
        self.last_busy = Instant::now();
    }

    /// Whether it has looked for input in vain for as long as it should before it sleeps.
    fn has_rested_for_spin(&self) -> bool {
        self.last_busy.elapsed() >= self.config.spin
    }

    /// The thread seems to have no processor of its own.
    fn pause(&mut self, now: Ticks) {
        self.pause_until = now + self.pause.next();
    }

    fn shorten_pause(&mut self) {
        self.pause.shorten();
    }

    fn poll_fd(&self) -> RawFd {
        self.poll.as_raw_fd()
    }

    /// Polls the descriptors and handles what they say. Known input is handled first: if there is some, the descriptors
    /// are polled in one round of a few. Returns whether more descriptors may be ready.
    fn poll(&mut self, wait: Option<Duration>) -> bool {
        if self.running == handover::Running::Frozen {
            // What the descriptors have to say waits in the system.
            self.pulse.note(Doing::Nothing);
            std::thread::sleep(handover::FROZEN_PAUSE);
            return true;
        }
        self.rounds = self.rounds.wrapping_add(1);
        if wait == Some(Duration::ZERO) && !self.rounds.is_multiple_of(ROUNDS_PER_POLL) && self.has_input() {
            return true;
        }
        if wait != Some(Duration::ZERO) {
            self.pulse.note(Doing::Nothing);
        }
        let polled = self.poll.poll(&mut self.events, wait);
        self.waker.awake();
        if let Err(error) = polled {
            if error.kind() != std::io::ErrorKind::Interrupted {
                tracing::error!(%error, "cannot wait for input");
                std::thread::sleep(BACKLOG_INTERVAL);
            }
            return true;
        }
        if self.events.is_empty() {
            return false;
        }
        self.now = self.clock.now();
        let events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        let mut count = 0;
        for event in events.iter().filter(|event| event.token() != WAKER_TOKEN) {
            count += 1;
            if let Some(number) = number_of(event.token()) {
                self.nested_ready.push(number);
                continue;
            }
            let (port, key) = split_token(event.token());
            let readiness = Readiness::of(event);
            self.with_port(Doing::Readiness, port, |port, cx| port.ready(cx, key, readiness));
        }
        self.events = events;
        count + 1 >= POLL_EVENTS
    }

    /// Runs one burst through ports and worker. Returns whether there was anything to do.
    fn round(&mut self) -> bool {
        let mut busy = false;
        self.stopwatch.start();
        let takes_input = self.running == handover::Running::Wholly && !self.stopping && !self.seat.is_behind();
        for port in 0..self.ports.len() {
            if self.ports[port].next_deadline().is_some_and(|at| at <= self.now) {
                self.with_port(Doing::Deadline, port, |port, cx| port.on_deadline(cx));
                busy = true;
            }
            if takes_input && self.ports[port].has_input() {
                let burst_max = self.config.burst_max;
                self.with_port(Doing::Receive, port, |port, cx| port.receive(cx, burst_max));
                busy = true;
            }
        }
        self.apply_events();
        let received = self.received.len();
        self.stopwatch.lap_if_any(Stage::Receive, received);
        self.pulse.note(Doing::Forward);
        busy |= self.seat.poll(self.now, &mut self.received, &mut self.outgoing, &mut self.stopwatch);
        if self.seat.worker.has_loans() {
            self.hear_of_loans();
        }
        let sent = self.outgoing.len();
        self.transmit();
        self.stopwatch.lap_if_any(Stage::Send, sent);
        self.stopwatch.stop(received + sent == 0);
        self.apply_events();
        self.bury();
        self.end_recalls();
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
            let (mut face, port) = (first.face, self.port_to(first.face));
            let is_of_port = |next: &&Outgoing| {
                let is = next.face == face || self.port_to(next.face) == port;
                face = next.face;
                is
            };
            let burst = rest.iter().take_while(is_of_port).count();
            let (burst, behind) = rest.split_at_mut(burst);
            match port {
                Some(port) => {
                    self.with_port(Doing::Send, port, |port, cx| port.transmit(cx, burst));
                    self.send_left_to_owners();
                }
                None => self.send_to_owners(burst),
            }
            rest = behind;
        }
        self.seat.publish_output();
        for port in 0..self.ports.len() {
            self.with_port(Doing::Send, port, |port, cx| port.flush(cx));
        }
        outgoing.clear();
        self.outgoing = outgoing;
    }

    /// The port by which this thread sends on a face: that of the face, or one that borrows it.
    #[inline]
    fn port_to(&self, face: FaceId) -> Option<usize> {
        self.faces.get(&face).or_else(|| self.loans.borrowed.get(&face)).copied()
    }

    /// Sends packets that a port has left to the owners of their faces.
    fn send_left_to_owners(&mut self) {
        if !self.left.is_empty() {
            let mut left = std::mem::take(&mut self.left);
            self.send_to_owners(&mut left);
            left.clear();
            self.left = left;
        }
    }

    /// Sends packets to the threads that own their faces.
    fn send_to_owners(&mut self, burst: &mut [Outgoing]) {
        for outgoing in burst {
            self.no_face += u64::from(!self.owners.pass_on(&mut self.seat, outgoing));
        }
    }

    fn run_commands(&mut self) -> bool {
        for n in 0..COMMANDS_PER_ROUND {
            let command = self.next_command.take().or_else(|| self.commands.try_recv().ok());
            let Some(command) = command else { return n > 0 };
            self.pulse.note(Doing::Command);
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
        self.ports.iter().any(|p| p.has_input()) || self.seat.has_input() || !self.faces_left.is_empty()
    }

    fn next_deadline(&self) -> Option<Ticks> {
        let deadlines = self.ports.iter().filter_map(|p| p.next_deadline()).chain(self.seat.worker.next_deadline());
        deadlines.chain(self.registrations.next_deadline()).min()
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
        let deadline = self.next_deadline().map(|at| at.since(self.clock.now()));
        if self.event_queue.is_backlogged() {
            return Some(deadline.map_or(BACKLOG_INTERVAL, |d| d.min(BACKLOG_INTERVAL)));
        }
        deadline
    }

    /// Gives queued output some time to leave, then closes everything by dropping it.
    fn drain(mut self) {
        if self.running == handover::Running::Frozen {
            // Its faces may be another process's by now, which sends what is queued.
            return;
        }
        let end = Instant::now() + DRAIN_TIME;
        self.finish(end);
        while self.ports.iter().any(|p| p.has_output()) && Instant::now() < end {
            self.poll(Some(Duration::from_millis(10)));
            for port in 0..self.ports.len() {
                self.with_port(Doing::Send, port, |port, cx| port.flush(cx));
            }
        }
    }

    /// Handles the packets that other threads still send, until all threads have handled theirs.
    fn finish(&mut self, end: Instant) {
        let threads = self.seat.threads();
        if !self.stopping {
            // A thread has failed.
            return;
        }
        let ending = Arc::clone(&self.ending);
        ending.stopped.fetch_add(1, Ordering::SeqCst);
        let mut has_finished = false;
        while Instant::now() < end {
            // In this order: what other threads did before they counted themselves is seen below.
            let (all_stopped, all_finished) =
                (ending.stopped.load(Ordering::SeqCst) == threads, ending.finished.load(Ordering::SeqCst) == threads);
            let had_input = self.seat.has_input();
            self.now = self.clock.now();
            self.round();
            if all_finished && !had_input {
                return;
            }
            if all_stopped && !had_input && !std::mem::replace(&mut has_finished, true) {
                ending.finished.fetch_add(1, Ordering::SeqCst);
            }
            std::thread::yield_now();
        }
    }

    /// Tells the workers and the control side what ports reported.
    fn apply_events(&mut self) {
        if self.port_events.is_empty() && self.creations.is_empty() {
            return;
        }
        let mut events = std::mem::take(&mut self.port_events);
        for (port, mut event) in events.drain(..) {
            event.status_mut().thread = self.seat.number();
            match event {
                FaceEvent::Created(status) => {
                    self.faces.insert(status.id, port);
                    let (face, scope, link_type) = (status.id, status.scope, status.link_type);
                    let (local_fields, whereabouts) = (status.flags.local_fields, status.whereabouts());
                    self.seat.enter_face(face, &whereabouts);
                    let loan = self.lend(face);
                    self.seat.tell_all(move |worker| {
                        worker.face_up_at(face, scope, link_type, whereabouts);
                        worker.set_local_fields(face, local_fields);
                        worker.lend_face(face, loan);
                    });
                    self.event_queue.push(FaceEvent::Created(status));
                }
                FaceEvent::Destroyed(status) => self.gone.push(status),
                FaceEvent::Up(status) => {
                    let face = status.id;
                    if let Some(networks) = status.networks.clone() {
                        self.seat.tell_all(move |worker| worker.set_networks(face, networks));
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
            let mut outcome = decided_on(self.seat.number(), outcome);
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
            self.seat.leave_face(face);
            self.gone_links.add(&status.link);
            let leaving = self.leaves(status);
            self.leaving.insert(face, leaving);
            let (last_counts, waker) = (self.last_counts.clone(), self.waker.clone());
            self.seat.tell_all_after(move |worker| {
                let counters = worker.face_counters(face).unwrap_or_default();
                worker.face_down(face);
                // At the end nobody asks for the counts.
                let _ = last_counts.send((face, counters));
                waker.wake();
            });
        }
        while let Ok((face, counters)) = self.faces_left.try_recv() {
            let Some(leaving) = self.leaving.get_mut(&face) else { continue };
            leaving.count(&counters);
            if leaving.workers == 0
                && let Some(leaving) = self.leaving.remove(&face)
            {
                self.gone_faces.note(face, &self.owners);
                self.has_left(leaving);
            }
        }
    }

    /// Creates a face on a port of this thread.
    fn create_face(&mut self, request: &FaceRequest, reply: CreationReply) -> Asked {
        if self.creating.len() >= CREATING_MAX {
            let text = format!("{CREATING_MAX} connections are being made already; try again later");
            return Asked::Decided(Box::new(Err(CreateFaceError::Failed(text))));
        }
        let ports = 0..self.ports.len();
        let mut ask = |port| self.with_port(Doing::Command, port, |port, cx| port.create_face(cx, request));
        let created = ports.into_iter().find_map(&mut ask);
        // Whoever gets the answer may send Interests to the face at once, by any thread.
        self.apply_events();
        match created {
            None => Asked::NoPort(reply),
            Some(Ok(status)) if status.id == FaceId::NONE => {
                self.creating.push((status.remote, reply));
                Asked::Later
            }
            Some(decided) => Asked::Decided(Box::new(decided_on(self.seat.number(), decided))),
        }
    }

    /// Whether it has a face to this peer, or is creating one.
    fn knows(&self, remote: &FaceUri) -> bool {
        let is_to = |id: &FaceId| self.status(*id).is_some_and(|status| status.remote == *remote);
        self.creating.iter().any(|(waits_for, _)| waits_for == remote) || self.faces.keys().any(is_to)
    }

    fn update_face(&mut self, face: FaceId, change: &FaceChange) -> Result<FaceStatus, UpdateFaceError> {
        let Some(&port) = self.faces.get(&face) else { return Err(UpdateFaceError::NotFound) };
        let status = self.with_port(Doing::Command, port, |port, cx| port.update_face(cx, face, change))?;
        let (local_fields, loan) = (status.flags.local_fields, self.lend(face));
        self.seat.tell_all(move |worker| {
            worker.set_local_fields(face, local_fields);
            worker.lend_face(face, loan);
        });
        Ok(FaceStatus { thread: self.seat.number(), ..status })
    }

    fn destroy_face(&mut self, face: FaceId) -> bool {
        let Some(&port) = self.faces.get(&face) else { return false };
        let destroyed = self.with_port(Doing::Command, port, |port, cx| port.destroy_face(cx, face));
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
        let status = self.ports[port].status(self.clock.now(), face)?;
        Some(FaceStatus { thread: self.seat.number(), ..status })
    }

    /// Packets dropped outside of workers, by reason.
    fn drops(&self) -> Vec<(&'static str, u64)> {
        let no_face = [("no-face", self.no_face), ("moving-queue-full", self.owners.drops())];
        let of_ports = self.ports.iter().flat_map(|p| p.drops()).chain(self.removed.drops());
        of_ports.chain(self.seat.drops()).chain(no_face).collect()
    }

    /// Link counters of the faces that have ended here, and why ports closed faces.
    fn gone_links(&self) -> LinkTotals {
        let closed = self.ports.iter().flat_map(|p| p.closed()).chain(self.removed.closed());
        LinkTotals { counters: self.gone_links, closed: closed.collect() }
    }

    fn with_port<R>(
        &mut self,
        doing: Doing,
        port: usize,
        f: impl FnOnce(&mut dyn Port, &mut PortContext<'_>) -> R,
    ) -> R {
        self.pulse.note_port(doing, port);
        let mut cx = PortContext {
            now: self.now,
            port,
            registry: self.poll.registry(),
            waker: &self.waker,
            next_face_id: &mut self.next_face_id,
            face_id_step: self.seat.threads() as u64,
            received: &mut self.received,
            events: &mut self.port_events,
            creations: &mut self.creations,
            token_mark: self.seat.token_mark(),
            left: &mut self.left,
            former: &mut self.former,
        };
        f(&mut *self.ports[port], &mut cx)
    }
}

/// Outcome of a request for a face.
enum Asked {
    /// It exists now, or cannot be made.
    Decided(Box<Creation>),
    /// A connection must be made first. The reply then gets the outcome.
    Later,
    /// No port of this thread can make it.
    NoPort(CreationReply),
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

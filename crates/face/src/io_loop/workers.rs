//! The packet thread's side of the workers: one on the packet thread, or several on threads of their own.
//!
//! With worker threads, the packet thread moves bytes, parses and dispatches. A packet crosses two rings on its way.
//! The packet thread never waits: a full ring drops and counts packets. When a ring is half full, further copies of
//! Data are dropped, and packets beyond a face's equal share (`shares`). Interests that a worker gives back come by a
//! third ring, and go to another worker. News of faces and management commands reach a worker as jobs, in order with
//! the packets in its ring.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use byname_forward::asleep::Asleep;
use byname_forward::dispatch::{Dispatcher, Parcel};
use byname_forward::ring::{Consumer, Producer, ring};
use byname_forward::worker::WorkerCounters;
use byname_forward::{Outgoing, Received, Ticks, Worker};
use byname_lookup::memory::Refused;
use crossbeam_channel::{Sender, unbounded};

use super::shares::Shares;
use super::worker_thread::{Bell, Ends, OutputDrops, WakeAtEnd, WorkerThread};
use super::{Clock, Queue, StartError, pin};
use crate::waker::LoopWaker;

/// Packets taken from one worker in one round.
const OUTPUT_BURST: usize = 256;
/// Jobs that may wait for a worker. With more, the loop takes no packets from ports, so that no new faces come.
const JOBS_MAX: usize = 4096;

/// Work on a worker's thread, between two bursts.
pub(super) type Job = Box<dyn FnOnce(&mut Worker) + Send>;

/// Workers with which a packet thread is started.
pub enum Workers {
    /// One worker, on the packet thread itself.
    Here(Box<Worker>),
    /// Workers on threads of their own, which have joined the dispatcher.
    Threads {
        /// Finds the worker of a packet.
        dispatcher: Box<Dispatcher>,
        /// The workers, as many as the dispatcher has.
        workers: Vec<Worker>,
        /// Packets that fit into each ring.
        ring_packets: usize,
        /// Whether to bind threads to processors, if there are enough of them.
        pin: bool,
    },
}

impl Workers {
    /// All workers.
    pub(super) fn each_mut(&mut self) -> &mut [Worker] {
        match self {
            Workers::Here(worker) => std::slice::from_mut(worker),
            Workers::Threads { workers, .. } => workers,
        }
    }
}

impl From<Worker> for Workers {
    fn from(worker: Worker) -> Self {
        Workers::Here(Box::new(worker))
    }
}

/// State of one worker.
#[derive(Debug, Clone, Default)]
pub struct WorkerStatus {
    /// The worker's own counters.
    pub counters: WorkerCounters,
    /// State of its rings; `None` if it runs on the packet thread.
    pub rings: Option<RingStatus>,
}

/// State of the rings between the packet thread and one worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RingStatus {
    /// Packets that wait for the worker.
    pub input_depth: u64,
    /// Packets dropped on their way to the worker.
    pub input_drops: u64,
    /// Packets that wait for the packet thread.
    pub output_depth: u64,
    /// Packets dropped on their way back.
    pub output_drops: u64,
}

/// Workers of a running packet thread.
pub(super) enum Pool {
    Here(Box<Worker>),
    Threads {
        dispatcher: Box<Dispatcher>,
        links: Vec<Link>,
        /// Interests that workers gave back.
        strays: Vec<Parcel>,
    },
}

/// Parts of the packet thread that worker threads need.
pub(super) struct Surroundings {
    pub clock: Clock,
    /// Time to look for input before sleeping.
    pub spin: Duration,
    pub waker: LoopWaker,
}

/// The packet thread's ends of its queues to one worker.
pub(super) struct Link {
    input: Producer<Parcel>,
    output: Consumer<Outgoing>,
    strays: Consumer<Parcel>,
    /// Jobs, each with the count of packets that come before it.
    jobs: Sender<(u64, Job)>,
    /// Must be dropped after `jobs`: its last ring wakes the thread, which then sees that no more jobs come.
    bell: Bell,
    /// Whether the ring was half full at the last look.
    fills: bool,
    shares: Shares,
    input_drops: u64,
    output_drops: Arc<OutputDrops>,
    thread: JoinHandle<()>,
}

impl Link {
    /// Starts a worker's thread.
    fn start(
        (number, mut worker): (usize, Worker),
        processor: Option<usize>,
        ring_packets: usize,
        surroundings: &Surroundings,
    ) -> Result<Link, StartError> {
        let no_memory = |Refused { bytes }| StartError::Memory { queue: Queue::Rings, bytes };
        let (input, parcels) = ring(ring_packets).map_err(no_memory)?;
        let (outgoing, output) = ring(ring_packets).map_err(no_memory)?;
        let (given_back, strays) = ring(ring_packets).map_err(no_memory)?;
        let (jobs, receiver) = unbounded();
        let output_drops = Arc::<OutputDrops>::default();
        let asleep = Arc::<Asleep>::default();
        let ends = Ends {
            input: parcels,
            output: outgoing,
            strays: given_back,
            jobs: receiver,
            asleep: Arc::clone(&asleep),
            io_waker: surroundings.waker.clone(),
            output_drops: Arc::clone(&output_drops),
        };
        worker.time_stages(surroundings.clock.stopwatch());
        let at_end = WakeAtEnd(surroundings.waker.clone());
        let worker = WorkerThread::new(worker, ends, surroundings.clock, surroundings.spin);
        let thread = std::thread::Builder::new().name(format!("byname-worker{number}")).spawn(move || {
            let _wake = at_end;
            pin::to(processor);
            worker.run();
        });
        let thread = thread.map_err(StartError::System)?;
        let bell = Bell::new(asleep, thread.thread().clone());
        let (fills, shares) = (false, Shares::new(ring_packets));
        Ok(Link { input, output, strays, jobs, bell, fills, shares, input_drops: 0, output_drops, thread })
    }

    /// Checks whether the ring has room. Called once a round, because the worker's count is in the worker's cache.
    fn look(&mut self) {
        self.fills = self.input.is_half_full();
        if !self.fills {
            self.shares.clear();
        }
    }

    fn push(&mut self, parcel: Parcel) {
        // A ring that is half full counts as such until the next round.
        self.fills = self.fills || self.input.is_half_full();
        let has_room = !self.fills || (!parcel.is_further_copy() && self.shares.take(parcel.face()));
        if !has_room || self.input.push(parcel).is_err() {
            self.input_drops += 1;
        }
    }

    fn send(&mut self, job: Job) {
        self.input.publish();
        // The thread is gone only when the forwarder fails, which ends the loop.
        let _ = self.jobs.send((self.input.pushed(), job));
        self.bell.ring();
    }

    fn rings(&mut self) -> RingStatus {
        RingStatus {
            input_depth: self.input.depth() as u64,
            input_drops: self.input_drops,
            output_depth: self.output.available() as u64,
            output_drops: self.output_drops.0.load(Ordering::Relaxed),
        }
    }
}

impl Pool {
    /// Starts the worker threads, if any. Also returns the processor that is left for the packet thread.
    pub fn start(workers: Workers, surroundings: &Surroundings) -> Result<(Pool, Option<usize>), StartError> {
        match workers {
            Workers::Here(mut worker) => {
                worker.time_stages(surroundings.clock.stopwatch());
                Ok((Pool::Here(worker), None))
            }
            Workers::Threads { dispatcher, workers, ring_packets, pin } => {
                assert_eq!(dispatcher.workers(), workers.len());
                let processors = if pin { pin::processors(workers.len() + 1) } else { Vec::new() };
                let start = |(number, worker): (usize, Worker)| {
                    let processor = processors.get(number + 1).copied();
                    Link::start((number, worker), processor, ring_packets, surroundings)
                };
                let links = workers.into_iter().enumerate().map(start).collect::<Result<_, _>>()?;
                Ok((Pool::Threads { dispatcher, links, strays: Vec::new() }, processors.first().copied()))
            }
        }
    }

    /// Number of workers.
    pub fn len(&self) -> usize {
        match self {
            Pool::Here(_) => 1,
            Pool::Threads { links, .. } => links.len(),
        }
    }

    /// Whether the workers have threads of their own.
    pub fn are_threads(&self) -> bool {
        matches!(self, Pool::Threads { .. })
    }

    /// Hands received packets to the workers, and appends their output to `outgoing`. Returns whether there was
    /// anything to do.
    pub fn poll(&mut self, now: Ticks, received: &mut Vec<Received>, outgoing: &mut Vec<Outgoing>) -> bool {
        match self {
            Pool::Here(worker) => {
                let due = worker.next_deadline().is_some_and(|at| at <= now);
                let busy = due || !received.is_empty();
                if busy {
                    worker.poll(now, received, outgoing);
                }
                busy
            }
            Pool::Threads { dispatcher, links, strays } => {
                for link in &mut *links {
                    link.look();
                    link.strays.pop_into(strays, OUTPUT_BURST);
                }
                for stray in strays.drain(..) {
                    dispatcher.dispatch_home(stray, |worker, parcel| links[worker].push(parcel));
                }
                for received in received.drain(..) {
                    dispatcher.dispatch(received, |worker, parcel| links[worker].push(parcel));
                }
                let mut busy = false;
                for link in links {
                    if link.input.publish() {
                        link.bell.ring();
                        busy = true;
                    }
                    busy |= link.output.pop_into(outgoing, OUTPUT_BURST) > 0;
                }
                busy
            }
        }
    }

    /// Whether workers have output.
    pub fn has_output(&mut self) -> bool {
        match self {
            Pool::Here(_) => false,
            Pool::Threads { links, .. } => {
                links.iter_mut().any(|link| link.output.available() > 0 || link.strays.available() > 0)
            }
        }
    }

    /// Time at which [`Pool::poll`] has timer work to do.
    pub fn next_deadline(&self) -> Option<Ticks> {
        match self {
            Pool::Here(worker) => worker.next_deadline(),
            Pool::Threads { .. } => None,
        }
    }

    /// Runs a job on each of these workers, after the packets that the worker has been given so far.
    pub fn each(&mut self, whom: Range<usize>, mut job: impl FnMut(usize) -> Job) {
        match self {
            Pool::Here(worker) => whom.take(1).for_each(|number| job(number)(worker)),
            Pool::Threads { links, .. } => whom.for_each(|number| links[number].send(job(number))),
        }
    }

    /// Whether a worker has too many jobs waiting to be given more packets.
    pub fn is_behind(&self) -> bool {
        match self {
            Pool::Here(_) => false,
            Pool::Threads { links, .. } => links.iter().any(|link| link.jobs.len() > JOBS_MAX),
        }
    }

    /// Whether a worker's thread has failed.
    pub fn has_failed(&self) -> bool {
        match self {
            Pool::Here(_) => false,
            Pool::Threads { links, .. } => links.iter().any(|link| link.input.is_abandoned()),
        }
    }

    /// State of the rings of each worker.
    pub fn rings(&mut self) -> Vec<Option<RingStatus>> {
        match self {
            Pool::Here(_) => vec![None],
            Pool::Threads { links, .. } => links.iter_mut().map(|link| Some(link.rings())).collect(),
        }
    }

    /// Packets dropped outside of workers, by reason.
    pub fn drops(&self) -> Vec<(&'static str, u64)> {
        match self {
            Pool::Here(_) => Vec::new(),
            Pool::Threads { dispatcher, links, .. } => {
                let mut drops = dispatcher.drops().all();
                drops.push(("input-ring-full", links.iter().map(|link| link.input_drops).sum()));
                let output_drops = links.iter().map(|link| link.output_drops.0.load(Ordering::Relaxed)).sum();
                drops.push(("output-ring-full", output_drops));
                drops
            }
        }
    }

    /// Lets the workers finish their packets, and ends their threads. Appends their last output to `outgoing`.
    pub fn end(&mut self, outgoing: &mut Vec<Outgoing>) {
        let Pool::Threads { links, .. } = self else { return };
        for Link { input, jobs, bell, thread, mut output, .. } in links.drain(..) {
            drop((input, jobs, bell));
            if thread.join().is_err() {
                tracing::error!("a worker thread has panicked");
            }
            output.pop_into(outgoing, usize::MAX);
        }
    }
}

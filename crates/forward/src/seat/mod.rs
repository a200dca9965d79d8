//! One forwarding thread's worker, and its ways to the other threads.
//!
//! With one thread there is only the worker. With several, each thread has one shard of PIT and content store. It
//! forwards at once what is at home in its shard. Other packets cross one bounded ring to their home, and what a worker
//! sends crosses another ring to the thread that owns the face. Packets cross in batches, once a round.
//!
//! No thread waits for another: a full ring drops and counts packets. When a ring is half full, further copies of Data
//! are dropped, and packets beyond an equal share of their source (`shares`). News of faces reach other workers as jobs
//! (`News`), in order with the packets of these faces.
//!
//! The threads themselves, their ports and their sleep are the caller's.

mod owners;
mod shares;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::thread::{Builder, ScopedJoinHandle};

use byname_lookup::memory::Refused;
use byname_wire::NameRef;
use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::crossing::{Departure, Handed, Parcel};
use crate::dispatch::{Dispatcher, WORKERS_MAX};
use crate::ring::{Consumer, Producer, ring};
use crate::stages::Stopwatch;
use crate::{FaceId, Outgoing, Received, Ticks, Whereabouts, Worker};

pub use owners::{HELD_MAX, Owners};
use shares::Senders;
#[cfg(not(feature = "lab"))]
use shares::Shares;
#[cfg(feature = "lab")]
pub use shares::Shares;

/// Packets taken from one ring in one round.
pub const BURST: usize = 256;
/// Bytes to prefetch of a packet that another thread sends here. Beyond them, the processor's own prefetcher is faster.
const HEAD_BYTES: usize = 256;
/// News that may wait for a thread. With more, the loop takes no packets from ports, so that no new faces come.
const NEWS_MAX: usize = 4096;

/// Work on a worker between two bursts.
type Job = Box<dyn FnOnce(&mut Worker) + Send>;

/// News from one thread to the worker of another thread.
enum News {
    /// To be done before any later packet.
    AtOnce(Job),
    /// To be done after this many packets of the ring.
    After(u64, Job),
}

/// Workers with which forwarding threads are started: one for each thread.
pub struct Workers {
    workers: Vec<Worker>,
    /// Finds the homes of packets, if there are several workers.
    dispatcher: Option<Box<Dispatcher>>,
    ring_packets: usize,
    pin: bool,
}

impl Workers {
    /// Workers that have joined `dispatcher`, as many as it has. Each ring between two threads has room for
    /// `ring_packets` packets. With `pin`, threads are bound to processors, if there are enough of them.
    ///
    /// # Panics
    /// If there are more or fewer workers than the dispatcher has.
    pub fn new(dispatcher: Dispatcher, workers: Vec<Worker>, ring_packets: usize, pin: bool) -> Self {
        assert_eq!(dispatcher.workers(), workers.len(), "each worker has joined the dispatcher");
        let dispatcher = (workers.len() > 1).then(|| Box::new(dispatcher));
        Workers { workers, dispatcher, ring_packets, pin }
    }

    /// As [`Workers::new`], with workers that `make` makes by their numbers. Each is made and joins on a thread of its own,
    /// at the same time as the others. Most allocators give each thread memory of its own. So no small table of a worker
    /// shares a cache line with one of another worker, whose writes would take it away again and again.
    ///
    /// # Errors
    /// The first error of `make`.
    pub fn make<E: Send>(
        dispatcher: Dispatcher,
        ring_packets: usize,
        pin: bool,
        make: impl Fn(usize) -> Result<Worker, E> + Sync,
    ) -> Result<Self, E> {
        let count = dispatcher.workers();
        let make = |number| {
            let mut worker = make(number)?;
            worker.join(dispatcher.membership(number));
            Ok(worker)
        };
        let made: Vec<Result<Worker, E>> = if count == 1 {
            vec![make(0)]
        } else {
            // A thread that ends leaves its memory to the next one, so none begins before all are there.
            let gate = Mutex::new(());
            std::thread::scope(|scope| {
                let closed = gate.lock();
                let make_at_once = |number| {
                    drop(gate.lock());
                    make(number)
                };
                let spawn = |number| Builder::new().spawn_scoped(scope, move || make_at_once(number));
                let threads: Vec<_> = (0..count).map(spawn).collect();
                drop(closed);
                let finish = |(number, thread): (usize, io::Result<ScopedJoinHandle<'_, _>>)| match thread {
                    Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                    // The system refuses a thread.
                    Err(_) => make(number),
                };
                threads.into_iter().enumerate().map(finish).collect()
            })
        };
        let workers = made.into_iter().collect::<Result<_, E>>()?;
        Ok(Workers::new(dispatcher, workers, ring_packets, pin))
    }

    /// Number of workers, which is the number of threads.
    pub fn len(&self) -> usize {
        self.workers.len()
    }

    /// False: there is always one.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether to bind threads to processors.
    pub fn are_pinned(&self) -> bool {
        self.pin && self.workers.len() > 1
    }

    /// All workers.
    pub fn each_mut(&mut self) -> &mut [Worker] {
        &mut self.workers
    }

    /// Connects the workers.
    ///
    /// # Errors
    /// If the system refuses memory for the rings.
    pub fn seats(self) -> Result<Vec<Seat>, Refused> {
        let Some(dispatcher) = self.dispatcher else {
            let alone = |worker| Seat { number: 0, worker: Box::new(worker), crossing: None };
            return Ok(self.workers.into_iter().map(alone).collect());
        };
        let links = links(self.workers.len(), self.ring_packets)?;
        let seat = |(number, (worker, links)): (usize, (Worker, Vec<Option<Link>>))| {
            let dispatcher = dispatcher.of_thread(number);
            let (parcels, late, departing, senders) = Default::default();
            let crossing = Crossing { dispatcher, links, parcels, late, departing, senders };
            Seat { number, worker: Box::new(worker), crossing: Some(Box::new(crossing)) }
        };
        Ok(self.workers.into_iter().zip(links).enumerate().map(seat).collect())
    }
}

impl From<Worker> for Workers {
    fn from(worker: Worker) -> Self {
        Workers { workers: vec![worker], dispatcher: None, ring_packets: 0, pin: false }
    }
}

/// State of the rings from one thread to all others, and the ways of the packets that it received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RingStatus {
    /// Packets that were at home on the thread that received them.
    pub home: u64,
    /// Packets given to other threads. Further copies of Data count, and Interests for hot names that go on to their
    /// home because this thread could not answer them.
    pub foreign: u64,
    /// Packets taken from other threads.
    pub taken: u64,
    /// Packets that wait for their homes.
    pub input_depth: u64,
    /// Packets dropped on their way to their homes.
    pub input_drops: u64,
    /// Packets that wait for the owners of their faces.
    pub output_depth: u64,
    /// Packets dropped on their way to these.
    pub output_drops: u64,
}

/// A thread's worker, and its ways to the other threads if there are any.
pub struct Seat {
    number: usize,
    /// The worker.
    pub worker: Box<Worker>,
    crossing: Option<Box<Crossing>>,
}

/// A thread's ways to the other threads.
// Aligned, as the shard is.
#[repr(align(128))]
struct Crossing {
    dispatcher: Dispatcher,
    /// By number of the other thread; `None` for itself.
    links: Vec<Option<Link>>,
    /// Packets from other threads for this thread's worker.
    parcels: Vec<Parcel>,
    /// Scratch: packets of this thread that turn out to be for its worker only after they were dispatched.
    late: Vec<Parcel>,
    /// Scratch: packets from other threads to send.
    departing: Vec<Departure>,
    /// The sources of this thread's faces.
    senders: Senders,
}

/// A thread's ends of its queues to and from one other thread.
// Aligned, as the shard is.
#[repr(align(128))]
struct Link {
    /// Packets whose home is there.
    parcels: Producer<Parcel>,
    /// Packets from there, whose home is here.
    arrivals: Consumer<Parcel>,
    /// Packets to send on faces of the other thread.
    output: Producer<Departure>,
    /// Packets from there, to send on faces of this thread.
    departures: Consumer<Departure>,
    tell: Sender<News>,
    news: Receiver<News>,
    /// News that must wait for packets before them, each with the count of these.
    later: VecDeque<(u64, Job)>,
    /// Whether it was given packets or news since the last [`Seat::take_given`].
    given: bool,
    /// Whether the ring of parcels was half full at the last look.
    fills: bool,
    shares: Shares,
    input_drops: u64,
    output_drops: u64,
}

/// Makes the links of all threads: `links[from][to]`.
fn links(threads: usize, ring_packets: usize) -> Result<Vec<Vec<Option<Link>>>, Refused> {
    assert!(threads <= WORKERS_MAX, "at most {WORKERS_MAX} threads");
    let mut links: Vec<Vec<Option<Link>>> = (0..threads).map(|_| (0..threads).map(|_| None).collect()).collect();
    for one in 0..threads {
        for other in one + 1..threads {
            let (there, from_one) = ring(ring_packets)?;
            let (here, from_other) = ring(ring_packets)?;
            let (out_there, out_from_one) = ring(ring_packets)?;
            let (out_here, out_from_other) = ring(ring_packets)?;
            let (tell_there, told_by_one) = unbounded();
            let (tell_here, told_by_other) = unbounded();
            let to_other = (there, from_other, out_there, out_from_other, tell_there, told_by_other);
            let to_one = (here, from_one, out_here, out_from_one, tell_here, told_by_one);
            for (from, to, ends) in [(one, other, to_other), (other, one, to_one)] {
                let (parcels, arrivals, output, departures, tell, news) = ends;
                links[from][to] = Some(Link {
                    parcels,
                    arrivals,
                    output,
                    departures,
                    tell,
                    news,
                    later: VecDeque::new(),
                    given: false,
                    fills: false,
                    shares: Shares::new(ring_packets),
                    input_drops: 0,
                    output_drops: 0,
                });
            }
        }
    }
    Ok(links)
}

impl Seat {
    /// Number of the thread.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.crossing.as_ref().map_or(1, |crossing| crossing.links.len())
    }

    /// The first bytes of the PIT tokens of this router, if it has several threads. A token has six bytes, and the last is
    /// the number of the thread that waits for the answer.
    pub fn token_mark(&self) -> Option<[u8; 4]> {
        self.crossing.as_ref().map(|crossing| crossing.dispatcher.token_mark())
    }

    /// The number of the thread that is the home of a name.
    pub fn home(&self, name: NameRef<'_>) -> usize {
        self.crossing.as_ref().map_or(0, |crossing| crossing.dispatcher.home(name))
    }

    /// Hands received packets to the worker, or to their homes on other threads. Appends to `outgoing` what the worker
    /// sends, and what other workers send on this thread's faces. Returns whether there was anything to do.
    pub fn poll(
        &mut self,
        now: Ticks,
        received: &mut Vec<Received>,
        outgoing: &mut Vec<Outgoing>,
        stopwatch: &mut Stopwatch,
    ) -> bool {
        let worker = &mut self.worker;
        let due = worker.next_deadline().is_some_and(|at| at <= now);
        let Some(crossing) = &mut self.crossing else {
            let busy = due || !received.is_empty();
            if busy {
                worker.poll(now, received, outgoing);
            }
            // The worker times its stages itself.
            stopwatch.skip();
            return busy;
        };
        crossing.collect(worker);
        let busy = due || !received.is_empty() || !crossing.parcels.is_empty() || worker.has_postponed();
        if busy {
            crossing.forward(now, worker, received, outgoing);
            crossing.send_home(now, worker, outgoing);
        }
        let Crossing { links, departing, .. } = &mut **crossing;
        let crossed = links
            .iter_mut()
            .flatten()
            .fold(false, |crossed, link| crossed | link.parcels.publish() | link.take_departures(departing, outgoing));
        stopwatch.skip();
        busy || crossed
    }

    /// Sends a packet to the thread that owns its face, with the next [`Seat::publish_output`].
    pub fn send_to(&mut self, thread: usize, outgoing: &mut Outgoing) {
        let link = self.crossing.as_mut().and_then(|crossing| crossing.links.get_mut(thread)?.as_mut());
        if let Some(link) = link {
            match link.output.append(const { Departure::empty() }) {
                Ok(place) => {
                    place.fill_from(outgoing);
                    link.given = true;
                }
                Err(_) => link.output_drops += 1,
            }
        }
    }

    /// Lets other threads see what is to be sent on their faces.
    pub fn publish_output(&mut self) {
        let Some(crossing) = &mut self.crossing else { return };
        for link in crossing.links.iter_mut().flatten() {
            link.output.publish();
        }
    }

    /// Passes the threads that were given packets or news since the last call to `visit`. They may sleep, and must see
    /// what they were given.
    pub fn take_given(&mut self, mut visit: impl FnMut(usize)) {
        let Some(crossing) = &mut self.crossing else { return };
        for (thread, link) in crossing.links.iter_mut().enumerate() {
            if let Some(link) = link
                && std::mem::take(&mut link.given)
            {
                visit(thread);
            }
        }
    }

    /// Whether other threads have sent something, or packets have waited for this round.
    pub fn has_input(&mut self) -> bool {
        let Some(crossing) = &mut self.crossing else { return false };
        let comes = crossing.links.iter_mut().flatten().any(|link| {
            link.arrivals.available() > 0
                || link.departures.available() > 0
                || !link.news.is_empty()
                || !link.later.is_empty()
        });
        comes || self.worker.has_postponed()
    }

    /// Runs a job on this worker, which by now knows all that other threads told it.
    pub fn ask(&mut self, job: impl FnOnce(&mut Worker)) {
        if let Some(crossing) = &mut self.crossing {
            crossing.links.iter_mut().flatten().for_each(|link| link.listen(&mut self.worker));
        }
        job(&mut self.worker);
    }

    /// Notes a face of this thread, whose peer is at `place`: faces of one source have one share of a ring that fills.
    pub fn enter_face(&mut self, face: FaceId, place: &Whereabouts) {
        if let Some(crossing) = &mut self.crossing {
            crossing.senders.enter(face, place);
        }
    }

    /// Forgets a face that is no longer of this thread.
    pub fn leave_face(&mut self, face: FaceId) {
        if let Some(crossing) = &mut self.crossing {
            crossing.senders.leave(face);
        }
    }

    /// Packets that this thread's worker has handled, at home or from other threads; `None` if it is alone.
    pub fn handled(&self) -> Option<u64> {
        let crossing = self.crossing.as_ref()?;
        let taken = crossing.links.iter().flatten().map(|link| link.arrivals.popped());
        Some(crossing.dispatcher.stayed() + taken.sum::<u64>())
    }

    /// Runs `job` on all workers, before any packet that this thread gives them from now on.
    pub fn tell_all(&mut self, job: impl FnOnce(&mut Worker) + Clone + Send + 'static) {
        self.tell_others(&job, |_, job| News::AtOnce(job));
        job(&mut self.worker);
    }

    /// Runs `job` on all workers, each after the packets that this thread has given it so far.
    pub fn tell_all_after(&mut self, job: impl FnOnce(&mut Worker) + Clone + Send + 'static) {
        self.tell_others(&job, News::After);
        job(&mut self.worker);
    }

    fn tell_others(
        &mut self,
        job: &(impl FnOnce(&mut Worker) + Clone + Send + 'static),
        news: impl Fn(u64, Job) -> News,
    ) {
        let Some(crossing) = &mut self.crossing else { return };
        for link in crossing.links.iter_mut().flatten() {
            link.parcels.publish();
            // The other thread is gone only at the end, or after a failure, which ends all threads.
            let _ = link.tell.send(news(link.parcels.pushed(), Box::new(job.clone())));
            link.given = true;
        }
    }

    /// Whether another thread has too much news waiting to be told of more faces.
    pub fn is_behind(&self) -> bool {
        let links = self.crossing.iter().flat_map(|crossing| crossing.links.iter().flatten());
        links.into_iter().any(|link| link.tell.len() > NEWS_MAX)
    }

    /// Whether another thread has ended.
    pub fn is_deserted(&self) -> bool {
        let links = self.crossing.iter().flat_map(|crossing| crossing.links.iter().flatten());
        links.into_iter().any(|link| link.parcels.is_abandoned())
    }

    /// State of the rings to other threads.
    pub fn rings(&mut self) -> Option<RingStatus> {
        let crossing = self.crossing.as_mut()?;
        let ways = RingStatus { home: crossing.dispatcher.stayed(), ..RingStatus::default() };
        Some(crossing.links.iter_mut().flatten().fold(ways, |all, link| RingStatus {
            home: all.home,
            foreign: all.foreign + link.parcels.pushed(),
            taken: all.taken + link.arrivals.popped(),
            input_depth: all.input_depth + link.parcels.depth() as u64,
            input_drops: all.input_drops + link.input_drops,
            output_depth: all.output_depth + link.output.depth() as u64,
            output_drops: all.output_drops + link.output_drops,
        }))
    }

    /// Packets dropped before and behind the worker, by reason.
    pub fn drops(&self) -> Vec<(&'static str, u64)> {
        let Some(crossing) = &self.crossing else { return Vec::new() };
        let mut drops = crossing.dispatcher.drops().all();
        let links = || crossing.links.iter().flatten();
        drops.push(("input-ring-full", links().map(|link| link.input_drops).sum()));
        drops.push(("output-ring-full", links().map(|link| link.output_drops).sum()));
        drops
    }
}

impl Crossing {
    /// Takes news and packets from the other threads.
    fn collect(&mut self, worker: &mut Worker) {
        for link in self.links.iter_mut().flatten() {
            link.look();
            // News that come before one of these packets are in the channel by now.
            let available = link.arrivals.available();
            link.listen(worker);
            let packets_max = link.do_due(worker).min(available).min(BURST);
            link.arrivals.pop_into(&mut self.parcels, packets_max);
        }
    }

    /// Handles the packets whose home is here, from other threads and from this thread's ports. Gives the other packets
    /// to their homes.
    fn forward(&mut self, now: Ticks, worker: &mut Worker, received: &mut Vec<Received>, outgoing: &mut Vec<Outgoing>) {
        let Crossing { dispatcher, links, parcels, late, senders, .. } = self;
        let send = |home: usize, handed: Handed<'_>| match links[home].as_mut() {
            Some(link) => link.push(handed, senders),
            None => late.push(handed.into()),
        };
        worker.poll_and_dispatch(now, dispatcher, parcels, received, send, outgoing);
    }

    /// Sends Interests home that this worker could not answer, and handles what came back to it.
    fn send_home(&mut self, now: Ticks, worker: &mut Worker, outgoing: &mut Vec<Outgoing>) {
        let Crossing { dispatcher, links, late, senders, .. } = self;
        for stray in worker.strays() {
            dispatcher.dispatch_home(stray, |home, parcel| match links[home].as_mut() {
                Some(link) => link.push_home(parcel, senders),
                None => late.push(parcel),
            });
        }
        if !late.is_empty() {
            // These are at home, so none of them strays again.
            worker.poll_late_parcels(now, late, outgoing);
        }
    }
}

impl Link {
    /// Checks whether the ring has room. Called once a round, because the other thread's count is in that thread's
    /// cache.
    fn look(&mut self) {
        self.fills = self.parcels.is_half_full();
        if !self.fills {
            self.shares.clear();
        }
    }

    #[inline]
    fn push(&mut self, handed: Handed<'_>, senders: &Senders) {
        let has_room = self.has_room(handed.received.face, handed.parsed.is_further_copy(), senders);
        let place = if has_room { self.parcels.append(const { Parcel::empty() }).ok() } else { None };
        match place {
            Some(parcel) => {
                handed.fill(parcel);
                self.given = true;
            }
            None => self.input_drops += 1,
        }
    }

    /// As [`Link::push`], for an Interest that another worker could not answer.
    fn push_home(&mut self, parcel: Parcel, senders: &Senders) {
        match self.has_room(parcel.face(), false, senders) && self.parcels.push(parcel).is_ok() {
            true => self.given = true,
            false => self.input_drops += 1,
        }
    }

    /// Whether a packet from this face may go in, if the ring is not full. If so, the packet counts.
    #[inline]
    fn has_room(&mut self, face: FaceId, is_further_copy: bool, senders: &Senders) -> bool {
        // A ring that is half full counts as such until the next round.
        self.fills = self.fills || self.parcels.is_half_full();
        !self.fills || (!is_further_copy && self.shares.take(senders.source_of(face), face))
    }

    /// Appends to `outgoing` what the other thread sends on this thread's faces. Returns whether there was something.
    fn take_departures(&mut self, departing: &mut Vec<Departure>, outgoing: &mut Vec<Outgoing>) -> bool {
        let taken = self.departures.pop_into(departing, BURST);
        for departure in &mut *departing {
            departure.prefetch(HEAD_BYTES);
            departure.append_to(outgoing);
        }
        departing.clear();
        taken > 0
    }

    /// Takes all news. Does those that need not wait for packets.
    fn listen(&mut self, worker: &mut Worker) {
        // Mostly there are none, and taking one waits for all stores of this thread, whether or not there is one.
        if self.news.is_empty() {
            return;
        }
        for news in self.news.try_iter() {
            match news {
                News::AtOnce(job) => job(worker),
                News::After(packets, job) => self.later.push_back((packets, job)),
            }
        }
    }

    /// Does the news that are due. Returns how many packets may be taken before the next.
    fn do_due(&mut self, worker: &mut Worker) -> usize {
        while let Some((after, _)) = self.later.front() {
            let before = after.saturating_sub(self.arrivals.popped());
            if before > 0 {
                return usize::try_from(before).unwrap_or(usize::MAX);
            }
            if let Some((_, job)) = self.later.pop_front() {
                job(worker);
            }
        }
        usize::MAX
    }
}

/// The thread that made a face, and owns it unless it has moved ([`Owners`]). The threads number their faces so that
/// none of them needs to ask another.
#[inline]
pub fn owner(face: FaceId, threads: usize) -> usize {
    if threads == 1 { 0 } else { face.0.checked_sub(FaceId::FIRST.0).map_or(0, |n| (n % threads as u64) as usize) }
}

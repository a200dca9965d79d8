//! Workers on simulated cores: each core has a queue and takes a fixed time per packet.
//!
//! Interests come at random moments (a Poisson process), at a rate that gives the cores the wanted load. Data comes one
//! round trip after its Interest left. The handling of packets is real: the dispatchers and the workers process each
//! packet when its simulated turn comes. A core takes equally long for a hit and a miss, and bursts are not simulated:
//! the experiment compares only how the work is shared out.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use byname_forward::dispatch::{Dispatcher, Parcel};
use byname_forward::face_table::{LinkType, Scope};
use byname_forward::seat::owner;
use byname_forward::worker::{Worker, WorkerCounters};
use byname_forward::{FaceId, LinkFields, Outgoing, Received, Ticks};
use byname_wire::PitToken;
use hdrhistogram::Histogram;

use super::Options;
use super::record::{Cores, Record, extremes};
use super::traffic::{Packets, popularity, workers};
use crate::workload::{Popularity, Random};

const PRODUCER: FaceId = FaceId(256);
/// Faces that send Interests, in turn. There are fewer faces than a PIT entry can record.
const CONSUMERS: std::ops::Range<u64> = 257..457;
/// After this many Interests, their rate is adapted to the current share of misses.
const RATE_EVERY: u64 = 1024;
/// Waiting times are recorded up to this value.
const WAIT_NS_MAX: u64 = 1_000_000_000;

/// A core with its worker.
struct Core {
    worker: Worker,
    /// Waiting packets, each with its time of arrival.
    queue: VecDeque<(u64, Parcel)>,
    /// Time at which the core finishes its current packet.
    free_at: u64,
    /// Whether the core is working or has a turn scheduled.
    is_busy: bool,
    served: u64,
    lost: u64,
}

/// Simulates the wanted number of Interests twice. The first half warms up, and the second half is recorded.
pub fn measure(options: &Options, exponent: f64, heavy_hitters: bool) -> anyhow::Result<Record> {
    let mut run = Run::new(options, exponent, heavy_hitters)?;
    run.run(options.interests);
    let before = run.counters();
    run.cores.iter_mut().for_each(|core| (core.served, core.lost) = (0, 0));
    run.waits.reset();
    run.run(options.interests);
    let after = run.counters();
    let packets: Vec<u64> = run.cores.iter().map(|core| core.served + core.lost).collect();
    let (busiest_to_mean, idlest_to_mean) = extremes(&packets);
    let of_interests = |count: u64| count as f64 / options.interests as f64;
    let lost_of = |lost: u64, packets: u64| lost as f64 / packets.max(1) as f64;
    let spread = after.spread_interests - before.spread_interests;
    Ok(Record {
        cores: Cores::Simulated,
        workers: options.cores,
        heavy_hitters,
        exponent,
        names: options.names,
        cs: options.cs,
        interests: options.interests,
        load: Some(options.load),
        service_ns: Some(options.service_ns),
        seed: options.seed,
        busiest_to_mean,
        idlest_to_mean,
        cs_hits: of_interests(after.cs.hits - before.cs.hits),
        spread: of_interests(spread),
        strays: spread - (after.spread_hits - before.spread_hits),
        hot_names: after.hot_names,
        wait_ns_mean: Some(run.waits.mean()),
        wait_ns_p99: Some(run.waits.value_at_quantile(0.99) as f64),
        lost: lost_of(run.cores.iter().map(|core| core.lost).sum(), packets.iter().sum()),
        lost_of_worst: run.cores.iter().zip(&packets).map(|(core, all)| lost_of(core.lost, *all)).fold(0.0, f64::max),
        packets,
        interests_per_s: None,
        dispatch_ns: None,
        worker_ns: None,
    })
}

struct Run<'a> {
    options: &'a Options,
    /// The dispatcher of each core, for the faces that the core owns.
    dispatchers: Vec<Dispatcher>,
    cores: Vec<Core>,
    packets: Packets,
    popularity: Popularity,
    random: Random,
    /// Times at which cores begin with their next packets.
    turns: BinaryHeap<Reverse<(u64, usize)>>,
    /// Data under way: time of arrival, name and PIT token. The queue is in order of time, because every round trip
    /// takes equally long.
    answers: VecDeque<(u64, u64, PitToken)>,
    next_interest: u64,
    asked: u64,
    answered: u64,
    /// Moving average of Data packets per Interest.
    answers_per_interest: f64,
    waits: Histogram<u64>,
    output: Vec<Outgoing>,
}

impl<'a> Run<'a> {
    fn new(options: &'a Options, exponent: f64, heavy_hitters: bool) -> anyhow::Result<Self> {
        let (dispatcher, mut workers) = workers(options, options.cores, heavy_hitters, PRODUCER);
        for worker in &mut workers {
            for face in CONSUMERS.map(FaceId).chain([PRODUCER]) {
                worker.face_up(face, Scope::NonLocal, LinkType::PointToPoint);
            }
        }
        let core = |worker| Core { worker, queue: VecDeque::new(), free_at: 0, is_busy: false, served: 0, lost: 0 };
        Ok(Run {
            options,
            dispatchers: (0..options.cores).map(|core| dispatcher.of_thread(core)).collect(),
            cores: workers.into_iter().map(core).collect(),
            packets: Packets::new(),
            popularity: popularity(options, exponent, 0)?,
            random: Random::of(options.seed, 1),
            turns: BinaryHeap::new(),
            answers: VecDeque::new(),
            next_interest: 0,
            asked: 0,
            answered: 0,
            answers_per_interest: 1.0,
            waits: Histogram::new_with_bounds(1, WAIT_NS_MAX, 3).expect("these bounds are allowed"),
            output: Vec::new(),
        })
    }

    fn counters(&self) -> WorkerCounters {
        let mut all = WorkerCounters::default();
        self.cores.iter().for_each(|core| all.add(&core.worker.counters()));
        all
    }

    /// Simulates until `interests` more Interests have come.
    fn run(&mut self, interests: u64) {
        let end = self.asked + interests;
        while self.asked < end {
            let turn = self.turns.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
            let answer = self.answers.front().map_or(u64::MAX, |(at, ..)| *at);
            if turn <= answer.min(self.next_interest) {
                if let Some(Reverse((now, core))) = self.turns.pop() {
                    self.work(now, core);
                }
            } else if answer <= self.next_interest {
                if let Some((now, name, pit_token)) = self.answers.pop_front() {
                    self.answered += 1;
                    let fields = LinkFields { pit_token, ..LinkFields::default() };
                    self.arrive(now, Received { face: PRODUCER, fields, packet: self.packets.data(name) });
                }
            } else {
                self.ask(self.next_interest);
            }
        }
    }

    fn ask(&mut self, now: u64) {
        let face = FaceId(CONSUMERS.start + self.asked % (CONSUMERS.end - CONSUMERS.start));
        let packet = self.packets.interest(self.popularity.draw(), self.asked as u32);
        self.asked += 1;
        if self.asked.is_multiple_of(RATE_EVERY) {
            let lately = self.answered as f64 / RATE_EVERY as f64;
            self.answered = 0;
            self.answers_per_interest += (lately - self.answers_per_interest) / 16.0;
        }
        // Every answer is work for a core, too.
        let work_ns = self.options.service_ns as f64 * (1.0 + self.answers_per_interest);
        let mean_ns = work_ns / (self.options.load * self.cores.len() as f64);
        self.next_interest = now + (-(1.0 - self.random.unit()).ln() * mean_ns) as u64;
        self.arrive(now, Received { face, fields: LinkFields::default(), packet });
    }

    fn arrive(&mut self, now: u64, received: Received) {
        let owner = owner(received.face, self.cores.len());
        let (cores, turns, ring) = (&mut self.cores, &mut self.turns, self.options.ring);
        self.dispatchers[owner].dispatch(received, |core, parcel| cores[core].take(core, now, parcel, ring, turns));
    }

    /// Lets a core handle its next packet.
    fn work(&mut self, now: u64, number: usize) {
        let core = &mut self.cores[number];
        let Some((came, parcel)) = core.queue.pop_front() else { return };
        self.waits.saturating_record(now.saturating_sub(came).max(1));
        core.worker.poll_parcels(Ticks(now), &mut vec![parcel], &mut self.output);
        core.served += 1;
        let done = now + self.options.service_ns;
        core.free_at = done;
        core.is_busy = !core.queue.is_empty();
        if core.is_busy {
            self.turns.push(Reverse((done, number)));
        }
        let strays: Vec<Parcel> = core.worker.strays().collect();
        for stray in strays {
            let (cores, turns, ring) = (&mut self.cores, &mut self.turns, self.options.ring);
            self.dispatchers[number]
                .dispatch_home(stray, |core, parcel| cores[core].take(core, done, parcel, ring, turns));
        }
        let answer_at = done + self.options.rtt_us * 1000;
        for sent in self.output.drain(..).filter(|sent| sent.face == PRODUCER) {
            self.answers.push_back((answer_at, self.packets.name_of(&sent.packet), sent.fields.pit_token));
        }
    }
}

impl Core {
    /// Enqueues a packet, or counts it as lost when the queue is full.
    fn take(
        &mut self,
        number: usize,
        now: u64,
        parcel: Parcel,
        ring: usize,
        turns: &mut BinaryHeap<Reverse<(u64, usize)>>,
    ) {
        if self.queue.len() >= ring {
            self.lost += 1;
            return;
        }
        self.queue.push_back((now, parcel));
        if !self.is_busy {
            self.is_busy = true;
            turns.push(Reverse((now.max(self.free_at), number)));
        }
    }
}

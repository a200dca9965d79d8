//! Cores with the router's own dispatchers and workers, and the rings between them.
//!
//! A core works in rounds, as a packet thread does. It takes a burst from each ring and from its port, gives packets to
//! their homes, forwards what is at home, and sends. The handling of packets is real. The time of a round is the sum of
//! the costs of all steps. Other cores see what a round gave them when it has ended.

use std::collections::VecDeque;

use byname_forward::crossing::Parcel;
use byname_forward::dispatch::Dispatcher;
use byname_forward::face_table::{LinkType, Scope};
use byname_forward::seat::{BURST, owner};
use byname_forward::worker::{Worker, WorkerCounters};
use byname_forward::{FaceId, Outgoing, Received, Ticks};
use hdrhistogram::Histogram;

use super::costs::{Costs, Moving};
use super::queue::{Gate, Queue};

/// Times are recorded up to this value.
pub const TIME_NS_MAX: u64 = 10_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Interest,
    Data,
}

/// A packet that waits for a worker.
struct Waiting {
    packet: Form,
    kind: Kind,
    /// When its port got it.
    came: u64,
}

enum Form {
    /// For a worker that is alone.
    Received(Received),
    /// Boxed, because it is large.
    Parcel(Box<Parcel>),
}

/// Counts of one core.
#[derive(Default, Clone, Copy)]
pub struct Counts {
    /// Packets that the worker handled.
    pub handled: u64,
    /// Packets for this worker that were dropped because a ring or a port was full.
    pub lost: u64,
    /// Time of all rounds.
    pub busy_ns: u64,
}

/// Counts of all cores since the start.
#[derive(Default, Clone, Copy)]
pub struct Totals {
    /// Packets that ports took.
    accepted: u64,
    /// Packets that ports dropped.
    pub port_drops: u64,
    /// Packets dropped on the way to their homes.
    pub input_drops: u64,
    /// Packets dropped on the way to the owners of their faces.
    pub output_drops: u64,
    /// Packets that workers handled, and those that they sent.
    handled: u64,
    produced: u64,
    /// Interests for hot names that were sent home.
    pub strays: u64,
    /// Packets that were pushed to another core, to their homes or to the owners of their faces.
    pub crossed: u64,
    sent: u64,
}

struct Core {
    worker: Worker,
    /// Finds the homes of packets; `None` if the core is alone.
    dispatcher: Option<Dispatcher>,
    /// Packets in the port.
    port: VecDeque<Waiting>,
    /// By number of the other core.
    gates: Vec<Gate>,
    /// When the round in progress ends, or the last one ended.
    free_at: u64,
    /// The next round.
    turn_at: Option<u64>,
    /// Number of rounds so far.
    rounds: u64,
    /// Cores whose rings to this core may have something: a bit for each.
    givers: u64,
    /// Cores that were given something in the round in progress.
    given: u64,
    counts: Counts,
}

/// All cores.
pub struct Router {
    cores: Vec<Core>,
    costs: Costs,
    spreads: bool,
    burst: usize,
    capacity: usize,
    /// Faces from this one on lead to producers.
    producers_from: FaceId,
    /// `[from * cores + to]`: packets for their homes.
    inputs: Vec<Queue<Waiting>>,
    /// The same for packets to send.
    outputs: Vec<Queue<Outgoing>>,
    pub totals: Totals,
    /// Time from the port to the beginning of the round of the worker.
    pub waits: Histogram<u64>,
    /// Scratch: packets for this worker, what workers send, and what ports send.
    batch: VecDeque<Waiting>,
    outgoing: Vec<Outgoing>,
    sent: Vec<Outgoing>,
}

/// Sizes of rings and bursts, in packets, and times.
pub struct Sizes {
    pub burst: usize,
    pub ring: usize,
    pub costs: Costs,
    pub spreads: bool,
}

impl Router {
    /// Cores with these workers. The faces before `producers_from` lead to consumers, and all others to producers.
    pub fn new(
        dispatcher: &Dispatcher,
        workers: Vec<Worker>,
        faces: std::ops::Range<u64>,
        producers_from: FaceId,
        sizes: &Sizes,
    ) -> Self {
        let count = workers.len();
        let core = |(number, mut worker): (usize, Worker)| {
            faces.clone().for_each(|face| worker.face_up(FaceId(face), Scope::NonLocal, LinkType::PointToPoint));
            Core {
                worker,
                dispatcher: (count > 1).then(|| dispatcher.of_thread(number)),
                port: VecDeque::new(),
                gates: (0..count).map(|_| Gate::new(sizes.ring)).collect(),
                free_at: 0,
                turn_at: None,
                rounds: 0,
                givers: 0,
                given: 0,
                counts: Counts::default(),
            }
        };
        Router {
            cores: workers.into_iter().enumerate().map(core).collect(),
            costs: sizes.costs,
            spreads: sizes.spreads,
            burst: sizes.burst,
            capacity: sizes.ring,
            producers_from,
            inputs: (0..count * count).map(|_| Queue::new(sizes.ring)).collect(),
            outputs: (0..count * count).map(|_| Queue::new(sizes.ring)).collect(),
            totals: Totals::default(),
            waits: Histogram::new_with_bounds(1, TIME_NS_MAX, 3).expect("these bounds are allowed"),
            batch: VecDeque::new(),
            outgoing: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// Number of cores.
    pub fn len(&self) -> usize {
        self.cores.len()
    }

    pub fn counts(&self) -> impl Iterator<Item = Counts> {
        self.cores.iter().map(|core| core.counts)
    }

    /// Starts the counts of cores and the recorded times anew.
    pub fn reset_counts(&mut self) {
        self.cores.iter_mut().for_each(|core| core.counts = Counts::default());
        self.inputs.iter_mut().for_each(|queue| queue.depth_max = queue.depth());
        self.waits.reset();
    }

    pub fn worker_counters(&self) -> WorkerCounters {
        let mut all = WorkerCounters::default();
        self.cores.iter().for_each(|core| all.add(&core.worker.counters()));
        all
    }

    /// Largest number of packets in a ring.
    pub fn depth_max(&self) -> usize {
        self.inputs.iter().map(|queue| queue.depth_max).max().unwrap_or_default()
    }

    /// Whether no packet is lost or doubled between port and worker, nor between worker and port.
    pub fn is_balanced(&self) -> bool {
        let t = &self.totals;
        let in_ports: u64 = self.cores.iter().map(|core| core.port.len() as u64).sum();
        let inside: u64 = self.inputs.iter().map(|queue| queue.depth() as u64).sum();
        let leaving: u64 = self.outputs.iter().map(|queue| queue.depth() as u64).sum();
        t.accepted + t.strays == t.handled + t.input_drops + in_ports + inside
            && t.produced == t.sent + t.output_drops + leaving
    }

    /// A packet comes to the core that owns its face. Returns that core's next round, if this changes it.
    pub fn arrive(&mut self, now: u64, kind: Kind, received: Received) -> Option<(u64, usize)> {
        let here = owner(received.face, self.len());
        let core = &mut self.cores[here];
        if core.port.len() >= self.capacity {
            self.totals.port_drops += 1;
            core.counts.lost += 1;
            return None;
        }
        self.totals.accepted += 1;
        core.port.push_back(Waiting { packet: Form::Received(received), kind, came: now });
        self.wake(here, now).map(|at| (at, here))
    }

    /// A round of a core. Returns its end, and what ports send then; `turns` gets the next rounds that this changes.
    /// Nothing happens if the round was moved to an earlier time.
    pub fn round(&mut self, now: u64, here: usize, turns: &mut Vec<(u64, usize)>) -> Option<(u64, Vec<Outgoing>)> {
        if self.cores[here].turn_at != Some(now) {
            return None;
        }
        self.cores[here].turn_at = None;
        self.cores[here].rounds += 1;
        let others = self.len() - 1;
        let mut spent = self.costs.round_ns + others as f64 * self.costs.rings_ns;
        spent += self.take_arrivals(now, here);
        spent += self.take_from_port(here);
        spent += self.forward_all(now, here);
        spent += self.send_all(now, here);
        let end = now + spent.round() as u64;
        self.cores[here].free_at = end;
        self.cores[here].counts.busy_ns += end - now;
        for to in ones(std::mem::take(&mut self.cores[here].given)) {
            let ring = here * self.len() + to;
            self.inputs[ring].publish(end);
            self.outputs[ring].publish(end);
            self.cores[to].givers |= 1 << here;
            if let Some(at) = self.wake(to, end) {
                turns.push((at, to));
            }
        }
        self.forget_givers(here);
        if let Some(next) = self.next_input(here)
            && let Some(at) = self.wake(here, next)
        {
            turns.push((at, here));
        }
        Some((end, std::mem::take(&mut self.sent)))
    }

    /// Plans a round for a core that has input at `at`, unless it has an earlier one.
    fn wake(&mut self, number: usize, at: u64) -> Option<u64> {
        let core = &mut self.cores[number];
        let at = at.max(core.free_at);
        let is_new = core.turn_at.is_none_or(|turn| turn > at);
        is_new.then(|| core.turn_at = Some(at)).map(|()| at)
    }

    /// When this core has input, if it has some.
    fn next_input(&self, here: usize) -> Option<u64> {
        let count = self.len();
        let of_port = self.cores[here].port.front().map(|waiting| waiting.came);
        let rings = ones(self.cores[here].givers).map(|from| from * count + here);
        let of_rings = rings.flat_map(|ring| [self.inputs[ring].next_at(), self.outputs[ring].next_at()]);
        of_rings.flatten().chain(of_port).min()
    }

    /// Forgets the cores whose rings to this core are empty.
    fn forget_givers(&mut self, here: usize) {
        let count = self.len();
        for from in ones(self.cores[here].givers) {
            let ring = from * count + here;
            if self.inputs[ring].depth() + self.outputs[ring].depth() == 0 {
                self.cores[here].givers &= !(1 << from);
            }
        }
    }

    fn moving(&self, kind: Kind) -> &Moving {
        match kind {
            Kind::Interest => &self.costs.interest,
            Kind::Data => &self.costs.data,
        }
    }

    fn kind_of(&self, outgoing: &Outgoing) -> Kind {
        if outgoing.face >= self.producers_from { Kind::Interest } else { Kind::Data }
    }

    /// Takes packets from the rings of other cores. Returns the time.
    fn take_arrivals(&mut self, now: u64, here: usize) -> f64 {
        let (count, mut spent) = (self.len(), 0.0);
        for from in ones(self.cores[here].givers) {
            for _ in 0..BURST {
                let Some(waiting) = self.inputs[from * count + here].pop(now) else { break };
                spent += self.moving(waiting.kind).take_ns;
                self.batch.push_back(waiting);
            }
        }
        spent
    }

    /// Takes a burst from the port, and gives each packet to its home.
    fn take_from_port(&mut self, here: usize) -> f64 {
        let (count, mut spent) = (self.len(), 0.0);
        for _ in 0..self.burst {
            let Some(waiting) = self.cores[here].port.pop_front() else { break };
            let moving = *self.moving(waiting.kind);
            spent += moving.receive_ns;
            if count == 1 {
                self.batch.push_back(waiting);
                continue;
            }
            let is_counted = self.spreads && waiting.kind == Kind::Interest;
            spent += if is_counted { self.costs.count_ns } else { 0.0 };
            spent += self.give(here, waiting, moving.give_ns);
        }
        spent
    }

    /// Gives a packet to its home; keeps those that are at home here.
    fn give(&mut self, here: usize, waiting: Waiting, give_ns: f64) -> f64 {
        let Waiting { packet, kind, came } = waiting;
        let count = self.len();
        let Router { cores, inputs, batch, totals, .. } = self;
        let mut lost_of = None;
        let mut spent = 0.0;
        let Core { dispatcher, gates, rounds, given, .. } = &mut cores[here];
        let dispatcher = dispatcher.as_mut().expect("there are several cores");
        let hand_over = |home: usize, parcel: Parcel| {
            let (face, is_further_copy) = (parcel.face(), parcel.is_further_copy());
            let waiting = Waiting { packet: Form::Parcel(Box::new(parcel)), kind, came };
            if home == here {
                return batch.push_back(waiting);
            }
            spent += give_ns;
            let ring = &mut inputs[here * count + home];
            match gates[home].push(*rounds, ring, face, is_further_copy, waiting) {
                true => (totals.crossed, *given) = (totals.crossed + 1, *given | 1 << home),
                false => lost_of = Some(home),
            }
        };
        match packet {
            Form::Received(received) => dispatcher.dispatch(received, hand_over),
            Form::Parcel(stray) => dispatcher.dispatch_home(*stray, hand_over),
        }
        if let Some(home) = lost_of {
            totals.input_drops += 1;
            cores[home].counts.lost += 1;
        }
        spent
    }

    /// Forwards all packets that are at home here.
    fn forward_all(&mut self, now: u64, here: usize) -> f64 {
        let mut spent = 0.0;
        while let Some(waiting) = self.batch.pop_front() {
            self.waits.saturating_record(now.saturating_sub(waiting.came).max(1));
            let came = waiting.came;
            spent += self.forward(now, here, waiting);
            let strays: Vec<Parcel> = self.cores[here].worker.strays().collect();
            for stray in strays {
                self.totals.strays += 1;
                let waiting = Waiting { packet: Form::Parcel(Box::new(stray)), kind: Kind::Interest, came };
                spent += self.give(here, waiting, self.costs.interest.give_ns);
            }
        }
        spent
    }

    /// Lets the worker handle one packet. Its output shows the kind of work.
    fn forward(&mut self, now: u64, here: usize, waiting: Waiting) -> f64 {
        let before = self.outgoing.len();
        let core = &mut self.cores[here];
        core.counts.handled += 1;
        self.totals.handled += 1;
        let is_alone = core.dispatcher.is_none();
        let mut is_spread = false;
        match waiting.packet {
            Form::Received(received) => core.worker.poll(Ticks(now), &mut vec![received], &mut self.outgoing),
            Form::Parcel(parcel) => {
                is_spread = parcel.is_spread();
                core.worker.poll_parcels(Ticks(now), &mut vec![*parcel], &mut self.outgoing);
            }
        }
        let answers = &self.outgoing[before..];
        self.totals.produced += answers.len() as u64;
        let costs = if is_alone { &self.costs.alone } else { &self.costs.joined };
        match (waiting.kind, answers.first().map(|first| self.kind_of(first))) {
            (Kind::Data, _) => costs.data_ns,
            (Kind::Interest, Some(Kind::Interest)) => costs.new_ns,
            (Kind::Interest, Some(Kind::Data)) if is_spread => costs.hot_hit_ns,
            (Kind::Interest, Some(Kind::Data)) => costs.hit_ns,
            (Kind::Interest, None) => costs.pending_ns,
        }
    }

    /// Sends what the worker sends, and what other workers send on this core's faces.
    fn send_all(&mut self, now: u64, here: usize) -> f64 {
        let (count, mut spent) = (self.len(), 0.0);
        for from in ones(self.cores[here].givers) {
            for _ in 0..BURST {
                let Some(outgoing) = self.outputs[from * count + here].pop(now) else { break };
                let moving = self.moving(self.kind_of(&outgoing));
                spent += moving.pop_output_ns + moving.send_ns;
                self.sent.push(outgoing);
            }
        }
        for outgoing in std::mem::take(&mut self.outgoing) {
            let moving = *self.moving(self.kind_of(&outgoing));
            let to = owner(outgoing.face, count);
            if to == here {
                spent += moving.send_ns;
                self.sent.push(outgoing);
                continue;
            }
            spent += moving.push_output_ns;
            match self.outputs[here * count + to].push(outgoing) {
                true => {
                    self.totals.crossed += 1;
                    self.cores[here].given |= 1 << to;
                }
                false => self.totals.output_drops += 1,
            }
        }
        self.totals.sent += self.sent.len() as u64;
        spent
    }
}

/// The numbers of the bits that are set.
fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let first = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(first)
    })
}

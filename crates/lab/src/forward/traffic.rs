//! One thread's worker between its consumers and its producer. The thread also does the port's work.
//!
//! Writing packets to the port's memory, and checking the Data that came, is not timed. Each outgoing packet is read
//! where its name ends, as a port would read it, and that is timed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byname_forward::face_table::FaceMap;
use byname_forward::seat::{Seat, owner};
use byname_forward::stages::{self, Stage, StageTimes, Stopwatch};
use byname_forward::worker::Worker;
use byname_forward::{FaceId, Outgoing, Packet, Received, Ticks};

use super::consumers::{Asked, Consumers, face};
use super::lockstep::{Lockstep, Stopper};
use super::options::{Mix, Options};
use super::packets::{Frames, Packets};
use super::post::Post;

/// Number of packets that are timed together. During a turn, up to this many more Interests are pending.
pub const TURN: u64 = 1024;
/// Time for which an Interest is pending, in the worker's time.
const WAIT: Duration = Duration::from_millis(400);
/// The worker's time between two packets if names repeat.
const POPULAR_STEP: Duration = Duration::from_nanos(500);
/// Numbers of ordinary packets are below this one.
pub const OTHERS_FROM: u64 = 1 << 40;
/// Events that are taken in a turn, if packets are traced: those of one answer to a reader.
const EVENTS_PER_TURN: usize = 32;
/// Lifetime of an Interest.
pub const LIFETIME_MS: u64 = 4000;

/// A PIT token as several workers make it, as a word and the number of its bytes; a single worker makes none.
type Token = Option<(u64, u8)>;

/// An Interest that a producer has not answered yet.
struct Waiting {
    number: u64,
    /// The producer's face.
    face: FaceId,
    token: Token,
}

/// The face and the token with which a frame comes.
struct Origin {
    face: FaceId,
    token: Token,
}

/// The result of one turn.
pub struct Turn {
    /// Number of timed packets that the port received.
    pub packets: u64,
    /// Number of Data packets that came to consumers, timed or not.
    pub arrived: u64,
    /// Time of the timed packets.
    pub time: Duration,
    /// Times of their stages, after [`Traffic::time_stages`].
    pub stages: StageTimes,
}

/// Traffic of one thread.
// Aligned: it shares no pair of cache lines with that of another thread.
#[repr(align(128))]
pub struct Traffic<'a> {
    packets: &'a Packets,
    seat: Seat,
    /// Faces of other threads on which this one sends.
    borrowed: FaceMap<()>,
    post: Post,
    lockstep: Arc<Lockstep>,
    /// Time of all that was timed.
    clock: Duration,
    burst: u64,
    consumers: Consumers,
    /// Number of Interests that the producer leaves waiting.
    pending: u64,
    /// Number of Data packets that the producer sent.
    answered: u64,
    /// Interests for the producer.
    waiting: VecDeque<Waiting>,
    now: Ticks,
    /// The worker's time between two packets.
    step: Duration,
    /// Packets that the port will receive.
    frames: Frames,
    origins: VecDeque<Origin>,
    input: Vec<Received>,
    output: Vec<Outgoing>,
    /// Times the stages outside the worker.
    stopwatch: Stopwatch,
    times_stages: bool,
    /// The watch that is read in each turn, if there is one.
    watch: Option<u64>,
}

impl<'a> Traffic<'a> {
    /// The traffic of a seat whose worker knows all faces. A burst has `burst` packets.
    pub fn new(
        options: &Options,
        packets: &'a Packets,
        seat: Seat,
        post: Post,
        lockstep: Arc<Lockstep>,
        burst: usize,
    ) -> anyhow::Result<Self> {
        Ok(Traffic {
            packets,
            consumers: Consumers::new(options, packets, seat.number())?,
            seat,
            borrowed: FaceMap::default(),
            post,
            lockstep,
            clock: Duration::ZERO,
            burst: burst as u64,
            pending: if options.zipf.is_some() { 0 } else { options.pit },
            answered: 0,
            waiting: VecDeque::new(),
            now: Ticks(0),
            step: step(options),
            frames: Frames::default(),
            origins: VecDeque::new(),
            input: Vec::new(),
            output: Vec::new(),
            stopwatch: Stopwatch::default(),
            times_stages: false,
            watch: None,
        })
    }

    /// Passes about [`TURN`] timed packets, and the untimed packets that must pass with them. With several threads, all
    /// threads must do so at the same time.
    pub fn turn(&mut self, mix: Mix) -> Turn {
        let arrived = self.consumers.arrived();
        let mut turn = match mix {
            Mix::Both => self.mixed_phase(),
            Mix::Interest => {
                let turn = self.phase(TURN, 0);
                self.phase(0, self.due(0));
                turn
            }
            Mix::Data => {
                self.phase(TURN, 0);
                self.phase(0, self.due(0))
            }
        };
        turn.arrived = self.consumers.arrived() - arrived;
        turn
    }

    /// Passes Interests and Data together. A thread that is too far ahead of another waits, and forwards what others give
    /// it.
    fn mixed_phase(&mut self) -> Turn {
        let asks = TURN / 2;
        let packets = self.write(asks, self.due(asks));
        self.in_step(packets, |traffic| traffic.pass(packets))
    }

    /// Does `work`, which passes `packets` packets, once no other thread is too far behind.
    fn in_step(&mut self, packets: u64, work: impl FnOnce(&mut Self)) -> Turn {
        let thread = self.seat.number();
        let needed = self.lockstep.needed(thread);
        let turn = self.timed(packets, |traffic| {
            traffic.wait_for(needed);
            traffic.clocked(work);
        });
        self.lockstep.complete(thread);
        turn
    }

    /// Forwards what others give this thread until all have completed so many steps. Only what is forwarded is timed: in
    /// the router, no thread waits for another.
    fn wait_for(&mut self, steps: u64) {
        let lockstep = Arc::clone(&self.lockstep);
        while lockstep.must_wait(steps) {
            if self.seat.has_input() {
                self.clocked(|traffic| traffic.round(0));
            }
        }
    }

    /// Passes so many Interests, in step with the other threads.
    pub fn ask(&mut self, asks: u64) {
        let packets = self.write(asks, 0);
        self.in_step(packets, |traffic| traffic.pass(packets));
    }

    /// Passes packets of one kind. It ends when the packets of all threads have arrived.
    fn phase(&mut self, asks: u64, answers: u64) -> Turn {
        let packets = self.write(asks, answers);
        self.timed(packets, |traffic| {
            traffic.clocked(|traffic| traffic.pass(packets));
            traffic.settle();
        })
    }

    /// Passes untimed packets. Returns their number.
    pub fn pass_untimed(&mut self, asks: u64, answers: u64) -> u64 {
        let packets = self.write(asks, answers);
        self.pass(packets);
        self.post.deliver();
        self.consumers.check();
        packets
    }

    /// Number of Data packets that the producer will send beside this many new Interests.
    fn due(&self, asks: u64) -> u64 {
        let waiting = self.waiting.len() as u64;
        (waiting + asks).saturating_sub(self.pending).min(waiting)
    }

    /// Waits until all packets that threads gave each other have arrived. They cross rings twice.
    fn settle(&mut self) {
        if self.seat.threads() == 1 {
            return;
        }
        for _ in 0..2 {
            self.clocked(Traffic::empty_rings);
            let completed = self.lockstep.complete(self.seat.number());
            self.wait_for(completed);
        }
        self.clocked(Traffic::empty_rings);
    }

    /// Forwards and sends what other threads gave. Returns whether they gave anything.
    pub fn empty_rings(&mut self) -> bool {
        let has_input = self.seat.has_input();
        while self.seat.has_input() {
            self.round(0);
        }
        self.post.deliver();
        has_input
    }

    /// Takes note of the faces of other threads on which this one may send.
    pub fn hear_of_loans(&mut self) {
        for (face, loan) in self.seat.worker.take_loans() {
            if loan.is_some() && owner(face, self.seat.threads()) != self.seat.number() {
                self.borrowed.insert(face, ());
            }
        }
    }

    /// Whether the thread sends on this face of another thread.
    pub fn borrows(&self, face: FaceId) -> bool {
        self.borrowed.contains_key(&face)
    }

    /// Times the stages of all bursts from now on. Reading the clock makes bursts slower.
    pub fn time_stages(&mut self) {
        let epoch = Instant::now();
        let stopwatch = || Stopwatch::new(1, move || Ticks(epoch.elapsed().as_nanos() as u64));
        self.stopwatch = stopwatch();
        self.seat.worker.time_stages(stopwatch());
        self.times_stages = true;
    }

    /// Takes events of a watch in each turn from now on, as much as a reader gets at a time. The worker has a clock for
    /// these, as in the router.
    pub fn read_trace(&mut self, watch: u64) {
        let epoch = Instant::now();
        let stopwatch = Stopwatch::new(stages::ONE_IN, move || Ticks(epoch.elapsed().as_nanos() as u64));
        self.seat.worker.time_stages(stopwatch);
        self.watch = Some(watch);
    }

    fn stages(&self) -> StageTimes {
        if !self.times_stages {
            return StageTimes::default();
        }
        let mut times = self.seat.worker.counters().stages;
        times.add(self.stopwatch.times());
        times
    }

    /// Passes about [`TURN`] packets, Interests and Data alternating. The last `others` packets of each burst come from
    /// another face, and `receive` appends them. Nobody answers the Interests among them. With several threads, all
    /// threads must do so at the same time.
    pub fn turn_beside(&mut self, others: u64, mut receive: impl FnMut(Ticks, u64, &mut Vec<Received>)) -> Turn {
        let (bursts, ordinary) = (self.bursts(), self.burst - others);
        let asks = bursts * ordinary / 2;
        let answers = self.due(asks).min(bursts * ordinary - asks);
        let packets = self.write(asks, answers) + bursts * others;
        self.in_step(packets, |traffic| {
            for _ in 0..bursts {
                (0..ordinary).for_each(|_| traffic.receive());
                receive(traffic.now, others, &mut traffic.input);
                traffic.forward(traffic.burst);
                traffic.transmit();
            }
        })
    }

    /// Lets no other thread wait for this one any more when it is dropped.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.lockstep))
    }

    /// Whether a thread has stopped.
    pub fn is_stopped(&self) -> bool {
        self.lockstep.is_stopped()
    }

    /// Number of bursts in a turn of [`Traffic::turn_beside`].
    pub fn bursts(&self) -> u64 {
        TURN / self.burst
    }

    /// Number of Data packets that the producer sent.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Number of Interests that wait for the producer.
    pub fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// The consumers.
    pub fn consumers(&self) -> &Consumers {
        &self.consumers
    }

    /// The worker.
    pub fn worker(&self) -> &Worker {
        &self.seat.worker
    }

    /// The worker, mutable, for adding faces.
    pub fn worker_mut(&mut self) -> &mut Worker {
        &mut self.seat.worker
    }

    /// Packets dropped before and behind the worker, by reason.
    pub fn ring_drops(&self) -> Vec<(&'static str, u64)> {
        self.seat.drops()
    }

    /// Packets that were dropped because a ring to another thread was full.
    pub fn shed(&self) -> u64 {
        self.ring_drops().iter().filter(|(reason, _)| reason.ends_with("-ring-full")).map(|(_, count)| count).sum()
    }

    /// Does `work`, and advances the clock by its time.
    fn clocked<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let start = Instant::now();
        let done = work(self);
        self.clock += start.elapsed();
        done
    }

    /// Does `work`, which passes `packets` packets and advances the clock.
    fn timed(&mut self, packets: u64, work: impl FnOnce(&mut Self)) -> Turn {
        let (before, clock) = (self.stages(), self.clock);
        if let Some(watch) = self.watch {
            self.clocked(|traffic| drop(traffic.seat.worker.take_events(watch, EVENTS_PER_TURN)));
        }
        work(self);
        let time = self.clock - clock;
        self.post.deliver();
        self.consumers.check();
        Turn { packets, arrived: 0, time, stages: self.stages().since(&before) }
    }

    /// Passes the packets in the port's memory, from there on.
    fn pass(&mut self, packets: u64) {
        let mut left = packets;
        while left > 0 {
            let burst = self.burst.min(left);
            self.round(burst);
            left -= burst;
        }
    }

    /// Receives so many packets, and forwards and sends all that there is, as the loop of a packet thread.
    fn round(&mut self, packets: u64) {
        self.stopwatch.start();
        (0..packets).for_each(|_| self.receive());
        self.stopwatch.lap_if_any(Stage::Receive, packets as usize);
        self.forward(packets);
        let sent = self.output.len();
        self.transmit();
        self.stopwatch.lap_if_any(Stage::Send, sent);
        self.stopwatch.stop(false);
    }

    /// Writes packets to the port's memory, as a network card would: Interests, and Data evenly between them. Returns
    /// their number.
    fn write(&mut self, asks: u64, answers: u64) -> u64 {
        self.frames.clear();
        self.origins.clear();
        for (slot, number) in self.post.collect() {
            self.consumers.arrive(slot, || number);
        }
        let mut asked = 0;
        for i in 0..asks + answers {
            if asked < asks && asked * (asks + answers) <= i * asks {
                asked += 1;
                self.write_interest();
            } else {
                self.write_data();
            }
        }
        self.origins.len() as u64
    }

    fn write_interest(&mut self) {
        if let Some(Asked { slot, number, nonce }) = self.consumers.ask() {
            self.packets.write_interest_with_nonce(number, nonce, &mut self.frames);
            let face = face(self.seat.number(), self.seat.threads(), slot);
            self.origins.push_back(Origin { face, token: None });
        }
    }

    fn write_data(&mut self) {
        if let Some(Waiting { number, face, token }) = self.waiting.pop_front() {
            self.packets.write_data(number, &mut self.frames);
            self.origins.push_back(Origin { face, token });
            self.answered += 1;
        }
    }

    /// Advances the worker's time by `packets` packets, and hands it the received ones.
    fn forward(&mut self, packets: u64) {
        self.now = self.now + self.step * packets as u32;
        self.seat.poll(self.now, &mut self.input, &mut self.output, &mut self.stopwatch);
    }

    /// Receives the port's next packet.
    #[inline]
    fn receive(&mut self) {
        let Some(origin) = self.origins.pop_front() else { return };
        let received = Received::append(&mut self.input);
        received.face = origin.face;
        if let Some((token, bytes)) = origin.token {
            received.fields.pit_token.set_word(token, bytes);
        }
        received.packet.fill(Packet::copy_from(self.frames.receive()));
    }

    /// Hands outgoing packets to the faces of this thread, and to the threads that own the other faces.
    fn transmit(&mut self) {
        let (here, threads) = (self.seat.number(), self.seat.threads());
        for outgoing in &mut self.output {
            let owner = owner(outgoing.face, threads);
            if owner != here && !self.borrowed.contains_key(&outgoing.face) {
                self.seat.send_to(owner, outgoing);
                continue;
            }
            let slot = (outgoing.face.0 - FaceId::FIRST.0) / threads as u64;
            if slot == 1 {
                let number = self.packets.number_of_interest(&outgoing.packet);
                if number < OTHERS_FROM {
                    let token = outgoing.fields.pit_token.to_word().filter(|(_, bytes)| *bytes > 0);
                    self.waiting.push_back(Waiting { number, face: outgoing.face, token });
                }
            } else if self.consumers.are_at(slot) {
                let number = || self.packets.number_of_data(&outgoing.packet);
                match owner == here {
                    true => self.consumers.arrive(slot, number),
                    false => self.post.send(owner, self.consumers.arrival(slot, number)),
                }
            }
        }
        self.seat.publish_output();
        self.output.clear();
    }
}

/// The worker's time between two packets: as many Interests come within [`WAIT`] as are pending.
pub fn step(options: &Options) -> Duration {
    match options.zipf {
        // Answers come within a few turns. Later, a worker would forward another consumer's Interest for the same name.
        Some(_) => POPULAR_STEP,
        None => WAIT / u32::try_from(2 * options.pit).unwrap_or(u32::MAX),
    }
}

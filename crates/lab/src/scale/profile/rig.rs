//! One thread's worker, and the packets of its exchanges.

use std::time::Instant;

use byname_forward::dispatch::Dispatcher;
use byname_forward::face_table::{LinkType, Scope};
use byname_forward::seat::{Seat, Workers};
use byname_forward::stages::Stopwatch;
use byname_forward::worker::Worker;
use byname_forward::{FaceId, LinkFields, Outgoing, Received, Ticks};
use byname_wire::PitToken;

use super::samples::{Samples, Step};
use super::{RING, Setting};
use crate::balance::traffic::{Packets, Shards, workers};

pub const CONSUMER: FaceId = FaceId(256);
/// Asks for names that are pending.
const OTHER: FaceId = FaceId(257);
pub const PRODUCER: FaceId = FaceId(258);

/// The first of some threads, and packets that are at home there.
pub struct Rig {
    makes: Makes,
    thread: Thread,
    /// The other threads, which do nothing.
    _others: Vec<Thread>,
    /// Names that were answered, in the order of their answers.
    known: Vec<u64>,
    /// Number of known names behind the newest from which hits are drawn.
    back: usize,
}

/// A thread: its seat, and what it sends.
pub struct Thread {
    pub seat: Seat,
    pub outgoing: Vec<Outgoing>,
    stopwatch: Stopwatch,
}

/// Makes packets of names whose home is one worker.
pub struct Makes {
    packets: Packets,
    burst: usize,
    home: usize,
    next: u64,
    nonce: u32,
    /// Finds homes; `None` if there is one worker.
    probe: Option<Dispatcher>,
}

/// How many threads there are, and whose packets are made.
pub struct Seats {
    pub count: usize,
    pub home: usize,
    /// Whether any thread may answer Interests for hot names.
    pub spreads: bool,
}

impl Makes {
    /// Names that are new, for one burst.
    pub fn new_names(&mut self) -> Vec<u64> {
        let mut names = Vec::with_capacity(self.burst);
        while names.len() < self.burst {
            let name = self.next;
            self.next += 1;
            let interest = self.interest(CONSUMER, name);
            let mut home = self.home;
            if let Some(probe) = &mut self.probe {
                probe.dispatch(interest, |worker, _| home = worker);
            }
            if home == self.home {
                names.push(name);
            }
        }
        names
    }

    pub fn interest(&mut self, face: FaceId, name: u64) -> Received {
        self.nonce = self.nonce.wrapping_add(1);
        Received { face, fields: LinkFields::default(), packet: self.packets.interest(name, self.nonce) }
    }

    pub fn data(&self, name: u64, pit_token: PitToken) -> Received {
        let fields = LinkFields { pit_token, ..LinkFields::default() };
        Received { face: PRODUCER, fields, packet: self.packets.data(name) }
    }

    /// Names and tokens of Interests that a worker sent.
    pub fn asked(&self, outgoing: &[Outgoing]) -> Vec<(u64, PitToken)> {
        outgoing.iter().map(|sent| (self.packets.name_of(&sent.packet), sent.fields.pit_token)).collect()
    }
}

impl Thread {
    /// A round of the thread, as the router has it. Returns the number of packets that it sends.
    pub fn poll(&mut self, received: &mut Vec<Received>) -> usize {
        let before = self.outgoing.len();
        self.seat.poll(Ticks(0), received, &mut self.outgoing, &mut self.stopwatch);
        self.outgoing.len() - before
    }

    /// As [`Thread::poll`], timed for each packet received.
    fn timed(&mut self, mut received: Vec<Received>, step: Step, samples: &mut Samples) {
        samples.time(step, || {
            let count = received.len();
            self.poll(&mut received);
            count
        });
    }

    /// A port in memory sends by dropping.
    fn send(&mut self, samples: &mut Samples) {
        samples.time(Step::Send, || {
            let count = self.outgoing.len();
            self.outgoing.clear();
            count
        });
    }
}

/// The threads, and packets of names that are at home at one of them.
pub fn threads(seats: &Seats, setting: &Setting) -> anyhow::Result<(Makes, Vec<Thread>)> {
    let Seats { count, home, spreads } = *seats;
    let window = spreads.then_some(byname_forward::hot::WINDOW);
    let shards = Shards { count, cs: setting.cs * count as u64, window, seed: setting.seed };
    let (dispatcher, mut all) = workers(&shards, &[PRODUCER])?;
    for worker in &mut all {
        [CONSUMER, OTHER, PRODUCER].into_iter().for_each(|face| face_up(worker, face));
    }
    let probe = (count > 1).then(|| dispatcher.of_thread(0));
    let seats = Workers::new(dispatcher, all, RING, false).seats()?;
    let thread = |seat| Thread { seat, outgoing: Vec::new(), stopwatch: Stopwatch::default() };
    let makes = Makes { packets: Packets::new(1), burst: setting.burst, home, next: 0, nonce: 0, probe };
    Ok((makes, seats.into_iter().map(thread).collect()))
}

fn face_up(worker: &mut Worker, face: FaceId) {
    worker.face_up(face, Scope::NonLocal, LinkType::PointToPoint);
}

impl Rig {
    /// The first of `count` threads, each with a content store of the setting's size.
    pub fn new(count: usize, spreads: bool, setting: &Setting) -> anyhow::Result<Self> {
        let (makes, mut all) = threads(&Seats { count, home: 0, spreads }, setting)?;
        let thread = all.remove(0);
        Ok(Rig { makes, thread, _others: all, known: Vec::new(), back: setting.cs as usize / 2 })
    }

    /// Asks for new names, and answers them. Then asks for names that were answered some time ago. If `doubly`, a second
    /// face asks while the names are pending; Data is not timed then, because two packets leave for each.
    pub fn cycle(&mut self, doubly: bool, interests: &mut Samples, data: &mut Samples) {
        let names = self.makes.new_names();
        let Rig { makes, thread, .. } = self;
        let mut received = Vec::with_capacity(names.len());
        interests.time(Step::Receive, || {
            received.extend(names.iter().map(|name| makes.interest(CONSUMER, *name)));
            names.len()
        });
        thread.timed(received, Step::Forward, interests);
        let asked = makes.asked(&thread.outgoing);
        thread.send(interests);
        if doubly {
            let received = names.iter().map(|name| makes.interest(OTHER, *name)).collect();
            thread.timed(received, Step::Pending, interests);
            thread.outgoing.clear();
        }
        let mut answers = Vec::with_capacity(asked.len());
        data.time(Step::Receive, || {
            answers.extend(asked.iter().map(|(name, token)| makes.data(*name, *token)));
            asked.len()
        });
        let untimed = &mut Samples::default();
        thread.timed(answers, Step::Forward, if doubly { untimed } else { data });
        thread.send(data);
        self.ask_known(interests);
        self.known.extend(names);
    }

    fn ask_known(&mut self, interests: &mut Samples) {
        let Rig { makes, thread, known, back, .. } = self;
        let Some(from) = known.len().checked_sub((*back).max(makes.burst)) else { return };
        let received = known[from..][..makes.burst].iter().map(|name| makes.interest(CONSUMER, *name)).collect();
        thread.timed(received, Step::Hit, interests);
        thread.outgoing.clear();
    }
}

/// Two threads ask for one name by turns, and answer when asked. Times the bursts that the store of hot names answers, all
/// but the few Interests that look at home for newer Data.
pub fn ask_for_one(setting: &Setting, bursts: usize) -> anyhow::Result<Samples> {
    let (mut makes, mut all) = threads(&Seats { count: 2, home: 0, spreads: true }, setting)?;
    let name = makes.new_names()[0];
    let hits = |thread: &Thread| thread.seat.worker.counters().spread_hits;
    let mut samples = Samples::default();
    for burst in 0..bursts {
        // With even loads, each thread answers what it received.
        let thread = &mut all[burst % 2];
        let mut received = (0..makes.burst).map(|_| makes.interest(CONSUMER, name)).collect();
        let (hits_before, begin) = (hits(thread), Instant::now());
        thread.poll(&mut received);
        let (time, found) = (begin.elapsed(), (hits(thread) - hits_before) as usize);
        if found * 10 >= makes.burst * 9 {
            samples.add(Step::HotHit, time, makes.burst);
        }
        for thread in &mut all {
            thread.poll(&mut Vec::new());
            let asked: Vec<_> = thread.outgoing.extract_if(.., |sent| sent.face == PRODUCER).collect();
            for (name, token) in makes.asked(&asked) {
                thread.poll(&mut vec![makes.data(name, token)]);
            }
            thread.outgoing.clear();
        }
    }
    Ok(samples)
}

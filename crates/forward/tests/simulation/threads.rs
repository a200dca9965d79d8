//! Hot names that change, over threads that run ahead of or behind each other. Faces come, go and move between threads,
//! and rings fill. Every Interest must be answered once, by Data of its name, unless a counted drop explains why not.
//! What a thread sends on a face must leave in that order, wherever the face is. What a face receives must reach each
//! home in that order, unless its name is hot.
//!
//! `BYNAME_TEST_EXCHANGES` sets the number of exchanges.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use byname_forward::dispatch::Dispatcher;
use byname_forward::face_table::{LinkType, Scope};
use byname_forward::seat::{Owners, Seat, Workers, owner};
use byname_forward::stages::Stopwatch;
use byname_forward::worker::{WorkerConfig, WorkerCounters};
use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received, Ticks};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Component, Data, Interest, Name, NameHashKey, PitToken};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::bursts::worker;
use crate::exchange::new_tables;

/// Number of names; few of them are popular at one time.
const NAMES: u64 = 4000;
/// Number of Interests after which other names become popular.
const MOVE: u64 = 3000;
/// Maximum of Interests under way at once.
const UNDER_WAY: usize = 300;
/// Lifetime of an Interest: longer than a run.
const LIFETIME: Duration = Duration::from_secs(4000);
const PRODUCER: FaceId = FaceId(257);
const CONSUMERS: [u64; 4] = [256, 258, 259, 260];
/// The first face that comes later.
const LATER: u64 = 300;

/// One kind of run.
#[derive(Debug, Clone, Copy)]
struct Case {
    threads: usize,
    /// Names that are popular within so many Interests of a thread are hot. 0: no name is.
    window: u32,
    ring_packets: usize,
}

const ROOMY: usize = 4096;
const CASES: [Case; 9] = [
    Case { threads: 1, window: 256, ring_packets: ROOMY },
    Case { threads: 2, window: 256, ring_packets: ROOMY },
    Case { threads: 3, window: 64, ring_packets: ROOMY },
    Case { threads: 5, window: 1024, ring_packets: ROOMY },
    Case { threads: 22, window: 1024, ring_packets: ROOMY },
    Case { threads: 2, window: 256, ring_packets: 2 },
    Case { threads: 5, window: 256, ring_packets: 2 },
    Case { threads: 2, window: 0, ring_packets: ROOMY },
    Case { threads: 3, window: 0, ring_packets: ROOMY },
];

fn name(number: u64) -> Name {
    let name: Name = "/e".parse().expect("a literal name");
    name.join(Component::generic(&number.to_be_bytes()))
}

/// An Interest that a consumer waits for.
struct Asked {
    name: u64,
    face: FaceId,
}

/// A face and what its peer has sent that nobody has read yet.
struct Socket {
    /// The thread whose port has it; `None` while it moves.
    at: Option<usize>,
    input: VecDeque<Received>,
}

/// A face on its way between two threads. Other events may happen between its steps.
struct Move {
    face: FaceId,
    from: usize,
    to: usize,
    step: Step,
}

enum Step {
    /// So many workers have handled what the old thread received.
    Marks(Arc<AtomicUsize>),
    /// These threads still give their output to the old thread. The new one is told first.
    Tell(Vec<usize>),
    /// The old thread must give out what it holds.
    Pack,
    /// This is to be sent first.
    Arrive(Vec<Outgoing>),
}

struct Run {
    random: SmallRng,
    now: Ticks,
    shares_pit: bool,
    seats: Vec<Seat>,
    /// What each thread knows of the owners.
    owners: Vec<Owners>,
    faces: BTreeMap<FaceId, Socket>,
    moves: Vec<Move>,
    moved: u64,
    /// Ended faces that threads have not forgotten.
    gone: Vec<FaceId>,
    consumers: [FaceId; 4],
    next_face: u64,
    /// Pending Interests of consumers, by token.
    asked: HashMap<u64, Asked>,
    /// Pairs of a face and the name that it waits for.
    waiting: HashSet<(FaceId, u64)>,
    /// Interests that the producer has not answered yet, with their tokens.
    upstream: Vec<(Vec<u8>, PitToken)>,
    exchanges: u64,
    /// Interests of faces that have gone since.
    given_up: u64,
    /// Packets to faces that have gone.
    no_face: u64,
    table_exchanges: u64,
    order: Order,
    /// Whether Interests of one face must reach each home in order: no name is hot.
    checks_nonces: bool,
}

/// Checks the order of packets.
#[derive(Default)]
struct Order {
    /// Number of packets that each thread has sent on each face.
    sent: HashMap<(u64, FaceId), u64>,
    /// Number of the last of these that has left.
    left: HashMap<(u64, FaceId), u64>,
    /// Faces that sent Interests, by nonce.
    askers: Vec<FaceId>,
    /// The greatest nonce that each thread has sent to the producer, by the face that it came from.
    nonces: HashMap<(u64, FaceId), u32>,
}

/// Threads are fewer. A packet that has left a worker carries its number times this, plus its thread, as a mark.
const MARK: u64 = 64;

impl Order {
    /// A thread's worker sends a packet.
    fn sends(&mut self, thread: u64, outgoing: &mut Outgoing, checks_nonces: bool) {
        let number = self.sent.entry((thread, outgoing.face)).or_default();
        *number += 1;
        outgoing.fields.congestion_mark = *number * MARK + thread;
        if checks_nonces && outgoing.packet[0] == 5 {
            let nonce = Interest::decode(&outgoing.packet).expect("an Interest").nonce.expect("a nonce");
            let last = self.nonces.entry((thread, self.askers[nonce as usize])).or_default();
            assert!(nonce >= *last, "{nonce} overtook {last}");
            *last = nonce;
        }
    }

    /// A packet leaves on its face.
    fn leaves(&mut self, outgoing: &Outgoing) {
        let mark = outgoing.fields.congestion_mark;
        let (number, thread) = (mark / MARK, mark % MARK);
        let last = self.left.entry((thread, outgoing.face)).or_default();
        assert!(number > *last, "{number} was overtaken by {last}, both from thread {thread} to {}", outgoing.face);
        *last = number;
    }
}

impl Run {
    fn new(seed: u64, case: Case, shares_pit: bool) -> Self {
        let config = WorkerConfig { cs_packets_max: 150, ..WorkerConfig::default() };
        let mut dispatcher = Dispatcher::new(NameHashKey::new([5, 6]), case.threads, 0, 77);
        if case.window > 0 {
            dispatcher.spread_hot_names(case.window);
        }
        if shares_pit {
            dispatcher.share_pit_of_hot_names();
        }
        let join = |number| {
            let mut worker = worker("best-route", config.clone());
            worker.join(dispatcher.membership(number));
            worker
        };
        let workers =
            Workers::new(dispatcher.of_thread(0), (0..case.threads).map(join).collect(), case.ring_packets, false);
        let consumers = CONSUMERS.map(FaceId);
        Run {
            random: SmallRng::seed_from_u64(seed),
            now: Ticks::from_ms(1000),
            shares_pit,
            seats: workers.seats().expect("there is memory"),
            owners: (0..case.threads).map(|_| Owners::new(case.threads)).collect(),
            faces: consumers
                .into_iter()
                .chain([PRODUCER])
                .map(|face| (face, Socket { at: Some(owner(face, case.threads)), input: VecDeque::new() }))
                .collect(),
            moves: Vec::new(),
            moved: 0,
            gone: Vec::new(),
            consumers,
            next_face: LATER,
            asked: HashMap::new(),
            waiting: HashSet::new(),
            upstream: Vec::new(),
            exchanges: 0,
            given_up: 0,
            no_face: 0,
            table_exchanges: 0,
            order: Order::default(),
            checks_nonces: case.window == 0,
        }
    }

    /// One random event: a packet arrives, or a thread has a round.
    fn step(&mut self, asks: bool) {
        let (_, pause_max_us) = self.pace();
        self.now = self.now + Duration::from_micros(self.random.random_range(0..pause_max_us));
        match self.random.random_range(0..8) {
            0..3 if asks && self.asked.len() < UNDER_WAY => self.ask(),
            3 if !self.upstream.is_empty() => self.answer(),
            4 if asks && self.random.random_bool(0.02) => self.move_a_face(),
            4 if !self.moves.is_empty() => self.go_on_moving(),
            5 if self.random.random_bool(0.01) => self.manage(),
            6 if asks && self.random.random_bool(0.002) => self.replace_a_consumer(),
            _ => {
                let thread = self.any_thread();
                self.work(thread);
            }
        }
    }

    /// Share of Interests with MustBeFresh, and maximum pause between two events in microseconds. Threads join Interests
    /// only if they come soon after each other, and the content store does not answer them.
    fn pace(&self) -> (f64, u64) {
        if self.shares_pit { (0.7, 30) } else { (0.2, 200) }
    }

    fn any_thread(&mut self) -> usize {
        self.random.random_range(0..self.seats.len())
    }

    fn receive(&mut self, face: FaceId, pit_token: PitToken, bytes: &[u8]) {
        let fields = LinkFields { pit_token, ..LinkFields::default() };
        let received = Received { face, fields, packet: Packet::copy_from(bytes) };
        self.faces.get_mut(&face).expect("it exists").input.push_back(received);
    }

    fn ask(&mut self) {
        let unit = (self.random.random_range(0..1 << 30) + 1) as f64 / f64::from(1 << 30);
        let rank = (NAMES as f64).powf(unit) as u64 - 1;
        let name = (rank + self.exchanges / MOVE * 37) % NAMES;
        let face = self.consumers[self.random.random_range(0..4)];
        if !self.waiting.insert((face, name)) {
            // The consumer already waits for this name.
            return;
        }
        let token = self.exchanges;
        self.exchanges += 1;
        self.asked.insert(token, Asked { name, face });
        self.order.askers.push(face);
        let (fresh_share, _) = self.pace();
        let interest = InterestBuilder::new(self::name(name), token as u32)
            .must_be_fresh(self.random.random_bool(fresh_share))
            .can_be_prefix(self.random.random_bool(0.1))
            .lifetime_ms(LIFETIME.as_millis() as u64)
            .encode();
        self.receive(face, PitToken::new(&token.to_be_bytes()).expect("eight bytes"), &interest);
    }

    /// The producer answers one of its Interests, with or without the token.
    fn answer(&mut self) {
        let (interest, token) = self.upstream.swap_remove(self.random.random_range(0..self.upstream.len()));
        let name = Interest::decode(&interest).expect("what was sent can be parsed").name.to_name();
        let content = vec![self.exchanges as u8; self.random.random_range(0..300)];
        let data = DataBuilder::new(name).freshness_ms(self.random.random_range(0..3) * 10).content(content).encode();
        let token = if self.random.random_bool(0.5) { token } else { PitToken::NONE };
        self.receive(PRODUCER, token, &data);
    }

    /// A face begins to move to another thread.
    fn move_a_face(&mut self) {
        let faces = [self.consumers[0], self.consumers[1], self.consumers[2], self.consumers[3], PRODUCER];
        let (face, to) = (faces[self.random.random_range(0..faces.len())], self.any_thread());
        let Some(from) = self.faces[&face].at.filter(|from| *from != to) else { return };
        self.faces.get_mut(&face).expect("it exists").at = None;
        self.owners[from].leave(face);
        let (threads, marks) = (self.seats.len(), Arc::new(AtomicUsize::new(0)));
        let mark = Arc::clone(&marks);
        self.seats[from].tell_all_after(move |_| assert!(mark.fetch_add(1, Ordering::SeqCst) < threads));
        self.moves.push(Move { face, from, to, step: Step::Marks(marks) });
    }

    /// One of the faces that move takes its next step, if it can.
    fn go_on_moving(&mut self) {
        let at = self.random.random_range(0..self.moves.len());
        let Move { face, from, to, step } = self.moves.swap_remove(at);
        let step = match step {
            Step::Marks(marks) if marks.load(Ordering::SeqCst) < self.seats.len() => Step::Marks(marks),
            Step::Marks(_) => {
                let others = (0..self.seats.len()).filter(|thread| *thread != from && *thread != to);
                Step::Tell(others.chain([to]).collect())
            }
            Step::Tell(mut threads) if !threads.is_empty() => {
                let any = self.random.random_range(0..threads.len());
                let at = threads.iter().position(|thread| *thread == to).unwrap_or(any);
                let thread = threads.swap_remove(at);
                self.owners[thread].moves(face, to, thread);
                Step::Tell(threads)
            }
            Step::Tell(_) => Step::Pack,
            Step::Pack => {
                let mut output = Vec::new();
                self.seats[from].take_output(&mut output);
                self.send(from, output);
                Step::Arrive(self.owners[from].left(face, to))
            }
            Step::Arrive(mut output) => {
                output.extend(self.owners[to].arrived(face));
                self.faces.get_mut(&face).expect("it exists").at = Some(to);
                self.moved += 1;
                for gone in std::mem::take(&mut self.gone) {
                    self.owners.iter_mut().for_each(|owners| owners.forget(gone));
                }
                return self.send(to, output);
            }
        };
        self.moves.push(Move { face, from, to, step });
    }

    /// A consumer leaves, and another comes.
    fn replace_a_consumer(&mut self) {
        let (at, new) = (self.random.random_range(0..4), FaceId(self.next_face));
        // The control side destroys a face before or after it moves.
        let Some(thread) = self.faces[&self.consumers[at]].at else { return };
        self.next_face += 1;
        let old = std::mem::replace(&mut self.consumers[at], new);
        self.faces.remove(&old);
        self.gone.push(old);
        self.seats[thread].tell_all_after(move |worker| worker.face_down(old));
        let before = self.asked.len();
        self.asked.retain(|_, asked| asked.face != old);
        self.waiting.retain(|(face, _)| *face != old);
        self.given_up += (before - self.asked.len()) as u64;
        let maker = owner(new, self.seats.len());
        self.faces.insert(new, Socket { at: Some(maker), input: VecDeque::new() });
        self.seats[maker].tell_all(move |worker| worker.face_up(new, Scope::NonLocal, LinkType::PointToPoint));
    }

    fn manage(&mut self) {
        let (thread, packets, serve) =
            (self.any_thread(), 50 + self.random.random_range(0..200), self.random.random_bool(0.8));
        if self.random.random_bool(0.1) {
            return self.exchange_tables();
        }
        let command = self.random.random_range(0..3);
        self.seats[thread].ask(|worker| match command {
            0 => _ = worker.cs_erase(Name::default().as_ref(), 20),
            1 => worker.cs_config(Some(packets), None, None),
            _ => worker.cs_config(None, None, Some(serve)),
        });
    }

    /// All threads get other tables, perhaps for names that are hashed with another key. Each begins to use them in its
    /// own time.
    fn exchange_tables(&mut self) {
        let (number, config) =
            (self.random.random_range(0..2), WorkerConfig { cs_packets_max: 150, ..WorkerConfig::default() });
        for seat in &mut self.seats {
            seat.exchange_tables(new_tables(number, &config, self.random.random_range(0..100)));
        }
        self.table_exchanges += 1;
    }

    /// A round of one thread.
    fn work(&mut self, thread: usize) {
        let mut received = Vec::new();
        for socket in self.faces.values_mut().filter(|socket| socket.at == Some(thread)) {
            let few = socket.input.len().min(self.random.random_range(0..8));
            received.extend(socket.input.drain(..few));
        }
        let mut output = Vec::new();
        self.seats[thread].poll(self.now, &mut received, &mut output, &mut Stopwatch::default());
        self.seats[thread].take_old_tables(self.random.random_bool(0.001));
        // What other threads have sent has a mark.
        for outgoing in output.iter_mut().filter(|outgoing| outgoing.fields.congestion_mark == 0) {
            self.order.sends(thread as u64, outgoing, self.checks_nonces);
        }
        self.send(thread, output);
    }

    /// Sends packets, or passes them on to the threads that own their faces.
    fn send(&mut self, thread: usize, output: Vec<Outgoing>) {
        for mut outgoing in output {
            if self.faces.get(&outgoing.face).is_some_and(|socket| socket.at == Some(thread)) {
                self.sent(&outgoing);
            } else {
                self.no_face += u64::from(!self.owners[thread].pass_on(&mut self.seats[thread], &mut outgoing));
            }
        }
        self.seats[thread].publish_output();
    }

    fn sent(&mut self, outgoing: &Outgoing) {
        self.order.leaves(outgoing);
        let Outgoing { face, fields, packet } = outgoing;
        assert_eq!(fields.nack, None);
        if packet[0] == 5 {
            assert_eq!(*face, PRODUCER);
            return self.upstream.push((packet.to_vec(), fields.pit_token));
        }
        let token = u64::from_be_bytes(fields.pit_token.as_slice().try_into().expect("a consumer's token"));
        let asked = self.asked.remove(&token).unwrap_or_else(|| panic!("{token} was answered before"));
        assert_eq!(asked.face, *face);
        let data = Data::decode(packet).expect("Data");
        assert_eq!(data.name.to_name(), name(asked.name));
        self.waiting.remove(&(asked.face, asked.name));
    }

    fn is_done(&mut self) -> bool {
        self.upstream.is_empty()
            && self.moves.is_empty()
            && self.faces.values().all(|socket| socket.input.is_empty())
            && self.seats.iter_mut().all(|seat| !seat.has_input())
    }

    fn sum(&self, of: fn(&WorkerCounters) -> u64) -> u64 {
        self.seats.iter().map(|seat| of(&seat.worker.counters())).sum()
    }

    /// Packets that found no room in a ring.
    fn ring_drops(&self) -> u64 {
        let drops = self.seats.iter().flat_map(|seat| seat.drops());
        drops.filter(|(reason, _)| reason.ends_with("ring-full")).map(|(_, packets)| packets).sum()
    }
}

#[test]
fn no_answer_is_lost_or_doubled_while_hot_names_and_faces_move() {
    exchange_all(false);
}

#[test]
fn no_answer_is_lost_or_doubled_while_threads_share_pit_entries() {
    exchange_all(true);
}

fn exchange_all(shares_pit: bool) {
    let exchanges = std::env::var("BYNAME_TEST_EXCHANGES").map_or(240_000, |n| n.parse().expect("a number"));
    for (seed, case) in (1..).zip(CASES) {
        let mut run = Run::new(seed, case, shares_pit);
        while run.exchanges < exchanges / CASES.len() as u64 {
            run.step(true);
        }
        while !run.is_done() {
            run.step(false);
        }
        let (lost, drops) = (run.asked.len() as u64, run.ring_drops());
        if case.ring_packets == ROOMY {
            assert_eq!((lost, drops), (0, 0), "{case:?}: some were never answered");
        } else {
            // A lost Interest or Data of the producer concerns all consumers that wait for it.
            assert!(drops > 50 && lost <= drops * CONSUMERS.len() as u64, "{case:?}: {lost} lost, {drops} dropped");
        }
        let in_interests = run.sum(|c| c.faces.in_interests);
        assert!(in_interests <= run.exchanges && in_interests + run.given_up + drops >= run.exchanges, "{case:?}");
        let (spread, hits) = (run.sum(|c| c.spread_interests), run.sum(|c| c.spread_hits));
        let joins = run.sum(|c| c.spread_joins);
        let strayed = spread - hits - joins;
        let spreads = case.threads > 1 && case.window > 0;
        assert!((joins > run.exchanges / 1000) == (spreads && shares_pit), "{case:?}: {joins} of {}", run.exchanges);
        // After an exchange of tables, threads learn anew which names are hot.
        assert!((hits > run.exchanges / 80) == spreads, "{case:?}: {hits} hits of {}", run.exchanges);
        assert!((strayed > 20) == spreads, "{case:?}: {strayed} strays");
        assert!((run.moved > exchanges / 3000) == (case.threads > 1), "{case:?}: {} moves", run.moved);
        assert!(run.table_exchanges > 3, "{case:?}: {} exchanges of tables", run.table_exchanges);
        assert_eq!(run.owners.iter().map(Owners::drops).sum::<u64>(), 0, "{case:?}: little was held back");
        assert!(run.no_face <= run.given_up, "{case:?}: {} packets for faces that are gone", run.no_face);
        // What was lost expires, and nothing else is left.
        run.now = run.now + 2 * LIFETIME;
        (0..case.threads).for_each(|thread| run.work(thread));
        assert_eq!(run.sum(|c| c.pit_entries), 0, "{case:?}");
        assert_eq!(run.sum(|c| c.shared_pit_entries), 0, "{case:?}");
    }
}

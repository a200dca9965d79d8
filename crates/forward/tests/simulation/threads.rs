//! Hot names that change, over threads that run ahead of or behind each other. Faces come, go and move between threads,
//! and rings fill. Every Interest must be answered once, by the Data that the producer has for it, unless one counted drop
//! explains why not (`losses`). The order of packets is checked (`order`).
//!
//! Beside them, one thread forwards the same Interests, which come at the same times (`Run::twin`). It gets no packets but
//! these and those of a producer of its own. Both must agree in this, whatever the order of events:
//!
//! - the Interests that are satisfied, by token, with face, name and content of the Data that satisfies each. It does not
//!   matter whether it comes from the producer or from a content store.
//! - the Interests that expire, by token, and the number of PIT entries that expire.
//!
//! Left out are Interests of faces that have gone before one of the two has answered them. What rings have dropped must
//! be all that the threads lack.
//!
//! `BYNAME_TEST_EXCHANGES` sets the number of exchanges.

mod losses;
mod order;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use byname_forward::dispatch::Dispatcher;
use byname_forward::face_table::{LinkType, Scope};
use byname_forward::loans::Loan;
use byname_forward::seat::{Owners, Seat, Workers, owner};
use byname_forward::stages::Stopwatch;
use byname_forward::worker::{WorkerConfig, WorkerCounters};
use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received, Ticks};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Component, Data, Interest, Name, NameHashKey, NameRef, PitToken};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::bursts::worker;
use crate::exchange::new_tables;
use losses::Losses;
use order::Order;

/// Number of names; few of them are popular at one time.
const NAMES: u64 = 4000;
/// Names from this one on have no Data. Nobody asks for one of them twice.
const SILENT: u64 = 1 << 40;
/// Number of Interests after which other names become popular.
const MOVE: u64 = 3000;
/// Maximum of Interests under way at once.
const UNDER_WAY: usize = 300;
/// Lifetime of an Interest: longer than a run.
const LIFETIME: Duration = Duration::from_secs(4000);
/// Lifetime of an Interest for which there is no Data.
const SILENT_LIFETIME: Duration = Duration::from_millis(100);
const PRODUCER: FaceId = FaceId(257);
/// The first of them never goes, but moves.
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
    /// Whether threads take one packet at a time, so that each drop is known.
    one_by_one: bool,
    /// Whether threads send on most faces of other threads by themselves, and get answers by token.
    lends: bool,
    /// Whether names are at home where they are first asked for.
    claims: bool,
}

const fn bursts(threads: usize, window: u32, ring_packets: usize) -> Case {
    Case { threads, window, ring_packets, one_by_one: false, lends: false, claims: false }
}

const fn one_by_one(threads: usize, window: u32, ring_packets: usize) -> Case {
    Case { one_by_one: true, ..bursts(threads, window, ring_packets) }
}

const fn lending(case: Case) -> Case {
    Case { lends: true, ..case }
}

const fn claiming(case: Case) -> Case {
    Case { claims: true, ..case }
}

/// Room for claims, which is too little for all names: some lines of the table fill.
const CLAIMED: usize = 300;
const ROOMY: usize = 4096;
const CASES: [Case; 24] = [
    bursts(1, 256, ROOMY),
    bursts(2, 256, ROOMY),
    bursts(3, 64, ROOMY),
    bursts(5, 1024, ROOMY),
    bursts(22, 1024, ROOMY),
    bursts(2, 0, ROOMY),
    bursts(3, 0, ROOMY),
    bursts(5, 256, 2),
    one_by_one(2, 256, 2),
    one_by_one(3, 256, 4),
    one_by_one(3, 0, 2),
    one_by_one(5, 256, 2),
    lending(bursts(2, 256, ROOMY)),
    lending(bursts(3, 0, ROOMY)),
    lending(bursts(5, 1024, ROOMY)),
    lending(bursts(5, 256, 2)),
    lending(one_by_one(3, 256, 4)),
    claiming(bursts(2, 256, ROOMY)),
    claiming(bursts(3, 0, ROOMY)),
    claiming(bursts(5, 1024, ROOMY)),
    claiming(bursts(22, 1024, ROOMY)),
    claiming(bursts(5, 256, 2)),
    claiming(lending(bursts(2, 0, ROOMY))),
    claiming(lending(bursts(5, 256, ROOMY))),
];

/// Small tables, because they are made anew again and again. There is room for all names in the PIT.
fn config() -> WorkerConfig {
    WorkerConfig { cs_packets_max: 150, pit_entries_max: 1 << 13, ..WorkerConfig::default() }
}

/// The name of number `number`.
fn name(number: u64) -> Name {
    let name: Name = "/e".parse().expect("a literal name");
    name.join(Component::generic(&number.to_be_bytes()))
}

/// The number of a name, or of one below it.
fn number(name: NameRef<'_>) -> u64 {
    let value = name.component(1).expect("it has a number").value;
    u64::from_be_bytes(value.try_into().expect("eight bytes"))
}

/// The name of the only Data below a name. For some names it is longer.
fn data_name(number: u64) -> Name {
    if number % 8 == 3 { name(number).join(Component::generic(b"below")) } else { name(number) }
}

/// The content of this Data.
fn content(number: u64) -> Vec<u8> {
    vec![number as u8; number as usize % 300]
}

/// An Interest of a consumer.
#[derive(Debug, Clone)]
struct Ask {
    token: u64,
    /// The number of its name.
    name: u64,
    /// Whether it asks for the name of the Data, and not for one above.
    is_exact: bool,
    face: FaceId,
    packet: Vec<u8>,
}

/// Events that also happen to the thread that is compared with.
#[derive(Debug)]
enum Input {
    Ask(Ask),
    /// The consumer of this number leaves, and another comes.
    Replace(usize),
}

/// The Data that satisfied an Interest.
#[derive(Debug, PartialEq)]
struct Answer {
    face: FaceId,
    name: Name,
    content: Vec<u8>,
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
    lends: bool,
    /// The faces on which each thread may send, wherever they are.
    lent: Vec<HashSet<FaceId>>,
    /// Packets that a thread sent on another thread's face.
    sent_directly: u64,
    /// Answers that come to the thread which their token names, wherever the producer's face is.
    answers_to: Vec<VecDeque<Received>>,
    moves: Vec<Move>,
    moved: u64,
    /// Ended faces that threads have not forgotten.
    gone: Vec<FaceId>,
    consumers: [FaceId; 4],
    next_face: u64,
    /// Pending Interests of consumers, by token.
    asked: HashMap<u64, Ask>,
    /// Pairs of a face and the name that it waits for.
    waiting: HashSet<(FaceId, u64)>,
    /// Interests for which there is no Data, with the times when their consumer gives up.
    silent: VecDeque<(Ticks, u64)>,
    /// Interests that were asked for no Data, and have expired.
    expired: HashSet<u64>,
    /// Interests that the producer has not answered yet, with their tokens.
    upstream: Vec<(Vec<u8>, PitToken)>,
    exchanges: u64,
    answered: u64,
    /// Interests of faces that have gone since.
    given_up: HashSet<u64>,
    /// Packets to faces that have gone.
    no_face: u64,
    table_exchanges: u64,
    order: Order,
    /// Whether Interests of one face must reach each home in order: no name is hot, and homes stay.
    checks_nonces: bool,
    /// Whether rings are so small that they fill.
    rings_fill: bool,
    /// What full rings have dropped, if threads take one packet at a time.
    losses: Option<Losses>,
    /// One thread with the same Interests.
    twin: Option<Box<Run>>,
    /// Answers that one of the two has given.
    answers: HashMap<u64, Answer>,
    /// Those that were given since the last comparison.
    new_answers: Vec<(u64, Answer)>,
}

impl Run {
    fn new(seed: u64, case: Case, shares_pit: bool) -> Self {
        let config = config();
        let mut dispatcher = Dispatcher::new(NameHashKey::new([5, 6]), case.threads, 0, 77);
        if case.window > 0 {
            dispatcher.spread_hot_names(case.window);
        }
        if shares_pit {
            dispatcher.share_pit_of_hot_names();
        }
        if case.claims {
            dispatcher.claim_names(CLAIMED).expect("there is memory");
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
            lends: case.lends,
            lent: vec![HashSet::new(); case.threads],
            sent_directly: 0,
            answers_to: (0..case.threads).map(|_| VecDeque::new()).collect(),
            moves: Vec::new(),
            moved: 0,
            gone: Vec::new(),
            consumers,
            next_face: LATER,
            asked: HashMap::new(),
            waiting: HashSet::new(),
            silent: VecDeque::new(),
            expired: HashSet::new(),
            upstream: Vec::new(),
            exchanges: 0,
            answered: 0,
            given_up: HashSet::new(),
            no_face: 0,
            table_exchanges: 0,
            order: Order::default(),
            checks_nonces: case.window == 0 && !case.claims,
            rings_fill: case.ring_packets < ROOMY,
            losses: case.one_by_one.then(|| Losses::new(case.threads)),
            twin: None,
            answers: HashMap::new(),
            new_answers: Vec::new(),
        }
    }

    /// The same, beside one thread with the same Interests.
    fn beside_one_thread(seed: u64, case: Case, shares_pit: bool) -> Self {
        let mut run = Run::new(seed, case, shares_pit);
        run.twin = Some(Box::new(Run::new(seed, bursts(1, 0, ROOMY), false)));
        if case.lends {
            for face in CONSUMERS.map(FaceId).into_iter().chain([PRODUCER]) {
                run.seats[owner(face, case.threads)].tell_all(move |worker| worker.lend_face(face, Some(Arc::new(()))));
            }
        }
        run
    }

    /// One random event, here and on the thread that is compared with.
    fn step(&mut self, asks: bool) {
        self.happen(asks);
        let Some(mut twin) = self.twin.take() else { return };
        twin.now = self.now;
        twin.happen(false);
        // It has a smaller content store, and so more to do.
        while twin.asked.len() > UNDER_WAY {
            twin.happen(false);
        }
        for (token, answer) in twin.new_answers.drain(..).chain(self.new_answers.drain(..)) {
            match self.answers.remove(&token) {
                Some(other) => assert_eq!(answer, other, "both have answered {token}"),
                None => _ = self.answers.insert(token, answer),
            }
        }
        self.twin = Some(twin);
    }

    /// One random event: a packet arrives, or a thread has a round.
    fn happen(&mut self, asks: bool) {
        let (_, pause_max_us) = self.pace();
        self.now = self.now + Duration::from_micros(self.random.random_range(0..pause_max_us));
        match self.random.random_range(0..8) {
            0..3 if asks && self.under_way() < UNDER_WAY => self.ask(),
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
        while let Some(&(_, token)) = self.silent.front().filter(|(until, _)| *until <= self.now) {
            self.silent.pop_front();
            if let Some(ask) = self.asked.remove(&token) {
                self.waiting.remove(&(ask.face, ask.name));
                self.expired.insert(token);
            }
        }
    }

    /// An event that must happen on both sides.
    fn happens_to_both(&mut self, input: &Input) {
        if let Some(twin) = &mut self.twin {
            twin.take(input);
        }
        self.take(input);
    }

    fn take(&mut self, input: &Input) {
        match input {
            Input::Ask(ask) => self.send_interest(ask),
            Input::Replace(at) => self.replace(*at),
        }
    }

    /// Number of Interests under way. Where rings fill, lost ones would count for ever, and only packets that wait for a
    /// reader count.
    fn under_way(&self) -> usize {
        if !self.rings_fill {
            return self.asked.len();
        }
        let answers: usize = self.answers_to.iter().map(VecDeque::len).sum();
        self.upstream.len() + answers + self.faces.values().map(|socket| socket.input.len()).sum::<usize>()
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
        let (token, at) = (self.exchanges, self.random.random_range(0..4));
        let is_silent = at == 0 && self.random.random_bool(0.1);
        let name = if is_silent { SILENT + token } else { (rank + self.exchanges / MOVE * 37) % NAMES };
        let (face, pair) = (self.consumers[at], (self.consumers[at], name));
        if self.waiting.contains(&pair) || self.twin.as_ref().is_some_and(|twin| twin.waiting.contains(&pair)) {
            // The consumer already waits for this name.
            return;
        }
        let wanted = data_name(name);
        let is_exact = wanted == self::name(name) || self.random.random_bool(0.2);
        let (fresh_share, _) = self.pace();
        let packet = InterestBuilder::new(if is_exact { wanted } else { self::name(name) }, token as u32)
            .must_be_fresh(self.random.random_bool(fresh_share))
            .can_be_prefix(!is_exact || self.random.random_bool(0.1))
            .lifetime_ms(if is_silent { SILENT_LIFETIME } else { LIFETIME }.as_millis() as u64)
            .encode();
        self.happens_to_both(&Input::Ask(Ask { token, name, is_exact, face, packet }));
    }

    fn send_interest(&mut self, ask: &Ask) {
        assert!(self.waiting.insert((ask.face, ask.name)), "{ask:?}");
        self.exchanges += 1;
        if ask.name >= SILENT {
            self.silent.push_back((self.now + 2 * SILENT_LIFETIME, ask.token));
        }
        if self.checks_nonces {
            self.order.asks(ask.face, ask.token as u32);
        }
        self.receive(ask.face, PitToken::new(&ask.token.to_be_bytes()).expect("eight bytes"), &ask.packet);
        self.asked.insert(ask.token, ask.clone());
    }

    /// The producer answers one of its Interests, with or without the token.
    fn answer(&mut self) {
        let (interest, token) = self.upstream.swap_remove(self.random.random_range(0..self.upstream.len()));
        let number = number(Interest::decode(&interest).expect("what was sent can be parsed").name);
        if number >= SILENT {
            return;
        }
        let freshness_ms = self.random.random_range(0..3) * 10;
        let data = DataBuilder::new(data_name(number)).freshness_ms(freshness_ms).content(content(number)).encode();
        let pit_token = if self.random.random_bool(0.5) { token } else { PitToken::NONE };
        let waits = pit_token.as_slice().last().map(|thread| usize::from(*thread));
        match waits.filter(|thread| self.lent[*thread].contains(&PRODUCER)) {
            Some(thread) => {
                let fields = LinkFields { pit_token, ..LinkFields::default() };
                self.answers_to[thread].push_back(Received {
                    face: PRODUCER,
                    fields,
                    packet: Packet::copy_from(&data),
                });
            }
            None => self.receive(PRODUCER, pit_token, &data),
        }
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
        let at = self.random.random_range(1..4);
        // The control side destroys a face before or after it moves.
        if self.faces[&self.consumers[at]].at.is_some() {
            self.happens_to_both(&Input::Replace(at));
        }
    }

    fn replace(&mut self, at: usize) {
        let new = FaceId(self.next_face);
        self.next_face += 1;
        let old = std::mem::replace(&mut self.consumers[at], new);
        let thread = self.faces.remove(&old).and_then(|socket| socket.at).expect("it does not move");
        self.gone.push(old);
        self.seats[thread].tell_all_after(move |worker| worker.face_down(old));
        self.given_up.extend(self.asked.extract_if(|_, ask| ask.face == old).map(|(token, _)| token));
        self.waiting.retain(|(face, _)| *face != old);
        let maker = owner(new, self.seats.len());
        self.faces.insert(new, Socket { at: Some(maker), input: VecDeque::new() });
        let is_lent = self.lends && self.random.random_bool(0.8);
        self.seats[maker].tell_all(move |worker| {
            worker.face_up(new, Scope::NonLocal, LinkType::PointToPoint);
            worker.lend_face(new, is_lent.then(|| Arc::new(()) as Loan));
        });
    }

    fn manage(&mut self) {
        let (thread, packets, serve) =
            (self.any_thread(), 50 + self.random.random_range(0..200), self.random.random_bool(0.8));
        if self.random.random_bool(0.1) {
            return self.exchange_tables();
        }
        if self.lends && self.random.random_bool(0.1) {
            return self.recall();
        }
        let command = self.random.random_range(0..3);
        self.seats[thread].ask(|worker| match command {
            0 => _ = worker.cs_erase(Name::default().as_ref(), 20),
            1 => worker.cs_config(Some(packets), None, None),
            _ => worker.cs_config(None, None, Some(serve)),
        });
    }

    /// A consumer that may leave is not lent any more.
    fn recall(&mut self) {
        let face = self.consumers[self.random.random_range(1..4)];
        if let Some(owner) = self.faces[&face].at {
            self.seats[owner].tell_all(move |worker| worker.lend_face(face, None));
        }
    }

    /// All threads get other tables, perhaps for names that are hashed with another key. Each begins to use them in its
    /// own time.
    fn exchange_tables(&mut self) {
        let (number, config) = (self.random.random_range(0..2), config());
        for seat in &mut self.seats {
            seat.worker.exchange_tables(new_tables(number, &config, self.random.random_range(0..100)));
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
        let few = self.answers_to[thread].len().min(self.random.random_range(0..8));
        received.extend(self.answers_to[thread].drain(..few));
        if self.losses.is_none() {
            return self.round(thread, &mut received);
        }
        let before = self.dropped(thread);
        self.rounds_without_input(thread);
        let dropped = self.dropped(thread)[0] - before[0];
        self.losses.as_mut().expect("they are counted").took(thread, dropped);
        for received in received {
            self.round_with(thread, received);
        }
    }

    /// Rounds until other threads have nothing more for this thread.
    fn rounds_without_input(&mut self, thread: usize) {
        self.round(thread, &mut Vec::new());
        while self.seats[thread].has_input() {
            self.round(thread, &mut Vec::new());
        }
    }

    /// A round with one packet, and what became of it.
    fn round_with(&mut self, thread: usize, received: Received) {
        self.seats[thread].take_given(|_| {});
        let (before, face, packet) = (self.dropped(thread)[0], received.face, received.packet.to_vec());
        let token = received.fields.pit_token;
        let (mut received, mut given) = (vec![received], vec![thread]);
        let output = self.poll(thread, &mut received);
        self.seats[thread].take_given(|to| given.push(to));
        let dropped = self.dropped(thread)[0] - before;
        let losses = self.losses.as_mut().expect("they are counted");
        losses.drops[0] += dropped;
        if face == PRODUCER {
            let data = Data::decode(&packet).expect("Data");
            let number = number(data.name);
            for name in [name(number), data_name(number)] {
                let home = self.seats[thread].home(name.as_ref());
                losses.came(number, home, dropped == 0 || given.contains(&home));
            }
        } else {
            let token = u64::from_be_bytes(token.as_slice().try_into().expect("a consumer's token"));
            let home = self.seats[thread].home(Interest::decode(&packet).expect("an Interest").name);
            assert!(dropped <= 1, "one Interest, {dropped} times");
            if dropped == 1 {
                self.lose(token);
            } else if let Some(&to) = given.get(1).filter(|to| **to != home) {
                losses.goes_astray(token, to);
            }
        }
        self.send(thread, output);
        // A packet may wait for the next round at its home, where nothing drops it.
        while self.seats[thread].has_input() {
            self.round(thread, &mut Vec::new());
        }
    }

    /// The exchange of this token is lost, which its consumer notices.
    fn lose(&mut self, token: u64) {
        self.losses.as_mut().expect("they are counted").lose(token);
        if let Some(ask) = self.asked.remove(&token) {
            self.waiting.remove(&(ask.face, ask.name));
        }
    }

    /// Packets that a thread has dropped on their way to their homes, and to the owners of their faces.
    fn dropped(&mut self, thread: usize) -> [u64; 2] {
        self.seats[thread].rings().map_or([0; 2], |rings| [rings.input_drops, rings.output_drops])
    }

    fn round(&mut self, thread: usize, received: &mut Vec<Received>) {
        let output = self.poll(thread, received);
        self.send(thread, output);
    }

    fn poll(&mut self, thread: usize, received: &mut Vec<Received>) -> Vec<Outgoing> {
        let mut output = Vec::new();
        self.seats[thread].poll(self.now, received, &mut output, &mut Stopwatch::default());
        for (face, loan) in self.seats[thread].worker.take_loans() {
            let changed = if loan.is_some() { self.lent[thread].insert(face) } else { self.lent[thread].remove(&face) };
            assert!(changed, "a loan of {face} begins or ends twice for thread {thread}");
        }
        self.seats[thread].worker.take_old_tables(self.random.random_bool(0.001));
        // What other threads have sent has a mark.
        for outgoing in output.iter_mut().filter(|outgoing| outgoing.fields.congestion_mark == 0) {
            self.order.sends(thread as u64, outgoing, self.checks_nonces);
        }
        output
    }

    /// Sends packets, or passes them on to the threads that own their faces.
    fn send(&mut self, thread: usize, output: Vec<Outgoing>) {
        for mut outgoing in output {
            let socket = self.faces.get(&outgoing.face);
            let is_here = socket.is_some_and(|socket| socket.at == Some(thread));
            if is_here || (socket.is_some() && self.lent[thread].contains(&outgoing.face)) {
                self.sent_directly += u64::from(!is_here);
                self.sent(&outgoing);
            } else if self.losses.is_some() {
                self.pass_on_or_lose(thread, outgoing);
            } else {
                self.no_face += u64::from(!self.owners[thread].pass_on(&mut self.seats[thread], &mut outgoing));
            }
        }
        self.seats[thread].publish_output();
    }

    /// Passes a packet on, and notes what is lost if it is dropped.
    fn pass_on_or_lose(&mut self, thread: usize, mut outgoing: Outgoing) {
        let (before, packet, token) = (self.dropped(thread)[1], outgoing.packet.to_vec(), outgoing.fields.pit_token);
        self.no_face += u64::from(!self.owners[thread].pass_on(&mut self.seats[thread], &mut outgoing));
        if self.dropped(thread)[1] == before {
            return;
        }
        self.losses.as_mut().expect("they are counted").drops[1] += 1;
        if packet[0] == 5 {
            let name = Interest::decode(&packet).expect("an Interest").name;
            let home = self.seats[thread].home(name);
            self.losses.as_mut().expect("they are counted").came(number(name), home, false);
        } else {
            self.lose(u64::from_be_bytes(token.as_slice().try_into().expect("a consumer's token")));
        }
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
        let ask = self.asked.remove(&token).unwrap_or_else(|| panic!("{token} was answered before, or is lost"));
        assert_eq!(ask.face, *face);
        let data = Data::decode(packet).expect("Data");
        assert_eq!((data.name.to_name(), data.content), (data_name(ask.name), &content(ask.name)[..]));
        self.waiting.remove(&(ask.face, ask.name));
        self.answered += 1;
        let answer = Answer { face: *face, name: data.name.to_name(), content: data.content.to_vec() };
        self.new_answers.push((token, answer));
    }

    fn is_done(&mut self) -> bool {
        self.upstream.is_empty()
            && self.moves.is_empty()
            && self.silent.is_empty()
            && self.faces.values().all(|socket| socket.input.is_empty())
            && self.answers_to.iter().all(|answers| answers.is_empty())
            && self.seats.iter_mut().all(|seat| !seat.has_input())
            && self.twin.as_mut().is_none_or(|twin| twin.is_done())
    }

    fn sum(&self, of: fn(&WorkerCounters) -> u64) -> u64 {
        self.seats.iter().map(|seat| of(&seat.worker.counters())).sum()
    }

    /// Packets that found no room in a ring: on their way to their homes, and to the owners of their faces.
    fn ring_drops(&self) -> [u64; 2] {
        ["input-ring-full", "output-ring-full"].map(|wanted| {
            let drops = self.seats.iter().flat_map(|seat| seat.drops());
            drops.filter(|(reason, _)| *reason == wanted).map(|(_, packets)| packets).sum()
        })
    }

    /// Interests that got no answer although there is Data, or did not even reach their homes, by token. Checks that there
    /// are drops which explain this.
    fn lost(&self, case: Case) -> HashSet<u64> {
        let [input, output] = self.ring_drops();
        let mut lost: HashSet<u64> = self.asked.keys().copied().collect();
        let Some(losses) = &self.losses else {
            // A lost Interest or Data of the producer concerns all consumers that wait for it.
            let most = (input + output) as usize * CONSUMERS.len();
            assert!(lost.len() <= most, "{case:?}: {} lost, {input} and {output} dropped", lost.len());
            return lost;
        };
        assert_eq!(losses.drops, [input, output], "{case:?}: each drop is known");
        let home = |ask: &Ask| {
            let name = if ask.is_exact { data_name(ask.name) } else { name(ask.name) };
            self.seats[0].home(name.as_ref())
        };
        let open: Vec<_> = self.asked.iter().map(|(token, ask)| (*token, ask.name, home(ask))).collect();
        losses.explain(&open, |token| {
            lost.contains(&token) || self.expired.contains(&token) || self.given_up.contains(&token)
        });
        lost.extend(losses.exchanges.iter().filter(|token| !self.given_up.contains(token)));
        lost
    }

    /// Checks at the end that both sides have satisfied the same Interests, and that the same have expired, except for
    /// those that full rings have lost.
    fn compare_with_one_thread(&self, case: Case, lost: &HashSet<u64>) {
        let twin = self.twin.as_ref().expect("there is one");
        assert_eq!((twin.exchanges, twin.asked.len(), twin.ring_drops()), (self.exchanges, 0, [0; 2]), "{case:?}");
        let stays = |token: &&u64| !self.given_up.contains(token) && !twin.given_up.contains(token);
        let (lost_silent, lost): (HashSet<u64>, _) =
            lost.iter().filter(stays).partition(|token| twin.expired.contains(token));
        assert_eq!(self.answers.keys().filter(stays).copied().collect::<HashSet<_>>(), lost, "{case:?}");
        assert!(self.expired.is_subset(&twin.expired), "{case:?}");
        let late: HashSet<u64> = twin.expired.difference(&self.expired).copied().collect();
        assert_eq!(late, lost_silent, "{case:?}: Interests without Data expire");
        // What expired so far is in PIT entries of its own.
        let entries = twin.expired.len() as u64;
        assert_eq!(twin.sum(|c| c.unsatisfied_interests), entries, "{case:?}");
        let (expired, dropped) = (self.sum(|c| c.unsatisfied_interests), self.ring_drops()[0]);
        match self.losses {
            Some(_) => assert_eq!(expired + lost_silent.len() as u64, entries, "{case:?}"),
            None => assert!(expired <= entries && expired + dropped >= entries, "{case:?}: {expired} of {entries}"),
        }
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
    let exchanges = std::env::var("BYNAME_TEST_EXCHANGES").map_or(960_000, |n| n.parse().expect("a number"));
    for (seed, case) in (1..).zip(CASES) {
        let mut run = Run::beside_one_thread(seed, case, shares_pit);
        while run.exchanges < exchanges / CASES.len() as u64 {
            run.step(true);
        }
        while !run.is_done() {
            run.step(false);
        }
        run.now = run.now + 2 * SILENT_LIFETIME;
        (0..case.threads).for_each(|thread| run.work(thread));
        let ([input, output], lost) = (run.ring_drops(), run.lost(case));
        if case.ring_packets == ROOMY {
            assert_eq!((lost.len(), input, output), (0, 0, 0), "{case:?}: some were never answered");
        } else {
            let lost = lost.len();
            let enough = input > 100 && (output > 50 || case.lends) && lost > 50;
            assert!(enough, "{case:?}: {lost} lost, {input} and {output} dropped");
        }
        run.compare_with_one_thread(case, &lost);
        let in_interests = run.sum(|c| c.faces.in_interests);
        let drops = input + output;
        assert!(in_interests <= run.exchanges, "{case:?}");
        assert!(in_interests + run.given_up.len() as u64 + drops >= run.exchanges, "{case:?}");
        let (spread, hits) = (run.sum(|c| c.spread_interests), run.sum(|c| c.spread_hits));
        let joins = run.sum(|c| c.spread_joins);
        let strayed = spread - hits - joins;
        let spreads = case.threads > 1 && case.window > 0;
        assert!((joins > run.exchanges / 1000) == (spreads && shares_pit), "{case:?}: {joins} of {}", run.exchanges);
        // After an exchange of tables, threads learn anew which names are hot.
        assert!((hits > run.exchanges / 150) == spreads, "{case:?}: {hits} hits of {}", run.exchanges);
        assert!((strayed > 20) == spreads, "{case:?}: {strayed} strays");
        let directly = run.sent_directly;
        assert!((directly > run.exchanges / 5) == case.lends, "{case:?}: {directly} of {}", run.exchanges);
        assert!((run.moved > exchanges / 5000) == (case.threads > 1), "{case:?}: {} moves", run.moved);
        assert!(run.table_exchanges > 3, "{case:?}: {} exchanges of tables", run.table_exchanges);
        assert_eq!(run.owners.iter().map(Owners::drops).sum::<u64>(), 0, "{case:?}: little was held back");
        assert!(run.no_face <= run.given_up.len() as u64, "{case:?}: {} packets for gone faces", run.no_face);
        // What was lost expires, and nothing else is left.
        run.now = run.now + 2 * LIFETIME;
        (0..case.threads).for_each(|thread| run.work(thread));
        assert_eq!(run.sum(|c| c.pit_entries), 0, "{case:?}");
        assert_eq!(run.sum(|c| c.shared_pit_entries), 0, "{case:?}");
    }
}

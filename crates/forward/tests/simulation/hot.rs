//! Hot names that change, over workers that run ahead of or behind each other. Every Interest must be answered once, by
//! Data of its name.
//!
//! `BYNAME_TEST_EXCHANGES` sets the number of exchanges.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use byname_forward::dispatch::{Dispatcher, Parcel};
use byname_forward::worker::{Worker, WorkerConfig};
use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received, Ticks};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Component, Data, Interest, Name, NameHashKey, PitToken};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::bursts::worker;

/// Number of names; few of them are popular at one time.
const NAMES: u64 = 4000;
/// Number of Interests after which other names become popular.
const MOVE: u64 = 3000;
/// Maximum of Interests under way at once.
const UNDER_WAY: usize = 300;
const PRODUCER: FaceId = FaceId(257);
const CONSUMERS: [u64; 4] = [256, 258, 259, 260];

fn name(number: u64) -> Name {
    let name: Name = "/e".parse().expect("a literal name");
    name.join(Component::generic(&number.to_be_bytes()))
}

/// An Interest that a consumer waits for.
struct Asked {
    name: u64,
    face: FaceId,
}

struct Run {
    random: SmallRng,
    now: Ticks,
    dispatcher: Dispatcher,
    workers: Vec<Worker>,
    /// The ring in front of each worker.
    rings: Vec<VecDeque<Parcel>>,
    strays: VecDeque<Parcel>,
    /// Pending Interests of consumers, by token.
    asked: HashMap<u64, Asked>,
    /// Pairs of a face and the name that it waits for.
    waiting: HashSet<(FaceId, u64)>,
    /// Interests that the producer has not answered yet, with their tokens.
    upstream: Vec<(Vec<u8>, PitToken)>,
    exchanges: u64,
    strayed: u64,
}

impl Run {
    fn new(seed: u64, count: usize, window: u32) -> Self {
        let config = WorkerConfig { cs_packets_max: 150, ..WorkerConfig::default() };
        let mut dispatcher = Dispatcher::new(NameHashKey::new([5, 6]), count, 0, 77);
        dispatcher.spread_hot_names(window);
        let join = |number| {
            let mut worker = worker("best-route", config.clone());
            worker.join(dispatcher.membership(number));
            worker
        };
        Run {
            random: SmallRng::seed_from_u64(seed),
            now: Ticks::from_ms(1000),
            workers: (0..count).map(join).collect(),
            dispatcher,
            rings: (0..count).map(|_| VecDeque::new()).collect(),
            strays: VecDeque::new(),
            asked: HashMap::new(),
            waiting: HashSet::new(),
            upstream: Vec::new(),
            exchanges: 0,
            strayed: 0,
        }
    }

    /// One random event: a packet arrives, or a worker does some of its work.
    fn step(&mut self, asks: bool) {
        self.now = self.now + Duration::from_micros(self.random.random_range(0..200));
        match self.random.random_range(0..8) {
            0..3 if asks && self.asked.len() < UNDER_WAY => self.ask(),
            3 if !self.upstream.is_empty() => self.answer(),
            4 => {
                if let Some(stray) = self.strays.pop_front() {
                    let rings = &mut self.rings;
                    self.dispatcher.dispatch_home(stray, |worker, parcel| rings[worker].push_back(parcel));
                }
            }
            5 if self.random.random_bool(0.01) => self.manage(),
            _ => self.work(),
        }
    }

    fn receive(&mut self, face: FaceId, pit_token: PitToken, bytes: &[u8]) {
        let fields = LinkFields { pit_token, ..LinkFields::default() };
        let received = Received { face, fields, packet: Packet::copy_from(bytes) };
        let rings = &mut self.rings;
        self.dispatcher.dispatch(received, |worker, parcel| rings[worker].push_back(parcel));
    }

    fn ask(&mut self) {
        let unit = (self.random.random_range(0..1 << 30) + 1) as f64 / f64::from(1 << 30);
        let rank = (NAMES as f64).powf(unit) as u64 - 1;
        let name = (rank + self.exchanges / MOVE * 37) % NAMES;
        let face = FaceId(CONSUMERS[self.random.random_range(0..4)]);
        if !self.waiting.insert((face, name)) {
            // The consumer already waits for this name.
            return;
        }
        let token = self.exchanges;
        self.exchanges += 1;
        self.asked.insert(token, Asked { name, face });
        let interest = InterestBuilder::new(self::name(name), token as u32)
            .must_be_fresh(self.random.random_bool(0.2))
            .can_be_prefix(self.random.random_bool(0.1))
            .lifetime_ms(4_000_000)
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

    fn manage(&mut self) {
        let worker = self.random.random_range(0..self.workers.len());
        match self.random.random_range(0..3) {
            0 => _ = self.workers[worker].cs_erase(Name::default().as_ref(), 20),
            1 => self.workers[worker].cs_config(Some(50 + self.random.random_range(0..200)), None, None),
            _ => self.workers[worker].cs_config(None, None, Some(self.random.random_bool(0.8))),
        }
    }

    fn work(&mut self) {
        let number = self.random.random_range(0..self.workers.len());
        let few = self.rings[number].len().min(self.random.random_range(0..20));
        let mut burst: Vec<Parcel> = self.rings[number].drain(..few).collect();
        let mut output = Vec::new();
        self.workers[number].poll_parcels(self.now, &mut burst, &mut output);
        let before = self.strays.len();
        self.strays.extend(self.workers[number].strays());
        self.strayed += (self.strays.len() - before) as u64;
        output.iter().for_each(|sent| self.sent(sent));
    }

    fn sent(&mut self, Outgoing { face, fields, packet }: &Outgoing) {
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

    fn is_done(&self) -> bool {
        self.upstream.is_empty() && self.strays.is_empty() && self.rings.iter().all(VecDeque::is_empty)
    }
}

#[test]
fn no_answer_is_lost_or_doubled_while_hot_names_move() {
    let exchanges = std::env::var("BYNAME_TEST_EXCHANGES").map_or(240_000, |n| n.parse().expect("a number"));
    let cases = [(2, 256), (3, 64), (5, 4096), (22, 1024)];
    for (seed, (count, window)) in (1..).zip(cases) {
        let mut run = Run::new(seed, count, window);
        while run.exchanges < exchanges / cases.len() as u64 {
            run.step(true);
        }
        while !run.is_done() {
            run.step(false);
        }
        assert_eq!(run.asked.len(), 0, "{count} workers, window {window}: some were never answered");
        let sum = |of: fn(&byname_forward::worker::WorkerCounters) -> u64| -> u64 {
            run.workers.iter().map(|worker| of(&worker.counters())).sum()
        };
        let (spread, hits) = (sum(|c| c.spread_interests), sum(|c| c.spread_hits));
        assert_eq!(spread - hits, run.strayed);
        assert!(hits > run.exchanges / 20 && run.strayed > 20, "{hits} hits, {} strays", run.strayed);
        assert_eq!(sum(|c| c.pit_entries), 0);
        assert_eq!(sum(|c| c.faces.in_interests), run.exchanges);
    }
}

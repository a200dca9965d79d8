//! Compares several threads with a single one: they must agree in sent packets, counters and tables. Each packet is
//! forwarded to its end before the next comes.

use std::time::Duration;

use byname_forward::dispatch::Dispatcher;
use byname_forward::seat::{Owners, Seat, Workers, owner};
use byname_forward::stages::Stopwatch;
use byname_forward::worker::{WorkerConfig, WorkerCounters};
use byname_forward::{FaceId, LinkFields, Outgoing, Received, Ticks};
use byname_wire::data::DataBuilder;
use byname_wire::interest::{InterestBuilder, with_nonce};
use byname_wire::name::component_type;
use byname_wire::{Component, Data, Interest, NackReason, Name, NameHashKey, PitToken};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::bursts::{FACES, Sent, name, packet, receive, sorted, worker};

/// One packet from a peer.
type Packet = (u64, LinkFields, Vec<u8>);

/// How workers share the load of hot names.
#[derive(Debug, Clone, Copy)]
struct Hot {
    /// Names that are popular within so many Interests of a thread are hot.
    window: u32,
    shares_pit: bool,
}

/// The workers of threads, each in its seat. Packets cross rings between them, as in the router.
struct Shards {
    seats: Vec<Seat>,
    owners: Vec<Owners>,
    random: SmallRng,
    /// Number of Data packets that more than one worker got. `data` counts all of them.
    copied: usize,
    data: usize,
    /// Whether Interests for hot names go to any worker.
    spreads: bool,
    claims: bool,
    /// Whether workers join Interests to those of other workers. Then packets come faster, and more of them are alike:
    /// Interests join others that were sent upstream a few milliseconds before.
    joins: bool,
    case: String,
}

impl Shards {
    /// With every second seed, names are at home where they are first asked for.
    fn new(
        (seed, strategy): (u64, &str),
        config: &WorkerConfig,
        (count, components): (usize, usize),
        hot: Option<Hot>,
    ) -> Self {
        let mut dispatcher = Dispatcher::new(NameHashKey::new([5, 6]), count, components, 77);
        if let Some(hot) = hot {
            dispatcher.spread_hot_names(hot.window);
            if hot.shares_pit {
                dispatcher.share_pit_of_hot_names();
            }
        }
        let claims = seed % 2 == 1;
        if claims {
            dispatcher.claim_names(CLAIMED).expect("there is memory");
        }
        let join = |i| {
            let mut worker = worker(strategy, config.clone());
            worker.join(dispatcher.membership(i));
            worker
        };
        let workers = Workers::new(dispatcher.of_thread(0), (0..count).map(join).collect(), 16, false);
        let owners = (0..count).map(|_| Owners::new(count)).collect();
        let joins = hot.is_some_and(|hot| hot.shares_pit);
        let (spreads, case) = (hot.is_some(), format!("{count} workers, {components} components, {hot:?}, {claims}"));
        let (seats, random) = (workers.seats().expect("there is memory"), SmallRng::seed_from_u64(count as u64));
        Shards { seats, owners, random, copied: 0, data: 0, spreads, claims, joins, case }
    }

    /// The thread of the packet's face takes it. Then all threads that were given something have rounds, in any order,
    /// until nothing is left to do.
    fn poll(&mut self, now: Ticks, packet: &Packet) -> Vec<Outgoing> {
        let (mut sent, thread) = (Vec::new(), owner(FaceId(packet.0), self.seats.len()));
        let given_before = self.given(thread);
        let mut waiting = self.round(now, thread, receive(std::slice::from_ref(packet)), &mut sent);
        if packet.2[0] == 6 {
            self.data += 1;
            self.copied += usize::from(self.given(thread) - given_before > 1);
        }
        while !waiting.is_empty() {
            let any = waiting.swap_remove(self.random.random_range(0..waiting.len()));
            for thread in self.round(now, any, Vec::new(), &mut sent) {
                if !waiting.contains(&thread) {
                    waiting.push(thread);
                }
            }
        }
        sent
    }

    /// A round of one thread. What it sends on its own faces is appended to `sent`. Returns the threads that have
    /// something to do afterwards.
    fn round(
        &mut self,
        now: Ticks,
        thread: usize,
        mut received: Vec<Received>,
        sent: &mut Vec<Outgoing>,
    ) -> Vec<usize> {
        let (seat, mut output, mut waiting) = (&mut self.seats[thread], Vec::new(), Vec::new());
        seat.poll(now, &mut received, &mut output, &mut Stopwatch::default());
        for mut outgoing in output {
            if !self.owners[thread].pass_on(seat, &mut outgoing) {
                sent.push(outgoing);
            }
        }
        seat.publish_output();
        seat.take_given(|other| waiting.push(other));
        if seat.has_input() {
            waiting.push(thread);
        }
        waiting
    }

    /// Packets that a thread has given its own worker and others so far, with all copies.
    fn given(&mut self, thread: usize) -> u64 {
        self.seats[thread].rings().map_or(0, |rings| rings.home + rings.foreign)
    }

    /// Seats look for due timers up to one bucket late, which the single worker does not.
    fn expire(&mut self, now: Ticks) {
        for seat in &mut self.seats {
            let mut output = Vec::new();
            seat.worker.poll(now, &mut Vec::new(), &mut output);
            assert!(output.is_empty());
        }
    }

    fn sum(&self, of: impl Fn(&WorkerCounters) -> u64) -> u64 {
        self.seats.iter().map(|seat| of(&seat.worker.counters())).sum()
    }
}

/// The sent packets without our tokens. Each appears once, because a downstream may get the same packet from two
/// workers.
fn told(output: &[Outgoing]) -> Vec<Sent> {
    let mut told = sorted(output);
    for sent in told.iter_mut().filter(|sent| sent.1.is_none() && sent.2[0] == 5) {
        sent.3.clear();
    }
    told.dedup();
    told
}

/// An Interest that left, and its face.
struct Asked {
    face: u64,
    token: PitToken,
    packet: Vec<u8>,
}

/// A packet that peers may send. Some answer the Interests that they got, and echo the token if `echo` is set.
fn exchange(random: &mut SmallRng, asked: &mut Vec<Asked>, number: u64, echo: bool) -> Packet {
    if asked.is_empty() || random.random_bool(0.6) {
        return match random.random_range(0..8) {
            0 => digest_interest(random, number),
            _ => packet(random, &mut Vec::new(), number),
        };
    }
    let Asked { face, token, packet } = asked.swap_remove(random.random_range(0..asked.len()));
    let pit_token = if echo { token } else { PitToken::NONE };
    if random.random_bool(0.2) {
        let nack = Some(NackReason::NoRoute);
        return (face, LinkFields { nack, pit_token, ..Default::default() }, packet);
    }
    let interest = Interest::decode(&packet).expect("what was sent can be parsed");
    let mut answer = interest.name.to_name();
    if answer.as_ref().component(-1).is_some_and(|c| c.typ == component_type::IMPLICIT_SHA256_DIGEST) {
        answer = answer.as_ref().prefix(answer.as_ref().len() - 1).to_name();
    } else if interest.can_be_prefix {
        for i in 0..random.random_range(0..3) {
            answer = answer.join(Component::generic(&[b'b' + i as u8]));
        }
    }
    (face, LinkFields { pit_token, ..Default::default() }, data(answer, random.random_range(0..2)))
}

fn data(name: Name, version: u8) -> Vec<u8> {
    DataBuilder::new(name).freshness_ms(50).content(vec![version]).encode()
}

/// An Interest for one Data packet by its digest. It may have CanBePrefix.
fn digest_interest(random: &mut SmallRng, number: u64) -> Packet {
    let name = name(random);
    let wire = data(name.clone(), random.random_range(0..2));
    let digest = Data::decode(&wire).expect("built above").implicit_digest();
    let full = name.join(Component { typ: component_type::IMPLICIT_SHA256_DIGEST, value: &digest });
    let interest = InterestBuilder::new(full, number as u32).can_be_prefix(random.random_bool(0.3)).encode();
    (FACES.start + random.random_range(0..FACES.end - FACES.start), LinkFields::default(), interest)
}

/// An Interest for a name that many ask for, some of them again and again.
fn interest_of_a_crowd(random: &mut SmallRng, number: u64) -> Packet {
    let name = ["/a/b/c", "/a/d", "/e/f"][random.random_range(0..3)].parse().expect("a literal name");
    let lifetime_ms = [40, 300, 400][random.random_range(0..3)];
    let hop_limit = random.random_bool(0.3).then(|| random.random_range(0..3));
    let must_be_fresh = random.random_bool(0.8);
    let mut interest = InterestBuilder::new(name, 0).must_be_fresh(must_be_fresh).lifetime_ms(lifetime_ms);
    if let Some(hop_limit) = hop_limit {
        interest = interest.hop_limit(hop_limit);
    }
    let face = FACES.start + random.random_range(0..FACES.end - FACES.start);
    let pit_token = PitToken::new(&number.to_be_bytes()).expect("eight bytes");
    (face, LinkFields { pit_token, ..Default::default() }, interest.encode())
}

/// Room for claims, which is too little for all names.
const CLAIMED: usize = 30;

/// Runs random exchanges through several workers and through a single one. Returns the share of Data that was copied.
fn run(seed: u64, strategy: &str, count: usize, components: usize, config: &WorkerConfig) -> f64 {
    let shards = run_through(seed, strategy, Shards::new((seed, strategy), config, (count, components), None), config);
    shards.copied as f64 / shards.data as f64
}

/// Runs random exchanges through these workers and through a single one.
fn run_through(seed: u64, strategy: &str, mut shards: Shards, config: &WorkerConfig) -> Shards {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut alone = worker(strategy, config.clone());
    let (mut now, mut asked) = (Ticks::from_ms(1000), Vec::new());
    for step in 0..1500 {
        now = now + Duration::from_millis(random.random_range(0..if shards.joins { 2 } else { 8 }));
        let mut packet = if shards.joins && random.random_bool(0.4) {
            interest_of_a_crowd(&mut random, step)
        } else {
            exchange(&mut random, &mut asked, step + 1, !seed.is_multiple_of(3))
        };
        if (shards.spreads || shards.claims) && packet.1.nack.is_none() && packet.2[0] == 5 {
            // A new nonce for each Interest: with an old one it could loop, which the home, or a former home, would detect
            // and another worker would not.
            packet.2 = with_nonce(&Interest::decode(&packet.2).expect("an Interest"), step as u32);
        }
        let mut output = Vec::new();
        alone.poll(now, &mut receive(std::slice::from_ref(&packet)), &mut output);
        shards.expire(now);
        let output_of_all = shards.poll(now, &packet);
        let case = format!("{strategy}, {}, seed {seed}, step {step}", shards.case);
        assert_eq!(told(&output_of_all), told(&output), "{case}");
        let ours = alone.counters();
        let counts: [fn(&WorkerCounters) -> u64; 10] = [
            |c| c.pit_entries,
            |c| c.satisfied_interests,
            |c| c.unsatisfied_interests,
            |c| c.faces.in_interests,
            |c| c.faces.in_data,
            |c| c.faces.in_nacks,
            |c| c.faces.out_interests,
            |c| c.faces.out_nacks,
            |c| c.cs.hits,
            |c| c.cs.packets,
        ];
        for of in counts {
            assert_eq!(shards.sum(of), of(&ours), "{case}");
        }
        for sent in output_of_all.into_iter().filter(|o| o.packet[0] == 5 && o.fields.nack.is_none()) {
            asked.push(Asked { face: sent.face.0, token: sent.fields.pit_token, packet: sent.packet.to_vec() });
        }
    }
    shards
}

/// As many seeds as were asked for, or fewer for many threads, which take long.
fn seeds(threads: usize, many: u64) -> std::ops::Range<u64> {
    0..if threads > 5 { many / 3 } else { many }
}

#[test]
fn workers_answer_as_one_does_whatever_decides_who_is_asked() {
    let config = WorkerConfig { cs_packets_max: 0, ..Default::default() };
    let mut copied_somewhere = 0;
    for strategy in ["best-route", "multicast"] {
        for (count, components) in [(1, 0), (2, 0), (2, 2), (3, 1), (3, 3), (5, 0), (5, 2), (64, 4)] {
            for seed in seeds(count, 6) {
                let copied = run(seed, strategy, count, components, &config);
                assert!(copied < 0.9, "{copied} with {count} workers, {components} components");
                // Data whose name has got another home since it was asked for is passed on.
                let passed = if seed % 2 == 1 && count > 1 { 0.1 } else { 0.0 };
                let most = if count > 1 && components != 1 { 1.0 } else { passed };
                assert!(copied <= most, "{copied} with {count} workers, {components} components");
                copied_somewhere += usize::from(copied > 0.0);
            }
        }
    }
    assert!(copied_somewhere > 30, "{copied_somewhere}");
}

#[test]
fn where_no_name_is_too_short_the_content_store_answers_as_one_does() {
    for count in [2, 5] {
        for seed in 0..6 {
            run(seed, "best-route", count, 1, &WorkerConfig::default());
        }
    }
}

/// The same, with few hot names and with nearly all names hot.
#[test]
fn with_hot_names_any_worker_answers_as_one_does() {
    let config = WorkerConfig::default();
    for strategy in ["best-route", "multicast"] {
        for count in [2, 3, 5, 64] {
            for (seed, window) in seeds(count, 6).zip([64, 256, 4096].into_iter().cycle()) {
                let hot = Hot { window, shares_pit: false };
                let shards = Shards::new((seed, strategy), &config, (count, 1), Some(hot));
                let shards = run_through(seed, strategy, shards, &config);
                let hits = shards.sum(|c| c.spread_hits);
                assert!(window > 256 || hits > 50, "{hits} with {count} workers, window {window}");
                let spread = shards.sum(|c| c.spread_interests);
                assert!(spread < 2 * hits + 20, "{spread} of which {hits}");
            }
        }
    }
}

/// The same, where workers also share PIT entries: with a content store, and without one.
#[test]
fn with_shared_pit_entries_any_worker_joins_as_one_does() {
    let mut joined_with_store = 0;
    for cs_packets_max in [0, 65_536] {
        let config = WorkerConfig { cs_packets_max, ..Default::default() };
        for (strategy, may_join) in [("best-route", true), ("multicast", false)] {
            for count in [2, 3, 5, 64] {
                for (seed, window) in seeds(count, 3).zip([64, 256, 4096]) {
                    let hot = Hot { window, shares_pit: true };
                    let shards = Shards::new((seed, strategy), &config, (count, 1), Some(hot));
                    let shards = run_through(seed, strategy, shards, &config);
                    let joins = shards.sum(|c| c.spread_joins);
                    // The content store answers most of what could join.
                    let least = if may_join && window <= 256 && cs_packets_max == 0 { 40 } else { 0 };
                    assert!(joins >= least && (may_join || joins == 0), "{joins}: {strategy}, {count}, {window}");
                    joined_with_store += if cs_packets_max > 0 { joins } else { 0 };
                    let busy = shards.sum(|c| c.spread_busy);
                    assert_eq!(busy, 0, "only one thread runs");
                }
            }
        }
    }
    assert!(joined_with_store > 50, "{joined_with_store}");
}

/// Malformed packets, and packets by tags, which need no home.
#[test]
fn garbage_is_counted_by_the_dispatcher_and_addressed_packets_stay() {
    let mut dispatcher = Dispatcher::new(NameHashKey::new([5, 6]), 3, 2, 77).of_thread(2);
    let mut seen = Vec::new();
    for bytes in [&[][..], &[5, 0], &[6, 0], &[1, 2, 3]] {
        let received = receive(&[(256, LinkFields::default(), bytes.to_vec())]).remove(0);
        dispatcher.dispatch(received, |worker, _| seen.push(worker));
    }
    let malformed = dispatcher.drops().all().into_iter().find(|(reason, _)| *reason == "malformed");
    assert_eq!((malformed, seen.len()), (Some(("malformed", 4)), 0));
    let by_locator = [byname_wire::tagnet::types::LOCATOR_PACKET as u8, 0];
    let received = receive(&[(256, LinkFields::default(), by_locator.to_vec())]).remove(0);
    dispatcher.dispatch(received, |worker, _| seen.push(worker));
    assert_eq!(seen, [2]);
}

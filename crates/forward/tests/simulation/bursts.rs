//! Compares a burst with its packets one by one: the results must agree in sent packets, counters and tables.

use std::sync::Arc;
use std::time::Duration;

use byname_forward::face_table::{LinkType, Scope};
use byname_forward::strategy::StrategyChoice;
use byname_forward::tables::{Nexthop, NexthopGroup, Tables};
use byname_forward::worker::{CsPolicy, Prefetch, Worker, WorkerConfig};
use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received, Ticks};
use byname_lookup::oracle::Oracle;
use byname_lookup::{Change, Control, EntryId};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{NackReason, Name, NameHashKey, PitToken};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

pub const FACES: std::ops::Range<u64> = 256..261;

/// The parts of a sent packet that may differ.
pub type Sent = (FaceId, Option<NackReason>, Vec<u8>, Vec<u8>, Option<FaceId>);

pub fn name(random: &mut SmallRng) -> Name {
    let names = ["/a", "/a/b", "/a/b/c", "/a/d", "/e/f", "/nowhere"];
    names[random.random_range(0..names.len())].parse().expect("a literal name")
}

pub fn worker(strategy: &str, config: WorkerConfig) -> Worker {
    let mut fib = Oracle::new();
    let rules = [("/a", 0), ("/a/b", 1), ("/e", 2)];
    for (prefix, entry) in rules {
        fib.apply(&[Change::Set(prefix.parse().expect("a literal name"), EntryId(entry))])
            .expect("the oracle takes all");
    }
    let tables = Arc::new(Tables::new(fib.query()));
    // For another key.
    tables.replace_replica(1, fib.query());
    for (entry, faces) in [(0, &[258, 259, 260][..]), (1, &[256, 260]), (2, &[257])] {
        let nexthops = faces.iter().zip(0..).map(|(&face, cost)| Nexthop { face: FaceId(face), cost }).collect();
        tables.set_group(EntryId(entry), Some(NexthopGroup { nexthops }));
    }
    let mut worker = Worker::new(config, NameHashKey::new([5, 6]), tables, 1);
    for face in FACES {
        worker.face_up(FaceId(face), Scope::NonLocal, LinkType::PointToPoint);
        worker.set_local_fields(FaceId(face), face == 256);
    }
    let strategy = format!("/localhost/nfd/strategy/{strategy}/v=5").parse().expect("a strategy's name");
    worker.set_strategy_choices(&[StrategyChoice { prefix: Name::default(), strategy }]);
    worker
}

/// A packet from a random face. Most packets are about names of others in the burst.
pub fn packet(random: &mut SmallRng, asked: &mut Vec<(u64, Vec<u8>)>, number: u64) -> (u64, LinkFields, Vec<u8>) {
    let face = FACES.start + random.random_range(0..FACES.end - FACES.start);
    let token = PitToken::new(&number.to_be_bytes()).expect("eight bytes");
    match random.random_range(0..10) {
        0..5 => {
            let interest = InterestBuilder::new(name(random), random.random_range(0..40))
                .can_be_prefix(random.random_bool(0.3))
                .must_be_fresh(random.random_bool(0.3))
                .lifetime_ms(20 + random.random_range(0..400))
                .encode();
            let next_hop = random.random_bool(0.1).then(|| FaceId(FACES.start + random.random_range(0..6)));
            (face, LinkFields { pit_token: token, next_hop_face_id: next_hop, ..Default::default() }, interest)
        }
        5..9 => {
            let content = vec![number as u8; 4];
            let data =
                DataBuilder::new(name(random)).freshness_ms(random.random_range(0..3) * 100).content(content).encode();
            (face, LinkFields { no_cache: random.random_bool(0.2), ..Default::default() }, data)
        }
        _ => {
            let reason = if random.random_bool(0.5) { NackReason::NoRoute } else { NackReason::Congestion };
            let fields = LinkFields { nack: Some(reason), ..Default::default() };
            match asked.pop() {
                Some((from, interest)) => (from, fields, interest),
                None => (face, fields, InterestBuilder::new(name(random), 1).encode()),
            }
        }
    }
}

pub fn receive(packets: &[(u64, LinkFields, Vec<u8>)]) -> Vec<Received> {
    let received = |(face, fields, bytes): &(u64, LinkFields, Vec<u8>)| Received {
        face: FaceId(*face),
        fields: fields.clone(),
        packet: Packet::copy_from(bytes),
    };
    packets.iter().map(received).collect()
}

/// Sorts the output, because Interests leave after the rest of their burst.
pub fn sorted(output: &[Outgoing]) -> Vec<Sent> {
    let sent = |o: &Outgoing| {
        let token = o.fields.pit_token.as_slice().to_vec();
        (o.face, o.fields.nack, o.packet.to_vec(), token, o.fields.incoming_face_id)
    };
    let mut sent: Vec<Sent> = output.iter().map(sent).collect();
    sent.sort_by_cached_key(|sent| format!("{sent:?}"));
    sent
}

fn run(seed: u64, strategy: &str, prefetch: Prefetch) {
    let mut random = SmallRng::seed_from_u64(seed);
    let config = || WorkerConfig {
        pit_entries_max: 6,
        cs_packets_max: 3,
        cs_policy: if seed.is_multiple_of(2) { CsPolicy::Lru } else { CsPolicy::S3Fifo },
        ..Default::default()
    };
    let (mut together, mut alone) = (worker(strategy, config()), worker(strategy, config()));
    together.set_prefetch(prefetch);
    alone.set_prefetch(Prefetch::None);
    let mut now = Ticks::from_ms(1000);
    let mut asked = Vec::new();
    for step in 0..60 {
        now = now + Duration::from_millis(random.random_range(0..60));
        let count = 1 + random.random_range(0..40);
        let packets: Vec<_> = (0..count).map(|i| packet(&mut random, &mut asked, 100 * step + i)).collect();
        let (mut sent, mut sent_alone) = (Vec::new(), Vec::new());
        together.poll(now, &mut receive(&packets), &mut sent);
        for packet in &packets {
            alone.poll(now, &mut receive(std::slice::from_ref(packet)), &mut sent_alone);
        }
        assert_eq!(sorted(&sent), sorted(&sent_alone), "{strategy}, seed {seed}, step {step}");
        assert_eq!(together.counters(), alone.counters(), "{strategy}, seed {seed}, step {step}");
        let interests = sent.iter().filter(|o| o.packet[0] == 5 && o.fields.nack.is_none());
        asked.extend(interests.map(|o| (o.face.0, o.packet.to_vec())));
    }
}

#[test]
fn a_burst_is_handled_as_its_packets_one_by_one() {
    for strategy in ["best-route", "multicast", "asf", "access", "random"] {
        for prefetch in [Prefetch::None, Prefetch::Cascade, Prefetch::AllAtOnce] {
            for seed in 0..16 {
                run(seed, strategy, prefetch);
            }
        }
    }
}

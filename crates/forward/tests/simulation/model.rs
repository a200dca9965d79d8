//! Compares one worker with a forwarder made of lists, on the same packets: both must answer the same Interests. Data
//! comes from faces that were asked and from others, whose Data must be ignored.

use std::sync::Arc;
use std::time::Duration;

use byname_forward::face_table::{LinkType, Scope};
use byname_forward::tables::{Nexthop, NexthopGroup, Tables};
use byname_forward::worker::{CsPolicy, Worker, WorkerConfig};
use byname_forward::{FaceId, LinkFields, Packet, Received, Ticks};
use byname_lookup::oracle::Oracle;
use byname_lookup::{Change, Control, EntryId};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::name::component_type;
use byname_wire::{Component, Data, Name, NameHashKey, PitToken};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const UPSTREAM: FaceId = FaceId(300);
/// Serves the names below `/a/b`.
const UPSTREAM_OF_AB: FaceId = FaceId(301);
/// Gets no Interests.
const ATTACKER: FaceId = FaceId(302);
const SENDERS: [FaceId; 4] = [UPSTREAM, UPSTREAM_OF_AB, ATTACKER, FaceId(256)];

#[derive(Clone, PartialEq)]
struct Asked {
    face: FaceId,
    name: Name,
    can_be_prefix: bool,
    must_be_fresh: bool,
    expiry: Ticks,
    token: u64,
}

struct Stored {
    wire: Vec<u8>,
    fresh_until: Ticks,
}

/// Pending Interests and stored Data, searched linearly.
#[derive(Default)]
struct Model {
    pending: Vec<Asked>,
    stored: Vec<Stored>,
    /// Number of Data packets that met Interests of which none was sent to their face.
    unasked: u64,
}

/// The face that an Interest of this name is sent to.
fn upstream_of(name: &Name) -> FaceId {
    let ab: Name = "/a/b".parse().expect("a literal name");
    if ab.as_ref().is_prefix_of(&name.as_ref()) { UPSTREAM_OF_AB } else { UPSTREAM }
}

/// Whether this encoded Data answers an Interest, apart from freshness.
fn answers(wire: &[u8], asked: &Asked) -> bool {
    let data = Data::decode(wire).expect("it was built well");
    let full_name = data
        .name
        .to_name()
        .join(Component { typ: component_type::IMPLICIT_SHA256_DIGEST, value: &data.implicit_digest() });
    let name = asked.name.as_ref();
    data.name == name || full_name == asked.name || asked.can_be_prefix && name.is_prefix_of(&data.name)
}

impl Model {
    /// Returns whether the content store answers. If not, the Interest is now pending.
    fn interest(&mut self, now: Ticks, asked: Asked) -> bool {
        self.pending.retain(|p| p.expiry > now);
        let fresh = |s: &Stored| !asked.must_be_fresh || now < s.fresh_until;
        if self.stored.iter().any(|s| answers(&s.wire, &asked) && fresh(s)) {
            return true;
        }
        let same = |p: &Asked| {
            (p.face, &p.name, p.can_be_prefix, p.must_be_fresh)
                == (asked.face, &asked.name, asked.can_be_prefix, asked.must_be_fresh)
        };
        self.pending.retain(|p| !same(p));
        self.pending.push(asked);
        false
    }

    /// The tokens of the Interests that Data answers.
    fn data(&mut self, now: Ticks, wire: &[u8], from: FaceId, freshness: Duration) -> Vec<u64> {
        self.pending.retain(|p| p.expiry > now);
        let met = self.pending.iter().any(|p| answers(wire, p));
        let is_answered = |p: &Asked| answers(wire, p) && upstream_of(&p.name) == from;
        let (answered, left): (Vec<_>, Vec<_>) = self.pending.drain(..).partition(is_answered);
        self.pending = left;
        self.unasked += u64::from(met && answered.is_empty());
        if !answered.is_empty() {
            let name = |wire: &[u8]| Data::decode(wire).expect("it was built well").name.to_name();
            self.stored.retain(|s| name(&s.wire) != name(wire));
            self.stored.push(Stored { wire: wire.to_vec(), fresh_until: now + freshness });
        }
        let mut tokens: Vec<_> = answered.iter().map(|p| p.token).collect();
        tokens.sort_unstable();
        tokens
    }
}

fn worker(cs_policy: CsPolicy) -> Worker {
    let mut fib = Oracle::new();
    let ab = "/a/b".parse().expect("a literal name");
    let rules = [Change::Set(Name::default(), EntryId(0)), Change::Set(ab, EntryId(1))];
    fib.apply(&rules).expect("the oracle takes all");
    let tables = Arc::new(Tables::new(fib.query()));
    for (entry, face) in [(EntryId(0), UPSTREAM), (EntryId(1), UPSTREAM_OF_AB)] {
        tables.set_group(entry, Some(NexthopGroup { nexthops: [Nexthop { face, cost: 0 }].into() }));
    }
    let config = WorkerConfig { cs_policy, ..Default::default() };
    let mut worker = Worker::new(config, NameHashKey::new([3, 4]), tables, 1);
    for face in 256..260 {
        worker.face_up(FaceId(face), Scope::Local, LinkType::PointToPoint);
    }
    for face in [UPSTREAM, UPSTREAM_OF_AB, ATTACKER] {
        worker.face_up(face, Scope::NonLocal, LinkType::PointToPoint);
    }
    worker
}

fn random_name(random: &mut SmallRng) -> Name {
    let depth = 1 + random.random_range(0..3);
    (0..depth).fold(Name::default(), |name, _| {
        name.join(Component::generic([&b"a"[..], b"b", b""][random.random_range(0..3)]))
    })
}

fn run(seed: u64, cs_policy: CsPolicy) {
    let (mut random, mut model, mut worker) = (SmallRng::seed_from_u64(seed), Model::default(), worker(cs_policy));
    let mut now = Ticks::from_ms(1000);
    let mut built: Vec<Vec<u8>> = Vec::new();
    for step in 0..600u64 {
        // An odd number, so that no Interest expires at the very moment a packet arrives.
        now = now + Duration::from_micros(random.random_range(0..40_000) * 2 + 1);
        let mut output = Vec::new();
        if random.random_bool(0.6) {
            let mut name = random_name(&mut random);
            if let Some(wire) = built.last().filter(|_| random.random_bool(0.1)) {
                let data = Data::decode(wire).expect("it was built well");
                let digest = data.implicit_digest();
                name =
                    data.name.to_name().join(Component { typ: component_type::IMPLICIT_SHA256_DIGEST, value: &digest });
            }
            let asked = Asked {
                face: FaceId(256 + random.random_range(0..4)),
                name,
                can_be_prefix: random.random_bool(0.3),
                must_be_fresh: random.random_bool(0.3),
                expiry: now,
                token: step,
            };
            let lifetime_ms = 50 + random.random_range(0..300);
            let asked = Asked { expiry: now + Duration::from_millis(lifetime_ms), ..asked };
            let interest = InterestBuilder::new(asked.name.clone(), step as u32)
                .can_be_prefix(asked.can_be_prefix)
                .must_be_fresh(asked.must_be_fresh)
                .lifetime_ms(lifetime_ms);
            let fields =
                LinkFields { pit_token: PitToken::new(&step.to_be_bytes()).expect("short"), ..Default::default() };
            let packet = Packet::copy_from(&interest.encode());
            worker.poll(now, &mut vec![Received { face: asked.face, fields, packet }], &mut output);
            let answer = output.iter().find(|o| o.packet[0] == 6);
            let hit = model.interest(now, asked.clone());
            assert_eq!(answer.is_some(), hit, "seed {seed}, step {step}: {} {}", asked.name, asked.can_be_prefix);
            if let Some(answer) = answer {
                assert_eq!((answer.face, answer.fields.pit_token.as_slice()), (asked.face, &step.to_be_bytes()[..]));
                assert!(answers(&answer.packet, &asked), "seed {seed}, step {step}");
                let fresh = |s: &Stored| *s.wire == *answer.packet && (!asked.must_be_fresh || now < s.fresh_until);
                assert!(
                    model.stored.iter().any(fresh),
                    "seed {seed}, step {step}: not stored, or not fresh: {answer:?} for {}",
                    asked.name
                );
            }
        } else {
            let freshness_ms = random.random_range(0..4) * 100;
            let content = vec![step as u8; 10];
            let wire = DataBuilder::new(random_name(&mut random)).freshness_ms(freshness_ms).content(content).encode();
            let packet = Packet::copy_from(&wire);
            let face = SENDERS[random.random_range(0..SENDERS.len())];
            let received = Received { face, fields: LinkFields::default(), packet };
            worker.poll(now, &mut vec![received], &mut output);
            let token = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("our tokens have 8 bytes"));
            let mut tokens: Vec<_> = output.iter().map(|o| token(o.fields.pit_token.as_slice())).collect();
            tokens.sort_unstable();
            let expected = model.data(now, &wire, face, Duration::from_millis(freshness_ms));
            assert_eq!(tokens, expected, "seed {seed}, step {step}");
            assert!(output.iter().all(|o| *o.packet == *wire));
            built.push(wire);
        }
    }
    let drops = worker.counters().drops;
    let unasked = drops.iter().find(|(reason, _)| *reason == "unasked-data").map_or(0, |(_, count)| *count);
    assert!(model.unasked > 0, "seed {seed}: nobody answered what he was not asked");
    assert_eq!(unasked, model.unasked, "seed {seed}");
}

#[test]
fn a_worker_answers_as_a_forwarder_made_of_lists() {
    for seed in 0..150 {
        run(seed, CsPolicy::Lru);
        run(seed, CsPolicy::S3Fifo);
    }
}

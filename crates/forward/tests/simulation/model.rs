//! One worker beside a forwarder made of lists, on the same packets: who is answered must agree.

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

use crate::random::Random;

const UPSTREAM: FaceId = FaceId(300);

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

/// Pending Interests and stored Data, searched from end to end.
#[derive(Default)]
struct Model {
    pending: Vec<Asked>,
    stored: Vec<Stored>,
}

/// Whether Data of this wire format answers an Interest, freshness aside.
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
    /// Whether the content store answers; if not, the Interest is pending now.
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
    fn data(&mut self, now: Ticks, wire: &[u8], freshness: Duration) -> Vec<u64> {
        self.pending.retain(|p| p.expiry > now);
        let (answered, left): (Vec<_>, Vec<_>) = self.pending.drain(..).partition(|p| answers(wire, p));
        self.pending = left;
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
    fib.apply(&[Change::Set(Name::default(), EntryId(0))]).expect("the oracle takes all");
    let tables = Arc::new(Tables::new(fib.query()));
    tables.set_group(EntryId(0), Some(NexthopGroup { nexthops: [Nexthop { face: UPSTREAM, cost: 0 }].into() }));
    let config = WorkerConfig { cs_policy, ..Default::default() };
    let mut worker = Worker::new(config, NameHashKey::new([3, 4]), tables, 1);
    for face in 256..260 {
        worker.face_up(FaceId(face), Scope::Local, LinkType::PointToPoint);
    }
    worker.face_up(UPSTREAM, Scope::NonLocal, LinkType::PointToPoint);
    worker
}

fn random_name(random: &mut Random) -> Name {
    let depth = 1 + random.below(3);
    (0..depth).fold(Name::default(), |name, _| {
        name.join(Component::generic([&b"a"[..], b"b", b""][random.below(3) as usize]))
    })
}

fn run(seed: u64, cs_policy: CsPolicy) {
    let (mut random, mut model, mut worker) = (Random(seed), Model::default(), worker(cs_policy));
    let mut now = Ticks::from_ms(1000);
    let mut built: Vec<Vec<u8>> = Vec::new();
    for step in 0..600u64 {
        // Odd, so that nothing expires at the very moment something arrives.
        now = now + Duration::from_micros(random.below(40_000) * 2 + 1);
        let mut output = Vec::new();
        if random.chance(0.6) {
            let mut name = random_name(&mut random);
            if let Some(wire) = built.last().filter(|_| random.chance(0.1)) {
                let data = Data::decode(wire).expect("it was built well");
                let digest = data.implicit_digest();
                name =
                    data.name.to_name().join(Component { typ: component_type::IMPLICIT_SHA256_DIGEST, value: &digest });
            }
            let asked = Asked {
                face: FaceId(256 + random.below(4)),
                name,
                can_be_prefix: random.chance(0.3),
                must_be_fresh: random.chance(0.3),
                expiry: now,
                token: step,
            };
            let lifetime_ms = 50 + random.below(300);
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
            let freshness_ms = random.below(4) * 100;
            let content = vec![step as u8; 10];
            let wire = DataBuilder::new(random_name(&mut random)).freshness_ms(freshness_ms).content(content).encode();
            let packet = Packet::copy_from(&wire);
            let received = Received { face: UPSTREAM, fields: LinkFields::default(), packet };
            worker.poll(now, &mut vec![received], &mut output);
            let token = |octets: &[u8]| u64::from_be_bytes(octets.try_into().expect("our tokens have 8 octets"));
            let mut tokens: Vec<_> = output.iter().map(|o| token(o.fields.pit_token.as_slice())).collect();
            tokens.sort_unstable();
            assert_eq!(tokens, model.data(now, &wire, Duration::from_millis(freshness_ms)), "seed {seed}, step {step}");
            assert!(output.iter().all(|o| *o.packet == *wire));
            built.push(wire);
        }
    }
}

#[test]
fn a_worker_answers_as_a_forwarder_made_of_lists() {
    for seed in 0..150 {
        run(seed, CsPolicy::Lru);
        run(seed, CsPolicy::S3Fifo);
    }
}

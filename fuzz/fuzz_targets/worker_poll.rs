//! `Worker::poll` in virtual time, under any sequence of packets, face changes, and changes of routes and the content
//! store. Tables must stay within their bounds. The worker must send nothing to a face that does not exist, no answer
//! without an Interest, and no Data from a face that was not asked. Pending entries must expire.
#![no_main]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use byname_forward::face_table::{LinkType, Scope};
use byname_forward::strategy::StrategyChoice;
use byname_forward::tables::{Announcements, Nexthop, NexthopGroup, Tables};
use byname_forward::worker::{CsPolicy, WorkerConfig};
use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received, Ticks, Worker};
use byname_lookup::oracle::Oracle;
use byname_lookup::{Change, Control, EntryId};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Component, Data, Interest, NackReason, Name, NameHashKey, PACKET_BYTES_MAX, PitToken};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

const PIT_ENTRIES_MAX: usize = 12;
const CS_PACKETS_MAX: usize = 6;
const CS_BYTES_MAX: usize = 8 << 10;

/// Few names, so that packets meet: up to four components of two kinds, perhaps under a scope, perhaps with the digest
/// of the latest Data.
#[derive(Arbitrary, Debug, Clone, Copy)]
struct Uri {
    components: u8,
    scope: u8,
}

impl Uri {
    fn name(self) -> Name {
        let root = match self.scope % 8 {
            0 => "/localhost",
            1 => "/localhop",
            _ => "/",
        };
        let mut name: Name = root.parse().expect("a literal name");
        for i in 0..self.components % 5 {
            name = name.join(Component::generic(&[b'a' + (self.components >> i & 1)]));
        }
        name
    }
}

#[derive(Arbitrary, Debug)]
struct InterestFields {
    uri: Uri,
    can_be_prefix: bool,
    must_be_fresh: bool,
    with_latest_digest: bool,
    nonce: u8,
    lifetime_ms: Option<u16>,
    hop_limit: Option<u8>,
    hint: Option<Uri>,
    padding: u16,
}

#[derive(Arbitrary, Debug)]
enum Action {
    Interest {
        face: u8,
        token: u8,
        next_hop: Option<u8>,
        fields: InterestFields,
    },
    Nack {
        face: u8,
        reason: u8,
        fields: InterestFields,
    },
    Data {
        face: u8,
        uri: Uri,
        freshness_ms: u16,
        len: u16,
        no_cache: bool,
    },
    /// Answers an Interest that the worker sent, with Data or a Nack.
    Answer {
        which: u8,
        nack: bool,
        freshness_ms: u16,
    },
    Bytes {
        face: u8,
        nack: bool,
        bytes: Vec<u8>,
    },
    Poll {
        wait_ms: u16,
    },
    FaceUp {
        face: u8,
        scope: bool,
        link_type: u8,
        local_fields: bool,
    },
    FaceDown {
        face: u8,
    },
    Route {
        uri: Uri,
        faces: [u8; 3],
    },
    Unroute {
        uri: Uri,
    },
    Strategy {
        uri: Uri,
        which: u8,
    },
    CsConfig {
        packets_max: Option<u8>,
        admit: Option<bool>,
        serve: Option<bool>,
    },
    CsErase {
        uri: Uri,
        count: u8,
    },
}

struct Bench {
    worker: Worker,
    fib: Oracle,
    tables: Arc<Tables>,
    now: Ticks,
    input: Vec<Received>,
    up: HashMap<FaceId, ()>,
    /// Number of answers that each face may still get: one for each Interest that it sent.
    owed: HashMap<FaceId, i64>,
    /// Names of the Interests that the worker sent to each face.
    asked: HashMap<FaceId, HashSet<Name>>,
    sent: Vec<Outgoing>,
    choices: Vec<StrategyChoice>,
    entries: u32,
    latest: Option<Vec<u8>>,
    cs_packets_max: u64,
}

fn face(n: u8) -> FaceId {
    FaceId(256 + u64::from(n % 6))
}

impl Bench {
    fn new(policy: CsPolicy) -> Self {
        let fib = Oracle::new();
        let tables = Arc::new(Tables::new(fib.query()));
        let config = WorkerConfig {
            pit_entries_max: PIT_ENTRIES_MAX,
            cs_packets_max: CS_PACKETS_MAX,
            cs_bytes_max: CS_BYTES_MAX,
            cs_policy: policy,
            dead_nonces_max: 64,
            producer_regions: vec!["/a".parse().expect("a literal name")],
            ..WorkerConfig::default()
        };
        let mut worker = Worker::new(config, NameHashKey::new([1, 2]), Arc::clone(&tables), 3);
        let mut heard = 0;
        worker.tell_routes(Box::new(move |_| {
            heard += 1;
            heard % 4 > 0
        }));
        let announced = ["/", "/a"].map(|uri| (uri.parse().expect("a literal name"), uri.as_bytes().into()));
        tables.replace_announcements(Announcements::new(announced));
        let mut bench = Bench {
            worker,
            fib,
            tables,
            now: Ticks::from_ms(1000),
            input: Vec::new(),
            up: HashMap::new(),
            owed: HashMap::new(),
            asked: HashMap::new(),
            sent: Vec::new(),
            choices: Vec::new(),
            entries: 0,
            latest: None,
            cs_packets_max: CS_PACKETS_MAX as u64,
        };
        for n in 0..4 {
            bench.face_up(n, n < 2, n, n == 0);
        }
        bench.route(Uri { components: 0, scope: 2 }, &[2, 3]);
        bench
    }

    fn face_up(&mut self, n: u8, local: bool, link_type: u8, local_fields: bool) {
        let scope = if local { Scope::Local } else { Scope::NonLocal };
        let link_type = match link_type % 4 {
            2 => LinkType::MultiAccess,
            3 => LinkType::AdHoc,
            _ => LinkType::PointToPoint,
        };
        self.worker.face_up(face(n), scope, link_type);
        self.worker.set_local_fields(face(n), local_fields);
        self.up.insert(face(n), ());
    }

    fn route(&mut self, uri: Uri, faces: &[u8]) {
        let nexthops = faces.iter().zip(0..).map(|(n, cost)| Nexthop { face: face(*n), cost }).collect();
        let entry = EntryId(self.entries % 64);
        self.entries += 1;
        self.tables.set_group(entry, Some(NexthopGroup { nexthops }));
        self.fib.apply(&[Change::Set(uri.name(), entry)]).expect("the oracle takes all");
        self.tables.replace_fib(self.fib.query());
    }

    fn receive(&mut self, face: FaceId, fields: LinkFields, bytes: &[u8]) {
        if bytes.is_empty() || bytes.len() > PACKET_BYTES_MAX {
            return;
        }
        self.input.push(Received { face, fields, packet: Packet::copy_from(bytes) });
    }

    fn interest(&self, fields: &InterestFields) -> Vec<u8> {
        let mut name = fields.uri.name();
        if let Some(data) = self.latest.as_ref().filter(|_| fields.with_latest_digest) {
            let data = Data::decode(data).expect("it was built here");
            name = data.name.to_name().join(Component { typ: 1, value: &data.implicit_digest() });
        }
        let mut builder = InterestBuilder::new(name, u32::from(fields.nonce))
            .can_be_prefix(fields.can_be_prefix)
            .must_be_fresh(fields.must_be_fresh);
        if let Some(ms) = fields.lifetime_ms {
            builder = builder.lifetime_ms(ms.into());
        }
        if let Some(hops) = fields.hop_limit {
            builder = builder.hop_limit(hops);
        }
        if let Some(hint) = fields.hint {
            builder = builder.forwarding_hint(vec![hint.name()]);
        }
        if fields.padding > 0x8000 {
            builder = builder.application_parameters(vec![0; usize::from(fields.padding % 8700)]);
        }
        builder.encode()
    }

    fn poll(&mut self) {
        let mut output = Vec::new();
        // Faces may have changed since the packets arrived. The worker goes by the present state.
        for received in &self.input {
            if received.packet[0] == 5 && received.fields.nack.is_none() && self.up.contains_key(&received.face) {
                *self.owed.entry(received.face).or_default() += 1;
            }
        }
        self.worker.poll(self.now, &mut self.input, &mut output);
        assert!(self.input.is_empty());
        for sent in output {
            assert!(self.up.contains_key(&sent.face), "sent to {}, which is not there", sent.face);
            assert!(sent.packet.len() <= PACKET_BYTES_MAX);
            if sent.packet[0] == 6 || sent.fields.nack.is_some() {
                let owed = self.owed.get_mut(&sent.face).expect("no Interest came from there");
                *owed -= 1;
                assert!(*owed >= 0, "more answers to {} than it asked for", sent.face);
                if sent.fields.nack.is_none() {
                    self.check_asked(&sent);
                }
            } else {
                let interest = Interest::decode(&sent.packet).expect("it forwards Interests");
                assert!(interest.nonce.is_some());
                self.asked.entry(sent.face).or_default().insert(interest.name.to_name());
                self.sent.push(sent);
            }
        }
        let excess = self.sent.len().saturating_sub(32);
        self.sent.drain(..excess);
        let counters = self.worker.counters();
        assert!(counters.pit_entries <= PIT_ENTRIES_MAX as u64);
        assert!(counters.cs.packets <= self.cs_packets_max && counters.cs.bytes <= CS_BYTES_MAX as u64);
    }

    /// Data must come from the content store, or from a face that was asked for it.
    fn check_asked(&self, sent: &Outgoing) {
        let from = sent.fields.incoming_face_id.expect("a worker says where Data is from");
        let data = Data::decode(&sent.packet).expect("it forwards Data");
        let full_name = data.name.to_name().join(Component { typ: 1, value: &data.implicit_digest() });
        let answers = |asked: &Name| asked.as_ref().is_prefix_of(&full_name.as_ref());
        let was_asked = self.asked.get(&from).is_some_and(|names| names.iter().any(answers));
        assert!(was_asked || from == FaceId::CONTENT_STORE, "{} was not asked for {}", from, data.name);
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Interest { face: n, token, next_hop, fields } => {
                let wire = self.interest(&fields);
                let link = LinkFields {
                    pit_token: PitToken::new(&vec![token; usize::from(token % 33)]).expect("at most 32 bytes"),
                    next_hop_face_id: next_hop.map(face),
                    non_discovery: token % 2 == 1,
                    ..LinkFields::default()
                };
                self.receive(face(n), link, &wire);
            }
            Action::Nack { face: n, reason, fields } => {
                let wire = self.interest(&fields);
                let nack = Some(NackReason::from_number(50 * u64::from(reason % 4)));
                self.receive(face(n), LinkFields { nack, ..LinkFields::default() }, &wire);
            }
            Action::Data { face: n, uri, freshness_ms, len, no_cache } => {
                let content = vec![0; usize::from(len % 8000)];
                let wire = DataBuilder::new(uri.name()).freshness_ms(freshness_ms.into()).content(content).encode();
                self.receive(face(n), LinkFields { no_cache, ..LinkFields::default() }, &wire);
                self.latest = Some(wire);
            }
            Action::Answer { which, nack, freshness_ms } => self.answer(which, nack, freshness_ms),
            Action::Bytes { face: n, nack, bytes } => {
                let nack = nack.then_some(NackReason::Congestion);
                self.receive(face(n), LinkFields { nack, ..LinkFields::default() }, &bytes);
            }
            Action::Poll { wait_ms } => {
                self.now = self.now + Duration::from_millis(wait_ms.into());
                self.poll();
            }
            Action::FaceUp { face, scope, link_type, local_fields } => {
                self.face_up(face, scope, link_type, local_fields);
            }
            Action::FaceDown { face: n } => {
                self.worker.face_down(face(n));
                self.up.remove(&face(n));
            }
            Action::Route { uri, faces } => self.route(uri, &faces[..]),
            Action::Unroute { uri } => {
                self.fib.apply(&[Change::Remove(uri.name())]).expect("the oracle takes all");
                self.tables.replace_fib(self.fib.query());
            }
            Action::Strategy { uri, which } => {
                let names: Vec<Name> = byname_forward::strategy::all_names().collect();
                let strategy = names[usize::from(which) % names.len()].clone();
                self.choices.retain(|choice| choice.prefix != uri.name());
                self.choices.push(StrategyChoice { prefix: uri.name(), strategy });
                self.worker.set_strategy_choices(&self.choices);
            }
            Action::CsConfig { packets_max, admit, serve } => {
                self.worker.cs_config(packets_max.map(|n| usize::from(n % 12)), admit, serve);
                self.cs_packets_max = packets_max.map_or(self.cs_packets_max, |n| u64::from(n % 12));
            }
            Action::CsErase { uri, count } => {
                let before = self.worker.cs_info().packets;
                let (erased, _) = self.worker.cs_erase(uri.name().as_ref(), count.into());
                assert_eq!(before - erased as u64, self.worker.cs_info().packets);
            }
        }
    }

    /// Answers one of the Interests that were sent, from the face that it was sent to.
    fn answer(&mut self, which: u8, nack: bool, freshness_ms: u16) {
        if self.sent.is_empty() {
            return;
        }
        let sent = &self.sent[usize::from(which) % self.sent.len()];
        let (from, packet) = (sent.face, sent.packet.to_vec());
        if nack {
            let fields = LinkFields { nack: Some(NackReason::NoRoute), ..LinkFields::default() };
            return self.receive(from, fields, &packet);
        }
        let interest = Interest::decode(&packet).expect("it was sent");
        let name = interest.name.to_name();
        let wire = DataBuilder::new(name).freshness_ms(freshness_ms.into()).encode();
        let announcement = (freshness_ms % 2 == 1).then(|| Packet::copy_from(&wire));
        let fields = LinkFields { prefix_announcement: announcement, ..LinkFields::default() };
        self.receive(from, fields, &wire);
        self.latest = Some(wire).filter(|wire| wire.len() <= PACKET_BYTES_MAX);
    }
}

fuzz_target!(|input: (bool, Vec<Action>)| {
    let (lru, actions) = input;
    let mut bench = Bench::new(if lru { CsPolicy::Lru } else { CsPolicy::S3Fifo });
    for action in actions.into_iter().take(200) {
        bench.act(action);
    }
    bench.poll();
    // Longer than any Interest may stay pending.
    bench.now = bench.now + Duration::from_secs(25 * 3600);
    bench.poll();
    assert_eq!(bench.worker.counters().pit_entries, 0);
    assert_eq!(bench.worker.next_deadline(), None);
});

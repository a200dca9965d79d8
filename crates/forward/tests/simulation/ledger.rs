//! A ledger of one worker: records and checks every packet that enters or leaves it.

use std::collections::HashMap;
use std::time::Duration;

use byname_forward::face_table::FaceCounters;
use byname_forward::worker::{Worker, WorkerConfig};
use byname_forward::{FaceId, Outgoing, Received, Ticks};
use byname_wire::name::component_type;
use byname_wire::{Data, Interest, Name, PitToken};

/// An Interest that the worker got and has not answered yet.
struct Waiting {
    face: FaceId,
    name: Name,
    can_be_prefix: bool,
    nonce: Option<u32>,
    arrived: Ticks,
    expiry: Ticks,
}

/// The ledger of one worker.
pub struct Ledger {
    config: WorkerConfig,
    /// Waiting Interests, by the token that the ledger gave them.
    waiting: HashMap<Vec<u8>, Waiting>,
    /// For each name, the time until which an Interest asked for it.
    wanted: HashMap<Name, Ticks>,
    tokens: u64,
    counters: HashMap<FaceId, FaceCounters>,
    pub answered: u64,
    pub refused: u64,
}

impl Ledger {
    pub fn new(config: WorkerConfig) -> Self {
        Ledger {
            config,
            waiting: HashMap::new(),
            wanted: HashMap::new(),
            tokens: 0,
            counters: HashMap::new(),
            answered: 0,
            refused: 0,
        }
    }

    /// Records a packet that the worker is about to get, and marks Interests with a token of the ledger.
    pub fn enters(&mut self, now: Ticks, received: &mut Received) {
        let counters = self.counters.entry(received.face).or_default();
        let nack = received.fields.nack.is_some();
        if let Ok(interest) = Interest::decode(&received.packet) {
            if nack {
                counters.in_nacks += 1;
                return;
            }
            counters.in_interests += 1;
            self.tokens += 1;
            let token = self.tokens.to_be_bytes();
            received.fields.pit_token = PitToken::new(&token).expect("eight bytes");
            let waiting = Waiting {
                face: received.face,
                name: interest.name.to_name(),
                can_be_prefix: interest.can_be_prefix,
                nonce: interest.nonce,
                arrived: now,
                expiry: now + Duration::from_millis(interest.lifetime_or_default_ms().min(86_400_000)),
            };
            let wanted = self.wanted.entry(waiting.name.clone()).or_default();
            *wanted = (*wanted).max(waiting.expiry);
            self.waiting.insert(token.to_vec(), waiting);
        } else if !nack && Data::decode(&received.packet).is_ok() {
            counters.in_data += 1;
        }
    }

    /// Checks a packet that the worker sends: Data and Nacks may go only where an Interest waits for them.
    pub fn leaves(&mut self, now: Ticks, sent: &Outgoing) {
        let counters = self.counters.entry(sent.face).or_default();
        if sent.packet[0] == 0x05 && sent.fields.nack.is_none() {
            counters.out_interests += 1;
            let interest = Interest::decode(&sent.packet).expect("what is forwarded can be parsed");
            let wanted = self.wanted.get(&interest.name.to_name());
            assert!(wanted.is_some_and(|until| *until >= now), "nobody asked for {}", interest.name);
            return;
        }
        let waiting = self.waiting.remove(sent.fields.pit_token.as_slice());
        let waiting = waiting.unwrap_or_else(|| panic!("{sent:?} answers no Interest that waits"));
        assert_eq!(waiting.face, sent.face, "the answer goes where the Interest came from");
        if sent.fields.nack.is_some() {
            counters.out_nacks += 1;
            self.refused += 1;
            let interest = Interest::decode(&sent.packet).expect("a Nack carries the Interest");
            assert_eq!(interest.name, waiting.name.as_ref());
            assert!(waiting.nonce.is_none() || interest.nonce == waiting.nonce, "a Nack carries the nonce it is about");
        } else {
            counters.out_data += 1;
            self.answered += 1;
            let data = Data::decode(&sent.packet).expect("what is forwarded can be parsed");
            assert!(answers(&data, &waiting), "{} does not answer {}", data.name, waiting.name);
            assert!(waiting.expiry > now || waiting.arrived == now, "{} came after its Interest's lifetime", data.name);
        }
    }

    /// Checks the limits, which must hold at any time.
    pub fn check_bounds(&self, worker: &Worker) {
        let counters = worker.counters();
        assert!(counters.pit_entries <= self.config.pit_entries_max as u64);
        assert!(counters.cs.packets <= self.config.cs_packets_max as u64);
        assert!(counters.cs.bytes <= self.config.cs_bytes_max as u64);
    }

    /// Checks that nothing is pending at the end, and that every Interest is accounted for.
    pub fn check_settled(&self, now: Ticks, worker: &Worker) {
        let counters = worker.counters();
        assert_eq!(counters.pit_entries, 0, "the PIT is empty after all lifetimes");
        let drops = |reason: &str| counters.drops.iter().find(|(r, _)| *r == reason).map_or(0, |(_, n)| *n);
        let interests = self.sum(|c| c.in_interests);
        assert_eq!(
            interests,
            counters.cs.hits + counters.cs.misses + drops("loop") + drops("hop-limit") + drops("scope"),
            "each Interest hits or misses the content store, or is dropped for a reason: {counters:?}"
        );
        assert!(counters.satisfied_interests + counters.unsatisfied_interests <= counters.cs.misses);
        let timed_out = self.waiting.values().filter(|w| w.expiry <= now).count() as u64;
        assert_eq!(self.answered + self.refused + timed_out, interests, "an Interest still waits");
        for (face, ours) in &self.counters {
            if let Some(theirs) = worker.face_counters(*face) {
                assert_eq!(&theirs, ours, "{face:?}");
            }
        }
    }

    /// Number of Interests that the worker sent.
    pub fn interests_out(&self) -> u64 {
        self.sum(|c| c.out_interests)
    }

    fn sum(&self, of: impl Fn(&FaceCounters) -> u64) -> u64 {
        self.counters.values().map(of).sum()
    }
}

fn answers(data: &Data<'_>, waiting: &Waiting) -> bool {
    let name = waiting.name.as_ref();
    let digest = name.component(-1).filter(|c| c.typ == component_type::IMPLICIT_SHA256_DIGEST);
    data.name == name
        || waiting.can_be_prefix && name.is_prefix_of(&data.name)
        || digest.is_some_and(|d| d.value == data.implicit_digest() && data.name == name.prefix(name.len() - 1))
}

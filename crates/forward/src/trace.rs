//! Traces: what happens to each packet below a prefix, while somebody asks.
//!
//! A worker has a few *watches*. Each has a prefix and a bounded ring of events. If there is a watch, a burst is searched
//! for names that it wants; a burst without such names goes its usual way. Otherwise the packets of the burst are handled
//! one by one (`pipeline::follow`), and the event of a packet is what has changed from before it to after it: output, counts,
//! drops and PIT. So the pipelines know nothing of traces. A burst has the same result as its packets handled one by one.
//!
//! Cost without a watch: one comparison for each burst. Cost with a watch: one comparison of bytes for each packet, and
//! for each wanted packet some reads of the clock, one more lookup of its name, and its event.
//!
//! Not seen: packets that found no room in a ring between threads, and packets with tags or locators, which have no name.

use std::collections::VecDeque;
use std::time::Duration;

use byname_wire::{FaceId, NackReason, Name, NameRef};
use smallvec::SmallVec;

use crate::packet_pool::Packet;
use crate::strategy::Why;
use crate::ticks::Ticks;

/// Most events in a ring. The newest are lost if nobody takes them.
pub const EVENTS_MAX: usize = 1024;
/// Most watches of a worker.
pub const WATCHES_MAX: usize = 4;

/// `/localhost/nfd`, encoded.
const MANAGEMENT: &[u8] = b"\x08\x09localhost\x08\x03nfd";
/// `/localhost/nfd/trace`, encoded.
const READING: &[u8] = b"\x08\x09localhost\x08\x03nfd\x08\x05trace";

/// What a watch wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Names at or below this prefix. Those of management are wanted only by prefixes below `/localhost/nfd`, and those
    /// of traces never. Packets without a valid name are wanted only by `/`.
    pub prefix: Name,
    /// Only what was dropped, refused or not answered.
    pub only_dropped: bool,
    /// Whether events have the packet.
    pub with_packets: bool,
}

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// An Interest that arrived.
    Interest,
    /// Data that arrived.
    Data,
    /// A Nack that arrived.
    Nack(NackReason),
    /// A packet that arrived and has no valid name.
    Malformed,
    /// A pending Interest whose time is over.
    Expiry,
    /// A pending Interest that made room in a full PIT.
    Eviction,
}

impl Subject {
    /// A label.
    pub fn label(self) -> &'static str {
        match self {
            Subject::Interest => "interest",
            Subject::Data => "data",
            Subject::Nack(_) => "nack",
            Subject::Malformed => "malformed",
            Subject::Expiry => "expiry",
            Subject::Eviction => "eviction",
        }
    }
}

/// What the PIT did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PitOutcome {
    /// A new entry.
    New,
    /// Another face asks for what is pending.
    Joined,
    /// A face that waits has asked again.
    Again,
    /// Data satisfied so many pending Interests.
    Satisfied(u64),
    /// It matched a pending Interest: a Nack.
    Matched,
    /// Nothing matched.
    NoMatch,
    /// The Interest was here before.
    Loop,
}

impl PitOutcome {
    /// A label.
    pub fn label(self) -> &'static str {
        match self {
            PitOutcome::New => "new",
            PitOutcome::Joined => "joined",
            PitOutcome::Again => "again",
            PitOutcome::Satisfied(_) => "satisfied",
            PitOutcome::Matched => "matched",
            PitOutcome::NoMatch => "no-match",
            PitOutcome::Loop => "loop",
        }
    }
}

/// What the content store did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreOutcome {
    /// It answered.
    Hit,
    /// The store that all threads share answered.
    SharedHit,
    /// It did not answer.
    Miss,
    /// It took the Data.
    Admitted,
    /// It did not take the Data.
    NotAdmitted,
}

impl StoreOutcome {
    /// A label.
    pub fn label(self) -> &'static str {
        match self {
            StoreOutcome::Hit => "hit",
            StoreOutcome::SharedHit => "shared-hit",
            StoreOutcome::Miss => "miss",
            StoreOutcome::Admitted => "admitted",
            StoreOutcome::NotAdmitted => "not-admitted",
        }
    }
}

/// How the nexthops of an Interest were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By the FIB rule of so many components of its name.
    Rule(usize),
    /// No rule matches.
    NoRule,
    /// By its forwarding hint.
    Hint,
    /// The consumer chose the face.
    Chosen,
}

/// A packet that was sent on account of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// The face.
    pub face: FaceId,
    /// What it is.
    pub subject: Subject,
}

/// Time that a packet has taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// From the start of the thread's round to its turn: receiving, parsing, and the packets before it.
    pub waited: Duration,
    /// PIT and content store.
    pub pit_cs: Duration,
    /// FIB.
    pub fib: Duration,
    /// Strategy.
    pub strategy: Duration,
}

/// What happened to one packet.
#[derive(Debug, Clone)]
pub struct Event {
    /// When.
    pub at: Ticks,
    /// What the event is about.
    pub subject: Subject,
    /// Its name; `/` if it has none.
    pub name: Name,
    /// The face that it came from, or that asked first.
    pub face: FaceId,
    /// Its size.
    pub bytes: usize,
    /// Nonce of an Interest, as it came.
    pub nonce: Option<u32>,
    /// Selectors of an Interest.
    pub can_be_prefix: bool,
    /// Selectors of an Interest.
    pub must_be_fresh: bool,
    /// What the PIT did, if it was asked.
    pub pit: Option<PitOutcome>,
    /// What the content store did, if it was asked.
    pub store: Option<StoreOutcome>,
    /// How the nexthops were found, if they were looked for.
    pub way: Option<Way>,
    /// Full name of the strategy that decided, and why it decided so.
    pub strategy: Option<(Name, Why)>,
    /// What was sent.
    pub sent: SmallVec<[Sent; 4]>,
    /// Why it went no further: a label of drops in metrics, `refused` or `unanswered`.
    pub dropped: Option<&'static str>,
    /// Time taken. `None`: the worker has no clock.
    pub times: Option<Times>,
    /// The packet as it came.
    pub packet: Option<Packet>,
}

/// One watch.
struct Watch {
    id: u64,
    filter: Filter,
    ring: VecDeque<Event>,
    lost: u64,
}

impl Watch {
    fn wants(&self, name: &[u8]) -> bool {
        let prefix = self.filter.prefix.value();
        // Prefixes are whole components, so equal bytes are equal components.
        name.starts_with(prefix)
            // To read a trace is management, too: it would never end.
            && (!name.starts_with(MANAGEMENT) || prefix.starts_with(MANAGEMENT) && !name.starts_with(READING))
    }

    fn note(&mut self, event: &Event) {
        if self.filter.only_dropped && event.dropped.is_none() {
            return;
        }
        if self.ring.len() == EVENTS_MAX {
            self.lost += 1;
            return;
        }
        let packet = event.packet.clone().filter(|_| self.filter.with_packets);
        self.ring.push_back(Event { packet, ..event.clone() });
    }
}

/// Events that were taken from a watch.
#[derive(Debug, Default)]
pub struct Taken {
    /// The oldest events.
    pub events: Vec<Event>,
    /// Events since the last call that found no room.
    pub lost: u64,
}

/// The watches of a worker.
#[derive(Default)]
pub(crate) struct Traces {
    watches: Vec<Watch>,
}

impl Traces {
    /// Begins to watch. Returns false if there are [`WATCHES_MAX`] watches already.
    pub fn watch(&mut self, id: u64, filter: Filter) -> bool {
        let has_room = self.watches.len() < WATCHES_MAX;
        if has_room {
            self.watches.push(Watch { id, filter, ring: VecDeque::new(), lost: 0 });
        }
        has_room
    }

    /// Takes up to `events_max` events of a watch; none if there is no such watch.
    pub fn take(&mut self, id: u64, events_max: usize) -> Taken {
        let Some(watch) = self.watches.iter_mut().find(|watch| watch.id == id) else {
            return Taken::default();
        };
        let count = watch.ring.len().min(events_max);
        Taken { events: watch.ring.drain(..count).collect(), lost: std::mem::take(&mut watch.lost) }
    }

    /// Ends a watch, and forgets its events.
    pub fn unwatch(&mut self, id: u64) {
        self.watches.retain(|watch| watch.id != id);
    }

    /// Whether anybody asks.
    #[inline]
    pub fn is_on(&self) -> bool {
        !self.watches.is_empty()
    }

    /// Whether a watch wants packets of this name.
    pub fn want(&self, name: NameRef<'_>) -> bool {
        self.watches.iter().any(|watch| watch.wants(name.value()))
    }

    /// Gives an event to all watches that want it.
    pub fn note(&mut self, event: &Event) {
        let name = event.name.value();
        self.watches.iter_mut().filter(|watch| watch.wants(name)).for_each(|watch| watch.note(event));
    }

    /// Whether a watch keeps packets.
    pub fn keep_packets(&self) -> bool {
        self.watches.iter().any(|watch| watch.filter.with_packets)
    }
}

//! The consumers of one thread: names they ask for, and a check of the Data that comes.

use std::collections::HashMap;

use byname_forward::FaceId;

use super::options::Options;
use super::packets::Packets;
use crate::workload::Popularity;

/// Maximum of consumers of a thread if names repeat. Each asks for a name again only after its Data has come.
const CONSUMERS: u64 = 64;
/// Maximum of consumers of all threads: a pending Interest has no more downstreams.
const CONSUMERS_OF_ALL: u64 = 256;
/// Number of popular names to draw before giving up, because all consumers wait for each of them.
const TRIES: usize = 64;

/// A face of thread `thread`: its `slot`-th. Even slots are consumers, and slot 1 is the producer.
pub fn face(thread: usize, threads: usize, slot: u64) -> FaceId {
    FaceId(FaceId::FIRST.0 + thread as u64 + threads as u64 * slot)
}

/// The producer of a thread: the face to which Interests go, and from which Data comes.
pub fn producer(thread: usize, threads: usize) -> FaceId {
    face(thread, threads, 1)
}

/// Number of consumers of each of some threads if names repeat.
fn consumers_of_each(threads: usize) -> u64 {
    (CONSUMERS_OF_ALL / threads as u64).clamp(1, CONSUMERS)
}

/// An Interest to send.
pub struct Asked {
    /// The slot of the consumer's face.
    pub slot: u64,
    /// The number of the name.
    pub number: u64,
    /// The nonce.
    pub nonce: u32,
}

/// Data that has come: the slot of the consumer's face, and the number of the name.
pub type Arrival = (u64, u64);

/// Names of different popularity, and who waits for which.
struct Popular {
    popularity: Popularity,
    /// Number of consumers.
    consumers: u64,
    /// For each name, the consumers that wait for it, one bit each.
    waiting: HashMap<u64, u64>,
}

/// The consumers of one thread.
pub struct Consumers {
    thread: usize,
    threads: usize,
    /// `None`: no name repeats.
    popular: Option<Popular>,
    /// Number of Interests sent.
    asked: u64,
    /// Number of Data packets that came.
    arrived: u64,
    /// Data that nobody waited for.
    unexpected: u64,
    /// The latest Data, if names repeat.
    arrivals: Vec<Arrival>,
}

impl Consumers {
    /// The consumers of a thread.
    ///
    /// # Errors
    /// If the exponent of Zipf's law is negative.
    pub fn new(options: &Options, packets: &Packets, thread: usize) -> anyhow::Result<Self> {
        let seed = options.measuring.seed.wrapping_add(thread as u64);
        let popularity = options.zipf.map(|exponent| Popularity::new(packets.len() as u64, exponent, seed));
        let threads = options.measuring.threads;
        let consumers = consumers_of_each(threads);
        let popular =
            popularity.transpose()?.map(|popularity| Popular { popularity, consumers, waiting: HashMap::new() });
        Ok(Consumers { thread, threads, popular, asked: 0, arrived: 0, unexpected: 0, arrivals: Vec::new() })
    }

    /// Faces of all consumers.
    pub fn faces(&self) -> impl Iterator<Item = FaceId> {
        let (thread, threads) = (self.thread, self.threads);
        let consumers = self.popular.as_ref().map_or(1, |popular| popular.consumers);
        (0..consumers).map(move |consumer| face(thread, threads, 2 * consumer))
    }

    /// Whether one of them has the face in this slot.
    pub fn are_at(&self, slot: u64) -> bool {
        slot == 0 || self.popular.is_some()
    }

    /// Chooses the next Interest. `None` if all consumers wait for the names that were drawn.
    pub fn ask(&mut self) -> Option<Asked> {
        // No two threads use the same numbers.
        let serial = self.asked * self.threads as u64 + self.thread as u64;
        let (consumer, number) = match &mut self.popular {
            None => (0, serial),
            Some(popular) => popular.ask()?,
        };
        self.asked += 1;
        Some(Asked { slot: 2 * consumer, number, nonce: serial as u32 })
    }

    /// Notes that Data came to the face in this slot. `number` is called if the number of the name matters.
    #[inline]
    pub fn arrive(&mut self, slot: u64, number: impl FnOnce() -> u64) {
        self.arrived += 1;
        if self.popular.is_some() {
            self.arrivals.push((slot, number()));
        }
    }

    /// Data for the consumer in this slot, which another thread may have. `number` is called if the number matters.
    #[inline]
    pub fn arrival(&self, slot: u64, number: impl FnOnce() -> u64) -> Arrival {
        (slot, if self.popular.is_some() { number() } else { 0 })
    }

    /// Checks the Data that came since the last call.
    pub fn check(&mut self) {
        let Some(popular) = &mut self.popular else { return };
        for (slot, number) in self.arrivals.drain(..) {
            self.unexpected += u64::from(!popular.answer(slot / 2, number));
        }
    }

    /// Number of Interests sent.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// Number of Data packets that came.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Number of Data packets that nobody waited for.
    pub fn unexpected(&self) -> u64 {
        self.unexpected
    }

    /// Number of Interests without Data.
    pub fn waiting(&self) -> u64 {
        match &self.popular {
            None => self.asked.saturating_sub(self.arrived),
            Some(popular) => popular.waiting.values().map(|consumers| u64::from(consumers.count_ones())).sum(),
        }
    }
}

impl Popular {
    /// Draws a name, and a consumer that does not wait for it.
    fn ask(&mut self) -> Option<(u64, u64)> {
        (0..TRIES).find_map(|_| {
            let number = self.popularity.draw();
            let waiting = self.waiting.entry(number).or_default();
            let consumer = u64::from(waiting.trailing_ones());
            (consumer < self.consumers).then(|| {
                *waiting |= 1 << consumer;
                (consumer, number)
            })
        })
    }

    /// Notes that a consumer has Data. Returns whether it waited.
    fn answer(&mut self, consumer: u64, number: u64) -> bool {
        let Some(waiting) = self.waiting.get_mut(&number) else { return false };
        let waited = *waiting & 1 << consumer != 0;
        *waiting &= !(1 << consumer);
        if *waiting == 0 {
            self.waiting.remove(&number);
        }
        waited
    }
}

//! Interests under way, and how long their answers take.

use std::collections::{HashMap, VecDeque};

use byname_forward::FaceId;
use hdrhistogram::Histogram;

use super::router::TIME_NS_MAX;

/// Time after which a consumer gives an Interest up.
const PATIENCE_NS: u64 = 100_000_000;

/// One Interest. Data answers all Interests of a face for its name.
struct Exchange {
    sent_at: u64,
    face: FaceId,
    name: u64,
    is_done: bool,
}

/// All consumers.
pub struct Consumers {
    /// In the order in which they were sent. Those at the front that are done are gone.
    exchanges: VecDeque<Exchange>,
    /// Number of the first of `exchanges`.
    first: u64,
    under_way: HashMap<(FaceId, u64), Vec<u64>>,
    pub answered: u64,
    /// Interests that were given up.
    pub given_up: u64,
    /// Times from an Interest to its Data.
    pub latencies: Histogram<u64>,
}

impl Consumers {
    pub fn new() -> Self {
        Consumers {
            exchanges: VecDeque::new(),
            first: 0,
            under_way: HashMap::new(),
            answered: 0,
            given_up: 0,
            latencies: Histogram::new_with_bounds(1, TIME_NS_MAX, 3).expect("these bounds are allowed"),
        }
    }

    /// A consumer sends an Interest.
    pub fn ask(&mut self, now: u64, face: FaceId, name: u64) {
        let number = self.sent();
        self.exchanges.push_back(Exchange { sent_at: now, face, name, is_done: false });
        self.under_way.entry((face, name)).or_default().push(number);
    }

    /// Data comes at `now`. Returns how many Interests it answers.
    pub fn answer(&mut self, now: u64, face: FaceId, name: u64) -> usize {
        let answered = self.under_way.remove(&(face, name)).unwrap_or_default();
        for number in &answered {
            let exchange = &mut self.exchanges[(number - self.first) as usize];
            exchange.is_done = true;
            self.latencies.saturating_record((now - exchange.sent_at).max(1));
        }
        self.answered += answered.len() as u64;
        answered.len()
    }

    /// Gives up the oldest Interest if it has waited too long. Returns its face.
    pub fn give_up(&mut self, now: u64) -> Option<FaceId> {
        while self.exchanges.front().is_some_and(|exchange| exchange.is_done) {
            self.exchanges.pop_front();
            self.first += 1;
        }
        self.exchanges.front().filter(|exchange| exchange.sent_at + PATIENCE_NS <= now)?;
        let Exchange { face, name, .. } = self.exchanges.pop_front()?;
        if let Some(numbers) = self.under_way.get_mut(&(face, name)) {
            numbers.retain(|number| *number != self.first);
        }
        self.first += 1;
        self.given_up += 1;
        Some(face)
    }

    /// When the oldest Interest will be given up.
    pub fn next_at(&self) -> Option<u64> {
        self.exchanges.iter().find(|exchange| !exchange.is_done).map(|exchange| exchange.sent_at + PATIENCE_NS)
    }

    /// Interests sent so far.
    pub fn sent(&self) -> u64 {
        self.first + self.exchanges.len() as u64
    }

    /// Interests that wait for an answer.
    pub fn under_way(&self) -> u64 {
        self.under_way.values().map(|numbers| numbers.len() as u64).sum()
    }
}

//! Popular prefixes: below which prefixes most packets were lately, while somebody asks.
//!
//! The sketch of hot names (`hot`) counts names and keeps none, and a thread that is alone has no sketch. So this module
//! samples packets by itself. For each depth up to [`DEPTH_MAX`] it keeps a bounded list of prefixes by Space-Saving
//! [Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005]: a
//! prefix that is not in a full list takes the place of the rarest, and ranks as if that one's packets were its own. They
//! are told as its excess: so many packets may be missing from its counts. Time is divided into windows, and readers get the last whole window. So old traffic is
//! forgotten, and any number of readers see the same.
//!
//! At most about [`SAMPLES`] packets of a window are looked at, at random distances, and each counts for all packets since
//! the one before it. So a thread pays about the same per second, however busy it is: some ten microseconds for each
//! thousand packets. Nothing is counted, and nothing kept, while nobody asks. Then the cost is one comparison for each
//! burst and for each Interest that Data answers.
//!
//! Not counted: management's own packets, packets with tags or locators, and prefixes longer than [`BYTES_MAX`].

use std::collections::HashMap;
use std::time::Duration;

use byname_wire::{Name, NameRef};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::rounds::Distribution;
use crate::ticks::Ticks;
use crate::trace::MANAGEMENT;

/// Depth of the longest prefixes that are counted, in components.
pub const DEPTH_MAX: usize = 8;
/// Longest prefix that is counted, in bytes of its TLV-VALUE.
pub const BYTES_MAX: usize = 256;
/// Prefixes of one depth that a thread keeps.
pub const PREFIXES_MAX: usize = 128;
/// Prefixes of one depth that are told of all threads together.
pub const TOLD_MAX: usize = 32;
/// Length of a window.
pub const WINDOW: Duration = Duration::from_secs(2);
/// Packets of a window that are looked at, about.
pub const SAMPLES: u64 = 8192;
/// Upper bounds of the times of answers, in nanoseconds.
pub const ANSWER_BOUNDS: [u64; 14] = [
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
];

/// Times from Interests to the Data that answered them.
pub type AnswerTimes = Distribution<{ ANSWER_BOUNDS.len() }>;

/// Packets below a prefix.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Interests.
    pub interests: u64,
    /// Data that arrived.
    pub data: u64,
    /// Bytes of this Data.
    pub data_bytes: u64,
    /// Packets that may be missing from these: those that came while the prefix had no place.
    pub excess: u64,
}

impl Counts {
    /// All packets.
    pub fn packets(&self) -> u64 {
        self.interests + self.data
    }

    fn add(&mut self, other: &Counts) {
        self.interests += other.interests;
        self.data += other.data;
        self.data_bytes += other.data_bytes;
        self.excess += other.excess;
    }

    /// These counts in a window of `to` in place of `from`.
    fn scaled(&self, from: Duration, to: Duration) -> Counts {
        Counts {
            interests: scaled(self.interests, from, to),
            data: scaled(self.data, from, to),
            data_bytes: scaled(self.data_bytes, from, to),
            excess: scaled(self.excess, from, to),
        }
    }
}

fn scaled(count: u64, from: Duration, to: Duration) -> u64 {
    let scaled = u128::from(count) * to.as_nanos() / from.as_nanos().max(1);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// What was counted in the last whole window.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    /// Length of the window. Zero: none is over yet.
    pub time: Duration,
    /// Packets that have names, besides those of management.
    pub packets: u64,
    /// Packets that were looked at.
    pub samples: u64,
    /// The most popular prefixes of each depth.
    pub prefixes: Vec<(Name, Counts)>,
    /// Times from Interests to Data, as far as they were looked at.
    pub answers: AnswerTimes,
}

impl Traffic {
    /// The traffic of several threads together. Counts are those of a window as long as the longest.
    pub fn sum(threads: impl IntoIterator<Item = Traffic>) -> Traffic {
        let threads: Vec<Traffic> = threads.into_iter().filter(|traffic| !traffic.time.is_zero()).collect();
        let time = threads.iter().map(|traffic| traffic.time).max().unwrap_or_default();
        let mut sum = Traffic { time, ..Traffic::default() };
        let mut prefixes: HashMap<Name, Counts> = HashMap::new();
        for thread in threads {
            sum.packets += scaled(thread.packets, thread.time, time);
            sum.samples += thread.samples;
            sum.answers.add_all(&thread.answers);
            for (name, counts) in thread.prefixes {
                prefixes.entry(name).or_default().add(&counts.scaled(thread.time, time));
            }
        }
        sum.prefixes = prefixes.into_iter().collect();
        sum.keep_most_popular();
        sum
    }

    /// Keeps [`TOLD_MAX`] prefixes of each depth, the most popular first.
    fn keep_most_popular(&mut self) {
        let order = |(name, counts): &(Name, Counts)| (std::cmp::Reverse(counts.packets()), name.clone());
        self.prefixes.sort_by_cached_key(order);
        let mut told = [0; DEPTH_MAX + 1];
        self.prefixes.retain(|(name, _)| {
            let of_depth = &mut told[name.as_ref().len().min(DEPTH_MAX)];
            *of_depth += 1;
            *of_depth <= TOLD_MAX
        });
    }
}

/// The prefixes of one depth with most packets, by Space-Saving.
#[derive(Default)]
struct Summary {
    places: HashMap<Box<[u8]>, usize>,
    /// The packets of each place, apart from its other counts: all are searched for the least.
    packets: Vec<u64>,
    counts: Vec<Counts>,
    prefixes: Vec<Box<[u8]>>,
}

impl Summary {
    fn count(&mut self, prefix: &[u8], more: &Counts) {
        let place = match self.places.get(prefix) {
            Some(place) => *place,
            None => self.take_place(prefix),
        };
        self.packets[place] += more.packets();
        self.counts[place].add(more);
    }

    /// Gives a prefix a place, if need be that of the rarest.
    fn take_place(&mut self, prefix: &[u8]) -> usize {
        let place = if self.counts.len() < PREFIXES_MAX {
            self.packets.push(0);
            self.counts.push(Counts::default());
            self.prefixes.push(prefix.into());
            self.counts.len() - 1
        } else {
            let rarest = self.packets.iter().enumerate().min_by_key(|(_, packets)| **packets);
            let (place, packets) = rarest.map(|(place, packets)| (place, *packets)).expect("the list is full");
            self.places.remove(&self.prefixes[place]);
            self.prefixes[place] = prefix.into();
            self.counts[place] = Counts { excess: packets, ..Counts::default() };
            place
        };
        self.places.insert(prefix.into(), place);
        place
    }

    fn clear(&mut self) {
        self.places.clear();
        self.packets.clear();
        self.counts.clear();
        self.prefixes.clear();
    }

    fn told(&self) -> impl Iterator<Item = (Name, Counts)> {
        // Prefixes were cut from valid names.
        let name = |prefix: &[u8]| NameRef::new(prefix).ok().map(|name| name.to_name());
        self.prefixes.iter().zip(&self.counts).filter_map(move |(prefix, counts)| Some((name(prefix)?, *counts)))
    }
}

/// A window that is being counted, and the one before it.
struct Counting {
    began: Ticks,
    by_depth: [Summary; DEPTH_MAX],
    packets: u64,
    samples: u64,
    answers: AnswerTimes,
    /// Each sample stands for so many packets, on average.
    stride: u64,
    /// Packets, and answers, before the next sample.
    skip: u64,
    answers_skip: u64,
    random: SmallRng,
    last: Traffic,
}

impl Counting {
    fn new(now: Ticks, seed: u64) -> Self {
        Counting {
            began: now,
            by_depth: std::array::from_fn(|_| Summary::default()),
            packets: 0,
            samples: 0,
            answers: AnswerTimes::default(),
            stride: 1,
            skip: 0,
            answers_skip: 0,
            random: SmallRng::seed_from_u64(seed),
            last: Traffic::default(),
        }
    }

    /// Begins a new window, if this one is over.
    fn advance(&mut self, now: Ticks) {
        let time = now.since(self.began);
        if time < WINDOW {
            return;
        }
        self.last = Traffic {
            time,
            packets: self.packets,
            samples: self.samples,
            prefixes: self.by_depth.iter().flat_map(Summary::told).collect(),
            answers: self.answers,
        };
        self.last.keep_most_popular();
        self.by_depth.iter_mut().for_each(Summary::clear);
        let windows = u64::try_from(time.as_nanos() / WINDOW.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.stride = (self.packets / windows / SAMPLES).max(1);
        (self.began, self.packets, self.samples, self.answers) = (now, 0, 0, AnswerTimes::default());
        (self.skip, self.answers_skip) = (0, 0);
    }

    /// Whether this packet is one to look at.
    fn is_sample(&mut self) -> bool {
        self.packets += 1;
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        // On average as many as the stride, and at random, so that nothing in the traffic keeps pace with it.
        self.skip = self.random.random_range(0..2 * self.stride - 1);
        self.samples += 1;
        // The traffic has grown since the window before.
        if self.samples.is_multiple_of(2 * SAMPLES) {
            self.stride *= 2;
        }
        true
    }

    fn count(&mut self, name: NameRef<'_>, is_data: bool, bytes: usize) {
        let bytes = if is_data { bytes as u64 } else { 0 };
        let weight = self.stride;
        let more = Counts {
            interests: weight * u64::from(!is_data),
            data: weight * u64::from(is_data),
            data_bytes: weight * bytes,
            excess: 0,
        };
        for depth in 1..=name.len().min(DEPTH_MAX) {
            let prefix = name.prefix(depth).value();
            if prefix.len() > BYTES_MAX {
                break;
            }
            self.by_depth[depth - 1].count(prefix, &more);
        }
    }

    fn answered(&mut self, time: Duration) {
        if self.answers_skip > 0 {
            self.answers_skip -= 1;
            return;
        }
        self.answers_skip = self.random.random_range(0..2 * self.stride - 1);
        self.answers.add(&ANSWER_BOUNDS, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }
}

/// Counts packets by prefix, while somebody asks.
#[derive(Default)]
pub(crate) struct Popularity(Option<Box<Counting>>);

impl Popularity {
    /// Whether anybody asks.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins or ends to count. `seed` decides which packets are looked at.
    pub fn turn(&mut self, now: Ticks, on: bool, seed: u64) {
        match (on, self.is_on()) {
            (true, false) => self.0 = Some(Box::new(Counting::new(now, seed))),
            (false, true) => self.0 = None,
            _ => {}
        }
    }

    /// Notes an Interest, or Data that arrived.
    #[cold]
    pub fn note(&mut self, now: Ticks, name: NameRef<'_>, is_data: bool, bytes: usize) {
        let Some(counting) = &mut self.0 else { return };
        counting.advance(now);
        if !name.value().starts_with(MANAGEMENT) && counting.is_sample() {
            counting.count(name, is_data, bytes);
        }
    }

    /// Notes that Data answered an Interest after this time.
    #[cold]
    pub fn answered(&mut self, time: Duration) {
        self.0.iter_mut().for_each(|counting| counting.answered(time));
    }

    /// What was counted in the last whole window.
    pub fn traffic(&mut self, now: Ticks) -> Traffic {
        let Some(counting) = &mut self.0 else { return Traffic::default() };
        counting.advance(now);
        counting.last.clone()
    }
}

#[cfg(test)]
mod tests;

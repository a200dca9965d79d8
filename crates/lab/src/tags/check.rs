//! Compares a sample of the answers with all descriptors.
//!
//! The packets of a sample are stored transposed: for each filter bit, the set of packets that have it. So one
//! operation compares a descriptor with all packets, and thousands of packets cost a scan little. Generating the
//! descriptors is expensive, so one scan compares all samples of a run.

use std::ops::ControlFlow;

use byname_lookup::tagset::TagQuery;
use byname_lookup::{EntryId, TagsetFib};
use byname_wire::tagset::FILTER_BITS;
use byname_wire::{Descriptor, Filter, TagDigest};

use super::packets::Packets;
use super::population::Population;
use crate::timing::Checked;

/// Maximum number of packets in a sample.
const SAMPLE: usize = 2048;
/// The sample ends after its packets have found this many entries.
const ENTRIES_MAX: usize = 1 << 22;
/// The sample ends after its packets have taken this many steps: each hostile packet may take the engine's limit.
const STEPS_MAX: u64 = 1 << 27;

/// A set of packets, with a bit for each.
type Set = [u64; SAMPLE / 64];

/// One engine, with the properties that decide which answers are right.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The query half.
    pub fib: &'a dyn TagsetFib,
    /// Whether it matches by filters alone.
    pub by_filters: bool,
    /// Whether any of several largest subsets is right.
    pub is_any_right: bool,
}

/// Packets spread over all prepared ones, and the engines' answers.
pub struct Sample {
    /// The packets that are compared.
    packets: Set,
    by_bit: Vec<Set>,
    /// Tags of each packet, if it carries tags.
    tags: Vec<Option<Vec<TagDigest>>>,
    /// Answers of each engine.
    answers: Vec<Answers>,
}

/// The answers of one engine, and the right answers.
struct Answers {
    by_filters: bool,
    is_any_right: bool,
    found: Vec<Found>,
    right: Vec<Right>,
}

/// The answers of one engine for one packet; `None` if a search was cut off.
struct Found {
    all: Option<Vec<EntryId>>,
    largest: Option<Option<EntryId>>,
    /// Steps of both searches.
    steps: u64,
}

/// The right answers for one packet.
struct Right {
    /// All right entries; `None` if the search was cut off.
    all: Option<Vec<EntryId>>,
    /// Candidates for the largest subset: all with the maximum weight.
    largest: Vec<(Filter, EntryId)>,
}

impl Sample {
    /// Asks the engines for both algorithms.
    pub fn ask(packets: &Packets, engines: &[Asked<'_>]) -> Self {
        let stride = packets.len().div_ceil(SAMPLE);
        let answers = engines.iter().map(|engine| Answers::none(engine)).collect();
        let mut sample = Sample {
            packets: [0; SAMPLE / 64],
            by_bit: vec![[0; SAMPLE / 64]; FILTER_BITS],
            tags: Vec::new(),
            answers,
        };
        let (mut entries, mut steps) = (0, 0);
        for query in (0..packets.len()).step_by(stride).map(|packet| packets.query(packet)) {
            let found: Vec<_> = engines.iter().map(|engine| Found::by(engine.fib, &query)).collect();
            steps += found.iter().map(|found| found.steps).sum::<u64>();
            sample.push(&query, found.iter().any(Found::can_be_told));
            for (answers, found) in sample.answers.iter_mut().zip(found) {
                entries += answers.add(found);
            }
            if entries > ENTRIES_MAX || steps > STEPS_MAX {
                break;
            }
        }
        sample
    }

    /// Adds a packet. It is compared with descriptors only if there is an answer to check.
    fn push(&mut self, query: &TagQuery<'_>, can_be_told: bool) {
        let (word, bit) = (self.tags.len() / 64, 1 << (self.tags.len() % 64));
        self.packets[word] |= if can_be_told { bit } else { 0 };
        query.filter.ones().for_each(|one| self.by_bit[usize::from(one)][word] |= bit);
        self.tags.push(query.tags.map(<[_]>::to_vec));
    }

    /// The packets whose filters contain `filter`.
    fn with_all(&self, filter: Filter) -> Set {
        let mut packets = self.packets;
        for one in filter.ones() {
            let having = &self.by_bit[usize::from(one)];
            packets.iter_mut().zip(having).for_each(|(packets, having)| *packets &= having);
            if packets.iter().fold(0, |any, word| any | word) == 0 {
                break;
            }
        }
        packets
    }

    /// Adds a descriptor to the right answers of all packets that it matches.
    fn compare(&mut self, descriptor: &Descriptor, filter: Filter, entry: EntryId) {
        for packet in members(&self.with_all(filter)) {
            let tags = self.tags[packet].as_deref();
            let has_all = tags.is_none_or(|tags| descriptor.tags().iter().all(|tag| tags.binary_search(tag).is_ok()));
            for answers in self.answers.iter_mut().filter(|answers| has_all || answers.by_filters) {
                answers.right[packet].add(filter, entry);
            }
        }
    }
}

/// Compares samples with all descriptors. Returns for each sample the result of each engine.
pub fn check(mut samples: Vec<Sample>, population: &Population) -> Vec<Vec<Checked>> {
    let has_any = samples.iter().any(|sample| sample.packets.iter().any(|word| *word != 0));
    for (descriptor, entry) in population.iter().take_while(|_| has_any) {
        let filter = descriptor.filter();
        samples.iter_mut().for_each(|sample| sample.compare(&descriptor, filter, entry));
    }
    samples.into_iter().map(|sample| sample.answers.into_iter().map(Answers::check).collect()).collect()
}

/// The packets of a set.
fn members(packets: &Set) -> impl Iterator<Item = usize> {
    let words = packets.iter().enumerate().filter(|(_, word)| **word != 0);
    words.flat_map(|(at, &word)| (64 * at..).take(64).filter(move |packet| word >> (packet % 64) & 1 == 1))
}

impl Answers {
    fn none(engine: &Asked<'_>) -> Self {
        let Asked { by_filters, is_any_right, .. } = *engine;
        Answers { by_filters, is_any_right, found: Vec::new(), right: Vec::new() }
    }

    /// Adds the answers for the next packet. Returns their number of entries.
    fn add(&mut self, found: Found) -> usize {
        let entries = found.all.as_ref().map_or(0, Vec::len);
        self.right.push(Right { all: found.all.as_ref().map(|_| Vec::new()), largest: Vec::new() });
        self.found.push(found);
        entries
    }

    fn check(self) -> Checked {
        let mut checked = Checked::default();
        for (found, right) in self.found.into_iter().zip(self.right) {
            if let Some(entry) = found.largest {
                checked.add(right.is_largest(entry, self.is_any_right));
            }
            if let (Some(mut found), Some(mut right)) = (found.all, right.all) {
                found.sort_unstable();
                right.sort_unstable();
                checked.add(found == right);
            }
        }
        checked
    }
}

impl Found {
    /// Asks an engine. The answer of a search that was cut off cannot be checked.
    fn by(fib: &dyn TagsetFib, query: &TagQuery<'_>) -> Self {
        let mut all = Vec::new();
        let walk = fib.all_subsets(query, &mut |entry| {
            all.push(entry);
            ControlFlow::Continue(())
        });
        let (entry, of_largest) = fib.largest_subset(query, &mut |_| true);
        Found {
            all: (!walk.cut_off).then_some(all),
            largest: (!of_largest.cut_off).then_some(entry),
            steps: u64::from(walk.steps) + u64::from(of_largest.steps),
        }
    }

    /// Whether an answer can be checked: at least one search was complete.
    fn can_be_told(&self) -> bool {
        self.all.is_some() || self.largest.is_some()
    }
}

impl Right {
    fn add(&mut self, filter: Filter, entry: EntryId) {
        self.all.iter_mut().for_each(|all| all.push(entry));
        let best = self.largest.first().map_or(0, |(filter, _)| filter.weight());
        if filter.weight() > best {
            self.largest.clear();
        }
        if filter.weight() >= best {
            self.largest.push((filter, entry));
        }
    }

    /// Whether `entry` belongs to the largest subset; with `is_any_right`, to any of several largest ones.
    fn is_largest(&self, entry: Option<EntryId>, is_any_right: bool) -> bool {
        match self.largest.iter().min() {
            Some(&(_, _)) if is_any_right => self.largest.iter().any(|&(_, right)| Some(right) == entry),
            smallest => smallest.map(|&(_, right)| right) == entry,
        }
    }
}

impl Checked {
    fn add(&mut self, is_right: bool) {
        self.checked += 1;
        self.wrong += u64::from(!is_right);
    }
}

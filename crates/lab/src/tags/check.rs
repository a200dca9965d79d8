//! A sample of the answers, compared with a linear scan over all descriptors.

use std::ops::ControlFlow;

use byname_lookup::tagset::TagQuery;
use byname_lookup::{EntryId, TagsetFib};
use byname_wire::{Descriptor, Filter};

use super::engine::Engine;
use super::options::Options;
use super::packets::Packets;
use super::population::Population;
use crate::timing::Checked;

/// Packets compared with all descriptors.
const SAMPLE: usize = 64;

/// What is right for one packet.
#[derive(Default)]
struct Right {
    all: Vec<EntryId>,
    /// Of the heaviest, the smallest filter first.
    largest: Vec<(Filter, EntryId)>,
}

/// Checks both algorithms on packets spread over all of them.
pub fn check(
    options: &Options,
    engine: &Engine,
    fib: &dyn TagsetFib,
    population: &Population,
    packets: &Packets,
) -> Checked {
    let stride = packets.len().div_ceil(SAMPLE);
    let queries: Vec<_> = (0..packets.len()).step_by(stride).map(|packet| packets.query(packet)).collect();
    let mut right: Vec<_> = queries.iter().map(|_| Right::default()).collect();
    for (descriptor, entry) in population.iter() {
        let filter = descriptor.filter();
        for (query, right) in queries.iter().zip(&mut right) {
            if filter.is_subset(&query.filter) && (engine.by_filters || has_all(query, &descriptor)) {
                right.add(filter, entry);
            }
        }
    }
    let mut found = Checked::default();
    for (query, mut right) in queries.iter().zip(right) {
        let mut all = Vec::new();
        let walk = fib.all_subsets(query, &mut |entry| {
            all.push(entry);
            ControlFlow::Continue(())
        });
        all.sort_unstable();
        right.all.sort_unstable();
        found.add(walk.cut_off, all == right.all);
        let (entry, walk) = fib.largest_subset(query, &mut |_| true);
        found.add(walk.cut_off, right.is_largest(entry, options.tuning.papers_search && engine.by_filters));
    }
    found
}

/// Whether a packet has each of a descriptor's tags, as far as it says.
fn has_all(query: &TagQuery<'_>, descriptor: &Descriptor) -> bool {
    query.tags.is_none_or(|tags| descriptor.tags().iter().all(|tag| tags.binary_search(tag).is_ok()))
}

impl Right {
    fn add(&mut self, filter: Filter, entry: EntryId) {
        self.all.push(entry);
        let best = self.largest.first().map_or(0, |(filter, _)| filter.weight());
        if filter.weight() > best {
            self.largest.clear();
        }
        if filter.weight() >= best {
            self.largest.push((filter, entry));
        }
    }

    /// Whether this is the largest one's entry, or any of several largest ones'.
    fn is_largest(&self, entry: Option<EntryId>, is_any_right: bool) -> bool {
        match self.largest.iter().min() {
            Some(&(_, _)) if is_any_right => self.largest.iter().any(|&(_, right)| Some(right) == entry),
            smallest => smallest.map(|&(_, right)| right) == entry,
        }
    }
}

impl Checked {
    /// Counts an answer; one that was cut off cannot be told to be wrong.
    fn add(&mut self, cut_off: bool, is_right: bool) {
        self.checked += u64::from(!cut_off);
        self.wrong += u64::from(!cut_off && !is_right);
    }
}

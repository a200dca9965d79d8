//! Descriptors that all differ, and whose filters all differ.

use std::collections::{HashMap, HashSet, VecDeque};

use anyhow::ensure;
use byname_lookup::EntryId;
use byname_wire::{Descriptor, Filter, TagDigest};

use super::options::Options;
use crate::workload::{Random, TagSets, mix};

/// Number of nexthop groups of the descriptors. Descriptors that changes add use as many other groups.
const GROUPS: u64 = 1 << 15;
/// Maximum number of descriptors that are kept out of a table, for changes.
const FRESH_MAX: u64 = 1 << 14;
/// Number of descriptors whose tags are counted.
const SAMPLE: usize = 100_000;
/// A workload counts as exhausted after this many successive descriptors that are not new.
const REPEATED_MAX: u64 = 1 << 20;

/// The descriptors of a table. Their filters differ, so even an engine that keeps only filters takes all of them.
pub struct Population {
    /// The source of the descriptors.
    pub sets: TagSets,
    /// A bit for each number of the workload: whether its descriptor is in the table.
    is_first: Vec<u64>,
    len: u64,
    /// Numbers of descriptors that are not in the table and differ from all that are.
    fresh: VecDeque<u64>,
}

impl Population {
    /// Draws the wanted number of descriptors, or as many as there are without those kept for changes.
    pub fn draw(options: &Options, mut progress: impl FnMut(u64)) -> anyhow::Result<Self> {
        let sets = TagSets::open(options.workload, &options.data, options.measuring.seed)?;
        let kept = (options.descriptors / 64).clamp(64, FRESH_MAX);
        let wanted = (options.descriptors + kept).min(sets.len_max().unwrap_or(u64::MAX));
        let mut seen = HashSet::with_capacity_and_hasher(wanted as usize, foldhash::fast::FixedState::default());
        let (mut is_first, mut repeated, mut fresh) = (Vec::new(), 0, VecDeque::new());
        for i in 0u64.. {
            if seen.len() as u64 == wanted || repeated == REPEATED_MAX || Some(i) == sets.len_max() {
                break;
            }
            if i.is_multiple_of(64) {
                is_first.push(0);
            }
            // Two filters with the same 64 mixed bits count as equal, and one is left out.
            let is_new = seen.insert(mixed(sets.descriptor(i).filter()));
            is_first[(i / 64) as usize] |= u64::from(is_new) << (i % 64);
            repeated = if is_new { 0 } else { repeated + 1 };
            if is_new {
                // Keeps only the last ones.
                fresh.push_back(i);
                fresh.drain(..fresh.len().saturating_sub(kept as usize));
            }
            if i.is_multiple_of(1000) {
                progress(seen.len() as u64);
            }
        }
        for i in &fresh {
            is_first[(i / 64) as usize] &= !(1 << (i % 64));
        }
        ensure!(seen.len() > fresh.len(), "there must be at least one descriptor, and {kept} more for changes");
        Ok(Population { sets, is_first, len: (seen.len() - fresh.len()) as u64, fresh })
    }

    /// Number of descriptors in the table.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The first number of the workload beyond all that were drawn.
    fn end(&self) -> u64 {
        64 * self.is_first.len() as u64
    }

    /// Whether number `i` of the workload is in the table.
    fn has(&self, i: u64) -> bool {
        self.is_first[(i / 64) as usize] >> (i % 64) & 1 == 1
    }

    /// A random descriptor of the table with its entry; all are equally likely.
    pub fn any(&self, random: &mut Random) -> (Descriptor, EntryId) {
        loop {
            let number = random.below(self.end());
            if self.has(number) {
                return self.with_entry(number, 0);
            }
        }
    }

    /// The most popular tags of a sample, at most `tags`.
    pub fn popular(&self, tags: usize) -> Vec<TagDigest> {
        let mut counts = HashMap::new();
        for tag in self.iter().take(SAMPLE).flat_map(|(descriptor, _)| descriptor.tags().to_vec()) {
            *counts.entry(tag).or_insert(0) += 1;
        }
        let mut ranked: Vec<(u32, TagDigest)> = counts.into_iter().map(|(tag, count)| (count, tag)).collect();
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        ranked.into_iter().take(tags).map(|(_, tag)| tag).collect()
    }

    /// All descriptors of the table, with their entries.
    pub fn iter(&self) -> impl Iterator<Item = (Descriptor, EntryId)> {
        (0..self.end()).filter(|&i| self.has(i)).map(|i| self.with_entry(i, 0))
    }

    /// Descriptors that are not in the table, for changes, with their entries.
    pub fn fresh(&self) -> impl ExactSizeIterator<Item = (Descriptor, EntryId)> {
        self.fresh.iter().map(|&i| self.with_entry(i, GROUPS))
    }

    /// Descriptor `i` of the workload, with an entry among the groups from `first` on.
    fn with_entry(&self, i: u64, first: u64) -> (Descriptor, EntryId) {
        let descriptor = self.sets.descriptor(i);
        let group = first + mixed(descriptor.filter()) % GROUPS;
        (descriptor, EntryId(group as u32))
    }
}

/// Whether an entry belongs to a descriptor kept for changes.
pub fn is_fresh(entry: EntryId) -> bool {
    u64::from(entry.0) >= GROUPS
}

fn mixed(filter: Filter) -> u64 {
    filter.words().into_iter().fold(0, |sum, word| mix(sum ^ word))
}

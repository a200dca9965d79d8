//! Descriptors that are all different, and so are their filters.

use std::collections::{HashMap, HashSet, VecDeque};

use anyhow::ensure;
use byname_lookup::EntryId;
use byname_wire::{Descriptor, Filter, TagDigest};

use super::options::Options;
use crate::workload::{Random, TagSets, mix};

/// Nexthop groups that descriptors lead to; those that changes add have as many others.
const GROUPS: u64 = 1 << 15;
/// Most descriptors that are kept out of a table, for changes.
const FRESH_MAX: u64 = 1 << 14;
/// Descriptors whose tags are counted.
const SAMPLE: usize = 100_000;
/// Of a workload's descriptors in a row, how many may be there already before it is called exhausted.
const REPEATED_MAX: u64 = 1 << 20;

/// The descriptors of a table: an engine that keeps filters only takes all of them, too.
pub struct Population {
    /// Where they come from.
    pub sets: TagSets,
    /// By number in the workload: whether it is the first with its filter.
    is_first: Vec<u64>,
    len: u64,
    /// Numbers of some that are not in the table, nor equal to one that is.
    fresh: VecDeque<u64>,
}

impl Population {
    /// As many as asked for, or as there are but for those that are kept for changes.
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
            // Two that share 64 mixed bits are taken for the same, and one is left out.
            let is_new = seen.insert(mixed(sets.descriptor(i).filter()));
            is_first[(i / 64) as usize] |= u64::from(is_new) << (i % 64);
            repeated = if is_new { 0 } else { repeated + 1 };
            if is_new {
                // The last ones.
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
        ensure!(seen.len() > fresh.len(), "there must be a descriptor, and {kept} more for changes");
        Ok(Population { sets, is_first, len: (seen.len() - fresh.len()) as u64, fresh })
    }

    /// How many.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Numbers of the workload from which on nothing is in the table, but what equals one that is.
    fn end(&self) -> u64 {
        64 * self.is_first.len() as u64
    }

    /// Whether number `i` of the workload is in the table.
    fn has(&self, i: u64) -> bool {
        self.is_first[(i / 64) as usize] >> (i % 64) & 1 == 1
    }

    /// One of them with its entry, each with the same chance.
    pub fn any(&self, random: &mut Random) -> (Descriptor, EntryId) {
        loop {
            let number = random.below(self.end());
            if self.has(number) {
                return self.with_entry(number, 0);
            }
        }
    }

    /// The most popular tags of a sample, so many if it has them.
    pub fn popular(&self, tags: usize) -> Vec<TagDigest> {
        let mut counts = HashMap::new();
        for tag in self.iter().take(SAMPLE).flat_map(|(descriptor, _)| descriptor.tags().to_vec()) {
            *counts.entry(tag).or_insert(0) += 1;
        }
        let mut ranked: Vec<(u32, TagDigest)> = counts.into_iter().map(|(tag, count)| (count, tag)).collect();
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        ranked.into_iter().take(tags).map(|(_, tag)| tag).collect()
    }

    /// All of them, with their entries.
    pub fn iter(&self) -> impl Iterator<Item = (Descriptor, EntryId)> {
        (0..self.end()).filter(|&i| self.has(i)).map(|i| self.with_entry(i, 0))
    }

    /// Descriptors that are not in the table, for changes, with their entries.
    pub fn fresh(&self) -> impl ExactSizeIterator<Item = (Descriptor, EntryId)> {
        self.fresh.iter().map(|&i| self.with_entry(i, GROUPS))
    }

    /// Number `i` of the workload, and where it leads to among the groups from `first` on.
    fn with_entry(&self, i: u64, first: u64) -> (Descriptor, EntryId) {
        let descriptor = self.sets.descriptor(i);
        let group = first + mixed(descriptor.filter()) % GROUPS;
        (descriptor, EntryId(group as u32))
    }
}

/// Whether an entry is that of a descriptor kept for changes.
pub fn is_fresh(entry: EntryId) -> bool {
    u64::from(entry.0) >= GROUPS
}

fn mixed(filter: Filter) -> u64 {
    filter.words().into_iter().fold(0, |sum, word| mix(sum ^ word))
}

//! Descriptors that are all different, and so are their filters.

use std::collections::HashSet;

use anyhow::ensure;
use byname_lookup::EntryId;
use byname_wire::{Descriptor, Filter};

use super::options::Options;
use crate::workload::{Random, TagSets, mix};

/// Nexthop groups that descriptors lead to.
const GROUPS: u64 = 1 << 15;
/// Of a workload's descriptors in a row, how many may be there already before it is called exhausted.
const REPEATED_MAX: u64 = 1 << 20;

/// The descriptors of a table: an engine that keeps filters only takes all of them, too.
pub struct Population {
    /// Where they come from.
    pub sets: TagSets,
    /// By number in the workload: whether it is the first with its filter.
    is_first: Vec<u64>,
    len: u64,
}

impl Population {
    /// As many as asked for, or as there are.
    pub fn draw(options: &Options, mut progress: impl FnMut(u64)) -> anyhow::Result<Self> {
        let sets = TagSets::open(options.workload, &options.data, options.measuring.seed)?;
        let wanted = options.descriptors.min(sets.len_max().unwrap_or(u64::MAX));
        let mut seen = HashSet::with_capacity_and_hasher(wanted as usize, foldhash::fast::FixedState::default());
        let (mut is_first, mut repeated) = (Vec::new(), 0);
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
            if i.is_multiple_of(1000) {
                progress(seen.len() as u64);
            }
        }
        ensure!(!seen.is_empty(), "there must be a descriptor");
        Ok(Population { sets, is_first, len: seen.len() as u64 })
    }

    /// How many.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Numbers of the workload from which on nothing is in the table, but what equals one that is.
    pub fn end(&self) -> u64 {
        64 * self.is_first.len() as u64
    }

    /// Whether number `i` of the workload is in the table.
    pub fn has(&self, i: u64) -> bool {
        self.is_first[(i / 64) as usize] >> (i % 64) & 1 == 1
    }

    /// One of them, each with the same chance.
    pub fn any(&self, random: &mut Random) -> Descriptor {
        loop {
            let number = random.below(self.end());
            if self.has(number) {
                return self.sets.descriptor(number);
            }
        }
    }

    /// All of them, with their entries.
    pub fn iter(&self) -> impl Iterator<Item = (Descriptor, EntryId)> {
        (0..self.end()).filter(|&i| self.has(i)).map(|i| {
            let descriptor = self.sets.descriptor(i);
            let entry = entry(descriptor.filter());
            (descriptor, entry)
        })
    }
}

/// Where a descriptor with this filter leads to.
pub fn entry(filter: Filter) -> EntryId {
    EntryId((mixed(filter) % GROUPS) as u32)
}

fn mixed(filter: Filter) -> u64 {
    filter.words().into_iter().fold(0, |sum, word| mix(sum ^ word))
}

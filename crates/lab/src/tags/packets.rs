//! The packets, prepared before the measurement.

use byname_lookup::tagset::TagQuery;
use byname_wire::tagset::{FILTER_BITS, FUNCTIONS, PART_BITS, TAGS_MAX};
use byname_wire::{Descriptor, Filter, TagDigest};

use super::asking::{Asking, Carried, Traffic};
use super::options::Options;
use super::population::Population;
use crate::workload::{Random, unknown};

/// Number of tags from which packets of popular tags are made.
const POPULAR: usize = 2 * TAGS_MAX;
/// Maximum number of draws for a crowded packet. After that it has fewer than the maximum number of tags.
const DRAWN_MAX: usize = 64 * TAGS_MAX;

/// Packets in the order in which they are looked up.
pub struct Packets {
    tags: Vec<TagDigest>,
    ends: Vec<u32>,
    /// Filters of packets that carry no tags.
    filters: Vec<Filter>,
}

impl Packets {
    /// Draws the number of packets in the options.
    pub fn draw(options: &Options, asking: &Asking, population: &Population) -> Self {
        let mut random = Random::new(!options.measuring.seed);
        let mut packets = Packets { tags: Vec::new(), ends: Vec::new(), filters: Vec::new() };
        let popular = match asking.traffic {
            Traffic::Popular => population.popular(POPULAR),
            _ => Vec::new(),
        };
        for _ in 0..options.draws {
            let packet = match asking.traffic {
                Traffic::Drawn => drawn(asking, population, &mut random),
                Traffic::Dense => crowded(&mut random, |random| population.any(random).0.tags().to_vec()),
                Traffic::Popular => {
                    crowded(&mut random, |random| vec![popular[random.below(popular.len() as u64) as usize]])
                }
                Traffic::Full => {
                    packets.filters.push(full());
                    continue;
                }
            };
            match asking.packets {
                Carried::Tags => {
                    packets.tags.extend_from_slice(packet.tags());
                    packets.ends.push(packets.tags.len() as u32);
                }
                Carried::Filter => packets.filters.push(packet.filter()),
            }
        }
        packets
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.ends.len().max(self.filters.len())
    }

    /// The query of packet `i`. If the packet carries tags, the filter is made here.
    #[inline]
    pub fn query(&self, i: usize) -> TagQuery<'_> {
        match self.filters.get(i) {
            Some(filter) => TagQuery::of_filter(*filter),
            None => {
                let start = if i == 0 { 0 } else { self.ends[i - 1] };
                TagQuery::of_tags(&self.tags[start as usize..self.ends[i] as usize])
            }
        }
    }
}

fn drawn(asking: &Asking, population: &Population, random: &mut Random) -> Descriptor {
    let is_match = random.unit() < asking.match_rate;
    let (descriptor, _) = population.any(random);
    let (low, high) = (*asking.extra_tags.start(), *asking.extra_tags.end());
    let wanted = descriptor.tags().len() + (low + random.below(high - low + 1)) as usize;
    let mut tags = if is_match { descriptor.tags().to_vec() } else { Vec::new() };
    while tags.len() < wanted.min(TAGS_MAX) {
        let more = if is_match { population.sets.extra(&descriptor, random) } else { unknown(random) };
        if !tags.contains(&more) {
            tags.push(more);
        }
    }
    Descriptor::from_digests(tags).expect("as many tags as a packet takes")
}

/// A set with the maximum number of tags from `some`. It has fewer if `some` keeps returning the same tags.
fn crowded(random: &mut Random, mut some: impl FnMut(&mut Random) -> Vec<TagDigest>) -> Descriptor {
    let mut tags = Vec::new();
    for _ in 0..DRAWN_MAX {
        for tag in some(random) {
            if tags.len() < TAGS_MAX && !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        if tags.len() == TAGS_MAX {
            break;
        }
    }
    Descriptor::from_digests(tags).expect("as many tags as a packet takes")
}

/// The filter with all valid bits set.
fn full() -> Filter {
    Filter::from_words([u64::MAX, u64::MAX, u64::MAX >> (FILTER_BITS - FUNCTIONS * PART_BITS)])
        .expect("spare bits are not set")
}

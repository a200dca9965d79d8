//! The packets, prepared before anything is timed.

use byname_lookup::tagset::TagQuery;
use byname_wire::tagset::TAGS_MAX;
use byname_wire::{Descriptor, Filter, TagDigest};

use super::options::{Carried, Options};
use super::population::Population;
use crate::workload::{Random, unknown};

/// Packets in the order in which they are asked for.
pub struct Packets {
    tags: Vec<TagDigest>,
    ends: Vec<u32>,
    /// Of packets that carry nothing else.
    filters: Vec<Filter>,
}

impl Packets {
    /// Draws as many as the options say.
    pub fn draw(options: &Options, population: &Population) -> Self {
        let mut random = Random::new(!options.measuring.seed);
        let mut packets = Packets { tags: Vec::new(), ends: Vec::new(), filters: Vec::new() };
        for _ in 0..options.draws {
            let packet = packet(options, population, &mut random);
            match options.packets {
                Carried::Tags => {
                    packets.tags.extend_from_slice(packet.tags());
                    packets.ends.push(packets.tags.len() as u32);
                }
                Carried::Filter => packets.filters.push(packet.filter()),
            }
        }
        packets
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.ends.len().max(self.filters.len())
    }

    /// What packet `i` asks for. The filter of one that carries tags is made here.
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

fn packet(options: &Options, population: &Population, random: &mut Random) -> Descriptor {
    let is_match = random.unit() < options.match_rate;
    let descriptor = population.any(random);
    let (low, high) = (*options.extra_tags.start(), *options.extra_tags.end());
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

//! Populations of descriptors [TagNet §4.1], and further tags for packets.
//!
//! Descriptor `i` is computed from the seed and `i`, so that 63 million can stream into an engine without a list.
//!
//! The paper's routing state, of 500 million simulated users, is not public. `tagnet` has the same structure as far as
//! the paper describes it. Its applications belong to a few classes, the popularity of tags is skewed, few tags are in
//! common use, and many descriptors share most of their tags. We assume [`CLASSES`] classes, the r-th with a popularity
//! proportional to 1/r. Each class has a tag that all its descriptors have, and a vocabulary of [`CLASS_TAGS`] tags
//! with popularity proportional to 1/r. A descriptor has one to three tags of the vocabulary. In real tag sets,
//! popularity falls sometimes faster and sometimes slower than 1/r. In Debian's debtags (3.7 tags a set) it falls like
//! 1/r^1.2 from rank 10 to 100. In Unicode's annotations (5.3 tags) it falls like 1/r^0.4 there, and like 1/r^0.9 from
//! rank 100 to 10,000.

use std::path::Path;

use anyhow::ensure;
use byname_wire::tagset::TAGS_MAX;
use byname_wire::{Descriptor, TagDigest};
use clap::ValueEnum;
use serde::Serialize;

use super::random::{Random, mix};
use super::text;

/// A population of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TagKind {
    /// Two to six tags from a vocabulary of a million, the r-th with a popularity proportional to 1/r.
    Zipf,
    /// Application classes with few tags in common use, as the paper's 10M and 63M.
    Tagnet,
    /// Hierarchical names as sets of numbered components, as the paper's 10M-CCN: real domains with up to three more
    /// components.
    Ccn,
    /// The real sets of Unicode's annotations, in 162 locales.
    Cldr,
    /// The real sets of Debian's packages. Of the few with more tags, those that fit into a descriptor.
    Debtags,
}

/// Number of tags of `zipf`.
const ZIPF_TAGS: u64 = 1_000_000;
/// Number of classes of `tagnet`.
const CLASSES: u64 = 16;
/// Number of tags of each class.
const CLASS_TAGS: u64 = 20_000;
/// Number of components that `ccn` has below a domain, at each depth.
const CCN_COMPONENTS: u64 = 1000;

/// An endless sequence of descriptors. Those from a list repeat after its end.
pub struct TagSets {
    kind: TagKind,
    seed: u64,
    /// Descriptors from the lines of a list, if there is one.
    list: Vec<Descriptor>,
}

impl TagSets {
    /// Reads the list, if the kind has one, from the folder of real data.
    pub fn open(kind: TagKind, data: &Path, seed: u64) -> anyhow::Result<Self> {
        let list = match kind {
            TagKind::Zipf | TagKind::Tagnet => Vec::new(),
            TagKind::Ccn => read(&data.join("domains_tb0hdan.txt.xz"), |line| {
                Descriptor::from_digests((1..).zip(line.rsplit('.')).map(|(at, label)| component(at, label)))
            })?,
            TagKind::Cldr => read(&data.join("tags_cldr.txt.xz"), |line| {
                let tags = line.split_once('\t').map_or(line, |(_, tags)| tags);
                Descriptor::of(tags.split('|'))
            })?,
            TagKind::Debtags => {
                read(&data.join("tags_debtags.txt.xz"), |line| Descriptor::of(line.split(' ').take(TAGS_MAX)))?
            }
        };
        Ok(TagSets { kind, seed, list })
    }

    /// Maximum number of different descriptors, if a list limits it.
    pub fn len_max(&self) -> Option<u64> {
        matches!(self.kind, TagKind::Cldr | TagKind::Debtags).then_some(self.list.len() as u64)
    }

    /// Descriptor `i`. Some descriptors are equal.
    pub fn descriptor(&self, i: u64) -> Descriptor {
        let mut random = Random::of(self.seed, i);
        let tags = match self.kind {
            TagKind::Zipf => 2 + random.below(5),
            TagKind::Tagnet => 2 + random.below(3),
            TagKind::Ccn => random.below(4),
            TagKind::Cldr | TagKind::Debtags => return self.list[(i % self.list.len() as u64) as usize].clone(),
        };
        let mut set = match self.kind {
            TagKind::Ccn => self.list[(i % self.list.len() as u64) as usize].tags().to_vec(),
            TagKind::Tagnet => vec![tag(TagKind::Tagnet, class(&mut random))],
            _ => Vec::new(),
        };
        let wanted = match self.kind {
            TagKind::Ccn => set.len() + tags as usize,
            _ => tags as usize,
        };
        let context = set.clone();
        while set.len() < wanted {
            let more = self.related(&context, set.len(), &mut random);
            if !set.contains(&more) {
                set.push(more);
            }
        }
        Descriptor::from_digests(set).expect("few tags")
    }

    /// A further tag for a packet, which other descriptors have, too.
    pub fn extra(&self, descriptor: &Descriptor, random: &mut Random) -> TagDigest {
        match self.kind {
            TagKind::Zipf => self.related(&[], 0, random),
            // A tag of the same application.
            TagKind::Tagnet => {
                let class = (0..CLASSES).map(|class| tag(TagKind::Tagnet, class));
                let own = class.clone().find(|class| descriptor.tags().contains(class));
                self.related(&[own.unwrap_or_else(|| tag(TagKind::Tagnet, 0))], 1, random)
            }
            TagKind::Ccn => self.related(descriptor.tags(), descriptor.tags().len(), random),
            TagKind::Cldr | TagKind::Debtags => {
                let other = &self.list[random.below(self.list.len() as u64) as usize];
                let tags = other.tags();
                if tags.is_empty() { unknown(random) } else { tags[random.below(tags.len() as u64) as usize] }
            }
        }
    }

    /// A tag for a set that begins with `context` and has `tags` tags so far.
    fn related(&self, context: &[TagDigest], tags: usize, random: &mut Random) -> TagDigest {
        match self.kind {
            TagKind::Zipf | TagKind::Cldr | TagKind::Debtags => tag(TagKind::Zipf, zipf(ZIPF_TAGS, random)),
            TagKind::Tagnet => {
                let class = context.first().map_or(0, |class| u64::from(class.0));
                tag(TagKind::Tagnet, class << 32 | (1 << 31) | zipf(CLASS_TAGS, random))
            }
            TagKind::Ccn => tag(TagKind::Ccn, (tags as u64 + 1) << 32 | zipf(CCN_COMPONENTS, random)),
        }
    }
}

/// A tag that no descriptor has, except by chance.
pub fn unknown(random: &mut Random) -> TagDigest {
    TagDigest(random.bits() as u32)
}

fn class(random: &mut Random) -> u64 {
    zipf(CLASSES, random)
}

/// The digest of tag `number` of a vocabulary. It is as random as a SHA-256 digest, but cheaper.
fn tag(kind: TagKind, number: u64) -> TagDigest {
    TagDigest((mix(mix(kind as u64 + 1) ^ number) >> 32) as u32)
}

fn component(position: usize, label: &str) -> TagDigest {
    TagDigest::of_component(position, label.as_bytes())
}

/// A number below `n`. The r-th, counted from 1, has a probability proportional to 1/r.
fn zipf(n: u64, random: &mut Random) -> u64 {
    // The inverse of the integral of 1/x from 1 to n + 1.
    let x = ((n + 1) as f64).powf(random.unit());
    (x as u64).clamp(1, n) - 1
}

fn read<E>(file: &Path, set: impl Fn(&str) -> Result<Descriptor, E>) -> anyhow::Result<Vec<Descriptor>> {
    let bytes = text::read(file)?;
    // A malformed line may have more tags than a descriptor can.
    let list: Vec<_> = text::lines(&bytes).filter_map(|line| set(line).ok()).collect();
    ensure!(!list.is_empty(), "{} has no tags", file.display());
    Ok(list)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn descriptors_are_the_same_each_time_and_mostly_different() {
        for kind in [TagKind::Zipf, TagKind::Tagnet] {
            let sets = TagSets::open(kind, Path::new("."), 5).expect("no list is read");
            let made: Vec<_> = (0..5000).map(|i| sets.descriptor(i)).collect();
            assert!(made.iter().enumerate().all(|(i, set)| sets.descriptor(i as u64) == *set));
            let tags_max = if kind == TagKind::Zipf { 6 } else { 4 };
            assert!(made.iter().all(|set| (2..=tags_max).contains(&set.tags().len())));
            assert!(made.iter().collect::<HashSet<_>>().len() > 3500);
        }
    }

    #[test]
    fn the_first_rank_is_as_much_more_popular_as_zipf_says() {
        let mut random = Random::new(1);
        let mut counts = [0u32; 1000];
        (0..1_000_000).for_each(|_| counts[zipf(1000, &mut random) as usize] += 1);
        // The integral approximates the sum: ln 2, ln 11/10.
        assert!((90_000..110_000).contains(&counts[0]), "{}", counts[0]);
        assert!((12_000..15_500).contains(&counts[9]), "{}", counts[9]);
    }
}

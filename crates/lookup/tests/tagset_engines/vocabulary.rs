//! Seeded tags, descriptors and packets for tests, in families that each stress another part.

use std::collections::HashMap;
use std::sync::LazyLock;

use byname_wire::tagset::{FILTER_BITS, Filter, TAGS_MAX};
use byname_wire::{Descriptor, TagDigest};

use crate::suite::Random;

/// A family of descriptors.
pub struct Family {
    pub name: &'static str,
    /// Draws a tag.
    pub tag: fn(&mut Random) -> TagDigest,
    /// Maximum number of tags of a descriptor.
    pub tags_max: usize,
    /// Maximum number of tags that a packet has in addition to a descriptor's.
    pub extra_max: usize,
    /// Maximum number of changes in a batch.
    pub batch_max: usize,
}

pub const FAMILIES: &[Family] = &[
    // So few tags that most sets are subsets of others, and ties are common.
    Family { name: "five tags", tag: |random| tag(random.below(5)), tags_max: 4, extra_max: 3, batch_max: 6 },
    Family { name: "forty tags", tag: |random| tag(random.below(40)), tags_max: 6, extra_max: 4, batch_max: 40 },
    // Popular tags and rare ones. Most tags occur once.
    Family {
        name: "many tags",
        tag: |random| tag(popular(random, 1 << 20)),
        tags_max: 6,
        extra_max: 3,
        batch_max: 300,
    },
    Family { name: "long sets", tag: |random| tag(random.below(60)), tags_max: TAGS_MAX, extra_max: 32, batch_max: 12 },
    Family {
        name: "tags with equal filters",
        tag: |random| *random.pick(&TWINS),
        tags_max: 3,
        extra_max: 2,
        batch_max: 12,
    },
];

/// The tag of this number, as its SHA-256 would have it.
fn tag(number: usize) -> TagDigest {
    TagDigest(Random(number as u64).next() as u32)
}

/// A number below `n`. Each is about as likely as the range from twice to three times that number.
fn popular(random: &mut Random, n: usize) -> usize {
    let bits = random.below(n.ilog2() as usize + 1);
    random.below(1 << bits)
}

/// Pairs of tags with equal filters, among numbers that anybody can try.
static TWINS: LazyLock<Vec<TagDigest>> = LazyLock::new(|| {
    let mut first: HashMap<Filter, TagDigest> = HashMap::new();
    let mut twins = Vec::new();
    for digest in 0..400_000 {
        let digest = TagDigest(digest);
        if let Some(other) = first.insert(Filter::of(&[digest]), digest) {
            twins.extend([other, digest]);
        }
    }
    assert!(twins.len() >= 4, "{} tags with equal filters", twins.len());
    twins
});

impl Family {
    /// A descriptor. Every number of tags is equally likely, including zero.
    pub fn descriptor(&self, random: &mut Random) -> Descriptor {
        let tags = random.below(self.tags_max + 1);
        self.with_more(Descriptor::default(), tags, random)
    }

    /// A packet's tags: those of a descriptor, and some more.
    pub fn packet(&self, random: &mut Random) -> Descriptor {
        let (descriptor, extra) = (self.descriptor(random), random.below(self.extra_max + 1));
        self.with_more(descriptor, extra, random)
    }

    fn with_more(&self, descriptor: Descriptor, tags: usize, random: &mut Random) -> Descriptor {
        let room = TAGS_MAX - descriptor.tags().len();
        let more = (0..tags.min(room)).map(|_| (self.tag)(random));
        Descriptor::from_digests(descriptor.tags().iter().copied().chain(more)).expect("few enough tags")
    }

    /// A filter that need not come from tags: with all bits, most bits, or few.
    pub fn filter(&self, random: &mut Random) -> Filter {
        let words = match random.below(3) {
            0 => [u64::MAX; 3],
            1 => std::array::from_fn(|_| random.next() | random.next() | random.next()),
            _ => {
                let mut words = self.packet(random).filter().words();
                words.iter_mut().for_each(|word| *word &= random.next() | random.next());
                words
            }
        };
        let spare = u64::MAX << (FILTER_BITS - 3 - 128);
        Filter::from_words([words[0], words[1], words[2] & !spare]).expect("without the spare bits")
    }
}

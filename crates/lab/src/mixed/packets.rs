//! The packets of many flows, prepared before the measurement.

use std::num::NonZeroU16;
use std::ops::Range;

use byname_wire::locator::TreeId;
use byname_wire::tagnet::{Address, Endpoint, LocatorPacketBuilder, TagPacketBuilder};
use byname_wire::{Descriptor, Locator};

use super::Mix;
use crate::locator::Forest;
use crate::tags::Population;
use crate::workload::{Permutation, Random};

/// The network's only tree.
pub const TREE: TreeId = TreeId(0);
/// Sizes of packets in bytes, as in [TagNet §4.5].
const WITH_DATA: usize = 1280;
const FIRST_INTEREST: usize = 800;
const FOLLOW_UP: usize = 100;
/// Maximum number of tags of a packet beyond those of a descriptor [TagNet §4.1].
const EXTRA_TAGS_MAX: u64 = 2;

/// The way in which a packet is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By tags, to all matches.
    Push,
    /// By tags, to the best match.
    Pull,
    /// By locator, to this node.
    Node(u32),
}

/// Packets in the order in which they are handled.
pub struct Packets {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    pub kinds: Vec<Kind>,
}

impl Packets {
    /// Draws enough flows for `draws` packets, and puts their packets in random order.
    pub fn draw(mix: Mix, draws: u64, population: &Population, forest: &Forest, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut kinds = Vec::new();
        // Size of each packet, in bytes.
        let mut sizes = Vec::new();
        while (kinds.len() as u64) < draws {
            let mut node = || Kind::Node(forest.nodes[random.below(forest.nodes.len() as u64) as usize]);
            let (consumer, producer) = (node(), node());
            if random.unit() >= mix.pull {
                kinds.push(Kind::Push);
                sizes.push(WITH_DATA);
                continue;
            }
            kinds.extend([Kind::Pull, consumer]);
            sizes.extend([FIRST_INTEREST, WITH_DATA]);
            for _ in 0..random.below(u64::from(mix.follow_ups) + 1) {
                kinds.extend([producer, consumer]);
                sizes.extend([FOLLOW_UP, WITH_DATA]);
            }
        }
        let order = Permutation::new(kinds.len() as u64, seed);
        let order = (0..kinds.len() as u64).map(|i| order.at(i) as usize);
        let mut packets = Packets { bytes: Vec::new(), ends: Vec::new(), kinds: Vec::new() };
        for place in order {
            let bytes = encode(kinds[place], sizes[place], population, forest, &mut random);
            packets.bytes.extend_from_slice(&bytes);
            packets.ends.push(packets.bytes.len());
            packets.kinds.push(kinds[place]);
        }
        packets
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of all packets.
    pub fn total_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of packet `i`.
    #[inline]
    pub fn packet(&self, i: usize) -> &[u8] {
        &self.bytes[self.place(i)]
    }

    fn place(&self, i: usize) -> Range<usize> {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        start..self.ends[i]
    }
}

/// Encodes a packet of about `size` bytes.
fn encode(kind: Kind, size: usize, population: &Population, forest: &Forest, random: &mut Random) -> Vec<u8> {
    let address = |node: u32| Address {
        locator: Locator { tree: TREE, label: forest.label(0, node as usize) },
        endpoint: Endpoint(u64::from(node)),
    };
    let source = address(forest.nodes[random.below(forest.nodes.len() as u64) as usize]);
    let descriptor = match kind {
        Kind::Node(_) => Descriptor::default(),
        Kind::Push | Kind::Pull => wanted(population, random),
    };
    let with_payload = |payload: &[u8]| match kind {
        Kind::Node(node) => LocatorPacketBuilder::new(address(node)).source(source).payload(payload).encode(),
        Kind::Push => TagPacketBuilder::new(TREE, &descriptor).payload(payload).encode(),
        Kind::Pull => {
            TagPacketBuilder::new(TREE, &descriptor).fan_out(NonZeroU16::MIN).source(source).payload(payload).encode()
        }
    };
    let headers = with_payload(&[]).len();
    with_payload(&vec![0; size.saturating_sub(headers)])
}

/// A descriptor of the table with up to [`EXTRA_TAGS_MAX`] more tags.
fn wanted(population: &Population, random: &mut Random) -> Descriptor {
    let (descriptor, _) = population.any(random);
    let mut tags = descriptor.tags().to_vec();
    for _ in 0..random.below(EXTRA_TAGS_MAX + 1) {
        tags.push(population.sets.extra(&descriptor, random));
    }
    // A descriptor that already has the maximum number of tags gets no more.
    Descriptor::from_digests(tags).unwrap_or(descriptor)
}

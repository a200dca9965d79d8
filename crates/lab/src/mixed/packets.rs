//! The packets of many flows, prepared before anything is timed.

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
/// Octets of packets, as in [TagNet §4.5].
const WITH_DATA: usize = 1280;
const FIRST_INTEREST: usize = 800;
const FOLLOW_UP: usize = 100;
/// Most tags that packets have beside those of a descriptor [TagNet §4.1].
const EXTRA_TAGS_MAX: u64 = 2;

/// How a packet was addressed when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To all who want it.
    Push,
    /// To the best match.
    Pull,
    /// To this node.
    Node(u32),
}

/// Packets in the order in which they are handled.
pub struct Packets {
    octets: Vec<u8>,
    ends: Vec<usize>,
    pub kinds: Vec<Kind>,
}

impl Packets {
    /// The packets of as many flows as it takes for `draws`, in random order.
    pub fn draw(mix: Mix, draws: u64, population: &Population, forest: &Forest, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut kinds = Vec::new();
        // Of each packet, how many octets it is to have.
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
        let mut packets = Packets { octets: Vec::new(), ends: Vec::new(), kinds: Vec::new() };
        for place in order {
            let octets = encode(kinds[place], sizes[place], population, forest, &mut random);
            packets.octets.extend_from_slice(&octets);
            packets.ends.push(packets.octets.len());
            packets.kinds.push(kinds[place]);
        }
        packets
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Octets of all of them.
    pub fn bytes(&self) -> usize {
        self.octets.len()
    }

    /// Packet `i` as it came.
    #[inline]
    pub fn octets(&self, i: usize) -> &[u8] {
        &self.octets[self.place(i)]
    }

    fn place(&self, i: usize) -> Range<usize> {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        start..self.ends[i]
    }
}

/// A packet of about `size` octets.
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

/// A descriptor of the table, with a few tags more.
fn wanted(population: &Population, random: &mut Random) -> Descriptor {
    let (descriptor, _) = population.any(random);
    let mut tags = descriptor.tags().to_vec();
    for _ in 0..random.below(EXTRA_TAGS_MAX + 1) {
        tags.push(population.sets.extra(&descriptor, random));
    }
    // One that has as many as there may be already gets no more.
    Descriptor::from_digests(tags).unwrap_or(descriptor)
}

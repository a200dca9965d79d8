//! Packets under way, prepared before the measurement.

use byname_lookup::locator::{Port, Table};
use byname_lookup::prefetch;
use byname_wire::Label;
use byname_wire::locator::LABEL_BYTES_MAX;

use super::forest::Forest;
use super::options::BURST_MAX;
use crate::workload::Random;

/// A packet that has arrived at a node.
pub struct Packet {
    pub label: Label,
    /// The table of the packet's node for the packet's tree.
    pub table: u32,
}

/// A packet whose label is still encoded.
pub struct Encoded {
    bytes: [u8; LABEL_BYTES_MAX],
    len: u8,
    table: u32,
}

/// Draws packets in bursts. All packets of a burst are at one node, a random one on the path between two random nodes.
/// Each goes to a random node on a random tree.
pub fn draw(forest: &Forest, draws: usize, burst: usize, seed: u64) -> Vec<Packet> {
    let mut random = Random::new(seed);
    let mut below = |count: usize| random.below(count as u64) as usize;
    let mut packets = Vec::with_capacity(draws);
    while packets.len() < draws {
        let [from, to] = std::array::from_fn(|_| forest.nodes[below(forest.nodes.len())] as usize);
        let labelling = &forest.labellings[below(forest.labellings.len())];
        let way = labelling.tree().path(from, to).expect("every tree has these nodes");
        let at = way[below(way.len())];
        for _ in 0..burst.min(draws - packets.len()) {
            let to = forest.nodes[below(forest.nodes.len())] as usize;
            let tree = below(forest.labellings.len());
            let table = tree * forest.labellings[tree].tree().graph_nodes() + at;
            packets.push(Packet { label: forest.label(tree, to), table: table as u32 });
        }
    }
    packets
}

impl Packet {
    /// The packet with its label encoded as on the wire.
    pub fn encode(&self) -> Encoded {
        let mut label = Vec::new();
        self.label.push(&mut label);
        let mut bytes = [0; LABEL_BYTES_MAX];
        bytes[..label.len()].copy_from_slice(&label);
        Encoded { bytes, len: label.len() as u8, table: self.table }
    }
}

impl Encoded {
    #[inline]
    fn label(&self) -> Option<Label> {
        /// A type that no packet uses: labels have an element of their own.
        const TYPE: u64 = 0;
        Label::decode(TYPE, &self.bytes[..usize::from(self.len)]).ok()
    }
}

/// Number of bursts to prefetch ahead: the decisions for one burst take about as long as a memory access.
const BURSTS_AHEAD: usize = 4;

/// Prefetches packets some bursts after the one that begins at `at`. On a router, the network card has put packets into
/// the cache before a worker reads them.
#[inline]
fn prefetch_later<T>(packets: &[T], at: usize, burst: usize) {
    let start = (at + BURSTS_AHEAD * burst).min(packets.len());
    let later = &packets[start..(start + burst).min(packets.len())];
    later.iter().step_by(64 / size_of::<T>()).for_each(prefetch::read);
}

/// Prefetches the table for a burst that comes soon: a router has its own table in the cache. The burst itself was
/// prefetched before.
#[inline]
fn prefetch_table<T>(tables: &[Table], packets: &[T], at: usize, burst: usize, table_of: impl Fn(&T) -> u32) {
    if let Some(packet) = packets.get(at + BURSTS_AHEAD / 2 * burst) {
        prefetch::read_all(&tables[table_of(packet) as usize]);
    }
}

/// Makes decisions again and again, burst by burst.
pub struct Reader<'a> {
    tables: &'a [Table],
    packets: &'a [Packet],
    encoded: &'a [Encoded],
    burst: usize,
    at: usize,
    out: [Port; BURST_MAX],
}

impl<'a> Reader<'a> {
    /// Begins at packet `start`.
    pub fn new(tables: &'a [Table], packets: &'a [Packet], encoded: &'a [Encoded], burst: usize, start: usize) -> Self {
        Reader { tables, packets, encoded, burst, at: start, out: [Port::NOWHERE; BURST_MAX] }
    }

    /// Decides on a burst of decoded labels.
    #[inline]
    pub fn forward(&mut self) -> &[Port] {
        let range = self.next();
        prefetch_later(self.packets, range.start, self.burst);
        prefetch_table(self.tables, self.packets, range.start, self.burst, |packet| packet.table);
        for (packet, out) in self.packets[range.clone()].iter().zip(&mut self.out) {
            *out = self.tables[packet.table as usize].forward(packet.label);
        }
        &self.out[..range.len()]
    }

    /// Decides on a burst of encoded labels.
    #[inline]
    pub fn decode_and_forward(&mut self) -> &[Port] {
        let range = self.next();
        prefetch_later(self.encoded, range.start, self.burst);
        prefetch_table(self.tables, self.encoded, range.start, self.burst, |packet| packet.table);
        for (packet, out) in self.encoded[range.clone()].iter().zip(&mut self.out) {
            let table = &self.tables[packet.table as usize];
            *out = packet.label().map_or(Port::NOWHERE, |label| table.forward(label));
        }
        &self.out[..range.len()]
    }

    #[inline]
    fn next(&mut self) -> std::ops::Range<usize> {
        if self.at >= self.packets.len() {
            self.at = 0;
        }
        let range = self.at..(self.at + self.burst).min(self.packets.len());
        self.at = range.end;
        range
    }
}

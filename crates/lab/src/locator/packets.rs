//! Packets under way, prepared before anything is timed.

use byname_lookup::locator::{Port, Table};
use byname_wire::Label;
use byname_wire::locator::LABEL_BYTES_MAX;

use super::forest::Forest;
use super::options::BURST_MAX;
use crate::workload::Random;

/// A packet that has come to a node.
pub struct Packet {
    pub label: Label,
    /// The table of the node that it is at, for the tree that it is on.
    pub table: u32,
}

/// The same, before its label is decoded.
pub struct Encoded {
    octets: [u8; LABEL_BYTES_MAX],
    len: u8,
    table: u32,
}

/// Packets at random nodes of the ways between random nodes, each way on a random tree.
pub fn draw(forest: &Forest, draws: usize, seed: u64) -> Vec<Packet> {
    let mut random = Random::new(seed);
    let draw = |_| {
        let mut node = || forest.nodes[random.below(forest.nodes.len() as u64) as usize] as usize;
        let (from, to) = (node(), node());
        let tree = random.below(forest.labellings.len() as u64) as usize;
        let labelling = &forest.labellings[tree];
        let way = labelling.tree().path(from, to).expect("every tree has these nodes");
        let at = way[random.below(way.len() as u64) as usize];
        let table = tree * labelling.tree().graph_nodes() + at;
        Packet { label: forest.label(tree, to), table: table as u32 }
    };
    (0..draws).map(draw).collect()
}

impl Packet {
    /// With the label as it travels.
    pub fn encode(&self) -> Encoded {
        let mut label = Vec::new();
        self.label.push(&mut label);
        let mut octets = [0; LABEL_BYTES_MAX];
        octets[..label.len()].copy_from_slice(&label);
        Encoded { octets, len: label.len() as u8, table: self.table }
    }
}

impl Encoded {
    #[inline]
    fn label(&self) -> Option<Label> {
        /// No packet has this element: labels stand in one of their own.
        const TYPE: u64 = 0;
        Label::decode(TYPE, &self.octets[..usize::from(self.len)]).ok()
    }
}

/// Takes decisions burst by burst, again and again.
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

    /// Decides on a burst of labels.
    #[inline]
    pub fn forward(&mut self) -> &[Port] {
        let range = self.next();
        for (packet, out) in self.packets[range.clone()].iter().zip(&mut self.out) {
            *out = self.tables[packet.table as usize].forward(packet.label);
        }
        &self.out[..range.len()]
    }

    /// Decides on a burst of encoded labels.
    #[inline]
    pub fn decode_and_forward(&mut self) -> &[Port] {
        let range = self.next();
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

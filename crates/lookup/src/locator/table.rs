//! What one node knows of one tree, and the decision that it takes for each packet.

use std::hint::select_unpredictable;

use byname_wire::Label;

/// Where a packet goes from a node: to a neighbour on the tree, to the node itself, or nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(u32);

impl Port {
    /// To the node itself.
    pub const HERE: Port = Port(0);
    /// To the parent. The root has none.
    pub const PARENT: Port = Port(1);
    /// To the child with the largest subtree. A leaf has none.
    pub const HEAVY: Port = Port(2);
    /// No port of any node: what a label gets that no labelling made.
    pub const NOWHERE: Port = Port(u32::MAX);

    /// To a light child, which labels count from 1; [`Port::NOWHERE`] for `u32::MAX`.
    pub(super) const fn light(number: u32) -> Self {
        Port(Port::HEAVY.0.wrapping_add(number))
    }

    /// Its place among the ports of a node.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a node knows of a tree: its own label, but for the ports, and what is below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    pub(super) node: u32,
    /// Its descendants have the numbers after its own.
    pub(super) descendants: u32,
    /// The first of these, below light children; the rest are the heavy child's part.
    pub(super) light_descendants: u32,
    pub(super) light_children: u32,
    /// Bits of the port list in the node's own label.
    pub(super) port_bits: u32,
    /// To the parent, if it has one.
    pub(super) up: Port,
}

impl Table {
    /// How many children the node has.
    pub(super) fn children(&self) -> u32 {
        self.light_children + u32::from(self.descendants > 0)
    }

    /// Every port of the node has an index below this.
    pub(super) fn ports(&self) -> usize {
        Port::light(self.light_children).index() + 1
    }

    /// Where a packet with this label goes.
    ///
    /// Straight code, without a branch to mispredict: a node high on the tree sees packets for all
    /// its subtrees in no order. That a packet may not leave by the port it came from, which only a
    /// forged label asks for, is for the caller to see to, who knows that port:
    /// [`Trees::forward`](super::Trees::forward) does.
    #[inline(always)]
    pub fn forward(&self, destination: Label) -> Port {
        // Numbers below the node's own wrap to where no descendants are.
        let ahead = destination.node().wrapping_sub(self.node);
        let light = destination.light_port(self.port_bits);
        let light = select_unpredictable(light <= self.light_children, Port::light(light), Port::NOWHERE);
        let down = select_unpredictable(ahead <= self.light_descendants, light, Port::HEAVY);
        let away = select_unpredictable(ahead <= self.descendants, down, self.up);
        select_unpredictable(ahead == 0, Port::HERE, away)
    }
}

//! A node's knowledge of one tree, and its decision for each packet.

use std::hint::select_unpredictable;

use byname_wire::Label;

/// The way out of a node: to a neighbour on the tree, to the node itself, or to nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(u32);

impl Port {
    /// The node itself.
    pub const HERE: Port = Port(0);
    /// The parent. The root has none.
    pub const PARENT: Port = Port(1);
    /// The child with the largest subtree. A leaf has none.
    pub const HEAVY: Port = Port(2);
    /// No port of any node. A label that no labelling made may lead here.
    pub const NOWHERE: Port = Port(u32::MAX);

    /// A light child; labels number them from 1. [`Port::NOWHERE`] for `u32::MAX`.
    pub const fn light(number: u32) -> Self {
        Port(Port::HEAVY.0.wrapping_add(number))
    }

    /// Its index among a node's ports.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A node's knowledge of a tree: its own label without the ports, and what is below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    pub(super) node: u32,
    /// Number of descendants. Their numbers follow the node's own.
    pub(super) descendants: u32,
    /// Number of the first of these, which are below light children. The others are in the heavy
    /// child's part.
    pub(super) light_descendants: u32,
    pub(super) light_children: u32,
    /// Length of the port list in the node's own label, in bits.
    pub(super) port_bits: u32,
    /// The port to the parent, if there is one.
    pub(super) up: Port,
}

impl Table {
    /// The table of a node with this label, whose ports were not given by a [`Labelling`](super::Labelling). The
    /// `descendants` numbers after the node's own lead down: the first `light_descendants` of them by the ports in labels,
    /// the others to the heavy child. Numbers may have gaps, and `light_children` is the highest port.
    ///
    /// # Panics
    /// If there are more light descendants than descendants.
    pub fn new(label: Label, descendants: u32, light_descendants: u32, light_children: u32, has_parent: bool) -> Self {
        assert!(light_descendants <= descendants);
        Table {
            node: label.node(),
            descendants,
            light_descendants,
            light_children,
            port_bits: label.port_bits(),
            up: if has_parent { Port::PARENT } else { Port::NOWHERE },
        }
    }

    /// Number of the node's children.
    pub(super) fn children(&self) -> u32 {
        self.light_children + u32::from(self.descendants > 0)
    }

    /// The indexes of the node's ports are below this.
    pub(super) fn ports(&self) -> usize {
        Port::light(self.light_children).index() + 1
    }

    /// The port for a packet with this label.
    ///
    /// The code has no branch that could be mispredicted: a node high on the tree sees packets for
    /// all its subtrees in random order. Only a forged label makes a packet leave by the port it
    /// came from. The caller knows that port and must prevent this, as
    /// [`Trees::forward`](super::Trees::forward) does.
    #[inline(always)]
    pub fn forward(&self, destination: Label) -> Port {
        // Numbers below the node's own wrap to values beyond all descendants.
        let ahead = destination.node().wrapping_sub(self.node);
        let light = destination.light_port(self.port_bits);
        let light = select_unpredictable(light <= self.light_children, Port::light(light), Port::NOWHERE);
        let down = select_unpredictable(ahead <= self.light_descendants, light, Port::HEAVY);
        let away = select_unpredictable(ahead <= self.descendants, down, self.up);
        select_unpredictable(ahead == 0, Port::HERE, away)
    }
}

//! Forwarding by locator on trees [TagNet §3.3], as in [Thorup and Zwick, "Compact routing schemes",
//! SPAA 2001], section 2.1.
//!
//! A spanning tree of the network's graph ([`SpanningTree`]) is labelled ([`Labelling`]): each node
//! gets a label, which packets to it carry, and a [`Table`] of five numbers, which is all that it
//! needs to forward any packet on this tree. A node is on several trees at once ([`Trees`]).
//!
//! Nodes are numbered depth first, so that a subtree is a range of numbers. The child with the largest
//! subtree is the *heavy* one and is numbered last; the *light* ones come before it, numbered by
//! falling subtrees, and so are their ports, from 1. A node compares the number in a label with its
//! own range: outside, the packet goes to the parent; in the heavy child's part, there; else to the
//! light child whose port the label has. Which of the label's ports that is follows from the length
//! of the node's own list, since all nodes below share it.
//!
//! How long labels are: the light child of port i has a subtree at least i siblings of which are no
//! smaller, so at most 1 node in i + 1 below its parent is in it, and its port has ⌊log2(i + 1)⌋ bits.
//! Each bit of the list thus halves what is left of the tree: of n nodes, at most log2 n bits. With as
//! many for the mask and the node's number that is 3 log2 n, and 5 bits where the list's own length is
//! written down (`byname_wire::locator`).
//!
//! # Forged labels
//!
//! Labels come from strangers, and a table is asked about any that can be decoded. Whatever the label
//! and wherever the packet begins, if all nodes on its way have tables of one labelling:
//!
//! - It leaves a node only by a port that the node has.
//! - It never turns back: [`Trees::forward`] drops a packet that would leave by the face it came from.
//!   On a tree a walk that never turns back is a path, so it visits no node twice and ends.
//! - It is delivered nowhere but at the node of the label's number, and until it is dropped it is on
//!   the path there, or one hop off it. A table's range and its heavy child's say truly where the number
//!   is, so that only a light port can lead astray; and from a child whose range lacks the number there
//!   is only the way back.
//! - If no node has the number, it goes up to the root and is dropped there.
//!
//! So a forged label brings its packet to no node that an honest one could not have brought it to, but
//! for one, which drops it. Tables of two labellings may disagree: those have different
//! [`TreeId`](byname_wire::TreeId)s, and a hop limit in the packet is the last resort.
//!
//! Differs: the paper's ports are a node's interfaces; here they count the node's neighbours on the
//! tree ([`Port`]), and the node knows the face of each, so that labels stay short on every tree.

pub mod graph;
mod labelling;
mod table;
pub mod topology;
mod tree;
mod trees;

pub use graph::Graph;
pub use labelling::Labelling;
pub use table::{Port, Table};
pub use topology::Topology;
pub use tree::SpanningTree;
pub use trees::{Next, Trees};

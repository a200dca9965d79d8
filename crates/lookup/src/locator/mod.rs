//! Forwarding by locator on trees [TagNet §3.3], following [Thorup and Zwick, "Compact routing
//! schemes", SPAA 2001], section 2.1.
//!
//! [`Labelling`] labels a spanning tree of the network's graph ([`SpanningTree`]). Each node gets a
//! label, which packets to it carry, and a [`Table`] of five numbers, which suffices to forward any
//! packet on this tree. A node may be on several trees ([`Trees`]).
//!
//! Nodes are numbered depth first, so a subtree is a range of numbers. The child with the largest
//! subtree is the *heavy* child and is numbered last. The *light* children come before it, larger
//! subtrees first, and their ports are numbered from 1 in that order. A node compares the number in
//! a label with its own range. Outside the range, the packet goes to the parent. In the heavy
//! child's part, it goes to the heavy child. Otherwise it goes to the light child whose port the
//! label has. The length of the node's own list tells which of the label's ports that is, because
//! all nodes below share this list.
//!
//! Length of labels: the light child with port i has at least i siblings whose subtrees are no
//! smaller. Its subtree therefore holds at most one in i + 1 of the nodes below its parent, and its
//! port has ⌊log2(i + 1)⌋ bits. Each bit of the list thus halves the remaining tree, so a list has
//! at most log2 n bits for n nodes. The mask and the node's number have as many, which makes 3 log2
//! n. Writing down the list's length takes 5 more bits (`byname_wire::locator`).
//!
//! # Forged labels
//!
//! Labels come from strangers, and a table is asked about any label that can be decoded. The
//! following holds for every label and every start of the packet, if all nodes on its way have
//! tables of one labelling:
//!
//! - It leaves a node only by a port that the node has.
//! - It never turns back, because [`Trees::forward`] drops a packet that would leave by the face it
//!   came from. On a tree, a walk that never turns back is a path. It visits no node twice, and
//!   ends.
//! - It is delivered only at the node with the label's number. Until it is dropped, it is on the
//!   path to that node, or one hop off it. The ranges of a node and of its heavy child tell
//!   correctly where the number is, so only a light port can mislead. A child whose range lacks the
//!   number can only send the packet back.
//! - If no node has the number, the packet goes up to the root, which drops it.
//!
//! A forged label therefore brings its packet to no node that an honest label could not have
//! reached, except for one, which drops it. Tables of two labellings may disagree. They have
//! different [`TreeId`](byname_wire::TreeId)s, and the packet's hop limit is the last resort.
//!
//! # Numbers that change
//!
//! Where routers make the trees themselves, they number them a part at a time. A node may then have
//! several tables of one tree ([`Numbering`]): the present one, and those of numbers that it had
//! before. Each claims a range of numbers, and numbers are not given again while somebody claims
//! them.
//!
//! Differs: the paper's ports are a node's interfaces. Here they number the node's neighbours on
//! the tree ([`Port`]), and the node maps each to a face, so that labels stay short on every tree.

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
pub use trees::{Next, Numbering, Trees};

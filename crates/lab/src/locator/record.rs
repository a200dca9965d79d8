//! What one measurement found.

use serde::Serialize;

/// Forwarding by locator on one graph. Rates are of all threads together; times are a thread's own.
#[derive(Serialize, Clone, Debug)]
pub struct Record {
    /// The file of the graph, or `power law`.
    pub graph: String,
    /// Nodes that the trees reach.
    pub nodes: usize,
    /// Edges of the graph.
    pub edges: usize,
    /// Most neighbours of a node.
    pub degree_max: usize,
    /// Trees.
    pub trees: u32,
    /// Hops from a root to the node that is farthest from it.
    pub depth_max: usize,
    /// What labels take.
    #[serde(flatten)]
    pub bits: LabelBits,
    /// Memory of one node's table of one tree.
    pub table_bytes: usize,
    /// Seconds for all trees, labels and tables.
    pub build_s: f64,
    /// Packets prepared.
    pub packets_prepared: usize,
    /// Seed of the graph and the packets.
    pub seed: u64,
    /// Readers.
    pub threads: usize,
    /// Packets decided together.
    pub burst: usize,
    /// Repetitions, of which the rates below are medians.
    pub repetitions: usize,
    /// Decisions a second, from labels that are decoded already.
    pub forwards_per_s: f64,
    /// The slowest repetition.
    pub forwards_per_s_min: f64,
    /// The fastest repetition.
    pub forwards_per_s_max: f64,
    /// Nanoseconds of one thread for a decision.
    pub ns_per_forward: f64,
    /// Decisions a second, from the octets of labels: decoding and forwarding.
    pub decoded_forwards_per_s: f64,
    /// Ways between two nodes that were followed hop by hop.
    pub checked: u64,
    /// Those that were not the tree's.
    pub wrong: u64,
    /// Hops of a way, on average.
    pub hops_mean: f64,
}

/// Bits of the labels of all nodes on all trees.
#[derive(Serialize, Clone, Copy, Debug)]
pub struct LabelBits {
    /// Of the longest label, as it is encoded.
    pub label_bits_max: u32,
    /// On average.
    pub label_bits_mean: f64,
    /// Of the longest, as the paper counts: a number of as many bits as the largest has, the port list
    /// and the mask.
    pub label_bits_max_paper: u32,
}

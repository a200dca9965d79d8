//! The result of one measurement.

use serde::Serialize;

use crate::harness::Measured;
use crate::timing::Spread;

/// Forwarding by locator on one graph. Rates are sums over all threads; times are per thread.
#[derive(Serialize, Clone, Debug)]
pub struct Record {
    /// The file of the graph, or `power law`.
    pub graph: String,
    /// Number of nodes that the trees reach.
    pub nodes: usize,
    /// Number of edges of the graph.
    pub edges: usize,
    /// Maximum number of neighbours of a node.
    pub degree_max: usize,
    /// Number of trees.
    pub trees: u32,
    /// Maximum distance of a node from a root, in hops.
    pub depth_max: usize,
    /// Sizes of the labels.
    #[serde(flatten)]
    pub bits: LabelBits,
    /// Memory of one node's table for one tree, in bytes.
    pub table_bytes: usize,
    /// Time to build all trees, labels and tables, in seconds.
    pub build_s: f64,
    /// Number of packets prepared.
    pub packets_prepared: usize,
    /// Seed of the graph and the packets.
    pub seed: u64,
    /// Number of readers.
    pub threads: usize,
    /// Packets per burst.
    pub burst: usize,
    /// Number of repetitions; the rates below are medians.
    pub repetitions: usize,
    /// Decisions per second with decoded labels.
    pub forwards_per_s: f64,
    /// The slowest repetition.
    pub forwards_per_s_min: f64,
    /// The fastest repetition.
    pub forwards_per_s_max: f64,
    /// Nanoseconds per decision on one thread.
    pub ns_per_forward: f64,
    /// Decisions per second with encoded labels, decoding included.
    pub decoded_forwards_per_s: f64,
    /// Number of paths between two nodes that were followed hop by hop.
    pub checked: u64,
    /// Number of paths that differ from the tree's.
    pub wrong: u64,
    /// Mean number of hops of a path.
    pub hops_mean: f64,
    /// Mean number of hops of a shortest path between two different nodes, which a forwarding hint takes.
    pub hint_hops_mean: f64,
    /// Mean number of hops between the same nodes on the best of the trees.
    pub best_tree_hops_mean: f64,
    /// Mean of each path's hops on the best of the trees, divided by those of a shortest path.
    pub best_tree_stretch_mean: f64,
    /// Mean bytes of a ForwardingHint with a router's name in a packet.
    pub hint_bytes_mean: f64,
    /// Mean bytes of a Destination with a router's label in a packet.
    pub locator_bytes_mean: f64,
}

impl Measured for Record {
    fn rate(&self) -> Spread {
        Spread { median: self.forwards_per_s, min: self.forwards_per_s_min, max: self.forwards_per_s_max }
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn machine_lines_per_s(&self) -> Option<f64> {
        None
    }
}

/// Bits of the labels of all nodes on all trees.
#[derive(Serialize, Clone, Copy, Debug)]
pub struct LabelBits {
    /// Bits of the longest encoded label.
    pub label_bits_max: u32,
    /// Mean bits of a label.
    pub label_bits_mean: f64,
    /// Bits of the longest label, as the paper counts: a node number with as many bits as the largest needs, the port
    /// list and the mask.
    pub label_bits_max_paper: u32,
}

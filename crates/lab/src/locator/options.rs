//! Options of `byname-lab locator`, which are also what experiments fill in.

use std::path::PathBuf;

use clap::Args;

use crate::options::{self, Measuring};
use crate::size;

/// Most packets that are decided together.
pub const BURST_MAX: usize = 64;

/// Measures forwarding by locator on the trees of a graph.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Nodes of a graph that is made up, with the degrees of a power law.
    #[arg(long, default_value = "42113", value_parser = size::count)]
    pub nodes: u64,
    /// Its edges.
    #[arg(long, default_value = "118040", value_parser = size::count)]
    pub edges: u64,
    /// A graph from a file, in place of one that is made up: GML (`.gml`) or an edge a line, also
    /// packed (`.xz`).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "edges"])]
    pub graph: Option<PathBuf>,
    /// Spanning trees, with the best connected nodes for roots.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub trees: u32,
    /// Packets prepared, those of a burst at a random node of the way between two random nodes.
    #[arg(long, default_value = "1M", value_parser = size::count, value_name = "N")]
    pub draws: u64,
    /// Packets that come to a node together, and are decided together.
    #[arg(long, default_value_t = 32, value_parser = |text: &str| options::burst(text, BURST_MAX, "packets"))]
    pub burst: usize,
    /// How it is measured.
    #[command(flatten)]
    pub measuring: Measuring,
}

impl Default for Options {
    /// What the command line has when it says nothing.
    fn default() -> Self {
        options::defaults()
    }
}

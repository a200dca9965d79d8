//! Options of `byname-lab locator`. Experiments fill them in as well.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::options::{self, Measuring};
use crate::size;

/// Maximum number of packets in a burst.
pub const BURST_MAX: usize = 64;

/// Measures forwarding by locator on the trees of a graph.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Options {
    /// Number of nodes of a generated power-law graph.
    #[arg(long, default_value = "42113", value_parser = size::count)]
    pub nodes: u64,
    /// Number of edges of a generated graph.
    #[arg(long, default_value = "118040", value_parser = size::count)]
    pub edges: u64,
    /// File with a graph, instead of a generated one: GML (`.gml`) or one edge per line; may be compressed (`.xz`).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "edges"])]
    pub graph: Option<PathBuf>,
    /// Number of spanning trees; their roots are the nodes with the most edges.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub trees: u32,
    /// Number of packets prepared; each burst is at a random node on the path between two random nodes.
    #[arg(long, default_value = "1M", value_parser = size::count, value_name = "N")]
    pub draws: u64,
    /// Packets per burst, which a node receives together.
    #[arg(long, default_value_t = 32, value_parser = |text: &str| options::burst(text, BURST_MAX, "packets"))]
    pub burst: usize,
    /// Duration, repetitions and cores.
    #[command(flatten)]
    pub measuring: Measuring,
}

impl Default for Options {
    /// The defaults of the command line.
    fn default() -> Self {
        options::defaults()
    }
}

//! Options of `byname-lab locator`, which are also what experiments fill in.

use std::path::PathBuf;

use clap::{Args, Parser};

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
    /// Readers, each on a core of its own.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Packets that come to a node together, and are decided together.
    #[arg(long, default_value_t = 32, value_parser = burst)]
    pub burst: usize,
    /// Seconds of measuring in all.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Repetitions that the seconds are divided into; the median is reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub repetitions: u32,
    /// Seed of the graph and of the packets.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print the record as one line of JSON and nothing else.
    #[arg(long)]
    pub json: bool,
}

impl Default for Options {
    /// What the command line has when it says nothing.
    fn default() -> Self {
        #[derive(Parser)]
        struct Alone {
            #[command(flatten)]
            options: Options,
        }
        Alone::parse_from(["locator"]).options
    }
}

fn burst(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(burst) if (1..=BURST_MAX).contains(&burst) => Ok(burst),
        _ => Err(format!("a burst has 1 to {BURST_MAX} packets")),
    }
}

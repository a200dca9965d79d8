//! Options of `byname-lab mixed`. Experiments fill them in as well.

use std::path::PathBuf;

use byname_lookup::tagset::BURST_MAX;
use clap::Args;
use serde::Serialize;

use crate::options::{self, Measuring};
use crate::size;
use crate::workload::TagKind;

/// Measures push and pull flows together.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Options {
    /// Share of pull flows; the other flows are push flows.
    #[arg(long, value_name = "P", default_value_t = 0.8)]
    pub pull: f64,
    /// Maximum number of follow-up Interests of a pull flow: each flow draws a number from 0 to this.
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub follow_ups: u32,
    /// Engine for tags (`byname-lab tags --engine list` shows them).
    #[arg(long, default_value = "rare-tag")]
    pub engine: String,
    /// Number of descriptors in the table.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub descriptors: u64,
    /// Kind of the descriptors.
    #[arg(long, value_enum, default_value = "tagnet")]
    pub workload: TagKind,
    /// Folder with the real data, for ccn and cldr.
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    pub data: PathBuf,
    /// Number of nodes of the network's graph.
    #[arg(long, default_value = "42113", value_parser = size::count)]
    pub nodes: u64,
    /// Number of edges of the network's graph.
    #[arg(long, default_value = "118040", value_parser = size::count)]
    pub edges: u64,
    /// Number of packets prepared in random order, with all their bytes.
    #[arg(long, default_value = "200k", value_parser = size::count, value_name = "N")]
    pub draws: u64,
    /// Packets per burst.
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

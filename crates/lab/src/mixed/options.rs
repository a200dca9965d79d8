//! Options of `byname-lab mixed`, which are also what experiments fill in.

use std::path::PathBuf;

use byname_lookup::tagset::BURST_MAX;
use clap::Args;

use crate::options::{self, Measuring};
use crate::size;
use crate::workload::TagKind;

/// Measures push and pull flows together.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Share of flows that are pull flows; the others push.
    #[arg(long, value_name = "P", default_value_t = 0.8)]
    pub pull: f64,
    /// Most follow-up Interests of a pull flow: each flow's number is drawn from 0 to this.
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub follow_ups: u32,
    /// Engine for tags (`byname-lab tags --engine list` shows them).
    #[arg(long, default_value = "rare-tag")]
    pub engine: String,
    /// Descriptors in the table.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub descriptors: u64,
    /// What the descriptors are.
    #[arg(long, value_enum, default_value = "tagnet")]
    pub workload: TagKind,
    /// Folder with the real data, for ccn and cldr.
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    pub data: PathBuf,
    /// Nodes of the network's graph.
    #[arg(long, default_value = "42113", value_parser = size::count)]
    pub nodes: u64,
    /// Its edges.
    #[arg(long, default_value = "118040", value_parser = size::count)]
    pub edges: u64,
    /// Packets prepared, in random order, with all their octets.
    #[arg(long, default_value = "200k", value_parser = size::count, value_name = "N")]
    pub draws: u64,
    /// Packets handled together.
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

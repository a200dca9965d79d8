//! Options of `byname-lab tags`. Experiments fill them in as well.

use std::path::PathBuf;

use byname_lookup::tagset::BURST_MAX;
use byname_lookup::tagset::trie::{self, Chains, Descent, Layout, Ties};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::asking::Asking;
use crate::machine::PageSize;
use crate::options::{self, Measuring, Updating};
use crate::size;
use crate::workload::TagKind;

/// Measures subset match of tag sets, on one engine or several in turn.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Options {
    /// Engine to measure (`--engine list` shows them).
    #[arg(long, default_value = "rare-tag")]
    pub engine: String,
    /// Engines to measure in turn in one process, over the same packets; replaces --engine.
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    pub compare: Vec<String>,
    /// Number of descriptors in the table: 10M is 10,000,000. A list of real ones may hold fewer.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub descriptors: u64,
    /// Kind of the descriptors.
    #[arg(long, value_enum, default_value = "tagnet")]
    pub workload: TagKind,
    /// Folder with the real data, for ccn and cldr.
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    pub data: PathBuf,
    /// The queries.
    #[command(flatten)]
    pub asking: Asking,
    /// Number of packets prepared, in random order.
    #[arg(long, default_value = "1M", value_parser = size::count, value_name = "N")]
    pub draws: u64,
    /// Page size of the tables.
    #[arg(long, value_enum, default_value = "auto")]
    pub pages: PageSize,
    /// Number of packets looked up together (burst).
    #[arg(long, default_value_t = 32, value_parser = |text: &str| options::burst(text, BURST_MAX, "packets"))]
    pub burst: usize,
    /// Changes while the table is read.
    #[command(flatten)]
    #[serde(flatten)]
    pub updating: Updating,
    /// Options of engines.
    #[command(flatten)]
    pub tuning: Tuning,
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

/// Choices of the `trie` [TagNet §3.2], and the limit of steps of all engines.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Tuning {
    /// Do not permute the bits of filters.
    #[arg(long)]
    pub no_permutation: bool,
    /// Treatment of chains in the trie.
    #[arg(long, value_enum, default_value = "folded")]
    pub chains: ChainChoice,
    /// Order of the trie's nodes.
    #[arg(long, value_enum, default_value = "reverse")]
    pub layout: LayoutChoice,
    /// Search as the paper does: visit the last sibling first, and return the first of several equally large subsets.
    #[arg(long)]
    pub papers_search: bool,
    /// Maximum number of steps of a search, for any engine, instead of its default.
    #[arg(long, value_name = "N", value_parser = size::count)]
    pub steps_max: Option<u64>,
}

/// Treatment of chains in the trie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChainChoice {
    /// Chains stay.
    Kept,
    /// Chains are removed as in the paper.
    Removed,
    /// Chains are folded, which is byname's own method.
    Folded,
}

/// Orders of the trie's nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LayoutChoice {
    /// Sibling order.
    Sibling,
    /// Sibling reverse order.
    Reverse,
}

impl Tuning {
    /// Maximum number of steps of a search.
    pub fn steps_max_or(&self, default: u32) -> u32 {
        self.steps_max.map_or(default, |steps| steps.min(u64::from(u32::MAX)) as u32)
    }

    /// The trie's options.
    pub fn trie(&self, pages: PageSize) -> trie::Options {
        let defaults = trie::Options::default();
        trie::Options {
            pages: pages.into(),
            permute: !self.no_permutation,
            chains: match self.chains {
                ChainChoice::Kept => Chains::Kept,
                ChainChoice::Removed => Chains::Removed,
                ChainChoice::Folded => Chains::Folded,
            },
            layout: match self.layout {
                LayoutChoice::Sibling => Layout::SiblingOrder,
                LayoutChoice::Reverse => Layout::SiblingReverseOrder,
            },
            descent: if self.papers_search { Descent::LastSibling } else { defaults.descent },
            ties: if self.papers_search { Ties::First } else { defaults.ties },
            steps_max: self.steps_max_or(defaults.steps_max),
            ..defaults
        }
    }
}

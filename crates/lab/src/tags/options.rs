//! Options of `byname-lab tags`, which are also what experiments fill in.

use std::path::PathBuf;

use byname_lookup::tagset::BURST_MAX;
use byname_lookup::tagset::trie::{self, Chains, Descent, Layout, Ties};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::asking::Asking;
use crate::machine::PageSize;
use crate::options::{self, Measuring};
use crate::size;
use crate::workload::TagKind;

/// Measures subset match of tag sets on one engine, or on several in turn.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Engine to measure (`--engine list` shows them).
    #[arg(long, default_value = "rare-tag")]
    pub engine: String,
    /// Engines to measure in turn in one process, over the same packets, in place of --engine.
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    pub compare: Vec<String>,
    /// Descriptors in the table: 10M is 10,000,000. A list of real ones may hold fewer.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub descriptors: u64,
    /// What the descriptors are.
    #[arg(long, value_enum, default_value = "tagnet")]
    pub workload: TagKind,
    /// Folder with the real data, for ccn and cldr.
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    pub data: PathBuf,
    /// What is asked for.
    #[command(flatten)]
    pub asking: Asking,
    /// Packets prepared, in random order.
    #[arg(long, default_value = "1M", value_parser = size::count, value_name = "N")]
    pub draws: u64,
    /// Pages that the tables lie on.
    #[arg(long, value_enum, default_value = "auto")]
    pub pages: PageSize,
    /// Packets asked for together.
    #[arg(long, default_value_t = 32, value_parser = |text: &str| options::burst(text, BURST_MAX, "packets"))]
    pub burst: usize,
    /// Also measure a reader while a writer changes descriptors as fast as it can.
    #[arg(long)]
    pub updates: bool,
    /// The same, with the writer held to this rate.
    #[arg(long, value_name = "N", value_parser = size::count)]
    pub updates_per_s: Option<u64>,
    /// Changes in each batch that the writer applies.
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub batch: u32,
    /// How engines are made.
    #[command(flatten)]
    pub tuning: Tuning,
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

impl Options {
    /// Whether a reader is measured beside a writer.
    pub fn is_updating(&self) -> bool {
        self.updates || self.updates_per_s.is_some()
    }
}

/// Choices of the `trie` [TagNet §3.2], and the limit of all engines.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Tuning {
    /// Leave the bits of filters in their order.
    #[arg(long)]
    pub no_permutation: bool,
    /// What becomes of chains.
    #[arg(long, value_enum, default_value = "folded")]
    pub chains: ChainChoice,
    /// The order of nodes.
    #[arg(long, value_enum, default_value = "reverse")]
    pub layout: LayoutChoice,
    /// Search as the paper does: the last sibling first, the first of equally large ones.
    #[arg(long)]
    pub papers_search: bool,
    /// Most steps of the search for a packet, of any engine, in place of its default.
    #[arg(long, value_name = "N", value_parser = size::count)]
    pub steps_max: Option<u64>,
}

/// What becomes of chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChainChoice {
    /// They stay.
    Kept,
    /// The paper's.
    Removed,
    /// Ours.
    Folded,
}

/// The order of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LayoutChoice {
    /// Sibling order.
    Sibling,
    /// Sibling reverse order.
    Reverse,
}

impl Tuning {
    /// Most steps of a search.
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

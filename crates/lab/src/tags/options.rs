//! Options of `byname-lab tags`, which are also what experiments fill in.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use byname_lookup::tagset::BURST_MAX;
use byname_lookup::tagset::trie::{self, Chains, Descent, Layout, Ties};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::machine::PageSize;
use crate::options::{self, Measuring};
use crate::size;
use crate::workload::TagKind;

/// Measures subset match of tag sets on one engine, or on several in turn.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Engine to measure (`--engine list` shows them).
    #[arg(long, default_value = "trie")]
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
    /// Tags that packets have beside those of a descriptor: a number, or a range A..B, both included.
    #[arg(long, default_value = "0..2", value_name = "A..B", value_parser = range)]
    pub extra_tags: RangeInclusive<u64>,
    /// Share of packets made from a descriptor of the table; the others have unknown tags.
    #[arg(long, default_value_t = 1.0, value_name = "P")]
    pub match_rate: f64,
    /// Find all subsets, or the largest.
    #[arg(long, value_enum, default_value = "all")]
    pub algorithm: Algorithm,
    /// Entries after which the search for all ends.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub fanout: Option<u32>,
    /// What packets carry.
    #[arg(long, value_enum, default_value = "tags")]
    pub packets: Carried,
    /// Packets prepared, in random order.
    #[arg(long, default_value = "1M", value_parser = size::count, value_name = "N")]
    pub draws: u64,
    /// Pages that the tables lie on.
    #[arg(long, value_enum, default_value = "auto")]
    pub pages: PageSize,
    /// Packets asked for together.
    #[arg(long, default_value_t = 32, value_parser = |text: &str| options::burst(text, BURST_MAX, "packets"))]
    pub burst: usize,
    /// How the trie is made.
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

/// What to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// All subsets [TagNet §3.1.2].
    All,
    /// The largest one [TagNet §3.1.3].
    Largest,
}

/// What packets carry. An engine that keeps filters only makes no difference between them but in
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Carried {
    /// Their tags' digests.
    Tags,
    /// A filter alone.
    Filter,
}

/// Choices of the `trie` [TagNet §3.2].
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
    /// Most nodes that a packet's walk visits.
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
    /// The trie's options.
    pub fn trie(&self, pages: PageSize) -> trie::Options {
        let defaults = trie::Options::default();
        let steps_max = self.steps_max.map(|steps| steps.min(u64::from(u32::MAX)) as u32);
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
            steps_max: steps_max.unwrap_or(defaults.steps_max),
            ..defaults
        }
    }
}

fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    match (low.parse(), high.parse()) {
        (Ok(low), Ok(high)) if low <= high && high <= 16 => Ok(low..=high),
        _ => Err("so many tags, or a range A..B, of at most 16".to_owned()),
    }
}

//! Options of `byname-lab flat`. Experiments fill them in as well.

use std::path::PathBuf;

use byname_lookup::flat::BURST_MAX;
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::hasher::Function;
use super::names::Keys;
use crate::machine::PageSize;
use crate::options::{self, Measuring, Updating};
use crate::size;

/// Measures exact match of opaque names, on one engine or several in turn.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Options {
    /// Engine to measure (`--engine list` shows them).
    #[arg(long, default_value = "line")]
    pub engine: String,
    /// Engines to measure in turn in one process, over the same names; replaces --engine.
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    pub compare: Vec<String>,
    /// Number of names in the table: 64M is 64,000,000. A list of files may hold fewer.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub names: u64,
    /// Kind of names: random bytes; states of a shift register as in [Concise §6.2.3], generated in the measured loop;
    /// MAC addresses with the prefixes of a list; or lines of a list.
    #[arg(long, value_enum, default_value = "random")]
    pub keys: Keys,
    /// Bytes per name (with --keys random or lfsr).
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = key_bytes)]
    pub key_bytes: usize,
    /// File with MAC prefixes or file names (with --keys macs or files).
    #[arg(long, value_name = "FILE")]
    pub list: Option<PathBuf>,
    /// Bits of an action: the paper's l.
    #[arg(long, default_value_t = 8, value_name = "L", value_parser = clap::value_parser!(u32).range(1..=32))]
    pub action_bits: u32,
    /// Number of names prepared in random order; too few would stay in the processor's caches and give too good
    /// results.
    #[arg(long, default_value = "8M", value_parser = size::count, value_name = "N")]
    pub draws: u64,
    /// File with a trace: look names up in its order instead of at random.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Page size of the table; 2m and 1g pages are reserved first, which needs root, and released at the end.
    #[arg(long, value_enum, default_value = "auto")]
    pub pages: PageSize,
    /// Bytes of pages to reserve, instead of an estimate (with --pages 2m or 1g).
    #[arg(long, value_parser = size::count, value_name = "BYTES")]
    pub reserve: Option<u64>,
    /// How names are loaded into the table.
    #[arg(long, value_enum, default_value = "auto")]
    pub load: Load,
    /// Number of names looked up together (burst).
    #[arg(long, default_value_t = 32, value_parser = |text: &str| options::burst(text, BURST_MAX, "names"))]
    pub burst: usize,
    /// Hash function of names: siphash13 (or siphash), siphash24, aes, or crc32c, for which strangers can construct
    /// collisions.
    #[arg(long, default_value = "siphash13")]
    pub hash: Function,
    /// Changes while the table is read.
    #[command(flatten)]
    #[serde(flatten)]
    pub updating: Updating,
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

/// Ways to load names into a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// All at once if the engine can, with a control half that takes changes; otherwise as changes.
    Auto,
    /// All at once, with a control half.
    Construct,
    /// As changes, in batches of 4096.
    Changes,
    /// Only a query half, in less memory; it takes no changes.
    Bulk,
}

fn key_bytes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(size) if (1..=1024).contains(&size) => Ok(size),
        _ => Err("names have 1 to 1024 bytes".to_owned()),
    }
}

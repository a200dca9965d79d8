//! Options of `byname-lab flat`, which are also what experiments fill in.

use std::path::PathBuf;

use byname_lookup::flat::BURST_MAX;
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::hasher::Function;
use super::names::Keys;
use crate::machine::PageSize;
use crate::options::{self, Measuring};
use crate::size;

/// Measures exact match of opaque names on one engine, or on several in turn.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Engine to measure (`--engine list` shows them).
    #[arg(long, default_value = "line")]
    pub engine: String,
    /// Engines to measure in turn in one process, over the same names, in place of --engine.
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    pub compare: Vec<String>,
    /// Names in the table: 64M is 64,000,000. A list of files may hold fewer.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub names: u64,
    /// What names are: random octets, the states of a shift register as in [Concise §6.2.3], made
    /// while they are asked for, MAC addresses with the prefixes of a list, or the lines of a list.
    #[arg(long, value_enum, default_value = "random")]
    pub keys: Keys,
    /// Octets of each name that is random or made by a register.
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = key_bytes)]
    pub key_bytes: usize,
    /// The list of MAC prefixes or of files (with --keys macs or files).
    #[arg(long, value_name = "FILE")]
    pub list: Option<PathBuf>,
    /// Bits of an action: the paper's l.
    #[arg(long, default_value_t = 8, value_name = "L", value_parser = clap::value_parser!(u32).range(1..=32))]
    pub action_bits: u32,
    /// Names prepared, in random order; fewer than the processor's caches hold would flatter.
    #[arg(long, default_value = "8M", value_parser = size::count, value_name = "N")]
    pub draws: u64,
    /// Ask for names in the order of a trace, in place of a random one.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Pages that the table lies on; 2m and 1g are reserved first, as root, and given back.
    #[arg(long, value_enum, default_value = "auto")]
    pub pages: PageSize,
    /// Bytes of pages to reserve, in place of an estimate (with --pages 2m or 1g).
    #[arg(long, value_parser = size::count, value_name = "BYTES")]
    pub reserve: Option<u64>,
    /// How the names come into the table.
    #[arg(long, value_enum, default_value = "auto")]
    pub load: Load,
    /// Names asked for together.
    #[arg(long, default_value_t = 32, value_parser = |text: &str| options::burst(text, BURST_MAX, "names"))]
    pub burst: usize,
    /// The hash of names: siphash13 (or siphash), siphash24, aes, or crc32c, which strangers can
    /// make collide.
    #[arg(long, default_value = "siphash13")]
    pub hash: Function,
    /// Also measure a reader while a writer changes names as fast as it can.
    #[arg(long)]
    pub updates: bool,
    /// The same, with the writer held to this rate.
    #[arg(long, value_name = "N", value_parser = size::count)]
    pub updates_per_s: Option<u64>,
    /// Changes in each batch that the writer applies.
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub batch: u32,
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

/// How names come into the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// All at once where the engine can, with a control half that takes changes.
    Auto,
    /// All at once, with a control half.
    Construct,
    /// As changes, in batches of 4096.
    Changes,
    /// A query half alone, in less memory, that takes no changes.
    Bulk,
}

fn key_bytes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(size) if (1..=1024).contains(&size) => Ok(size),
        _ => Err("names have 1 to 1024 octets".to_owned()),
    }
}

//! Options of `byname-lab switch`, which are also what experiments fill in.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::options::{self, Measuring};
use crate::prefix::Hash;
use crate::size;

/// Measures a flat switch.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Where the frames are.
    #[arg(long, value_enum, default_value = "memory")]
    pub on: Place,
    /// Names, which are stations' addresses, in the table: several are measured one after the other.
    #[arg(long, default_value = "1M", value_delimiter = ',', value_parser = size::count)]
    pub names: Vec<u64>,
    /// Octets of a frame.
    #[arg(
        long,
        value_name = "N,...",
        default_value = "64,1500",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(64..=1500)
    )]
    pub octets: Vec<u16>,
    /// Tables that are measured in turn: line, othello, cuckoo, binary_search or orthogonal.
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', default_value = "othello,line,cuckoo,binary_search")]
    pub compare: Vec<String>,
    /// What is at the port that frames come in at: hosts, whose addresses are looked up, too, or
    /// another switch.
    #[arg(long, value_enum, default_value = "switch")]
    pub from: From,
    /// Frames for stations in the order of a trace, in place of a random one.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Frames whose addresses are prepared.
    #[arg(long, default_value = "4M", value_parser = size::count, value_name = "N")]
    pub draws: u64,
    /// Octets of memory that frames lie in (in memory): fewer than the processor's caches hold would
    /// flatter.
    #[arg(long, default_value = "256Mi", value_parser = size::count, value_name = "N")]
    pub frame_memory: u64,
    /// Frames a second, at random times, while their delays are taken (on the wire).
    #[arg(long, default_value = "100k", value_parser = size::count, value_name = "N")]
    pub rate: u64,
    /// Most frames on their way while their rate is taken (on the wire).
    #[arg(long, default_value_t = 512, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub window: u16,
    /// The keyed hash of addresses.
    #[arg(long, value_enum, default_value = "siphash13")]
    pub hash: Hash,
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

/// Where frames are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// In memory, with 255 ports; whatever leaves is counted.
    Memory,
    /// On two virtual cables between a generator and the thread of `byname switch`; needs root.
    Wire,
}

/// Who is at the port that frames come in at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum From {
    /// Hosts: the switch looks up whether the source is known there.
    Hosts,
    /// Another switch: frames are tagged, and only destinations are looked up.
    Switch,
}

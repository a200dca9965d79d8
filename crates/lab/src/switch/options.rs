//! Options of `byname-lab switch`. Experiments fill them in as well.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::options::{self, Hash, Measuring};
use crate::size;

/// Measures a flat switch.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Options {
    /// Where the frames pass.
    #[arg(long, value_enum, default_value = "memory")]
    pub on: Place,
    /// Number of names (addresses of stations) in the table; several are measured one after the other.
    #[arg(long, default_value = "1M", value_delimiter = ',', value_parser = size::count)]
    pub names: Vec<u64>,
    /// Size of a frame, in bytes.
    #[arg(
        long,
        value_name = "N,...",
        default_value = "64,1500",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(64..=1500)
    )]
    pub bytes: Vec<u16>,
    /// Tables to measure in turn: line, othello, cuckoo, binary_search or orthogonal.
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', default_value = "othello,line,cuckoo,binary_search")]
    pub compare: Vec<String>,
    /// Device at the input port: hosts, whose addresses are looked up as well, or another switch.
    #[arg(long, value_enum, default_value = "switch")]
    pub from: From,
    /// File with a trace: send frames to stations in its order instead of at random.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Number of frames whose addresses are prepared.
    #[arg(long, default_value = "4M", value_parser = size::count, value_name = "N")]
    pub draws: u64,
    /// Bytes of memory for the frames (in memory); too few would stay in the processor's caches and give too good
    /// results.
    #[arg(long, default_value = "256Mi", value_parser = size::count, value_name = "N")]
    pub frame_memory: u64,
    /// Frames per second, at random times, while delays are measured (on the wire).
    #[arg(long, default_value = "100k", value_parser = size::count, value_name = "N")]
    pub rate: u64,
    /// Maximum number of frames under way while the rate is measured (on the wire).
    #[arg(long, default_value_t = 512, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub window: u16,
    /// Keyed hash function of addresses.
    #[arg(long, value_enum, default_value = "siphash13")]
    pub hash: Hash,
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

/// Where frames pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// In memory, with 255 ports; frames that leave are only counted.
    Memory,
    /// On two virtual cables between a generator and the thread of `byname switch`; needs root.
    Wire,
}

/// The kind of device at the input port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum From {
    /// Hosts: the switch also looks up whether it knows the source at this port.
    Hosts,
    /// Another switch: frames are tagged, and only destinations are looked up.
    Switch,
}

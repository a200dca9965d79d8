//! Options of `byname-lab forward`.

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::variant::Variant;
use crate::machine::PageSize;
use crate::options::{self, Measuring};
use crate::prefix::{Hash, Tuning};
use crate::size;
use crate::workload::Kind;

/// Measures whole packets through the data plane, in memory.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Rules in the FIB: 16M is 16,000,000 and 16Mi is 16,777,216.
    #[arg(long, default_value = "16M", value_parser = size::count)]
    pub fib: u64,
    /// Interests that are pending all the while, of each worker.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub pit: u64,
    /// Data that the content store may hold, of each worker.
    #[arg(long, default_value = "64Ki", value_parser = size::count)]
    pub cs: u64,
    /// Which packets are timed.
    #[arg(long, value_enum, default_value = "both")]
    pub mix: Mix,
    /// Engine of the FIB, what is asked for ahead (naive, none, cascade or all), and packets in a
    /// burst; several are measured in turn.
    #[arg(long, value_name = "ENGINE/PREFETCH/BURST,...", value_delimiter = ',', default_value = "compact/all/64")]
    pub compare: Vec<Variant>,
    /// Updates of the FIB a second, by a writer on a core of its own; each data plane is measured with
    /// and without in turn. Rules come in one by one then, not in bulk.
    #[arg(long, value_parser = size::count, value_name = "N")]
    pub fib_updates_per_s: Option<u64>,
    /// Octets of content in each Data.
    #[arg(long, default_value = "100", value_parser = size::count)]
    pub content: u64,
    /// Components of the deepest rules that are made up.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=30))]
    pub components: u16,
    /// The rules.
    #[command(flatten)]
    pub workload: Kind,
    /// The engines' own options, for experiments; a schedule decides what is not said here.
    #[arg(skip)]
    pub tuning: Tuning,
    /// Names prepared, in random order: each a rule's, and a component with the packet's number.
    #[arg(long, default_value = "4M", value_parser = size::count, value_name = "N")]
    pub draws: u64,
    /// Pages that the FIB lies on; 2m and 1g are reserved first, as root, and given back.
    #[arg(long, value_enum, default_value = "auto")]
    pub pages: PageSize,
    /// The keyed hash of names.
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

/// Which packets are timed; both kinds pass in any case, one to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mix {
    /// Interests, in bursts of their own.
    Interest,
    /// Data, in bursts of their own.
    Data,
    /// Both, Interests and Data in turn in each burst.
    Both,
}

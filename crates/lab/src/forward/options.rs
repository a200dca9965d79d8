//! Options of `byname-lab forward`.

use byname_control::config::Threads;
use clap::{ArgAction, Args, ValueEnum};
use serde::Serialize;

use super::variant::Variant;
use crate::machine::PageSize;
use crate::options::{self, Hash, Measuring};
use crate::prefix::Tuning;
use crate::size;
use crate::workload::Kind;

/// Measures whole packets through the data plane, in memory.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Options {
    /// Rules in the FIB: 16M is 16,000,000 and 16Mi is 16,777,216.
    #[arg(long, default_value = "16M", value_parser = size::count)]
    pub fib: u64,
    /// Number of Interests that are pending all the time, per thread. With --zipf, the PIT only has room for them.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub pit: u64,
    /// Capacity of all content stores together, in Data packets.
    #[arg(long, default_value = "64Ki", value_parser = size::count)]
    pub cs: u64,
    /// Exponent of Zipf's law. Consumers ask for the prepared names by popularity, again and again, and producers
    /// answer in their next turn. Without this option, no name repeats.
    #[arg(long, value_name = "S")]
    pub zipf: Option<f64>,
    /// Whether any thread may answer Interests for hot names.
    #[arg(long, action = ArgAction::Set, value_name = "BOOL", default_value_t = Threads::default().heavy_hitters)]
    pub heavy_hitters: bool,
    /// Packets that are timed.
    #[arg(long, value_enum, default_value = "both")]
    pub mix: Mix,
    /// Data planes to measure in turn, each an engine of the FIB, a prefetch schedule (naive, none, cascade or all) and
    /// the number of packets in a burst. With a fourth word, `shared-pit`, threads also share PIT entries of hot names;
    /// this needs --heavy-hitters. With `lent`, each thread sends on the faces of all threads, and receives the answers to
    /// its own Interests, as with UDP. With `first-come`, a name is at home on the thread that is first asked for it. With
    /// `one-thread`, there is one thread, whatever --threads says. With `traced`, somebody reads a trace of 1 % of the
    /// packets; with `counted`, somebody asks for the most popular prefixes.
    #[arg(long, value_name = "ENGINE/PREFETCH/BURST,...", value_delimiter = ',', default_value = "compact/all/64")]
    pub compare: Vec<Variant>,
    /// Updates of the FIB per second, by a writer on its own core; each data plane is measured with and without updates
    /// in turn. The rules are then inserted one by one, not in bulk.
    #[arg(long, value_parser = size::count, value_name = "N")]
    pub fib_updates_per_s: Option<u64>,
    /// Bytes of content in each Data.
    #[arg(long, default_value = "100", value_parser = size::count)]
    pub content: u64,
    /// Number of components of the deepest generated rules.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=30))]
    pub components: u16,
    /// The rules.
    #[command(flatten)]
    pub workload: Kind,
    /// Options of the engines, set by experiments. The schedule decides options that are not set here.
    #[arg(skip)]
    pub tuning: Tuning,
    /// Number of names prepared, in random order: each is a rule's name and one component with the packet's number.
    #[arg(long, default_value = "4M", value_parser = size::count, value_name = "N")]
    pub draws: u64,
    /// Page size of the FIB; 2m and 1g pages are reserved first, which needs root, and released at the end.
    #[arg(long, value_enum, default_value = "auto")]
    pub pages: PageSize,
    /// Keyed hash function of names.
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

/// Packets that are timed. Interests and Data pass in equal numbers in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mix {
    /// Interests, in separate bursts.
    Interest,
    /// Data, in separate bursts.
    Data,
    /// Interests and Data, alternating in each burst.
    Both,
}

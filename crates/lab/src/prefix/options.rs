//! Options of `byname-lab prefix`, which are also what experiments fill in.

use byname_lookup::prefix::BURST_MAX;
use byname_wire::HashFunction;
use byname_wire::name::COMPONENTS_MAX;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::machine::PageSize;
use crate::options::{self, Measuring};
use crate::size;
use crate::workload::{Kind, NameChoice};

/// Measures longest name prefix match on one engine, or on several in turn.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Engine to measure (`--engine list` shows them).
    #[arg(long, default_value = "compact")]
    pub engine: String,
    /// Engines to measure in turn in one process, over the same names, in place of --engine.
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    pub compare: Vec<String>,
    /// Rules in the table: 64M is 64,000,000 and 64Mi is 67,108,864. Lists of URLs may hold fewer.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub rules: u64,
    /// Components of the deepest rules that are made up.
    #[arg(long, default_value_t = 7, value_parser = components)]
    pub components: usize,
    /// The rules.
    #[command(flatten)]
    pub workload: Kind,
    /// The names.
    #[command(flatten)]
    pub names: NameChoice,
    /// Other names to measure on the same table afterwards, each with a record of its own: as
    /// --names, but trace.
    #[arg(long, value_name = "KIND,...", value_delimiter = ',')]
    pub then: Vec<NameChoice>,
    /// Random components appended to each name that is a hit.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub suffix: usize,
    /// Names prepared, in random order; fewer than the processor's caches hold would flatter.
    #[arg(long, default_value = "8M", value_parser = size::count, value_name = "N")]
    pub draws: u64,
    /// Pages that the table lies on; 2m and 1g are reserved first, as root, and given back.
    #[arg(long, value_enum, default_value = "auto")]
    pub pages: PageSize,
    /// Bytes of pages to reserve, in place of an estimate (with --pages 2m or 1g).
    #[arg(long, value_parser = size::count, value_name = "BYTES")]
    pub reserve: Option<u64>,
    /// How the rules come into the table.
    #[arg(long, value_enum, default_value = "auto")]
    pub load: Load,
    /// Names looked up together.
    #[arg(long, default_value_t = 32, value_parser = |text: &str| options::burst(text, BURST_MAX, "names"))]
    pub burst: usize,
    /// The keyed hash of names.
    #[arg(long, value_enum, default_value = "siphash13")]
    pub hash: Hash,
    /// What is particular to some engines.
    #[command(flatten)]
    pub tuning: Tuning,
    /// Also measure a reader while a writer changes rules as fast as it can.
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

/// Options that only some engines take. Refused where no engine of a run does.
#[derive(Args, Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tuning {
    /// compact: compare the octets of names, too.
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
    /// compact: percent of its places that a bulk load fills; fuller is smaller and slower to build.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(50..=98))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<u32>,
    /// binary_search, level_pulling: compare names wherever a fingerprint matches, or at the end.
    #[arg(long, value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// Which cache lines are asked for ahead (longest_first and two_stage know none, all, burst and
    /// cascade; binary_search and level_pulling none, first, all and burst).
    #[arg(long, value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<Prefetch>,
    /// two_stage: the depth M that a lookup starts at, in place of the least that three quarters of
    /// all rules do not exceed.
    #[arg(long, value_name = "M", value_parser = start_depth)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_depth: Option<usize>,
    /// longest_first, two_stage: rules in each bucket, on average, in a table made for all at once.
    #[arg(long, value_name = "N", value_parser = load_factor)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_factor: Option<usize>,
    /// longest_first, two_stage: probe depths that have no rules, too, as the paper does.
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub probe_empty_depths: bool,
    /// level_pulling: prefixes with more children than this are starting points.
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<u32>,
}

impl Tuning {
    /// Only those that an engine takes.
    pub fn only(&self, takes: &[&str]) -> Tuning {
        let takes = |option: &str| takes.contains(&option);
        Tuning {
            exact: self.exact && takes("exact"),
            fill: self.fill.filter(|_| takes("fill")),
            strategy: self.strategy.filter(|_| takes("strategy")),
            prefetch: self.prefetch.filter(|_| takes("prefetch")),
            start_depth: self.start_depth.filter(|_| takes("start-depth")),
            load_factor: self.load_factor.filter(|_| takes("load-factor")),
            probe_empty_depths: self.probe_empty_depths && takes("probe-empty-depths"),
            threshold: self.threshold.filter(|_| takes("threshold")),
        }
    }

    /// The options that were given, as on the command line.
    pub fn given(&self) -> impl Iterator<Item = &'static str> {
        let Tuning { exact, fill, strategy, prefetch, start_depth, load_factor, probe_empty_depths, threshold } = self;
        [
            ("exact", *exact),
            ("fill", fill.is_some()),
            ("strategy", strategy.is_some()),
            ("prefetch", prefetch.is_some()),
            ("start-depth", start_depth.is_some()),
            ("load-factor", load_factor.is_some()),
            ("probe-empty-depths", *probe_empty_depths),
            ("threshold", threshold.is_some()),
        ]
        .into_iter()
        .filter_map(|(option, given)| given.then_some(option))
    }
}

/// How rules come into the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// In bulk where the engine and the rules allow it and no updates are measured.
    Auto,
    /// As changes, in batches of 4096; the control half keeps their names.
    Changes,
    /// In bulk, in canonical order; the engine may then keep no names and take no changes.
    Bulk,
}

/// When names are compared [Yuan §3.2.2].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Wherever a fingerprint matches.
    Always,
    /// Once the length is found, again from the start if that was wrong.
    AtEnd,
}

/// What is prefetched [Yuan §3.3.3], [So §2.2].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Prefetch {
    /// Nothing.
    None,
    /// The bucket that is visited first.
    First,
    /// The buckets of all prefixes.
    All,
    /// The next bucket of each name of a burst.
    Burst,
    /// The bucket of the next probe, at each probe.
    Cascade,
}

/// The keyed hash of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Hash {
    /// SipHash with one and three rounds.
    #[value(name = "siphash13")]
    SipHash13,
    /// SipHash with two and four rounds.
    #[value(name = "siphash24")]
    SipHash24,
    /// A chain of AES rounds.
    Aes,
}

impl From<Hash> for HashFunction {
    fn from(hash: Hash) -> HashFunction {
        match hash {
            Hash::SipHash13 => HashFunction::SipHash13,
            Hash::SipHash24 => HashFunction::SipHash24,
            Hash::Aes => HashFunction::Aes,
        }
    }
}

fn start_depth(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(depth) if (1..=COMPONENTS_MAX).contains(&depth) => Ok(depth),
        _ => Err(format!("a lookup starts at a depth of 1 to {COMPONENTS_MAX}")),
    }
}

fn load_factor(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(factor) if (1..=64).contains(&factor) => Ok(factor),
        _ => Err("buckets hold 1 to 64 rules on average".to_owned()),
    }
}

fn components(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(components) if (1..=32).contains(&components) => Ok(components),
        _ => Err("rules have 1 to 32 components".to_owned()),
    }
}

//! Options of `byname-lab prefix`. Experiments fill them in as well.

use byname_lookup::prefix::BURST_MAX;
use byname_wire::name::COMPONENTS_MAX;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::machine::PageSize;
use crate::options::{self, Hash, Measuring, Updating};
use crate::size;
use crate::workload::{Kind, NameChoice};

/// Measures longest name prefix match, on one engine or several in turn.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Options {
    /// Engine to measure (`--engine list` shows them).
    #[arg(long, default_value = "compact")]
    pub engine: String,
    /// Engines to measure in turn in one process, over the same names; replaces --engine.
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    pub compare: Vec<String>,
    /// Number of rules in the table: 64M is 64,000,000 and 64Mi is 67,108,864. Lists of URLs may hold fewer.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub rules: u64,
    /// Number of components of the deepest generated rules.
    #[arg(long, default_value_t = 7, value_parser = components)]
    pub components: usize,
    /// The rules.
    #[command(flatten)]
    pub workload: Kind,
    /// The names.
    #[command(flatten)]
    pub names: NameChoice,
    /// Other names to measure afterwards on the same table, each with its own record; takes the values of --names
    /// except trace.
    #[arg(long, value_name = "KIND,...", value_delimiter = ',')]
    pub then: Vec<NameChoice>,
    /// Number of random components appended to each name that is a hit.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub suffix: usize,
    /// Number of names prepared in random order; too few would stay in the processor's caches and give too good
    /// results.
    #[arg(long, default_value = "8M", value_parser = size::count, value_name = "N")]
    pub draws: u64,
    /// Page size of the table; 2m and 1g pages are reserved first, which needs root, and released at the end.
    #[arg(long, value_enum, default_value = "auto")]
    pub pages: PageSize,
    /// Bytes of pages to reserve, instead of an estimate (with --pages 2m or 1g).
    #[arg(long, value_parser = size::count, value_name = "BYTES")]
    pub reserve: Option<u64>,
    /// How rules are loaded into the table.
    #[arg(long, value_enum, default_value = "auto")]
    pub load: Load,
    /// Number of names looked up together (burst).
    #[arg(long, default_value_t = 32, value_parser = |text: &str| options::burst(text, BURST_MAX, "names"))]
    pub burst: usize,
    /// Keyed hash function of names.
    #[arg(long, value_enum, default_value = "siphash13")]
    pub hash: Hash,
    /// Options specific to some engines.
    #[command(flatten)]
    pub tuning: Tuning,
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

/// Options that only some engines take. They are rejected if no engine of a run takes them.
#[derive(Args, Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tuning {
    /// compact: also compare the bytes of names.
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
    /// compact: percentage of its slots that a bulk load fills; a higher one makes the table smaller and slower to
    /// build.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(50..=98))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<u32>,
    /// binary_search, level_pulling: compare names at every fingerprint match, or only at the end.
    #[arg(long, value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// Cache lines to prefetch (longest_first and two_stage offer none, all, burst and cascade; binary_search and
    /// level_pulling offer none, first, all and burst).
    #[arg(long, value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<Prefetch>,
    /// two_stage: depth M at which a lookup starts, instead of the smallest depth that three quarters of all rules do
    /// not exceed.
    #[arg(long, value_name = "M", value_parser = start_depth)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_depth: Option<usize>,
    /// longest_first, two_stage: mean number of rules per bucket, in a table sized for all rules from the start.
    #[arg(long, value_name = "N", value_parser = load_factor)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_factor: Option<usize>,
    /// longest_first, two_stage: also probe depths that have no rules, as the paper does.
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub probe_empty_depths: bool,
    /// level_pulling: prefixes with more children than this are starting points.
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<u32>,
}

impl Tuning {
    /// The options that an engine takes.
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

    /// The options that were given, by their names on the command line.
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

/// Ways to load rules into a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// In bulk if the engine and the rules allow it and no updates are measured; otherwise as changes.
    Auto,
    /// As changes, in batches of 4096; the control half keeps the names of the rules.
    Changes,
    /// In bulk, in canonical order; the engine may then keep no names and take no changes.
    Bulk,
}

/// When to compare names [Yuan §3.2.2].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// At every fingerprint match.
    Always,
    /// Once the length is found; the search restarts if the names differ.
    AtEnd,
}

/// Buckets to prefetch [Yuan §3.3.3], [So §2.2].
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
    /// At each probe, the bucket of the next probe.
    Cascade,
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

//! Options shared by the commands that measure in memory.

use std::time::Duration;

use anyhow::ensure;
use byname_wire::HashFunction;
use clap::{Args, Parser, ValueEnum};
use serde::Serialize;

use crate::machine::{cores, ensure_fits};
use crate::size;

/// Duration, repetitions and cores of a measurement.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Measuring {
    /// Number of threads that do the measured work, each on its own core.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Measuring time for each engine in all, in seconds.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Number of repetitions that share the measuring time; the median is reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub repetitions: u32,
    /// Seed of all random choices: contents of tables, queries and their order, and keys.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print only records, each as one line of JSON.
    #[arg(long)]
    #[serde(skip)]
    pub json: bool,
}

impl Default for Measuring {
    fn default() -> Self {
        defaults()
    }
}

impl Measuring {
    /// Rejects options that are impossible, on any machine or on this one.
    pub fn ensure_possible(&self) -> anyhow::Result<()> {
        cores::ensure_enough(self.threads, "this number of threads (--threads)")?;
        ensure!(self.seconds > 0.0 && self.seconds.is_finite(), "--seconds must be more than 0");
        Ok(())
    }

    /// Time of one repetition.
    pub fn repetition(&self) -> Duration {
        Duration::from_secs_f64(self.seconds / f64::from(self.repetitions))
    }

    /// A share of the measuring time, for additional measurements.
    pub fn share(&self, share: f64) -> Duration {
        Duration::from_secs_f64(self.seconds * share)
    }
}

/// Changes of a table while it is read.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Updating {
    /// Also measure a reader while a writer changes the table as fast as it can.
    #[arg(long)]
    pub updates: bool,
    /// Like --updates, but limit the writer to this many changes per second.
    #[arg(long, value_name = "N", value_parser = size::count)]
    pub updates_per_s: Option<u64>,
    /// Number of changes in each batch that the writer applies.
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub batch: u32,
}

impl Default for Updating {
    fn default() -> Self {
        defaults()
    }
}

impl Updating {
    /// Whether a reader is measured beside a writer.
    pub fn is_wanted(&self) -> bool {
        self.updates || self.updates_per_s.is_some()
    }

    /// Rejects a reader beside a writer where they would share a core.
    pub fn ensure_possible(&self) -> anyhow::Result<()> {
        if self.is_wanted() {
            cores::ensure_enough(2, "a reader beside a writer")?;
        }
        Ok(())
    }
}

/// The default values of options.
pub fn defaults<O: Args>() -> O {
    #[derive(Parser)]
    struct Alone<O: Args> {
        #[command(flatten)]
        options: O,
    }
    Alone::parse_from(["byname-lab"]).options
}

/// Refuses more rules than the memory holds, whatever the engine; `option` is their option.
pub fn ensure_rules_fit(rules: u64, option: &str) -> anyhow::Result<()> {
    ensure_fits(rules, 11, &format!("rules ({option})"))
}

/// The same for flat names.
pub fn ensure_names_fit(names: u64) -> anyhow::Result<()> {
    ensure_fits(names, 1, "names (--names)")
}

/// The same for addresses of a switch, with what building its table takes.
pub fn ensure_addresses_fit(names: u64) -> anyhow::Result<()> {
    ensure_fits(names, 24, "names (--names)")
}

/// The same for descriptors.
pub fn ensure_descriptors_fit(descriptors: u64) -> anyhow::Result<()> {
    ensure_fits(descriptors, 20, "descriptors (--descriptors)")
}

/// The engines of `--compare` if given, otherwise that of `--engine`.
pub fn engines<'a>(engine: &'a str, compare: &'a [String]) -> Vec<&'a str> {
    match compare.is_empty() {
        true => vec![engine],
        false => compare.iter().map(String::as_str).collect(),
    }
}

/// Parses the number of names or packets (`what`) in a burst.
pub fn burst(text: &str, burst_max: usize, what: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(burst) if (1..=burst_max).contains(&burst) => Ok(burst),
        _ => Err(format!("a burst has 1 to {burst_max} {what}")),
    }
}

/// Keyed hash functions of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Hash {
    /// SipHash-1-3.
    #[value(name = "siphash13")]
    SipHash13,
    /// SipHash-2-4.
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

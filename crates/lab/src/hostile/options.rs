//! Options of `byname-lab hostile`.

use anyhow::ensure;
use clap::Args;
use serde::Serialize;

use super::Attack;
use crate::forward;
use crate::options;
use crate::options::Hash;
use crate::size;

/// Measures the cost of hostile packets for the data plane, and the rate that they leave for ordinary packets.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Options {
    /// Attacks to measure, one after the other.
    #[arg(long, value_name = "ATTACK,...", value_enum, value_delimiter = ',', default_values_t = Attack::ALL)]
    pub attacks: Vec<Attack>,
    /// Attack packets in each burst of 64; 4 stands for one of sixteen faces that all send as much as they can.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..64))]
    pub of_burst: u64,
    /// Number of rules in the FIB.
    #[arg(long, default_value = "4M", value_parser = size::count)]
    pub fib: u64,
    /// Number of ordinary Interests that are pending all the time; the attacker may have as many.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub pit: u64,
    /// Capacity of the content store, in Data packets.
    #[arg(long, default_value = "64Ki", value_parser = size::count)]
    pub cs: u64,
    /// Number of names prepared, in random order.
    #[arg(long, default_value = "4M", value_parser = size::count, value_name = "N")]
    pub draws: u64,
    /// Number of threads, each on its own core, with its own ordinary traffic and its own attacker.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Keyed hash function of names.
    #[arg(long, value_enum, default_value = "siphash13")]
    pub hash: Hash,
    /// Seconds of measuring for each attack.
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Seed of all random choices: rules, names, their order, and keys.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print only records, each as one line of JSON.
    #[arg(long)]
    #[serde(skip)]
    pub json: bool,
}

impl Options {
    /// The ordinary traffic: that of `byname-lab forward` through its default data plane.
    pub(super) fn ordinary(&self) -> anyhow::Result<forward::Options> {
        ensure!(
            self.fib > 0 && self.pit > 0,
            "there must be at least one rule and one pending Interest (--fib, --pit)"
        );
        let mut ordinary = options::defaults::<forward::Options>();
        (ordinary.fib, ordinary.pit, ordinary.cs, ordinary.draws) = (self.fib, self.pit, self.cs, self.draws);
        ordinary.measuring.threads = self.threads;
        (ordinary.hash, ordinary.measuring.seed, ordinary.measuring.seconds) = (self.hash, self.seed, self.seconds);
        ordinary.measuring.ensure_possible()?;
        Ok(ordinary)
    }
}

//! Options of `byname-lab hostile`.

use anyhow::ensure;
use clap::Args;

use super::Attack;
use crate::forward;
use crate::options;
use crate::prefix::Hash;
use crate::size;

/// Measures what hostile packets cost the data plane, and what they leave of others' rate.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// What the attacker sends; several are measured one after the other.
    #[arg(long, value_name = "ATTACK,...", value_enum, value_delimiter = ',', default_values_t = Attack::ALL)]
    pub attacks: Vec<Attack>,
    /// Packets of the attacker in each burst of 64, beside others; 4: he is one of sixteen faces that send as
    /// much as they can.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..64))]
    pub of_burst: u64,
    /// Rules in the FIB.
    #[arg(long, default_value = "4M", value_parser = size::count)]
    pub fib: u64,
    /// Ordinary Interests that are pending all the while; the attacker may have as many.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub pit: u64,
    /// Data that the content store may hold.
    #[arg(long, default_value = "64Ki", value_parser = size::count)]
    pub cs: u64,
    /// Names prepared, in random order.
    #[arg(long, default_value = "4M", value_parser = size::count, value_name = "N")]
    pub draws: u64,
    /// The keyed hash of names.
    #[arg(long, value_enum, default_value = "siphash13")]
    pub hash: Hash,
    /// Seconds of measuring, for each attack.
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Seed of all that is made up: rules, names, their order, and keys.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print each record as one line of JSON and nothing else.
    #[arg(long)]
    pub json: bool,
}

impl Options {
    /// The ordinary traffic: that of `byname-lab forward`, through its default data plane.
    pub(super) fn ordinary(&self) -> anyhow::Result<forward::Options> {
        ensure!(self.fib > 0 && self.pit > 0, "there must be a rule, and a pending Interest (--fib, --pit)");
        let mut ordinary = options::defaults::<forward::Options>();
        (ordinary.fib, ordinary.pit, ordinary.cs, ordinary.draws) = (self.fib, self.pit, self.cs, self.draws);
        (ordinary.hash, ordinary.measuring.seed, ordinary.measuring.seconds) = (self.hash, self.seed, self.seconds);
        ordinary.measuring.ensure_possible()?;
        Ok(ordinary)
    }
}

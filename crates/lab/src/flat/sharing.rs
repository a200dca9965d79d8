//! The table of a second switch, which shares the graph of the first [Concise §5.1].

use std::time::Instant;

use byname_lookup::EntryId;
use byname_lookup::flat::othello::Network;
use byname_wire::Digest;
use serde::Serialize;

use super::engine::{Setup, othello_options};
use super::hasher::Hasher;
use super::names::Names;
use super::options::Options;
use crate::timing::median;

/// Cost of the tables of two switches with the same names.
#[derive(Serialize, Clone, Debug)]
pub struct Sharing {
    /// Number of names, the same for both.
    pub names: u64,
    /// Bits of an action.
    pub action_bits: u32,
    /// Number of times that both tables were built.
    pub repetitions: u32,
    /// Median time for the first table with its graph, from digests.
    pub first_s: f64,
    /// Median time for the second table alone, with other actions.
    pub second_s: f64,
    /// Median of `second_s / first_s`.
    pub share: f64,
    /// Number of answers of the second table that were compared.
    pub checked: u64,
    /// Number of wrong answers.
    pub wrong: u64,
}

/// Builds the tables of two switches on one core, several times.
pub fn share(options: &Options) -> anyhow::Result<Sharing> {
    let seed = options.measuring.seed;
    let names = Names::open(options.keys, options.list.as_deref(), options.key_bytes, options.names, seed)?;
    let (hasher, action_bits) = (Hasher::new(options.hash, seed), options.action_bits);
    let names_max = usize::try_from(names.len())?;
    let setup = Setup { names: &names, hasher: &hasher, names_max, action_bits, pages: options.pages.into() };
    let (digests, actions): (Vec<_>, Vec<_>) = setup.stream().unzip();
    let other = |name: Digest| EntryId((name.check >> (64 - action_bits)) as u32);
    let (mut firsts, mut seconds, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    let (mut checked, mut wrong) = (0, 0);
    for _ in 0..options.measuring.repetitions {
        let start = Instant::now();
        let mut network = Network::construct(othello_options(&setup), &digests, &[&actions])?;
        let first_s = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let second = network.add_table(other)?;
        let second_s = start.elapsed().as_secs_f64();
        let fib = network.query(second);
        checked += digests.len() as u64;
        wrong += digests.iter().filter(|&&name| fib.entry(name) != Some(other(name))).count() as u64;
        firsts.push(first_s);
        seconds.push(second_s);
        shares.push(second_s / first_s);
    }
    Ok(Sharing {
        names: names.len(),
        action_bits,
        repetitions: options.measuring.repetitions,
        first_s: median(&firsts),
        second_s: median(&seconds),
        share: median(&shares),
        checked,
        wrong,
    })
}

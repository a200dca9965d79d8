//! Opaque names and their actions, computed from a number: data plus a seed.
//!
//! Only names from lists are held as text, so a billion names can stream into an engine. The action of a name follows
//! from its number, so answers can be checked without an oracle.

mod lfsr;
mod lists;

use std::path::Path;

use anyhow::{Context as _, ensure};
use byname_lookup::EntryId;
use clap::ValueEnum;
use serde::Serialize;

pub use lfsr::Lfsr;
use lists::{Lines, Macs};

use crate::workload::{Permutation, Random, mix};

/// Kinds of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Keys {
    /// Random bytes.
    Random,
    /// States of a shift register [Concise §6.2.3], generated in the measured loop.
    Lfsr,
    /// MAC addresses with prefixes from a list of vendors.
    Macs,
    /// Lines of a list, such as file names.
    Files,
}

/// A population of names in the table, and any number of names that are not in it.
pub struct Names {
    shape: Shape,
    len: u64,
    seed: u64,
}

enum Shape {
    /// Random bytes of this size. Short names are a permutation of all possible ones.
    Random(usize, Option<Permutation>),
    Lfsr(usize, Lfsr),
    Macs(Macs),
    Files(Lines),
}

impl Names {
    /// Opens `count` names, or as many as a list has.
    ///
    /// # Errors
    /// If a list cannot be read, or if there are not enough such names.
    pub fn open(keys: Keys, list: Option<&Path>, size: usize, count: u64, seed: u64) -> anyhow::Result<Self> {
        let list = || list.context("these names need a list (--list)");
        let shape = match keys {
            Keys::Random if size < 8 => {
                let permutation = Permutation::new(1 << (8 * size), seed);
                Shape::Random(size, Some(permutation))
            }
            Keys::Random => Shape::Random(size, None),
            Keys::Lfsr => Shape::Lfsr(size, Lfsr::new(size).context("a register needs at least two bytes")?),
            Keys::Macs => Shape::Macs(Macs::read(list()?, seed)?),
            Keys::Files => Shape::Files(Lines::read(list()?, count)?),
        };
        let (len, most) = match &shape {
            Shape::Random(size, _) | Shape::Lfsr(size, _) if *size < 8 => (count, 1 << (8 * size)),
            Shape::Random(..) | Shape::Lfsr(..) => (count, u64::MAX),
            Shape::Macs(macs) => (count, macs.most()),
            Shape::Files(lines) => (lines.len(), u64::MAX),
        };
        ensure!(len > 0, "there must be at least one name");
        // The other half is for names that are not in the table.
        ensure!(len <= most / 2, "there are not enough such names for {len}");
        Ok(Names { shape, len, seed })
    }

    /// Number of names in the table.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Length of every name in bytes; `None` if lengths differ.
    pub fn size(&self) -> Option<usize> {
        match &self.shape {
            Shape::Random(size, _) | Shape::Lfsr(size, _) => Some(*size),
            Shape::Macs(_) => Some(6),
            Shape::Files(_) => None,
        }
    }

    /// The register, if one generates the names.
    pub fn lfsr(&self) -> Option<&Lfsr> {
        match &self.shape {
            Shape::Lfsr(_, lfsr) => Some(lfsr),
            _ => None,
        }
    }

    /// Appends name `i`. Names from [`Names::len`] on are not in the table.
    pub fn write(&self, i: u64, out: &mut Vec<u8>) {
        match &self.shape {
            Shape::Random(size, Some(permutation)) => {
                out.extend_from_slice(&permutation.at(i).to_le_bytes()[..*size]);
            }
            Shape::Random(size, None) => {
                // `mix` is invertible, so no two names begin with the same bytes.
                let end = out.len() + size;
                out.extend_from_slice(&mix(i.wrapping_add(mix(self.seed))).to_le_bytes());
                let mut random = Random::of(self.seed, i);
                while out.len() < end {
                    out.extend_from_slice(&random.bits().to_le_bytes());
                }
                out.truncate(end);
            }
            Shape::Lfsr(size, lfsr) => write_state(lfsr.at(i), *size, out),
            Shape::Macs(macs) => macs.write(i, out),
            Shape::Files(lines) => lines.write(i, out),
        }
    }

    /// The action of name `i`, with `bits` bits.
    pub fn action(&self, i: u64, bits: u32) -> EntryId {
        EntryId((mix(i ^ mix(!self.seed)) >> (64 - bits)) as u32)
    }
}

/// The name for a register's state: the state's bytes, repeated.
#[inline]
pub fn write_state(state: u64, size: usize, out: &mut Vec<u8>) {
    let bytes = state.to_le_bytes();
    if size == bytes.len() {
        out.extend_from_slice(&bytes);
        return;
    }
    out.extend(bytes.iter().cycle().take(size));
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_different_and_of_their_size() {
        for keys in [Keys::Random, Keys::Lfsr] {
            for size in [4, 6, 8, 16, 20, 32, 45] {
                let names = Names::open(keys, None, size, 3000, 5).expect("made-up names");
                let mut seen = HashSet::new();
                for i in 0..2 * names.len() {
                    let mut name = Vec::new();
                    names.write(i, &mut name);
                    assert_eq!(name.len(), size);
                    assert!(seen.insert(name), "{keys:?} {size}: {i}");
                }
            }
        }
    }

    #[test]
    fn actions_fill_their_bits() {
        let names = Names::open(Keys::Random, None, 8, 1000, 5).expect("made-up names");
        for bits in [1, 5, 8, 32] {
            let actions: Vec<_> = (0..1000).map(|i| u64::from(names.action(i, bits).0)).collect();
            assert!(actions.iter().all(|action| action >> bits == 0));
            assert!(actions.iter().any(|action| action >> (bits - 1) == 1));
        }
    }

    #[test]
    fn more_names_than_there_are_is_refused() {
        assert!(Names::open(Keys::Random, None, 2, 40_000, 1).is_err());
        assert!(Names::open(Keys::Macs, None, 6, 10, 1).is_err(), "no list");
        assert!(Names::open(Keys::Random, None, 8, 0, 1).is_err());
    }
}

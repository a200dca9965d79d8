//! What [Concise §6.2, §7.2] compares itself with, on the same names and the same digests.
//!
//! Each takes its hashes from the [`Digest`] that byname's engines get, so that no structure pays
//! for hashing twice; those that compare names read their octets as well. Tables lie on large pages
//! where the kernel has them, and a query is a burst whose memory reads overlap: the structures are
//! measured, not how little care was taken with them.
//!
//! | baseline | wrong answers | names that are not there | changes |
//! | --- | --- | --- | --- |
//! | [`Cuckoo`] | none | `None` | yes |
//! | [`Buffalo`] | at most 0.01 % | mostly `None` | yes |
//! | [`Orthogonal`] | at most 0.01 % | mostly one action| yes |
//! | [`SetSep`] | none | arbitrary | no |
//! | [`BinarySearch`] | none | `None` | no |
//!
//! Changes and queries are for one thread: nothing here is published to concurrent readers.

mod binary_search;
mod bloom;
mod buffalo;
mod cuckoo;
mod octets;
mod orthogonal;
mod setsep;
mod slot;
#[cfg(test)]
mod tests;

use byname_lookup::{BuildError, EntryId};
use byname_wire::Digest;

pub use binary_search::BinarySearch;
pub use buffalo::Buffalo;
pub use cuckoo::Cuckoo;
pub use orthogonal::Orthogonal;
pub use setsep::SetSep;
use slot::{Inline, Reference};

/// What the Bloom filters of a table get wrong at most, all taken together: "at most 0.01 %"
/// [Concise §6.2].
pub const WRONG_RATE_MAX: f64 = 1e-4;

/// A name to be looked up: its octets, and the digest that all hashes are taken from.
#[derive(Debug, Clone, Copy)]
pub struct FlatName<'a> {
    /// What the name is.
    pub octets: &'a [u8],
    /// Its keyed hash.
    pub digest: Digest,
}

/// The names that a table is constructed from, as often as it asks for them.
pub trait Population {
    /// How many there are.
    fn len(&self) -> usize;
    /// How many there will ever be: tables leave room for that many.
    fn names_max(&self) -> usize {
        self.len()
    }
    /// Octets of every name; `None` where they differ.
    fn octets(&self) -> Option<usize>;
    /// Visits each name once, with its action, in the same order each time.
    fn visit(&self, visitor: &mut dyn FnMut(FlatName<'_>, EntryId));
}

/// Most names that a table is asked for at once.
pub const BURST_MAX: usize = 64;

/// A table of flat names.
pub trait Baseline: Send + Sync {
    /// The actions of `names`: right, but for one in 1 / [`Baseline::wrong_rate`].
    ///
    /// # Panics
    /// If the lengths differ, or are above [`BURST_MAX`].
    fn query_burst(&self, names: &[FlatName<'_>], out: &mut [Option<EntryId>]);
    /// Cache lines that a query of `name` reads.
    fn lines_read(&self, name: &FlatName<'_>) -> usize;
    /// What a query can read, in bytes.
    fn memory_bytes(&self) -> usize;
    /// What only changes need, in bytes.
    fn control_bytes(&self) -> usize {
        0
    }
    /// The share of names that the structure answers wrong, by its own formula.
    fn wrong_rate(&self) -> f64 {
        0.0
    }
    /// The table as one that changes; `None` where it has to be constructed anew.
    fn changes(&mut self) -> Option<&mut dyn Changes> {
        None
    }
}

/// A table that names come to and go from.
pub trait Changes {
    /// Takes `name` from the action `before` to `after`, where `None` is a name that is not there:
    /// so adds, alters or deletes it. Nothing is changed in case of an error.
    ///
    /// What a name's action is at present is the caller's to know, as it is a controller's: filters
    /// cannot tell.
    fn change(&mut self, name: FlatName<'_>, before: Option<EntryId>, after: Option<EntryId>)
    -> Result<(), BuildError>;
}

/// One baseline, by name.
pub struct Kind {
    /// As on the command line.
    pub name: &'static str,
    /// What it is, with its paper.
    pub about: &'static str,
    /// Constructs one.
    pub construct: Construct,
}

/// Constructs a table of names with actions below 2^`action_bits`, which is 1 to 32.
pub type Construct = fn(names: &dyn Population, action_bits: u32) -> Result<Box<dyn Baseline>, BuildError>;

/// All of them.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "cuckoo",
        about: "baseline: (2,4)-cuckoo with whole names, bursts as in CuckooSwitch [CoNEXT 2013]",
        construct: |names, action_bits| {
            Ok(match names.octets() {
                Some(6) => Box::new(Cuckoo::<Inline<6>>::construct(names, action_bits)?),
                Some(8) => Box::new(Cuckoo::<Inline<8>>::construct(names, action_bits)?),
                Some(16) => Box::new(Cuckoo::<Inline<16>>::construct(names, action_bits)?),
                Some(20) => Box::new(Cuckoo::<Inline<20>>::construct(names, action_bits)?),
                Some(32) => Box::new(Cuckoo::<Inline<32>>::construct(names, action_bits)?),
                Some(45) => Box::new(Cuckoo::<Inline<45>>::construct(names, action_bits)?),
                _ => Box::new(Cuckoo::<Reference>::construct(names, action_bits)?),
            })
        },
    },
    Kind {
        name: "buffalo",
        about: "baseline: a Bloom filter for each action, BUFFALO [CoNEXT 2009]",
        construct: |names, action_bits| Ok(Box::new(Buffalo::construct(names, action_bits)?)),
    },
    Kind {
        name: "orthogonal",
        about: "baseline: a Bloom filter for each bit of the action [Concise §6.2]",
        construct: |names, action_bits| Ok(Box::new(Orthogonal::construct(names, action_bits)?)),
    },
    Kind {
        name: "setsep",
        about: "baseline: SetSep, the separator of ScaleBricks [SIGCOMM 2015]; no updates",
        construct: |names, action_bits| Ok(Box::new(SetSep::construct(names, action_bits)?)),
    },
    Kind {
        name: "binary_search",
        about: "baseline: binary search over sorted names; no updates",
        construct: |names, action_bits| {
            Ok(match names.octets() {
                Some(6) => Box::new(BinarySearch::<Inline<6>>::construct(names, action_bits)?),
                Some(8) => Box::new(BinarySearch::<Inline<8>>::construct(names, action_bits)?),
                Some(16) => Box::new(BinarySearch::<Inline<16>>::construct(names, action_bits)?),
                Some(20) => Box::new(BinarySearch::<Inline<20>>::construct(names, action_bits)?),
                Some(32) => Box::new(BinarySearch::<Inline<32>>::construct(names, action_bits)?),
                Some(45) => Box::new(BinarySearch::<Inline<45>>::construct(names, action_bits)?),
                _ => Box::new(BinarySearch::<Reference>::construct(names, action_bits)?),
            })
        },
    },
];

/// Refuses an action that does not fit `action_bits`.
fn check_action(action: EntryId, action_bits: u32) -> Result<(), BuildError> {
    match u64::from(action.0) >> action_bits {
        0 => Ok(()),
        _ => Err(BuildError::EntryOutOfRange {
            entry: action.0,
            entries_max: 1u32.checked_shl(action_bits).unwrap_or(u32::MAX),
        }),
    }
}

/// A number below `n`, as good as uniform for a uniform `hash`.
#[inline(always)]
fn below(hash: u64, n: usize) -> usize {
    ((u128::from(hash) * n as u128) >> 64) as usize
}

/// Cache lines that `bytes` octets touch from offset `at` on.
fn lines_of(at: usize, bytes: usize) -> usize {
    (at + bytes).div_ceil(64) - at / 64
}

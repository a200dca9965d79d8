//! The structures that [Concise §6.2, §7.2] compares itself with, on the same names and the same digests.
//!
//! Each baseline takes its hashes from the [`Digest`] that byname's engines get, so no structure pays for hashing
//! twice. Baselines that compare names also read their bytes. Tables lie on large pages if the kernel has them, and a
//! query is a burst whose memory reads overlap. So the comparison is between structures, not between levels of tuning.
//!
//! | baseline | wrong answers | names that are not there | changes |
//! | --- | --- | --- | --- |
//! | [`Cuckoo`] | none | `None` | yes |
//! | [`Buffalo`] | at most 0.01 % | mostly `None` | yes |
//! | [`Orthogonal`] | at most 0.01 % | mostly one action| yes |
//! | [`SetSep`] | none | arbitrary | no |
//! | [`BinarySearch`] | none | `None` | no |
//!
//! Changes and queries run on one thread: nothing here is published to concurrent readers.

mod binary_search;
mod bloom;
mod buffalo;
mod bytes;
mod cuckoo;
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

/// Maximum rate of wrong answers of all Bloom filters of a table together: "at most 0.01 %" [Concise §6.2].
pub const WRONG_RATE_MAX: f64 = 1e-4;

/// A name to look up: its bytes, and the digest from which all hashes are taken.
#[derive(Debug, Clone, Copy)]
pub struct FlatName<'a> {
    /// Bytes of the name.
    pub bytes: &'a [u8],
    /// Keyed hash of the name.
    pub digest: Digest,
}

/// The names from which a table is constructed. A table may iterate over them several times.
pub trait Population {
    /// Number of names.
    fn len(&self) -> usize;
    /// Maximum number of names later: tables leave room for them.
    fn names_max(&self) -> usize {
        self.len()
    }
    /// Length of every name in bytes; `None` if lengths differ.
    fn bytes(&self) -> Option<usize>;
    /// Visits each name once with its action. The order is always the same.
    fn visit(&self, visitor: &mut dyn FnMut(FlatName<'_>, EntryId));
}

/// Maximum number of names of a burst.
pub const BURST_MAX: usize = 64;

/// A table of flat names.
pub trait Baseline: Send + Sync {
    /// Looks up the actions of `names`. A share of [`Baseline::wrong_rate`] of the answers may be wrong.
    ///
    /// # Panics
    /// If the lengths differ or exceed [`BURST_MAX`].
    fn query_burst(&self, names: &[FlatName<'_>], out: &mut [Option<EntryId>]);
    /// Number of cache lines that a query of `name` reads.
    fn lines_read(&self, name: &FlatName<'_>) -> usize;
    /// Memory that queries can read, in bytes.
    fn memory_bytes(&self) -> usize;
    /// Memory that only changes need, in bytes.
    fn control_bytes(&self) -> usize {
        0
    }
    /// Expected share of wrong answers, by the structure's own formula.
    fn wrong_rate(&self) -> f64 {
        0.0
    }
    /// The table as one that takes changes; `None` if it must be rebuilt for a change.
    fn changes(&mut self) -> Option<&mut dyn Changes> {
        None
    }
}

/// A table that takes changes.
pub trait Changes {
    /// Changes the action of `name` from `before` to `after`; `None` means that the name is absent. So this adds,
    /// alters or deletes a name. An error leaves the table unchanged.
    ///
    /// The caller must know the present action, as a controller does: filters cannot tell it.
    fn change(&mut self, name: FlatName<'_>, before: Option<EntryId>, after: Option<EntryId>)
    -> Result<(), BuildError>;
}

/// One kind of baseline.
pub struct Kind {
    /// Name on the command line.
    pub name: &'static str,
    /// Description, with the paper.
    pub about: &'static str,
    /// Constructs a table.
    pub construct: Construct,
}

/// Constructs a table of names with actions below 2^`action_bits`, which is 1 to 32.
pub type Construct = fn(names: &dyn Population, action_bits: u32) -> Result<Box<dyn Baseline>, BuildError>;

/// All baselines.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "cuckoo",
        about: "baseline: (2,4)-cuckoo with whole names, bursts as in CuckooSwitch [CoNEXT 2013]",
        construct: |names, action_bits| {
            Ok(match names.bytes() {
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
            Ok(match names.bytes() {
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

/// Rejects an action that does not fit in `action_bits`.
fn check_action(action: EntryId, action_bits: u32) -> Result<(), BuildError> {
    match u64::from(action.0) >> action_bits {
        0 => Ok(()),
        _ => Err(BuildError::EntryOutOfRange {
            entry: action.0,
            entries_max: 1u32.checked_shl(action_bits).unwrap_or(u32::MAX),
        }),
    }
}

/// Maps a uniform `hash` to a nearly uniform number below `n`.
#[inline(always)]
fn below(hash: u64, n: usize) -> usize {
    ((u128::from(hash) * n as u128) >> 64) as usize
}

/// Number of cache lines touched by `bytes` bytes from offset `at` on.
fn lines_of(at: usize, bytes: usize) -> usize {
    (at + bytes).div_ceil(64) - at / 64
}

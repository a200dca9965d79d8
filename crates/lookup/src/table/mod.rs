//! Tables for programs: keys and values as programs have them, over the engines of this crate.
//!
//! | table | finds | keys |
//! | --- | --- | --- |
//! | [`PrefixTable`] | the longest prefix of a key that has a rule | paths, URLs, names, lists of components |
//! | [`FlatTable`] | a number of up to 32 bits for exactly this key | bytes, text, integers |
//! | [`TagTable`] | the sets of tags that are subsets of a set | tags of any bytes |
//!
//! Each table is the only writer. Its readers (`reader()`) are for other threads, one for each; they
//! never wait, and each lookup sees all changes that were made before it ([`handle`](crate::handle)).
//! A table draws its hash key from the system, so that nobody can choose keys that collide.

mod flat;
mod key;
mod prefix;
mod tags;
mod values;

use byname_wire::NameHashKey;
use thiserror::Error;

use crate::file::FileError;
use crate::update::BuildError;

pub use self::flat::{FlatOptions, FlatReader, FlatTable, Unknown};
pub use self::key::{AsBytes, AsName, KeyBytes, KeyError, Url};
pub use self::prefix::{Found, Matching, PrefixOptions, PrefixReader, PrefixTable};
pub use self::tags::{TagOptions, TagReader, TagTable};
pub use self::values::Stored;

/// A change or a file that a table refuses. The table is as before.
#[derive(Debug, Error)]
pub enum TableError {
    /// The key has no place in such a table.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The table is full, or there is no memory.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Too many different values. Rules with equal values share one.
    #[error("the table has room for {values_max} different values")]
    Values {
        /// The maximum.
        values_max: usize,
    },
    /// The file cannot be used or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Tables with [`Matching::Exact`], [`Matching::ManyValues`] or [`Unknown::Exact`] have no files.
    #[error("a table that is made in this way cannot be saved")]
    NoFile,
    /// No value, or none beside its checksum, has so many bits.
    #[error("values of {value_bits} bits do not go with {unknown:?}: at least one bit each, at most 32 together")]
    Bits {
        /// Bits of a value.
        value_bits: u32,
        /// The answer for unknown keys.
        unknown: Unknown,
    },
    /// A search among sets of tags was given up.
    #[error("the search was given up after {steps} steps")]
    Effort {
        /// Steps taken.
        steps: u32,
    },
    /// The system gives no random numbers for the hash key.
    #[error("the system provides no random numbers: {reason}")]
    Random {
        /// The system's reason.
        reason: String,
    },
}

/// A key that nobody knows.
fn random_key() -> Result<NameHashKey, TableError> {
    Ok(NameHashKey::new([random()?, random()?]))
}

fn random() -> Result<u64, TableError> {
    getrandom::u64().map_err(|error| TableError::Random { reason: error.to_string() })
}

//! Tables that are too large for keys: a head and deltas in etcd, and chunks outside.
//!
//! A *chunk* has some hundred to some thousand rows of a table, sorted, front-coded and compressed, and its name is its SHA-256.
//! A *manifest* lists the chunks of a whole table, and is named in the same way. *Deltas* are changes after a manifest, in a
//! sequence without gaps. A file that a builder has made travels in *blocks* ([`blocks`]) and *patches* ([`patch`]), which are chunks, too.
//! [`sort`] brings rows into the order that chunks have, and [`stream`] reads a table row by row.
//! All of this is without I/O, except for the folder of chunks ([`store`], [`writing`]), what patches do in it, runs that are sorted, chunks in other
//! places ([`source`], [`copy`]), and chunks as named data ([`named`]).
//!
//! A row is a key and a value, both bytes. This module does not know what they mean: values of heads say it.
//!
//! # Bounds
//! All bytes are those of a peer, or of a file that somebody may have changed. The digest is checked before anything is decoded,
//! lengths before anything is allocated, and decompression ends at the length that was promised.

pub mod blocks;
pub mod chunk;
mod coding;
pub mod content;
pub mod copy;
pub mod delta;
pub mod manifest;
pub mod named;
pub mod patch;
pub mod sort;
pub mod source;
pub mod store;
pub mod stream;
#[cfg(test)]
mod tests;
pub mod writing;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

/// Longest key of a row, in bytes.
pub const ROW_KEY_BYTES_MAX: usize = 8_800;
/// Longest value of a row, in bytes.
pub const ROW_VALUE_BYTES_MAX: usize = 8_800;

/// Rows of a table, sorted by the bytes of their keys.
pub type Rows = BTreeMap<Box<[u8]>, Arc<[u8]>>;

/// A SHA-256 digest, which is the name of a chunk or manifest, or stands for the state of a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

/// The reason why bytes are no part of a table, or a part does not fit the others.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadTable {
    /// The bytes are not those that the name stands for.
    #[error("the bytes have the SHA-256 {found}, not {wanted}")]
    Digest {
        /// The name.
        wanted: Digest,
        /// What the bytes have.
        found: Digest,
    },
    /// It is longer than it may be.
    #[error("{0} bytes, more than {1}")]
    Long(usize, usize),
    /// It is of another kind or version.
    #[error("no {0} in a form that this version of byname knows")]
    Kind(&'static str),
    /// It ends too early.
    #[error("it is cut off")]
    Cut,
    /// It cannot be decompressed, or its length is another one.
    #[error("it cannot be decompressed to {0} bytes")]
    Compression(usize),
    /// Numbers in it contradict each other.
    #[error("{0}")]
    Contradiction(&'static str),
    /// A delta does not follow the state that it is applied to.
    #[error("a delta is missing: number {found} of epoch {epoch} does not follow number {here}")]
    Gap {
        /// Epoch of the delta.
        epoch: u64,
        /// Number of the delta.
        found: u64,
        /// Number of the last delta here.
        here: u64,
    },
}

impl Digest {
    /// Digest of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Digest(byname_wire::digest::sha256(&[bytes]))
    }

    /// Checks that bytes are those that this digest stands for.
    ///
    /// # Errors
    /// They are not.
    pub fn check(self, bytes: &[u8]) -> Result<(), BadTable> {
        let found = Digest::of(bytes);
        if found == self { Ok(()) } else { Err(BadTable::Digest { wanted: self, found }) }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is no [`Digest`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a digest has 64 hexadecimal digits in lower case")]
pub struct BadDigest;

impl FromStr for Digest {
    type Err = BadDigest;

    fn from_str(text: &str) -> Result<Self, BadDigest> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(BadDigest) };
        let mut digest = [0; 32];
        if pairs.len() != digest.len() {
            return Err(BadDigest);
        }
        for (to, [high, low]) in digest.iter_mut().zip(pairs) {
            *to = digit(*high).zip(digit(*low)).map(|(high, low)| high << 4 | low).ok_or(BadDigest)?;
        }
        Ok(Digest(digest))
    }
}

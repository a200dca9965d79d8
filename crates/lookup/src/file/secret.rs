//! What is secret in a file: for copies that everybody may read, such as parts that travel in a network.
//!
//! The header has the hash key, and a checksum that depends on it. Without both, the rest of a file tells where fingerprints of names are,
//! and not how to make names that collide.

use std::fmt;

use byname_wire::NameHashKey;

use super::header::function_of;
use super::{FileError, MAGIC, PAGE};

/// Length of the header, in bytes. The secret is in these.
pub const HEADER_BYTES: usize = PAGE;

/// Where the key is, with the number of its function, and where the checksum is.
const KEY: std::ops::Range<usize> = 24..44;
const CHECKSUM: std::ops::Range<usize> = PAGE - 4..PAGE;
/// Length of a [`Secret`], in bytes.
pub const SECRET_BYTES: usize = 24;

/// The secret part of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; SECRET_BYTES]);

impl Secret {
    /// A secret of these bytes.
    pub fn new(bytes: [u8; SECRET_BYTES]) -> Self {
        Secret(bytes)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }

    /// The key that the file's names are hashed with.
    ///
    /// # Errors
    /// If there is no such hash function.
    pub fn key(&self) -> Result<NameHashKey, FileError> {
        let word = |at: usize| u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight bytes"));
        let function = u32::from_le_bytes(self.0[16..20].try_into().expect("four bytes"));
        Ok(NameHashKey::with_function(function_of(function)?, [word(0), word(8)]))
    }

    /// Takes the secret out of the beginning of a file, which has zeros in its place afterwards.
    ///
    /// # Errors
    /// If this is no beginning of such a file.
    pub fn take(beginning: &mut [u8]) -> Result<Self, FileError> {
        let header = header(beginning)?;
        let mut secret = [0; SECRET_BYTES];
        secret[..20].copy_from_slice(&header[KEY]);
        secret[20..].copy_from_slice(&header[CHECKSUM]);
        header[KEY].fill(0);
        header[CHECKSUM].fill(0);
        Ok(Secret(secret))
    }

    /// Puts the secret into the beginning of a file that it was taken from.
    ///
    /// # Errors
    /// If this is no beginning of such a file.
    pub fn put(&self, beginning: &mut [u8]) -> Result<(), FileError> {
        let header = header(beginning)?;
        header[KEY].copy_from_slice(&self.0[..20]);
        header[CHECKSUM].copy_from_slice(&self.0[20..]);
        Ok(())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

fn header(beginning: &mut [u8]) -> Result<&mut [u8; PAGE], FileError> {
    let header = beginning.first_chunk_mut::<PAGE>().ok_or(FileError::Foreign)?;
    if header.starts_with(&MAGIC) { Ok(header) } else { Err(FileError::Foreign) }
}

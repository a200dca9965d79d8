//! What is secret in a file: for copies that everybody may read, such as parts that travel in a network.
//!
//! The header has the hash key, and a checksum that depends on it. Without both, the rest of a file tells where fingerprints of names are,
//! and not how to make names that collide.

use std::fmt;

use byname_wire::NameHashKey;

use super::{FileError, MAGIC, PAGE, function_of};

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

#[cfg(test)]
mod tests {
    use byname_wire::HashFunction;

    use super::super::{Kind, Opening, TableFile, TableWriter};
    use super::*;

    #[test]
    fn a_file_without_its_secret_is_no_table_and_with_it_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.table");
        let key = NameHashKey::with_function(HashFunction::SipHash24, [0x1122_3344_5566_7788, 9]);
        let mut file = TableWriter::create(&path, Kind::Compact, &key).expect("created");
        file.bytes(1, b"a section").expect("written");
        file.finish().expect("written");
        let whole = std::fs::read(&path).expect("read");
        let mut blank = whole.clone();
        let secret = Secret::take(&mut blank).expect("a table");
        assert!(secret.key().expect("a function") == key && Secret::new(*secret.bytes()) == secret);
        // Nothing of the key is left, and nothing that depends on it: another key leaves the same bytes.
        let other = NameHashKey::with_function(HashFunction::SipHash24, [5, 6]);
        let mut file = TableWriter::create(&path, Kind::Compact, &other).expect("created");
        file.bytes(1, b"a section").expect("written");
        file.finish().expect("written");
        let mut others = std::fs::read(&path).expect("read");
        assert!(others != whole);
        Secret::take(&mut others).expect("a table");
        assert_eq!(others, blank);
        std::fs::write(&path, &blank).expect("written");
        assert!(TableFile::open(&path, Kind::Compact, Opening::default()).is_err());
        secret.put(&mut blank).expect("a table");
        assert_eq!(blank, whole);
        for mut foreign in [vec![], whole[..PAGE - 1].to_vec(), vec![0; PAGE]] {
            assert!(matches!(Secret::take(&mut foreign), Err(FileError::Foreign)));
            assert!(matches!(secret.put(&mut foreign), Err(FileError::Foreign)));
        }
        assert_eq!(format!("{secret:?}"), "Secret");
    }
}

//! Changes of a file that keeps its length: which bytes to write where, checksums included.
//!
//! A checksum of lines is not computed again (`crc`). So an edit costs as much as its lines, whatever the length of the file.

use std::collections::BTreeMap;

use thiserror::Error;

use super::header::Header;
use super::{FileError, Kind, TableFile, crc};
use crate::memory::Line;
use crate::update::BuildError;

/// Bytes to write into a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Where they begin, in bytes from the beginning of the file.
    pub at: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A file that cannot be changed in place, or not in this way.
#[derive(Debug, Error)]
pub enum LiveError {
    /// The file cannot be read, or would not keep its length.
    #[error(transparent)]
    File(#[from] FileError),
    /// A rule, a name or a change was refused.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The file was not made of these rules or names.
    #[error("the file is not of these rules")]
    OtherRules,
    /// A part of the table must be built anew.
    #[error("a part of the table has outgrown its room")]
    Grown,
}

/// A line of a section, as it was and as it is.
pub(crate) struct Rewritten {
    /// Its number in the section.
    pub(crate) line: usize,
    pub(crate) before: [u64; 8],
    pub(crate) after: [u64; 8],
}

/// The header of a file that exists somewhere, and what to write into that file.
pub(crate) struct EditedFile {
    kind: Kind,
    header: Header,
    edits: Vec<Edit>,
    /// Bytes of sections as they were written last.
    written: BTreeMap<u32, Vec<u8>>,
}

impl EditedFile {
    /// A file without changes yet.
    pub(crate) fn new(kind: Kind, file: &TableFile) -> Self {
        EditedFile { kind, header: file.header.clone(), edits: Vec::new(), written: BTreeMap::new() }
    }

    /// Replaces the bytes of a section. The first time, they are written even if the file has them.
    ///
    /// # Errors
    /// If there is no such section, or it has another length.
    pub(crate) fn bytes(&mut self, number: u32, bytes: &[u8]) -> Result<(), FileError> {
        let section = self.header.section_mut(number)?;
        if section.len != bytes.len() as u64 {
            return Err(FileError::malformed(format!("section {number} would have another length")));
        }
        if self.written.get(&number).is_none_or(|written| written != bytes) {
            section.crc = crc32c::crc32c(bytes);
            let at = section.offset;
            self.edits.push(Edit { at, bytes: bytes.to_vec() });
            self.written.insert(number, bytes.to_vec());
        }
        Ok(())
    }

    /// Replaces lines of a section.
    ///
    /// # Errors
    /// If there is no such section, or no such line in it.
    pub(crate) fn lines(&mut self, number: u32, lines: impl Iterator<Item = Rewritten>) -> Result<(), FileError> {
        const LINE: usize = size_of::<Line>();
        let section = self.header.section_mut(number)?;
        for Rewritten { line, before, after } in lines.filter(|line| line.before != line.after) {
            let at = line as u64 * LINE as u64;
            let behind = section.len.checked_sub(at + LINE as u64);
            let behind = behind.filter(|behind| behind.is_multiple_of(LINE as u64));
            let behind = behind.ok_or_else(|| FileError::malformed(format!("section {number} has no line {line}")))?;
            section.crc ^= crc::behind(crc::difference(&before, &after), behind / LINE as u64);
            let bytes = after.into_iter().flat_map(u64::to_le_bytes).collect();
            self.edits.push(Edit { at: section.offset + at, bytes });
        }
        Ok(())
    }

    /// What to write, sorted, with the header. Later edits follow these.
    pub(crate) fn take(&mut self) -> Vec<Edit> {
        let mut edits = std::mem::take(&mut self.edits);
        if !edits.is_empty() {
            edits.push(Edit { at: 0, bytes: self.header.encode(self.kind).to_vec() });
            edits.sort_by_key(|edit| edit.at);
        }
        edits
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use byname_wire::NameHashKey;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::file::{Opening, TableWriter};

    #[test]
    fn edited_files_have_the_checksums_of_whole_ones() {
        let path = std::env::temp_dir().join(format!("byname-edited-{}.table", std::process::id()));
        let write = |words: &[u64], text: &[u8]| {
            let mut file = TableWriter::create(&path, Kind::Line, &NameHashKey::new([1, 2])).unwrap();
            file.bytes(1, text).unwrap();
            file.words(2, words.iter().copied()).unwrap();
            file.bytes(3, b"the end").unwrap();
            file.finish().unwrap();
            std::fs::read(&path).unwrap()
        };
        let mut rng = SmallRng::seed_from_u64(1);
        let mut words: Vec<u64> = (0..8 * 1_000).map(|_| rng.random()).collect();
        let mut bytes = write(&words, b"one");
        let mut file = EditedFile::new(Kind::Line, &TableFile::open(&path, Kind::Line, Opening::default()).unwrap());
        for round in 0..20 {
            // The first and the last line, among others, and one that stays.
            for line in [0, 999, rng.random_range(1..999)] {
                let before: [u64; 8] = words[8 * line..][..8].try_into().unwrap();
                words[8 * line + rng.random_range(0..8)] = rng.random();
                let after = words[8 * line..][..8].try_into().unwrap();
                let same = Rewritten { line: 5, before: after, after };
                file.lines(2, [same, Rewritten { line, before, after }].into_iter()).unwrap();
            }
            let text: &[u8] = if round < 10 { b"one" } else { b"two" };
            file.bytes(1, text).unwrap();
            let edits = file.take();
            assert_eq!(edits.len(), 4 + usize::from(round == 0 || round == 10));
            for Edit { at, bytes: new } in edits {
                bytes[at as usize..][..new.len()].copy_from_slice(&new);
            }
            assert!(bytes == write(&words, text), "round {round}");
        }
        assert!(file.take().is_empty());
        assert!(file.bytes(1, b"three").is_err() && file.bytes(9, b"").is_err());
        std::fs::remove_file(&path).unwrap();
        let behind = Rewritten { line: 1_000, before: [0; 8], after: [1; 8] };
        assert!(file.lines(2, [behind].into_iter()).is_err());
    }
}

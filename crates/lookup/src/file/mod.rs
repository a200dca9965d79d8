//! Files that keep a table: mapped, checked and used, not rebuilt.
//!
//! A file begins with a page that says what the rest is. The *sections* follow, each from the
//! beginning of a page, so that lines of a table can be used where they are mapped. Processes that
//! map the same file share its memory. All numbers are little-endian.
//!
//! ```text
//! 0     "byntable"
//! 8     version of the format (4)   kind of table (4)
//! 16    length of the file (8)
//! 24    secret of the hash key (16) hash function (4)   number of sections (4)
//! 48    sections: number (4)  CRC-32C (4)  offset (8)  length (8)
//! 4092  CRC-32C of the page so far (4)
//! ```
//!
//! **Damage.** The header's checksum is always checked, and so are the sections', unless
//! [`Opening::checked`] says otherwise. Checksums find what disks and copies do to a file. They do
//! not stop somebody who forges them. Each kind of table therefore stays within its bounds whatever
//! its lines hold: a forged table gives wrong answers and nothing worse.
//!
//! **Changes.** A file is never changed. Saving a table writes a new file beside the old one and
//! renames it, so a process that has mapped the old one keeps it. If something else writes into a mapped
//! file, answers become arbitrary. If it cuts the file, the system ends the process (SIGBUS). Where
//! others can write to a table, use [`Place::Copied`]. What has changed since a file was written can be in a second file
//! ([`changes`]), which is applied to the table when it is opened, in memory of this process ([`Source`]).
//!
//! **Secrets.** The file contains the hash key, because the table is of no use without it. Anybody
//! who reads it can make names that collide. Files are made for their owner alone (mode 600).

pub mod changes;
mod checked;
mod crc;
mod edit;
mod header;
pub mod secret;
mod write;

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use byname_wire::NameHashKey;
use thiserror::Error;

use crate::memory::{Line, Lines, Pages};
use crate::sync::Ordering;

use self::changes::{Changes, ChangesError};
pub use self::checked::Checked;
pub use self::edit::{Edit, LiveError};
pub(crate) use self::edit::{EditedFile, Rewritten};
use self::header::{Header, Section};
pub(crate) use self::write::TableWriter;

const MAGIC: [u8; 8] = *b"byntable";
const VERSION: u32 = 1;
/// Length of the header, and alignment of sections, in bytes.
const PAGE: usize = 4096;
const SECTIONS_AT: usize = 48;
const SECTION_BYTES: usize = 24;
const SECTIONS_MAX: usize = 32;
/// Files are read in blocks of this many bytes, which is a multiple of a line.
const BLOCK: usize = 1 << 20;

/// Where an opened table lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Place {
    /// In the file's own pages, which all processes share that map it. These are small pages, so a
    /// table much larger than the processor's caches is looked up more slowly than on large pages.
    #[default]
    Mapped,
    /// In memory of this process, on pages of this size.
    Copied(Pages),
}

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// Where the table lies.
    pub place: Place,
    /// Compare the checksums of lines, which reads the whole file. Without it, a damaged file is
    /// used, and some answers are wrong.
    pub checked: bool,
}

impl Default for Opening {
    fn default() -> Self {
        Opening { place: Place::Mapped, checked: true }
    }
}

/// A file, and how many of the changes beside it belong to the table.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The file.
    pub path: &'a Path,
    /// Number of changes ([`changes`]).
    pub changes: u64,
    /// Files that need not be read again, where lines are mapped. What this file is found to be is added.
    pub checked: Option<&'a Checked>,
}

impl<'a> From<&'a Path> for Source<'a> {
    fn from(path: &'a Path) -> Self {
        Source { path, changes: 0, checked: None }
    }
}

impl<'a> From<&'a PathBuf> for Source<'a> {
    fn from(path: &'a PathBuf) -> Self {
        path.as_path().into()
    }
}

/// What a file has a table of. The numbers are part of the format, and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Rules for prefixes that were loaded in bulk, by the engine `compact`.
    Compact,
    /// Flat names, by the engine `line`.
    Line,
    /// Sets of tags, by the engine `rare_tag`.
    Tags,
    /// Digests of flat names.
    Names,
}

impl Kind {
    fn number(self) -> u32 {
        match self {
            Kind::Compact => 1,
            Kind::Line => 2,
            Kind::Tags => 3,
            Kind::Names => 4,
        }
    }
}

/// A file that could not be written, or that has no table to use.
#[derive(Debug, Error)]
pub enum FileError {
    /// The system refuses to read or write.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file was not written by byname.
    #[error("this file has no table")]
    Foreign,
    /// A later, or a withdrawn, version of the format.
    #[error("the file has version {found} of the format, and this program reads version {VERSION}")]
    Version {
        /// The file's version.
        found: u32,
    },
    /// Another kind of table.
    #[error("the file has a table of kind {found}, not {} ({wanted:?})", wanted.number())]
    Kind {
        /// The kind's number in the file.
        found: u32,
        /// The kind that the caller opens.
        wanted: Kind,
    },
    /// The file is not as long as it says.
    #[error("the file has {bytes} of {expected} bytes")]
    Length {
        /// Its length.
        bytes: u64,
        /// The length that it should have.
        expected: u64,
    },
    /// A checksum differs.
    #[error("the file is damaged: the checksum of {part} differs")]
    Damaged {
        /// The part of the file.
        part: String,
    },
    /// The checksums are right, and the contents are impossible.
    #[error("the file has no usable table: {what}")]
    Malformed {
        /// The contradiction.
        what: String,
    },
    /// The changes beside it cannot be applied.
    #[error("{}: {source}", path.display())]
    Changes {
        /// The file of changes.
        path: PathBuf,
        /// The reason.
        source: ChangesError,
    },
    /// The key or the numbers of a table have another form on this machine.
    #[error("this machine stores numbers with the highest byte first; tables are only used where the lowest is first")]
    ByteOrder,
}

impl FileError {
    fn malformed(what: impl Into<String>) -> Self {
        FileError::Malformed { what: what.into() }
    }
}

/// A file with a table, whose header has been checked.
#[derive(Debug)]
pub(crate) struct TableFile<'a> {
    file: File,
    source: Source<'a>,
    opening: Opening,
    metadata: Metadata,
    /// As the file has it, and as it is after all changes.
    written: Header,
    header: Header,
    changes: Changes,
}

impl<'a> TableFile<'a> {
    /// Opens a file with its changes, and checks its header.
    pub(crate) fn open(source: impl Into<Source<'a>>, kind: Kind, opening: Opening) -> Result<Self, FileError> {
        if cfg!(target_endian = "big") {
            return Err(FileError::ByteOrder);
        }
        let source = source.into();
        let io = |error| FileError::Io { path: source.path.to_owned(), source: error };
        let mut file = File::open(source.path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(FileError::Foreign);
        }
        let mut page = [0; PAGE];
        match file.read_exact(&mut page) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let is_table = metadata.len() >= 8 && page.starts_with(&MAGIC);
                let cut = FileError::Length { bytes: metadata.len(), expected: PAGE as u64 };
                return Err(if is_table { cut } else { FileError::Foreign });
            }
            read => read.map_err(io)?,
        }
        let written = Header::decode(&page, kind)?;
        if written.bytes != metadata.len() {
            return Err(FileError::Length { bytes: metadata.len(), expected: written.bytes });
        }
        let changes = Changes::behind(source.path, (page, metadata.len()), Some(source.changes))?;
        let header = Header::decode(&changes.first_page(), kind)?;
        if !header.has_form_of(&written) {
            return Err(FileError::malformed("its changes make another file of it"));
        }
        Ok(TableFile { file, source, opening, metadata, written, header, changes })
    }

    /// The key that the table's names are hashed with.
    pub(crate) fn key(&self) -> NameHashKey {
        NameHashKey::with_function(self.header.function, self.header.secret)
    }

    /// The bytes of a small section, checked.
    pub(crate) fn bytes(&self, number: u32) -> Result<Vec<u8>, FileError> {
        let section = self.header.section(number)?;
        // The section is within the file, so no more memory is taken than the file has bytes.
        let mut bytes = Vec::new();
        let len = usize::try_from(section.len).unwrap_or(usize::MAX);
        bytes.try_reserve_exact(len).map_err(|_| self.io(io::ErrorKind::OutOfMemory.into()))?;
        let mut from = &self.file;
        from.seek(SeekFrom::Start(section.offset)).map_err(|error| self.io(error))?;
        from.take(section.len).read_to_end(&mut bytes).map_err(|error| self.io(error))?;
        self.changes.put(section.offset, &mut bytes);
        if bytes.len() != len || crc32c::crc32c(&bytes) != section.crc {
            return Err(Self::damaged(number));
        }
        Ok(bytes)
    }

    /// Number of lines of a section.
    pub(crate) fn lines_len(&self, number: u32) -> Result<usize, FileError> {
        let len = self.header.section(number)?.len;
        let whole = len > 0 && len.is_multiple_of(64);
        if whole { Ok((len / 64) as usize) } else { Err(FileError::malformed("a line is incomplete")) }
    }

    /// Whether a section has these lines, which lie in several runs. Compares their checksum.
    pub(crate) fn has_lines<'l>(
        &self,
        number: u32,
        runs: impl IntoIterator<Item = &'l [Line]>,
    ) -> Result<bool, FileError> {
        let section = self.header.section(number)?;
        let (mut crc, mut len) = (0, 0);
        for line in runs.into_iter().flatten() {
            for word in &line.0 {
                crc = crc32c::crc32c_append(crc, &word.load(Ordering::Relaxed).to_le_bytes());
            }
            len += size_of::<Line>() as u64;
        }
        Ok((crc, len) == (section.crc, section.len))
    }

    /// The lines of a section, where [`Opening::place`] wants them.
    pub(crate) fn lines(&self, number: u32) -> Result<Lines, FileError> {
        let mut one = self.lines_in_runs(number, usize::MAX)?;
        Ok(one.remove(0))
    }

    /// As [`TableFile::lines`], in several runs: each of `run` lines, but the last, which may be shorter.
    pub(crate) fn lines_in_runs(&self, number: u32, run: usize) -> Result<Vec<Lines>, FileError> {
        let count = self.lines_len(number)?;
        let section = self.header.section(number)?;
        let runs = (0..count).step_by(run).map(|first| (first, run.min(count - first)));
        match self.opening.place {
            #[cfg(target_os = "linux")]
            Place::Mapped => {
                let is_known = self.source.checked.is_some_and(|checked| checked.has(&self.file, number));
                if self.opening.checked && !is_known {
                    self.read(section, &mut |_, _| {})?;
                }
                let map =
                    |(first, len): (usize, usize)| Lines::mapped(&self.file, section.offset + 64 * first as u64, len);
                let runs = runs.map(map).collect::<io::Result<Vec<_>>>().map_err(|error| self.io(error))?;
                let crc = self.change(section, &runs, run)?;
                if self.opening.checked {
                    if crc != section.crc {
                        return Err(Self::damaged(number));
                    }
                    if let Some(checked) = self.source.checked {
                        checked.note(&self.file, &self.metadata, number);
                    }
                    // The file's pages have been read, now or at some time.
                    runs.iter().for_each(Lines::touch);
                }
                Ok(runs)
            }
            place => {
                let pages = if let Place::Copied(pages) = place { pages } else { Pages::default() };
                let copies = runs.map(|(_, len)| Lines::zeroed(len, pages)).collect::<io::Result<Vec<_>>>();
                let copies = copies.map_err(|error| self.io(error))?;
                copies.iter().for_each(Lines::prefault);
                self.read(section, &mut |at, words| {
                    let line = &copies[at / 8 / run][at / 8 % run];
                    // Nobody else has these lines yet.
                    line.0
                        .iter()
                        .zip(words)
                        .for_each(|(to, word)| to.store(u64::from_le_bytes(*word), Ordering::Relaxed));
                })?;
                Ok(copies)
            }
        }
    }

    /// Writes what has changed into lines that nobody else has yet: their pages become this process's own, and all others stay the
    /// file's. Returns the section's checksum, if that of the file's lines is what the file says.
    #[cfg(target_os = "linux")]
    fn change(&self, section: Section, runs: &[Lines], run: usize) -> Result<u32, FileError> {
        const LINE: u64 = size_of::<Line>() as u64;
        let (mut difference, mut last) = (0, 0);
        for (place, bytes) in self.changes.lines_in(section.offset..section.offset + section.len) {
            let at = (place - section.offset) / LINE;
            let line = &runs[at as usize / run][at as usize % run];
            let before: [u64; 8] = std::array::from_fn(|word| line.0[word].load(Ordering::Relaxed));
            let mut words = bytes.as_chunks::<8>().0.iter();
            let after = std::array::from_fn(|_| u64::from_le_bytes(*words.next().expect("eight words")));
            line.0.iter().zip(after).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
            difference = crc::behind(difference, at - last) ^ crc::difference(&before, &after);
            last = at;
        }
        let written = self.written.section(section.number)?.crc;
        Ok(written ^ crc::behind(difference, section.len / LINE - 1 - last))
    }

    /// Reads the words of lines, eight at a time with the number of the first. Compares their
    /// checksum, if that was wanted.
    fn read(&self, section: Section, each: &mut dyn FnMut(usize, &[[u8; 8]])) -> Result<(), FileError> {
        let mut from = &self.file;
        from.seek(SeekFrom::Start(section.offset)).map_err(|error| self.io(error))?;
        let (mut block, mut crc, mut word) = (vec![0; BLOCK], 0, 0);
        let mut left = section.len;
        while left > 0 {
            let some = &mut block[..left.min(BLOCK as u64) as usize];
            from.read_exact(some).map_err(|error| self.io(error))?;
            self.changes.put(section.offset + section.len - left, some);
            crc = crc32c::crc32c_append(crc, some);
            for line in some.as_chunks::<8>().0.chunks(8) {
                each(word, line);
                word += 8;
            }
            left -= some.len() as u64;
        }
        if self.opening.checked && crc != section.crc { Err(Self::damaged(section.number)) } else { Ok(()) }
    }

    fn io(&self, source: io::Error) -> FileError {
        FileError::Io { path: self.source.path.to_owned(), source }
    }

    fn damaged(number: u32) -> FileError {
        FileError::Damaged { part: format!("section {number}") }
    }
}

/// Reads numbers and strings from a section.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn u32(&mut self) -> Result<u32, FileError> {
        let (number, rest) = self.0.split_first_chunk().ok_or_else(too_short)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*number))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, FileError> {
        let (number, rest) = self.0.split_first_chunk().ok_or_else(too_short)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*number))
    }

    /// Bytes after their length.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], FileError> {
        let len = self.u32()? as usize;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or_else(too_short)?;
        self.0 = rest;
        Ok(bytes)
    }
}

fn too_short() -> FileError {
    FileError::malformed("a section is too short")
}

/// Labels one after the other, each behind its length.
pub(crate) fn labels_of(bytes: &[u8]) -> Result<Vec<Box<[u8]>>, FileError> {
    let (mut fields, mut labels) = (Fields(bytes), Vec::new());
    while !fields.is_empty() {
        labels.push(fields.bytes()?.into());
    }
    Ok(labels)
}

/// Writes bytes after their length.
///
/// # Panics
/// If there are 4 GiB or more.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(u32::try_from(bytes.len()).expect("less than 4 GiB").to_le_bytes());
    out.extend(bytes);
}

#[cfg(all(test, not(loom)))]
mod tests;

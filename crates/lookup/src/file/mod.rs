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
//! others can write to a table, use [`Place::Copied`].
//!
//! **Secrets.** The file contains the hash key, because the table is of no use without it. Anybody
//! who reads it can make names that collide. Files are made for their owner alone (mode 600).

mod edit;
pub mod secret;
mod write;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use byname_wire::{HashFunction, NameHashKey};
use thiserror::Error;

use crate::memory::{Line, Lines, Pages};
use crate::sync::Ordering;

pub use self::edit::{Edit, LiveError};
pub(crate) use self::edit::{EditedFile, Rewritten};
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
    /// The key or the numbers of a table have another form on this machine.
    #[error("this machine stores numbers with the highest byte first; tables are only used where the lowest is first")]
    ByteOrder,
}

impl FileError {
    fn malformed(what: impl Into<String>) -> Self {
        FileError::Malformed { what: what.into() }
    }
}

/// Part of a file.
#[derive(Debug, Clone, Copy)]
struct Section {
    number: u32,
    crc: u32,
    offset: u64,
    len: u64,
}

/// A file with a table, whose header has been checked.
#[derive(Debug)]
pub(crate) struct TableFile {
    file: File,
    path: PathBuf,
    opening: Opening,
    header: Header,
}

impl TableFile {
    /// Opens a file and checks its header.
    pub(crate) fn open(path: &Path, kind: Kind, opening: Opening) -> Result<Self, FileError> {
        if cfg!(target_endian = "big") {
            return Err(FileError::ByteOrder);
        }
        let io = |source| FileError::Io { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(io)?;
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
        let header = Header::decode(&page, kind)?;
        if header.bytes != metadata.len() {
            return Err(FileError::Length { bytes: metadata.len(), expected: header.bytes });
        }
        Ok(TableFile { file, path: path.to_owned(), opening, header })
    }

    /// The key that the table's names are hashed with.
    pub(crate) fn key(&self) -> NameHashKey {
        NameHashKey::with_function(self.header.function, self.header.secret)
    }

    fn section(&self, number: u32) -> Result<Section, FileError> {
        let found = self.header.sections.iter().find(|section| section.number == number).copied();
        found.ok_or_else(|| missing(number))
    }

    /// The bytes of a small section, checked.
    pub(crate) fn bytes(&self, number: u32) -> Result<Vec<u8>, FileError> {
        let section = self.section(number)?;
        // The section is within the file, so no more memory is taken than the file has bytes.
        let mut bytes = Vec::new();
        let len = usize::try_from(section.len).unwrap_or(usize::MAX);
        bytes.try_reserve_exact(len).map_err(|_| self.io(io::ErrorKind::OutOfMemory.into()))?;
        let mut from = &self.file;
        from.seek(SeekFrom::Start(section.offset)).map_err(|error| self.io(error))?;
        from.take(section.len).read_to_end(&mut bytes).map_err(|error| self.io(error))?;
        if bytes.len() != len || crc32c::crc32c(&bytes) != section.crc {
            return Err(Self::damaged(number));
        }
        Ok(bytes)
    }

    /// Number of lines of a section.
    pub(crate) fn lines_len(&self, number: u32) -> Result<usize, FileError> {
        let len = self.section(number)?.len;
        let whole = len > 0 && len.is_multiple_of(64);
        if whole { Ok((len / 64) as usize) } else { Err(FileError::malformed("a line is incomplete")) }
    }

    /// Whether a section has these lines, which lie in several runs. Compares their checksum.
    pub(crate) fn has_lines<'a>(
        &self,
        number: u32,
        runs: impl IntoIterator<Item = &'a [Line]>,
    ) -> Result<bool, FileError> {
        let section = self.section(number)?;
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
        let section = self.section(number)?;
        let runs = (0..count).step_by(run).map(|first| (first, run.min(count - first)));
        match self.opening.place {
            #[cfg(target_os = "linux")]
            Place::Mapped => {
                if self.opening.checked {
                    self.read(section, &mut |_, _| {})?;
                }
                let map = |(first, len): (usize, usize)| {
                    let lines = Lines::mapped(&self.file, section.offset + 64 * first as u64, len)?;
                    if self.opening.checked {
                        // The file's pages have just been read.
                        lines.touch();
                    }
                    Ok(lines)
                };
                runs.map(map).collect::<io::Result<_>>().map_err(|error| self.io(error))
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
        FileError::Io { path: self.path.clone(), source }
    }

    fn damaged(number: u32) -> FileError {
        FileError::Damaged { part: format!("section {number}") }
    }
}

fn missing(number: u32) -> FileError {
    FileError::malformed(format!("section {number} is missing"))
}

/// The first page.
#[derive(Debug, Clone)]
struct Header {
    bytes: u64,
    secret: [u64; 2],
    function: HashFunction,
    sections: Vec<Section>,
}

impl Header {
    fn decode(page: &[u8; PAGE], kind: Kind) -> Result<Self, FileError> {
        let u32_at = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
        if !page.starts_with(&MAGIC) {
            return Err(FileError::Foreign);
        }
        // Before the checksum: other versions may have it elsewhere.
        if u32_at(8) != VERSION {
            return Err(FileError::Version { found: u32_at(8) });
        }
        if crc32c::crc32c(&page[..PAGE - 4]) != u32_at(PAGE - 4) {
            return Err(FileError::Damaged { part: "the header".to_owned() });
        }
        if u32_at(12) != kind.number() {
            return Err(FileError::Kind { found: u32_at(12), wanted: kind });
        }
        let bytes = u64_at(16);
        let count = u32_at(44) as usize;
        if count > SECTIONS_MAX {
            return Err(FileError::malformed(format!("{count} sections")));
        }
        let sections = (0..count).map(|i| {
            let at = SECTIONS_AT + i * SECTION_BYTES;
            let section =
                Section { number: u32_at(at), crc: u32_at(at + 4), offset: u64_at(at + 8), len: u64_at(at + 16) };
            let end = section.offset.checked_add(section.len).filter(|&end| end <= bytes);
            let fits = end.is_some() && section.offset >= PAGE as u64 && section.offset.is_multiple_of(PAGE as u64);
            fits.then_some(section).ok_or_else(|| FileError::malformed("a section lies outside of the file"))
        });
        Ok(Header {
            bytes,
            secret: [u64_at(24), u64_at(32)],
            function: function_of(u32_at(40))?,
            sections: sections.collect::<Result<_, _>>()?,
        })
    }

    fn encode(&self, kind: Kind) -> [u8; PAGE] {
        let mut page = [0; PAGE];
        let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(12, &kind.number().to_le_bytes());
        put(16, &self.bytes.to_le_bytes());
        let [k0, k1] = self.secret;
        put(24, &k0.to_le_bytes());
        put(32, &k1.to_le_bytes());
        put(40, &function_number(self.function).to_le_bytes());
        put(44, &(self.sections.len() as u32).to_le_bytes());
        for (i, section) in self.sections.iter().enumerate() {
            let at = SECTIONS_AT + i * SECTION_BYTES;
            put(at, &section.number.to_le_bytes());
            put(at + 4, &section.crc.to_le_bytes());
            put(at + 8, &section.offset.to_le_bytes());
            put(at + 16, &section.len.to_le_bytes());
        }
        let crc = crc32c::crc32c(&page[..PAGE - 4]);
        page[PAGE - 4..].copy_from_slice(&crc.to_le_bytes());
        page
    }

    fn section_mut(&mut self, number: u32) -> Result<&mut Section, FileError> {
        self.sections.iter_mut().find(|section| section.number == number).ok_or_else(|| missing(number))
    }
}

fn function_number(function: HashFunction) -> u32 {
    match function {
        HashFunction::SipHash13 => 1,
        HashFunction::SipHash24 => 2,
        HashFunction::Aes => 3,
    }
}

fn function_of(number: u32) -> Result<HashFunction, FileError> {
    let all = [HashFunction::SipHash13, HashFunction::SipHash24, HashFunction::Aes];
    let found = all.into_iter().find(|&function| function_number(function) == number);
    found.ok_or_else(|| FileError::malformed(format!("hash function {number}")))
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

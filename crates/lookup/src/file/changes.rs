//! Changes of a table that is in a file: the lines that each one writes, in a second file beside it.
//!
//! A table's file never changes. What has changed since it was written is in a *file of changes*, whose name has `.changes` behind
//! the table's. It only grows. A reader applies as many changes as it is told, and no more, so a change counts when somebody says
//! so. All numbers are little-endian.
//!
//! ```text
//! 0     "bynchngs"
//! 8     version of the format (4)   zero (4)
//! 16    state of the table without changes (16)
//! 32    length of the table's file (8)   zeros (20)
//! 60    CRC-32C of these bytes so far (4)
//! 64    changes, one behind the other:
//!       0    its length in bytes (4)   CRC-32C of what follows here (4)
//!       8    its number, from 1 (8)
//!       16   the state that it follows (16)
//!       32   length of its note (2)   zero (2)   number of runs (4)
//!       40   note, which means something to the writer
//!            runs: number of the first line (4), number of lines (4), lines of 64 bytes
//! ```
//!
//! **States.** The state of a table without changes is a digest of its first page, which has the key and all checksums. Each change
//! makes a new one of the state before and its own bytes. So changes of another file, or of another past, are found. The first line
//! of all is that of the table's first byte: a change writes the checksums of what it changes, too.
//!
//! **Damage.** A change that was cut off, or whose checksum differs, ends the file. It is an error if it is among those that are
//! wanted; otherwise the next writer writes over it. See [`Changes`] for how the table's own checksums are compared.
//!
//! **Bounds.** A file of changes is read at once, and has at most [`BYTES_MAX`] bytes.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use byname_wire::NameHashKey;
use thiserror::Error;

use super::{FileError, PAGE};
use crate::memory::Line;

const MAGIC: [u8; 8] = *b"bynchngs";
const VERSION: u32 = 1;
const HEADER: usize = 64;
/// Length of a change without its note and its runs.
const FIXED: usize = 40;
const LINE: usize = size_of::<Line>();
/// Longest file of changes, in bytes.
pub const BYTES_MAX: u64 = 16 << 20;
/// Longest note, in bytes.
pub const NOTE_BYTES_MAX: usize = 255;

/// A file of changes that cannot be used.
#[derive(Debug, Error)]
pub enum ChangesError {
    /// It was not written by byname.
    #[error("this is no file of changes")]
    Foreign,
    /// A later, or a withdrawn, version of the format.
    #[error("it has version {found} of the format, and this program reads version {VERSION}")]
    Version {
        /// The file's version.
        found: u32,
    },
    /// Its changes are of another table.
    #[error("its changes are of another table than the one of this name")]
    OtherTable,
    /// There are fewer changes than somebody wants.
    #[error("it has {whole} whole changes, and change {wanted} is wanted: the rest is cut off or damaged")]
    Missing {
        /// Number of changes.
        whole: u64,
        /// The number that is wanted.
        wanted: u64,
    },
    /// A change is missing between two others.
    #[error("change {found} comes where change {expected} should be")]
    Gap {
        /// The number that the next change should have.
        expected: u64,
        /// The number that it has.
        found: u64,
    },
    /// A change does not belong behind the one before.
    #[error("change {number} follows another state of the table")]
    OtherState {
        /// The change.
        number: u64,
    },
    /// The checksum is right, and the contents are impossible.
    #[error("change {number} cannot be: {what}")]
    Malformed {
        /// The change.
        number: u64,
        /// The contradiction.
        what: &'static str,
    },
    /// It would have more bytes than are read.
    #[error("it would have {bytes} bytes, more than {BYTES_MAX}: write the table anew")]
    Long {
        /// Its length.
        bytes: u64,
    },
}

/// Stands for a table as it is after some changes.
type State = [u8; 16];

/// The state before any change, of the first page of a table.
fn state_of(page: &[u8; PAGE]) -> State {
    digest(page)
}

/// The state after a change.
fn next_state(state: &State, change: &[u8]) -> State {
    digest(&[state, change].concat())
}

fn digest(bytes: &[u8]) -> State {
    // No secret: checksums do not stop those who forge them, either.
    const KEY: NameHashKey = NameHashKey::new([0x7461_626c_655f_6368, 0x616e_6765_735f_7631]);
    let digest = KEY.digest_bytes(bytes);
    let mut state = [0; 16];
    state[..8].copy_from_slice(&digest.hash.to_le_bytes());
    state[8..].copy_from_slice(&digest.check.to_le_bytes());
    state
}

/// The name of the file of a table's changes.
pub fn path_of(table: &Path) -> PathBuf {
    let mut path = table.as_os_str().to_owned();
    path.push(".changes");
    path.into()
}

/// A table's changes up to one of them.
#[derive(Debug, Clone)]
pub struct Changes {
    /// The table's file.
    table: PathBuf,
    table_bytes: u64,
    /// Its first page without changes.
    page: [u8; PAGE],
    /// What changed lines have in the end, by their place in bytes.
    lines: BTreeMap<u64, [u8; LINE]>,
    notes: Vec<Box<[u8]>>,
    state: State,
    /// Where the next change begins in the file of changes; 0 without such a file.
    end: u64,
}

impl Changes {
    /// The first `wanted` changes of a table's file, or all that are whole.
    ///
    /// # Errors
    /// If a file cannot be read, or has no changes of this table, or fewer.
    pub fn read(table: &Path, wanted: Option<u64>) -> Result<Self, FileError> {
        let io = |source| FileError::Io { path: table.to_owned(), source };
        let mut file = File::open(table).map_err(io)?;
        let mut page = [0; PAGE];
        file.read_exact(&mut page).map_err(io)?;
        let bytes = file.metadata().map_err(io)?.len();
        Self::behind(table, (page, bytes), wanted)
    }

    /// As [`Changes::read`], of a table with this first page and length.
    pub(super) fn behind(
        table: &Path,
        (page, table_bytes): ([u8; PAGE], u64),
        wanted: Option<u64>,
    ) -> Result<Self, FileError> {
        let (lines, notes) = (BTreeMap::new(), Vec::new());
        let state = state_of(&page);
        let mut changes = Changes { table: table.to_owned(), table_bytes, page, lines, notes, state, end: 0 };
        if wanted != Some(0) {
            let bytes = match read_all(&path_of(table)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                other => other.map_err(|error| changes.io(error))?,
            };
            changes.apply(&bytes, wanted).map_err(|error| changes.error(error))?;
        }
        Ok(changes)
    }

    /// Number of changes.
    pub fn len(&self) -> u64 {
        self.notes.len() as u64
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// The notes of changes, the first one's first.
    pub fn notes(&self) -> impl Iterator<Item = &[u8]> {
        self.notes.iter().map(|note| &note[..])
    }

    /// Number of lines that changes have written.
    pub fn lines_len(&self) -> usize {
        self.lines.len()
    }

    /// Length of the file up to here, in bytes.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// Puts what changes have written into bytes of the table's file that begin at `at`.
    pub fn put(&self, at: u64, bytes: &mut [u8]) {
        let end = at + bytes.len() as u64;
        for (&place, line) in self.lines.range(at.saturating_sub(LINE as u64 - 1)..end) {
            let (from, to) = (place.max(at), (place + LINE as u64).min(end));
            bytes[(from - at) as usize..(to - at) as usize]
                .copy_from_slice(&line[(from - place) as usize..(to - place) as usize]);
        }
    }

    /// The table's first page after all changes.
    pub fn first_page(&self) -> [u8; PAGE] {
        let mut page = self.page;
        self.put(0, &mut page);
        page
    }

    /// What these changes have written, by its place in the table's file, and the first ones had not, or not so. `first` are some of
    /// these changes.
    pub fn since<'a>(&'a self, first: &'a Changes) -> impl Iterator<Item = (u64, &'a [u8])> {
        let new = self.lines.iter().filter(|(place, line)| first.lines.get(place) != Some(line));
        new.map(|(place, line)| (*place, &line[..]))
    }

    /// Lines that changes have written between two places of the table's file, and where they are.
    pub(super) fn lines_in(&self, range: std::ops::Range<u64>) -> impl Iterator<Item = (u64, &[u8; LINE])> {
        self.lines.range(range).map(|(place, line)| (*place, line))
    }

    /// Adds a change behind these: runs of whole lines with their places in the table's file, in bytes. It is on the disk
    /// afterwards. What was behind these changes is gone.
    ///
    /// # Errors
    /// If these are no lines of the table, the file of changes would be too long, or the system refuses to write.
    ///
    /// # Panics
    /// If the note has more than [`NOTE_BYTES_MAX`] bytes.
    pub fn append<'a>(
        &mut self,
        note: &[u8],
        runs: impl IntoIterator<Item = (u64, &'a [u8])>,
    ) -> Result<(), FileError> {
        assert!(note.len() <= NOTE_BYTES_MAX, "a note is short");
        let number = self.len() + 1;
        let refused = |changes: &Self, what| changes.error(ChangesError::Malformed { number, what });
        let (mut body, mut count) = (note.to_vec(), 0u32);
        for (at, run) in runs {
            let whole = at.is_multiple_of(LINE as u64) && run.len().is_multiple_of(LINE) && !run.is_empty();
            let first = u32::try_from(at / LINE as u64).ok().filter(|_| whole);
            body.extend(first.ok_or_else(|| refused(self, "it writes parts of lines"))?.to_le_bytes());
            body.extend(((run.len() / LINE) as u32).to_le_bytes());
            body.extend(run);
            count += 1;
        }
        let bytes = self.end.max(HEADER as u64) + (FIXED + body.len()) as u64;
        if bytes > BYTES_MAX {
            return Err(self.error(ChangesError::Long { bytes }));
        }
        let mut change = vec![0; FIXED];
        change[..4].copy_from_slice(&((FIXED + body.len()) as u32).to_le_bytes());
        change[8..16].copy_from_slice(&number.to_le_bytes());
        change[16..32].copy_from_slice(&self.state);
        change[32..34].copy_from_slice(&(note.len() as u16).to_le_bytes());
        change[36..40].copy_from_slice(&count.to_le_bytes());
        change.extend(body);
        let crc = crc32c::crc32c(&change[8..]);
        change[4..8].copy_from_slice(&crc.to_le_bytes());
        // Nothing is written that could not be read again.
        let mut after = self.clone();
        after.take(&change).map_err(|error| self.error(error))?;
        self.write(&change).map_err(|error| self.io(error))?;
        after.end = bytes;
        *self = after;
        Ok(())
    }

    /// Writes behind what is known, which ends the file.
    fn write(&self, change: &[u8]) -> io::Result<()> {
        let path = path_of(&self.table);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path)?;
        file.set_len(self.end)?;
        let is_new = self.end == 0;
        let start = if is_new { &self.header()[..] } else { &[] };
        io::Seek::seek(&mut file, io::SeekFrom::Start(self.end))?;
        io::Write::write_all(&mut file, &[start, change].concat())?;
        file.sync_all()?;
        if is_new {
            // The name is on the disk when the folder is. Some file systems cannot sync folders.
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        }
        Ok(())
    }

    fn header(&self) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[16..32].copy_from_slice(&state_of(&self.page));
        header[32..40].copy_from_slice(&self.table_bytes.to_le_bytes());
        let crc = crc32c::crc32c(&header[..HEADER - 4]);
        header[HEADER - 4..].copy_from_slice(&crc.to_le_bytes());
        header
    }

    /// Applies changes of a file, as many as are wanted, or all that are whole.
    fn apply(&mut self, bytes: &[u8], wanted: Option<u64>) -> Result<(), ChangesError> {
        if bytes.len() as u64 > BYTES_MAX {
            return Err(ChangesError::Long { bytes: bytes.len() as u64 });
        }
        let Some((header, mut rest)) = bytes.split_at_checked(HEADER) else {
            // Whoever began to write it was stopped.
            return if MAGIC.starts_with(&bytes[..bytes.len().min(8)]) || bytes.starts_with(&MAGIC) {
                self.ended(wanted)
            } else {
                Err(ChangesError::Foreign)
            };
        };
        if header != self.header() {
            let found = u32::from_le_bytes(header[8..12].try_into().expect("four bytes"));
            return Err(match header.starts_with(&MAGIC) {
                false => ChangesError::Foreign,
                true if found != VERSION => ChangesError::Version { found },
                true => ChangesError::OtherTable,
            });
        }
        self.end = HEADER as u64;
        while wanted.is_none_or(|wanted| self.len() < wanted) {
            let Some(change) = whole(rest) else { break };
            self.take(change)?;
            self.end += change.len() as u64;
            rest = &rest[change.len()..];
        }
        self.ended(wanted)
    }

    fn ended(&self, wanted: Option<u64>) -> Result<(), ChangesError> {
        match wanted {
            Some(wanted) if self.len() < wanted => Err(ChangesError::Missing { whole: self.len(), wanted }),
            _ => Ok(()),
        }
    }

    /// Applies a change whose checksum is right.
    fn take(&mut self, change: &[u8]) -> Result<(), ChangesError> {
        let (expected, found) = (self.len() + 1, u64::from_le_bytes(change[8..16].try_into().expect("eight bytes")));
        if found != expected {
            return Err(ChangesError::Gap { expected, found });
        }
        if change[16..32] != self.state {
            return Err(ChangesError::OtherState { number: found });
        }
        let malformed = |what| ChangesError::Malformed { number: found, what };
        let note_len = usize::from(u16::from_le_bytes([change[32], change[33]]));
        let (note, mut rest) =
            change[FIXED..].split_at_checked(note_len).ok_or(malformed("its note ends behind it"))?;
        if note_len > NOTE_BYTES_MAX {
            return Err(malformed("its note is too long"));
        }
        for _ in 0..u32::from_le_bytes(change[36..40].try_into().expect("four bytes")) {
            let (run, behind) = rest.split_first_chunk::<8>().ok_or(malformed("a run is missing"))?;
            let number = |at: usize| u64::from(u32::from_le_bytes(run[at..at + 4].try_into().expect("four bytes")));
            let (first, count) = (number(0), number(4));
            let bytes = usize::try_from(count * LINE as u64).unwrap_or(usize::MAX);
            let (lines, behind) = behind.split_at_checked(bytes).ok_or(malformed("a run ends behind it"))?;
            if (first + count) * LINE as u64 > self.table_bytes {
                return Err(malformed("it writes behind the table"));
            }
            for (line, number) in lines.as_chunks::<LINE>().0.iter().zip(first..) {
                self.lines.insert(number * LINE as u64, *line);
            }
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(malformed("it has more than it says"));
        }
        self.notes.push(note.into());
        self.state = next_state(&self.state, &change[8..]);
        Ok(())
    }

    fn error(&self, source: ChangesError) -> FileError {
        FileError::Changes { path: path_of(&self.table), source }
    }

    fn io(&self, source: io::Error) -> FileError {
        FileError::Io { path: path_of(&self.table), source }
    }
}

/// The change that these bytes begin with, if it is there whole.
fn whole(bytes: &[u8]) -> Option<&[u8]> {
    let len = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    let change = bytes.get(..len).filter(|change| change.len() >= FIXED)?;
    let crc = u32::from_le_bytes(change[4..8].try_into().expect("four bytes"));
    (crc32c::crc32c(&change[8..]) == crc).then_some(change)
}

/// What a file has, and at most one byte more than [`BYTES_MAX`].
fn read_all(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests;

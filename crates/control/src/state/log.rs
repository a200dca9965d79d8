//! The log of a store: groups of changes that are on the disk, and not yet in the database.
//!
//! A command waits until its change is on the disk, so the time for a small group decides how many commands a client
//! with a window gets answered. Here a group is one write and one `fdatasync`, into a part of the file that has been
//! written before: the file system has no metadata to write. A commit of SQLite takes several times as long. The groups
//! get into the database when there is time (`store`, `fold`).
//!
//! # The file
//!
//! - A header of 24 bytes: [`MAGIC`], the version, the *generation*, and a checksum.
//! - Groups, each a header of 24 bytes, and its changes. The header has the generation, the group's number, the length
//!   of the changes, a checksum, and the number of the first group that was written together with this one. Each group
//!   begins at a multiple of 8.
//!
//! The database has the generation of its log. When it has all groups, it takes the next generation, and the log begins
//! at its start again. So groups of another generation are over, or belong to another database.
//!
//! Reading ends at the first group that is not whole: the process, or the power, ended while it was written, and nobody
//! has been told of it. If a group that was written later is whole, the log has been damaged.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use thiserror::Error;

use super::change::Change;

/// First bytes of the file.
const MAGIC: [u8; 8] = *b"bynamlog";
/// Version of the format of the log and of its changes.
pub(super) const VERSION: u32 = 1;
const HEADER_BYTES: usize = 24;
/// Most changes of a group, which bounds the memory of its reader.
const GROUP_CHANGES_MAX: usize = 4096;
/// Longest group that is read.
const GROUP_BYTES_MAX: usize = 64 << 20;
/// Longest log.
const LOG_BYTES_MAX: u64 = 512 << 20;
/// Most changes of a log, which bounds the memory of its reader.
const CHANGES_MAX: usize = 8_000_000;
/// The file is lengthened in steps of its length, within these bounds.
const STEP_BYTES: std::ops::RangeInclusive<u64> = 65_536..=1 << 20;
/// Length of an empty log's file, at most.
const KEPT_BYTES: u64 = 4 << 20;

/// Why a log cannot be read.
#[derive(Debug, Error)]
pub(super) enum LogError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("its log is damaged: {0}")]
    Damaged(&'static str),
    #[error("version {0} of the log")]
    Version(u32),
}

/// An open log.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    generation: u64,
    /// Changes in it.
    changes: usize,
    /// Number of the next group.
    number: u32,
    /// Offset of the next group.
    end: u64,
    /// Offset and number of the first group that the database does not have.
    folded: (u64, u32),
    /// Length of the file: what is before it has been written once.
    file_bytes: u64,
    #[cfg(test)]
    bytes_max: Option<u64>,
}

impl Log {
    /// Opens the log of a database, or makes it. Returns its changes.
    pub fn open(path: &Path, generation: u64) -> Result<(Log, Vec<Change>), LogError> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let file_bytes = file.metadata()?.len();
        let mut log = Log {
            file,
            generation,
            changes: 0,
            number: 0,
            end: HEADER_BYTES as u64,
            folded: (HEADER_BYTES as u64, 0),
            file_bytes,
            #[cfg(test)]
            bytes_max: None,
        };
        if !log.is_of_this_generation()? {
            log.begin(generation)?;
            log.file.sync_all()?;
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            // The file must be there after a power cut, too.
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
            return Ok((log, Vec::new()));
        }
        let mut changes = Vec::new();
        while let Some((end, of_group)) = log.read_changes(log.end, log.number)? {
            changes.extend(of_group);
            if changes.len() > CHANGES_MAX || end > LOG_BYTES_MAX {
                return Err(LogError::Damaged("it has more changes than a router writes"));
            }
            (log.end, log.number) = (end, log.number + 1);
        }
        log.changes = changes.len();
        log.expect_no_more()?;
        Ok((log, changes))
    }

    /// Appends changes. They are on the disk when this returns.
    ///
    /// # Errors
    /// If they could not be written. Then the log is as it was.
    pub fn append(&mut self, changes: &[Change]) -> io::Result<()> {
        let (mut bytes, mut number) = (Vec::with_capacity(64 * changes.len()), self.number);
        for group in changes.chunks(GROUP_CHANGES_MAX) {
            let start = bytes.len();
            bytes.resize(start + HEADER_BYTES, 0);
            group.iter().for_each(|change| change.encode_to(&mut bytes));
            let len = u32::try_from(bytes.len() - start - HEADER_BYTES).map_err(|_| io::ErrorKind::FileTooLarge)?;
            let header = Group { generation: self.generation, number, len, since: self.number };
            let header = header.encode(&bytes[start + HEADER_BYTES..]);
            bytes[start..start + HEADER_BYTES].copy_from_slice(&header);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            number += 1;
        }
        let end = self.end + bytes.len() as u64;
        #[cfg(test)]
        if self.bytes_max.is_some_and(|max| end > max) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if end > LOG_BYTES_MAX || self.changes + changes.len() > CHANGES_MAX {
            return Err(io::Error::other("the log is full, because the database takes no changes"));
        }
        self.make_room(end);
        self.file.write_all_at(&bytes, self.end)?;
        self.file.sync_data()?;
        (self.end, self.number) = (end, number);
        self.changes += changes.len();
        self.file_bytes = self.file_bytes.max(end);
        Ok(())
    }

    /// Bytes of groups that the database does not have.
    pub fn bytes(&self) -> u64 {
        self.end - self.folded.0
    }

    /// The changes of the next groups that the database does not have: about `changes_max`, or one group.
    pub fn next(&mut self, changes_max: usize) -> Result<Next, LogError> {
        let (mut folded, mut changes) = (self.folded, Vec::new());
        while folded.0 < self.end && changes.len() < changes_max {
            let Some((end, mut of_group)) = self.read_changes(folded.0, folded.1)? else {
                return Err(LogError::Damaged("a group has changed since it was written"));
            };
            changes.append(&mut of_group);
            folded = (end, folded.1 + 1);
        }
        Ok(Next { changes, is_last: folded.0 == self.end, folded })
    }

    /// The database has these changes, durably.
    pub fn folded(&mut self, Next { folded, .. }: Next) {
        self.folded = folded;
    }

    /// Begins again. The database must have all changes, and this generation, durably.
    pub fn begin(&mut self, generation: u64) -> io::Result<()> {
        if self.file_bytes > KEPT_BYTES {
            self.file.set_len(KEPT_BYTES)?;
            self.file_bytes = KEPT_BYTES;
        }
        // The sync of the next group is soon enough: before, the database knows that the old groups are over.
        self.file.write_all_at(&file_header(generation), 0)?;
        self.file_bytes = self.file_bytes.max(HEADER_BYTES as u64);
        self.generation = generation;
        (self.end, self.number, self.changes) = (HEADER_BYTES as u64, 0, 0);
        self.folded = (self.end, 0);
        Ok(())
    }

    /// Limits the length of the file, as a full disk would.
    #[cfg(test)]
    pub fn limit(&mut self, bytes_max: Option<u64>) {
        self.bytes_max = bytes_max;
    }

    /// Whether the file has a header with this generation.
    fn is_of_this_generation(&self) -> Result<bool, LogError> {
        if self.file_bytes < HEADER_BYTES as u64 {
            // The process ended while it made the file.
            return Ok(false);
        }
        let mut header = [0; HEADER_BYTES];
        self.file.read_exact_at(&mut header, 0)?;
        if header == [0; HEADER_BYTES] {
            return Ok(false);
        }
        let version = u32::from_le_bytes(part(&header, 8));
        if header[..8] == MAGIC && version > VERSION {
            return Err(LogError::Version(version));
        }
        let generation = u64::from_le_bytes(part(&header, 12));
        if header != file_header(generation) {
            return Err(LogError::Damaged("its header"));
        }
        Ok(generation == self.generation)
    }

    /// The changes of the group at this place, and where the next group begins. `None` if there is none that is whole.
    fn read_changes(&self, at: u64, number: u32) -> Result<Option<(u64, Vec<Change>)>, LogError> {
        let Some((group, changes)) = self.read_group(at)? else { return Ok(None) };
        if group.number != number {
            return Ok(None);
        }
        let changes =
            Change::decode_all(&changes, GROUP_CHANGES_MAX).map_err(|_| LogError::Damaged("a group makes no sense"))?;
        Ok(Some((at + (HEADER_BYTES + group.len as usize).next_multiple_of(8) as u64, changes)))
    }

    /// The group at this place, if it is whole and of this generation.
    fn read_group(&self, at: u64) -> Result<Option<(Group, Vec<u8>)>, LogError> {
        let Some(left) = self.file_bytes.checked_sub(at + HEADER_BYTES as u64) else { return Ok(None) };
        let mut header = [0; HEADER_BYTES];
        self.file.read_exact_at(&mut header, at)?;
        let group = Group::decode(&header);
        if group.generation != self.generation || group.len as usize > GROUP_BYTES_MAX || u64::from(group.len) > left {
            return Ok(None);
        }
        let mut changes = vec![0; group.len as usize];
        self.file.read_exact_at(&mut changes, at + HEADER_BYTES as u64)?;
        Ok((header == group.encode(&changes)).then_some((group, changes)))
    }

    /// Checks that no whole group that was written later stands behind the first one that is not whole.
    fn expect_no_more(&self) -> Result<(), LogError> {
        let mut window = vec![0; 1 << 16];
        let mut at = self.end;
        while at < self.file_bytes {
            let len = (self.file_bytes - at).min(window.len() as u64) as usize;
            self.file.read_exact_at(&mut window[..len], at)?;
            for (place, bytes) in (at..).step_by(8).zip(window[..len].chunks_exact(8)) {
                if *bytes == self.generation.to_le_bytes()
                    && let Some((group, _)) = self.read_group(place)?
                    && group.since > self.number
                {
                    return Err(LogError::Damaged("a group in its middle"));
                }
            }
            at += len as u64;
        }
        Ok(())
    }

    /// Writes zeros ahead of the groups. Without room for that, they cost more time.
    fn make_room(&mut self, end: u64) {
        if end <= self.file_bytes {
            return;
        }
        let step = self.file_bytes.clamp(*STEP_BYTES.start(), *STEP_BYTES.end());
        let until = end.next_multiple_of(step);
        #[cfg(test)]
        if self.bytes_max.is_some() {
            return;
        }
        let zeros = vec![0; (until - self.file_bytes) as usize];
        if self.file.write_all_at(&zeros, self.file_bytes).is_ok() {
            self.file_bytes = until;
        } else {
            // A part of them may have been written. The group needs that room.
            let _ = self.file.set_len(self.file_bytes);
        }
    }
}

/// Changes that the database does not have.
#[derive(Debug)]
pub(super) struct Next {
    /// The changes.
    pub changes: Vec<Change>,
    /// Whether there are no others.
    pub is_last: bool,
    folded: (u64, u32),
}

/// Removes the log of a database that has all changes.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a slice of this length")
}

fn file_header(generation: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..20].copy_from_slice(&generation.to_le_bytes());
    let crc = crc32c::crc32c(&header[..20]);
    header[20..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// The header of a group.
struct Group {
    generation: u64,
    number: u32,
    /// Length of its changes in bytes.
    len: u32,
    /// Number of the first group that was written together with it.
    since: u32,
}

impl Group {
    fn encode(&self, changes: &[u8]) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&self.generation.to_le_bytes());
        header[8..12].copy_from_slice(&self.number.to_le_bytes());
        header[12..16].copy_from_slice(&self.len.to_le_bytes());
        header[16..20].copy_from_slice(&self.since.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..20]), changes);
        header[20..].copy_from_slice(&crc.to_le_bytes());
        header
    }

    fn decode(header: &[u8; HEADER_BYTES]) -> Group {
        let number = |at| u32::from_le_bytes(part(header, at));
        Group { generation: u64::from_le_bytes(part(header, 0)), number: number(8), len: number(12), since: number(16) }
    }
}

#[cfg(test)]
mod tests;

//! Partly fetched files, and the resumption of interrupted transfers.
//!
//! `FILE.part` contains the beginning of the object. `FILE.part.json` contains the object's name, the number of
//! segments and bytes that are saved, and their CRC-32C. Resumption drops bytes after the saved ones. If the checksum
//! differs (another tool wrote to the file, the machine crashed), the transfer starts over.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Chunk;

/// The state is saved each time that this many more bytes have arrived.
const SAVE_EVERY_BYTES: u64 = 8 << 20;

/// The saved state of a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    /// Name of the object, with its version.
    object: String,
    /// Number of segments in the part file, counted from the first.
    segments: u64,
    /// Number of bytes in these segments.
    bytes: u64,
    /// CRC-32C of these bytes.
    crc32c: u32,
    /// Number of the object's last segment, if known.
    #[serde(default)]
    last: Option<u64>,
}

/// A file for an object cannot be read or written.
#[derive(Debug, Error)]
#[error("cannot write {}: {error}", path.display())]
pub struct FileError {
    /// The file. What has arrived is in `FILE.part`.
    pub path: PathBuf,
    /// The reason.
    pub error: io::Error,
}

/// A file that is being fetched.
///
/// ```
/// use byname_client::fetch::resume::PartFile;
///
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("song.ogg");
/// let mut file = PartFile::open(&path, "/demo/song/v=1")?;
/// file.append(b"the first segment")?;
/// file.save()?;
/// drop(file);
/// // Later, perhaps in another process:
/// let file = PartFile::open(&path, "/demo/song/v=1")?;
/// assert_eq!((file.segments(), file.bytes()), (1, 17));
/// file.finish()?;
/// assert_eq!(std::fs::read(path)?, b"the first segment");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct PartFile {
    target: PathBuf,
    part: PathBuf,
    state_path: PathBuf,
    file: BufWriter<File>,
    /// `None`: nobody wants it.
    sha256: Option<Context>,
    state: State,
    saved_bytes: u64,
}

impl PartFile {
    /// Opens the part file of `target`, and resumes it if it belongs to `object`.
    pub fn open(target: &Path, object: &str) -> io::Result<PartFile> {
        let part = with_suffix(target, ".part");
        let state_path = with_suffix(target, ".part.json");
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&part)?;
        let mut sha256 = Context::new(&SHA256);
        let mut state = State { object: object.to_owned(), segments: 0, bytes: 0, crc32c: 0, last: None };
        if let Some(saved) = read_state(&state_path)
            && saved.object == object
            && let Some((context, crc32c)) = sums_of_beginning(&mut file, saved.bytes)?
            && crc32c == saved.crc32c
        {
            sha256 = context;
            state = saved;
        }
        file.set_len(state.bytes)?;
        file.seek(SeekFrom::Start(state.bytes))?;
        let saved_bytes = state.bytes;
        let file = BufWriter::with_capacity(1 << 18, file);
        Ok(PartFile { target: target.to_owned(), part, state_path, file, sha256: Some(sha256), state, saved_bytes })
    }

    /// Saves the time for the SHA-256, which nobody wants: end with [`PartFile::complete`].
    pub fn without_sha256(self) -> Self {
        PartFile { sha256: None, ..self }
    }

    /// Number of segments in the file.
    pub fn segments(&self) -> u64 {
        self.state.segments
    }

    /// Number of bytes in the file.
    pub fn bytes(&self) -> u64 {
        self.state.bytes
    }

    /// Number of the object's last segment, if known.
    pub fn last(&self) -> Option<u64> {
        self.state.last
    }

    /// Stores the number of the object's last segment.
    pub fn set_last(&mut self, last: u64) {
        self.state.last = Some(last);
    }

    /// Appends the next segment.
    pub fn append(&mut self, content: &[u8]) -> io::Result<()> {
        self.file.write_all(content)?;
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(content);
        }
        self.state.crc32c = crc32c::crc32c_append(self.state.crc32c, content);
        self.state.segments += 1;
        self.state.bytes += content.len() as u64;
        if self.state.bytes - self.saved_bytes >= SAVE_EVERY_BYTES { self.save() } else { Ok(()) }
    }

    /// Appends the next segment, and stores the number of the last one if the segment names it.
    pub fn append_chunk(&mut self, chunk: &Chunk) -> io::Result<()> {
        if let Some(last) = chunk.last() {
            self.set_last(last);
        }
        self.append(chunk.content())
    }

    /// Saves the state, so that the next run can resume from here.
    pub fn save(&mut self) -> io::Result<()> {
        self.file.flush()?;
        // Write to another file and rename it, so that there is always one complete state.
        let aside = with_suffix(&self.state_path, ".new");
        std::fs::write(&aside, serde_json::to_vec_pretty(&self.state)?)?;
        std::fs::rename(&aside, &self.state_path)?;
        self.saved_bytes = self.state.bytes;
        Ok(())
    }

    /// Completes the transfer: renames the file to its final name and returns the SHA-256. Reads the file for it after
    /// [`PartFile::without_sha256`].
    pub fn finish(mut self) -> io::Result<String> {
        let sha256 = self.sha256.take();
        let target = self.target.clone();
        self.complete()?;
        Ok(match sha256 {
            Some(sha256) => hex(sha256.finish().as_ref()),
            None => digest_file(&mut File::open(target)?)?.0,
        })
    }

    /// Completes the transfer: renames the file to its final name.
    pub fn complete(mut self) -> io::Result<()> {
        self.file.flush()?;
        std::fs::rename(&self.part, &self.target)?;
        match std::fs::remove_file(&self.state_path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Formats bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn read_state(path: &Path) -> Option<State> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Returns SHA-256 and CRC-32C after the first `len` bytes of `file`; `None` if the file is shorter.
fn sums_of_beginning(file: &mut File, len: u64) -> io::Result<Option<(Context, u32)>> {
    if file.metadata()?.len() < len {
        return Ok(None);
    }
    let (mut sha256, mut crc32c) = (Context::new(&SHA256), 0);
    each_block(file.take(len), |block| {
        sha256.update(block);
        crc32c = crc32c::crc32c_append(crc32c, block);
    })?;
    Ok(Some((sha256, crc32c)))
}

/// SHA-256 of what is left of a file, in hexadecimal, and its length.
pub(crate) fn digest_file(file: &mut File) -> io::Result<(String, u64)> {
    let (mut sha256, mut bytes) = (Context::new(&SHA256), 0);
    each_block(file, |block| {
        sha256.update(block);
        bytes += block.len() as u64;
    })?;
    Ok((hex(sha256.finish().as_ref()), bytes))
}

fn each_block(mut reader: impl Read, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 18];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(()),
            n => take(&buffer[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &str = "/file/v=1";

    fn started(target: &Path, save: bool) {
        let mut part = PartFile::open(target, OBJECT).unwrap();
        part.append(b"hello ").unwrap();
        part.append(b"big ").unwrap();
        part.set_last(2);
        if save {
            part.save().unwrap();
        }
        part.append(b"lost ").unwrap();
    }

    #[test]
    fn goes_on_after_the_last_saved_segment() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("file");
        started(&target, true);
        let mut part = PartFile::open(&target, OBJECT).unwrap();
        assert_eq!((part.segments(), part.bytes(), part.last()), (2, 10, Some(2)));
        part.append(b"world").unwrap();
        let sha256 = part.finish().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"hello big world");
        assert_eq!(sha256, hex(&byname_wire::digest::sha256(&[b"hello big world"])));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        let mut part = PartFile::open(&target, OBJECT).unwrap().without_sha256();
        part.append(b"hello").unwrap();
        assert_eq!(part.finish().unwrap(), hex(&byname_wire::digest::sha256(&[b"hello"])));
        PartFile::open(&target, OBJECT).unwrap().without_sha256().complete().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"");
    }

    #[test]
    fn starts_over_when_in_doubt() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("file");
        let segments = |object| PartFile::open(&target, object).unwrap().segments();
        started(&target, false);
        assert_eq!(segments(OBJECT), 0, "no state");
        started(&target, true);
        assert_eq!(segments("/file/v=2"), 0, "another version");
        started(&target, true);
        std::fs::write(dir.path().join("file.part"), b"hello BIG lost").unwrap();
        assert_eq!(segments(OBJECT), 0, "another content");
        started(&target, true);
        std::fs::write(dir.path().join("file.part"), b"hell").unwrap();
        assert_eq!(segments(OBJECT), 0, "cut off");
        started(&target, true);
        std::fs::write(dir.path().join("file.part.json"), b"{").unwrap();
        assert_eq!(segments(OBJECT), 0, "broken state");
    }
}

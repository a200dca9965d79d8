//! Writes a file beside the old one, and renames it when it is complete and on the disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use byname_wire::NameHashKey;

use super::header::{Header, Section};
use super::{FileError, Kind, PAGE};
use crate::memory::Line;
use crate::sync::Ordering;

/// Number of names that a file that is being written may have.
const TRIES_MAX: usize = 100;
/// Bytes that are written at once, whole lines.
const BLOCK_BYTES: usize = 1 << 16;

/// A file that is being written. Without [`TableWriter::finish`] it is removed again.
pub(crate) struct TableWriter {
    out: BufWriter<File>,
    path: PathBuf,
    /// The file's name until it is complete.
    partial: PathBuf,
    finished: bool,
    kind: Kind,
    key: NameHashKey,
    at: u64,
    sections: Vec<Section>,
}

impl TableWriter {
    pub(crate) fn create(path: &Path, kind: Kind, key: &NameHashKey) -> Result<Self, FileError> {
        let io = |source| FileError::Io { path: path.to_owned(), source };
        let name = path.file_name().ok_or_else(|| io(io::ErrorKind::InvalidFilename.into()))?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        // Another thread may be writing a file of this name, and a process that was killed may have left one behind.
        let mut tries = 0;
        let (file, partial) = loop {
            tries += 1;
            let mut partial = std::ffi::OsString::from(".");
            partial.push(name);
            partial.push(format!(".{}.{tries}.partial", std::process::id()));
            let partial = path.with_file_name(partial);
            match options.open(&partial) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES_MAX => {}
                file => break (file.map_err(io)?, partial),
            }
        };
        let out = BufWriter::with_capacity(1 << 20, file);
        let (path, finished, sections) = (path.to_owned(), false, Vec::new());
        let mut writer = TableWriter { out, path, partial, finished, kind, key: *key, at: 0, sections };
        writer.write(&[0; PAGE])?;
        Ok(writer)
    }

    /// Adds a section of bytes.
    pub(crate) fn bytes(&mut self, number: u32, bytes: &[u8]) -> Result<(), FileError> {
        let crc = crc32c::crc32c(bytes);
        self.sections.push(Section { number, crc, offset: self.at, len: bytes.len() as u64 });
        self.write(bytes)?;
        self.pad()
    }

    /// Adds a section of lines, which lie in several runs.
    pub(crate) fn lines<'a>(
        &mut self,
        number: u32,
        runs: impl IntoIterator<Item = &'a [Line]>,
    ) -> Result<(), FileError> {
        let (offset, mut crc) = (self.at, 0);
        let mut block = Vec::with_capacity(1 << 16);
        for some in runs.into_iter().flat_map(|lines| lines.chunks(1 << 10)) {
            block.clear();
            block.extend(
                some.iter().flat_map(|line| &line.0).flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()),
            );
            crc = crc32c::crc32c_append(crc, &block);
            self.write(&block)?;
        }
        self.sections.push(Section { number, crc, offset, len: self.at - offset });
        self.pad()
    }

    /// Adds a section of lines with these words, and at least one line. Zeros fill the last one.
    pub(crate) fn words(&mut self, number: u32, words: impl Iterator<Item = u64>) -> Result<(), FileError> {
        let (offset, mut crc) = (self.at, 0);
        let mut words = words.peekable();
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        while words.peek().is_some() || self.at == offset {
            block.clear();
            block.extend(words.by_ref().take(BLOCK_BYTES / size_of::<u64>()).flat_map(u64::to_le_bytes));
            block.resize(block.len().next_multiple_of(size_of::<Line>()).max(size_of::<Line>()), 0);
            crc = crc32c::crc32c_append(crc, &block);
            self.write(&block)?;
        }
        self.sections.push(Section { number, crc, offset, len: self.at - offset });
        self.pad()
    }

    /// Completes the file, and gives it its name when it is on the disk.
    pub(crate) fn finish(mut self) -> Result<(), FileError> {
        let header = Header {
            bytes: self.at,
            secret: self.key.secret(),
            function: self.key.function(),
            sections: std::mem::take(&mut self.sections),
        };
        let page = header.encode(self.kind);
        let written = self.out.seek(SeekFrom::Start(0)).and_then(|_| self.out.write_all(&page));
        let synced = written.and_then(|()| self.out.flush()).and_then(|()| self.out.get_ref().sync_all());
        let renamed = synced.and_then(|()| fs::rename(&self.partial, &self.path));
        renamed.map_err(|error| self.io(error))?;
        self.finished = true;
        // The name is on the disk when the folder is. Some file systems cannot sync folders.
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        Ok(())
    }

    /// The next section begins at a page.
    fn pad(&mut self) -> Result<(), FileError> {
        let rest = (self.at.next_multiple_of(PAGE as u64) - self.at) as usize;
        self.write(&[0; PAGE][..rest])
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.out.write_all(bytes).map_err(|error| self.io(error))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn io(&self, source: io::Error) -> FileError {
        FileError::Io { path: self.path.clone(), source }
    }
}

impl Drop for TableWriter {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

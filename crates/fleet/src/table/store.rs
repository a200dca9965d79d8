//! A folder of chunks and manifests. Each is a file whose name is its SHA-256.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::Digest;
use super::chunk::CHUNK_BYTES_MAX;
use super::manifest::MANIFEST_BYTES_MAX;

/// The longest file that is read.
pub const FILE_BYTES_MAX: usize =
    if CHUNK_BYTES_MAX > MANIFEST_BYTES_MAX { CHUNK_BYTES_MAX } else { MANIFEST_BYTES_MAX };

/// What names of files end with that are not whole yet.
const PART: &str = ".part";

/// A folder of chunks.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The chunks of this folder, which is made if it does not exist.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        Ok(Store { folder: folder.to_owned() })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.folder.join(digest.to_string())
    }

    /// Whether there is a file of this name. Only [`Store::read`] says whether it is whole.
    pub fn has(&self, digest: Digest) -> bool {
        self.path(digest).is_file()
    }

    /// A chunk or manifest. `None` if it is not there, or damaged, which is logged.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, digest: Digest) -> io::Result<Option<Vec<u8>>> {
        let path = self.path(digest);
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > FILE_BYTES_MAX || digest.check(&bytes).is_err() {
            tracing::warn!("{}: the file is damaged, and is fetched again", path.display());
            return Ok(None);
        }
        Ok(Some(bytes))
    }

    /// Writes a chunk or manifest to the disk, if it is not there. Returns whether it was not.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, digest: Digest, bytes: &[u8]) -> io::Result<bool> {
        self.write_then(digest, bytes, File::sync_all)
    }

    /// As [`Store::write`], for a chunk that others have, too: does not wait for the disk. If the machine fails before the
    /// system has written it, [`Store::read`] finds it damaged.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_copy(&self, digest: Digest, bytes: &[u8]) -> io::Result<bool> {
        self.write_then(digest, bytes, |_| Ok(()))
    }

    fn write_then(&self, digest: Digest, bytes: &[u8], then: fn(&File) -> io::Result<()>) -> io::Result<bool> {
        if self.read(digest)?.is_some() {
            return Ok(false);
        }
        // A file has its name only when it is whole.
        static PARTS: AtomicU64 = AtomicU64::new(0);
        let number = PARTS.fetch_add(1, Ordering::Relaxed);
        let part = self.folder.join(format!("{digest}.{}-{number}{PART}", std::process::id()));
        let written = File::create(&part).and_then(|mut file| {
            file.write_all(bytes)?;
            then(&file)?;
            fs::rename(&part, self.path(digest))
        });
        if written.is_err() {
            // Its room may be what is missing.
            let _ = fs::remove_file(&part);
        }
        written.map(|()| true)
    }

    /// Removes a chunk or manifest that [`Store::write`] has written. It may be gone.
    pub fn remove(&self, digest: Digest) {
        let _ = fs::remove_file(self.path(digest));
    }

    /// Removes what a process that was killed has left half-written. Nobody may write into this folder meanwhile.
    ///
    /// # Errors
    /// The folder cannot be read, or a file cannot be removed.
    pub fn remove_parts(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if part_of(&entry.file_name()).is_some_and(|(_, rest)| rest.ends_with(PART)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// All that has the name of a chunk or manifest. Only [`Store::read`] says whether it is whole.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn digests(&self) -> io::Result<BTreeSet<Digest>> {
        let named = |entry: io::Result<fs::DirEntry>| {
            let name = entry.map(|entry| entry.file_name());
            name.map(|name| name.to_str().and_then(|name| name.parse().ok())).transpose()
        };
        fs::read_dir(&self.folder)?.filter_map(named).collect()
    }

    /// Removes all chunks and manifests but these, and what was left half-written. Other files stay.
    ///
    /// # Errors
    /// The folder cannot be read, or a file cannot be removed.
    pub fn keep(&self, wanted: &BTreeSet<Digest>) -> io::Result<usize> {
        let mut removed = 0;
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some((digest, rest)) = part_of(&name) else { continue };
            if (rest.is_empty() && !wanted.contains(&digest)) || rest.ends_with(PART) {
                fs::remove_file(entry.path())?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// The digest that the name of a file begins with, and the rest of the name.
fn part_of(name: &OsStr) -> Option<(Digest, &str)> {
    let (digest, rest) = name.to_str()?.split_at_checked(64)?;
    Some((digest.parse().ok()?, rest))
}

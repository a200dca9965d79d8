//! A folder of chunks and manifests. Each is a file whose name is its SHA-256.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::Digest;
use super::chunk::CHUNK_BYTES_MAX;
use super::manifest::MANIFEST_BYTES_MAX;

/// The longest file that is read.
pub const FILE_BYTES_MAX: usize =
    if CHUNK_BYTES_MAX > MANIFEST_BYTES_MAX { CHUNK_BYTES_MAX } else { MANIFEST_BYTES_MAX };

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

    /// Writes a chunk or manifest, if it is not there.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        if self.read(digest)?.is_some() {
            return Ok(());
        }
        // A file has its name only when it is whole.
        let part = self.folder.join(format!("{digest}.{}.part", std::process::id()));
        let mut file = File::create(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        drop(file);
        fs::rename(&part, self.path(digest))
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
            let Some((digest, rest)) = name.to_str().and_then(|name| name.split_at_checked(64)) else { continue };
            let Ok(digest) = digest.parse::<Digest>() else { continue };
            if (rest.is_empty() && !wanted.contains(&digest)) || rest.ends_with(".part") {
                fs::remove_file(entry.path())?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

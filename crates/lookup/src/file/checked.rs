//! Files whose lines were compared with their checksums: they need not be read again.
//!
//! A table that changes is opened again for each change. Its file is the same as before, and only what the changes write is new. So
//! somebody who opens files again and again remembers which ones were right. Each is known by its number in its file
//! system, its length and its times, and kept open, so that no other file gets this number meanwhile.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::sync::{Mutex, PoisonError};

/// Files that were right when they were read.
#[derive(Debug, Default)]
pub struct Checked(Mutex<BTreeMap<Identity, Seen>>);

#[derive(Debug)]
struct Seen {
    #[allow(dead_code, reason = "kept open")]
    file: File,
    /// Sections whose lines were read.
    sections: Vec<u32>,
    /// Whether it was asked for since [`Checked::forget_others`].
    used: bool,
}

/// What tells a file from others, and from itself after something has written into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    file: (u64, u64),
    bytes: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        Some(Identity {
            file: (metadata.dev(), metadata.ino()),
            bytes: metadata.len(),
            written: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Other systems do not number files: each is read whenever it is opened.
    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Option<Self> {
        None
    }
}

impl Checked {
    /// Whether the lines of a section are known to be right.
    pub(super) fn has(&self, file: &File, section: u32) -> bool {
        let Some(identity) = file.metadata().ok().as_ref().and_then(Identity::of) else { return false };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(seen) = all.get_mut(&identity) else { return false };
        seen.used = true;
        seen.sections.contains(&section)
    }

    /// Remembers that the lines of a section are right. `before` is what the system said of the file before they were read.
    pub(super) fn note(&self, file: &File, before: &Metadata, section: u32) {
        let now = file.metadata().ok().as_ref().and_then(Identity::of);
        // Something may have written into it meanwhile.
        let Some(identity) = now.filter(|now| Identity::of(before) == Some(*now)) else { return };
        let Ok(file) = file.try_clone() else { return };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = all.entry(identity).or_insert(Seen { file, sections: Vec::new(), used: true });
        if !seen.sections.contains(&section) {
            seen.sections.push(section);
        }
    }

    /// Forgets the files that nobody has asked for since the last call, and closes them.
    pub fn forget_others(&self) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, seen| std::mem::take(&mut seen.used));
    }
}

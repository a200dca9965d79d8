//! `[audit]`.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::value;

/// Where the lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditDestination {
    /// The journal of systemd.
    Journal,
    /// A file. When it would become longer than `bytes_max`, it gets a number, and a new one begins.
    File {
        /// The newest file. Older ones have `.1`, `.2` and so on behind this name.
        path: PathBuf,
        /// Most bytes of a file.
        bytes_max: u64,
        /// Number of older files to keep.
        old_files: usize,
    },
}

/// `[audit]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditLog {
    /// `journal`, or a file. Empty: there is no audit log.
    pub to: PathBuf,
    /// Most bytes of a file.
    #[serde(deserialize_with = "value::bytes")]
    pub file_max: usize,
    /// Number of older files to keep.
    pub old_files: usize,
    /// Most lines that wait to be written.
    #[serde(deserialize_with = "value::at_least_1")]
    pub queue: usize,
}

impl Default for AuditLog {
    fn default() -> Self {
        AuditLog { to: PathBuf::new(), file_max: 16 << 20, old_files: 7, queue: 8192 }
    }
}

impl AuditLog {
    /// Where the lines go. A file name is relative to `folder`.
    pub fn destination(&self, folder: &Path) -> Option<AuditDestination> {
        match self.to.to_str() {
            Some("") => None,
            Some("journal") => Some(AuditDestination::Journal),
            _ => Some(AuditDestination::File {
                path: folder.join(&self.to),
                bytes_max: self.file_max as u64,
                old_files: self.old_files,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations() {
        let destination = |to: &str| AuditLog { to: to.into(), ..AuditLog::default() }.destination(Path::new("/etc/b"));
        assert_eq!(destination(""), None);
        assert_eq!(destination("journal"), Some(AuditDestination::Journal));
        for (to, expected) in [("audit.log", "/etc/b/audit.log"), ("/var/log/x", "/var/log/x")] {
            let Some(AuditDestination::File { path, bytes_max, old_files }) = destination(to) else { panic!("a file") };
            assert_eq!((path, bytes_max, old_files), (PathBuf::from(expected), 16 << 20, 7));
        }
    }
}

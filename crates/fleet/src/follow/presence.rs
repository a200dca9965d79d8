//! The lease of `nodes/NODE`, which outlives a connection, and an agent that was killed.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// Longest number in the file.
const DIGITS_MAX: u64 = 20;

/// The lease with which this agent reports.
#[derive(Debug)]
pub(super) struct Presence {
    /// Its number is here, while no other agent has the file. Without it, an agent that was killed and is started again would
    /// have to wait until its own lease has ended.
    file: Option<File>,
    lease: i64,
    /// The revision in which this agent created the key. 0: not yet.
    pub created: i64,
}

impl Presence {
    /// Takes the lease over that the file names, if no agent uses it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        if file.try_lock().is_err() {
            return Ok(Presence { file: None, lease: 0, created: 0 });
        }
        let mut text = String::new();
        // Damaged: as if there were none.
        let _ = (&mut file).take(DIGITS_MAX).read_to_string(&mut text);
        Ok(Presence { file: Some(file), lease: text.trim().parse().unwrap_or(0), created: 0 })
    }

    /// The lease that may still exist. 0: there is none.
    pub(super) fn lease(&self) -> i64 {
        self.lease
    }

    /// Begins with a new lease, or with none (0).
    pub(super) fn begin(&mut self, lease: i64) {
        (self.lease, self.created) = (lease, 0);
        if let Some(file) = &mut self.file {
            let written = file.rewind().and_then(|()| file.set_len(0)).and_then(|()| write!(file, "{lease}"));
            if written.is_err() {
                // The next agent waits for the lease's end.
                self.file = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_taken_over_by_one_agent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lease");
        let mut first = Presence::open(&path).unwrap();
        assert_eq!(first.lease(), 0);
        first.begin(7_587_869_412_341_234);
        first.begin(-5);
        assert_eq!(Presence::open(&path).unwrap().lease(), 0, "another agent has it");
        drop(first);
        assert_eq!(Presence::open(&path).unwrap().lease(), -5);
        std::fs::write(&path, "x").unwrap();
        assert_eq!(Presence::open(&path).unwrap().lease(), 0);
    }
}

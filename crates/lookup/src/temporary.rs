//! Files of tests.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A path for a file, which is removed at the end of the test.
pub(crate) struct Temporary(pub(crate) PathBuf);

impl Temporary {
    /// A path that no other test has.
    pub(crate) fn new(name: &str) -> Self {
        static FILES: AtomicU32 = AtomicU32::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        Temporary(std::env::temp_dir().join(format!("byname-{name}-{}-{number}", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

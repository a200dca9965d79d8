//! Exact match of opaque names: MAC addresses, GUIDs, tunnel ids, content hashes [Concise §2].
//!
//! Such names share no prefixes, so a query half that kept them would need their bytes for each.
//! The engines here keep none: a query half is a function that answers right for every name that
//! its control half knows, in a few bits each, and arbitrarily for all others.

pub mod line;
pub mod message;
pub mod othello;
pub mod validity;

use byname_wire::Digest;

use crate::entry::EntryId;

/// Most names in a burst: more than are ever on their way at once, so that the memory is kept busy
/// for most of it.
pub const BURST_MAX: usize = 256;

/// The query half of a flat engine.
pub trait FlatFib: Send + Sync {
    /// The entry of a name with this digest.
    ///
    /// For names that the control half does not know the answer is arbitrary, by contract: any
    /// entry, or `None`.
    fn entry(&self, name: Digest) -> Option<EntryId>;
    /// The entries of many names: engines overlap the memory reads of a whole burst.
    ///
    /// # Panics
    /// If the lengths differ, or are above [`BURST_MAX`].
    fn entry_burst(&self, names: &[Digest], out: &mut [Option<EntryId>]) {
        assert_eq!(names.len(), out.len());
        assert!(names.len() <= BURST_MAX);
        for (name, found) in names.iter().zip(out) {
            *found = self.entry(*name);
        }
    }
    /// Cache lines of the table that a query of `name` reads, counted by walking once more; `None`
    /// where the engine cannot tell.
    fn lines_read(&self, name: Digest) -> Option<usize> {
        let _ = name;
        None
    }
    /// Resident memory, in bytes.
    fn memory_bytes(&self) -> usize;
}

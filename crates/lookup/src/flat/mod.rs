//! Exact match of opaque names: MAC addresses, GUIDs, tunnel ids, content hashes [Concise §2].
//!
//! Such names share no prefixes, so a query half that stored them would need their bytes for each.
//! The engines here store none. A query half is a function of a few bits a name. It answers
//! correctly for every name that its control half knows, and arbitrarily for all others.

pub mod known;
pub mod labelled;
pub mod line;
pub mod message;
pub mod othello;
pub mod validity;

use byname_wire::Digest;

use crate::entry::EntryId;

/// Maximum number of names in a burst. Memory never serves more at once, so it stays busy for most
/// of the burst.
pub const BURST_MAX: usize = 256;

/// The query half of a flat engine.
pub trait FlatFib: Send + Sync {
    /// The entry of a name with this digest.
    ///
    /// For names that the control half does not know, the answer is arbitrary by contract: any
    /// entry, or `None`.
    fn entry(&self, name: Digest) -> Option<EntryId>;
    /// Finds the entries of many names. Engines overlap the memory reads of a whole burst.
    ///
    /// # Panics
    /// If the lengths differ or exceed [`BURST_MAX`].
    fn entry_burst(&self, names: &[Digest], out: &mut [Option<EntryId>]) {
        assert_eq!(names.len(), out.len());
        assert!(names.len() <= BURST_MAX);
        for (name, found) in names.iter().zip(out) {
            *found = self.entry(*name);
        }
    }
    /// Number of cache lines of the table that a query of `name` reads, counted by a second walk.
    /// `None` if the engine cannot tell.
    fn lines_read(&self, name: Digest) -> Option<usize> {
        let _ = name;
        None
    }
    /// Resident memory, in bytes.
    fn memory_bytes(&self) -> usize;
}

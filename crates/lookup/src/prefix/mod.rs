//! Longest prefix match of hierarchical names.

pub mod binary_search;
pub mod compact;
mod depth_set;
pub mod learned;
pub mod level_pulling;
pub mod longest_first;
mod rule_array;
mod rule_table;
mod rule_writer;
pub mod two_stage;

use byname_wire::NameView;

use crate::entry::EntryId;

pub use longest_first::LongestFirst;
pub use two_stage::TwoStage;

/// Most names in a burst.
pub const BURST_MAX: usize = 64;

/// The deepest rule that covers a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixMatch {
    /// The rule's entry.
    pub entry: EntryId,
    /// Components of the rule's name.
    pub depth: usize,
}

/// The query half of a prefix engine.
pub trait PrefixFib: Send + Sync {
    /// Finds the deepest rule that covers `name`.
    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch>;
    /// Finds the deepest rule of each name: engines overlap the memory reads of a whole burst.
    ///
    /// `names` and `out` have equal length, at most [`BURST_MAX`]; `out[i]` is `None` when no
    /// rule, not even `/`, covers `names[i]`.
    ///
    /// # Panics
    /// If the lengths differ.
    fn longest_match_burst(&self, names: &[NameView<'_>], out: &mut [Option<PrefixMatch>]) {
        assert_eq!(names.len(), out.len());
        for (name, found) in names.iter().zip(out) {
            *found = self.longest_match(name);
        }
    }
    /// No rule is deeper: a view of a name's first so many components finds all that the name does,
    /// and longer prefixes need no hash ([`PrefixHashes::fill_burst_to`]).
    ///
    /// [`PrefixHashes::fill_burst_to`]: byname_wire::PrefixHashes::fill_burst_to
    fn depth_max(&self) -> usize;
    /// Cache lines of the table that a lookup of `name` reads, counted by walking once more; `None`
    /// where the engine cannot tell.
    fn lines_read(&self, name: &NameView<'_>) -> Option<usize> {
        let _ = name;
        None
    }
    /// Resident memory, in bytes.
    fn memory_bytes(&self) -> usize;
}

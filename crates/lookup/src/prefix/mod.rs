//! Longest prefix match of hierarchical names.

pub mod binary_search;
pub mod compact;
mod depth_set;
#[cfg(feature = "lab")]
mod hash_room;
pub mod learned;
pub mod level_pulling;
pub mod longest_first;
pub mod namespaces;
pub mod partition;
mod rule_array;
mod rule_table;
mod rule_writer;
pub mod two_stage;

use std::sync::Arc;

#[cfg(feature = "lab")]
use byname_wire::PrefixHashes;
use byname_wire::name_hash::DepthSet;
use byname_wire::{Name, NameHashKey, NameRef, NameView};

use crate::entry::EntryId;

#[cfg(feature = "lab")]
pub use hash_room::HashRoom;
pub use longest_first::LongestFirst;
pub use two_stage::TwoStage;

/// Maximum number of names in a burst.
pub const BURST_MAX: usize = 64;

/// The deepest rule that covers a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixMatch {
    /// The rule's entry.
    pub entry: EntryId,
    /// Number of components of the rule's name.
    pub depth: usize,
}

/// The query half of a prefix engine.
pub trait PrefixFib: Send + Sync {
    /// Finds the deepest rule that covers `name`.
    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch>;
    /// Finds the deepest rule of each name. Engines overlap the memory reads of a whole burst.
    ///
    /// `names` and `out` have equal length, at most [`BURST_MAX`]. `out[i]` is `None` when no rule,
    /// not even `/`, covers `names[i]`.
    ///
    /// # Panics
    /// If the lengths differ.
    fn longest_match_burst(&self, names: &[NameView<'_>], out: &mut [Option<PrefixMatch>]) {
        assert_eq!(names.len(), out.len());
        for (name, found) in names.iter().zip(out) {
            *found = self.longest_match(name);
        }
    }
    /// Hashes names with `key`, which must be the rules' key, and finds the deepest rule of each.
    /// For callers that do not need the hashes otherwise: an engine may leave out prefixes that its
    /// search does not reach. The router needs the hash of the whole name for the PIT, too.
    ///
    /// # Panics
    /// If the lengths differ or exceed [`BURST_MAX`].
    #[cfg(feature = "lab")]
    fn longest_match_names(
        &self,
        key: &NameHashKey,
        names: &[NameRef<'_>],
        room: &mut HashRoom,
        out: &mut [Option<PrefixMatch>],
    ) {
        let hashes = room.hashes(names.len());
        PrefixHashes::fill_burst_to(self.depth_max(), key, names, hashes);
        self.longest_match_burst(&hash_room::views(names, hashes), out);
    }
    /// The depth of the deepest rule. A view of a name's first `depth_max` components gives the
    /// same match as the whole name, and longer prefixes need no hash
    /// ([`PrefixHashes::fill_burst_to`]).
    ///
    /// [`PrefixHashes::fill_burst_to`]: byname_wire::PrefixHashes::fill_burst_to
    fn depth_max(&self) -> usize;
    /// Depths that a lookup probes ([`PrefixHashes::fill_burst_where`]). A caller that leaves out
    /// other depths reads this set again after the lookup. If a depth was added meanwhile, the
    /// caller repeats the lookup, which may have probed it.
    ///
    /// [`PrefixHashes::fill_burst_where`]: byname_wire::PrefixHashes::fill_burst_where
    fn depths(&self) -> DepthSet {
        DepthSet::up_to(self.depth_max())
    }
    /// Number of cache lines of the table that a lookup of `name` reads, counted by a second walk.
    /// `None` if the engine cannot tell.
    fn lines_read(&self, name: &NameView<'_>) -> Option<usize> {
        let _ = name;
        None
    }
    /// The label that the match of `name` has, if a flat namespace ([`namespaces`]) or a partition
    /// ([`partition`]) answers, and no rule.
    fn label(&self, name: &NameView<'_>) -> Option<&Name> {
        let _ = name;
        None
    }
    /// What a node of a partition has itself, if this is one ([`partition`]).
    fn here(&self) -> Option<partition::Here<'_>> {
        None
    }
    /// The key that names of the flat namespace with this prefix are hashed with, and its changes
    /// ([`namespaces`]).
    fn flat_changes(&self, prefix: NameRef<'_>) -> Option<(&NameHashKey, &Arc<namespaces::changes::Changes>)> {
        let _ = prefix;
        None
    }
    /// Resident memory, in bytes.
    fn memory_bytes(&self) -> usize;
}

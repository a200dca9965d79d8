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

use byname_wire::name_hash::DepthSet;
use byname_wire::{NameHashKey, NameRef, NameView, PrefixHashes};
use smallvec::SmallVec;

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

/// Room for the hashes of a burst of names, and what an engine has seen of a reader's names: one for
/// each reader.
#[derive(Default)]
pub struct HashRoom {
    hashes: Vec<PrefixHashes>,
    /// Enough names of the last burst had a rule below the first probe.
    deep: bool,
}

impl HashRoom {
    /// Room for the hashes of so many names.
    fn hashes(&mut self, names: usize) -> &mut [PrefixHashes] {
        assert!(names <= BURST_MAX, "a burst has at most {BURST_MAX} names");
        if self.hashes.is_empty() {
            self.hashes = vec![PrefixHashes::default(); BURST_MAX];
        }
        &mut self.hashes[..names]
    }
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
    /// Hashes names under `key`, that of the rules, and finds the deepest rule of each: for those who
    /// have no other use for the hashes. An engine may leave out prefixes that its search does not
    /// come to.
    ///
    /// # Panics
    /// If the lengths differ, or there are more than [`BURST_MAX`].
    fn longest_match_names(
        &self,
        key: &NameHashKey,
        names: &[NameRef<'_>],
        room: &mut HashRoom,
        out: &mut [Option<PrefixMatch>],
    ) {
        let hashes = room.hashes(names.len());
        PrefixHashes::fill_burst_to(self.depth_max(), key, names, hashes);
        self.longest_match_burst(&views(names, hashes), out);
    }
    /// No rule is deeper: a view of a name's first so many components finds all that the name does,
    /// and longer prefixes need no hash ([`PrefixHashes::fill_burst_to`]).
    ///
    /// [`PrefixHashes::fill_burst_to`]: byname_wire::PrefixHashes::fill_burst_to
    fn depth_max(&self) -> usize;
    /// Of a name, a lookup looks at the digests of prefixes of so many components and no others
    /// ([`PrefixHashes::fill_burst_where`]). Whoever leaves out others asks once more after the lookup, and
    /// repeats it where a depth has come to this set: the lookup may have looked at it.
    ///
    /// [`PrefixHashes::fill_burst_where`]: byname_wire::PrefixHashes::fill_burst_where
    fn depths(&self) -> DepthSet {
        DepthSet::up_to(self.depth_max())
    }
    /// Cache lines of the table that a lookup of `name` reads, counted by walking once more; `None`
    /// where the engine cannot tell.
    fn lines_read(&self, name: &NameView<'_>) -> Option<usize> {
        let _ = name;
        None
    }
    /// Resident memory, in bytes.
    fn memory_bytes(&self) -> usize;
}

/// Names of a burst with what was hashed of them.
fn views<'a>(names: &[NameRef<'a>], hashes: &'a [PrefixHashes]) -> SmallVec<[NameView<'a>; BURST_MAX]> {
    names.iter().zip(hashes).map(|(name, hashes)| NameView::from_filled(*name, hashes)).collect()
}

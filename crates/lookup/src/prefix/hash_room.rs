//! Lookups that hash the names themselves ([`PrefixFib::longest_match_names`]).
//!
//! [`PrefixFib::longest_match_names`]: super::PrefixFib::longest_match_names

use byname_wire::{NameRef, NameView, PrefixHashes};
use smallvec::SmallVec;

use super::BURST_MAX;

/// Room for the hashes of a burst of names, and statistics about a reader's names. Each reader has
/// one.
#[derive(Default)]
pub struct HashRoom {
    hashes: Vec<PrefixHashes>,
    /// Enough names of the last burst had a rule below the first probe.
    pub(super) deep: bool,
}

impl HashRoom {
    /// Room for the hashes of `names` names.
    pub(super) fn hashes(&mut self, names: usize) -> &mut [PrefixHashes] {
        assert!(names <= BURST_MAX, "a burst has at most {BURST_MAX} names");
        if self.hashes.is_empty() {
            self.hashes = vec![PrefixHashes::default(); BURST_MAX];
        }
        &mut self.hashes[..names]
    }
}

/// The names of a burst, with their hashes.
pub(super) fn views<'a>(names: &[NameRef<'a>], hashes: &'a [PrefixHashes]) -> SmallVec<[NameView<'a>; BURST_MAX]> {
    names.iter().zip(hashes).map(|(name, hashes)| NameView::from_filled(*name, hashes)).collect()
}

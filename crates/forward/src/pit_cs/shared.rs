//! Pending Interests that other workers may join: see [`crate::hot`].

use super::{Kind, PitCs, SlotId};

impl PitCs {
    /// The pending Interest for Data whose name has this hash. It has neither CanBePrefix nor an implicit digest.
    pub fn pending_with_hash(&self, hash: u64, must_be_fresh: bool) -> Option<SlotId> {
        self.index.find(hash, |slot| {
            let slot = &self.slots[slot as usize];
            let is_plain = slot.pit().is_some_and(|pit| {
                !pit.can_be_prefix && !pit.has_implicit_digest && pit.must_be_fresh == must_be_fresh
            });
            is_plain && slot.hash == hash
        })
    }

    /// Whether there is Data whose name has this hash.
    pub fn has_data_with_hash(&self, hash: u64) -> bool {
        let is_its = |slot: SlotId| {
            let slot = &self.slots[slot as usize];
            slot.hash == hash && matches!(slot.kind, Kind::Cs(_))
        };
        self.index.find(hash, is_its).is_some()
    }
}

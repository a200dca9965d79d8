//! What a lookup will read, asked for ahead of it, step by step: an address is known only when what
//! holds it has come.

use crate::pit_cs::{PitCs, SlotId};

impl PitCs {
    /// Asks the memory for what a lookup of this hash reads first.
    pub fn prefetch_bucket(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// The first slot that a lookup of this hash will read, and most often the only one.
    pub fn first_candidate(&self, hash: u64) -> Option<SlotId> {
        self.index.find(hash, |_| true)
    }

    /// Asks the memory for a slot and its links.
    pub fn prefetch_slot(&self, slot: SlotId) {
        self.slots[slot as usize].prefetch();
        self.links.prefetch(slot);
    }

    /// Asks the memory for the packet of a slot, and for the slots beside it in its list.
    pub fn prefetch_packet(&self, slot: SlotId) {
        self.slots[slot as usize].prefetch_name();
        self.links.prefetch_neighbors(slot);
    }

    /// Asks the memory for what the victims after this one will need: of the next what its slot
    /// tells, of the second the slot, of the third its links. Each was asked for when it was one
    /// further away.
    pub(super) fn prefetch_victims(&self, victim: SlotId) {
        let Some(next) = self.links.before(victim) else { return };
        let slot = &self.slots[next as usize];
        self.index.prefetch(slot.hash);
        slot.prefetch_name();
        let Some(second) = self.links.before(next) else { return };
        self.slots[second as usize].prefetch();
        if let Some(third) = self.links.before(second) {
            self.links.prefetch(third);
        }
    }
}

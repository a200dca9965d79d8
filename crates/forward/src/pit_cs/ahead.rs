//! What a lookup will read, asked for ahead of it, step by step: an address is known only when what
//! holds it has come.

use std::collections::VecDeque;

use crate::pit_cs::{PitCs, SlotId};

/// Victims that are known ahead.
const VICTIMS_AHEAD: usize = 8;

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

    /// Asks the memory for what it takes to remove the Data after this one.
    pub(super) fn prefetch_victims(&mut self, victim: SlotId) {
        let mut victims = std::mem::take(&mut self.victims);
        self.prefetch_after(victim, &mut victims);
        self.victims = victims;
    }

    /// The same of pending Interests.
    pub(super) fn prefetch_pending_victims(&mut self, victim: SlotId) {
        let mut victims = std::mem::take(&mut self.pending_victims);
        self.prefetch_after(victim, &mut victims);
        self.pending_victims = victims;
    }

    /// Asks the memory for what the victims after this one will need: of one that comes soon what its
    /// slot tells, of a later one its slot, and the links that lead to the one after it.
    fn prefetch_after(&self, victim: SlotId, victims: &mut VecDeque<SlotId>) {
        // What was used or erased meanwhile is no victim any more.
        while victims.pop_front().is_some_and(|next| next != victim) {}
        let mut last = victims.back().copied().unwrap_or(victim);
        // One for the one that goes, and one more until there are enough.
        for _ in 0..2 {
            if victims.len() == VICTIMS_AHEAD {
                break;
            }
            let Some(next) = self.links.before(last) else { break };
            victims.push_back(next);
            self.slots[next as usize].prefetch();
            self.links.prefetch(next);
            last = next;
        }
        if let Some(&soon) = victims.get(VICTIMS_AHEAD / 2) {
            let slot = &self.slots[soon as usize];
            self.index.prefetch(slot.hash);
            // Its name is not looked at; its buffer is given back.
            slot.packet.prefetch(0);
        }
    }
}

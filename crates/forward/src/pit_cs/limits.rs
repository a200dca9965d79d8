//! When the PIT is full, and which pending Interest has to leave then.

use super::{PitCs, SlotId};

/// Bytes of Interests that the PIT may hold for each entry that it may have. Most take 256.
const PIT_BYTES_PER_ENTRY: usize = 1024;

impl PitCs {
    /// Whether another pending Interest finds no room.
    pub fn is_full(&self) -> bool {
        let bytes_max = self.pit_entries_max.saturating_mul(PIT_BYTES_PER_ENTRY);
        self.pit_len >= self.pit_entries_max || self.pit_bytes >= bytes_max
    }

    /// Whether another downstream of a pending Interest finds no room.
    pub fn is_full_of_downstreams(&self) -> bool {
        self.more_in_records >= self.pit_entries_max
    }

    /// Whether so many Interests more may find no room, or no room for another downstream.
    pub fn may_fill_up(&self, interests: usize) -> bool {
        self.is_full() || self.pit_len.max(self.more_in_records) + interests > self.pit_entries_max
    }

    /// The pending Interest to remove before another finds room: the oldest of the face with the
    /// largest share. `None` when there is room.
    pub fn victim(&mut self) -> Option<SlotId> {
        let victim = if self.is_full() { self.shares.oldest_of_largest() } else { None };
        if let Some(victim) = victim.filter(|_| self.prefetches) {
            self.pending_victims.prefetch_after(victim, &self.slots, &self.links, &self.index);
        }
        victim
    }

    /// The next that [`PitCs::victim`] will tell, most likely, after it told this one.
    pub fn victim_after(&self, victim: SlotId) -> Option<SlotId> {
        self.links.before(victim)
    }

    /// The pending Interest to remove before another downstream of one finds room, as for
    /// [`PitCs::victim`].
    pub fn victim_for_downstream(&mut self) -> Option<SlotId> {
        if self.is_full_of_downstreams() { self.shares.oldest_of_largest() } else { None }
    }
}

//! Limits of the PIT, and the pending Interest to evict when it is full.

use super::{PitCs, SlotId};

/// Bytes of Interests that the PIT may hold for each possible entry; most Interests take 128.
pub const PIT_BYTES_PER_ENTRY: usize = 1024;

impl PitCs {
    /// Whether there is no room for another pending Interest.
    pub fn is_full(&self) -> bool {
        let bytes_max = self.pit_entries_max.saturating_mul(PIT_BYTES_PER_ENTRY);
        self.pit_len >= self.pit_entries_max || self.pit_bytes >= bytes_max
    }

    /// Whether there is no room for another downstream of a pending Interest.
    pub fn is_full_of_downstreams(&self) -> bool {
        self.more_in_records >= self.pit_entries_max
    }

    /// Whether this many more Interests may fill the PIT, or its room for downstreams.
    pub fn may_fill_up(&self, interests: usize) -> bool {
        self.is_full() || self.pit_len.max(self.more_in_records) + interests > self.pit_entries_max
    }

    /// The pending Interest to evict before another finds room: the oldest one of the source with the largest share.
    /// `None` if there is room.
    pub fn victim(&mut self) -> Option<SlotId> {
        let victim = if self.is_full() { self.shares.oldest_of_largest() } else { None };
        if let Some(victim) = victim.filter(|_| self.prefetch.is_on()) {
            self.pending_victims.prefetch_after(victim, &self.slots, &self.links, &self.index);
        }
        victim
    }

    /// The most likely next result of [`PitCs::victim`] after this one.
    pub fn victim_after(&self, victim: SlotId) -> Option<SlotId> {
        self.links.before(victim)
    }

    /// The pending Interest to evict before another downstream finds room, chosen as by [`PitCs::victim`].
    pub fn victim_for_downstream(&mut self) -> Option<SlotId> {
        if self.is_full_of_downstreams() { self.shares.oldest_of_largest() } else { None }
    }
}

//! Prefetches what a lookup will read, step by step: an address is known only after the memory that holds it has
//! arrived.

use super::index::Index;
use super::list::Links;
use super::{PitCs, Slot, SlotId};

/// Number of victims to know in advance.
const VICTIMS_AHEAD: usize = 16;

/// A free slot is prefetched when this many others will be taken before it.
const FREE_AHEAD: usize = 4;

impl PitCs {
    /// Prefetches the first memory that a lookup of this hash reads.
    pub fn prefetch_bucket(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// The first slot that a lookup of this hash reads, and mostly the only one.
    pub fn first_candidate(&self, hash: u64) -> Option<SlotId> {
        self.index.find(hash, |_| true)
    }

    /// Prefetches a slot and its links.
    pub fn prefetch_slot(&self, slot: SlotId) {
        self.slots[slot as usize].prefetch();
        self.links.prefetch(slot);
    }

    /// Prefetches a free slot and its links, and returns the slot. An Interest will take it soon. It was last used a
    /// burst ago or longer, and otherwise stores would wait for its lines one after the other.
    pub fn prefetch_free(&self) -> Option<SlotId> {
        let slot = self.free.after(FREE_AHEAD).filter(|_| self.prefetch.is_on())?;
        self.prefetch_slot(slot);
        Some(slot)
    }

    /// Prefetches the packet of a slot and the links of the slots beside it in its list.
    pub fn prefetch_packet(&self, slot: SlotId) {
        self.slots[slot as usize].prefetch_name();
        self.links.prefetch_neighbors(slot);
    }
}

/// The next slots to evict, in order.
#[derive(Default)]
pub(super) struct Ahead {
    /// A ring buffer.
    slots: [SlotId; VICTIMS_AHEAD],
    first: usize,
    len: usize,
}

impl Ahead {
    fn get(&self, i: usize) -> SlotId {
        self.slots[(self.first + i) % VICTIMS_AHEAD]
    }

    /// Prefetches memory of the victims after this one. For a near victim, it prefetches the memory that the slot
    /// refers to. For a later one, it prefetches the slot and the links to the next one.
    pub fn prefetch_after(&mut self, victim: SlotId, slots: &[Slot], links: &Links, index: &Index) {
        // Slots that were used or erased in the meantime are not victims any more.
        while self.len > 0 {
            let next = self.get(0);
            (self.first, self.len) = ((self.first + 1) % VICTIMS_AHEAD, self.len - 1);
            if next == victim {
                break;
            }
        }
        let mut last = self.len.checked_sub(1).map_or(victim, |last| self.get(last));
        // One to replace the current victim, and one more until the ring is full.
        for _ in 0..2 {
            if self.len == VICTIMS_AHEAD {
                break;
            }
            let Some(next) = links.before(last) else { break };
            self.slots[(self.first + self.len) % VICTIMS_AHEAD] = next;
            self.len += 1;
            slots[next as usize].prefetch();
            links.prefetch(next);
            last = next;
        }
        if self.len > VICTIMS_AHEAD / 2 {
            let slot = &slots[self.get(VICTIMS_AHEAD / 2) as usize];
            index.prefetch(slot.hash);
            // Only the header: the name is not read, but the buffer is given back.
            slot.packet.prefetch(0);
        }
    }
}

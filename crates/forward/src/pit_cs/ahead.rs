//! What a lookup will read, asked for ahead of it, step by step: an address is known only when what
//! holds it has come.

use super::index::Index;
use super::list::Links;
use super::{PitCs, Slot, SlotId};

/// Victims that are known ahead.
const VICTIMS_AHEAD: usize = 16;

/// A free slot is asked for when so many others will be taken before it.
const FREE_AHEAD: usize = 4;

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

    /// Asks the memory for a free slot and its links, which an Interest will take soon, and tells which. It was left a
    /// burst ago, or longer, and stores wait for their lines one after the other.
    pub fn prefetch_free(&self) -> Option<SlotId> {
        let later = self.free.len().checked_sub(1 + FREE_AHEAD).filter(|_| self.prefetches)?;
        let slot = self.free[later];
        self.prefetch_slot(slot);
        Some(slot)
    }

    /// Asks the memory for the packet of a slot, and for the slots beside it in its list.
    pub fn prefetch_packet(&self, slot: SlotId) {
        self.slots[slot as usize].prefetch_name();
        self.links.prefetch_neighbors(slot);
    }
}

/// Slots that will have to leave, the next first.
#[derive(Default)]
pub(super) struct Ahead {
    /// A ring.
    slots: [SlotId; VICTIMS_AHEAD],
    first: usize,
    len: usize,
}

impl Ahead {
    fn get(&self, i: usize) -> SlotId {
        self.slots[(self.first + i) % VICTIMS_AHEAD]
    }

    /// Asks the memory for what the victims after this one will need: of one that comes soon what its
    /// slot tells, of a later one its slot, and the links that lead to the one after it.
    pub fn prefetch_after(&mut self, victim: SlotId, slots: &[Slot], links: &Links, index: &Index) {
        // What was used or erased meanwhile is no victim any more.
        while self.len > 0 {
            let next = self.get(0);
            (self.first, self.len) = ((self.first + 1) % VICTIMS_AHEAD, self.len - 1);
            if next == victim {
                break;
            }
        }
        let mut last = self.len.checked_sub(1).map_or(victim, |last| self.get(last));
        // One for the one that goes, and one more until there are enough.
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
            // Its name is not looked at; its buffer is given back.
            slot.packet.prefetch(0);
        }
    }
}

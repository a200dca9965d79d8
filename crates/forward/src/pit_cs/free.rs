//! Free slots. Those that came back lately are taken first, in the order in which they came.
//!
//! Entries mostly end in the order in which they began: answers come after about the same time, and the content store
//! evicts what came first. So entries that begin one after the other have neighboring slots, and still have them when their
//! slots were used often. If the slot that came back last were taken first, each batch of ends and beginnings would turn
//! the order around, and all orders would be lost in time.
//!
//! Only so many slots wait for their turn as fit in a near cache. The others are taken only if none of these is left.

use std::collections::VecDeque;

use super::SlotId;

/// Slots that wait for their turn.
const RECENT_MAX: usize = 512;

/// The free slots of a table.
#[derive(Default)]
pub struct FreeSlots {
    /// The first came back first.
    recent: VecDeque<SlotId>,
    /// The last is taken first.
    rest: Vec<SlotId>,
}

impl FreeSlots {
    /// The slots below this number: the lowest is taken first.
    pub fn below(slots: usize) -> Self {
        FreeSlots { recent: VecDeque::new(), rest: (0..slots as SlotId).rev().collect() }
    }

    /// Notes that a slot is free.
    pub fn push(&mut self, slot: SlotId) {
        if self.recent.len() == RECENT_MAX {
            self.rest.extend(self.recent.pop_front());
        }
        self.recent.push_back(slot);
    }

    /// Takes a slot, if one is free.
    pub fn pop(&mut self) -> Option<SlotId> {
        self.recent.pop_front().or_else(|| self.rest.pop())
    }

    /// The slot that is taken after `others` others, if there are as many.
    pub fn after(&self, others: usize) -> Option<SlotId> {
        let of_rest = || self.rest.get(self.rest.len().checked_sub(1 + others - self.recent.len())?);
        self.recent.get(others).or_else(of_rest).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_taken_in_the_order_in_which_they_came_back() {
        let mut free = FreeSlots::below(100);
        let mut taken: Vec<SlotId> = std::iter::from_fn(|| free.pop()).collect();
        assert!(taken.iter().copied().eq(0..100));
        // However many ends and beginnings come at a time, the order stays.
        for batch in (1..=100).chain([7; 50]) {
            taken.drain(..batch).for_each(|slot| free.push(slot));
            taken.extend((0..batch).map_while(|_| free.pop()));
            let first = taken[0];
            assert!(taken.iter().copied().eq((0..100).map(|i| (first + i) % 100)), "{batch}: {taken:?}");
        }
    }

    #[test]
    fn slots_that_are_too_many_come_last_and_none_is_lost() {
        let count = 3 * RECENT_MAX;
        let mut free = FreeSlots::default();
        (0..count as SlotId).for_each(|slot| free.push(slot));
        let expected: Vec<Option<SlotId>> = (0..=count).map(|others| free.after(others)).collect();
        let taken: Vec<Option<SlotId>> = (0..=count).map(|_| free.pop()).collect();
        assert_eq!(taken, expected);
        assert_eq!((taken[0], taken[RECENT_MAX], taken[count]), (Some(1024), Some(1023), None));
        let mut all: Vec<SlotId> = taken.into_iter().flatten().collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..count as SlotId));
    }
}

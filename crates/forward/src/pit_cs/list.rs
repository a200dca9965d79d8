//! Doubly linked lists of slots. One array has the links of all lists.

use byname_lookup::{memory, prefetch};

/// No slot.
const NONE: u32 = u32::MAX;

/// Links of all slots; a slot is in at most one list.
#[derive(Default)]
pub struct Links {
    /// Pairs of the next slot towards the front and the next towards the back.
    links: Vec<(u32, u32)>,
}

impl Links {
    /// Prefetches the links of a slot.
    pub fn prefetch(&self, slot: u32) {
        if let Some(links) = self.links.get(slot as usize) {
            prefetch::read_soon(links);
        }
    }

    /// Prefetches the links beside a slot, which its removal changes.
    pub fn prefetch_neighbors(&self, slot: u32) {
        if let Some(&(front, back)) = self.links.get(slot as usize) {
            self.prefetch(front);
            self.prefetch(back);
        }
    }

    /// Makes room for this many slots.
    pub fn make_room(&mut self, slots: usize) {
        if self.links.len() < slots {
            memory::reserve(&mut self.links, slots);
            self.links.resize(slots, (NONE, NONE));
        }
    }

    /// The slot before this one in its list, towards the front.
    pub fn before(&self, slot: u32) -> Option<u32> {
        Some(self.links[slot as usize].0).filter(|&front| front != NONE)
    }
}

/// One list.
#[derive(Clone, Copy)]
pub struct List {
    front: u32,
    back: u32,
    len: usize,
}

impl Default for List {
    fn default() -> Self {
        List { front: NONE, back: NONE, len: 0 }
    }
}

impl List {
    /// Number of slots in the list.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The slot at the front.
    pub fn front(&self) -> Option<u32> {
        (self.front != NONE).then_some(self.front)
    }

    /// The slot at the back.
    pub fn back(&self) -> Option<u32> {
        (self.back != NONE).then_some(self.back)
    }

    /// All slots, from the front to the back.
    pub fn slots<'a>(&self, links: &'a Links) -> impl Iterator<Item = u32> + 'a {
        let behind = |slot: u32| Some(links.links[slot as usize].1).filter(|&back| back != NONE);
        std::iter::successors(Some(self.front).filter(|&front| front != NONE), move |&slot| behind(slot))
    }

    /// Adds a slot at the front. It must not be in any list.
    pub fn push_front(&mut self, links: &mut Links, slot: u32) {
        links.make_room(slot as usize + 1);
        links.links[slot as usize] = (NONE, self.front);
        if self.front != NONE {
            links.links[self.front as usize].0 = slot;
        } else {
            self.back = slot;
        }
        self.front = slot;
        self.len += 1;
    }

    /// Adds a slot at the back. It must not be in any list.
    pub fn push_back(&mut self, links: &mut Links, slot: u32) {
        links.make_room(slot as usize + 1);
        links.links[slot as usize] = (self.back, NONE);
        if self.back != NONE {
            links.links[self.back as usize].1 = slot;
        } else {
            self.front = slot;
        }
        self.back = slot;
        self.len += 1;
    }

    /// Removes a slot, which must be in this list.
    pub fn remove(&mut self, links: &mut Links, slot: u32) {
        let (prev, next) = links.links[slot as usize];
        if prev != NONE {
            links.links[prev as usize].1 = next;
        } else {
            debug_assert_eq!(self.front, slot);
            self.front = next;
        }
        if next != NONE {
            links.links[next as usize].0 = prev;
        } else {
            debug_assert_eq!(self.back, slot);
            self.back = prev;
        }
        self.len -= 1;
    }
}

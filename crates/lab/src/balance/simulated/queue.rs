//! Rings between two simulated cores.

use std::collections::VecDeque;

use byname_forward::FaceId;
use byname_forward::seat::Shares;

/// Time of an item that the consumer cannot see yet.
const LATER: u64 = u64::MAX;

/// A bounded ring in virtual time. The consumer sees an item from the moment at which its round ended.
pub struct Queue<T> {
    /// Items, each with the time from which the consumer sees it.
    items: VecDeque<(u64, T)>,
    published: usize,
    capacity: usize,
    /// Largest number of items so far.
    pub depth_max: usize,
}

impl<T> Queue<T> {
    pub fn new(capacity: usize) -> Self {
        Queue { items: VecDeque::new(), published: 0, capacity, depth_max: 0 }
    }

    /// Adds an item. Returns false if the ring is full.
    pub fn push(&mut self, item: T) -> bool {
        let has_room = self.items.len() < self.capacity;
        if has_room {
            self.items.push_back((LATER, item));
            self.depth_max = self.depth_max.max(self.items.len());
        }
        has_room
    }

    /// Lets the consumer see all items from `at` on. Returns whether there were new ones.
    pub fn publish(&mut self, at: u64) -> bool {
        let new = self.published < self.items.len();
        self.items.range_mut(self.published..).for_each(|(from, _)| *from = at);
        self.published = self.items.len();
        new
    }

    /// Takes the first item that the consumer sees at `now`.
    pub fn pop(&mut self, now: u64) -> Option<T> {
        let (from, _) = self.items.front()?;
        if *from > now {
            return None;
        }
        self.published -= 1;
        self.items.pop_front().map(|(_, item)| item)
    }

    /// The time from which the consumer sees the first item.
    pub fn next_at(&self) -> Option<u64> {
        self.items.front().map(|(from, _)| *from).filter(|from| *from != LATER)
    }

    pub fn depth(&self) -> usize {
        self.items.len()
    }

    fn is_half_full(&self) -> bool {
        self.items.len() >= self.capacity.div_ceil(2)
    }
}

/// Decides what goes into a ring that fills, as a link of [`byname_forward::seat`] does, by the same shares of faces.
pub struct Gate {
    /// The round in which it last looked at the ring.
    looked_in: u64,
    fills: bool,
    shares: Shares,
}

impl Gate {
    pub fn new(capacity: usize) -> Self {
        Gate { looked_in: 0, fills: false, shares: Shares::new(capacity) }
    }

    /// Pushes a packet of this face in this round, if it may go in and there is room.
    pub fn push<T>(&mut self, round: u64, queue: &mut Queue<T>, face: FaceId, is_further_copy: bool, item: T) -> bool {
        let is_half_full = queue.is_half_full();
        if self.looked_in != round && !is_half_full {
            self.fills = false;
            self.shares.clear();
        }
        self.looked_in = round;
        self.fills |= is_half_full;
        (!self.fills || (!is_further_copy && self.shares.take(face, face))) && queue.push(item)
    }
}

//! Maps the first prefix of an edge to the node at the edge's end.
//!
//! Open addressing, with one array for each of 64 shards, so that growth moves only one shard at a
//! time. A slot holds 32 bits of the prefix's hash and the node. The caller compares the node's
//! name to tell whether it is the right one.

use super::NodeId;
use crate::prefetch;

const SHARDS: usize = 64;
const CAPACITY_MIN: usize = 8;

/// `hash << 32 | node + 1`, or zero if empty.
type Slot = u64;

fn node_of(slot: Slot) -> NodeId {
    NodeId(slot as u32 - 1)
}

struct Shard {
    slots: Box<[Slot]>,
    used: usize,
}

impl Shard {
    fn new(capacity: usize) -> Self {
        Shard { slots: vec![0; capacity].into(), used: 0 }
    }

    /// The slot at which probes for a hash begin. The upper bits decide, which keeps the order by hash.
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.slots.len() as u64) >> 32) as usize
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    fn add(&mut self, slot: Slot) {
        let mut at = self.home((slot >> 32) as u32);
        while self.slots[at] != 0 {
            at = self.next(at);
        }
        self.slots[at] = slot;
        self.used += 1;
    }

    /// Places with this hash.
    fn matches(&self, hash: u32) -> impl Iterator<Item = usize> {
        let mut at = self.home(hash);
        std::iter::from_fn(move || {
            let here = at;
            at = self.next(at);
            (self.slots[here] != 0).then_some(here)
        })
        .filter(move |&at| (self.slots[at] >> 32) as u32 == hash)
    }

    /// Closes the gap, because probes would otherwise end at it.
    fn remove(&mut self, mut gap: usize) {
        self.used -= 1;
        let mut at = gap;
        loop {
            at = self.next(at);
            if self.slots[at] == 0 {
                break;
            }
            let home = self.home((self.slots[at] >> 32) as u32);
            // Whether the gap lies between `home` and `at`, if necessary around the end.
            let stays = if gap <= at { gap < home && home <= at } else { gap < home || home <= at };
            if !stays {
                self.slots[gap] = self.slots[at];
                gap = at;
            }
        }
        self.slots[gap] = 0;
    }

    fn grow(&mut self) {
        let larger = Shard::new(self.slots.len() * 5 / 4);
        let old = std::mem::replace(self, larger);
        for &slot in old.slots.iter().filter(|&&slot| slot != 0) {
            self.add(slot);
        }
    }
}

/// The map.
pub(super) struct Edges(Box<[Shard]>);

impl Edges {
    pub(super) fn new() -> Self {
        Edges((0..SHARDS).map(|_| Shard::new(CAPACITY_MIN)).collect())
    }

    fn shard(hash: u64) -> usize {
        (hash >> 58) as usize
    }

    /// Prefetches the slots of a prefix ahead of [`Edges::find`].
    pub(super) fn prefetch(&self, hash: u64) {
        let shard = &self.0[Self::shard(hash)];
        prefetch::read(&shard.slots[shard.home(hash as u32)]);
    }

    /// The first node with this hash, whether it is the right one or not. Used for prefetching.
    pub(super) fn likely(&self, hash: u64) -> Option<NodeId> {
        let shard = &self.0[Self::shard(hash)];
        shard.matches(hash as u32).next().map(|at| node_of(shard.slots[at]))
    }

    /// The node whose edge begins with the prefix of this hash. `is_it` compares names.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(NodeId) -> bool) -> Option<NodeId> {
        let shard = &self.0[Self::shard(hash)];
        shard.matches(hash as u32).map(|at| node_of(shard.slots[at])).find(|&node| is_it(node))
    }

    /// Adds an edge, which must not exist.
    pub(super) fn add(&mut self, hash: u64, node: NodeId) {
        let shard = &mut self.0[Self::shard(hash)];
        if (shard.used + 1) * 5 > shard.slots.len() * 4 {
            shard.grow();
        }
        shard.add(hash << 32 | u64::from(node.0 + 1));
    }

    /// Makes the edge that ends at `old` end at `new`.
    ///
    /// # Panics
    /// If there is no such edge.
    pub(super) fn replace(&mut self, hash: u64, old: NodeId, new: NodeId) {
        let shard = &mut self.0[Self::shard(hash)];
        let at = shard.matches(hash as u32).find(|&at| node_of(shard.slots[at]) == old);
        shard.slots[at.expect("the edge is there")] = hash << 32 | u64::from(new.0 + 1);
    }

    /// Removes the edge to `node`.
    ///
    /// # Panics
    /// If there is no such edge.
    pub(super) fn remove(&mut self, hash: u64, node: NodeId) {
        let shard = &mut self.0[Self::shard(hash)];
        let at = shard.matches(hash as u32).find(|&at| node_of(shard.slots[at]) == node);
        let at = at.expect("the edge is there");
        shard.remove(at);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.iter().map(|shard| size_of_val(&*shard.slots) + size_of::<Shard>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_list_under_random_changes() {
        let (mut edges, mut list) = (Edges::new(), Vec::<(u64, NodeId)>::new());
        let mut state = 9u64;
        for i in 0..20_000u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Few distinct upper bits, so that probes collide.
            let hash = (state >> 60 << 58) | (state >> 40 & 0x3f) << 26;
            if state >> 20 & 3 != 0 || list.is_empty() {
                edges.add(hash, NodeId(i));
                list.push((hash, NodeId(i)));
            } else {
                let at = (state >> 7) as usize % list.len();
                let (hash, node) = list.swap_remove(at);
                edges.replace(hash, node, NodeId(1 << 30));
                edges.remove(hash, NodeId(1 << 30));
                assert_eq!(edges.find(hash, |found| found == node), None);
            }
            if i % 500 == 0 {
                for &(hash, node) in &list {
                    assert_eq!(edges.find(hash, |found| found == node), Some(node));
                }
            }
        }
        assert!(edges.memory_bytes() < 64 * 1024 + list.len() * 24);
    }
}

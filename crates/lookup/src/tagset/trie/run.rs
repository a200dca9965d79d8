//! A trie in two vectors. Only its entries change.

use byname_wire::Filter;

use super::build::Item;
use super::node::{END, Node};
use super::order::{Key, Order};
use super::{Layout, NO_ENTRY};
use crate::entry::EntryId;
use crate::memory::{Line, Lines};
use crate::sync::{AtomicU64, Ordering};

/// A descriptor's entry and identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leaf {
    /// `None` if the descriptor was removed.
    pub(super) entry: Option<EntryId>,
    /// A keyed hash of its tags.
    pub(super) print: u64,
}

/// The part that readers walk.
pub(super) struct Run {
    pub(super) order: Order,
    pub(super) layout: Layout,
    /// Eight nodes in each line; the root comes first.
    pub(super) nodes: Lines,
    /// In half words: for each descriptor its entry, then the positions of its chain, four in a
    /// half word, padded with [`END`].
    pub(super) tails: Lines,
    /// Number of nodes; the rest of the last line is padding.
    pub(super) nodes_used: usize,
    /// Number of descriptors when it was made.
    pub(super) descriptors: usize,
}

/// The writer's additional data about the same descriptors, in the order of their tails.
pub(super) struct Leaves {
    pub(super) places: Vec<u32>,
    pub(super) prints: Box<[AtomicU64]>,
}

impl Leaves {
    /// The hash of the descriptor whose tail is at `place`.
    pub(super) fn print(&self, place: u32) -> &AtomicU64 {
        let number = self.places.binary_search(&place).expect("places come from the trie that was made with these");
        &self.prints[number]
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.places) + size_of_val(&*self.prints)
    }
}

impl Run {
    #[inline(always)]
    pub(super) fn node(&self, at: u32) -> Node {
        Node::from_word(self.nodes[at as usize / 8].0[at as usize % 8].load(Ordering::Relaxed))
    }

    /// The cache line of a node.
    #[inline(always)]
    pub(super) fn line(&self, at: u32) -> &Line {
        &self.nodes[at as usize / 8]
    }

    #[inline(always)]
    pub(super) fn half(&self, place: u32) -> u32 {
        let word = self.tails[place as usize / 16].0[place as usize / 2 % 8].load(Ordering::Acquire);
        (word >> (32 * (place % 2))) as u32
    }

    /// The entry at `place`. `None` if it was removed.
    #[inline(always)]
    pub(super) fn entry(&self, place: u32) -> Option<EntryId> {
        Some(EntryId(self.half(place))).filter(|entry| entry.0 != NO_ENTRY)
    }

    /// Replaces the entry at `place`. For the one writer.
    pub(super) fn set_entry(&self, place: u32, entry: Option<EntryId>) {
        let word = &self.tails[place as usize / 16].0[place as usize / 2 % 8];
        let (shift, entry) = (32 * (place % 2), entry.map_or(NO_ENTRY, |entry| entry.0));
        let other = word.load(Ordering::Relaxed) & !(u64::from(u32::MAX) << shift);
        // Release: a reader of the entry sees what was written for it before.
        word.store(other | u64::from(entry) << shift, Ordering::Release);
    }

    /// The `len` positions of a chain.
    fn chain(&self, place: u32, len: usize) -> impl Iterator<Item = u8> {
        (0..len.div_ceil(4)).flat_map(move |i| self.half(place + 1 + i as u32).to_le_bytes()).take(len)
    }

    /// The place of a filter's entry, removed or not.
    pub(super) fn find(&self, filter: Filter) -> Option<u32> {
        let key = self.order.key(filter);
        let weight = usize::from(key.weight());
        let (mut at, mut depth, mut from) = (1, 0, 0);
        if self.descriptors == 0 {
            return None;
        }
        loop {
            let wanted = key.next(from);
            let node = self.siblings(at).find(|node| self.leads_to(*node, key, wanted, weight - depth))?;
            if node.is_terminator() {
                return Some(node.place());
            }
            (at, depth, from) = (node.place(), depth + 1, wanted + 1);
        }
    }

    /// Whether a node is the key's next one: for position `wanted`, with `rest` positions
    /// remaining.
    fn leads_to(&self, node: Node, key: Key, wanted: u8, rest: usize) -> bool {
        let position = node.position();
        if !node.is_terminator() {
            return position == wanted;
        }
        if node.max() != u32::from(key.weight()) || (position != END && position != wanted) {
            return false;
        }
        // A terminator's own position is the first that remains, or it has none.
        let (chain, own) = if position == END { (rest, wanted) } else { (rest - 1, wanted + 1) };
        self.chain(node.place(), chain).eq(key.rest(own))
    }

    fn siblings(&self, first: u32) -> impl Iterator<Item = Node> {
        let mut next = Some(first);
        std::iter::from_fn(move || {
            let at = next?;
            let node = self.node(at);
            next = (!node.is_last()).then_some(at + 1);
            Some(node)
        })
    }

    /// Calls `visit` with every descriptor that was not removed.
    pub(super) fn for_each(&self, leaves: &Leaves, visit: &mut dyn FnMut(Item)) {
        if self.descriptors > 0 {
            let (mut number, mut path) = (0, Vec::new());
            self.for_each_below(1, &mut path, &mut |place, filter| {
                debug_assert_eq!(leaves.places[number], place);
                let print = leaves.prints[number].load(Ordering::Relaxed);
                number += 1;
                if let Some(entry) = self.entry(place) {
                    visit(Item { filter, leaf: Leaf { entry: Some(entry), print } });
                }
            });
        }
    }

    /// Visits in the order in which tails were laid out: those of a list first.
    fn for_each_below(&self, list: u32, path: &mut Vec<u8>, visit: &mut dyn FnMut(u32, Filter)) {
        let siblings: Vec<_> = self.siblings(list).collect();
        for node in siblings.iter().filter(|node| node.is_terminator()) {
            let own = Some(node.position()).filter(|&position| position != END);
            let chain = node.max() as usize - path.len() - usize::from(own.is_some());
            let positions = path.iter().copied().chain(own).chain(self.chain(node.place(), chain));
            visit(node.place(), self.order.filter(positions));
        }
        for turn in 0..siblings.len() {
            let is_forward = self.layout == Layout::SiblingOrder;
            let node = siblings[if is_forward { turn } else { siblings.len() - 1 - turn }];
            if !node.is_terminator() {
                path.push(node.position());
                self.for_each_below(node.place(), path, visit);
                path.pop();
            }
        }
    }

    /// Memory of the vectors.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + (self.nodes.len() + self.tails.len()) * size_of::<Line>()
    }
}

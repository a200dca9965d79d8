//! Finds Data by a prefix of its name, with a tree of components over the content store.
//!
//! [So] matches full names only, but any Data below its name may answer an Interest with CanBePrefix. Each Data packet
//! has a node for its full name. The parent of a node is the node for one component less, up to the root. Data with
//! similar names mostly shares parents. So an insertion adds one or two nodes and stops at the first existing one.
//!
//! Nodes are found by the keyed hash of their name. Names are not compared here: the caller compares the name of the
//! Data that it gets. So two names with the same 64-bit hash can hide Data from such an Interest, but never cause a
//! wrong answer.
//!
//! Names without common parents cost one node for each component, which is more than the rest of caching them costs. So
//! the tree exists only while Interests ask by prefix. The first such Interest has it built from the content store.
//! After a minute without one, it is dropped. It is also bounded: Data that needs more nodes than are left is not found
//! by prefix, only by its name.

use std::time::Duration;

use byname_wire::NameView;

use crate::by_hash::ByHash;
use crate::ticks::Ticks;

/// No node or no slot.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    hash: u64,
    parent: u32,
    first_child: u32,
    prev_sibling: u32,
    next_sibling: u32,
    /// The Data with exactly this name.
    slot: u32,
}

/// How long the tree is kept after its last use.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// The tree of name prefixes.
#[derive(Default)]
pub struct PrefixIndex {
    /// The time until which the tree is kept; `None` if there is no tree.
    kept_until: Option<Ticks>,
    /// Number of trees so far: it distinguishes nodes of earlier trees.
    tree: u32,
    by_hash: ByHash<u32>,
    nodes: Vec<Node>,
    free: Vec<u32>,
}

/// A node, by which its Data is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeId {
    tree: u32,
    node: u32,
}

impl NodeId {
    /// The node of Data that was added while there was no tree.
    pub const NONE: NodeId = NodeId { tree: 0, node: NONE };
}

impl PrefixIndex {
    /// Whether there is a tree.
    pub fn is_kept(&self) -> bool {
        self.kept_until.is_some()
    }

    /// An Interest asks by prefix: keeps the tree for a while. Returns true if the tree is new, and then the caller
    /// must insert all stored Data.
    pub fn keep(&mut self, now: Ticks) -> bool {
        let begins = self.kept_until.is_none();
        self.kept_until = Some(now + KEPT_FOR);
        self.tree = self.tree.wrapping_add(u32::from(begins));
        begins
    }

    /// Drops a tree that was not used for a while.
    pub fn drop_unused(&mut self, now: Ticks) {
        if self.kept_until.is_some_and(|until| now > until) {
            *self = PrefixIndex { tree: self.tree, ..Default::default() };
        }
    }

    /// Number of nodes.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.by_hash.len()
    }

    /// Adds the Data in `slot` under its name, unless this would make more than `nodes_max` nodes. Data of the same
    /// name must have been removed before.
    pub fn insert(&mut self, name: &NameView<'_>, slot: u32, nodes_max: usize) -> NodeId {
        let mut depth = name.len();
        let nodes_left = nodes_max.saturating_sub(self.by_hash.len());
        if nodes_left <= depth {
            // Rare, so the missing nodes are counted only here.
            let known = |d: &usize| self.by_hash.contains_key(&name.hash(*d));
            let missing = (0..=depth).rev().take_while(|d| !known(d)).count();
            if missing > nodes_left {
                return NodeId::NONE;
            }
        }
        if let Some(&leaf) = self.by_hash.get(&name.hash(depth)) {
            self.nodes[leaf as usize].slot = slot;
            return NodeId { tree: self.tree, node: leaf };
        }
        let leaf = self.add(name.hash(depth), slot);
        let mut child = leaf;
        while depth > 0 {
            depth -= 1;
            let found = self.by_hash.get(&name.hash(depth)).copied();
            let parent = found.unwrap_or_else(|| self.add(name.hash(depth), NONE));
            let sibling = std::mem::replace(&mut self.nodes[parent as usize].first_child, child);
            self.nodes[child as usize].parent = parent;
            self.nodes[child as usize].next_sibling = sibling;
            if sibling != NONE {
                self.nodes[sibling as usize].prev_sibling = child;
            }
            if found.is_some() {
                break;
            }
            child = parent;
        }
        NodeId { tree: self.tree, node: leaf }
    }

    /// Removes Data from its node, and removes the nodes that are then empty.
    pub fn remove(&mut self, node: NodeId) {
        if node.tree != self.tree || node.node == NONE || !self.is_kept() {
            return;
        }
        let mut here = node.node;
        self.nodes[here as usize].slot = NONE;
        while here != NONE {
            let Node { hash, parent, first_child, prev_sibling, next_sibling, slot } = self.nodes[here as usize];
            if first_child != NONE || slot != NONE {
                return;
            }
            if next_sibling != NONE {
                self.nodes[next_sibling as usize].prev_sibling = prev_sibling;
            }
            if prev_sibling != NONE {
                self.nodes[prev_sibling as usize].next_sibling = next_sibling;
            } else if parent != NONE {
                self.nodes[parent as usize].first_child = next_sibling;
            }
            self.by_hash.remove(&hash);
            self.free.push(here);
            here = parent;
        }
    }

    /// Offers the Data at and below the name with this hash to `wanted`, newest branches first, and returns the first
    /// accepted. Visits at most `nodes_max` nodes.
    pub fn find(&self, hash: u64, nodes_max: usize, mut wanted: impl FnMut(u32) -> bool) -> Option<u32> {
        let top = *self.by_hash.get(&hash)?;
        let mut here = top;
        for _ in 0..nodes_max {
            let node = self.nodes[here as usize];
            if node.slot != NONE && wanted(node.slot) {
                return Some(node.slot);
            }
            here = node.first_child;
            if here == NONE {
                here = self.after_subtree(top, node)?;
            }
        }
        None
    }

    /// The next node in depth-first order that is below `top` but not below `node`.
    fn after_subtree(&self, top: u32, node: Node) -> Option<u32> {
        let top_hash = self.nodes[top as usize].hash;
        let mut node = node;
        loop {
            if node.hash == top_hash {
                return None;
            }
            if node.next_sibling != NONE {
                return Some(node.next_sibling);
            }
            node = self.nodes[node.parent as usize];
        }
    }

    fn add(&mut self, hash: u64, slot: u32) -> u32 {
        let node = Node { hash, parent: NONE, first_child: NONE, prev_sibling: NONE, next_sibling: NONE, slot };
        let id = match self.free.pop() {
            Some(id) => {
                self.nodes[id as usize] = node;
                id
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        self.by_hash.insert(hash, id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byname_wire::{Name, NameHashKey, PrefixHashes};

    const KEY: NameHashKey = NameHashKey::new([1, 2]);

    fn below(index: &PrefixIndex, uri: &str) -> Vec<u32> {
        let name: Name = uri.parse().expect("a name");
        let mut seen = Vec::new();
        index.find(byname_wire::name_hash::hash_name(&KEY, name.as_ref()), 1000, |s| {
            seen.push(s);
            false
        });
        seen.sort_unstable();
        seen
    }

    #[test]
    fn data_is_found_below_each_prefix_until_removed() {
        let mut index = PrefixIndex::default();
        assert!(index.keep(Ticks(0)) && !index.keep(Ticks(0)));
        let mut prefixes = PrefixHashes::default();
        let nodes: Vec<NodeId> = ["/a/b/c", "/a/b/d", "/a/b", "/x", "/a/b/c/d/e"]
            .iter()
            .enumerate()
            .map(|(slot, uri)| {
                let name: Name = uri.parse().expect("a name");
                index.insert(&NameView::new(&KEY, name.as_ref(), &mut prefixes), slot as u32, 100)
            })
            .collect();
        assert_eq!(below(&index, "/"), [0, 1, 2, 3, 4]);
        assert_eq!(below(&index, "/a"), [0, 1, 2, 4]);
        assert_eq!(below(&index, "/a/b/c"), [0, 4]);
        assert_eq!(below(&index, "/a/b/c/d"), [4]);
        assert_eq!(below(&index, "/y"), []);
        index.remove(nodes[4]);
        assert_eq!(below(&index, "/a/b/c/d"), []);
        assert_eq!(below(&index, "/a"), [0, 1, 2]);
        for node in [0, 2, 3, 1] {
            index.remove(nodes[node]);
        }
        assert_eq!(below(&index, "/"), []);
        assert!(index.by_hash.is_empty());
        assert_eq!(index.free.len(), index.nodes.len());
    }

    #[test]
    fn an_unused_tree_is_dropped_with_its_nodes() {
        let mut index = PrefixIndex::default();
        let mut prefixes = PrefixHashes::default();
        index.keep(Ticks(0));
        let name: Name = "/a/b".parse().expect("a name");
        let node = index.insert(&NameView::new(&KEY, name.as_ref(), &mut prefixes), 1, 100);
        index.drop_unused(Ticks::from_ms(59_000));
        assert_eq!(below(&index, "/a"), [1]);
        index.drop_unused(Ticks::from_ms(61_000));
        assert!(!index.is_kept());
        assert_eq!(below(&index, "/a"), []);
        assert!(index.keep(Ticks::from_ms(62_000)));
        index.remove(node);
        let again = index.insert(&NameView::new(&KEY, name.as_ref(), &mut prefixes), 2, 100);
        index.remove(node);
        assert_eq!(below(&index, "/a"), [2], "a node of the old tree is no node of the new");
        index.remove(again);
        assert_eq!(below(&index, "/a"), []);
    }
}

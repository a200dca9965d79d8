//! The compacted component trie, as the control half keeps it: rules, branches, whole names.

use byname_wire::{NameRef, NameView};

use super::NodeId;
use super::edges::Edges;
use super::names::{NameAt, Names};
use super::table::Key;
use super::word::Answer;
use crate::entry::EntryId;
use crate::prefetch;

/// No node: the end of a list, or what is above the root.
const NONE: NodeId = NodeId(u32::MAX);
/// Nodes in a chunk.
const CHUNK: usize = 1 << 12;
pub(super) const ROOT: NodeId = NodeId(0);

/// A rule, or a prefix below which rules branch, or `/`.
#[derive(Clone, Copy)]
pub(super) struct Node {
    name: NameAt,
    /// Of the handle.
    tag: u16,
    depth: u8,
    /// Depth of the handle: the fattest on the edge that ends here.
    handle: u8,
    /// Of the handle.
    hash: u64,
    parent: NodeId,
    /// The rule's entry plus one; zero: a branch without a rule.
    rule: u32,
    children: u32,
    /// All children, by exclusive or: of one child, itself.
    children_xor: u32,
    /// Children without rules, which inherit what changes here: the first of a list.
    unruled: NodeId,
    next_unruled: NodeId,
    previous_unruled: NodeId,
}

impl Node {
    pub(super) fn rule(&self) -> Option<EntryId> {
        self.rule.checked_sub(1).map(EntryId)
    }
    pub(super) fn children(&self) -> usize {
        self.children as usize
    }
    pub(super) fn parent(&self) -> NodeId {
        self.parent
    }
    pub(super) fn depth(&self) -> usize {
        usize::from(self.depth)
    }
    /// What the query half knows its entry by.
    pub(super) fn key(&self) -> Key {
        let (handle, extent) = (self.handle.into(), usize::from(self.depth - self.handle));
        Key { handle, hash: self.hash, tag: self.tag, extent }
    }
}

/// Where a name is, or would be, in the trie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spot {
    /// A node has this name.
    At(NodeId),
    /// No edge below this node leads there.
    Below(NodeId),
    /// It leaves the edge that ends at `child` at a depth between the edge's ends, or ends there.
    Within { child: NodeId, depth: usize },
}

/// The trie.
pub(super) struct Trie {
    nodes: Vec<Box<[Node]>>,
    /// Nodes in use or free: the next one is new.
    unused: u32,
    free: Vec<NodeId>,
    names: Names,
    edges: Edges,
}

/// The name store or the node ids are used up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TrieFull;

impl Trie {
    pub(super) fn new() -> Self {
        let mut trie =
            Trie { nodes: Vec::new(), unused: 0, free: Vec::new(), names: Names::default(), edges: Edges::new() };
        let root = trie.add(NameRef::ROOT, 0, NONE, None).expect("an empty trie has room");
        debug_assert_eq!(root, ROOT);
        trie
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize / CHUNK][id.0 as usize % CHUNK]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize / CHUNK][id.0 as usize % CHUNK]
    }

    /// Ids of nodes are below this.
    pub(super) fn ids(&self) -> usize {
        self.unused as usize
    }

    /// A node's name: the TLV-VALUE of a Name element.
    pub(super) fn name(&self, id: NodeId) -> &[u8] {
        self.names.get(self.node(id).name)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.nodes.len() * (CHUNK * size_of::<Node>() + size_of::<Box<[Node]>>())
            + self.free.capacity() * size_of::<NodeId>()
            + self.names.memory_bytes()
            + self.edges.memory_bytes()
    }

    /// Asks for what [`Trie::find`] of a name reads first.
    pub(super) fn prefetch(&self, view: &NameView<'_>) {
        if !view.is_empty() {
            self.edges.prefetch(view.hash(1));
        }
    }

    /// Asks for what [`Trie::find`] reads next, once the first has come: the node, if there is one.
    pub(super) fn prefetch_node(&self, view: &NameView<'_>) {
        if !view.is_empty()
            && let Some(node) = self.edges.likely(view.hash(1))
        {
            prefetch::read(self.node(node));
        }
    }

    /// Asks for the name of that node, once the node has come; yields the hash of its handle.
    pub(super) fn prefetch_name(&self, view: &NameView<'_>) -> Option<u64> {
        let node = if view.is_empty() { None } else { self.edges.likely(view.hash(1)) }?;
        if let Some(octet) = self.name(node).first() {
            prefetch::read(octet);
        }
        Some(self.node(node).hash)
    }

    /// Walks from the root towards `view`.
    pub(super) fn find(&self, view: &NameView<'_>) -> Spot {
        let mut at = ROOT;
        loop {
            let depth = self.node(at).depth();
            if depth == view.len() {
                return Spot::At(at);
            }
            let first = view.prefix(depth + 1);
            let is_it = |node| self.node(node).parent == at && self.name(node).starts_with(first.value());
            let Some(child) = self.edges.find(view.hash(depth + 1), is_it) else { return Spot::Below(at) };
            let shared = shared_depth(self.name(child), view, depth + 1, self.node(child).depth());
            if shared < self.node(child).depth() {
                return Spot::Within { child, depth: shared };
            }
            at = child;
        }
    }

    /// Adds a node to the arena, not yet to the trie.
    pub(super) fn add(
        &mut self,
        name: NameRef<'_>,
        depth: usize,
        parent: NodeId,
        rule: Option<EntryId>,
    ) -> Result<NodeId, TrieFull> {
        let name = self.names.add(name.value()).ok_or(TrieFull)?;
        let id = match self.free.pop() {
            Some(id) => id,
            // The last ids are not nodes: one is `NONE`, and edges store each plus one.
            None if self.unused >= NONE.0 - 1 => return Err(TrieFull),
            None => {
                self.unused += 1;
                NodeId(self.unused - 1)
            }
        };
        let node = Node {
            name,
            tag: 0,
            depth: depth as u8,
            handle: 0,
            hash: 0,
            parent,
            rule: rule.map_or(0, |entry| entry.0 + 1),
            children: 0,
            children_xor: 0,
            unruled: NONE,
            next_unruled: NONE,
            previous_unruled: NONE,
        };
        if self.nodes.len() == id.0 as usize / CHUNK {
            self.nodes.push(vec![node; CHUNK].into());
        }
        *self.node_mut(id) = node;
        Ok(id)
    }

    /// Sets where the query half finds a node.
    pub(super) fn set_key(&mut self, id: NodeId, key: Key) {
        let node = self.node_mut(id);
        (node.handle, node.hash, node.tag) = (key.handle as u8, key.hash, key.tag);
    }

    /// Sets or takes away a node's rule.
    pub(super) fn set_rule(&mut self, id: NodeId, rule: Option<EntryId>) {
        let ruled = self.node(id).rule != 0;
        if id != ROOT && ruled && rule.is_none() {
            self.link_unruled(id);
        } else if id != ROOT && !ruled && rule.is_some() {
            self.unlink_unruled(id);
        }
        self.node_mut(id).rule = rule.map_or(0, |entry| entry.0 + 1);
    }

    /// Makes `child` (whose parent field says where) a child; `first` is the hash of the prefix
    /// one component below that parent.
    pub(super) fn attach(&mut self, child: NodeId, first: u64) {
        self.edges.add(first, child);
        self.adopt(child);
    }

    /// Takes a childless node out. `first` as in [`Trie::attach`].
    pub(super) fn detach(&mut self, child: NodeId, first: u64) {
        self.edges.remove(first, child);
        self.disown(child);
        self.release(child);
    }

    /// Puts `middle` between `child` and its parent. `upper` and `lower` are the hashes of the
    /// prefixes that the two halves of the edge begin with.
    pub(super) fn split(&mut self, child: NodeId, middle: NodeId, upper: u64, lower: u64) {
        self.edges.replace(upper, child, middle);
        self.disown(child);
        self.adopt(middle);
        self.node_mut(child).parent = middle;
        self.attach(child, lower);
    }

    /// Takes out a node with one child, which takes its place: [`Trie::split`] undone.
    pub(super) fn merge(&mut self, middle: NodeId, upper: u64, lower: u64) -> NodeId {
        let child = NodeId(self.node(middle).children_xor);
        self.edges.remove(lower, child);
        self.disown(child);
        self.edges.replace(upper, middle, child);
        self.disown(middle);
        self.node_mut(child).parent = self.node(middle).parent;
        self.adopt(child);
        self.release(middle);
        child
    }

    /// The only child of a node that has one.
    pub(super) fn only_child(&self, id: NodeId) -> NodeId {
        debug_assert_eq!(self.node(id).children, 1);
        NodeId(self.node(id).children_xor)
    }

    /// Children of a node that have no rules.
    pub(super) fn unruled_children(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        let mut at = self.node(id).unruled;
        std::iter::from_fn(move || {
            let here = at;
            (here != NONE).then(|| {
                at = self.node(here).next_unruled;
                here
            })
        })
    }

    /// What names that end at a node are answered.
    pub(super) fn answer(&self, id: NodeId) -> Answer {
        let node = self.node(id);
        match node.rule() {
            Some(rule) if node.children == 0 => Answer::Leaf(rule),
            Some(rule) => Answer::Ruled(rule),
            None => self.inherited(node.parent),
        }
    }

    /// What names that end just below a node are answered.
    pub(super) fn inherited(&self, mut above: NodeId) -> Answer {
        while above != ROOT {
            let node = self.node(above);
            if let Some(rule) = node.rule() {
                return Answer::Inherited(rule, node.depth());
            }
            above = node.parent;
        }
        Answer::Bare
    }

    fn adopt(&mut self, child: NodeId) {
        let parent = self.node(child).parent;
        let node = self.node_mut(parent);
        node.children += 1;
        node.children_xor ^= child.0;
        if self.node(child).rule == 0 {
            self.link_unruled(child);
        }
    }

    fn disown(&mut self, child: NodeId) {
        if self.node(child).rule == 0 {
            self.unlink_unruled(child);
        }
        let parent = self.node(child).parent;
        let node = self.node_mut(parent);
        node.children -= 1;
        node.children_xor ^= child.0;
    }

    fn link_unruled(&mut self, child: NodeId) {
        let parent = self.node(child).parent;
        let first = std::mem::replace(&mut self.node_mut(parent).unruled, child);
        if first != NONE {
            self.node_mut(first).previous_unruled = child;
        }
        let node = self.node_mut(child);
        (node.next_unruled, node.previous_unruled) = (first, NONE);
    }

    fn unlink_unruled(&mut self, child: NodeId) {
        let Node { parent, next_unruled: next, previous_unruled: previous, .. } = *self.node(child);
        match previous {
            NONE => self.node_mut(parent).unruled = next,
            previous => self.node_mut(previous).next_unruled = next,
        }
        if next != NONE {
            self.node_mut(next).previous_unruled = previous;
        }
    }

    fn release(&mut self, id: NodeId) {
        self.names.remove(self.node(id).name);
        self.free.push(id);
    }
}

/// Components, of `from` to `up_to`, that a name of `up_to` components shares with `view`; `from` it
/// shares for sure.
fn shared_depth(name: &[u8], view: &NameView<'_>, from: usize, up_to: usize) -> usize {
    if view.name().value().starts_with(name) {
        return up_to;
    }
    let shared = name.iter().zip(view.name().value()).take_while(|(a, b)| a == b).count();
    (from..=up_to.min(view.len()))
        .take_while(|&depth| view.prefix(depth).value().len() <= shared)
        .last()
        .unwrap_or(from)
}

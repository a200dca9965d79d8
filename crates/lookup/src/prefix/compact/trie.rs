//! The compacted component trie of the control half: rules, branches, whole names.

use byname_wire::{NameRef, NameView};

use super::NodeId;
use super::edges::Edges;
use super::names::{NameAt, Names};
use super::table::Key;
use super::word::Answer;
use crate::entry::EntryId;
use crate::prefetch;

/// No node: the end of a list, or the parent of the root.
const NONE: NodeId = NodeId(u32::MAX);
/// Number of nodes in a chunk.
const CHUNK: usize = 1 << 9;
pub(super) const ROOT: NodeId = NodeId(0);

/// A rule, a prefix below which rules branch, or `/`.
#[derive(Clone, Copy)]
struct Node {
    /// Where its name is. Stored apart, because together they would need padding.
    name_unit: u32,
    name_len: u16,
    /// The handle's tag, and the part of its hash that determines the bucket and the part.
    tag: u16,
    bucket_hash: u32,
    part_hash: u8,
    depth: u8,
    /// Depth of the handle: the fattest depth on the edge that ends here.
    handle: u8,
    parent: NodeId,
    below: Below,
}

const _: () = assert!(size_of::<Node>() == 24);

/// Describes what is below a node. With [`Below::BRANCH`] it is the place of the node's [`Branch`];
/// otherwise it is the rule of a leaf, as in [`Branch::rule`].
#[derive(Clone, Copy)]
struct Below(u32);

impl Below {
    const BRANCH: u32 = 1 << 31;

    fn branch(self) -> Option<usize> {
        (self.0 & Below::BRANCH != 0).then_some((self.0 & !Below::BRANCH) as usize)
    }
}

/// The additional data of a node with rules below it or without a rule of its own.
#[derive(Clone, Copy)]
struct Branch {
    /// The rule's entry plus one, or zero for a branch without a rule.
    rule: u32,
    children: u32,
    /// The exclusive or of all children, which for an only child is the child itself.
    children_xor: u32,
    /// The first of a list of children without rules, which inherit changes of this node.
    unruled: NodeId,
    next_unruled: NodeId,
    previous_unruled: NodeId,
}

/// The place of a name in the trie, present or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spot {
    /// A node has this name.
    At(NodeId),
    /// No edge below this node leads to the name.
    Below(NodeId),
    /// The name leaves the edge that ends at `child` at a depth between the edge's ends, or ends
    /// there.
    Within { child: NodeId, depth: usize },
}

/// The trie.
pub(super) struct Trie {
    nodes: Vec<Box<[Node]>>,
    /// Number of nodes in use or free. The next id above is new.
    unused: u32,
    free: Vec<NodeId>,
    branches: Vec<Branch>,
    free_branches: Vec<u32>,
    names: Names,
    edges: Edges,
}

/// The name store is full, or all node ids are used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TrieFull;

impl Trie {
    pub(super) fn new() -> Self {
        let mut trie = Trie {
            nodes: Vec::new(),
            unused: 0,
            free: Vec::new(),
            branches: Vec::new(),
            free_branches: Vec::new(),
            names: Names::default(),
            edges: Edges::new(),
        };
        let root = trie.add(NameRef::ROOT, 0, NONE, None).expect("an empty trie has room");
        debug_assert_eq!(root, ROOT);
        trie
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize / CHUNK][id.0 as usize % CHUNK]
    }

    fn name_at(&self, id: NodeId) -> NameAt {
        let node = self.node(id);
        NameAt { unit: node.name_unit, len: node.name_len }
    }

    pub(super) fn rule(&self, id: NodeId) -> Option<EntryId> {
        let rule = self.branch(id).map_or(self.node(id).below.0, |branch| branch.rule);
        rule.checked_sub(1).map(EntryId)
    }

    pub(super) fn parent(&self, id: NodeId) -> NodeId {
        self.node(id).parent
    }

    pub(super) fn depth(&self, id: NodeId) -> usize {
        self.node(id).depth.into()
    }

    pub(super) fn children(&self, id: NodeId) -> usize {
        self.branch(id).map_or(0, |branch| branch.children as usize)
    }

    /// How the query half finds a node's entry.
    pub(super) fn key(&self, id: NodeId) -> Key {
        let node = self.node(id);
        Key {
            handle: node.handle.into(),
            hash: u64::from(node.part_hash) << 32 | u64::from(node.bucket_hash),
            tag: node.tag,
            extent: (node.depth - node.handle).into(),
        }
    }

    fn branch(&self, id: NodeId) -> Option<&Branch> {
        self.node(id).below.branch().map(|at| &self.branches[at])
    }

    /// Makes one if there is none.
    fn branch_mut(&mut self, id: NodeId) -> &mut Branch {
        let below = self.node(id).below;
        let at = below.branch().unwrap_or_else(|| {
            let branch = Branch {
                rule: below.0,
                children: 0,
                children_xor: 0,
                unruled: NONE,
                next_unruled: NONE,
                previous_unruled: NONE,
            };
            let at = self.free_branches.pop().unwrap_or(self.branches.len() as u32);
            match self.branches.get_mut(at as usize) {
                Some(free) => *free = branch,
                None => self.branches.push(branch),
            }
            self.node_mut(id).below = Below(Below::BRANCH | at);
            at as usize
        });
        &mut self.branches[at]
    }

    /// Frees a node's branch when the node no longer needs one.
    fn prune(&mut self, id: NodeId) {
        if let Some(at) = self.node(id).below.branch()
            && self.branches[at].children == 0
        {
            self.node_mut(id).below = Below(self.branches[at].rule);
            self.free_branches.push(at as u32);
        }
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize / CHUNK][id.0 as usize % CHUNK]
    }

    /// All node ids are below this.
    pub(super) fn ids(&self) -> usize {
        self.unused as usize
    }

    /// A node's name: the TLV-VALUE of a Name element.
    pub(super) fn name(&self, id: NodeId) -> &[u8] {
        self.names.get(self.name_at(id))
    }

    /// All rules: the TLV-VALUE of each name, and its entry.
    pub(super) fn rules(&self) -> impl Iterator<Item = (&[u8], EntryId)> {
        let mut free = vec![false; self.ids()];
        self.free.iter().for_each(|id| free[id.0 as usize] = true);
        let used = (0..self.unused).map(NodeId).filter(move |id| !free[id.0 as usize]);
        used.filter_map(|id| Some((self.name(id), self.rule(id)?)))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.nodes.len() * (CHUNK * size_of::<Node>() + size_of::<Box<[Node]>>())
            + self.free.capacity() * size_of::<NodeId>()
            + self.branches.capacity() * size_of::<Branch>()
            + self.free_branches.capacity() * size_of::<u32>()
            + self.names.memory_bytes()
            + self.edges.memory_bytes()
    }

    /// Prefetches what [`Trie::find`] of a name reads first.
    pub(super) fn prefetch(&self, view: &NameView<'_>) {
        if !view.is_empty() {
            self.edges.prefetch(view.hash(1));
        }
    }

    /// Prefetches the memory that [`Trie::find`] reads next: the node, if there is one. The first reads have arrived.
    pub(super) fn prefetch_node(&self, view: &NameView<'_>) {
        if !view.is_empty()
            && let Some(node) = self.edges.likely(view.hash(1))
        {
            prefetch::read(self.node(node));
        }
    }

    /// Prefetches the name of that node, which has arrived, and returns the hash of its handle.
    pub(super) fn prefetch_name(&self, view: &NameView<'_>) -> Option<u64> {
        let node = if view.is_empty() { None } else { self.edges.likely(view.hash(1)) }?;
        if let Some(byte) = self.name(node).first() {
            prefetch::read(byte);
        }
        Some(self.key(node).hash)
    }

    /// Walks from the root towards `view`.
    pub(super) fn find(&self, view: &NameView<'_>) -> Spot {
        let mut at = ROOT;
        loop {
            let depth = self.depth(at);
            if depth == view.len() {
                return Spot::At(at);
            }
            let first = view.prefix(depth + 1);
            let is_it = |node| self.node(node).parent == at && self.name(node).starts_with(first.value());
            let Some(child) = self.edges.find(view.hash(depth + 1), is_it) else { return Spot::Below(at) };
            let shared = shared_depth(self.name(child), view, depth + 1, self.depth(child));
            if shared < self.depth(child) {
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
            // The last ids are not nodes: one is `NONE`, and edges store each id plus one.
            None if self.unused >= NONE.0 - 1 => return Err(TrieFull),
            None => {
                self.unused += 1;
                NodeId(self.unused - 1)
            }
        };
        let node = Node {
            name_unit: name.unit,
            name_len: name.len,
            tag: 0,
            bucket_hash: 0,
            part_hash: 0,
            depth: depth as u8,
            handle: 0,
            parent,
            below: Below(rule.map_or(0, |entry| entry.0 + 1)),
        };
        if self.nodes.len() == id.0 as usize / CHUNK {
            self.nodes.push(vec![node; CHUNK].into());
        }
        *self.node_mut(id) = node;
        Ok(id)
    }

    /// Sets how the query half finds a node.
    pub(super) fn set_key(&mut self, id: NodeId, key: Key) {
        let node = self.node_mut(id);
        (node.handle, node.tag) = (key.handle as u8, key.tag);
        (node.bucket_hash, node.part_hash) = (key.hash as u32, (key.hash >> 32) as u8);
    }

    /// Sets or removes a node's rule.
    pub(super) fn set_rule(&mut self, id: NodeId, rule: Option<EntryId>) {
        let ruled = self.rule(id).is_some();
        if id != ROOT && ruled && rule.is_none() {
            self.link_unruled(id);
        } else if id != ROOT && !ruled && rule.is_some() {
            self.unlink_unruled(id);
        }
        let rule = rule.map_or(0, |entry| entry.0 + 1);
        match self.node(id).below.branch() {
            Some(at) => self.branches[at].rule = rule,
            None => self.node_mut(id).below = Below(rule),
        }
    }

    /// Makes `child` a child of the node in its parent field. `first` is the hash of the prefix one
    /// component below that parent.
    pub(super) fn attach(&mut self, child: NodeId, first: u64) {
        self.edges.add(first, child);
        self.adopt(child);
    }

    /// Removes a node without children. `first` is as in [`Trie::attach`].
    pub(super) fn detach(&mut self, child: NodeId, first: u64) {
        self.edges.remove(first, child);
        self.disown(child);
        if self.rule(self.parent(child)).is_some() {
            self.prune(self.parent(child));
        }
        self.release(child);
    }

    /// Puts `middle` between `child` and its parent. `upper` and `lower` are the hashes of the
    /// prefixes with which the two halves of the edge begin.
    pub(super) fn split(&mut self, child: NodeId, middle: NodeId, upper: u64, lower: u64) {
        self.edges.replace(upper, child, middle);
        self.disown(child);
        self.adopt(middle);
        self.node_mut(child).parent = middle;
        self.attach(child, lower);
    }

    /// Removes a node with one child, which takes its place. Reverses [`Trie::split`].
    pub(super) fn merge(&mut self, middle: NodeId, upper: u64, lower: u64) -> NodeId {
        let child = self.only_child(middle);
        self.edges.remove(lower, child);
        self.disown(child);
        self.edges.replace(upper, middle, child);
        self.disown(middle);
        self.node_mut(child).parent = self.node(middle).parent;
        self.adopt(child);
        self.release(middle);
        child
    }

    /// The child of a node that has exactly one.
    pub(super) fn only_child(&self, id: NodeId) -> NodeId {
        let branch = self.branch(id).expect("it has a child");
        debug_assert_eq!(branch.children, 1);
        NodeId(branch.children_xor)
    }

    /// The children of a node that have no rules.
    pub(super) fn unruled_children(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        let first = self.branch(id).map(|branch| branch.unruled);
        let after = |node: &NodeId| self.branch(*node).map(|branch| branch.next_unruled).filter(|&next| next != NONE);
        std::iter::successors(first.filter(|&first| first != NONE), after)
    }

    /// The answer for names that end at a node.
    pub(super) fn answer(&self, id: NodeId) -> Answer {
        match self.rule(id) {
            Some(rule) if self.children(id) == 0 => Answer::Leaf(rule),
            Some(rule) => Answer::Ruled(rule),
            None => self.inherited(self.parent(id)),
        }
    }

    /// The answer for names that end just below a node.
    pub(super) fn inherited(&self, mut above: NodeId) -> Answer {
        while above != ROOT {
            if let Some(rule) = self.rule(above) {
                return Answer::Inherited(rule, self.depth(above));
            }
            above = self.parent(above);
        }
        Answer::Bare
    }

    fn adopt(&mut self, child: NodeId) {
        let above = self.branch_mut(self.parent(child));
        above.children += 1;
        above.children_xor ^= child.0;
        if self.rule(child).is_none() {
            self.link_unruled(child);
        }
    }

    fn disown(&mut self, child: NodeId) {
        if self.rule(child).is_none() {
            self.unlink_unruled(child);
        }
        let parent = self.parent(child);
        let above = self.branch_mut(parent);
        above.children -= 1;
        above.children_xor ^= child.0;
    }

    fn link_unruled(&mut self, child: NodeId) {
        let first = std::mem::replace(&mut self.branch_mut(self.parent(child)).unruled, child);
        if first != NONE {
            self.branch_mut(first).previous_unruled = child;
        }
        let branch = self.branch_mut(child);
        (branch.next_unruled, branch.previous_unruled) = (first, NONE);
    }

    fn unlink_unruled(&mut self, child: NodeId) {
        let Branch { next_unruled: next, previous_unruled: previous, .. } = *self.branch_mut(child);
        match previous {
            NONE => self.branch_mut(self.parent(child)).unruled = next,
            previous => self.branch_mut(previous).next_unruled = next,
        }
        if next != NONE {
            self.branch_mut(next).previous_unruled = previous;
        }
    }

    fn release(&mut self, id: NodeId) {
        self.prune(id);
        self.names.remove(self.name_at(id));
        self.free.push(id);
    }
}

/// The number of components that a name of `up_to` components shares with `view`. The caller knows
/// that it shares `from`.
pub(super) fn shared_depth(name: &[u8], view: &NameView<'_>, from: usize, up_to: usize) -> usize {
    if view.name().value().starts_with(name) {
        return up_to;
    }
    let shared = name.iter().zip(view.name().value()).take_while(|(a, b)| a == b).count();
    (from..=up_to.min(view.len()))
        .take_while(|&depth| view.prefix(depth).value().len() <= shared)
        .last()
        .unwrap_or(from)
}

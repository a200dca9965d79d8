//! A Patricia trie over the bytes of encoded names: each edge holds all bytes up to the next branch [Hasegawa, "LPM:
//! Bloom Filter, Trie-base"].
//!
//! Encoded components delimit themselves. So if a name begins with the bytes of a rule, it also begins with the
//! components of that rule. The trie needs no other structure than bytes.
//!
//! Cost: one node for each branching byte on the path, each depending on the one before.

use byname_lookup::{EntryId, PrefixMatch};
use byname_wire::{NameRef, NameView};

use super::Table;

/// The root of the trie.
#[derive(Default)]
pub struct Patricia {
    root: Node,
}

#[derive(Default)]
struct Node {
    /// Bytes on the edge to this node; empty only for the root.
    edge: Box<[u8]>,
    rule: Option<PrefixMatch>,
    /// Sorted by the first byte of each edge; these bytes differ.
    children: Vec<Node>,
}

impl Node {
    fn child(&self, rest: &[u8]) -> Result<usize, usize> {
        self.children.binary_search_by(|child| child.edge[0].cmp(&rest[0]))
    }

    fn set(&mut self, rest: &[u8], rule: PrefixMatch) {
        if rest.is_empty() {
            self.rule = Some(rule);
            return;
        }
        match self.child(rest) {
            Err(at) => self.children.insert(at, Node { edge: rest.into(), rule: Some(rule), children: Vec::new() }),
            Ok(at) => {
                let child = &mut self.children[at];
                let shared = child.edge.iter().zip(rest).take_while(|(a, b)| a == b).count();
                if shared < child.edge.len() {
                    child.split(shared);
                }
                child.set(&rest[shared..], rule);
            }
        }
    }

    /// Inserts a node on the edge to this one, after its first `bytes` bytes.
    fn split(&mut self, bytes: usize) {
        let mut lower = std::mem::take(self);
        self.edge = lower.edge[..bytes].into();
        lower.edge = lower.edge[bytes..].into();
        self.children = vec![lower];
    }

    fn remove(&mut self, rest: &[u8]) {
        if rest.is_empty() {
            self.rule = None;
            return;
        }
        let Ok(at) = self.child(rest) else { return };
        let child = &mut self.children[at];
        let Some(below) = rest.strip_prefix(&*child.edge) else { return };
        child.remove(below);
        if child.rule.is_none() && child.children.is_empty() {
            self.children.remove(at);
            self.children.shrink_to_fit();
        } else if child.rule.is_none() && child.children.len() == 1 {
            child.merge();
        }
    }

    /// Replaces this node by its only child and joins the bytes of both edges.
    fn merge(&mut self) {
        let Some(lower) = self.children.pop() else { return };
        let edge = [&*self.edge, &*lower.edge].concat();
        *self = Node { edge: edge.into(), ..lower };
    }

    fn memory_bytes(&self) -> usize {
        let children: usize = self.children.iter().map(Node::memory_bytes).sum();
        self.edge.len() + self.children.capacity() * size_of::<Node>() + children
    }
}

impl Table for Patricia {
    fn set(&mut self, rule: NameRef<'_>, entry: EntryId) {
        self.root.set(rule.value(), PrefixMatch { entry, depth: rule.len() });
    }

    fn remove(&mut self, rule: NameRef<'_>) {
        self.root.remove(rule.value());
    }

    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch> {
        let (mut node, mut rest) = (&self.root, name.name().value());
        let mut found = node.rule;
        while !rest.is_empty() {
            let Ok(at) = node.child(rest) else { break };
            node = &node.children[at];
            let Some(below) = rest.strip_prefix(&*node.edge) else { break };
            rest = below;
            found = node.rule.or(found);
        }
        found
    }

    fn memory_bytes(&self) -> usize {
        self.root.memory_bytes()
    }
}

//! A Patricia trie over the octets of encoded names: an edge holds all octets up to the next
//! branch [Hasegawa, "LPM: Bloom Filter, Trie-base"].
//!
//! Encoded components delimit themselves, so a rule whose octets a name begins with is a rule
//! whose components it begins with: the octets need no other structure.
//!
//! Cost: a node for each branching octet on the way, each depending on the one before.

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
    /// Octets on the edge to this node; none on the root's only.
    edge: Box<[u8]>,
    rule: Option<PrefixMatch>,
    /// In the order of the first octets of their edges, which differ.
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

    /// Puts a node on the edge to this one, after its first `octets`.
    fn split(&mut self, octets: usize) {
        let mut lower = std::mem::take(self);
        self.edge = lower.edge[..octets].into();
        lower.edge = lower.edge[octets..].into();
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

    /// Takes the place of its only child, with the octets of both edges.
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

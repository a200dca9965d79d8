//! A trie with one component on each edge. Each node is a map of its children.
//!
//! Cost: one map lookup for each component that the name shares with the rules, each depending on the one before.

use std::collections::HashMap;

use byname_lookup::{EntryId, PrefixMatch};
use byname_wire::{NameRef, NameView};

use super::hashmap::map_bytes;
use super::{Table, component};

/// The root of the trie.
#[derive(Default)]
pub struct ComponentTrie {
    /// Children by encoded component.
    children: HashMap<Box<[u8]>, ComponentTrie>,
    entry: Option<EntryId>,
}

impl ComponentTrie {
    /// Sets or removes the entry of a rule whose components below this node are `rest`. Drops children that no longer
    /// lead to a rule.
    fn replace(&mut self, rest: NameRef<'_>, entry: Option<EntryId>) {
        let first = rest.prefix(1).value();
        if first.is_empty() {
            self.entry = entry;
            return;
        }
        let below = NameRef::new_checked_before(&rest.value()[first.len()..]);
        if entry.is_some() {
            self.children.entry(first.into()).or_default().replace(below, entry);
        } else if let Some(child) = self.children.get_mut(first) {
            child.replace(below, None);
            if child.entry.is_none() && child.children.is_empty() {
                self.children.remove(first);
            }
        }
    }
}

impl Table for ComponentTrie {
    fn set(&mut self, rule: NameRef<'_>, entry: EntryId) {
        self.replace(rule, Some(entry));
    }

    fn remove(&mut self, rule: NameRef<'_>) {
        self.replace(rule, None);
    }

    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch> {
        let mut node = self;
        let mut found = self.entry.map(|entry| PrefixMatch { entry, depth: 0 });
        for depth in 1..=name.len() {
            let Some(child) = node.children.get(component(name, depth)) else { break };
            node = child;
            found = node.entry.map(|entry| PrefixMatch { entry, depth }).or(found);
        }
        found
    }

    fn memory_bytes(&self) -> usize {
        let below = self.children.iter().map(|(edge, child)| edge.len() + child.memory_bytes());
        map_bytes(&self.children) + below.sum::<usize>()
    }
}

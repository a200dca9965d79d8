//! Tracks which prefixes are popular as rules come and go.

use std::collections::HashMap;
use std::sync::Arc;

use byname_wire::NameView;

use super::c_trie::{CTrie, Pulled};
use crate::prefix::binary_search::Hit;

/// Counts children, and keeps the prefixes that have many.
pub(in crate::prefix) struct Pulling {
    /// Number of children beyond the first, for prefixes with more than one, by hash and depth. Two
    /// prefixes with the same hash would share a count. That only starts a search at a worse
    /// length.
    more_children: HashMap<(u64, u8), u32>,
    children: u32,
    prefixes_max: usize,
    pulled: Vec<Pulled>,
    trie: Arc<CTrie>,
}

impl Pulling {
    /// # Panics
    /// If `children` is zero.
    pub(super) fn new(children: u32, prefixes_max: usize) -> Self {
        assert!(children > 0, "a first child is not counted");
        Pulling {
            more_children: HashMap::new(),
            children,
            prefixes_max,
            pulled: Vec::new(),
            trie: Arc::new(CTrie::new(&[])),
        }
    }

    /// Number of popular prefixes.
    pub(in crate::prefix) fn len(&self) -> usize {
        self.pulled.len()
    }

    /// The trie of popular prefixes.
    pub(in crate::prefix) fn trie(&self) -> Arc<CTrie> {
        self.trie.clone()
    }

    /// Depths of the popular prefixes of `name`. `is` tells whether a hit is one.
    pub(in crate::prefix) fn above(
        &self,
        name: &NameView<'_>,
        is: impl Fn(&Hit) -> bool,
    ) -> impl Iterator<Item = usize> {
        self.trie.above(name).filter(is).map(|hit| hit.depth)
    }

    /// The first `depth` components of `name` got another child beyond the first. Returns whether
    /// that makes them popular.
    pub(in crate::prefix) fn child_came(&mut self, name: &NameView<'_>, depth: usize) -> bool {
        let more = self.more_children.entry((name.hash(depth), depth as u8)).or_default();
        *more += 1;
        *more >= self.children && self.pulled.len() < self.prefixes_max && !self.is_pulled(name, depth)
    }

    /// The first `depth` components of `name` lost a child and had at least two. Returns whether they are no longer
    /// popular.
    pub(in crate::prefix) fn child_went(&mut self, name: &NameView<'_>, depth: usize) -> bool {
        let key = (name.hash(depth), depth as u8);
        let more = self.more_children.get_mut(&key).expect("a second child was counted when it came");
        *more -= 1;
        let more = *more;
        if more == 0 {
            self.more_children.remove(&key);
        }
        more < self.children - self.children / 4 && self.is_pulled(name, depth)
    }

    /// Changes the popular prefixes.
    pub(in crate::prefix) fn change(&mut self, change: impl FnOnce(&mut Vec<Pulled>)) {
        change(&mut self.pulled);
        self.trie = Arc::new(CTrie::new(&self.pulled));
    }

    pub(in crate::prefix) fn memory_bytes(&self) -> usize {
        let hashes: usize = self.pulled.iter().map(|pulled| size_of_val(&*pulled.hashes)).sum();
        self.more_children.capacity() * size_of::<((u64, u8), u32)>()
            + self.pulled.capacity() * size_of::<Pulled>()
            + hashes
    }

    /// Whether the first `depth` components of `name` are popular, by their hash. A second prefix with the same hash does
    /// not become popular.
    fn is_pulled(&self, name: &NameView<'_>, depth: usize) -> bool {
        self.trie.above(name).any(|hit| hit.depth == depth)
    }
}

//! The C-Trie of [Yuan, Figure 12]: popular prefixes by their components.
//!
//! A node is a prefix. The step to a child is a probe, with the hash of the longer prefix, in a
//! table that is at most half full. Each name has these hashes already. The trie never changes; a
//! new one replaces it. It trusts 64 bits of hash, so the caller compares the names.

use byname_wire::NameView;

use crate::prefix::binary_search::{EntryRef, Hit};

/// A popular prefix.
#[derive(Debug, Clone)]
pub(in crate::prefix) struct Pulled {
    /// Hashes of its prefixes, from one component to all of them.
    pub(in crate::prefix) hashes: Box<[u64]>,
    /// Its marker.
    pub(in crate::prefix) hit: Hit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Node {
    None,
    /// A node on the way to popular prefixes.
    Inner,
    Popular(EntryRef),
}

/// The trie.
pub(in crate::prefix) struct CTrie {
    places: Box<[(u64, Node)]>,
}

impl CTrie {
    /// The trie of these prefixes.
    pub(super) fn new(popular: &[Pulled]) -> Self {
        let nodes: usize = popular.iter().map(|pulled| pulled.hashes.len()).sum();
        let mut trie = CTrie { places: vec![(0, Node::None); (2 * nodes).next_power_of_two()].into() };
        for pulled in popular {
            let (last, above) = pulled.hashes.split_last().expect("`/` is never popular");
            above.iter().for_each(|&hash| trie.add(hash, Node::Inner));
            trie.add(*last, Node::Popular(pulled.hit.entry));
        }
        trie
    }

    /// The popular prefixes of `name`, shortest first.
    #[inline]
    pub(super) fn above(&self, name: &NameView<'_>) -> impl Iterator<Item = Hit> {
        (1..=name.len())
            .map(|depth| (depth, self.node(name.hash(depth))))
            .take_while(|(_, node)| *node != Node::None)
            .filter_map(|(depth, node)| match node {
                Node::Popular(entry) => Some(Hit { entry, depth }),
                _ => None,
            })
    }

    /// The deepest popular prefix of `name`.
    #[inline]
    pub(in crate::prefix) fn deepest(&self, name: &NameView<'_>) -> Option<Hit> {
        self.above(name).last()
    }

    pub(in crate::prefix) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.places)
    }

    fn add(&mut self, hash: u64, node: Node) {
        let at = self.place(hash);
        if self.places[at].1 == Node::None || node != Node::Inner {
            self.places[at] = (hash, node);
        }
    }

    #[inline]
    fn node(&self, hash: u64) -> Node {
        self.places[self.place(hash)].1
    }

    /// The place of `hash`, or the free place where it would be.
    #[inline]
    fn place(&self, hash: u64) -> usize {
        let mask = self.places.len() - 1;
        let mut at = hash as usize & mask;
        while self.places[at].1 != Node::None && self.places[at].0 != hash {
            at = (at + 1) & mask;
        }
        at
    }
}

//! The keyed hash of a name and of all its prefixes, in one pass [So §2.1].
//!
//! SipHash-1-3 over the encoded components; at each component's end the state is copied and
//! finished, which costs a few rounds and reads no octet twice. The key is drawn at start, so no
//! stranger can make names collide.

use crate::name::{COMPONENTS_MAX, NameRef};

/// The secret of one forwarder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NameHashKey(pub [u64; 2]);

/// Hashes of all prefixes of one name, and where each prefix ends. Meant to be used again.
#[derive(Clone)]
pub struct PrefixHashes {
    len: usize,
    /// `end[d]`: octets of the first `d` components. `end[0] == 0`.
    end: [u16; COMPONENTS_MAX + 1],
    /// `hash[d]`: hash of the first `d` components.
    hash: [u64; COMPONENTS_MAX + 1],
}

impl Default for PrefixHashes {
    fn default() -> Self {
        PrefixHashes { len: 0, end: [0; COMPONENTS_MAX + 1], hash: [0; COMPONENTS_MAX + 1] }
    }
}

impl PrefixHashes {
    /// Hashes all prefixes of `name`.
    pub fn fill(&mut self, _key: &NameHashKey, _name: NameRef<'_>) {
        todo!()
    }
}

/// The hash of one whole name: equals `view.hash(view.len())`.
pub fn hash_name(_key: &NameHashKey, _name: NameRef<'_>) -> u64 {
    todo!()
}

/// A name with the hashes of all its prefixes: what tables look up.
#[derive(Clone, Copy)]
pub struct NameView<'a> {
    name: NameRef<'a>,
    prefixes: &'a PrefixHashes,
}

impl<'a> NameView<'a> {
    /// Fills `prefixes` from `name` and pairs them.
    pub fn new(key: &NameHashKey, name: NameRef<'a>, prefixes: &'a mut PrefixHashes) -> Self {
        prefixes.fill(key, name);
        NameView { name, prefixes }
    }
    /// Pairs a name with hashes that were filled from it before.
    ///
    /// # Panics
    /// If `prefixes` were filled from a name of another length in octets.
    pub fn from_filled(name: NameRef<'a>, prefixes: &'a PrefixHashes) -> Self {
        assert_eq!(usize::from(prefixes.end[prefixes.len]), name.value().len());
        NameView { name, prefixes }
    }
    /// The name.
    pub fn name(&self) -> NameRef<'a> {
        self.name
    }
    /// Number of components.
    pub fn len(&self) -> usize {
        self.prefixes.len
    }
    /// Whether this is `/`.
    pub fn is_empty(&self) -> bool {
        self.prefixes.len == 0
    }
    /// Hash of the first `depth` components; `depth <= len()`.
    pub fn hash(&self, depth: usize) -> u64 {
        self.prefixes.hash[depth]
    }
    /// Hash of the whole name.
    pub fn full_hash(&self) -> u64 {
        self.hash(self.len())
    }
    /// The first `depth` components; `depth <= len()`.
    pub fn prefix(&self, _depth: usize) -> NameRef<'a> {
        todo!()
    }
}

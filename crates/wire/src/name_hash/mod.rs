//! The keyed hash of a name and of all its prefixes, in one pass [So §2.1].
//!
//! The hash gives 128 bits for each prefix, in two halves. Tables take bucket indexes from one half
//! and fingerprints from the other. They compare both halves where a wrong match must be out of
//! reach. The key is drawn at start, so no stranger can make names collide.

mod aes;
mod bytes;
mod depth_set;
mod processor;
mod siphash;

pub use depth_set::{DEPTH_WORDS, DEPTHS, DepthSet};

use siphash::Wanted;

use crate::name::{self, COMPONENTS_MAX, Component, NameRef, component_type};

/// The function that hashes names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HashFunction {
    /// SipHash-1-3. It has a published security claim and the fewest rounds for hash tables.
    #[default]
    SipHash13,
    /// SipHash-2-4. Its authors advise it where digests leave the process.
    SipHash24,
    /// Four-round AES, summed over blocks. It is three times as fast with AES instructions and ten
    /// times as slow without. No cryptographer has reviewed it; `aes.rs` gives the argument and its
    /// limits.
    Aes,
}

/// The secret key of one forwarder, with its hash function.
#[derive(Clone, Copy)]
pub struct NameHashKey(Keyed, [u64; 2]);

impl PartialEq for NameHashKey {
    #[inline]
    fn eq(&self, other: &NameHashKey) -> bool {
        // The rest is made from these two.
        self.1 == other.1 && self.function() == other.function()
    }
}

impl Eq for NameHashKey {}

#[derive(Clone, Copy)]
// Keys are few and passed by reference. The larger variant is large because that makes its function
// fast.
#[allow(clippy::large_enum_variant)]
enum Keyed {
    SipHash13(siphash::SipHash<1, 3>),
    SipHash24(siphash::SipHash<2, 4>),
    Aes(aes::AesHash),
}

impl NameHashKey {
    /// A key of the default function.
    pub const fn new(secret: [u64; 2]) -> Self {
        NameHashKey(Keyed::SipHash13(siphash::SipHash::new(secret)), secret)
    }

    /// A key of `function`.
    pub fn with_function(function: HashFunction, secret: [u64; 2]) -> Self {
        let keyed = match function {
            HashFunction::SipHash13 => Keyed::SipHash13(siphash::SipHash::new(secret)),
            HashFunction::SipHash24 => Keyed::SipHash24(siphash::SipHash::new(secret)),
            HashFunction::Aes => Keyed::Aes(aes::AesHash::new(secret)),
        };
        NameHashKey(keyed, secret)
    }

    /// The function that the key is for.
    #[inline]
    pub fn function(&self) -> HashFunction {
        match self.0 {
            Keyed::SipHash13(_) => HashFunction::SipHash13,
            Keyed::SipHash24(_) => HashFunction::SipHash24,
            Keyed::Aes(_) => HashFunction::Aes,
        }
    }

    /// The secret that the key was made from, for a file that keeps a table beside its key. Anybody
    /// who knows it can make names that collide.
    pub fn secret(&self) -> [u64; 2] {
        self.1
    }
}

/// The 128-bit keyed hash of a name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct Digest {
    /// The first half. Tables find buckets with it.
    pub hash: u64,
    /// The second half. It tells apart names that share the first.
    pub check: u64,
}

/// Digests of all prefixes of one name, and where each prefix ends. Meant to be reused.
// In this field order, the ends of most names share a cache line with the fields before them, and
// each four digests from depth 1 on fill one cache line.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct PrefixHashes {
    /// The state of the hash function where hashing stopped, in a form that only the function
    /// knows.
    state: [u64; 4],
    len: usize,
    /// `end[d]` is the length of the first `d` components in bytes. `end[0] == 0`.
    end: [u16; COMPONENTS_MAX + 1],
    /// `digest[d]` is the digest of the first `d` components.
    digest: [Digest; COMPONENTS_MAX + 1],
}

const _: () = assert!((std::mem::offset_of!(PrefixHashes, digest) + size_of::<Digest>()).is_multiple_of(64));

impl Default for PrefixHashes {
    fn default() -> Self {
        PrefixHashes {
            digest: [Digest::default(); COMPONENTS_MAX + 1],
            end: [0; COMPONENTS_MAX + 1],
            len: 0,
            state: [0; 4],
        }
    }
}

impl PrefixHashes {
    /// Hashes all prefixes of `name`.
    ///
    /// # Panics
    /// If `name` was joined beyond [`COMPONENTS_MAX`] components or 65,535 bytes.
    pub fn fill(&mut self, key: &NameHashKey, name: NameRef<'_>) {
        Self::fill_burst(key, &[name], std::slice::from_mut(self));
    }

    /// Like [`PrefixHashes::fill`], with portable code. Gives the same digests, for comparison.
    pub fn fill_portable(&mut self, key: &NameHashKey, name: NameRef<'_>) {
        check_lengths(&[name]);
        match &key.0 {
            Keyed::SipHash13(function) => function.fill(name, self),
            Keyed::SipHash24(function) => function.fill(name, self),
            Keyed::Aes(function) => function.fill(name, self),
        }
    }

    /// Hashes all prefixes of each of `names` into its place in `out`. Faster than one by one.
    ///
    /// # Panics
    /// If the lengths differ, and as [`PrefixHashes::fill`].
    pub fn fill_burst(key: &NameHashKey, names: &[NameRef<'_>], out: &mut [PrefixHashes]) {
        Self::fill_burst_to(COMPONENTS_MAX, key, names, out);
    }

    /// Like [`PrefixHashes::fill_burst`], but leaves out prefixes of more than `depth_max`
    /// components. A table needs no prefix deeper than its deepest rule, and a stranger's long
    /// names then cost no more than others.
    ///
    /// # Panics
    /// As [`PrefixHashes::fill_burst`].
    pub fn fill_burst_to(depth_max: usize, key: &NameHashKey, names: &[NameRef<'_>], out: &mut [PrefixHashes]) {
        assert_eq!(names.len(), out.len());
        check_lengths(names);
        match &key.0 {
            Keyed::SipHash13(function) => function.fill_burst(depth_max, names, out),
            Keyed::SipHash24(function) => function.fill_burst(depth_max, names, out),
            Keyed::Aes(function) => function.fill_burst(depth_max, names, out),
        }
    }

    /// Like [`PrefixHashes::fill_burst`], but only some digests are certain to be right: that of
    /// the whole name, and those at the depths that `prefixes` returns for the name's number. These
    /// come for a fraction of the work.
    ///
    /// # Panics
    /// As [`PrefixHashes::fill_burst`].
    pub fn fill_burst_where(
        prefixes: impl Fn(usize) -> DepthSet,
        key: &NameHashKey,
        names: &[NameRef<'_>],
        out: &mut [PrefixHashes],
    ) {
        assert_eq!(names.len(), out.len());
        out.iter_mut().zip(names).for_each(|(out, name)| out.note_ends(*name));
        Self::fill_noted_burst_where(prefixes, key, names, out);
    }

    /// Like [`PrefixHashes::fill_burst_where`], for names whose component ends are already noted in
    /// their hashes, as [`Interest::decode_noting`] and [`Data::decode_noting`] do.
    ///
    /// # Panics
    /// As [`PrefixHashes::fill_burst`], or if the noted ends are those of another, longer name.
    ///
    /// [`Interest::decode_noting`]: crate::Interest::decode_noting
    /// [`Data::decode_noting`]: crate::Data::decode_noting
    pub fn fill_noted_burst_where(
        prefixes: impl Fn(usize) -> DepthSet,
        key: &NameHashKey,
        names: &[NameRef<'_>],
        out: &mut [PrefixHashes],
    ) {
        assert_eq!(names.len(), out.len());
        check_lengths(names);
        match &key.0 {
            Keyed::SipHash13(function) => function.fill_noted_burst_where(prefixes, names, out),
            Keyed::SipHash24(function) => function.fill_noted_burst_where(prefixes, names, out),
            // For AES, neither finding the ends nor finishing a prefix is the main cost.
            Keyed::Aes(function) => function.fill_burst(COMPONENTS_MAX, names, out),
        }
    }

    /// Notes where the components of a name end.
    pub fn note_ends(&mut self, name: NameRef<'_>) {
        let (mut at, value) = (0, name.value());
        self.note_end(0, 0);
        while at < value.len() {
            at = name::component_at(value, at).2;
            self.note_end(self.len + 1, at);
        }
    }

    /// Notes where the first `depth` components end. The caller notes depths in ascending order.
    /// Depths above [`COMPONENTS_MAX`] are ignored.
    #[inline]
    pub(crate) fn note_end(&mut self, depth: usize, end: usize) {
        if let Some(place) = self.end.get_mut(depth) {
            *place = end as u16;
            self.len = depth;
        }
    }

    /// Continues where [`PrefixHashes::fill_burst_to`] stopped, up to `depth_max` components, for
    /// the names whose indexes `which` yields.
    ///
    /// # Panics
    /// If the lengths differ, if an index is out of bounds, or if a name is shorter than its hashed
    /// part.
    pub fn go_on_burst_to(
        depth_max: usize,
        key: &NameHashKey,
        names: &[NameRef<'_>],
        out: &mut [PrefixHashes],
        mut which: impl Iterator<Item = usize>,
    ) {
        assert_eq!(names.len(), out.len());
        check_lengths(names);
        match &key.0 {
            Keyed::SipHash13(function) => function.go_on_burst(&Wanted::all_to(depth_max), names, out, &mut which),
            Keyed::SipHash24(function) => function.go_on_burst(&Wanted::all_to(depth_max), names, out, &mut which),
            Keyed::Aes(function) => function.go_on_burst(depth_max, names, out, which),
        }
    }

    /// Starts with the root as the only prefix hashed.
    fn begin(&mut self, root: Digest, state: [u64; 4]) {
        self.digest[0] = root;
        self.len = 0;
        self.state = state;
    }

    /// Length of the hashed part in bytes.
    #[inline]
    fn bytes(&self) -> usize {
        self.end[self.len].into()
    }
}

fn check_lengths(names: &[NameRef<'_>]) {
    let fit = names.iter().all(|name| name.value().len() <= usize::from(u16::MAX));
    assert!(fit, "no packet carries a name this long");
}

/// The hash of one whole name: equals `view.hash(view.len())`.
pub fn hash_name(key: &NameHashKey, name: NameRef<'_>) -> u64 {
    digest_name(key, name).hash
}

/// The digest of one whole name: equals `view.digest(view.len())`.
pub fn digest_name(key: &NameHashKey, name: NameRef<'_>) -> Digest {
    match &key.0 {
        Keyed::SipHash13(function) => function.digest(name.value()),
        Keyed::SipHash24(function) => function.digest(name.value()),
        Keyed::Aes(_) => {
            let mut prefixes = PrefixHashes::default();
            let view = NameView::new(key, name, &mut prefixes);
            view.digest(view.len())
        }
    }
}

/// A name with the hashes of all its prefixes. Tables look this up.
#[derive(Clone, Copy)]
pub struct NameView<'a> {
    name: NameRef<'a>,
    len: usize,
    prefixes: &'a PrefixHashes,
}

impl<'a> NameView<'a> {
    /// Fills `prefixes` from `name` and pairs them.
    pub fn new(key: &NameHashKey, name: NameRef<'a>, prefixes: &'a mut PrefixHashes) -> Self {
        prefixes.fill(key, name);
        NameView { name, len: prefixes.len, prefixes }
    }
    /// Pairs a name with hashes that were filled from it before. The view has as many components as
    /// were hashed.
    ///
    /// # Panics
    /// If `prefixes` were filled from a longer name.
    #[inline]
    pub fn from_filled(name: NameRef<'a>, prefixes: &'a PrefixHashes) -> Self {
        let name = NameRef::from_checked(&name.value()[..prefixes.bytes()]);
        NameView { name, len: prefixes.len, prefixes }
    }
    /// The first `depth` components, or all if there are fewer.
    #[inline]
    pub fn up_to(self, depth: usize) -> Self {
        if depth < self.len { NameView { name: self.prefix(depth), len: depth, ..self } } else { self }
    }
    /// The name.
    pub fn name(&self) -> NameRef<'a> {
        self.name
    }
    /// Number of components.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether this is `/`.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The last component; `None` for `/`.
    pub fn last(&self) -> Option<Component<'a>> {
        let start = usize::from(self.prefixes.end[self.len().checked_sub(1)?]);
        NameRef::from_checked(&self.name.value()[start..]).components().next()
    }
    /// Whether the last component is the digest of a Data packet.
    #[inline]
    pub fn ends_in_implicit_digest(&self) -> bool {
        // A type below 253 takes one byte.
        let start = self.len().checked_sub(1).map(|last| usize::from(self.prefixes.end[last]));
        start.and_then(|start| self.name.value().get(start)) == Some(&(component_type::IMPLICIT_SHA256_DIGEST as u8))
    }
    /// Digest of the first `depth` components; `depth <= len()`.
    pub fn digest(&self, depth: usize) -> Digest {
        self.prefixes.digest[depth]
    }
    /// The digest's first half.
    pub fn hash(&self, depth: usize) -> u64 {
        self.digest(depth).hash
    }
    /// The digest's second half. It is practically independent of the first.
    pub fn check(&self, depth: usize) -> u64 {
        self.digest(depth).check
    }
    /// Hash of the whole name.
    pub fn full_hash(&self) -> u64 {
        self.hash(self.len())
    }
    /// The first `depth` components; `depth <= len()`.
    pub fn prefix(&self, depth: usize) -> NameRef<'a> {
        NameRef::from_checked(&self.name.value()[..usize::from(self.prefixes.end[depth])])
    }
}

#[cfg(test)]
mod tests;

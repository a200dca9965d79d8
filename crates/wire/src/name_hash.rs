//! The keyed hash of a name and of all its prefixes, in one pass [So §2.1].
//!
//! SipHash-1-3 over the encoded components; at each component's end the state is copied and
//! finished, which costs a few rounds and reads no octet twice. The key is drawn at start, so no
//! stranger can make names collide.

use crate::name::{self, COMPONENTS_MAX, NameRef};

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
    ///
    /// # Panics
    /// If `name` was joined beyond [`COMPONENTS_MAX`] components or 65,535 octets.
    pub fn fill(&mut self, key: &NameHashKey, name: NameRef<'_>) {
        let value = name.value();
        assert!(value.len() <= usize::from(u16::MAX), "no packet carries a name this long");
        let mut words = Words::new(key, value);
        let mut len = 0;
        let mut at = 0;
        self.end[0] = 0;
        self.hash[0] = words.hash_of_first(0);
        while at < value.len() {
            at = name::component_at(value, at).2;
            len += 1;
            self.end[len] = at as u16;
            self.hash[len] = words.hash_of_first(at);
        }
        self.len = len;
    }
}

/// The hash of one whole name: equals `view.hash(view.len())`.
pub fn hash_name(key: &NameHashKey, name: NameRef<'_>) -> u64 {
    let value = name.value();
    Words::new(key, value).hash_of_first(value.len())
}

/// SipHash-1-3 over a name's octets, taken as little-endian words of eight.
///
/// Prefixes are of one buffer, so the whole words before a prefix's end are the same for all that
/// follow it; what is left is the word that the end falls into, masked.
struct Words<'a> {
    state: SipState,
    octets: &'a [u8],
    /// Octets that `state` has taken in: a multiple of eight.
    taken: usize,
    /// The word at `taken`, filled up with zeros at the end of the name.
    word: u64,
}

impl<'a> Words<'a> {
    #[inline]
    fn new(key: &NameHashKey, octets: &'a [u8]) -> Self {
        Words { state: SipState::new(key), octets, taken: 0, word: word_at(octets, 0) }
    }

    /// Hash of the first `end` octets; `end` never falls from call to call.
    #[inline]
    fn hash_of_first(&mut self, end: usize) -> u64 {
        while end - self.taken >= 8 {
            self.state.compress(self.word);
            self.taken += 8;
            self.word = word_at(self.octets, self.taken);
        }
        let left = end - self.taken;
        let mask = (1u64 << (8 * left)) - 1;
        // The length in the top octet is what SipHash prescribes; `left < 8` keeps it free.
        self.state.finish((self.word & mask) | ((end as u64) << 56))
    }
}

#[inline]
fn word_at(octets: &[u8], at: usize) -> u64 {
    let rest = octets.get(at..).unwrap_or_default();
    if let Some((word, _)) = rest.split_first_chunk::<8>() {
        return u64::from_le_bytes(*word);
    }
    rest.iter().rev().fold(0, |word, &octet| (word << 8) | u64::from(octet))
}

/// The state of SipHash-1-3 [Aumasson and Bernstein, "SipHash: a fast short-input PRF"].
#[derive(Clone, Copy)]
struct SipState {
    v: [u64; 4],
}

impl SipState {
    #[inline]
    fn new(key: &NameHashKey) -> Self {
        let [k0, k1] = key.0;
        SipState {
            v: [
                k0 ^ 0x736f_6d65_7073_6575,
                k1 ^ 0x646f_7261_6e64_6f6d,
                k0 ^ 0x6c79_6765_6e65_7261,
                k1 ^ 0x7465_6462_7974_6573,
            ],
        }
    }

    #[inline]
    fn round(&mut self) {
        let [v0, v1, v2, v3] = &mut self.v;
        *v0 = v0.wrapping_add(*v1);
        *v1 = v1.rotate_left(13) ^ *v0;
        *v0 = v0.rotate_left(32);
        *v2 = v2.wrapping_add(*v3);
        *v3 = v3.rotate_left(16) ^ *v2;
        *v0 = v0.wrapping_add(*v3);
        *v3 = v3.rotate_left(21) ^ *v0;
        *v2 = v2.wrapping_add(*v1);
        *v1 = v1.rotate_left(17) ^ *v2;
        *v2 = v2.rotate_left(32);
    }

    #[inline]
    fn compress(&mut self, word: u64) {
        self.v[3] ^= word;
        self.round();
        self.v[0] ^= word;
    }

    /// The hash, with `last` as the last word. Works on a copy: the state can go on.
    #[inline]
    fn finish(mut self, last: u64) -> u64 {
        self.compress(last);
        self.v[2] ^= 0xff;
        self.round();
        self.round();
        self.round();
        self.v[0] ^ self.v[1] ^ self.v[2] ^ self.v[3]
    }
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
    pub fn prefix(&self, depth: usize) -> NameRef<'a> {
        NameRef::from_checked(&self.name.value()[..usize::from(self.prefixes.end[depth])])
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use siphasher::sip::SipHasher13;

    use super::*;
    use crate::name::{Component, Name};

    fn reference(key: &NameHashKey, octets: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(key.0[0], key.0[1]);
        hasher.write(octets);
        hasher.finish()
    }

    #[test]
    fn every_prefix_has_the_hash_of_its_octets() {
        let key = NameHashKey([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        let mut prefixes = PrefixHashes::default();
        let mut name = Name::default();
        for len in [0, 1, 3, 5, 6, 7, 8, 9, 14, 22, 300, 2, 0, 0] {
            name = name.join(Component::generic(&vec![len as u8; len]));
            let view = NameView::new(&key, name.as_ref(), &mut prefixes);
            assert_eq!(view.len(), name.as_ref().len());
            assert_eq!(view.hash(0), reference(&key, &[]));
            for depth in 0..=view.len() {
                assert_eq!(view.prefix(depth), name.as_ref().prefix(depth));
                assert_eq!(view.hash(depth), reference(&key, view.prefix(depth).value()));
            }
            assert_eq!(view.full_hash(), hash_name(&key, name.as_ref()));
            NameView::from_filled(name.as_ref(), &prefixes);
        }
    }

    #[test]
    fn names_at_the_limit_fit() {
        let value = [8, 0].repeat(COMPONENTS_MAX);
        let name = NameRef::new(&value).unwrap();
        let mut prefixes = PrefixHashes::default();
        let view = NameView::new(&NameHashKey([1, 2]), name, &mut prefixes);
        assert_eq!(view.len(), COMPONENTS_MAX);
        assert_eq!(view.full_hash(), reference(&NameHashKey([1, 2]), &value));
    }

    #[test]
    fn the_key_matters() {
        let name: Name = "/a".parse().unwrap();
        assert_ne!(hash_name(&NameHashKey([0, 1]), name.as_ref()), hash_name(&NameHashKey([1, 0]), name.as_ref()));
    }
}

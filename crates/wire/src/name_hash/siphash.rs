//! SipHash over a name's octets, one pass for all prefixes [So §2.1].
//!
//! The 128-bit variant that its authors publish beside the paper [Aumasson and Bernstein,
//! "SipHash: a fast short-input PRF", 2012]. The octets are compressed as one stream; at each
//! component's end the state is copied and finished, so that no octet is read twice.
//!
//! Cost: `C` rounds for each eight octets, and `C + 2 D` for each prefix.

use super::{Digest, PrefixHashes};
use crate::name::{self, NameRef};

/// SipHash-`C`-`D` under one key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SipHash<const C: usize, const D: usize> {
    /// Before the first octet.
    start: State,
}

impl<const C: usize, const D: usize> SipHash<C, D> {
    pub(super) const fn new([k0, k1]: [u64; 2]) -> Self {
        let v = [
            k0 ^ 0x736f_6d65_7073_6575,
            // 0xee is what tells the 128-bit variant from the other.
            k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        SipHash { start: State { v } }
    }

    pub(super) fn fill(&self, name: NameRef<'_>, out: &mut PrefixHashes) {
        let value = name.value();
        let mut words = Words::new(self, value);
        let mut len = 0;
        let mut at = 0;
        out.digest[0] = words.digest_of_first(0);
        while at < value.len() {
            at = name::component_at(value, at).2;
            len += 1;
            out.end[len] = at as u16;
            out.digest[len] = words.digest_of_first(at);
        }
        out.len = len;
    }

    pub(super) fn digest(&self, octets: &[u8]) -> Digest {
        Words::new(self, octets).digest_of_first(octets.len())
    }
}

/// A name's octets, taken as little-endian words of eight.
///
/// Prefixes are of one buffer, so the whole words before a prefix's end are the same for all that
/// follow it; what is left is the word that the end falls into, masked.
struct Words<'a, const C: usize, const D: usize> {
    state: State,
    octets: &'a [u8],
    /// Octets that `state` has taken in: a multiple of eight.
    taken: usize,
    /// The word at `taken`, filled up with zeros at the end of the name.
    word: u64,
}

impl<'a, const C: usize, const D: usize> Words<'a, C, D> {
    #[inline]
    fn new(function: &SipHash<C, D>, octets: &'a [u8]) -> Self {
        Words { state: function.start, octets, taken: 0, word: word_at(octets, 0) }
    }

    /// Digest of the first `end` octets; `end` never falls from call to call.
    #[inline]
    fn digest_of_first(&mut self, end: usize) -> Digest {
        while end - self.taken >= 8 {
            self.state.compress::<C>(self.word);
            self.taken += 8;
            self.word = word_at(self.octets, self.taken);
        }
        let left = end - self.taken;
        let mask = (1u64 << (8 * left)) - 1;
        // The length in the top octet is what SipHash prescribes; `left < 8` keeps it free.
        self.state.finish::<C, D>((self.word & mask) | ((end as u64) << 56))
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

#[derive(Clone, Copy, PartialEq, Eq)]
struct State {
    v: [u64; 4],
}

impl State {
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
    fn rounds<const N: usize>(&mut self) {
        for _ in 0..N {
            self.round();
        }
    }

    #[inline]
    fn compress<const C: usize>(&mut self, word: u64) {
        self.v[3] ^= word;
        self.rounds::<C>();
        self.v[0] ^= word;
    }

    /// The digest, with `last` as the last word. Works on a copy: the state can go on.
    #[inline]
    fn finish<const C: usize, const D: usize>(mut self, last: u64) -> Digest {
        self.compress::<C>(last);
        self.v[2] ^= 0xee;
        self.rounds::<D>();
        let hash = self.folded();
        self.v[1] ^= 0xdd;
        self.rounds::<D>();
        Digest { hash, check: self.folded() }
    }

    #[inline]
    fn folded(&self) -> u64 {
        self.v[0] ^ self.v[1] ^ self.v[2] ^ self.v[3]
    }
}

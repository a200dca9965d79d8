//! SipHash over a name's bytes, one pass for all prefixes [So §2.1].
//!
//! The 128-bit variant that SipHash's authors publish beside the paper [Aumasson and Bernstein,
//! "SipHash: a fast short-input PRF", 2012]. The bytes are compressed as one stream. At each
//! component's end the state is copied, so each byte is read once. Finishing a prefix takes most of
//! the rounds. Prefixes do not depend on each other, so those of all names in a burst are finished
//! side by side in vector registers: eight with AVX-512, four with AVX2. Processors with AVX-512
//! also compress eight names side by side (`avx512`).
//!
//! Cost: `C` rounds for each eight bytes (of one name, or of eight names side by side), and `C + 2
//! D` rounds for each vector of prefixes.

use super::{DepthSet, Digest, PrefixHashes, processor};
use crate::name::{self, NameRef};

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;
pub(super) mod bytes;

/// The hashes that a caller wants for a burst of names.
pub(super) struct Wanted<P> {
    /// Find components up to this depth in each name. `None`: their ends are noted, and nothing is
    /// hashed yet.
    pub depth_max: Option<usize>,
    /// Returns, for a name's number, the depths whose prefixes are wanted. The whole name is always
    /// wanted.
    pub prefixes: P,
}

impl Wanted<fn(usize) -> DepthSet> {
    /// All prefixes of up to `depth_max` components.
    pub fn all_to(depth_max: usize) -> Self {
        Wanted { depth_max: Some(depth_max), prefixes: |_| DepthSet::ALL }
    }
}

impl<P> Wanted<P> {
    /// Makes sure that the components' ends are noted. Returns the depth to which they are hashed
    /// already.
    #[inline]
    fn note_ends(&self, value: &[u8], out: &mut PrefixHashes) -> usize {
        let Some(depth_max) = self.depth_max else { return 0 };
        let hashed = out.len;
        let (mut len, mut at) = (hashed, out.bytes());
        while at < value.len() && len < depth_max {
            at = name::component_at(value, at).2;
            len += 1;
            out.end[len] = at as u16;
        }
        out.len = len;
        hashed
    }
}

/// SipHash-`C`-`D` with one key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SipHash<const C: usize, const D: usize> {
    /// The state before the first byte.
    start: State,
}

impl<const C: usize, const D: usize> SipHash<C, D> {
    pub(super) const fn new([k0, k1]: [u64; 2]) -> Self {
        let v = [
            k0 ^ 0x736f_6d65_7073_6575,
            // 0xee selects the 128-bit variant.
            k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        SipHash { start: State { v } }
    }

    pub(super) fn fill_burst(&self, depth_max: usize, names: &[NameRef<'_>], out: &mut [PrefixHashes]) {
        let root = self.digest(&[]);
        out.iter_mut().for_each(|out| out.begin(root, self.start.v));
        self.go_on_burst(&Wanted::all_to(depth_max), names, out, &mut (0..names.len()));
    }

    /// Hashes names whose ends are noted: finishes the wanted prefixes and the whole name.
    pub(super) fn fill_noted_burst_where(
        &self,
        prefixes: impl Fn(usize) -> DepthSet,
        names: &[NameRef<'_>],
        out: &mut [PrefixHashes],
    ) {
        let root = self.digest(&[]);
        for out in &mut *out {
            let noted = out.len;
            out.begin(root, self.start.v);
            out.len = noted;
        }
        self.go_on_burst(&Wanted { depth_max: None, prefixes }, names, out, &mut (0..names.len()));
    }

    pub(super) fn go_on_burst(
        &self,
        wanted: &Wanted<impl Fn(usize) -> DepthSet>,
        names: &[NameRef<'_>],
        out: &mut [PrefixHashes],
        which: &mut impl Iterator<Item = usize>,
    ) {
        // Few names do not fill the vectors.
        if names.len() < LANES / 2 || !processor::siphash_go_on_burst::<C, D>(wanted, names, out, which) {
            let mut waiting = Waiting::default();
            for i in which {
                let value = names[i].value();
                processor::prefetch_later(names, i);
                let hashed = wanted.note_ends(value, &mut out[i]);
                waiting.go_on_one::<C, D>(hashed, (wanted.prefixes)(i), value, i, out);
            }
            waiting.finish::<C, D>(out);
        }
    }

    /// Hashes one prefix after the other.
    pub(super) fn fill(&self, name: NameRef<'_>, out: &mut PrefixHashes) {
        let value = name.value();
        let (mut len, mut at) = (0, 0);
        out.begin(self.digest(&[]), self.start.v);
        while at < value.len() {
            at = name::component_at(value, at).2;
            len += 1;
            out.end[len] = at as u16;
            out.digest[len] = self.digest(&value[..at]);
        }
        out.len = len;
    }

    pub(super) fn digest(&self, bytes: &[u8]) -> Digest {
        let (state, last) = Words::<C>::behind(self.start, bytes, 0).first(bytes.len());
        let (hash, check) = finish::<C, D, u64>(state.v, last);
        Digest { hash, check }
    }
}

/// Number of prefixes that are finished side by side.
pub(super) const LANES: usize = 8;

/// Prefixes whose bytes are compressed except for the last word.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(super) struct Lanes {
    /// The states. Once finished, the first two are the halves of the digests.
    pub v: [[u64; LANES]; 4],
    pub last: [u64; LANES],
}

/// Prefixes of names that wait to be finished. There is room for more than [`LANES`], because a
/// processor must wait before it can read a vector from words that it has just written.
#[derive(Default)]
struct Waiting {
    lanes: [Lanes; WAITING_MAX / LANES],
    /// The name's number and the depth of each.
    of: [(usize, usize); WAITING_MAX],
    len: usize,
}

const WAITING_MAX: usize = 32;

impl Waiting {
    /// Hashes name `i`, whose first `hashed` components are hashed and whose other ends are noted.
    /// Some of its prefixes may still wait then.
    #[inline]
    fn go_on_one<const C: usize, const D: usize>(
        &mut self,
        hashed: usize,
        prefixes: DepthSet,
        value: &[u8],
        i: usize,
        all: &mut [PrefixHashes],
    ) {
        let out = &all[i];
        let (len, mut words) = (out.len, Words::<C>::behind(State { v: out.state }, value, out.end[hashed].into()));
        for depth in hashed + 1..=len {
            if prefixes.contains(depth) || depth == len {
                self.push(words.first(all[i].end[depth].into()), (i, depth));
                if self.len == WAITING_MAX {
                    self.finish::<C, D>(all);
                }
            }
        }
        all[i].state = words.state.v;
    }

    #[inline]
    fn push(&mut self, (state, last): (State, u64), of: (usize, usize)) {
        let (lanes, lane) = (&mut self.lanes[self.len / LANES], self.len % LANES);
        for (lanes, v) in lanes.v.iter_mut().zip(state.v) {
            lanes[lane] = v;
        }
        lanes.last[lane] = last;
        self.of[self.len] = of;
        self.len += 1;
    }

    /// Finishes all prefixes that wait.
    fn finish<const C: usize, const D: usize>(&mut self, out: &mut [PrefixHashes]) {
        processor::siphash_finish::<C, D>(&mut self.lanes, self.len);
        for (at, (i, depth)) in self.of[..self.len].iter().enumerate() {
            let Lanes { v: [hash, check, ..], .. } = &self.lanes[at / LANES];
            out[*i].digest[*depth] = Digest { hash: hash[at % LANES], check: check[at % LANES] };
        }
        self.len = 0;
    }
}

/// A name's bytes as little-endian words of eight.
///
/// All prefixes are parts of one buffer. The whole words before one prefix's end are therefore the
/// same for all longer prefixes. A prefix adds only the word that its end falls into, masked.
struct Words<'a, const C: usize> {
    state: State,
    bytes: &'a [u8],
    /// Number of bytes that `state` has compressed: a multiple of eight.
    taken: usize,
    /// The word at `taken`, padded with zeros at the end of the name.
    word: u64,
}

impl<'a, const C: usize> Words<'a, C> {
    /// Continues after the first `at` bytes, whose whole words `state` has compressed.
    #[inline]
    fn behind(state: State, bytes: &'a [u8], at: usize) -> Self {
        assert!(at <= bytes.len(), "a name's first bytes were hashed");
        let taken = at & !7;
        Words { state, bytes, taken, word: word_at(bytes, taken) }
    }

    /// The state and the last word of the first `end` bytes. `end` never decreases from call to call.
    #[inline]
    fn first(&mut self, end: usize) -> (State, u64) {
        while end - self.taken >= 8 {
            self.state.compress::<C>(self.word);
            self.taken += 8;
            self.word = word_at(self.bytes, self.taken);
        }
        let left = end - self.taken;
        let mask = (1u64 << (8 * left)) - 1;
        // SipHash prescribes the length in the top byte. `left < 8` keeps that byte free.
        (self.state, (self.word & mask) | ((end as u64) << 56))
    }
}

/// The eight bytes at `at`, padded with zeros at the end.
#[inline]
fn word_at(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    if let Some((word, _)) = rest.split_first_chunk::<8>() {
        return u64::from_le_bytes(*word);
    }
    match bytes.last_chunk::<8>() {
        Some(word) => u64::from_le_bytes(*word).checked_shr(64 - 8 * rest.len() as u32).unwrap_or(0),
        None => rest.iter().rev().fold(0, |word, &byte| (word << 8) | u64::from(byte)),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct State {
    v: [u64; 4],
}

impl State {
    #[inline]
    fn compress<const C: usize>(&mut self, word: u64) {
        compress::<C, u64>(&mut self.v, word);
    }
}

/// A word of one state, or the same word of several states.
pub(super) trait Word: Copy {
    fn splat(word: u64) -> Self;
    fn add(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn rotate<const BITS: i32>(self) -> Self;
}

impl Word for u64 {
    fn splat(word: u64) -> u64 {
        word
    }
    fn add(self, other: u64) -> u64 {
        self.wrapping_add(other)
    }
    fn xor(self, other: u64) -> u64 {
        self ^ other
    }
    fn rotate<const BITS: i32>(self) -> u64 {
        self.rotate_left(BITS as u32)
    }
}

/// Computes the digest's halves from the state and the last word.
#[inline(always)]
pub(super) fn finish<const C: usize, const D: usize, W: Word>(mut v: [W; 4], last: W) -> (W, W) {
    let folded = |[v0, v1, v2, v3]: [W; 4]| v0.xor(v1).xor(v2.xor(v3));
    compress::<C, W>(&mut v, last);
    v[2] = v[2].xor(W::splat(0xee));
    rounds::<D, W>(&mut v);
    let hash = folded(v);
    v[1] = v[1].xor(W::splat(0xdd));
    rounds::<D, W>(&mut v);
    (hash, folded(v))
}

#[inline(always)]
pub(super) fn compress<const C: usize, W: Word>(v: &mut [W; 4], word: W) {
    v[3] = v[3].xor(word);
    rounds::<C, W>(v);
    v[0] = v[0].xor(word);
}

#[inline(always)]
fn rounds<const N: usize, W: Word>([v0, v1, v2, v3]: &mut [W; 4]) {
    for _ in 0..N {
        *v0 = v0.add(*v1);
        *v1 = v1.rotate::<13>().xor(*v0);
        *v0 = v0.rotate::<32>();
        *v2 = v2.add(*v3);
        *v3 = v3.rotate::<16>().xor(*v2);
        *v0 = v0.add(*v3);
        *v3 = v3.rotate::<21>().xor(*v0);
        *v2 = v2.add(*v1);
        *v1 = v1.rotate::<17>().xor(*v2);
        *v2 = v2.rotate::<32>();
    }
}

/// Finishes the first `count` states, one after the other.
pub(super) fn finish_lanes<const C: usize, const D: usize>(lanes: &mut [Lanes], count: usize) {
    for at in 0..count {
        let (Lanes { v, last }, i) = (&mut lanes[at / LANES], at % LANES);
        (v[0][i], v[1][i]) = finish::<C, D, u64>(v.each_ref().map(|v| v[i]), last[i]);
    }
}

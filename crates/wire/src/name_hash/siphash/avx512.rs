//! SipHash of eight states at a time, on processors with AVX-512.
//!
//! The function hashes the prefixes of eight names word by word, each name in a lane. If a component ends within a
//! lane's next word, the function sets the lane's state aside before it compresses the word. States set aside lie side
//! by side, whichever names they belong to, and are finished eight at a time. Names with components of any lengths thus
//! take the same instructions. Hashing one name after the other would make the processor guess, at each component, how
//! many words it spans.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_andnot_si512, _mm512_cmpgt_epi64_mask, _mm512_loadu_si512,
    _mm512_lzcnt_epi64, _mm512_mask_mov_epi64, _mm512_maskz_compress_epi64, _mm512_maskz_loadu_epi8, _mm512_or_si512,
    _mm512_permutex2var_epi64, _mm512_rol_epi64, _mm512_set1_epi64, _mm512_setr_epi64, _mm512_setzero_si512,
    _mm512_shuffle_i64x2, _mm512_slli_epi64, _mm512_sllv_epi64, _mm512_storeu_si512, _mm512_sub_epi64,
    _mm512_test_epi64_mask, _mm512_unpackhi_epi64, _mm512_unpacklo_epi64, _mm512_xor_si512,
};

use super::bytes::Block;
use super::{LANES, Lanes, Waiting, Wanted, Word, compress, finish};
use crate::name::NameRef;
use crate::name_hash::depth_set::lowest;
use crate::name_hash::processor::prefetch_later;
use crate::name_hash::{DepthSet, Digest, PrefixHashes};

/// Names with more words than this after their hashed part are left to [`Waiting::go_on_one`].
const WORDS_MAX: usize = 64;

/// Like [`SipHash::go_on_burst`](super::SipHash::go_on_burst).
#[target_feature(enable = "avx512f,avx512bw,avx512cd")]
pub(in crate::name_hash) fn go_on_burst<const C: usize, const D: usize>(
    wanted: &Wanted<impl Fn(usize) -> DepthSet>,
    names: &[NameRef<'_>],
    out: &mut [PrefixHashes],
    which: &mut impl Iterator<Item = usize>,
) {
    let mut ends = Ends([[0; LANES]; WORDS_MAX]);
    let mut aside = Aside { v: [[0; ROOM]; 4], last: [0; ROOM], of: [0; ROOM], len: 0 };
    loop {
        let mut lanes = [Lane::default(); LANES];
        let mut used = 0;
        while used < LANES
            && let Some(i) = which.next()
        {
            prefetch_later(names, i);
            let (value, prefixes) = (names[i].value(), (wanted.prefixes)(i));
            let hashed = wanted.note_ends(value, &mut out[i]);
            if lanes[used].begin(hashed, value, &out[i]) {
                ends.mark((i, used), (hashed, prefixes), &mut lanes[used], value.len(), &out[i]);
                used += 1;
            } else {
                let mut waiting = Waiting::default();
                waiting.go_on_one::<C, D>(hashed, prefixes, value, i, out);
                waiting.finish::<C, D>(out);
            }
        }
        // Finish what was set aside for the names before. Those vectors were written a while ago,
        // so reading them at other offsets does not wait for the cache.
        aside.finish::<C, D>(out);
        if used == 0 {
            return;
        }
        take_in::<C, D>(&lanes, &mut ends, &mut aside, out);
    }
}

/// The ends of wanted prefixes, for each lane and each word. The lowest byte has a bit for each byte before which one
/// ends. Above it are the depth of the first of them and the name's number. The highest bit is set if the name has more
/// to hash.
struct Ends([[u64; LANES]; WORDS_MAX]);

const DEPTH_SHIFT: u32 = 8;
const NAME_SHIFT: u32 = 16;
const MORE: u64 = 1 << 63;

/// The bytes of a name from the first word that is not hashed yet.
#[derive(Clone, Copy, Default)]
struct Lane<'a> {
    bytes: &'a [u8],
    /// Number of bytes before these.
    before: usize,
    /// The state after those bytes.
    state: [u64; 4],
    /// Number of words up to the last in which a wanted prefix ends.
    words: usize,
}

impl<'a> Lane<'a> {
    /// Starts where the name's first `hashed` components end. Returns false if more words follow
    /// than a lane takes.
    #[inline]
    fn begin(&mut self, hashed: usize, value: &'a [u8], out: &PrefixHashes) -> bool {
        self.before = usize::from(out.end[hashed]) & !7;
        self.bytes = value.get(self.before..).expect("a name's first bytes were hashed");
        self.state = out.state;
        usize::from(out.end[out.len]) < self.before + 8 * WORDS_MAX
    }
}

impl Ends {
    /// Marks where wanted prefixes end.
    #[inline]
    fn mark(
        &mut self,
        (i, lane): (usize, usize),
        (hashed, prefixes): (usize, DepthSet),
        of_lane: &mut Lane<'_>,
        bytes: usize,
        out: &PrefixHashes,
    ) {
        let (len, before) = (out.len, of_lane.before);
        if len == hashed {
            return;
        }
        let name = (i as u64) << NAME_SHIFT;
        let (mut above, mut above_word) = (hashed, usize::MAX);
        for (first, wanted) in (0..).step_by(64).zip(prefixes.words()).take(len / 64 + 1) {
            // Keep this in a register: a set that was just written in parts cannot be read as a
            // whole at once.
            let last = if (first..first + 64).contains(&len) { 1 << (len % 64) } else { 0 };
            let mut bits = (wanted | last) & !lowest((hashed + 1).saturating_sub(first)) & lowest(len + 1 - first);
            while bits != 0 {
                let depth = first + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let word = self.mark_one(name, lane, depth, usize::from(out.end[depth]) - before);
                if word == above_word {
                    // Unwanted prefixes that end in the same word must be told apart, because
                    // depths are counted from the first one.
                    for between in above + 1..depth {
                        self.mark_one(name, lane, between, usize::from(out.end[between]) - before);
                    }
                }
                (above, above_word) = (depth, word);
            }
        }
        if usize::from(out.end[len]) < bytes {
            self.0[above_word][lane] |= MORE;
        }
        of_lane.words = above_word + 1;
    }

    /// Marks that the prefix of `depth` ends `end` bytes after the lane's first byte. Returns the
    /// word it ends in.
    #[inline(always)]
    fn mark_one(&mut self, name: u64, lane: usize, depth: usize, end: usize) -> usize {
        let place = &mut self.0[end / 8][lane];
        if *place == 0 {
            *place = name | (depth as u64) << DEPTH_SHIFT;
        }
        *place |= 1 << (end % 8);
        end / 8
    }
}

/// States and last words of prefixes that wait to be finished.
struct Aside {
    v: [[u64; ROOM]; 4],
    last: [u64; ROOM],
    /// The prefix that each belongs to: a word of [`Ends`].
    of: [u64; ROOM],
    len: usize,
}

/// The maximum number set aside, plus room for a vector that begins behind them.
const ROOM: usize = 16 * LANES + LANES;

impl Aside {
    /// Sets the states of some lanes aside.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn push(&mut self, some: u8, v: &[Eight; 4], last: __m512i, of: __m512i) {
        let put = |place: &mut [u64; ROOM], lanes: __m512i| {
            let place: &mut [u64; LANES] = place[self.len..].first_chunk_mut().expect("there is room for a vector");
            store(place, _mm512_maskz_compress_epi64(some, lanes));
        };
        for (place, v) in self.v.iter_mut().zip(v) {
            put(place, v.0);
        }
        put(&mut self.last, last);
        put(&mut self.of, of);
        self.len += some.count_ones() as usize;
    }

    /// Finishes all that are set aside.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn finish<const C: usize, const D: usize>(&mut self, out: &mut [PrefixHashes]) {
        for at in (0..self.len).step_by(LANES) {
            let eight = |of: &[u64; ROOM]| load(of[at..].first_chunk().expect("there is room for a vector"));
            let v = self.v.each_ref().map(|v| Eight(eight(v)));
            let (hash, check) = finish::<C, D, Eight>(v, Eight(eight(&self.last)));
            let digests = [[0, 8, 1, 9, 2, 10, 3, 11], [4, 12, 5, 13, 6, 14, 7, 15]].map(|which| {
                let [a, b, c, d, e, f, g, h] = which;
                let mut pairs = [0; LANES];
                store(
                    &mut pairs,
                    _mm512_permutex2var_epi64(hash.0, _mm512_setr_epi64(a, b, c, d, e, f, g, h), check.0),
                );
                pairs
            });
            let (digests, _) = digests.as_flattened().as_chunks::<2>();
            for ((of, digest), at) in self.of[at..self.len].iter().zip(digests).zip(at..) {
                let out = &mut out[(of >> NAME_SHIFT) as u32 as usize];
                let [hash, check] = *digest;
                out.digest[usize::from((of >> DEPTH_SHIFT) as u8)] = Digest { hash, check };
                if of & MORE != 0 {
                    out.state = self.v.each_ref().map(|v| v[at]);
                }
            }
        }
        self.len = 0;
    }
}

/// Compresses the words of eight lanes, and sets the states of prefixes aside.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd")]
fn take_in<const C: usize, const D: usize>(
    lanes: &[Lane<'_>; LANES],
    ends: &mut Ends,
    aside: &mut Aside,
    out: &mut [PrefixHashes],
) {
    let mut v = [0, 1, 2, 3].map(|word| Eight(load(&lanes.each_ref().map(|lane| lane.state[word]))));
    // Number of bytes before the word. Only the lowest eight bits count.
    let mut before = load(&lanes.each_ref().map(|lane| lane.before as u64));
    let (one, zero) = (_mm512_set1_epi64(1), _mm512_setzero_si512());
    let (ends_here, next_depth) = (_mm512_set1_epi64(0xff), _mm512_set1_epi64(1 << DEPTH_SHIFT));
    let words = lanes.iter().map(|lane| lane.words).max().unwrap_or_default();
    for from in (0..words).step_by(LANES) {
        let bytes = lanes.each_ref().map(|lane| bytes_at(lane.bytes, 8 * from));
        let words_of = transposed(bytes);
        for (word, ends) in words_of.into_iter().zip(&mut ends.0[from..words]) {
            let mut of = load(ends);
            let mut some = _mm512_test_epi64_mask(of, ends_here);
            while some != 0 {
                if aside.len > ROOM - 2 * LANES {
                    aside.finish::<C, D>(out);
                }
                let bits = _mm512_and_si512(of, ends_here);
                let lowest = _mm512_and_si512(bits, _mm512_sub_epi64(zero, bits));
                // The bytes of the word that belong to the prefix, and the length in the top byte,
                // as SipHash prescribes.
                let left = _mm512_sub_epi64(_mm512_set1_epi64(63), _mm512_lzcnt_epi64(lowest));
                let mask = _mm512_sub_epi64(_mm512_sllv_epi64(one, _mm512_slli_epi64::<3>(left)), one);
                let length = _mm512_slli_epi64::<56>(_mm512_add_epi64(before, left));
                aside.push(some, &v, _mm512_or_si512(_mm512_and_si512(word, mask), length), of);
                of = _mm512_add_epi64(_mm512_andnot_si512(lowest, of), next_depth);
                some = _mm512_test_epi64_mask(of, ends_here);
            }
            store(ends, zero);
            compress::<C, Eight>(&mut v, Eight(word));
            before = _mm512_add_epi64(before, _mm512_set1_epi64(8));
        }
    }
}

/// At most 64 bytes, padded with zeros.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn bytes_at(bytes: &[u8], at: usize) -> __m512i {
    let rest = rest_of(bytes, at);
    let mask = if rest.len() >= 64 { u64::MAX } else { (1 << rest.len()) - 1 };
    // SAFETY: the load reads only the bytes that the mask selects, which are in `rest`.
    unsafe { _mm512_maskz_loadu_epi8(mask, rest.as_ptr().cast()) }
}

/// The bytes from `at` on. If there are none, the address is still readable. A masked load of no
/// bytes at an unmapped address takes hundreds of cycles, and one long name in a burst would cost
/// that for each shorter name, again and again.
#[inline]
fn rest_of(bytes: &[u8], at: usize) -> &[u8] {
    static NOTHING: [u8; 64] = [0; 64];
    bytes.get(at..).filter(|rest| !rest.is_empty()).unwrap_or(&NOTHING[..0])
}

/// Transposes eight words of each lane into the first words of all lanes, the second words, and so
/// on.
#[inline]
#[target_feature(enable = "avx512f")]
fn transposed(rows: [__m512i; LANES]) -> [__m512i; LANES] {
    // Transpose within pairs of rows, then pairs of pairs, then fours.
    let pairs = |i: usize| {
        let (a, b) = (rows[2 * i], rows[2 * i + 1]);
        [_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b)]
    };
    let [p0, p1, p2, p3] = [pairs(0), pairs(1), pairs(2), pairs(3)];
    let mut columns = [_mm512_setzero_si512(); LANES];
    for odd in 0..2 {
        let (a, b, c, d) = (p0[odd], p1[odd], p2[odd], p3[odd]);
        let (ab_low, ab_high) = (_mm512_shuffle_i64x2::<0x88>(a, b), _mm512_shuffle_i64x2::<0xdd>(a, b));
        let (cd_low, cd_high) = (_mm512_shuffle_i64x2::<0x88>(c, d), _mm512_shuffle_i64x2::<0xdd>(c, d));
        columns[odd] = _mm512_shuffle_i64x2::<0x88>(ab_low, cd_low);
        columns[odd + 2] = _mm512_shuffle_i64x2::<0x88>(ab_high, cd_high);
        columns[odd + 4] = _mm512_shuffle_i64x2::<0xdd>(ab_low, cd_low);
        columns[odd + 6] = _mm512_shuffle_i64x2::<0xdd>(ab_high, cd_high);
    }
    columns
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(words: &[u64; LANES]) -> __m512i {
    // SAFETY: the load reads exactly the whole array.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(words: &mut [u64; LANES], vector: __m512i) {
    // SAFETY: the store writes exactly the whole array.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) };
}

/// Like [`super::bytes::compress_lanes`].
#[target_feature(enable = "avx512f")]
pub(in crate::name_hash) fn compress_lanes<const C: usize>(lanes: &mut [Lanes], blocks: &[Block]) {
    for (lanes, block) in lanes.iter_mut().zip(blocks) {
        let mut v = lanes.v.each_ref().map(|v| Eight(load(v)));
        let counts = load(&block.counts);
        for (i, words) in block.words.iter().enumerate() {
            let more = _mm512_cmpgt_epi64_mask(counts, _mm512_set1_epi64(i as i64));
            if more == 0 {
                break;
            }
            let before = v;
            compress::<C, Eight>(&mut v, Eight(load(words)));
            for (v, before) in v.iter_mut().zip(before) {
                v.0 = _mm512_mask_mov_epi64(before.0, more, v.0);
            }
        }
        for (words, v) in lanes.v.iter_mut().zip(v) {
            store(words, v.0);
        }
    }
}

/// Like [`super::finish_lanes`]. Finishes a few more, to fill the last vector.
#[target_feature(enable = "avx512f")]
pub(in crate::name_hash) fn finish_lanes<const C: usize, const D: usize>(lanes: &mut [Lanes], count: usize) {
    for Lanes { v, last } in &mut lanes[..count.div_ceil(LANES)] {
        let (hash, check) = finish::<C, D, Eight>(v.each_ref().map(|v| Eight(load(v))), Eight(load(last)));
        store(&mut v[0], hash.0);
        store(&mut v[1], check.0);
    }
}

/// A word of eight states. Only the functions above make one.
#[derive(Clone, Copy)]
struct Eight(__m512i);

impl Word for Eight {
    #[inline(always)]
    fn splat(word: u64) -> Self {
        // SAFETY: there is no `Eight` on a processor without AVX-512.
        Eight(unsafe { _mm512_set1_epi64(word as i64) })
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: there is no `Eight` on a processor without AVX-512.
        Eight(unsafe { _mm512_add_epi64(self.0, other.0) })
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: there is no `Eight` on a processor without AVX-512.
        Eight(unsafe { _mm512_xor_si512(self.0, other.0) })
    }
    #[inline(always)]
    fn rotate<const BITS: i32>(self) -> Self {
        // SAFETY: there is no `Eight` on a processor without AVX-512.
        Eight(unsafe { _mm512_rol_epi64::<BITS>(self.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_no_bytes_are_read_there_is_memory() {
        let name = [7; 100];
        for (bytes, at) in [(&name[..], 100), (&name, 128), (&[], 0), (&[], 64)] {
            let rest = rest_of(bytes, at);
            assert!(rest.is_empty() && rest.as_ptr() != <&[u8]>::default().as_ptr(), "{} {at}", bytes.len());
        }
        assert_eq!(rest_of(&name, 64), &name[64..]);
    }
}

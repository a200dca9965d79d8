//! SipHash of four states at a time, on processors with AVX2 but without AVX-512.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m256i, _mm_cvtsi32_si128, _mm256_add_epi64, _mm256_blendv_epi8, _mm256_cmpgt_epi64, _mm256_loadu_si256,
    _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi64x, _mm256_setr_epi8, _mm256_shuffle_epi8,
    _mm256_shuffle_epi32, _mm256_slli_epi64, _mm256_srl_epi64, _mm256_storeu_si256, _mm256_xor_si256,
};

use super::bytes::Block;
use super::{LANES, Lanes, Word, compress, finish};

/// Number of states in a vector.
const FOUR: usize = 4;

/// Like [`super::bytes::compress_lanes`].
#[target_feature(enable = "avx2")]
pub(in crate::name_hash) fn compress_lanes<const C: usize>(lanes: &mut [Lanes], blocks: &[Block]) {
    for (lanes, block) in lanes.iter_mut().zip(blocks) {
        for from in (0..LANES).step_by(FOUR) {
            let mut v = lanes.v.each_ref().map(|v| Four(load(v, from)));
            let counts = load(&block.counts, from);
            for (i, words) in block.words.iter().enumerate() {
                let more = _mm256_cmpgt_epi64(counts, _mm256_set1_epi64x(i as i64));
                if _mm256_movemask_epi8(more) == 0 {
                    break;
                }
                let before = v;
                compress::<C, Four>(&mut v, Four(load(words, from)));
                for (v, before) in v.iter_mut().zip(before) {
                    v.0 = _mm256_blendv_epi8(before.0, v.0, more);
                }
            }
            for (words, v) in lanes.v.iter_mut().zip(v) {
                store(words, from, v.0);
            }
        }
    }
}

/// Like [`super::finish_lanes`]. Finishes a few more, to fill the last vector.
#[target_feature(enable = "avx2")]
pub(in crate::name_hash) fn finish_lanes<const C: usize, const D: usize>(lanes: &mut [Lanes], count: usize) {
    for at in (0..count).step_by(FOUR) {
        let (Lanes { v, last }, from) = (&mut lanes[at / LANES], at % LANES);
        let (hash, check) = finish::<C, D, Four>(v.each_ref().map(|v| Four(load(v, from))), Four(load(last, from)));
        store(&mut v[0], from, hash.0);
        store(&mut v[1], from, check.0);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(words: &[u64; LANES], from: usize) -> __m256i {
    let words: &[u64; FOUR] = words[from..].first_chunk().expect("lanes are a number of vectors");
    // SAFETY: the load reads exactly the whole array.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(words: &mut [u64; LANES], from: usize, vector: __m256i) {
    let words: &mut [u64; FOUR] = words[from..].first_chunk_mut().expect("lanes are a number of vectors");
    // SAFETY: the store writes exactly the whole array.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), vector) };
}

/// A word of four states. Only the functions above make one.
#[derive(Clone, Copy)]
struct Four(__m256i);

impl Word for Four {
    #[inline(always)]
    fn splat(word: u64) -> Self {
        // SAFETY: there is no `Four` on a processor without AVX2.
        Four(unsafe { _mm256_set1_epi64x(word as i64) })
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: there is no `Four` on a processor without AVX2.
        Four(unsafe { _mm256_add_epi64(self.0, other.0) })
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: there is no `Four` on a processor without AVX2.
        Four(unsafe { _mm256_xor_si256(self.0, other.0) })
    }
    /// Whole bytes move in one instruction.
    #[inline(always)]
    fn rotate<const BITS: i32>(self) -> Self {
        // SAFETY: there is no `Four` on a processor without AVX2.
        unsafe {
            Four(match BITS {
                32 => _mm256_shuffle_epi32::<0b10_11_00_01>(self.0),
                16 => {
                    let by_two_bytes = _mm256_setr_epi8(
                        6, 7, 0, 1, 2, 3, 4, 5, 14, 15, 8, 9, 10, 11, 12, 13, 6, 7, 0, 1, 2, 3, 4, 5, 14, 15, 8, 9, 10,
                        11, 12, 13,
                    );
                    _mm256_shuffle_epi8(self.0, by_two_bytes)
                }
                _ => _mm256_or_si256(
                    _mm256_slli_epi64::<BITS>(self.0),
                    _mm256_srl_epi64(self.0, _mm_cvtsi32_si128(64 - BITS)),
                ),
            })
        }
    }
}

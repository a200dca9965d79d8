//! The AES hash of opaque names with the AES instructions of x86-64 processors.

use std::arch::x86_64::{
    __m128i, _mm_aesenc_si128, _mm_cvtsi128_si64, _mm_extract_epi64, _mm_set_epi64x, _mm_setzero_si128, _mm_xor_si128,
};

use super::{AesHash, POSITIONS};
use crate::name_hash::Digest;
use crate::name_hash::bytes::number;

/// Like [`AesHash::digest_bytes_burst`].
#[target_feature(enable = "aes,avx")]
pub(in crate::name_hash) fn digest_burst<'a>(function: &AesHash, name: impl Fn(usize) -> &'a [u8], out: &mut [Digest]) {
    for (i, out) in out.iter_mut().enumerate() {
        *out = digest(function, name(i));
    }
}

#[inline]
#[target_feature(enable = "aes,avx")]
fn digest(function: &AesHash, bytes: &[u8]) -> Digest {
    let mut sum = _mm_setzero_si128();
    for (group, bytes) in bytes.chunks(16 * POSITIONS).enumerate() {
        if group > 0 {
            sum = rounds(sum, &function.fold);
        }
        for (position, block) in bytes.chunks(16).enumerate() {
            let keys = function.position.each_ref().map(|round| round[position]);
            sum = _mm_xor_si128(sum, four_rounds(vector(number(block)), &keys));
        }
    }
    let digest = four_rounds(_mm_xor_si128(sum, vector(bytes.len() as u128)), &function.finish_bytes);
    Digest { hash: _mm_cvtsi128_si64(digest) as u64, check: _mm_extract_epi64::<1>(digest) as u64 }
}

#[inline]
#[target_feature(enable = "aes,avx")]
fn four_rounds(block: __m128i, keys: &[u128; 4]) -> __m128i {
    _mm_aesenc_si128(rounds(block, keys), _mm_setzero_si128())
}

/// Adds the first key, then does one round with each of the others.
#[inline]
#[target_feature(enable = "aes,avx")]
fn rounds<const N: usize>(block: __m128i, keys: &[u128; N]) -> __m128i {
    let mut state = _mm_xor_si128(block, vector(keys[0]));
    for key in &keys[1..] {
        state = _mm_aesenc_si128(state, vector(*key));
    }
    state
}

#[inline]
#[target_feature(enable = "aes,avx")]
fn vector(number: u128) -> __m128i {
    _mm_set_epi64x((number >> 64) as i64, number as i64)
}

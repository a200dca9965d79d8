//! The same with the AES instructions of x86-64 processors.

use std::arch::x86_64::{
    __m128i, _mm_aesenc_si128, _mm_and_si128, _mm_cvtsi128_si64, _mm_extract_epi64, _mm_set_epi64x, _mm_setzero_si128,
    _mm_shuffle_epi8, _mm_xor_si128,
};

use super::{AesHash, Keys4, POSITIONS};
use crate::name::{self, NameRef};
use crate::name_hash::{Digest, PrefixHashes};

/// As [`AesHash::fill_burst`].
#[target_feature(enable = "aes,avx")]
pub(in crate::name_hash) fn fill_burst(function: &AesHash, names: &[NameRef<'_>], out: &mut [PrefixHashes]) {
    let root = finish(function, _mm_setzero_si128());
    for (name, out) in names.iter().zip(out) {
        out.digest[0] = root;
        fill(function, *name, out);
    }
}

#[inline]
#[target_feature(enable = "aes,avx")]
fn fill(function: &AesHash, name: NameRef<'_>, out: &mut PrefixHashes) {
    let value = name.value();
    let (mut sum, mut blocks) = (_mm_setzero_si128(), 0);
    let (mut len, mut at) = (0, 0);
    while at < value.len() {
        // Most components: of one block, which can be loaded without a look at the name's end.
        let places = out.digest[len + 1..].iter_mut().zip(&mut out.end[len + 1..]);
        for ((digest, end), keys) in places.zip(&function.position[blocks..]) {
            let Some(octets) = value.get(at..).and_then(|rest| rest.first_chunk::<16>()) else { break };
            let [..=252, size @ ..=14, ..] = *octets else { break };
            let octets_len = 2 + usize::from(size);
            let block = _mm_and_si128(vector(u128::from_le_bytes(*octets)), vector(MASKS[octets_len]));
            sum = _mm_xor_si128(sum, four_rounds(block, keys));
            at += octets_len;
            *end = at as u16;
            *digest = finish(function, sum);
            len += 1;
            blocks += 1;
        }
        if at < value.len() {
            let end = name::component_at(value, at).2;
            (sum, blocks) = add_component(function, value, (at, end), sum, blocks);
            at = end;
            len += 1;
            out.end[len] = at as u16;
            out.digest[len] = finish(function, sum);
        }
    }
    out.len = len;
}

/// Adds the component of any length from `at` to `end`.
#[inline]
#[target_feature(enable = "aes,avx")]
fn add_component(
    function: &AesHash,
    value: &[u8],
    (mut at, end): (usize, usize),
    mut sum: __m128i,
    mut blocks: usize,
) -> (__m128i, usize) {
    while at < end {
        if blocks == POSITIONS {
            sum = fold(function, sum);
            blocks = 0;
        }
        let block = _mm_and_si128(sixteen_at(value, at), vector(MASKS[(end - at).min(16)]));
        sum = _mm_xor_si128(sum, four_rounds(block, &function.position[blocks]));
        blocks += 1;
        at += 16;
    }
    (sum, blocks)
}

/// The 16 octets at `at`, or as many as there are and zeros.
#[inline]
#[target_feature(enable = "aes,avx")]
fn sixteen_at(octets: &[u8], at: usize) -> __m128i {
    if let Some((block, _)) = octets[at..].split_first_chunk() {
        return vector(u128::from_le_bytes(*block));
    }
    match octets.last_chunk() {
        Some(block) => {
            let move_down = vector(MOVE_DOWN[(16 - (octets.len() - at)) & 15]);
            _mm_shuffle_epi8(vector(u128::from_le_bytes(*block)), move_down)
        }
        None => vector(octets[at..].iter().rev().fold(0, |word, &octet| (word << 8) | u128::from(octet))),
    }
}

/// `MOVE_DOWN[n]` shuffles octets `n` places down, and zeros in from above.
static MOVE_DOWN: [u128; 16] = {
    // An index with the highest bit set gives a zero.
    let identity = 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100;
    let mut moves = [identity; 16];
    let mut n = 1;
    while n < 16 {
        moves[n] = (identity >> (8 * n)) | (u128::MAX << (128 - 8 * n));
        n += 1;
    }
    moves
};

/// `MASKS[n]` keeps `n` octets.
static MASKS: [u128; 17] = {
    let mut masks = [0; 17];
    let mut i = 1;
    while i < 17 {
        masks[i] = u128::MAX >> (8 * (16 - i));
        i += 1;
    }
    masks
};

#[inline]
#[target_feature(enable = "aes,avx")]
fn vector(number: u128) -> __m128i {
    _mm_set_epi64x((number >> 64) as i64, number as i64)
}

#[inline]
#[target_feature(enable = "aes,avx")]
fn four_rounds(block: __m128i, keys: &Keys4) -> __m128i {
    let mut state = _mm_xor_si128(block, vector(keys[0]));
    for key in &keys[1..] {
        state = _mm_aesenc_si128(state, vector(*key));
    }
    _mm_aesenc_si128(state, _mm_setzero_si128())
}

#[cold]
#[target_feature(enable = "aes,avx")]
fn fold(function: &AesHash, sum: __m128i) -> __m128i {
    let state = _mm_xor_si128(sum, vector(function.fold[0]));
    function.fold[1..].iter().fold(state, |state, key| _mm_aesenc_si128(state, vector(*key)))
}

#[inline]
#[target_feature(enable = "aes,avx")]
fn finish(function: &AesHash, sum: __m128i) -> Digest {
    let digest = four_rounds(sum, &function.finish);
    Digest { hash: _mm_cvtsi128_si64(digest) as u64, check: _mm_extract_epi64::<1>(digest) as u64 }
}

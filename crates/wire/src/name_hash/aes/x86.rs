//! The AES hash with the AES instructions of x86-64 processors.

use std::arch::x86_64::{
    __m128i, _mm_aesenc_si128, _mm_and_si128, _mm_cvtsi128_si64, _mm_extract_epi64, _mm_set_epi64x, _mm_setzero_si128,
    _mm_shuffle_epi8, _mm_xor_si128,
};

use super::{AesHash, Behind, Keys4, POSITIONS, bytes_of_short, digest_of};
use crate::name::{self, NameRef};
use crate::name_hash::processor::prefetch_later;
use crate::name_hash::{Digest, PrefixHashes};

/// Like [`AesHash::fill_burst`].
#[target_feature(enable = "aes,avx")]
pub(in crate::name_hash) fn fill_burst(
    function: &AesHash,
    depth_max: usize,
    names: &[NameRef<'_>],
    out: &mut [PrefixHashes],
) {
    for (i, (name, out)) in names.iter().zip(out).enumerate() {
        prefetch_later(names, i);
        out.begin(function.root, [0; 4]);
        go_on(function, depth_max, *name, out);
    }
}

/// Like [`AesHash::go_on_burst`].
#[target_feature(enable = "aes,avx")]
pub(in crate::name_hash) fn go_on_burst(
    function: &AesHash,
    depth_max: usize,
    names: &[NameRef<'_>],
    out: &mut [PrefixHashes],
    which: &mut impl Iterator<Item = usize>,
) {
    for i in which {
        go_on(function, depth_max, names[i], &mut out[i]);
    }
}

#[inline]
#[target_feature(enable = "aes,avx")]
pub(super) fn go_on(function: &AesHash, depth_max: usize, name: NameRef<'_>, out: &mut PrefixHashes) {
    let value = name.value();
    let Behind { sum, blocks } = Behind::of(out);
    let (mut sum, mut at, mut len) = (vector(sum), out.bytes(), out.len);
    // Most components take one block. For these, blocks and components count alike.
    while blocks == out.len && len < POSITIONS.min(depth_max) && at + 16 <= value.len() {
        let Some([..=252, size @ ..=14, ..]) = value[at..].first_chunk::<16>() else { break };
        let bytes = 2 + usize::from(*size);
        let block = _mm_and_si128(sixteen_within(value, at), vector(MASKS[bytes]));
        sum = _mm_xor_si128(sum, four_rounds(block, &keys_at(function, len)));
        at += bytes;
        len += 1;
        out.end[len] = at as u16;
        out.digest[len] = finish(function, sum);
    }
    // The last component is too close to the name's end for the loop above.
    let blocks = blocks + len - out.len;
    go_on_from(function, depth_max, value, out, (at, len, sum, blocks));
}

/// Continues with components of any length at `at`, after `len` components.
#[target_feature(enable = "aes,avx")]
pub(super) fn go_on_from(
    function: &AesHash,
    depth_max: usize,
    value: &[u8],
    out: &mut PrefixHashes,
    (mut at, mut len, mut sum, mut blocks): (usize, usize, __m128i, usize),
) {
    while at < value.len() && len < depth_max {
        if blocks < POSITIONS
            && let Some(bytes) = bytes_of_short(&value[at..])
        {
            let block = _mm_and_si128(sixteen_at(value, at), vector(MASKS[bytes]));
            sum = _mm_xor_si128(sum, four_rounds(block, &keys_at(function, blocks)));
            blocks += 1;
            at += bytes;
        } else {
            let end = name::component_at(value, at).2;
            (sum, blocks) = add_component(function, value, (at, end), sum, blocks);
            at = end;
        }
        len += 1;
        out.end[len] = at as u16;
        out.digest[len] = finish(function, sum);
    }
    out.len = len;
    Behind { sum: number(sum), blocks }.put_into(out);
}

/// Adds the component from `at` to `end`, of any length.
#[cold]
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
        sum = _mm_xor_si128(sum, four_rounds(block, &keys_at(function, blocks)));
        blocks += 1;
        at += 16;
    }
    (sum, blocks)
}

/// The 16 bytes at `at`, all of which exist.
#[inline]
#[target_feature(enable = "aes,avx")]
fn sixteen_within(bytes: &[u8], at: usize) -> __m128i {
    let block = bytes[at..].first_chunk().expect("the caller has looked");
    vector(u128::from_le_bytes(*block))
}

/// The 16 bytes at `at`, padded with zeros at the end.
#[inline]
#[target_feature(enable = "aes,avx")]
fn sixteen_at(bytes: &[u8], at: usize) -> __m128i {
    if let Some((block, _)) = bytes[at..].split_first_chunk() {
        return vector(u128::from_le_bytes(*block));
    }
    match bytes.last_chunk() {
        Some(block) => {
            let move_down = vector(MOVE_DOWN[(16 - (bytes.len() - at)) & 15]);
            _mm_shuffle_epi8(vector(u128::from_le_bytes(*block)), move_down)
        }
        None => vector(bytes[at..].iter().rev().fold(0, |word, &byte| (word << 8) | u128::from(byte))),
    }
}

/// `MOVE_DOWN[n]` shuffles bytes down by `n` places and fills with zeros from above.
static MOVE_DOWN: [u128; 16] = {
    // An index whose highest bit is set gives a zero.
    let identity = 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100;
    let mut moves = [identity; 16];
    let mut n = 1;
    while n < 16 {
        moves[n] = (identity >> (8 * n)) | (u128::MAX << (128 - 8 * n));
        n += 1;
    }
    moves
};

/// `MASKS[n]` keeps the lowest `n` bytes.
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
pub(super) fn number(vector: __m128i) -> u128 {
    let (low, high) = (_mm_cvtsi128_si64(vector) as u64, _mm_extract_epi64::<1>(vector) as u64);
    u128::from(high) << 64 | u128::from(low)
}

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

#[inline]
fn keys_at(function: &AesHash, position: usize) -> Keys4 {
    function.position.each_ref().map(|round| round[position])
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
    digest_of(number(four_rounds(sum, &function.finish)))
}

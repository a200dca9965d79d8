//! The AES hash of opaque names with four names in each instruction, on processors with AVX-512 and
//! VAES.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512i, __mmask8, _mm_maskz_loadu_epi8, _mm_set_epi64x, _mm512_aesenc_epi128, _mm512_broadcast_i32x4,
    _mm512_castsi128_si512, _mm512_inserti32x4, _mm512_loadu_si512, _mm512_mask_mov_epi64, _mm512_mask_xor_epi64,
    _mm512_maskz_loadu_epi8, _mm512_maskz_permutexvar_epi8, _mm512_set_epi64, _mm512_setzero_si512,
    _mm512_storeu_si512, _mm512_xor_si512,
};
use std::ptr;

use super::{AesHash, POSITIONS};
use crate::name_hash::Digest;

/// Number of names in a vector.
const LANES: usize = 4;

/// Like [`AesHash::digest_bytes_burst`].
#[target_feature(enable = "aes,avx,avx512f,avx512bw,avx512vl,vaes")]
pub(in crate::name_hash) fn digest_burst<'a>(function: &AesHash, name: impl Fn(usize) -> &'a [u8], out: &mut [Digest]) {
    let finish = function.finish_bytes.map(|key| broadcast(key));
    let (groups, rest) = out.as_chunks_mut::<LANES>();
    let in_groups = LANES * groups.len();
    for (group, out) in groups.iter_mut().enumerate() {
        let first = LANES * group;
        *out = digest_four(function, &finish, [name(first), name(first + 1), name(first + 2), name(first + 3)]);
    }
    if !rest.is_empty() {
        let some = |i: usize| if i < rest.len() { name(in_groups + i) } else { &[] };
        let digests = digest_four(function, &finish, [some(0), some(1), some(2), &[]]);
        rest.copy_from_slice(&digests[..rest.len()]);
    }
}

#[inline]
#[target_feature(enable = "aes,avx,avx512f,avx512bw,avx512vl,vaes")]
fn digest_four(function: &AesHash, finish: &[__m512i; 4], names: [&[u8]; LANES]) -> [Digest; LANES] {
    let longest = names.iter().fold(0, |longest, name| longest.max(name.len()));
    let mut sum = _mm512_setzero_si512();
    for (i, at) in (0..longest).step_by(16).enumerate() {
        let (position, go_on) = (i % POSITIONS, longer_than(&names, at));
        if i > 0 && position == 0 {
            sum = _mm512_mask_mov_epi64(sum, go_on, rounds(sum, function.fold.map(|key| broadcast(key))));
        }
        let keys = function.position.each_ref().map(|round| broadcast(round[position]));
        sum = _mm512_mask_xor_epi64(sum, go_on, sum, four_rounds(blocks(function, &names, at), keys));
    }
    let [first, second, third, fourth] = names.map(|name| name.len() as i64);
    let lengths = _mm512_set_epi64(0, fourth, 0, third, 0, second, 0, first);
    let mut digests = [Digest::default(); LANES];
    // SAFETY: four digests are 64 bytes, all of them written.
    unsafe {
        _mm512_storeu_si512(digests.as_mut_ptr().cast(), four_rounds(_mm512_xor_si512(sum, lengths), *finish));
    }
    digests
}

/// Number of vectors of one-block names that are hashed in step. A round takes as long for all of
/// them as for one.
const VECTORS: usize = 4;

/// Like [`AesHash::digest_fixed_burst`], for names of 1 to 16 bytes.
#[target_feature(enable = "aes,avx,avx512f,avx512bw,avx512vbmi,avx512vl,vaes")]
pub(in crate::name_hash) fn digest_short_burst(function: &AesHash, bytes: &[u8], size: usize, out: &mut [Digest]) {
    let spread = Spread::of(size);
    let first = function.position.each_ref().map(|round| broadcast(round[0]));
    let mut last = function.finish_bytes.map(|key| broadcast(key));
    last[0] = _mm512_xor_si512(last[0], broadcast(size as u128));
    let (groups, rest) = out.as_chunks_mut::<{ VECTORS * LANES }>();
    let mut names = bytes.chunks_exact(VECTORS * LANES * size);
    for (out, names) in groups.iter_mut().zip(&mut names) {
        let blocks = std::array::from_fn(|vector| spread.blocks(&names[vector * LANES * size..][..LANES * size]));
        *out = digests_in_step(blocks, first, last);
    }
    if !rest.is_empty() {
        let mut names = names.remainder().chunks(LANES * size);
        let blocks = std::array::from_fn(|_| spread.some_blocks(names.next().unwrap_or_default()));
        rest.copy_from_slice(&digests_in_step(blocks, first, last)[..rest.len()]);
    }
}

#[inline]
#[target_feature(enable = "avx512f,vaes")]
fn digests_in_step(blocks: [__m512i; VECTORS], first: [__m512i; 4], last: [__m512i; 4]) -> [Digest; VECTORS * LANES] {
    let sums = four_rounds_in_step(four_rounds_in_step(blocks, first), last);
    let mut digests = [Digest::default(); VECTORS * LANES];
    for (digests, sums) in digests.chunks_exact_mut(LANES).zip(sums) {
        // SAFETY: four digests are 64 bytes, all of them written.
        unsafe { _mm512_storeu_si512(digests.as_mut_ptr().cast(), sums) };
    }
    digests
}

/// Spreads names that lie side by side into one block each.
struct Spread {
    /// For each byte of the blocks: its index among the bytes of four names.
    from: __m512i,
    /// The bytes of the blocks that belong to names. The others are zeros.
    filled: u64,
    /// A mask with one low bit for each byte of four names.
    bytes: u64,
}

impl Spread {
    #[target_feature(enable = "avx512f")]
    fn of(size: usize) -> Self {
        let from: [u8; 64] = std::array::from_fn(|byte| (byte / 16 * size + byte % 16) as u8);
        let filled = (0..LANES).fold(0, |filled, lane| filled | ((1u64 << size) - 1) << (16 * lane));
        // SAFETY: all of an array is read.
        let from = unsafe { _mm512_loadu_si512(from.as_ptr().cast()) };
        Spread { from, filled, bytes: u64::MAX >> (64 - LANES * size) }
    }

    /// The blocks of four names.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn blocks(&self, names: &[u8]) -> __m512i {
        debug_assert_eq!(names.len() as u32, self.bytes.count_ones());
        // SAFETY: only the bytes of the mask are read, and four names have that many.
        let names = unsafe { _mm512_maskz_loadu_epi8(self.bytes, names.as_ptr().cast()) };
        _mm512_maskz_permutexvar_epi8(self.filled, self.from, names)
    }

    /// The blocks of at most four names. Missing names give zeros.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn some_blocks(&self, names: &[u8]) -> __m512i {
        let mut bytes = [0; 64];
        bytes[..names.len()].copy_from_slice(names);
        self.blocks(&bytes[..self.bytes.count_ones() as usize])
    }
}

#[inline]
#[target_feature(enable = "avx512f,vaes")]
fn four_rounds_in_step(mut blocks: [__m512i; VECTORS], keys: [__m512i; 4]) -> [__m512i; VECTORS] {
    for block in &mut blocks {
        *block = _mm512_xor_si512(*block, keys[0]);
    }
    for key in [keys[1], keys[2], keys[3], _mm512_setzero_si512()] {
        for block in &mut blocks {
            *block = _mm512_aesenc_epi128(*block, key);
        }
    }
    blocks
}

/// A mask with the two words of each name that has bytes at `at`.
#[inline]
fn longer_than(names: &[&[u8]; LANES], at: usize) -> __mmask8 {
    (0..LANES).fold(0, |mask, i| mask | (u8::from(names[i].len() > at) * 3) << (2 * i))
}

/// The 16 bytes of each name at `at`, padded with zeros at the end.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn blocks(function: &AesHash, names: &[&[u8]; LANES], at: usize) -> __m512i {
    let block = |name: &[u8]| {
        let bytes = name.len().saturating_sub(at).min(16);
        let mask = (1u32 << bytes) - 1;
        // A masked load of no bytes from an unmapped address takes a thousand cycles, so point it
        // at readable memory.
        let from = if bytes > 0 { name.as_ptr().wrapping_add(at).cast() } else { ptr::from_ref(function).cast() };
        // SAFETY: only the bytes of the mask are read, and there are that many at `at`.
        unsafe { _mm_maskz_loadu_epi8(mask as u16, from) }
    };
    let first = _mm512_castsi128_si512(block(names[0]));
    let two = _mm512_inserti32x4::<1>(first, block(names[1]));
    _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(two, block(names[2])), block(names[3]))
}

#[inline]
#[target_feature(enable = "avx512f,vaes")]
fn four_rounds(blocks: __m512i, keys: [__m512i; 4]) -> __m512i {
    _mm512_aesenc_epi128(rounds(blocks, keys), _mm512_setzero_si512())
}

/// Adds the first key, then does one round with each of the others.
#[inline]
#[target_feature(enable = "avx512f,vaes")]
fn rounds<const N: usize>(blocks: __m512i, keys: [__m512i; N]) -> __m512i {
    let mut state = _mm512_xor_si512(blocks, keys[0]);
    for key in &keys[1..] {
        state = _mm512_aesenc_epi128(state, *key);
    }
    state
}

#[inline]
#[target_feature(enable = "avx512f")]
fn broadcast(key: u128) -> __m512i {
    _mm512_broadcast_i32x4(_mm_set_epi64x((key >> 64) as i64, key as i64))
}

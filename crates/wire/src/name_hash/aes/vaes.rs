//! The AES hash with four blocks in each instruction, on processors with AVX-512 and VAES.
//!
//! A first pass finds where components of one block end; only this depends on earlier components.
//! The second pass hashes four of them at a time.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m128i, __m512i, _bzhi_u64, _mm_broadcastw_epi16, _mm_loadl_epi64, _mm_maskz_loadu_epi8, _mm_set_epi64x,
    _mm_setzero_si128, _mm_sub_epi16, _mm512_add_epi8, _mm512_aesenc_epi128, _mm512_alignr_epi64,
    _mm512_broadcast_i32x4, _mm512_castsi128_si512, _mm512_castsi512_si128, _mm512_cmplt_epu8_mask, _mm512_inserti32x4,
    _mm512_loadu_si512, _mm512_maskz_compress_epi64, _mm512_maskz_loadu_epi8, _mm512_maskz_permutexvar_epi8,
    _mm512_permutexvar_epi8, _mm512_setzero_si512, _mm512_storeu_si512, _mm512_xor_si512,
};

use super::{AesHash, Behind, POSITIONS, bytes_of_short, x86};
use crate::name::NameRef;
use crate::name_hash::processor::prefetch_later;
use crate::name_hash::{Digest, PrefixHashes};

/// Number of blocks in a vector.
const LANES: usize = 4;
const GROUPS: usize = POSITIONS / LANES;
/// Number of names whose components are found together.
const TOGETHER: usize = 4;

/// Like [`AesHash::fill_burst`].
#[target_feature(enable = "aes,avx,avx512f,avx512bw,avx512vbmi,avx512vl,bmi2,vaes")]
pub(in crate::name_hash) fn fill_burst(
    function: &AesHash,
    depth_max: usize,
    names: &[NameRef<'_>],
    out: &mut [PrefixHashes],
) {
    let finish = function.finish.map(|key| broadcast(key));
    // A vector of ends must wait until the last of them has reached the cache. Walk the next names
    // in the meantime.
    let mut walked = None;
    for at in (0..names.len()).step_by(TOGETHER) {
        let some = at..names.len().min(at + TOGETHER);
        some.clone().for_each(|i| prefetch_later(names, i));
        let heads = heads(depth_max, &names[some.clone()], &mut out[some.clone()]);
        if let Some((some, heads)) = walked.replace((some, heads)) {
            fill_some(function, &finish, depth_max, &names[some.clone()], heads, &mut out[some]);
        }
    }
    if let Some((some, heads)) = walked {
        fill_some(function, &finish, depth_max, &names[some.clone()], heads, &mut out[some]);
    }
}

/// Like [`AesHash::go_on_burst`].
#[target_feature(enable = "aes,avx,avx512f,avx512bw,avx512vbmi,avx512vl,bmi2,vaes")]
pub(in crate::name_hash) fn go_on_burst(
    function: &AesHash,
    depth_max: usize,
    names: &[NameRef<'_>],
    out: &mut [PrefixHashes],
    which: &mut impl Iterator<Item = usize>,
) {
    let finish = function.finish.map(|key| broadcast(key));
    for i in which {
        let (name, out) = (names[i], &mut out[i]);
        let (Behind { sum, blocks }, hashed) = (Behind::of(out), out.len);
        if blocks != hashed || hashed % LANES > 0 {
            x86::go_on(function, depth_max, name, out);
            continue;
        }
        let mut head = Head { components: hashed, bytes: out.bytes() };
        assert!(head.bytes <= name.value().len(), "a name's first bytes were hashed");
        let mut sum = broadcast(sum);
        for group in hashed / LANES..GROUPS {
            let before = head.components;
            let blocks = next_blocks(depth_max, name, &mut head, out);
            if head.components == before {
                break;
            }
            sum = put_group(function, &finish, group, blocks, sum, out);
            if head.components < before + LANES {
                break;
            }
        }
        end(function, depth_max, name, head, sum, out);
    }
}

/// The blocks of a name's next components: at most four, each of one block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
fn next_blocks(depth_max: usize, name: NameRef<'_>, head: &mut Head, out: &mut PrefixHashes) -> __m512i {
    let value = name.value();
    let mut blocks = [_mm_setzero_si128(); LANES];
    for block in &mut blocks {
        let rest = &value[head.bytes..];
        let Some(bytes) = bytes_of_short(rest).filter(|_| head.components < depth_max) else { break };
        *block = block_of(&rest[..bytes]);
        head.bytes += bytes;
        head.components += 1;
        out.end[head.components] = head.bytes as u16;
    }
    together(blocks)
}

/// The first components of a name, up to the first that is longer than one block.
#[derive(Clone, Copy, Default)]
struct Head {
    components: usize,
    bytes: usize,
}

/// Finds the heads of a few names, and notes where their components end.
///
/// A component's end tells where the next one begins, so a walk waits for memory at each step.
/// Several names are therefore walked in step.
#[inline]
fn heads(depth_max: usize, names: &[NameRef<'_>], out: &mut [PrefixHashes]) -> [Head; TOGETHER] {
    let mut heads = [Head::default(); TOGETHER];
    let components_max = POSITIONS.min(depth_max);
    if let (Ok(names), Ok(out)) =
        (<&[NameRef<'_>; TOGETHER]>::try_from(names), <&mut [_; TOGETHER]>::try_from(&mut *out))
    {
        heads = heads_in_step(components_max, names, out);
    }
    // The rest: what is left of longer names, and names too few to be walked in step.
    for ((name, out), Head { components, bytes }) in names.iter().zip(out).zip(&mut heads) {
        while *components < components_max
            && let Some(more) = bytes_of_short(&name.value()[*bytes..])
        {
            *bytes += more;
            *components += 1;
            out.end[*components] = *bytes as u16;
        }
        // In the last vector, lanes without a component get empty blocks.
        let empty: &mut [u16; LANES - 1] = out.end[*components + 1..].first_chunk_mut().expect("of 129 ends");
        *empty = [*bytes as u16; LANES - 1];
    }
    heads
}

/// Walks while every one of these names has another component of at most one block.
#[inline]
fn heads_in_step(
    components_max: usize,
    names: &[NameRef<'_>; TOGETHER],
    out: &mut [PrefixHashes; TOGETHER],
) -> [Head; TOGETHER] {
    let values = names.map(|name| name.value());
    if values.iter().any(|value| value.len() < 2) {
        return Default::default();
    }
    let starts = values.map(|value| value.as_ptr());
    // The last place where a component's type and length may stand.
    let lasts = values.map(|value| value.as_ptr().wrapping_add(value.len() - 2));
    let mut at = starts;
    let mut components = 0;
    'walk: while components < components_max {
        let mut ends = at;
        for i in 0..TOGETHER {
            if at[i] > lasts[i] {
                break 'walk;
            }
            // SAFETY: the line above checks that two bytes from `at` on are within the value.
            let header = u16::from_le(unsafe { at[i].cast::<u16>().read_unaligned() });
            if header > 0x0eff || header as u8 > 252 {
                break 'walk;
            }
            ends[i] = at[i].wrapping_add(2 + usize::from(header >> 8));
        }
        components += 1;
        for i in 0..TOGETHER {
            out[i].end[components] = (ends[i] as usize - starts[i] as usize) as u16;
        }
        at = ends;
    }
    let at: [usize; TOGETHER] = std::array::from_fn(|i| at[i] as usize - starts[i] as usize);
    // Only the last component's end is checked against its name: earlier ones end where it begins.
    std::array::from_fn(|i| match at[i] <= values[i].len() {
        true => Head { components, bytes: at[i] },
        false => Head { components: components - 1, bytes: out[i].end[components - 1].into() },
    })
}

/// Hashes names whose heads were found.
#[inline]
#[target_feature(enable = "aes,avx,avx512f,avx512bw,avx512vbmi,avx512vl,bmi2,vaes")]
fn fill_some(
    function: &AesHash,
    finish: &[__m512i; 4],
    depth_max: usize,
    names: &[NameRef<'_>],
    heads: [Head; TOGETHER],
    out: &mut [PrefixHashes],
) {
    for ((name, out), head) in names.iter().zip(out).zip(heads) {
        out.begin(function.root, [0; 4]);
        fill(function, finish, depth_max, (*name, head), out);
    }
}

#[inline]
#[target_feature(enable = "aes,avx,avx512f,avx512bw,avx512vbmi,avx512vl,bmi2,vaes")]
fn fill(
    function: &AesHash,
    finish: &[__m512i; 4],
    depth_max: usize,
    (name, head): (NameRef<'_>, Head),
    out: &mut PrefixHashes,
) {
    let (value, len) = (name.value(), head.components);
    let mut sum = _mm512_setzero_si512();
    for group in 0..len.div_ceil(LANES).min(GROUPS) {
        let blocks = blocks_of(value, out.end[LANES * group..].first_chunk().expect("of 129 ends"));
        sum = put_group(function, finish, group, blocks, sum, out);
    }
    end(function, depth_max, name, head, sum, out);
}

/// Hashes four components and writes their digests. Returns the sums.
#[inline]
#[target_feature(enable = "aes,avx,avx512f,avx512bw,avx512vbmi,avx512vl,bmi2,vaes")]
fn put_group(
    function: &AesHash,
    finish: &[__m512i; 4],
    group: usize,
    blocks: __m512i,
    before: __m512i,
    out: &mut PrefixHashes,
) -> __m512i {
    let sums = sums(function, group, blocks, before);
    let digests: &mut [Digest; LANES] = out.digest[1 + LANES * group..].first_chunk_mut().expect("of 129 digests");
    // SAFETY: four digests are 64 bytes, and the store writes all of them.
    unsafe { _mm512_storeu_si512(digests.as_mut_ptr().cast(), four_rounds(sums, *finish)) };
    sums
}

/// Hashes what follows `head`, whose last sums are `sums`.
#[inline]
#[target_feature(enable = "aes,avx,avx512f,avx512bw,avx512vbmi,avx512vl,bmi2,vaes")]
fn end(
    function: &AesHash,
    depth_max: usize,
    name: NameRef<'_>,
    Head { components: len, bytes: at }: Head,
    sums: __m512i,
    out: &mut PrefixHashes,
) {
    let value = name.value();
    out.len = len;
    if at < value.len() {
        // The sum up to the last component.
        let sum = lane(sums, (len + LANES - 1) % LANES);
        match len < depth_max {
            true => x86::go_on_from(function, depth_max, value, out, (at, len, sum, len)),
            false => Behind { sum: x86::number(sum), blocks: len }.put_into(out),
        }
    }
}

/// The blocks of the components that end at `ends[1..]`. The first of them begins at `ends[0]`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vl,bmi2")]
fn blocks_of(value: &[u8], ends: &[u16; LANES + 1]) -> __m512i {
    let (start, end) = (usize::from(ends[0]), usize::from(ends[LANES]));
    debug_assert!(start <= end && end <= value.len() && end - start <= 64);
    // SAFETY: `heads` has found these bytes within `value`. Four ends are eight bytes, and the
    // arrays have 64.
    let (bytes, starts, ends, end_of, byte_of) = unsafe {
        (
            _mm512_maskz_loadu_epi8(_bzhi_u64(u64::MAX, (end - start) as u32), value.as_ptr().add(start).cast()),
            _mm_loadl_epi64(ends.as_ptr().cast()),
            _mm_loadl_epi64(ends.as_ptr().add(1).cast()),
            _mm512_loadu_si512(END_OF.as_ptr().cast()),
            _mm512_loadu_si512(BYTE_OF.as_ptr().cast()),
        )
    };
    let lengths = _mm512_castsi128_si512(_mm_sub_epi16(ends, starts));
    let starts = _mm512_castsi128_si512(_mm_sub_epi16(starts, _mm_broadcastw_epi16(starts)));
    let from = _mm512_add_epi8(_mm512_permutexvar_epi8(end_of, starts), byte_of);
    let filled = _mm512_cmplt_epu8_mask(byte_of, _mm512_permutexvar_epi8(end_of, lengths));
    _mm512_maskz_permutexvar_epi8(filled, from, bytes)
}

/// For each byte of four blocks: where a vector of ends holds its block's end. The lower halves of
/// the ends are enough.
const END_OF: [u8; 64] = bytes_of_blocks(2, 0);
/// For each byte of four blocks: its offset in its block.
const BYTE_OF: [u8; 64] = bytes_of_blocks(0, 1);

const fn bytes_of_blocks(by_block: u8, by_byte: u8) -> [u8; 64] {
    let mut of = [0; 64];
    let mut i = 0;
    while i < of.len() {
        of[i] = i as u8 / 16 * by_block + i as u8 % 16 * by_byte;
        i += 1;
    }
    of
}

/// At most 16 bytes, padded with zeros.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
fn block_of(bytes: &[u8]) -> __m128i {
    let mask = (1u32 << bytes.len()) - 1;
    // SAFETY: the load reads only the bytes that the mask selects.
    unsafe { _mm_maskz_loadu_epi8(mask as u16, bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn together([first, second, third, fourth]: [__m128i; LANES]) -> __m512i {
    let two = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(first), second);
    _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(two, third), fourth)
}

/// The sums up to each of four blocks. `before` holds the last sum of the blocks before.
#[inline]
#[target_feature(enable = "avx512f,vaes")]
fn sums(function: &AesHash, group: usize, blocks: __m512i, before: __m512i) -> __m512i {
    let keys = function.position.each_ref().map(|round| {
        let keys: &[u128; LANES] = round[LANES * group..].first_chunk().expect("as many positions as groups of four");
        // SAFETY: four keys are 64 bytes.
        unsafe { _mm512_loadu_si512(keys.as_ptr().cast()) }
    });
    let zero = _mm512_setzero_si512();
    let blocks = four_rounds(blocks, keys);
    let pairs = _mm512_xor_si512(blocks, _mm512_alignr_epi64::<6>(blocks, zero));
    let sums = _mm512_xor_si512(pairs, _mm512_alignr_epi64::<4>(pairs, zero));
    let last = _mm512_castsi512_si128(_mm512_alignr_epi64::<6>(zero, before));
    _mm512_xor_si512(sums, _mm512_broadcast_i32x4(last))
}

#[inline]
#[target_feature(enable = "avx512f,vaes")]
fn four_rounds(blocks: __m512i, [first, second, third, fourth]: [__m512i; 4]) -> __m512i {
    let state = _mm512_aesenc_epi128(_mm512_xor_si512(blocks, first), second);
    let state = _mm512_aesenc_epi128(_mm512_aesenc_epi128(state, third), fourth);
    _mm512_aesenc_epi128(state, _mm512_setzero_si512())
}

#[inline]
#[target_feature(enable = "avx512f")]
fn broadcast(key: u128) -> __m512i {
    _mm512_broadcast_i32x4(_mm_set_epi64x((key >> 64) as i64, key as i64))
}

/// Extracts one of four blocks.
#[inline]
#[target_feature(enable = "avx512f")]
fn lane(blocks: __m512i, lane: usize) -> __m128i {
    _mm512_castsi512_si128(_mm512_maskz_compress_epi64(3 << (2 * lane), blocks))
}

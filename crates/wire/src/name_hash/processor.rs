//! Detects what this processor has, and calls the functions that are compiled for it.
//!
//! On other processors portable code gives the same answers. Unsafe code in this crate stands only
//! here and, for loads and stores, in `siphash::avx512`, `siphash::avx2`, `aes::vaes` and `aes::bytes::vaes`.
//! Calling a function that is compiled for more than every processor has is safe after the
//! processor was checked.
#![allow(unsafe_code)]

use super::aes::AesHash;
use super::siphash::bytes::Block;
use super::siphash::{self, Lanes, Wanted};
use super::{DepthSet, Digest, PrefixHashes};
use crate::name::NameRef;

/// How many names ahead of the one being hashed are prefetched.
const AHEAD: usize = 6;

/// Prefetches the first three cache lines of a later name. Packets that another core or a network
/// card wrote are in no near cache.
#[inline(always)]
pub(super) fn prefetch_later(names: &[NameRef<'_>], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(later) = names.get(at + AHEAD) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let bytes = later.value().as_ptr();
        // SAFETY: a prefetch reads nothing that the program can see and faults on no address; every
        // x86-64 processor has SSE, which it belongs to.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(bytes.cast());
            _mm_prefetch::<_MM_HINT_T0>(bytes.wrapping_add(64).cast());
            _mm_prefetch::<_MM_HINT_T0>(bytes.wrapping_add(128).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (names, at);
}

/// Like [`AesHash::fill_burst`], with AES instructions. Returns false if there are none.
pub(super) fn aes_fill_burst(
    function: &AesHash,
    depth_max: usize,
    names: &[NameRef<'_>],
    out: &mut [PrefixHashes],
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if has_vaes() {
        // SAFETY: the processor has what the function is compiled for.
        unsafe { super::aes::vaes::fill_burst(function, depth_max, names, out) };
        return true;
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("aes") && is_x86_feature_detected!("avx") {
        // SAFETY: the processor has what the function is compiled for.
        unsafe { super::aes::x86::fill_burst(function, depth_max, names, out) };
        return true;
    }
    let _ = (function, depth_max, names, out);
    false
}

/// Like [`AesHash::go_on_burst`], with AES instructions. Returns false if there are none.
pub(super) fn aes_go_on_burst(
    function: &AesHash,
    depth_max: usize,
    names: &[NameRef<'_>],
    out: &mut [PrefixHashes],
    which: &mut impl Iterator<Item = usize>,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if has_vaes() {
        // SAFETY: the processor has what the function is compiled for.
        unsafe { super::aes::vaes::go_on_burst(function, depth_max, names, out, which) };
        return true;
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("aes") && is_x86_feature_detected!("avx") {
        // SAFETY: the processor has what the function is compiled for.
        unsafe { super::aes::x86::go_on_burst(function, depth_max, names, out, which) };
        return true;
    }
    let _ = (function, depth_max, names, out, which);
    false
}

/// Like [`AesHash::digest_bytes_burst`], with AES instructions. Returns false if there are none.
#[inline]
pub(super) fn aes_bytes_burst<'a>(function: &AesHash, name: impl Fn(usize) -> &'a [u8], out: &mut [Digest]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if has_vaes() {
        // SAFETY: the processor has what the function is compiled for.
        unsafe { super::aes::bytes::vaes::digest_burst(function, name, out) };
        return true;
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("aes") && is_x86_feature_detected!("avx") {
        // SAFETY: the processor has what the function is compiled for.
        unsafe { super::aes::bytes::x86::digest_burst(function, name, out) };
        return true;
    }
    let _ = (function, name, out);
    false
}

/// Like [`AesHash::digest_fixed_burst`], for names of one block each. Returns false if the names
/// are longer or there are no such instructions.
#[inline]
pub(super) fn aes_short_burst(function: &AesHash, bytes: &[u8], size: usize, out: &mut [Digest]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if (1..=16).contains(&size) && has_vaes() {
        // SAFETY: the processor has what the function is compiled for.
        unsafe { super::aes::bytes::vaes::digest_short_burst(function, bytes, size, out) };
        return true;
    }
    let _ = (function, bytes, size, out);
    false
}

#[cfg(target_arch = "x86_64")]
fn has_vaes() -> bool {
    is_x86_feature_detected!("vaes")
        && is_x86_feature_detected!("aes")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("bmi2")
}

/// Like [`SipHash::go_on_burst`](siphash::SipHash::go_on_burst), eight names at a time. Returns false if this processor has no
/// such vectors.
pub(super) fn siphash_go_on_burst<const C: usize, const D: usize>(
    wanted: &Wanted<impl Fn(usize) -> DepthSet>,
    names: &[NameRef<'_>],
    out: &mut [PrefixHashes],
    which: &mut impl Iterator<Item = usize>,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
    {
        // SAFETY: the processor has what the function is compiled for.
        unsafe { siphash::avx512::go_on_burst::<C, D>(wanted, names, out, which) };
        return true;
    }
    let _ = (wanted, names, out, which);
    false
}

/// Compresses the words of `blocks` into `lanes`, a vector of names at a time.
pub(super) fn siphash_compress<const C: usize>(lanes: &mut [Lanes], blocks: &[Block]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { siphash::avx512::compress_lanes::<C>(lanes, blocks) };
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { siphash::avx2::compress_lanes::<C>(lanes, blocks) };
    }
    siphash::bytes::compress_lanes::<C>(lanes, blocks);
}

/// Finishes the first `count` prefixes with SipHash-`C`-`D`, a vector at a time.
pub(super) fn siphash_finish<const C: usize, const D: usize>(lanes: &mut [Lanes], count: usize) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { siphash::avx512::finish_lanes::<C, D>(lanes, count) };
    }
    #[cfg(target_arch = "x86_64")]
    if count > 1 && is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { siphash::avx2::finish_lanes::<C, D>(lanes, count) };
    }
    siphash::finish_lanes::<C, D>(lanes, count);
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::name::COMPONENTS_MAX;
    use crate::name_hash::siphash::LANES;
    use crate::name_hash::{HashFunction, Keyed, NameHashKey, aes, tests};

    /// The fallback of [`aes_go_on_burst`] without VAES, in one step and in two.
    #[test]
    fn aes_instructions_alone_give_the_same_digests() {
        if !(is_x86_feature_detected!("aes") && is_x86_feature_detected!("avx")) {
            println!("skipped: this processor has no AES instructions");
            return;
        }
        let key = NameHashKey::with_function(HashFunction::Aes, tests::SECRET);
        let Keyed::Aes(function) = &key.0 else { unreachable!("made so above") };
        let name = tests::name_of_many_lengths();
        for depth in 0..=name.as_ref().len() {
            let name = name.as_ref().prefix(depth);
            let (mut plain, mut fast) = (PrefixHashes::default(), [PrefixHashes::default()]);
            plain.fill_portable(&key, name);
            for stop in 0..=depth {
                // SAFETY: the processor was asked above.
                unsafe { aes::x86::fill_burst(function, stop, &[name], &mut fast) };
                // SAFETY: as before.
                unsafe { aes::x86::go_on_burst(function, COMPONENTS_MAX, &[name], &mut fast, &mut (0..1)) };
                assert_eq!(fast[0].len, plain.len);
                assert_eq!(fast[0].digest[..=depth], plain.digest[..=depth]);
                assert_eq!(fast[0].end[..=depth], plain.end[..=depth]);
            }
        }
    }

    /// Unchecked bytes are no name, but reading them stays within their bounds.
    #[test]
    fn a_component_that_ends_beyond_its_name_is_cut_off() {
        let key = NameHashKey::with_function(HashFunction::Aes, tests::SECRET);
        let bytes = [8, 1, 7, 8, 14, 1];
        let names = [&bytes[..], &bytes[..3], &bytes[..2], &bytes[..1], &bytes[..], &bytes, &bytes, &bytes]
            .map(NameRef::from_checked);
        let (mut burst, mut alone) = (vec![PrefixHashes::default(); names.len()], PrefixHashes::default());
        PrefixHashes::fill_burst(&key, &names, &mut burst);
        for (name, together) in names.iter().zip(&burst) {
            alone.fill_portable(&key, *name);
            assert_eq!((together.len, &together.end[..=alone.len]), (alone.len, &alone.end[..=alone.len]));
            assert_eq!(together.digest[..=alone.len], alone.digest[..=alone.len]);
        }
    }

    /// The fallback of [`aes_bytes_burst`] without VAES.
    #[test]
    fn aes_instructions_alone_give_bytes_the_same_digests() {
        if !(is_x86_feature_detected!("aes") && is_x86_feature_detected!("avx")) {
            println!("skipped: this processor has no AES instructions");
            return;
        }
        let key = NameHashKey::with_function(HashFunction::Aes, tests::SECRET);
        let Keyed::Aes(function) = &key.0 else { unreachable!("made so above") };
        let bytes: Vec<u8> = (0..600).map(|i| (i * 7) as u8).collect();
        let mut digests = [Digest::default(); 600];
        // SAFETY: the processor was asked above.
        unsafe { crate::name_hash::aes::bytes::x86::digest_burst(function, |len| &bytes[..len], &mut digests) };
        for (len, digest) in digests.iter().enumerate() {
            assert_eq!(*digest, function.digest_bytes_portable(&bytes[..len]), "{len} bytes");
        }
    }

    /// The variants of [`siphash_compress`] and [`siphash_finish`] without AVX-512, with AVX2 and without.
    #[test]
    fn lanes_one_by_one_are_lanes_together() {
        let mut states = (0..).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut eight = || std::array::from_fn::<u64, LANES, _>(|_| states.next().unwrap_or_default());
        let start = Lanes { v: std::array::from_fn(|_| eight()), last: eight() };
        let block = Block { words: std::array::from_fn(|_| eight()), counts: [0, 1, 2, 3, 4, 4, 3, 0] };
        for count in 0..=2 * LANES {
            let (mut together, mut alone, mut by_four) = ([start; 2], [start; 2], [start; 2]);
            siphash_compress::<2>(&mut together, &[block; 2]);
            siphash_finish::<2, 4>(&mut together, count);
            siphash::bytes::compress_lanes::<2>(&mut alone, &[block; 2]);
            siphash::finish_lanes::<2, 4>(&mut alone, count);
            let same = |other: &[Lanes; 2]| {
                (0..count).all(|at| {
                    let [one, other] = [&alone, other].map(|lanes| &lanes[at / LANES].v);
                    (0..2).all(|half| one[half][at % LANES] == other[half][at % LANES])
                })
            };
            assert!(same(&together), "{count} together");
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the processor was asked above.
                unsafe { siphash::avx2::compress_lanes::<2>(&mut by_four, &[block; 2]) };
                // SAFETY: as before.
                unsafe { siphash::avx2::finish_lanes::<2, 4>(&mut by_four, count) };
                assert!(same(&by_four), "{count} by four");
            } else {
                println!("skipped: this processor has no AVX2");
            }
        }
    }
}

//! Detects what this processor has, and runs queries compiled for it.
//!
//! On other processors portable code gives the same answers. Processors with AVX2 but not AVX-512
//! run the portable code compiled for AVX2: their vectors cannot count bits, which is most of a
//! query's work.
#![allow(unsafe_code)]

use byname_wire::Digest;

use super::query::{Portable, Query};
use crate::entry::EntryId;
use crate::instructions::Instructions;

/// Like [`Query::burst`], with the query's instructions.
#[inline]
pub(super) fn burst<const W: usize>(query: &Query, names: &[Digest], out: &mut [Option<EntryId>]) {
    match query.instructions {
        Instructions::Portable => query.burst::<W>(names, out, &Portable(query.shape)),
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        // SAFETY: `Query::instructions` are no more than `Instructions::detect` found.
        Instructions::Avx2 => unsafe { x86::burst_avx2::<W>(query, names, out) },
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        // SAFETY: as above.
        Instructions::Avx512 => unsafe { x86::burst_avx512::<W>(query, names, out) },
        #[cfg(not(all(target_arch = "x86_64", not(loom))))]
        _ => unreachable!("never detected here"),
    }
}

#[cfg(all(target_arch = "x86_64", not(loom)))]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_loadu_si512, _mm512_permutexvar_epi64, _mm512_popcnt_epi64,
        _mm512_set1_epi64, _mm512_setzero_si512, _mm512_shrdv_epi64, _mm512_ternarylogic_epi64, _mm512_test_epi64_mask,
    };

    use byname_wire::Digest;

    use super::super::query::{Parities, Portable, Query};
    use super::super::shape::Shape;
    use crate::entry::EntryId;
    use crate::memory::Line;

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub(super) fn burst_avx2<const W: usize>(query: &Query, names: &[Digest], out: &mut [Option<EntryId>]) {
        query.burst::<W>(names, out, &Portable(query.shape));
    }

    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vbmi2,avx512vpopcntdq,bmi2")]
    pub(super) fn burst_avx512<const W: usize>(query: &Query, names: &[Digest], out: &mut [Option<EntryId>]) {
        let shape = query.shape;
        match shape.entry_bits.div_ceil(8) {
            1 => query.burst::<W>(names, out, &Planes::<1>::of(shape)),
            2 => query.burst::<W>(names, out, &Planes::<2>::of(shape)),
            _ => query.burst::<W>(names, out, &Planes::<4>::of(shape)),
        }
    }

    /// Loads all words of a line at once.
    // Has the same target features as its caller. With fewer, the assembly would not be inlined.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vbmi2,avx512vpopcntdq,bmi2")]
    #[inline]
    fn load(line: &Line) -> __m512i {
        let words;
        // SAFETY: this reads 64 bytes from a `Line`, which has that length and alignment. Another
        // thread may store to its words meanwhile. For the abstract machine this is eight relaxed
        // atomic loads, in no order, of words that are only accessed by atomics. Assembly makes no
        // non-atomic access that could race, and no x86-64 processor tears an aligned eight-byte
        // part of a vector. Each load is also an acquire load, like all loads on x86-64, as
        // `Changes::read` requires. `Changes::read` drops results from words of different moments.
        unsafe {
            asm!(
                "vmovdqa64 {words}, zmmword ptr [{line}]",
                words = out(zmm_reg) words,
                line = in(reg) line,
                options(nostack, preserves_flags),
            );
        }
        words
    }

    /// Start of eight planes of a cell: their words, and their bits within the words.
    #[derive(Clone, Copy)]
    struct Eight {
        word: __m512i,
        shift: __m512i,
    }

    /// Start of all planes of a cell. Only [`burst_avx512`] makes one.
    struct Planes<const EIGHTS: usize> {
        eights: [Eight; EIGHTS],
        /// The bits of an entry.
        bits: u32,
    }

    impl<const EIGHTS: usize> Planes<EIGHTS> {
        #[inline(always)]
        fn of(shape: Shape) -> Self {
            let eights = std::array::from_fn(|eight| {
                let offset = |lane: usize| (eight * 8 + lane) * shape.plane_bits;
                let word: [u64; 8] = std::array::from_fn(|lane| (offset(lane) / 64 % 8) as u64);
                let shift: [u64; 8] = std::array::from_fn(|lane| (offset(lane) % 64) as u64);
                // SAFETY: the load reads exactly the whole array. The processor has what the caller
                // is compiled for.
                let load = |words: [u64; 8]| unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
                Eight { word: load(word), shift: load(shift) }
            });
            Planes { eights, bits: u32::MAX >> (32 - shape.entry_bits) }
        }
    }

    impl<const EIGHTS: usize, const W: usize> Parities<W> for Planes<EIGHTS> {
        #[inline(always)]
        fn of(&self, line: &Line, first: usize, mask: [u64; W]) -> u32 {
            // SAFETY: a `Planes` exists only on a processor with the features that this is compiled
            // for.
            let words = unsafe { load(line) };
            let mut value = 0;
            for (eight, planes) in self.eights.iter().enumerate() {
                // SAFETY: these instructions take no addresses, and a `Planes` exists only on a
                // processor that has them.
                let odd = unsafe {
                    let one = _mm512_set1_epi64(1);
                    // Cells with planes of one word are whole lines.
                    let mut at = if W == 1 {
                        planes.word
                    } else {
                        _mm512_add_epi64(planes.word, _mm512_set1_epi64(first as i64))
                    };
                    let mut low = _mm512_permutexvar_epi64(at, words);
                    let mut odd = _mm512_setzero_si512();
                    for mask in mask {
                        at = _mm512_add_epi64(at, one);
                        let high = _mm512_permutexvar_epi64(at, words);
                        let plane = _mm512_shrdv_epi64(low, high, planes.shift);
                        // odd ^= plane & mask
                        let mask = _mm512_set1_epi64(mask as i64);
                        odd = if W == 1 {
                            _mm512_and_si512(plane, mask)
                        } else {
                            _mm512_ternarylogic_epi64::<0x78>(odd, plane, mask)
                        };
                        low = high;
                    }
                    _mm512_test_epi64_mask(_mm512_popcnt_epi64(odd), one)
                };
                value |= u32::from(odd) << (8 * eight);
            }
            value & self.bits
        }
    }
}

//! Detects what this processor has, examines many elements of a column at once, and calls functions
//! that are compiled for the processor.
//!
//! On other processors portable code gives the same answers.
#![allow(unsafe_code)]

use byname_wire::tagset::TagDigest;

use super::arena::Block;
use super::known::Parts;
use super::packet::Bitmap;
use super::query::{Goal, Query, State};
use crate::instructions::Instructions;
use crate::memory::Line;
use crate::sync::Ordering;
use crate::tagset::TagQuery;

/// Maximum number of elements of a column.
pub(super) const COLUMN_MAX: usize = 16;

/// Consecutive half words of a block.
#[derive(Clone, Copy)]
pub(super) struct Column<'a> {
    lines: &'a [Line],
    /// Index in the half words of `lines`, which has at least `len` from here on.
    first: usize,
    len: usize,
}

impl<'a> Column<'a> {
    /// `len` half words of a block from `at` on, at most [`COLUMN_MAX`].
    ///
    /// # Panics
    /// If the block's chunk ends before that, or if `len` is too large.
    #[inline(always)]
    pub(super) fn of(block: Block<'a>, at: usize, len: usize) -> Self {
        let first = block.first + at;
        assert!(len <= COLUMN_MAX && first + len <= size_of_val(block.lines) / size_of::<u32>());
        Column { lines: block.lines, first, len }
    }

    /// A mask whose bit `i` is set if `is_set` holds for element `i`.
    #[inline(always)]
    fn mask(self, is_set: impl Fn(u32) -> bool) -> u32 {
        let half = |i: usize| {
            let at = self.first + i;
            (self.lines[at / 16].0[at / 2 % 8].load(Ordering::Relaxed) >> (at % 2 * 32)) as u32
        };
        (0..self.len).fold(0, |mask, i| mask | u32::from(is_set(half(i))) << i)
    }
}

/// Examines the elements of a column.
pub(super) trait Lanes {
    /// The elements that may be tags of the packet: all that are, and few others.
    fn screen(column: Column<'_>, tags: &Bitmap) -> u32;
    /// The elements that are signatures of tags that the filter holds.
    fn held(column: Column<'_>, parts: &Parts) -> u32;
}

/// One element at a time.
pub(super) struct Portable;

impl Lanes for Portable {
    #[inline(always)]
    fn screen(column: Column<'_>, tags: &Bitmap) -> u32 {
        column.mask(|tag| tags.may_have(TagDigest(tag)))
    }

    #[inline(always)]
    fn held(column: Column<'_>, parts: &Parts) -> u32 {
        column.mask(|signature| signature.to_le_bytes().iter().all(|byte| parts.bytes[usize::from(byte % 128)] != 0))
    }
}

/// Like [`Query::burst`], with the query's instructions.
#[inline]
pub(super) fn burst<G: Goal>(query: &Query, queries: &[TagQuery<'_>], goal: &mut G, states: &mut [State]) {
    match query.instructions {
        Instructions::Portable => query.burst::<Portable, G>(queries, goal, states),
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        // SAFETY: `Query::instructions` are no more than `Instructions::detect` found.
        Instructions::Avx2 => unsafe { x86::burst_avx2(query, queries, goal, states) },
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        // SAFETY: as above.
        Instructions::Avx512 => unsafe { x86::burst_avx512(query, queries, goal, states) },
        #[cfg(not(all(target_arch = "x86_64", not(loom))))]
        _ => unreachable!("never detected here"),
    }
}

#[cfg(all(target_arch = "x86_64", not(loom)))]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m256i, __m512i, _mm256_and_si256, _mm256_andnot_si256, _mm256_blendv_ps, _mm256_castps_si256,
        _mm256_castsi256_ps, _mm256_cmpgt_epi32, _mm256_loadu_si256, _mm256_movemask_ps, _mm256_permutevar8x32_epi32,
        _mm256_set1_epi32, _mm256_setr_epi32, _mm256_slli_epi32, _mm256_sllv_epi32, _mm256_srli_epi32,
        _mm512_cmpeq_epi32_mask, _mm512_loadu_si512, _mm512_permutex2var_epi8, _mm512_permutexvar_epi32,
        _mm512_rorv_epi32, _mm512_set1_epi32, _mm512_srli_epi32, _mm512_test_epi32_mask,
    };

    use super::super::known::Parts;
    use super::super::packet::Bitmap;
    use super::super::query::{Goal, Query, State};
    use super::{Column, Lanes};
    use crate::tagset::TagQuery;

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub(super) fn burst_avx2<G: Goal>(query: &Query, queries: &[TagQuery<'_>], goal: &mut G, states: &mut [State]) {
        query.burst::<Avx2, G>(queries, goal, states);
    }

    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vbmi,bmi1,bmi2,popcnt")]
    pub(super) fn burst_avx512<G: Goal>(query: &Query, queries: &[TagQuery<'_>], goal: &mut G, states: &mut [State]) {
        query.burst::<Avx512, G>(queries, goal, states);
    }

    /// Sixteen elements at once. Only [`burst_avx512`] uses it.
    struct Avx512;

    /// Loads a column's elements, padded with zeros, and a mask of the lanes in use.
    // Has the same target features as its caller. With fewer, the assembly would not be inlined.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vbmi,bmi1,bmi2,popcnt")]
    #[inline]
    fn load_sixteen(column: Column<'_>) -> (__m512i, u16) {
        let mask = ((1u32 << column.len) - 1) as u16;
        let words;
        // SAFETY: this reads `len` half words from where a column begins, all of which belong to
        // its lines. Another thread may store to these words meanwhile. For the abstract machine
        // these are relaxed atomic loads, in no order, of words that are only accessed by atomics.
        // Assembly makes no non-atomic access that could race, and no x86-64 processor tears an
        // aligned four-byte lane of a vector.
        unsafe {
            asm!(
                "vmovdqu32 {words}{{{mask}}}{{z}}, zmmword ptr [{first}]",
                words = out(zmm_reg) words,
                mask = in(kreg) mask,
                first = in(reg) column.lines.as_ptr().cast::<u32>().add(column.first),
                options(nostack, preserves_flags, readonly),
            );
        }
        (words, mask)
    }

    impl Lanes for Avx512 {
        #[inline(always)]
        fn screen(column: Column<'_>, tags: &Bitmap) -> u32 {
            // SAFETY: the loads read exactly the whole bitmap. The processor has what the only user
            // is compiled for.
            unsafe {
                let (elements, mask) = load_sixteen(column);
                let bitmap = _mm512_loadu_si512(tags.0.as_ptr().cast());
                // The four bits above the lowest five select the word. The permutation ignores all
                // others.
                let words = _mm512_permutexvar_epi32(_mm512_srli_epi32::<5>(elements), bitmap);
                // The lowest five bits select the bit. The rotation ignores all others.
                let bits = _mm512_rorv_epi32(words, elements);
                u32::from(_mm512_test_epi32_mask(bits, _mm512_set1_epi32(1)) & mask)
            }
        }

        #[inline(always)]
        fn held(column: Column<'_>, parts: &Parts) -> u32 {
            // SAFETY: the loads read exactly the two halves of an array. The processor has what the
            // only user is compiled for.
            unsafe {
                let (elements, mask) = load_sixteen(column);
                let (low, high) = parts.bytes.split_at(64);
                let low = _mm512_loadu_si512(low.as_ptr().cast());
                let high = _mm512_loadu_si512(high.as_ptr().cast());
                let bytes = _mm512_permutex2var_epi8(low, elements, high);
                u32::from(_mm512_cmpeq_epi32_mask(bytes, _mm512_set1_epi32(-1)) & mask)
            }
        }
    }

    /// Eight elements at once. Only [`burst_avx2`] uses it.
    struct Avx2;

    /// A column's elements from `from` on, up to eight, padded with zeros.
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    #[inline]
    fn load_eight(column: Column<'_>, from: usize) -> __m256i {
        let left = _mm256_set1_epi32((column.len - from) as i32);
        let own = _mm256_cmpgt_epi32(left, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        let elements;
        // SAFETY: as for `load_sixteen`. Lanes that are not the column's have a zero mask and are
        // not read.
        unsafe {
            asm!(
                "vpmaskmovd {elements}, {own}, ymmword ptr [{first}]",
                elements = out(ymm_reg) elements,
                own = in(ymm_reg) own,
                first = in(reg) column.lines.as_ptr().cast::<u32>().add(column.first + from),
                options(nostack, preserves_flags, readonly),
            );
        }
        elements
    }

    impl Avx2 {
        /// A mask whose bit `i` is set if `signs` makes element `i` negative.
        #[inline(always)]
        fn mask(column: Column<'_>, signs: impl Fn(__m256i) -> __m256i) -> u32 {
            let mut mask = 0;
            for from in (0..column.len).step_by(8) {
                // SAFETY: the processor has what the only user is compiled for.
                let signs = unsafe { _mm256_movemask_ps(_mm256_castsi256_ps(signs(load_eight(column, from)))) as u32 };
                mask |= signs << from;
            }
            mask & ((1 << column.len) - 1)
        }
    }

    impl Lanes for Avx2 {
        #[inline(always)]
        fn screen(column: Column<'_>, tags: &Bitmap) -> u32 {
            let (low, high) = tags.0.split_at(8);
            // SAFETY: the loads read exactly the two halves of a bitmap. The processor has what the
            // only user is compiled for.
            Self::mask(column, |elements| unsafe {
                let low = _mm256_castsi256_ps(_mm256_loadu_si256(low.as_ptr().cast()));
                let high = _mm256_castsi256_ps(_mm256_loadu_si256(high.as_ptr().cast()));
                let word = _mm256_srli_epi32::<5>(elements);
                let low = _mm256_permutevar8x32_epi32(_mm256_castps_si256(low), word);
                let high = _mm256_permutevar8x32_epi32(_mm256_castps_si256(high), word);
                let is_high = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(elements));
                let words = _mm256_blendv_ps(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high), is_high);
                bit(_mm256_castps_si256(words), elements)
            })
        }

        #[inline(always)]
        fn held(column: Column<'_>, parts: &Parts) -> u32 {
            let [_, _, _, a, b, c, d] = parts.masks;
            // SAFETY: these instructions take no addresses. The processor has what the only user is
            // compiled for.
            Self::mask(column, |elements| unsafe {
                let part = |mask: u32, positions| bit(_mm256_set1_epi32(mask as i32), positions);
                let low = _mm256_and_si256(part(a, elements), part(b, _mm256_srli_epi32::<8>(elements)));
                let third = part(c, _mm256_srli_epi32::<16>(elements));
                let high = _mm256_and_si256(third, part(d, _mm256_srli_epi32::<24>(elements)));
                _mm256_and_si256(low, high)
            })
        }
    }

    /// In each lane, moves the bit of a word that the lowest five bits of `at` select to the sign.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn bit(words: __m256i, at: __m256i) -> __m256i {
        _mm256_sllv_epi32(words, _mm256_andnot_si256(at, _mm256_set1_epi32(31)))
    }
}

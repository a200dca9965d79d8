//! Elimination, compiled for what this processor has.
#![allow(unsafe_code)]

use super::part::Named;
use super::solve::{Portable, Solver};
use crate::instructions::Instructions;

/// As [`Solver::eliminate`], by the instructions given, which this processor must have.
#[inline]
pub(super) fn eliminate<const W: usize>(
    solver: &mut Solver,
    instructions: Instructions,
    names: &[Named],
    seed: u8,
) -> bool {
    assert!(instructions <= Instructions::detect());
    match instructions {
        Instructions::Portable => solver.eliminate::<W, Portable>(names, seed),
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        // SAFETY: asserted above.
        Instructions::Avx2 => unsafe { x86::eliminate_avx2::<W>(solver, names, seed) },
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        // SAFETY: asserted above.
        Instructions::Avx512 => unsafe { x86::eliminate_avx512::<W>(solver, names, seed) },
        #[cfg(not(all(target_arch = "x86_64", not(loom))))]
        _ => unreachable!("never detected here"),
    }
}

#[cfg(all(target_arch = "x86_64", not(loom)))]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m512i, _mm512_and_si512, _mm512_loadu_si512, _mm512_mask_or_epi64, _mm512_mask_xor_epi64,
        _mm512_permutexvar_epi64, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_storeu_si512, _mm512_sub_epi64,
        _mm512_test_epi64_mask,
    };

    use super::super::part::Named;
    use super::super::solve::{Chunk, LANES, Portable, Solver, System, Vectors};

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub(super) fn eliminate_avx2<const W: usize>(solver: &mut Solver, names: &[Named], seed: u8) -> bool {
        solver.eliminate::<W, Portable>(names, seed)
    }

    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,popcnt")]
    pub(super) fn eliminate_avx512<const W: usize>(solver: &mut Solver, names: &[Named], seed: u8) -> bool {
        solver.eliminate::<W, Avx512>(names, seed)
    }

    /// Eight words at once. Only [`eliminate_avx512`] uses it.
    struct Avx512;

    impl Vectors for Avx512 {
        #[inline(always)]
        fn add<const W: usize>(rows: [&mut Chunk; W], values: &mut Chunk, row: [u64; W], pivot: [u64; W], value: u64) {
            // SAFETY: whole chunks are read and written; the processor has what the only user is compiled
            // for.
            unsafe {
                let mut words = [_mm512_setzero_si512(); W];
                let mut select = 0;
                for w in 0..W {
                    words[w] = _mm512_loadu_si512(rows[w].as_ptr().cast());
                    select |= _mm512_test_epi64_mask(words[w], _mm512_set1_epi64(pivot[w] as i64));
                }
                for w in 0..W {
                    let row = _mm512_set1_epi64(row[w] as i64);
                    let sum = _mm512_mask_xor_epi64(words[w], select, words[w], row);
                    _mm512_storeu_si512(rows[w].as_mut_ptr().cast(), sum);
                }
                let old = _mm512_loadu_si512(values.as_ptr().cast());
                let sum = _mm512_mask_xor_epi64(old, select, old, _mm512_set1_epi64(value as i64));
                _mm512_storeu_si512(values.as_mut_ptr().cast(), sum);
            }
        }

        #[inline(always)]
        fn set(planes: &mut Chunk, bit: u64, select: u8) {
            // SAFETY: as above.
            unsafe {
                let words = _mm512_loadu_si512(planes.as_ptr().cast());
                let set = _mm512_mask_or_epi64(words, select, words, _mm512_set1_epi64(bit as i64));
                _mm512_storeu_si512(planes.as_mut_ptr().cast(), set);
            }
        }

        #[inline(always)]
        fn reduce<const W: usize>(system: &mut System) -> bool {
            match W {
                // SAFETY: the processor has what the only user is compiled for.
                1 => unsafe { reduce_in_registers(system) },
                _ => system.reduce::<W, Avx512>(),
            }
        }
    }

    /// Chunks of a system whose masks are single words. All of it fits the vector registers.
    const CHUNKS: usize = 64 / LANES;

    /// As [`System::reduce`], for masks of single words. Through memory, each step would wait for the
    /// stores of the step before.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,popcnt")]
    #[inline]
    fn reduce_in_registers(system: &mut System) -> bool {
        let chunks = system.names.div_ceil(LANES);
        let mut rows = [_mm512_setzero_si512(); CHUNKS];
        let mut values = rows;
        for chunk in (0..CHUNKS).filter(|&chunk| chunk < chunks) {
            // SAFETY: whole chunks are read.
            unsafe {
                rows[chunk] = _mm512_loadu_si512(system.rows[0][chunk].as_ptr().cast());
                values[chunk] = _mm512_loadu_si512(system.values[chunk].as_ptr().cast());
            }
        }
        // Chunk by chunk, so that which register a row is in is known when this is compiled.
        let (rows_in, values_in, names) = (&mut rows, &mut values, system.names);
        let solvable = reduce_chunk::<0>(rows_in, values_in, names)
            && reduce_chunk::<1>(rows_in, values_in, names)
            && reduce_chunk::<2>(rows_in, values_in, names)
            && reduce_chunk::<3>(rows_in, values_in, names)
            && reduce_chunk::<4>(rows_in, values_in, names)
            && reduce_chunk::<5>(rows_in, values_in, names)
            && reduce_chunk::<6>(rows_in, values_in, names)
            && reduce_chunk::<7>(rows_in, values_in, names);
        for chunk in (0..CHUNKS).filter(|&chunk| chunk < chunks) {
            // SAFETY: whole chunks are written.
            unsafe {
                _mm512_storeu_si512(system.rows[0][chunk].as_mut_ptr().cast(), rows[chunk]);
                _mm512_storeu_si512(system.values[chunk].as_mut_ptr().cast(), values[chunk]);
            }
        }
        solvable
    }

    /// Removes the pivots of eight rows from all others.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,popcnt")]
    #[inline]
    fn reduce_chunk<const CHUNK: usize>(
        rows: &mut [__m512i; CHUNKS],
        values: &mut [__m512i; CHUNKS],
        names: usize,
    ) -> bool {
        let lanes = names.saturating_sub(CHUNK * LANES).min(LANES);
        for lane in 0..lanes {
            let from = _mm512_set1_epi64(lane as i64);
            let row = _mm512_permutexvar_epi64(from, rows[CHUNK]);
            let value = _mm512_permutexvar_epi64(from, values[CHUNK]);
            let pivot = _mm512_and_si512(row, _mm512_sub_epi64(_mm512_setzero_si512(), row));
            for chunk in 0..CHUNKS {
                let others = if chunk == CHUNK { !(1 << lane) } else { u8::MAX };
                // SAFETY: arithmetic on registers. Not by intrinsics, of which the compiler makes an
                // addition and a choice, half as many instructions again.
                unsafe {
                    asm!(
                        "vptestmq {select} {{{others}}}, {rows}, {pivot}",
                        "vpxorq {rows} {{{select}}}, {rows}, {row}",
                        "vpxorq {values} {{{select}}}, {values}, {value}",
                        others = in(kreg) others,
                        select = out(kreg) _,
                        rows = inout(zmm_reg) rows[chunk],
                        values = inout(zmm_reg) values[chunk],
                        row = in(zmm_reg) row,
                        value = in(zmm_reg) value,
                        pivot = in(zmm_reg) pivot,
                        options(pure, nomem, nostack, preserves_flags),
                    );
                }
            }
        }
        // A row without bits has no pivot.
        _mm512_test_epi64_mask(rows[CHUNK], rows[CHUNK]).count_ones() as usize == lanes
    }
}

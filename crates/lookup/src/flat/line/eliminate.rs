//! The writer's computations, compiled for what this processor has.
#![allow(unsafe_code)]

use super::solve::{Portable, Vectors};
use crate::instructions::Instructions;

/// A computation.
// Not a closure: the compiler does not inline closures into functions compiled for some processors.
pub(super) trait Task {
    type Output;
    /// Must always be inlined, or it is compiled for every processor.
    fn run<V: Vectors>(self) -> Self::Output;
}

/// The instruction set in use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Processor(Instructions);

impl Processor {
    /// Uses the given instructions, or the largest set that the processor has.
    pub(super) fn with(instructions: Instructions) -> Self {
        Processor(instructions.min(Instructions::detect()))
    }

    /// Computes a task with these instructions.
    #[inline]
    pub(super) fn run<T: Task>(self, task: T) -> T::Output {
        match self.0 {
            Instructions::Portable => task.run::<Portable>(),
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            // SAFETY: the processor has them, or `with` would have chosen less.
            Instructions::Avx2 => unsafe { x86::run_avx2(task) },
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            // SAFETY: as above.
            Instructions::Avx512 => unsafe { x86::run_avx512(task) },
            #[cfg(not(all(target_arch = "x86_64", not(loom))))]
            _ => unreachable!("never detected here"),
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(loom)))]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m512i, _mm512_and_si512, _mm512_loadu_si512, _mm512_mask_xor_epi64, _mm512_permutexvar_epi64,
        _mm512_set1_epi64, _mm512_setzero_si512, _mm512_storeu_si512, _mm512_sub_epi64, _mm512_test_epi64_mask,
    };

    use super::super::solve::{Chunk, LANES, Portable, System, Vectors};
    use super::Task;

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub(super) fn run_avx2<T: Task>(task: T) -> T::Output {
        task.run::<Portable>()
    }

    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,popcnt")]
    pub(super) fn run_avx512<T: Task>(task: T) -> T::Output {
        task.run::<Avx512>()
    }

    /// Eight words at once. Only [`run_avx512`] uses it.
    struct Avx512;

    impl Vectors for Avx512 {
        #[inline(always)]
        fn add<const W: usize>(
            rows: [&mut Chunk; W],
            sums: [&mut Chunk; W],
            row: [u64; W],
            sum: [u64; W],
            pivot: [u64; W],
        ) {
            // SAFETY: whole chunks are read and written. The processor has what the only user is
            // compiled for.
            unsafe {
                let mut select = 0;
                for (words, pivot) in rows.iter().zip(pivot) {
                    let words = _mm512_loadu_si512(words.as_ptr().cast());
                    select |= _mm512_test_epi64_mask(words, _mm512_set1_epi64(pivot as i64));
                }
                for (words, added) in rows.into_iter().zip(row).chain(sums.into_iter().zip(sum)) {
                    let old = _mm512_loadu_si512(words.as_ptr().cast());
                    let new = _mm512_mask_xor_epi64(old, select, old, _mm512_set1_epi64(added as i64));
                    _mm512_storeu_si512(words.as_mut_ptr().cast(), new);
                }
            }
        }

        #[inline(always)]
        fn flip(planes: &mut Chunk, bits: u64, select: u8) {
            // SAFETY: as above.
            unsafe {
                let words = _mm512_loadu_si512(planes.as_ptr().cast());
                let flipped = _mm512_mask_xor_epi64(words, select, words, _mm512_set1_epi64(bits as i64));
                _mm512_storeu_si512(planes.as_mut_ptr().cast(), flipped);
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

        #[inline(always)]
        fn is_independent<const W: usize>(system: &mut System) -> bool {
            match W {
                // SAFETY: as above.
                1 => unsafe { is_independent_in_registers(system) },
                _ => system.is_independent::<W>(),
            }
        }
    }

    /// Chunks of a system whose masks are single words. The whole system fits the vector registers.
    const CHUNKS: usize = 64 / LANES;

    /// Like [`System::reduce`], for masks of single words. Through memory, each step would wait for
    /// the stores of the step before.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,popcnt")]
    #[inline]
    fn reduce_in_registers(system: &mut System) -> bool {
        let chunks = system.names.div_ceil(LANES);
        let mut rows = [_mm512_setzero_si512(); CHUNKS];
        let mut sums = rows;
        for chunk in (0..CHUNKS).filter(|&chunk| chunk < chunks) {
            // SAFETY: whole chunks are read.
            unsafe {
                rows[chunk] = _mm512_loadu_si512(system.rows[0][chunk].as_ptr().cast());
                sums[chunk] = _mm512_loadu_si512(system.sums[0][chunk].as_ptr().cast());
            }
        }
        // Chunk by chunk, so that the compiler knows which register holds a row.
        let (rows_in, sums_in, names) = (&mut rows, &mut sums, system.names);
        let solvable = reduce_chunk::<0>(rows_in, sums_in, names)
            && reduce_chunk::<1>(rows_in, sums_in, names)
            && reduce_chunk::<2>(rows_in, sums_in, names)
            && reduce_chunk::<3>(rows_in, sums_in, names)
            && reduce_chunk::<4>(rows_in, sums_in, names)
            && reduce_chunk::<5>(rows_in, sums_in, names)
            && reduce_chunk::<6>(rows_in, sums_in, names)
            && reduce_chunk::<7>(rows_in, sums_in, names);
        for chunk in (0..CHUNKS).filter(|&chunk| chunk < chunks) {
            // SAFETY: whole chunks are written.
            unsafe {
                _mm512_storeu_si512(system.rows[0][chunk].as_mut_ptr().cast(), rows[chunk]);
                _mm512_storeu_si512(system.sums[0][chunk].as_mut_ptr().cast(), sums[chunk]);
            }
        }
        solvable
    }

    /// Like [`System::is_independent`], for masks of single words.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,popcnt")]
    #[inline]
    fn is_independent_in_registers(system: &System) -> bool {
        let chunks = system.names.div_ceil(LANES);
        let mut rows = [_mm512_setzero_si512(); CHUNKS];
        for chunk in (0..CHUNKS).filter(|&chunk| chunk < chunks) {
            // SAFETY: whole chunks are read.
            rows[chunk] = unsafe { _mm512_loadu_si512(system.rows[0][chunk].as_ptr().cast()) };
        }
        let (rows, names) = (&mut rows, system.names);
        check_chunk::<0>(rows, names)
            && check_chunk::<1>(rows, names)
            && check_chunk::<2>(rows, names)
            && check_chunk::<3>(rows, names)
            && check_chunk::<4>(rows, names)
            && check_chunk::<5>(rows, names)
            && check_chunk::<6>(rows, names)
            && check_chunk::<7>(rows, names)
    }

    /// Removes the pivots of eight rows from those behind them. Returns false if one has none.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,popcnt")]
    #[inline]
    fn check_chunk<const CHUNK: usize>(rows: &mut [__m512i; CHUNKS], names: usize) -> bool {
        let lanes = names.saturating_sub(CHUNK * LANES).min(LANES);
        for lane in 0..lanes {
            let row = _mm512_permutexvar_epi64(_mm512_set1_epi64(lane as i64), rows[CHUNK]);
            let pivot = _mm512_and_si512(row, _mm512_sub_epi64(_mm512_setzero_si512(), row));
            for chunk in (0..CHUNKS).filter(|&chunk| chunk >= CHUNK) {
                let others = if chunk == CHUNK { !(1 << lane) } else { u8::MAX };
                // SAFETY: arithmetic on registers. It avoids intrinsics for the reason given below.
                unsafe {
                    asm!(
                        "vptestmq {select} {{{others}}}, {rows}, {pivot}",
                        "vpxorq {rows} {{{select}}}, {rows}, {row}",
                        others = in(kreg) others,
                        select = out(kreg) _,
                        rows = inout(zmm_reg) rows[chunk],
                        row = in(zmm_reg) row,
                        pivot = in(zmm_reg) pivot,
                        options(pure, nomem, nostack, preserves_flags),
                    );
                }
            }
        }
        // A row without bits has no pivot.
        _mm512_test_epi64_mask(rows[CHUNK], rows[CHUNK]).count_ones() as usize == lanes
    }

    /// Removes the pivots of eight rows from all others.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,popcnt")]
    #[inline]
    fn reduce_chunk<const CHUNK: usize>(
        rows: &mut [__m512i; CHUNKS],
        sums: &mut [__m512i; CHUNKS],
        names: usize,
    ) -> bool {
        let lanes = names.saturating_sub(CHUNK * LANES).min(LANES);
        for lane in 0..lanes {
            let from = _mm512_set1_epi64(lane as i64);
            let row = _mm512_permutexvar_epi64(from, rows[CHUNK]);
            let sum = _mm512_permutexvar_epi64(from, sums[CHUNK]);
            let pivot = _mm512_and_si512(row, _mm512_sub_epi64(_mm512_setzero_si512(), row));
            for chunk in 0..CHUNKS {
                let others = if chunk == CHUNK { !(1 << lane) } else { u8::MAX };
                // SAFETY: arithmetic on registers. From intrinsics the compiler makes an addition
                // and a select, half as many instructions again.
                unsafe {
                    asm!(
                        "vptestmq {select} {{{others}}}, {rows}, {pivot}",
                        "vpxorq {rows} {{{select}}}, {rows}, {row}",
                        "vpxorq {sums} {{{select}}}, {sums}, {sum}",
                        others = in(kreg) others,
                        select = out(kreg) _,
                        rows = inout(zmm_reg) rows[chunk],
                        sums = inout(zmm_reg) sums[chunk],
                        row = in(zmm_reg) row,
                        sum = in(zmm_reg) sum,
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

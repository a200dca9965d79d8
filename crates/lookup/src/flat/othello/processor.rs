//! Detects what this processor has, and runs queries compiled for it. With vectors of 512 bits it handles eight names
//! at once, if no value [straddles](Width::straddles) two words.
#![allow(unsafe_code)]

use byname_wire::Digest;

use super::place::Width;
use super::query::{Part, Portable, Query};
use crate::entry::EntryId;
use crate::instructions::Instructions;

/// How to compute queries.
pub(super) enum Processor {
    /// One name at a time.
    Portable,
    /// Eight names at once.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    Avx512(x86::Vectors),
}

impl Processor {
    /// Uses at most these instructions, for these parts.
    pub(super) fn with(instructions: Instructions, width: Width, parts: &[Part]) -> Self {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        if instructions.min(Instructions::detect()) == Instructions::Avx512 && !width.straddles() {
            return Processor::Avx512(x86::Vectors::of(width, parts));
        }
        let _ = (instructions, width, parts);
        Processor::Portable
    }

    /// Like [`Query::burst`].
    #[inline]
    pub(super) fn burst(&self, query: &Query, names: &[Digest], out: &mut [Option<EntryId>]) {
        match self {
            Processor::Portable if query.width.straddles() => query.burst(names, out, &Portable::<true>),
            Processor::Portable => query.burst(names, out, &Portable::<false>),
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            // SAFETY: `Vectors` exist only on a processor where `Instructions::detect` found them.
            Processor::Avx512(vectors) => unsafe { x86::burst(vectors, query, names, out) },
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Processor::Portable => 0,
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Processor::Avx512(vectors) => vectors.memory_bytes(),
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(loom)))]
mod x86 {
    use std::arch::x86_64::{
        __m256i, __m512i, _mm_cvtsi32_si128, _mm256_loadu_si256, _mm512_add_epi64, _mm512_and_si512,
        _mm512_castsi256_si512, _mm512_castsi512_si256, _mm512_inserti64x4, _mm512_loadu_si512, _mm512_mul_epu32,
        _mm512_or_si512, _mm512_permutex2var_epi64, _mm512_rol_epi64, _mm512_set_epi64, _mm512_set1_epi64,
        _mm512_slli_epi64, _mm512_srl_epi64, _mm512_srli_epi64, _mm512_storeu_si512, _mm512_xor_si512,
    };
    use std::marker::PhantomData;

    use byname_wire::Digest;

    use super::super::place::{LINE_BITS, Width};
    use super::super::query::{Eight, GROUP, Part, Query};
    use crate::entry::EntryId;
    use crate::prefetch;
    use crate::sync::{AtomicU64, Ordering};

    /// Like [`Query::burst`].
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,bmi2")]
    pub(super) fn burst(vectors: &Vectors, query: &Query, names: &[Digest], out: &mut [Option<EntryId>]) {
        query.burst(names, out, vectors);
    }

    /// A part in a form from which vectors are loaded.
    #[repr(C, align(32))]
    struct Row {
        seed: u64,
        /// Number of lines of each array.
        lines: u64,
        /// Address of the first line, in bits.
        first: u64,
    }

    /// Computes eight names at once. Exists only on a processor that has what this is compiled for.
    pub(in crate::flat::othello) struct Vectors {
        /// In the order of the query half's parts, which keep the lines alive.
        parts: Box<[Row]>,
        /// Shift that chooses a part from a hash that is already shifted by one.
        shift: i32,
        width: Width,
    }

    /// Start of the values of eight names in each array: addresses in bits.
    #[derive(Clone, Copy)]
    pub(in crate::flat::othello) struct Places<'a> {
        bits: [[u64; GROUP]; 2],
        query: PhantomData<&'a Query>,
    }

    impl Vectors {
        pub(super) fn of(width: Width, parts: &[Part]) -> Self {
            let row = |part: &Part| Row {
                seed: part.shape.seed,
                lines: u64::from(part.shape.lines),
                first: 8 * std::ptr::from_ref(part.line(0)).expose_provenance() as u64,
            };
            Vectors { parts: parts.iter().map(row).collect(), shift: 63 - parts.len().trailing_zeros() as i32, width }
        }

        pub(super) fn memory_bytes(&self) -> usize {
            size_of_val(&*self.parts)
        }

        /// Seeds, numbers of lines, and first bits of the parts of eight names.
        #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,bmi2")]
        #[inline]
        fn parts_of(&self, hashes: __m512i) -> [__m512i; 3] {
            // Two shifts, because a single shift by all 64 bits is not allowed.
            let numbers = words(_mm512_srl_epi64(_mm512_srli_epi64::<1>(hashes), _mm_cvtsi32_si128(self.shift)));
            // SAFETY: the load reads exactly one row.
            let row = |i: usize| unsafe {
                _mm256_loadu_si256(std::ptr::from_ref(&self.parts[numbers[i] as usize]).cast::<__m256i>())
            };
            let two = |i: usize| _mm512_inserti64x4::<1>(_mm512_castsi256_si512(row(i)), row(i + 1));
            let rows = [two(0), two(2), two(4), two(6)];
            [0, 1, 2].map(|at| {
                let column = _mm512_set_epi64(0, 0, 0, 0, at + 12, at + 8, at + 4, at);
                let half = |i: usize| _mm512_permutex2var_epi64(rows[i], column, rows[i + 1]);
                _mm512_inserti64x4::<1>(half(0), _mm512_castsi512_si256(half(2)))
            })
        }

        /// Like `Shape::bits`, for eight names.
        #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,bmi2")]
        #[inline]
        fn bits_of(&self, names: &[Digest; GROUP]) -> [[u64; GROUP]; 2] {
            let pointer = names.as_ptr().cast::<__m512i>();
            // SAFETY: eight digests of two words each have the length of two vectors.
            let (low, high) = unsafe { (_mm512_loadu_si512(pointer), _mm512_loadu_si512(pointer.add(1))) };
            let hash = _mm512_permutex2var_epi64(low, _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0), high);
            let check = _mm512_permutex2var_epi64(low, _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1), high);
            let [seed, lines, first] = self.parts_of(hash);
            let mixed = folded(_mm512_xor_si512(hash, seed), _mm512_xor_si512(check, _mm512_rol_epi64::<32>(seed)));
            let second = _mm512_add_epi64(first, _mm512_slli_epi64::<{ LINE_BITS.ilog2() }>(lines));
            // The bits from 2^32 up are the line, and those below are the place in the line.
            let own_bits = _mm512_set1_epi64(!(i64::from(self.width.bits()) - 1));
            let bit = |first, half| {
                let scaled = _mm512_srli_epi64::<{ 32 - LINE_BITS.ilog2() }>(_mm512_mul_epu32(half, lines));
                words(_mm512_add_epi64(first, _mm512_and_si512(scaled, own_bits)))
            };
            [bit(first, _mm512_srli_epi64::<32>(mixed)), bit(second, mixed)]
        }
    }

    impl Places<'_> {
        /// The word of a value.
        #[inline(always)]
        fn word(&self, array: usize, name: usize) -> &AtomicU64 {
            let address = self.bits[array][name] / 64 * 8;
            // SAFETY: this is the address of a word in the query half's lines.
            unsafe { &*std::ptr::with_exposed_provenance(address as usize) }
        }
    }

    impl Eight for Vectors {
        type Places<'a> = Places<'a>;

        #[inline(always)]
        fn nowhere<'a>(&self, _query: &'a Query) -> Places<'a> {
            Places { bits: [[0; GROUP]; 2], query: PhantomData }
        }

        #[inline(always)]
        fn find<'a>(&self, query: &'a Query, names: &[Digest; GROUP], places: &mut Places<'a>) {
            debug_assert_eq!(query.parts.len(), self.parts.len());
            // SAFETY: the processor has what this is compiled for.
            places.bits = unsafe { self.bits_of(names) };
        }

        #[inline(always)]
        fn prefetch(&self, places: &Places<'_>) {
            for name in 0..GROUP {
                prefetch::read(places.word(0, name));
                prefetch::read(places.word(1, name));
            }
        }

        #[inline(always)]
        fn entries(&self, _query: &Query, places: &Places<'_>) -> [u32; GROUP] {
            std::array::from_fn(|name| {
                let value = |array| places.word(array, name).load(Ordering::Acquire) >> (places.bits[array][name] % 64);
                (value(0) ^ value(1)) as u32 & self.width.mask()
            })
        }
    }

    /// The words of a vector.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,bmi2")]
    #[inline]
    fn words(vector: __m512i) -> [u64; GROUP] {
        let mut words = [0; GROUP];
        // SAFETY: eight words have the length of a vector.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) };
        words
    }

    /// Multiplies eight pairs, and combines the halves of each product by exclusive-or. A product is computed from four
    /// products of halves.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,bmi2")]
    #[inline]
    fn folded(left: __m512i, right: __m512i) -> __m512i {
        let low = |product| _mm512_and_si512(product, _mm512_set1_epi64(0xffff_ffff));
        let high = |product| _mm512_srli_epi64::<32>(product);
        let lowest = _mm512_mul_epu32(left, right);
        // No sum overflows: a product of two numbers below 2^32 leaves room for two more such numbers.
        let middle = _mm512_add_epi64(_mm512_mul_epu32(high(left), right), high(lowest));
        let other = _mm512_add_epi64(_mm512_mul_epu32(left, high(right)), low(middle));
        let upper = _mm512_add_epi64(_mm512_mul_epu32(high(left), high(right)), high(middle));
        let upper = _mm512_add_epi64(upper, high(other));
        let lower = _mm512_or_si512(_mm512_slli_epi64::<32>(other), low(lowest));
        _mm512_xor_si512(upper, lower)
    }
}

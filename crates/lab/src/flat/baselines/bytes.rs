//! Memory of a table: zeroed bytes, on large pages if the kernel has them.

use std::io;

use byname_lookup::prefetch;
use memmap2::{Advice, MmapMut, MmapOptions};

/// Bytes that are read as words at any byte offset, and as fields of up to 32 bits at any bit offset.
pub struct Bytes {
    map: MmapMut,
    len: usize,
}

impl Bytes {
    /// Makes `len` zeroed bytes.
    pub fn zeroed(len: usize) -> io::Result<Self> {
        // Reading a word at the last byte also reads seven bytes behind it.
        let map = MmapOptions::new().len(len + 8).map_anon()?;
        // Fails if the kernel has no large pages. Then small pages are used, which are slower.
        #[cfg(target_os = "linux")]
        let _ = map.advise(Advice::HugePage);
        Ok(Bytes { map, len })
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The bytes.
    #[inline(always)]
    pub fn get(&self) -> &[u8] {
        &self.map
    }

    /// The bytes, mutable.
    pub fn get_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }

    /// Prefetches the cache line of byte `at`.
    #[inline(always)]
    pub fn prefetch_line(&self, at: usize) {
        prefetch::read(&self.map[at]);
    }

    /// Prefetches all cache lines of `bytes` bytes from `at` on.
    #[inline(always)]
    pub fn prefetch(&self, at: usize, bytes: usize) {
        // The last byte's line is prefetched separately, even if the loop did it already: so every place takes the same
        // number of steps, and the processor predicts the loop.
        for line in (at..at + bytes - 1).step_by(64) {
            prefetch::read(&self.map[line]);
        }
        prefetch::read(&self.map[at + bytes - 1]);
    }

    /// The eight bytes from `at` on, as a little-endian number.
    #[inline(always)]
    pub fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.map[at..at + 8].try_into().expect("a slice of eight bytes"))
    }

    /// The field of `bits` bits (at most 32) that begins at bit `at`.
    #[inline(always)]
    pub fn field(&self, at: usize, bits: u32) -> u32 {
        ((self.word(at / 8) >> (at % 8)) & ((1 << bits) - 1)) as u32
    }

    /// Writes a field.
    pub fn set_field(&mut self, at: usize, bits: u32, value: u32) {
        let mask = ((1u64 << bits) - 1) << (at % 8);
        let word = self.word(at / 8) & !mask | (u64::from(value) << (at % 8)) & mask;
        self.map[at / 8..at / 8 + 8].copy_from_slice(&word.to_le_bytes());
    }
}

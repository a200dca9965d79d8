//! A table's memory: octets, zero at first, on large pages where the kernel has them.

use std::io;

use byname_lookup::prefetch;
use memmap2::{Advice, MmapMut, MmapOptions};

/// Octets that are read in words at any offset, and in fields of up to 32 bits at any bit.
pub struct Octets {
    map: MmapMut,
    len: usize,
}

impl Octets {
    /// `len` octets.
    pub fn zeroed(len: usize) -> io::Result<Self> {
        // A word read at the last octet reads seven more.
        let map = MmapOptions::new().len(len + 8).map_anon()?;
        // Refused where the kernel has no large pages: small ones do, slower.
        #[cfg(target_os = "linux")]
        let _ = map.advise(Advice::HugePage);
        Ok(Octets { map, len })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The octets.
    #[inline(always)]
    pub fn get(&self) -> &[u8] {
        &self.map
    }

    /// The octets, to be written.
    pub fn get_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }

    /// Asks the memory for the cache line of octet `at`.
    #[inline(always)]
    pub fn prefetch_line(&self, at: usize) {
        prefetch::read(&self.map[at]);
    }

    /// Asks the memory for all cache lines of `bytes` octets from `at` on.
    #[inline(always)]
    pub fn prefetch(&self, at: usize, bytes: usize) {
        // The last line apart, even if it was asked for: as many steps for each place, so that the
        // processor foresees them.
        for line in (at..at + bytes - 1).step_by(64) {
            prefetch::read(&self.map[line]);
        }
        prefetch::read(&self.map[at + bytes - 1]);
    }

    /// The eight octets from `at` on, the first the least significant.
    #[inline(always)]
    pub fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.map[at..at + 8].try_into().expect("a slice of eight octets"))
    }

    /// The field of `bits` bits, at most 32, whose first is bit `at`.
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

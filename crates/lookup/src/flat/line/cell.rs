//! The words of a cell: planes from the lowest bit up, and the header in the top 16 bits.

use super::shape::{HEADER_BITS, Shape};

/// The part of a cell that a query must read before it can ask the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Chooses the masks.
    pub(super) seed: u8,
    /// Names of this rank and above are in the next level.
    pub(super) threshold: u8,
}

impl Header {
    /// Reads it from the last word of a cell.
    #[inline(always)]
    pub(super) fn of(last: u64) -> Self {
        Header { seed: (last >> 48) as u8, threshold: (last >> 56) as u8 }
    }

    /// Writes it into a cell that begins at the first of `words`.
    pub(super) fn put(self, shape: Shape, words: &mut [u64; 8]) {
        let last = &mut words[shape.cell_words - 1];
        *last = *last << HEADER_BITS >> HEADER_BITS | u64::from(self.seed) << 48 | u64::from(self.threshold) << 56;
    }
}

/// The header of a cell that begins at the first of `words`.
#[cfg(all(test, not(loom)))]
pub(super) fn header(shape: Shape, words: &[u64; 8]) -> Header {
    Header::of(words[shape.cell_words - 1])
}

/// Packs planes into a cell that begins at the first word: the first words of all planes, then the
/// second words.
pub(super) fn pack(shape: Shape, planes: [&[u64]; 2], header: Header) -> [u64; 8] {
    let mut words = [0u64; 8];
    for bit in 0..shape.entry_bits {
        flip(shape, &mut words, bit, planes.map(|planes| planes[bit]));
    }
    header.put(shape, &mut words);
    words
}

/// Adds `plane`, whose bits beyond a plane's end are zero, to one plane of the cell that begins at
/// the first of `words`.
#[inline]
pub(super) fn flip(shape: Shape, words: &mut [u64; 8], bit: usize, plane: [u64; 2]) {
    for (w, part) in plane.into_iter().enumerate() {
        let offset = bit * shape.plane_bits + w * 64;
        // Bits beyond the cell would be zero.
        let (at, shift) = (offset / 64 % 8, offset % 64);
        words[at] ^= part << shift;
        words[(at + 1) % 8] ^= part >> 1 >> (63 - shift);
    }
}

/// One plane of the cell that begins at word `first`. Bits beyond the plane's end belong to other
/// planes.
#[inline(always)]
pub(super) fn plane<const W: usize>(shape: Shape, words: &[u64; 8], first: usize, bit: usize) -> [u64; W] {
    std::array::from_fn(|w| {
        let offset = bit * shape.plane_bits + w * 64;
        let (at, shift) = (first + offset / 64, offset % 64);
        words[at % 8] >> shift | words[(at + 1) % 8] << 1 << (63 - shift)
    })
}

/// The parity of each plane with a mask, for the cell that begins at word `first`.
#[inline(always)]
pub(super) fn parities<const W: usize>(shape: Shape, words: &[u64; 8], first: usize, mask: [u64; W]) -> u32 {
    let mut value = 0;
    for bit in 0..shape.entry_bits {
        let plane = plane::<W>(shape, words, first, bit);
        // The mask is zero beyond the plane.
        let odd = plane.into_iter().zip(mask).fold(0, |odd, (plane, mask)| odd ^ plane & mask);
        value |= (odd.count_ones() & 1) << bit;
    }
    value
}

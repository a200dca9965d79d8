//! The words of a cell: planes from the lowest bit up, the header in the topmost 16.

use super::shape::Shape;

/// What a query must know before it can ask a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Chooses the masks.
    pub(super) seed: u8,
    /// Names of this rank and above are not here, but in the next level.
    pub(super) threshold: u8,
}

impl Header {
    /// From the last word of a cell.
    #[inline(always)]
    pub(super) fn of(last: u64) -> Self {
        Header { seed: (last >> 48) as u8, threshold: (last >> 56) as u8 }
    }
}

/// The header of a cell that begins at the first of `words`.
#[cfg(all(test, not(loom)))]
pub(super) fn header(shape: Shape, words: &[u64; 8]) -> Header {
    Header::of(words[shape.cell_words - 1])
}

/// A cell, at the first of the words, from its planes: the first words of all, then the second.
pub(super) fn pack(shape: Shape, planes: [&[u64]; 2], header: Header) -> [u64; 8] {
    let mut words = [0u64; 8];
    for (w, parts) in planes.into_iter().enumerate() {
        for (bit, part) in parts[..shape.entry_bits].iter().enumerate() {
            let offset = bit * shape.plane_bits + w * 64;
            // A plane's bits beyond its end are zero: what would lie beyond the cell is.
            let (at, shift) = (offset / 64 % 8, offset % 64);
            words[at] |= part << shift;
            words[(at + 1) % 8] |= part >> 1 >> (63 - shift);
        }
    }
    words[shape.cell_words - 1] |= u64::from(header.seed) << 48 | u64::from(header.threshold) << 56;
    words
}

/// The value of a name in a cell that begins at the first of `words` and has this seed.
#[cfg(all(test, not(loom)))]
pub(super) fn value(shape: Shape, words: &[u64; 8], name: byname_wire::Digest, seed: u8) -> u32 {
    parities(shape, words, 0, super::shape::mask::<2>(shape, name, seed))
}

/// The parity of each plane under a mask, for the cell that begins at word `first`.
#[inline(always)]
pub(super) fn parities<const W: usize>(shape: Shape, words: &[u64; 8], first: usize, mask: [u64; W]) -> u32 {
    let mut value = 0;
    for bit in 0..shape.entry_bits {
        let mut odd = 0;
        for (w, mask) in mask.iter().enumerate() {
            let offset = bit * shape.plane_bits + w * 64;
            let (at, shift) = (first + offset / 64, offset % 64);
            // Beyond the plane the mask is zero, whatever the words are.
            let plane = words[at % 8] >> shift | words[(at + 1) % 8] << 1 << (63 - shift);
            odd ^= plane & mask;
        }
        value |= (odd.count_ones() & 1) << bit;
    }
    value
}

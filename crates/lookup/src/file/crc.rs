//! How checksums change with lines, without reading the others.
//!
//! CRC-32C is linear: the checksums of two sections of one length differ by that of their exclusive or, which is zero but for the
//! lines that differ.

use std::sync::OnceLock;

use crate::memory::Line;

/// What a checksum of 32 bits becomes, by its bits.
type Operator = [u32; 32];

/// Zero lines behind a difference move it. Number n is for 2^n lines.
static ZEROS: OnceLock<Vec<Operator>> = OnceLock::new();

/// The difference of two lines' checksums, if nothing follows them.
pub(super) fn difference(before: &[u64; 8], after: &[u64; 8]) -> u32 {
    let differ: Vec<u8> = before.iter().zip(after).flat_map(|(before, after)| (before ^ after).to_le_bytes()).collect();
    // Without the inversions at both ends, which cancel out in the difference of two checksums.
    !crc32c::crc32c_append(!0, &differ)
}

/// The difference of two sections' checksums, if so many equal lines follow lines of this difference.
pub(super) fn behind(mut difference: u32, mut lines: u64) -> u32 {
    let zeros = ZEROS.get_or_init(|| {
        let line = std::array::from_fn(|bit| crc32c::crc32c_combine(1 << bit, 0, size_of::<Line>()));
        let twice = |operator: &Operator| Some(operator.map(|image| applied(operator, image)));
        std::iter::successors(Some(line), twice).take(u64::BITS as usize).collect()
    });
    while lines > 0 {
        difference = applied(&zeros[lines.trailing_zeros() as usize], difference);
        lines &= lines - 1;
    }
    difference
}

fn applied(operator: &Operator, mut checksum: u32) -> u32 {
    let mut sum = 0;
    while checksum > 0 {
        sum ^= operator[checksum.trailing_zeros() as usize];
        checksum &= checksum - 1;
    }
    sum
}

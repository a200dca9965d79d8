//! Compares six tags at once.
#![allow(unsafe_code)]

/// Bit `2 i` for each slot `i`. The filter and the version, behind the tags, have none.
const SLOT_BITS: u32 = 0x555;

/// Bit `2 i` for each slot `i` whose tag, in the first two words of a line, equals `tag`.
#[inline]
pub(super) fn slots_tagged(first: u64, head: u64, tag: u16) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_cmpeq_epi16, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi16};
        // SAFETY: these need SSE2, which belongs to every x86-64 processor, and take no addresses.
        unsafe {
            let tags = _mm_set_epi64x(head as i64, first as i64);
            _mm_movemask_epi8(_mm_cmpeq_epi16(tags, _mm_set1_epi16(tag as i16))) as u32 & SLOT_BITS
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    slots_tagged_portable(first, head, tag)
}

/// The same in portable code.
#[cfg(any(all(test, not(loom)), not(target_arch = "x86_64")))]
fn slots_tagged_portable(first: u64, head: u64, tag: u16) -> u32 {
    const LANES: u64 = 0x0001_0001_0001_0001;
    const LOW: u64 = 0x7fff * LANES;
    let lanes_equal = |tags: u64| {
        let differ = tags ^ (u64::from(tag) * LANES);
        // Sets bit 15 of each 16-bit group that is equal, exactly, then moves the bits to every
        // second position.
        let equal = !(((differ & LOW) + LOW) | differ | LOW) >> 15;
        (equal | equal >> 14 | equal >> 28 | equal >> 42) as u32 & 0x55
    };
    (lanes_equal(first) | lanes_equal(head) << 8) & SLOT_BITS
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_exactly() {
        for (first, head, tag, expected) in [
            (0x0001_0000_0001_0002u64, 0x0001_0001_0000_0001u64, 1, 0b01_01_00_01_00),
            (0xffff_0000_8000_7fff, 0, 0xffff, 0b01_00_00_00),
            (0xffff_0000_8000_7fff, 0xffff_ffff_8000_8000, 0x8000, 0b01_01_00_00_01_00),
            (0x0000_0001_0000_0001, 0x0000_0000_0001_0000, 0, 0b00_01_01_00_01_00),
        ] {
            assert_eq!(slots_tagged(first, head, tag), expected, "{first:x} {head:x} {tag:x}");
            assert_eq!(slots_tagged_portable(first, head, tag), expected, "{first:x} {head:x} {tag:x}");
        }
    }
}

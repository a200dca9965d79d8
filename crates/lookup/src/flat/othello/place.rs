//! The places of a name's two values, and the packing of values.
//!
//! Differs from [Concise §4.2]: the paper's arrays have a power of two of elements. Multiply-shift reduction allows any
//! number of cache lines, so the bits per name stay constant as tables grow.

use byname_wire::Digest;

/// Bits of a cache line.
pub(super) const LINE_BITS: u32 = 512;
/// Maximum number of bits of a value.
pub(super) const BITS_MAX: u32 = 32;

/// Width of values. Values are packed into cache lines so that none lies in two lines. A query therefore reads two
/// lines for any width. At most 5 % of a line is unused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Width {
    bits: u32,
    per_line: u32,
}

impl Width {
    /// # Panics
    /// If `bits` is not 1 to 32.
    pub(super) fn new(bits: u32) -> Self {
        assert!((1..=BITS_MAX).contains(&bits), "values have 1 to {BITS_MAX} bits");
        Width { bits, per_line: LINE_BITS / bits }
    }

    pub(super) fn bits(self) -> u32 {
        self.bits
    }

    /// Number of values in a cache line.
    pub(super) fn per_line(self) -> u32 {
        self.per_line
    }

    /// The largest value.
    #[inline(always)]
    pub(super) fn mask(self) -> u32 {
        u32::MAX >> (BITS_MAX - self.bits)
    }

    /// Whether a value may lie in two words.
    #[inline(always)]
    pub(super) fn straddles(self) -> bool {
        !self.bits.is_power_of_two()
    }

    /// The value that begins at `bit` of a line. `word` reads the line's words. `STRADDLE` may be false only if no
    /// value [straddles](Width::straddles).
    #[inline(always)]
    pub(super) fn value<const STRADDLE: bool>(self, bit: u32, word: impl Fn(usize) -> u64) -> u32 {
        let (at, shift) = ((bit / 64) as usize % 8, bit % 64);
        let mut value = word(at) >> shift;
        if STRADDLE {
            // The mask removes bits from behind the last word, because no value continues there.
            value |= word((at + 1) % 8) << 1 << (63 - shift);
        }
        value as u32 & self.mask()
    }

    /// The words of a part, and the bits to flip in them, that change the vertex's value by `delta`.
    pub(super) fn flips(self, vertex: u32, delta: u32) -> [(u32, u64); 2] {
        let (line, bit) = (vertex / self.per_line, vertex % self.per_line * self.bits);
        let (word, shift, delta) = (line * 8 + bit / 64, bit % 64, u64::from(delta));
        [(word, delta << shift), (word + 1, delta >> 1 >> (63 - shift))]
    }
}

/// Maps names to the values of a part: the pair of hash functions, and the size [Concise §4.1].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Determines the pair of hash functions.
    pub(super) seed: u64,
    /// Number of cache lines of each array. The lines of the second array follow those of the first.
    pub(super) lines: u32,
}

/// A value's place in a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    pub(super) line: u32,
    pub(super) slot: u32,
}

impl Place {
    /// Offset of the value in its line, in bits.
    #[inline(always)]
    pub(super) fn bit(self, width: Width) -> u32 {
        self.slot * width.bits
    }

    /// The place of a vertex of the part's graph.
    pub(super) fn of_vertex(vertex: u32, width: Width) -> Self {
        Place { line: vertex / width.per_line, slot: vertex % width.per_line }
    }

    /// The vertex whose value is at this place.
    #[inline(always)]
    pub(super) fn vertex(self, width: Width) -> u32 {
        self.line * width.per_line + self.slot
    }
}

impl Shape {
    /// For each of a name's two values: the upper 32 bits are the line in its array, and the lower 32 bits are the
    /// fraction of the line, in units of 2^-32.
    ///
    /// Digests are already uniform. So one folded product of all their bits with the seed gives independent places for
    /// each seed.
    #[inline(always)]
    fn scaled(&self, name: Digest) -> [u64; 2] {
        let product = u128::from(name.hash ^ self.seed) * u128::from(name.check ^ self.seed.rotate_left(32));
        let mixed = (product >> 64) as u64 ^ product as u64;
        [mixed >> 32, mixed & 0xffff_ffff].map(|half| half * u64::from(self.lines))
    }

    /// The places of a name in the two arrays.
    pub(super) fn places(&self, width: Width, name: Digest) -> [Place; 2] {
        let [a, b] = self.scaled(name);
        let place = |scaled: u64, first: u32| {
            // The remainder of the reduction chooses the slot.
            let slot = ((scaled & 0xffff_ffff) * u64::from(width.per_line)) >> 32;
            Place { line: first + (scaled >> 32) as u32, slot: slot as u32 }
        };
        [place(a, 0), place(b, self.lines)]
    }

    /// Line and bit of each of a name's two values. They equal those of [`Shape::places`], with fewer steps if no value
    /// [straddles](Width::straddles).
    #[inline(always)]
    pub(super) fn bits<const STRADDLE: bool>(&self, width: Width, name: Digest) -> [(u32, u32); 2] {
        if STRADDLE {
            return self.places(width, name).map(|place| (place.line, place.bit(width)));
        }
        let [a, b] = self.scaled(name);
        // The number of slots is a power of two, so the first bits of the remainder are the bit in the line.
        let bit = |scaled: u64| (scaled as u32 >> (32 - LINE_BITS.ilog2())) & !(width.bits - 1);
        [((a >> 32) as u32, bit(a)), ((b >> 32) as u32 + self.lines, bit(b))]
    }

    /// Number of vertices on each side of the part's graph.
    pub(super) fn side(&self, width: Width) -> u32 {
        self.lines * width.per_line
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_value_is_read_back_and_no_other_is_touched() {
        for bits in 1..=BITS_MAX {
            let width = Width::new(bits);
            let mut words = [0u64; 16];
            let vertices = 2 * width.per_line();
            for vertex in 0..vertices {
                for (word, flip) in width.flips(vertex, vertex.wrapping_mul(0x9e37_79b1) & width.mask()) {
                    if flip != 0 {
                        words[word as usize] ^= flip;
                    }
                }
            }
            for vertex in 0..vertices {
                let place = Place::of_vertex(vertex, width);
                assert_eq!(place.vertex(width), vertex);
                let value = width.value::<true>(place.bit(width), |word| words[place.line as usize * 8 + word]);
                assert_eq!(value, vertex.wrapping_mul(0x9e37_79b1) & width.mask(), "{bits} bits, vertex {vertex}");
            }
        }
    }

    #[test]
    fn places_spread_over_both_arrays() {
        let (width, shape) = (Width::new(5), Shape { seed: 77, lines: 3 });
        let mut seen = vec![0; 2 * shape.side(width) as usize];
        for i in 0..100_000u64 {
            let name =
                Digest { hash: i.wrapping_mul(0x9e37_79b9_7f4a_7c15), check: !i.wrapping_mul(0xbf58_476d_1ce4_e5b9) };
            let [a, b] = shape.places(width, name);
            assert!(a.line < 3 && (3..6).contains(&b.line));
            for bits in [1, 4, 8, 32] {
                let width = Width::new(bits);
                assert_eq!(shape.bits::<false>(width, name), shape.bits::<true>(width, name));
            }
            seen[a.vertex(width) as usize] += 1;
            seen[b.vertex(width) as usize] += 1;
        }
        // The expected number is 327 each.
        assert!(seen.iter().all(|&seen| (200..480).contains(&seen)), "{seen:?}");
    }
}

//! Where the two values of a name lie, and how values are packed.
//!
//! Differs from [Concise §4.2], whose arrays have powers of two of elements: multiply-shift
//! reduction takes any number of cache lines, so that bits a name stay level as tables grow.

use byname_wire::Digest;

/// Bits of a cache line.
pub(super) const LINE_BITS: u32 = 512;
/// Bits of the widest value.
pub(super) const BITS_MAX: u32 = 32;

/// Values of so many bits, packed into cache lines so that none lies in two: a query reads two
/// lines, whatever the width. At most 5 % of a line is left over.
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

    /// Values in a cache line.
    pub(super) fn per_line(self) -> u32 {
        self.per_line
    }

    /// The largest value.
    #[inline(always)]
    pub(super) fn mask(self) -> u32 {
        u32::MAX >> (BITS_MAX - self.bits)
    }

    /// Whether values may lie in two words.
    #[inline(always)]
    pub(super) fn straddles(self) -> bool {
        !self.bits.is_power_of_two()
    }

    /// The value that begins at `bit` of a line, whose words `word` reads; `STRADDLE` unless none
    /// [straddles](Width::straddles).
    #[inline(always)]
    pub(super) fn value<const STRADDLE: bool>(self, bit: u32, word: impl Fn(usize) -> u64) -> u32 {
        let (at, shift) = ((bit / 64) as usize % 8, bit % 64);
        let mut value = word(at) >> shift;
        if STRADDLE {
            // What comes from behind the last word is masked away: no value goes on there.
            value |= word((at + 1) % 8) << 1 << (63 - shift);
        }
        value as u32 & self.mask()
    }

    /// What to change in which words of a part, so that the vertex's value changes by `delta`.
    pub(super) fn flips(self, vertex: u32, delta: u32) -> [(u32, u64); 2] {
        let (line, bit) = (vertex / self.per_line, vertex % self.per_line * self.bits);
        let (word, shift, delta) = (line * 8 + bit / 64, bit % 64, u64::from(delta));
        [(word, delta << shift), (word + 1, delta >> 1 >> (63 - shift))]
    }
}

/// How names are laid onto a part: the pair of hash functions and the size [Concise §4.1].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// What makes the pair.
    pub(super) seed: u64,
    /// Cache lines of each of the two arrays; those of the second follow those of the first.
    pub(super) lines: u32,
}

/// A value's place in a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    pub(super) line: u32,
    pub(super) slot: u32,
}

impl Place {
    /// Where it begins in its line.
    #[inline(always)]
    pub(super) fn bit(self, width: Width) -> u32 {
        self.slot * width.bits
    }

    /// The place of a vertex of the part's graph.
    pub(super) fn of_vertex(vertex: u32, width: Width) -> Self {
        Place { line: vertex / width.per_line, slot: vertex % width.per_line }
    }

    /// The vertex whose value lies here.
    #[inline(always)]
    pub(super) fn vertex(self, width: Width) -> u32 {
        self.line * width.per_line + self.slot
    }
}

impl Shape {
    /// Of each of a name's two places, the line in its array and, below that, how far into the line: both
    /// are fractions of 2^32.
    ///
    /// Digests are uniform already, so one folded product of all their bits with the seed is a
    /// fresh draw for each seed.
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
            // What the reduction leaves over chooses the slot.
            let slot = ((scaled & 0xffff_ffff) * u64::from(width.per_line)) >> 32;
            Place { line: first + (scaled >> 32) as u32, slot: slot as u32 }
        };
        [place(a, 0), place(b, self.lines)]
    }

    /// The lines of a name's two places, and at which bit each value begins: what [`Shape::places`] gives,
    /// and in fewer steps where no value [straddles](Width::straddles).
    #[inline(always)]
    pub(super) fn bits<const STRADDLE: bool>(&self, width: Width, name: Digest) -> [(u32, u32); 2] {
        if STRADDLE {
            return self.places(width, name).map(|place| (place.line, place.bit(width)));
        }
        let [a, b] = self.scaled(name);
        // Slots are a power of two: the first bits of the rest are the bit in the line.
        let bit = |scaled: u64| (scaled as u32 >> (32 - LINE_BITS.ilog2())) & !(width.bits - 1);
        [((a >> 32) as u32, bit(a)), ((b >> 32) as u32 + self.lines, bit(b))]
    }

    /// Vertices of each of the two sides of the part's graph.
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
        // 327 each are expected.
        assert!(seen.iter().all(|&seen| (200..480).contains(&seen)), "{seen:?}");
    }
}

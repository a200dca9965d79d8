//! Computes a name's part, cells, ranks and masks from its digest.
//!
//! ```text
//! hash    part (0 to 16 bits, from above), cell of level 0 (32 bits), unused (8), rank in level 0 (8)
//! check   masks, with all of the hash and the cell's seed
//! ```
//!
//! Lower levels are rarely used, so their cells and ranks come from a mix of both halves.

use byname_wire::Digest;

/// Number of levels of a part. Names that do not fit a cell of one level go to the next.
pub(super) const LEVELS: usize = 4;
/// Maximum number of bits that choose a part.
pub(super) const PART_BITS_MAX: u32 = 16;
/// Maximum number of bits of an entry.
pub(super) const ENTRY_BITS_MAX: u32 = 32;
/// Maximum number of bits of a plane, and so of names in a cell.
pub(super) const PLANE_BITS_MAX: usize = 124;
/// A threshold above all ranks.
pub(super) const ALL_RANKS: u8 = 255;
/// Bits of a cell's seed and threshold.
pub(super) const HEADER_BITS: usize = 16;

/// How the bits of a cell are divided.
///
/// A cell is a linear system of its own: one plane for each bit of an entry, and the header in the
/// top 16 bits. It takes a whole line, except for entries of few bits. Their planes would be longer
/// than two words, and their systems slow to solve; two or four such cells share a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Bits of an entry, which is the number of planes of a cell.
    pub(super) entry_bits: usize,
    /// Bits of a plane: the number of unknowns, and the maximum number of names in a cell.
    pub(super) plane_bits: usize,
    /// Number of words of a cell: 2, 4 or 8.
    pub(super) cell_words: usize,
    /// For each word of a mask, the bits that lie in a plane.
    mask_bits: [u64; 2],
}

impl Shape {
    /// The shape for entries of `entry_bits` bits, 1 to 32.
    pub(super) fn new(entry_bits: u32) -> Self {
        assert!((1..=ENTRY_BITS_MAX).contains(&entry_bits), "entries of {entry_bits} bits");
        let cell_words = match entry_bits {
            1 => 2,
            2 | 3 => 4,
            _ => 8,
        };
        let entry_bits = entry_bits as usize;
        let plane_bits = (cell_words * 64 - HEADER_BITS) / entry_bits;
        let mask = u128::MAX >> (128 - plane_bits);
        Shape { entry_bits, plane_bits, cell_words, mask_bits: [mask as u64, (mask >> 64) as u64] }
    }

    /// Number of words of a mask, and of a plane.
    pub(super) fn mask_words(self) -> usize {
        self.plane_bits.div_ceil(64)
    }

    pub(super) fn cells_per_line(self) -> usize {
        8 / self.cell_words
    }

    /// The line of a cell, and the cell's first word in it.
    #[inline(always)]
    pub(super) fn line_of(self, cell: usize) -> (usize, usize) {
        let word = cell * self.cell_words;
        (word / 8, word % 8)
    }

    /// Number of cells of each level for up to `names` names. `fill` times [`Shape::plane_bits`] of
    /// them are planned for each cell of the first level. `spare` widens all lower levels.
    pub(super) fn cells(self, names: usize, fill: f64, spare: f64) -> [usize; LEVELS] {
        let mut cells = [0; LEVELS];
        let mut names = names as f64;
        for (level, cells) in cells.iter_mut().enumerate() {
            // Nothing takes what the last level cannot hold, so its cells are a third full. With
            // the few plane bits that wide entries leave, that is still five names.
            let (fill, spare) = match level {
                0 => (fill, 1.0),
                LAST => (0.33, spare),
                _ => (fill.min(0.85), spare),
            };
            let lines = names * spare / (fill * self.plane_bits as f64 * self.cells_per_line() as f64);
            *cells = (lines.ceil() as usize).max(1) * self.cells_per_line();
            let mean = names / *cells as f64;
            // Three standard deviations above the mean, plus one rank too many that each cell
            // bumps.
            names = *cells as f64 * (bumped(mean, self.plane_bits) + 0.01 * mean);
            names += 3.0 * names.sqrt();
        }
        cells
    }
}

const LAST: usize = LEVELS - 1;

/// Number of names that a cell with room for `room` is expected to bump, if `mean` names arrive on
/// average.
fn bumped(mean: f64, room: usize) -> f64 {
    let mut chance = (-mean).exp();
    let mut kept = 0.0;
    let mut above = 1.0;
    for names in 0..room {
        kept += chance * names as f64;
        above -= chance;
        chance *= mean / (names + 1) as f64;
    }
    (mean - kept - above * room as f64).max(0.0)
}

/// A name's cell within a level, and its rank. Cells bump names from the highest rank down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) cell: usize,
    pub(super) rank: u8,
}

/// The part of a name, among `1 << part_bits`.
#[inline(always)]
pub(super) fn part_of(name: Digest, part_bits: u32) -> usize {
    // Two shifts, because a single shift by all 64 bits is not allowed.
    (name.hash >> 1 >> (63 - part_bits)) as usize
}

/// The place of a name in a level of `cells` cells.
#[inline(always)]
pub(super) fn place(name: Digest, level: usize, cells: usize) -> Place {
    if level == 0 {
        return Place { cell: scaled(name.hash >> PART_BITS_MAX & 0xffff_ffff, cells), rank: rank(name.hash) };
    }
    let mixed = folded(name.hash ^ LEVEL_SEEDS[level], name.check ^ LEVEL_SEEDS[level].rotate_left(32));
    Place { cell: scaled(mixed >> 32, cells), rank: rank(mixed) }
}

/// The mask of a name in a cell with this seed, of `W` words.
#[inline(always)]
pub(super) fn mask<const W: usize>(shape: Shape, name: Digest, seed: u8) -> [u64; W] {
    let seeded = name.check.wrapping_add(u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    std::array::from_fn(|word| {
        let (left, right) = WORD_SEEDS[word];
        folded(seeded ^ left, name.hash ^ right) & shape.mask_bits[word]
    })
}

/// Arbitrary odd numbers with half of their bits set.
const LEVEL_SEEDS: [u64; LEVELS] =
    [0x2d35_8dcc_aa6c_78a5, 0x8bb8_4b93_962e_acc9, 0x4b33_a62e_d433_d4a3, 0xa076_1d64_78bd_642f];
const WORD_SEEDS: [(u64, u64); 2] =
    [(0xe703_7ed1_a0b4_28db, 0x5896_5c69_6f3e_7c1d), (0x1d8e_4e27_c47d_124f, 0xc2b2_ae3d_27d4_eb4f)];

/// Scales a number below 2^32 to one below `cells`.
#[inline(always)]
fn scaled(number: u64, cells: usize) -> usize {
    ((number * cells as u64) >> 32) as usize
}

#[inline(always)]
fn rank(hash: u64) -> u8 {
    // No rank is as high as `ALL_RANKS`.
    (hash as u8).min(ALL_RANKS - 1)
}

/// Both halves of a product, combined: each bit depends on all bits of both factors.
#[inline(always)]
fn folded(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn planes_fill_a_cell_and_two_words_at_most() {
        for bits in 1..=32 {
            let shape = Shape::new(bits);
            assert!(shape.plane_bits * shape.entry_bits <= shape.cell_words * 64 - HEADER_BITS);
            assert!((shape.plane_bits + 1) * shape.entry_bits > shape.cell_words * 64 - HEADER_BITS);
            assert!(shape.plane_bits <= PLANE_BITS_MAX);
            let ones = shape.mask_bits[0].count_ones() + shape.mask_bits[1].count_ones();
            assert_eq!(ones as usize, shape.plane_bits);
        }
    }

    #[test]
    fn what_is_bumped_is_the_mean_of_the_excess() {
        // A normal distribution gives 0.399 times its deviation; this is slightly less.
        assert!((bumped(62.0, 62) / 62f64.sqrt() - 0.398).abs() < 0.002);
        assert!(bumped(10.0, 62) < 1e-9);
        assert!((bumped(100.0, 62) - 38.0).abs() < 0.01);
    }

    #[test]
    fn names_of_a_part_are_spread_over_all_its_cells() {
        let spread = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for i in 0..1000 {
            let name = Digest { hash: spread(i), check: spread(i + 1) };
            for part_bits in [0, 1, 9, PART_BITS_MAX] {
                assert!(part_of(name, part_bits) < 1 << part_bits);
            }
            for level in 0..LEVELS {
                let place = place(name, level, 77);
                assert!(place.cell < 77 && place.rank < ALL_RANKS);
            }
        }
        let ends = [0, u64::MAX].map(|hash| place(Digest { hash, check: 0 }, 0, 77).cell);
        assert_eq!(ends, [0, 76]);
    }
}

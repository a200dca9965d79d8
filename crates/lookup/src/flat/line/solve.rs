//! Linear systems over GF(2): from the names of a cell to its words.
//!
//! Each name gives one equation for each bit of its entry: the parity of that bit's plane under the
//! name's mask. All planes share the masks, so that one elimination solves them all. A system is
//! solved by Gauss-Jordan elimination without a search for pivots: a row's lowest bit left is in no
//! other row's pivot, since all earlier pivots were eliminated from it.

use byname_wire::Digest;

use super::cell::{self, Header};
use super::processor::{self, Instructions};
use super::shape::{ENTRY_BITS_MAX, PLANE_BITS_MAX, Shape, mask};

/// Words that are worked on together.
pub(super) const LANES: usize = 8;
/// As many words.
pub(super) type Chunk = [u64; LANES];
/// One word of each row of the largest system.
type Column = [Chunk; PLANE_BITS_MAX.div_ceil(LANES)];
/// One word of each plane.
type Planes = [Chunk; ENTRY_BITS_MAX as usize / LANES];

/// What elimination does most.
pub(super) trait Vectors {
    /// Adds the row `row`, whose value is `value`, to those of eight that have its pivot.
    fn add<const W: usize>(rows: [&mut Chunk; W], values: &mut Chunk, row: [u64; W], pivot: [u64; W], value: u64);
    /// Sets a bit in those of eight planes whose bit in `select` is set.
    fn set(planes: &mut Chunk, bit: u64, select: u8);
}

/// By plain arithmetic.
pub(super) struct Portable;

impl Vectors for Portable {
    #[inline(always)]
    fn add<const W: usize>(rows: [&mut Chunk; W], values: &mut Chunk, row: [u64; W], pivot: [u64; W], value: u64) {
        let mut select = Chunk::default();
        for (words, pivot) in rows.iter().zip(pivot) {
            select.iter_mut().zip(words.iter()).for_each(|(select, word)| *select |= word & pivot);
        }
        let select = select.map(|bit| if bit == 0 { 0 } else { u64::MAX });
        for (words, row) in rows.into_iter().zip(row) {
            words.iter_mut().zip(select).for_each(|(word, select)| *word ^= row & select);
        }
        values.iter_mut().zip(select).for_each(|(word, select)| *word ^= value & select);
    }

    #[inline(always)]
    fn set(planes: &mut Chunk, bit: u64, select: u8) {
        for (lane, plane) in planes.iter_mut().enumerate() {
            *plane |= bit & u64::from(select >> lane & 1).wrapping_neg();
        }
    }
}

/// Seeds that are tried before the cell must bump a name. With as many names as unknowns two of
/// seven seeds work, with fewer more.
const SEEDS: u32 = 256;

/// A system at work. Meant to be used again.
pub(super) struct Solver {
    shape: Shape,
    instructions: Instructions,
    /// By word of the masks. Boxed, as the next: too much for the small stacks of loom's models.
    rows: Box<[Column; 2]>,
    values: Box<Column>,
    /// The bit of each row that no other row has.
    pivots: Box<[Column; 2]>,
    /// What the system was solved to, by word of the planes.
    planes: [Planes; 2],
}

impl Solver {
    pub(super) fn new(shape: Shape, instructions: Instructions) -> Self {
        let [rows, pivots] = [(); 2].map(|()| Box::default());
        Solver { shape, instructions, rows, values: Box::default(), pivots, planes: Default::default() }
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// The words of a cell with these names, and thresholds as given: `seed` if it works, or the next
    /// that does; `None`: no seed does.
    pub(super) fn solve(&mut self, names: &[Digest], entries: &[u32], seed: u8, threshold: u8) -> Option<[u64; 8]> {
        (0..SEEDS).find_map(|further| self.attempt(names, entries, seed.wrapping_add(further as u8), threshold))
    }

    /// The words of a cell with this seed, if it works.
    pub(super) fn attempt(&mut self, names: &[Digest], entries: &[u32], seed: u8, threshold: u8) -> Option<[u64; 8]> {
        debug_assert_eq!(names.len(), entries.len());
        if names.len() > self.shape.plane_bits {
            return None;
        }
        let solved = match self.shape.plane_bits {
            ..=64 => processor::eliminate::<1>(self, self.instructions, names, entries, seed),
            _ => processor::eliminate::<2>(self, self.instructions, names, entries, seed),
        };
        solved.then(|| {
            cell::pack(
                self.shape,
                self.planes.each_ref().map(|planes| planes.as_flattened()),
                Header { seed, threshold },
            )
        })
    }

    /// Brings the masks to a form in which each row has a bit, its pivot, that no other has, and takes
    /// the planes from there: unknowns that are no row's pivot are zero. False: there is no such form.
    #[inline(always)]
    pub(super) fn eliminate<const W: usize, V: Vectors>(
        &mut self,
        names: &[Digest],
        entries: &[u32],
        seed: u8,
    ) -> bool {
        self.fill::<W>(names, entries, seed);
        let chunks = names.len().div_ceil(LANES);
        for i in 0..names.len() {
            let (at, lane) = (i / LANES, i % LANES);
            let row: [u64; W] = std::array::from_fn(|w| self.rows[w][at][lane]);
            let Some(pivot) = lowest_bit(row) else { return false };
            let value = self.values[at][lane];
            for chunk in 0..chunks {
                let mut rows = self.rows.iter_mut();
                let rows = std::array::from_fn(|_| &mut rows.next().expect("W is 1 or 2")[chunk]);
                V::add::<W>(rows, &mut self.values[chunk], row, pivot, value);
            }
            // It was added to itself.
            for w in 0..W {
                self.rows[w][at][lane] = row[w];
                self.pivots[w][at][lane] = pivot[w];
            }
            self.values[at][lane] = value;
        }
        let eights = self.shape.entry_bits.div_ceil(LANES);
        for w in 0..W {
            self.planes[w] = Planes::default();
            for i in 0..names.len() {
                let (value, pivot) = (self.values[i / LANES][i % LANES], self.pivots[w][i / LANES][i % LANES]);
                for (eight, planes) in self.planes[w][..eights].iter_mut().enumerate() {
                    V::set(planes, pivot, (value >> (8 * eight)) as u8);
                }
            }
        }
        true
    }

    #[inline(always)]
    fn fill<const W: usize>(&mut self, names: &[Digest], entries: &[u32], seed: u8) {
        let shape = self.shape;
        if let Some(last) = names.len().div_ceil(LANES).checked_sub(1) {
            // What the last names leave of their chunk: rows without effect.
            self.rows.iter_mut().for_each(|row| row[last] = Chunk::default());
            self.values[last] = Chunk::default();
        }
        for (i, (name, entry)) in names.iter().zip(entries).enumerate() {
            for (row, word) in self.rows.iter_mut().zip(mask::<W>(shape, *name, seed)) {
                row[i / LANES][i % LANES] = word;
            }
            self.values[i / LANES][i % LANES] = u64::from(*entry);
        }
    }
}

/// The lowest bit set, alone.
#[inline(always)]
fn lowest_bit<const W: usize>(row: [u64; W]) -> Option<[u64; W]> {
    let mut pivot = [0; W];
    let at = row.iter().position(|&word| word != 0)?;
    pivot[at] = row[at] & row[at].wrapping_neg();
    Some(pivot)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    fn names(rng: &mut SmallRng, count: usize) -> Vec<Digest> {
        (0..count).map(|_| Digest { hash: rng.random(), check: rng.random() }).collect()
    }

    #[test]
    fn every_name_of_a_full_cell_gets_its_entry() {
        let mut rng = SmallRng::seed_from_u64(4);
        for bits in 1..=32 {
            let shape = Shape::new(bits);
            let mut solver = Solver::new(shape, Instructions::detect());
            for count in [0, 1, shape.plane_bits / 2, shape.plane_bits] {
                let names = names(&mut rng, count);
                let entries: Vec<u32> = names.iter().map(|_| rng.random::<u32>() >> (32 - bits)).collect();
                let words = solver.solve(&names, &entries, 250, 17).expect("one of 256 seeds works");
                let header = cell::header(shape, &words);
                assert_eq!(header.threshold, 17);
                for (name, entry) in names.iter().zip(entries) {
                    assert_eq!(cell::value(shape, &words, *name, header.seed), entry, "{bits} bits, {count} names");
                }
            }
        }
    }

    /// The share of seeds that solve a full system is that of random matrices: 0.2888.
    #[test]
    fn masks_are_as_good_as_random() {
        let mut rng = SmallRng::seed_from_u64(5);
        for bits in [4, 8, 16, 32] {
            let shape = Shape::new(bits);
            let mut solver = Solver::new(shape, Instructions::detect());
            let mut solved = 0;
            for _ in 0..40 {
                let mut names = names(&mut rng, shape.plane_bits);
                // As in a large table: the upper half of the hash is shared by all names of a cell.
                names.iter_mut().for_each(|name| name.hash &= 0xffff_ffff);
                let entries = vec![0; names.len()];
                let works = |seed: &u8| solver.attempt(&names, &entries, *seed, 0).is_some();
                solved += (0..=u8::MAX).filter(works).count();
            }
            let share = f64::from(solved as u32) / (40.0 * 256.0);
            assert!((share - 0.2888).abs() < 0.02, "{bits} bits: {share}");
        }
    }

    #[test]
    fn a_name_that_comes_twice_is_never_solved() {
        let name = Digest { hash: 1, check: 2 };
        assert_eq!(Solver::new(Shape::new(8), Instructions::detect()).solve(&[name, name], &[3, 3], 0, 255), None);
    }
}

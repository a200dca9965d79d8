//! Linear systems over GF(2): from the names of a cell to its words.
//!
//! Each name gives one equation for each bit of its entry: the parity of that bit's plane under the
//! name's mask. All planes share the masks, so that one elimination solves them all. A system is
//! solved by Gauss-Jordan elimination without a search for pivots: a row's lowest bit left is in no
//! other row's pivot, since all earlier pivots were eliminated from it; and what is added to the row
//! later has higher bits only.

use super::cell::{self, Header};
use super::eliminate::eliminate;
use super::part::Named;
use super::shape::{ENTRY_BITS_MAX, PLANE_BITS_MAX, Shape, mask};
use crate::instructions::Instructions;

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
    /// As [`System::reduce`].
    #[inline(always)]
    fn reduce<const W: usize>(system: &mut System) -> bool
    where
        Self: Sized,
    {
        system.reduce::<W, Self>()
    }
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

/// An equation for each name.
pub(super) struct System {
    pub(super) names: usize,
    /// By word of the masks. Boxed, as the next: too much for the small stacks of loom's models.
    pub(super) rows: Box<[Column; 2]>,
    pub(super) values: Box<Column>,
}

impl System {
    #[inline(always)]
    fn fill<const W: usize>(&mut self, shape: Shape, names: &[Named], seed: u8) {
        self.names = names.len();
        let whole = names.len().next_multiple_of(LANES);
        let mut rows = self.rows.each_mut().map(|rows| &mut rows.as_flattened_mut()[..whole]);
        let values = &mut self.values.as_flattened_mut()[..whole];
        for (i, named) in names.iter().enumerate() {
            for (rows, word) in rows.iter_mut().zip(mask::<W>(shape, named.name, seed)) {
                rows[i] = word;
            }
            values[i] = u64::from(named.entry);
        }
        // What the last names leave of their chunk: rows without effect.
        rows.into_iter().for_each(|rows| rows[names.len()..].fill(0));
        values[names.len()..].fill(0);
    }

    fn row<const W: usize>(&self, i: usize) -> [u64; W] {
        std::array::from_fn(|w| self.rows[w].as_flattened()[i])
    }

    fn value(&self, i: usize) -> u64 {
        self.values.as_flattened()[i]
    }

    /// Brings the masks to a form in which each row's lowest bit, its pivot, is in no other row.
    /// False: there is no such form.
    #[inline(always)]
    pub(super) fn reduce<const W: usize, V: Vectors>(&mut self) -> bool {
        let chunks = self.names.div_ceil(LANES);
        for i in 0..self.names {
            let (row, value) = (self.row::<W>(i), self.value(i));
            let Some(pivot) = lowest_bit(row) else { return false };
            for chunk in 0..chunks {
                let mut rows = self.rows.iter_mut();
                let rows = std::array::from_fn(|_| &mut rows.next().expect("W is 1 or 2")[chunk]);
                V::add::<W>(rows, &mut self.values[chunk], row, pivot, value);
            }
            // It was added to itself.
            self.rows.iter_mut().zip(row).for_each(|(rows, row)| rows.as_flattened_mut()[i] = row);
            self.values.as_flattened_mut()[i] = value;
        }
        true
    }
}

/// Solves systems, one after another in the same memory.
pub(super) struct Solver {
    shape: Shape,
    instructions: Instructions,
    system: System,
    /// What the system was solved to, by word of the planes.
    planes: [Planes; 2],
}

impl Solver {
    pub(super) fn new(shape: Shape, instructions: Instructions) -> Self {
        let system = System { names: 0, rows: Box::default(), values: Box::default() };
        Solver { shape, instructions, system, planes: Default::default() }
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// The words of a cell with these names, and thresholds as given: `seed` if it works, or the next
    /// that does; `None`: no seed does.
    pub(super) fn solve(&mut self, names: &[Named], seed: u8, threshold: u8) -> Option<[u64; 8]> {
        (0..SEEDS).find_map(|further| self.attempt(names, seed.wrapping_add(further as u8), threshold))
    }

    /// The words of a cell with this seed, if it works.
    pub(super) fn attempt(&mut self, names: &[Named], seed: u8, threshold: u8) -> Option<[u64; 8]> {
        if names.len() > self.shape.plane_bits {
            return None;
        }
        let solved = match self.shape.plane_bits {
            ..=64 => eliminate::<1>(self, self.instructions, names, seed),
            _ => eliminate::<2>(self, self.instructions, names, seed),
        };
        solved.then(|| {
            cell::pack(
                self.shape,
                self.planes.each_ref().map(|planes| planes.as_flattened()),
                Header { seed, threshold },
            )
        })
    }

    /// Solves for the planes: unknowns that are no row's pivot are zero. False: there is no solution.
    #[inline(always)]
    pub(super) fn eliminate<const W: usize, V: Vectors>(&mut self, names: &[Named], seed: u8) -> bool {
        self.system.fill::<W>(self.shape, names, seed);
        if !V::reduce::<W>(&mut self.system) {
            return false;
        }
        self.planes = Default::default();
        for eight in 0..self.shape.entry_bits.div_ceil(LANES) {
            let mut planes = [Chunk::default(); W];
            for i in 0..names.len() {
                let select = (self.system.value(i) >> (8 * eight)) as u8;
                let pivot = lowest_bit(self.system.row::<W>(i)).unwrap_or([0; W]);
                planes.iter_mut().zip(pivot).for_each(|(planes, bit)| V::set(planes, bit, select));
            }
            self.planes.iter_mut().zip(planes).for_each(|(all, planes)| all[eight] = planes);
        }
        true
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
    use byname_wire::Digest;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    fn names(rng: &mut SmallRng, count: usize, bits: u32) -> Vec<Named> {
        let digest = |rng: &mut SmallRng| Digest { hash: rng.random(), check: rng.random() };
        (0..count).map(|_| Named { name: digest(rng), entry: rng.random::<u32>() >> (32 - bits) }).collect()
    }

    #[test]
    fn every_name_of_a_full_cell_gets_its_entry() {
        let mut rng = SmallRng::seed_from_u64(4);
        for bits in 1..=32 {
            let shape = Shape::new(bits);
            let mut solver = Solver::new(shape, Instructions::detect());
            for count in [0, 1, shape.plane_bits / 2, shape.plane_bits] {
                let names = names(&mut rng, count, bits);
                let words = solver.solve(&names, 250, 17).expect("one of 256 seeds works");
                let header = cell::header(shape, &words);
                assert_eq!(header.threshold, 17);
                for Named { name, entry } in names {
                    assert_eq!(cell::value(shape, &words, name, header.seed), entry, "{bits} bits, {count} names");
                }
            }
        }
    }

    #[test]
    fn all_instructions_solve_alike() {
        let mut rng = SmallRng::seed_from_u64(6);
        for bits in 1..=32 {
            let shape = Shape::new(bits);
            let [mut portable, mut avx2, mut best] = [Instructions::Portable, Instructions::Avx2, Instructions::Avx512]
                .map(|instructions| Solver::new(shape, instructions.min(Instructions::detect())));
            for count in (0..=shape.plane_bits).step_by(3).chain([shape.plane_bits; 8]) {
                let names = names(&mut rng, count, bits);
                let words = portable.attempt(&names, count as u8, 9);
                assert_eq!(avx2.attempt(&names, count as u8, 9), words, "{bits} bits, {count} names");
                assert_eq!(best.attempt(&names, count as u8, 9), words, "{bits} bits, {count} names");
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
                let mut names = names(&mut rng, shape.plane_bits, bits);
                // As in a large table: the upper half of the hash is shared by all names of a cell.
                names.iter_mut().for_each(|named| named.name.hash &= 0xffff_ffff);
                let works = |seed: &u8| solver.attempt(&names, *seed, 0).is_some();
                solved += (0..=u8::MAX).filter(works).count();
            }
            let share = f64::from(solved as u32) / (40.0 * 256.0);
            assert!((share - 0.2888).abs() < 0.02, "{bits} bits: {share}");
        }
    }

    #[test]
    fn a_name_that_comes_twice_is_never_solved() {
        let named = Named { name: Digest { hash: 1, check: 2 }, entry: 3 };
        assert_eq!(Solver::new(Shape::new(8), Instructions::detect()).solve(&[named, named], 0, 255), None);
    }
}

//! Linear systems over GF(2): computes the words of a cell from its names.
//!
//! Each name gives one equation for each bit of its entry: the parity of that bit's plane with the
//! name's mask. All planes share the masks, so one elimination solves them all. Gauss-Jordan
//! elimination needs no search for pivots here. A row's lowest remaining bit is in no other row's
//! pivot, because earlier pivots were eliminated from it, and rows added later have only higher
//! bits. The elimination also records which rows were added up. The result is therefore the
//! inverse, from which solutions for other entries follow (`duals`).

use byname_wire::Digest;

use super::cell::{self, Header};
use super::duals::{Duals, extend};
use super::eliminate::{Processor, Task};
use super::part::Named;
use super::shape::{ENTRY_BITS_MAX, PLANE_BITS_MAX, Shape, mask};
use crate::instructions::Instructions;

/// Number of words that are processed together.
pub(super) const LANES: usize = 8;
/// That many words.
pub(super) type Chunk = [u64; LANES];
/// One word of each row of the largest system.
pub(super) type Column = [Chunk; PLANE_BITS_MAX.div_ceil(LANES)];
/// One word of each plane.
type Planes = [Chunk; ENTRY_BITS_MAX as usize / LANES];

/// The inner operations of elimination.
pub(super) trait Vectors {
    /// Adds the row `row`, the sum of the rows `sum`, to those of eight rows that have its pivot.
    fn add<const W: usize>(rows: [&mut Chunk; W], sums: [&mut Chunk; W], row: [u64; W], sum: [u64; W], pivot: [u64; W]);
    /// Flips `bits` in those of eight planes whose bit in `select` is set.
    fn flip(planes: &mut Chunk, bits: u64, select: u8);
    /// Like [`System::reduce`].
    #[inline(always)]
    fn reduce<const W: usize>(system: &mut System) -> bool
    where
        Self: Sized,
    {
        system.reduce::<W, Self>()
    }
    /// Like [`System::is_independent`].
    #[inline(always)]
    fn is_independent<const W: usize>(system: &mut System) -> bool {
        system.is_independent::<W>()
    }
}

/// With portable code.
pub(super) struct Portable;

impl Vectors for Portable {
    #[inline(always)]
    fn add<const W: usize>(
        rows: [&mut Chunk; W],
        sums: [&mut Chunk; W],
        row: [u64; W],
        sum: [u64; W],
        pivot: [u64; W],
    ) {
        let mut select = Chunk::default();
        for (words, pivot) in rows.iter().zip(pivot) {
            select.iter_mut().zip(words.iter()).for_each(|(select, word)| *select |= word & pivot);
        }
        let select = select.map(|bit| if bit == 0 { 0 } else { u64::MAX });
        for (words, added) in rows.into_iter().zip(row).chain(sums.into_iter().zip(sum)) {
            words.iter_mut().zip(select).for_each(|(word, select)| *word ^= added & select);
        }
    }

    #[inline(always)]
    fn flip(planes: &mut Chunk, bits: u64, select: u8) {
        for (lane, plane) in planes.iter_mut().enumerate() {
            *plane ^= bits & u64::from(select >> lane & 1).wrapping_neg();
        }
    }
}

/// Number of seeds to try before the cell must bump a name. With as many names as unknowns two of
/// seven seeds work; with fewer names more do.
const SEEDS: u32 = 256;
/// With at least this many fewer names than unknowns, most seeds work, so seeds are tried without a
/// check.
const SPARE: usize = 2;

/// One row for each name.
#[derive(Default)]
pub(super) struct System {
    pub(super) names: usize,
    /// Indexed by word of the masks. This field and the next are boxed, because they are too large
    /// for the small stacks of loom's models.
    pub(super) rows: Box<[Column; 2]>,
    /// The masks that each row is the sum of, as bits in words of 64.
    pub(super) sums: Box<[Column; 2]>,
}

impl System {
    /// Fills in the names' masks.
    #[inline(always)]
    fn fill<const W: usize>(&mut self, shape: Shape, names: &[Named], seed: u8) {
        self.names = names.len();
        let whole = names.len().next_multiple_of(LANES);
        let mut rows = self.rows.each_mut().map(|rows| &mut rows.as_flattened_mut()[..whole]);
        for (i, named) in names.iter().enumerate() {
            for (rows, word) in rows.iter_mut().zip(mask::<W>(shape, named.name, seed)) {
                rows[i] = word;
            }
        }
        // Clear the rest of the last chunk: empty rows have no effect.
        rows.into_iter().for_each(|rows| rows[names.len()..].fill(0));
    }

    /// Makes each row the sum of itself.
    #[inline(always)]
    fn fill_sums<const W: usize>(&mut self) {
        let whole = self.names.next_multiple_of(LANES);
        for (word, sums) in self.sums[..W].iter_mut().enumerate() {
            let sums = &mut sums.as_flattened_mut()[..whole];
            sums.fill(0);
            sums.iter_mut().skip(64 * word).take(64).enumerate().for_each(|(i, sum)| *sum = 1 << i);
        }
    }

    pub(super) fn row<const W: usize>(&self, i: usize) -> [u64; W] {
        std::array::from_fn(|w| self.rows[w].as_flattened()[i])
    }

    pub(super) fn sum<const W: usize>(&self, i: usize) -> [u64; W] {
        std::array::from_fn(|w| self.sums[w].as_flattened()[i])
    }

    /// Brings the masks into a form in which each row's lowest bit, its pivot, is in no other row.
    /// Returns false if there is no such form.
    #[inline(always)]
    pub(super) fn reduce<const W: usize, V: Vectors>(&mut self) -> bool {
        let chunks = self.names.div_ceil(LANES);
        for i in 0..self.names {
            let (row, sum) = (self.row::<W>(i), self.sum::<W>(i));
            let Some(pivot) = lowest_bit(row) else { return false };
            for chunk in 0..chunks {
                let mut all = self.rows.iter_mut();
                let rows = std::array::from_fn(|_| &mut all.next().expect("W is 1 or 2")[chunk]);
                let mut all = self.sums.iter_mut();
                let sums = std::array::from_fn(|_| &mut all.next().expect("W is 1 or 2")[chunk]);
                V::add::<W>(rows, sums, row, sum, pivot);
            }
            // The row was added to itself; restore it.
            self.rows.iter_mut().zip(row).for_each(|(rows, row)| rows.as_flattened_mut()[i] = row);
            self.sums.iter_mut().zip(sum).for_each(|(sums, sum)| sums.as_flattened_mut()[i] = sum);
        }
        true
    }

    /// Whether [`System::reduce`] would succeed, computed in half the time.
    #[inline(always)]
    pub(super) fn is_independent<const W: usize>(&mut self) -> bool {
        for i in 0..self.names {
            let row = self.row::<W>(i);
            let Some(pivot) = lowest_bit(row) else { return false };
            for below in i + 1..self.names {
                let has_pivot = (0..W).any(|word| self.rows[word].as_flattened()[below] & pivot[word] != 0);
                let select = u64::from(has_pivot).wrapping_neg();
                for (rows, row) in self.rows.iter_mut().zip(row) {
                    rows.as_flattened_mut()[below] ^= row & select;
                }
            }
        }
        true
    }
}

/// Solves systems one after another in the same memory.
pub(super) struct Solver {
    shape: Shape,
    processor: Processor,
    work: Work,
}

/// Memory for one solution.
#[derive(Default)]
struct Work {
    system: System,
    duals: Duals,
    /// The solution, by word of the planes.
    planes: [Planes; 2],
}

impl Solver {
    pub(super) fn new(shape: Shape, instructions: Instructions) -> Self {
        Solver { shape, processor: Processor::with(instructions), work: Work::default() }
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// The words of a cell with these names and the given threshold. Uses `seed` if it works, or
    /// the next seed that does. `None` if no seed works.
    pub(super) fn solve(&mut self, names: &[Named], seed: u8, threshold: u8) -> Option<[u64; 8]> {
        let is_tight = names.len() + SPARE > self.shape.plane_bits;
        let mut seeds = (0..SEEDS).map(|further| seed.wrapping_add(further as u8));
        seeds.find_map(|seed| match is_tight && !self.is_independent(names, seed) {
            true => None,
            false => self.attempt(names, seed, threshold),
        })
    }

    /// Whether this seed works.
    fn is_independent(&mut self, names: &[Named], seed: u8) -> bool {
        let Solver { shape, processor, ref mut work } = *self;
        if names.len() > shape.plane_bits {
            return false;
        }
        let system = &mut work.system;
        match shape.mask_words() {
            1 => processor.run(IsIndependent::<1> { system, shape, names, seed }),
            _ => processor.run(IsIndependent::<2> { system, shape, names, seed }),
        }
    }

    /// The words of a cell with this seed, if it works.
    pub(super) fn attempt(&mut self, names: &[Named], seed: u8, threshold: u8) -> Option<[u64; 8]> {
        let Solver { shape, processor, ref mut work } = *self;
        if names.len() > shape.plane_bits {
            return None;
        }
        let solved = match shape.mask_words() {
            1 => processor.run(Eliminate::<1> { work, shape, names, seed }),
            _ => processor.run(Eliminate::<2> { work, shape, names, seed }),
        };
        solved.then(|| {
            let planes = work.planes.each_ref().map(|planes| planes.as_flattened());
            cell::pack(shape, planes, Header { seed, threshold })
        })
    }

    /// The duals of the names in the last successful attempt.
    pub(super) fn duals(&self) -> &Duals {
        &self.work.duals
    }

    /// The value of a name in a cell with this seed that begins at the first of `words`.
    pub(super) fn value(&self, words: &[u64; 8], name: Digest, seed: u8) -> u32 {
        let shape = self.shape;
        match shape.mask_words() {
            1 => self.processor.run(ValueOf::<1> { shape, words, name, seed }),
            _ => self.processor.run(ValueOf::<2> { shape, words, name, seed }),
        }
    }

    /// Reads the entries of names from a cell with this seed that begins at the first of `words`.
    pub(super) fn read(&self, words: &[u64; 8], names: &mut [Named], seed: u8) {
        let shape = self.shape;
        match shape.mask_words() {
            1 => self.processor.run(Read::<1> { shape, words, names, seed }),
            _ => self.processor.run(Read::<2> { shape, words, names, seed }),
        }
    }

    /// Gives one more name a dual beside those of `names` others. Returns false if there is none.
    pub(super) fn extend(&self, duals: &mut [u64], names: usize, name: Digest, seed: u8) -> bool {
        let shape = self.shape;
        match shape.mask_words() {
            1 => self.processor.run(Extend { duals, names, mask: mask::<1>(shape, name, seed) }),
            _ => self.processor.run(Extend { duals, names, mask: mask::<2>(shape, name, seed) }),
        }
    }
}

/// Solves for the duals and the planes. Returns false if there is no solution.
struct Eliminate<'a, const W: usize> {
    work: &'a mut Work,
    shape: Shape,
    names: &'a [Named],
    seed: u8,
}

impl<const W: usize> Task for Eliminate<'_, W> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vectors>(self) -> bool {
        let Eliminate { work: Work { system, duals, planes }, shape, names, seed } = self;
        system.fill::<W>(shape, names, seed);
        system.fill_sums::<W>();
        if !V::reduce::<W>(system) {
            return false;
        }
        duals.take::<W>(system, shape.plane_bits);
        for eight in 0..shape.entry_bits.div_ceil(LANES) {
            let mut sums = [Chunk::default(); W];
            for (i, named) in names.iter().enumerate() {
                let select = (named.entry >> (8 * eight)) as u8;
                sums.iter_mut().zip(duals.of::<W>(i)).for_each(|(sums, dual)| V::flip(sums, dual, select));
            }
            planes.iter_mut().zip(sums).for_each(|(planes, sums)| planes[eight] = sums);
        }
        true
    }
}

/// Like [`Solver::is_independent`].
struct IsIndependent<'a, const W: usize> {
    system: &'a mut System,
    shape: Shape,
    names: &'a [Named],
    seed: u8,
}

impl<const W: usize> Task for IsIndependent<'_, W> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vectors>(self) -> bool {
        self.system.fill::<W>(self.shape, self.names, self.seed);
        V::is_independent::<W>(self.system)
    }
}

/// Like [`Solver::read`]. Works plane by plane on vectors of the names' masks.
struct Read<'a, const W: usize> {
    shape: Shape,
    words: &'a [u64; 8],
    names: &'a mut [Named],
    seed: u8,
}

impl<const W: usize> Task for Read<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let Read { shape, words, names, seed } = self;
        let (mut masks, mut entries) = ([Column::default(); W], Column::default());
        for (i, named) in names.iter().enumerate() {
            let mask = mask::<W>(shape, named.name, seed);
            (0..W).for_each(|word| masks[word].as_flattened_mut()[i] = mask[word]);
        }
        for bit in 0..shape.entry_bits {
            let plane = cell::plane::<W>(shape, words, 0, bit);
            for (chunk, entries) in entries.iter_mut().enumerate().take(names.len().div_ceil(LANES)) {
                for (lane, entry) in entries.iter_mut().enumerate() {
                    let odd = (0..W).fold(0, |odd, word| odd ^ plane[word] & masks[word][chunk][lane]);
                    *entry |= u64::from(odd.count_ones() & 1) << bit;
                }
            }
        }
        let entries = entries.as_flattened();
        names.iter_mut().zip(entries).for_each(|(named, &entry)| named.entry = entry as u32);
    }
}

/// Like [`cell::parities`].
struct ValueOf<'a, const W: usize> {
    shape: Shape,
    words: &'a [u64; 8],
    name: Digest,
    seed: u8,
}

impl<const W: usize> Task for ValueOf<'_, W> {
    type Output = u32;

    #[inline(always)]
    fn run<V: Vectors>(self) -> u32 {
        cell::parities(self.shape, self.words, 0, mask::<W>(self.shape, self.name, self.seed))
    }
}

/// Like [`extend`].
struct Extend<'a, const W: usize> {
    duals: &'a mut [u64],
    names: usize,
    mask: [u64; W],
}

impl<const W: usize> Task for Extend<'_, W> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vectors>(self) -> bool {
        extend(self.duals, self.names, self.mask)
    }
}

/// The lowest bit set, alone.
#[inline(always)]
pub(super) fn lowest_bit<const W: usize>(row: [u64; W]) -> Option<[u64; W]> {
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
                let mut read: Vec<_> = names.iter().map(|&Named { name, .. }| Named { name, entry: 0 }).collect();
                solver.read(&words, &mut read, header.seed);
                assert_eq!(read, names, "{bits} bits, {count} names");
                for Named { name, entry } in names {
                    assert_eq!(solver.value(&words, name, header.seed), entry, "{bits} bits, {count} names");
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
                for solver in [&mut portable, &mut avx2, &mut best] {
                    assert_eq!(
                        solver.is_independent(&names, count as u8),
                        words.is_some(),
                        "{bits} bits, {count} names"
                    );
                }
                assert_eq!(avx2.attempt(&names, count as u8, 9), words, "{bits} bits, {count} names");
                assert_eq!(best.attempt(&names, count as u8, 9), words, "{bits} bits, {count} names");
            }
        }
    }

    /// The share of seeds that solve a full system equals that of random matrices: 0.2888.
    #[test]
    fn masks_are_as_good_as_random() {
        let mut rng = SmallRng::seed_from_u64(5);
        for bits in [4, 8, 16, 32] {
            let shape = Shape::new(bits);
            let mut solver = Solver::new(shape, Instructions::detect());
            let mut solved = 0;
            for _ in 0..40 {
                let mut names = names(&mut rng, shape.plane_bits, bits);
                // As in a large table, all names of a cell share the upper half of the hash.
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

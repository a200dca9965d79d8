//! Dual bases: for each name of a cell, the vector that changes its value in a plane and no
//! other's.
//!
//! The *dual* of a name has odd parity with the name's mask and even parity with all others. Adding
//! the dual to the planes whose bits change gives the name another entry; nothing has to be solved.
//! While a cell has fewer names than unknowns, there are also free duals, with which all masks have
//! even parity. A new name takes a free dual with which its mask has odd parity. It is then added
//! to all other duals with that parity, which makes them even. If there is no such dual, the masks
//! depend on each other, and another seed must be found (`solve`).

use super::shape::PLANE_BITS_MAX;
use super::solve::{Column, System, lowest_bit};

/// Duals, by word of the masks: those of names in their order, followed by the free ones.
#[derive(Default)]
pub(super) struct Duals(Box<[Column; 2]>);

/// Bits of the larger dimension, and rows of a block that is transposed.
const WORD_BITS: usize = u64::BITS as usize;

impl Duals {
    pub(super) fn columns(&self) -> impl Iterator<Item = &[u64]> {
        self.0.iter().map(|column| column.as_flattened())
    }

    /// The dual of a name.
    pub(super) fn of<const W: usize>(&self, name: usize) -> [u64; W] {
        std::array::from_fn(|word| self.0[word].as_flattened()[name])
    }

    /// Takes the duals from a reduced system of masks of `plane_bits` bits. A row's pivot belongs
    /// to the dual of each name in the row's sum.
    #[inline(always)]
    pub(super) fn take<const W: usize>(&mut self, system: &System, plane_bits: usize) {
        let mut by_bit = [[0u64; W]; 2 * WORD_BITS];
        let mut bits = [0u8; PLANE_BITS_MAX];
        let mut pivots = [0u64; W];
        for (row, at) in bits[..system.names].iter_mut().enumerate() {
            let pivot = lowest_bit(system.row::<W>(row)).unwrap_or([0; W]);
            let bit = (0..W).map(|word| word * WORD_BITS + pivot[word].trailing_zeros() as usize);
            let bit = bit.zip(pivot).find_map(|(bit, pivot)| (pivot != 0).then_some(bit)).unwrap_or(0);
            *at = bit as u8;
            by_bit[bit] = system.sum(row);
            pivots.iter_mut().zip(pivot).for_each(|(pivots, pivot)| *pivots |= pivot);
        }
        let is_pivot = |bit: usize| pivots[bit / WORD_BITS] >> (bit % WORD_BITS) & 1 == 1;
        for (dual, bit) in (system.names..).zip((0..plane_bits).filter(|&bit| !is_pivot(bit))) {
            // A free dual: this bit, and the pivots of all rows that have it.
            let flag = 1 << (dual % WORD_BITS);
            by_bit[bit][dual / WORD_BITS] |= flag;
            for (row, &pivot) in bits[..system.names].iter().enumerate() {
                if system.row::<W>(row)[bit / WORD_BITS] >> (bit % WORD_BITS) & 1 == 1 {
                    by_bit[usize::from(pivot)][dual / WORD_BITS] |= flag;
                }
            }
        }
        for word in 0..W {
            let rows = &by_bit[word * WORD_BITS..][..WORD_BITS];
            for (block, duals) in self.0[word].as_flattened_mut().chunks_exact_mut(WORD_BITS).take(W).enumerate() {
                let mut square: [u64; WORD_BITS] = std::array::from_fn(|row| rows[row][block]);
                transpose(&mut square);
                duals.copy_from_slice(&square);
            }
        }
    }
}

/// Gives a name with this mask a dual, behind those of `names` names, and makes the mask even with
/// all others. Returns false and changes nothing if there is none. `duals` are those of one cell.
#[inline(always)]
pub(super) fn extend<const W: usize>(duals: &mut [u64], names: usize, mask: [u64; W]) -> bool {
    let count = duals.len() / W;
    let mut odd = [0u64; 2 * WORD_BITS];
    let odd = &mut odd[..count];
    for (word, mask) in duals.chunks_exact(count).zip(mask) {
        odd.iter_mut().zip(word).for_each(|(odd, dual)| *odd ^= dual & mask);
    }
    odd.iter_mut().for_each(|odd| *odd = u64::from(odd.count_ones() & 1).wrapping_neg());
    let Some(free) = odd[names..].iter().position(|&odd| odd != 0) else { return false };
    odd[names + free] = odd[names];
    odd[names] = 0;
    for word in duals.chunks_exact_mut(count) {
        word.swap(names, names + free);
        let new = word[names];
        word.iter_mut().zip(&*odd).for_each(|(dual, odd)| *dual ^= new & odd);
    }
    true
}

/// Transposes a square of bits: bit `i` of word `j` goes to bit `j` of word `i`.
#[inline(always)]
fn transpose(square: &mut [u64; WORD_BITS]) {
    let mut size = WORD_BITS / 2;
    let mut low = u64::MAX >> size;
    while size > 0 {
        for pair in square.chunks_exact_mut(2 * size) {
            let (upper, lower) = pair.split_at_mut(size);
            for (upper, lower) in upper.iter_mut().zip(lower) {
                let crossed = (*upper >> size ^ *lower) & low;
                *upper ^= crossed << size;
                *lower ^= crossed;
            }
        }
        size /= 2;
        low ^= low << size;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn a_mirrored_square_has_all_bits_where_they_belong() {
        let mut rng = SmallRng::seed_from_u64(1);
        let square: [u64; 64] = std::array::from_fn(|_| rng.random());
        let mut mirrored = square;
        transpose(&mut mirrored);
        for (i, word) in square.iter().enumerate() {
            for (j, mirrored) in mirrored.iter().enumerate() {
                assert_eq!(mirrored >> i & 1, word >> j & 1);
            }
        }
    }

    #[test]
    fn names_come_until_no_dual_is_left_for_them() {
        let mut rng = SmallRng::seed_from_u64(2);
        for bits in [5, 62, 64] {
            let mut duals: Vec<u64> = (0..64).map(|i| if i < bits { 1 << i } else { 0 }).collect();
            let mut masks = Vec::new();
            let mut refused = 0;
            while masks.len() < bits {
                let mask = rng.random::<u64>() & u64::MAX >> (64 - bits);
                let before = duals.clone();
                match extend::<1>(&mut duals, masks.len(), [mask]) {
                    true => masks.push(mask),
                    false => {
                        refused += 1;
                        assert_eq!(duals, before);
                    }
                }
                for (i, mask) in masks.iter().enumerate() {
                    let odd = |dual: &u64| (dual & mask).count_ones() % 2 == 1;
                    assert_eq!(duals.iter().position(odd), Some(i));
                    assert_eq!(duals.iter().filter(|dual| odd(dual)).count(), 1);
                }
            }
            // The expected number is one and a half.
            assert!(refused < 20, "{refused}");
        }
    }
}

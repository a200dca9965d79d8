//! The writer's side of cells: their names, and how one name's entry changes without affecting
//! others.

use std::ops::Range;

use byname_wire::Digest;

use super::duals::Duals;
use super::shape::{PLANE_BITS_MAX, Shape};
use crate::prefetch;

const LINE_WORDS: usize = 8;
/// Bytes of the ranks of the largest group.
const RANK_BYTES_MAX: usize = (PLANE_BITS_MAX + 1).next_multiple_of(8 * LINE_WORDS);

/// The names of all cells of a part. Each cell has a group in cache lines of its own, and the groups follow each other.
///
/// ```text
/// ranks     a byte for each name; the last byte holds the number of names
/// digests   two words for each name
/// duals     by word of the masks, then by name; free duals come last (see `duals`)
/// ```
///
/// A cell never holds more names than its planes have bits. So fixed room for each group wastes no more than the cells
/// themselves do. Only the cell stores the names' entries.
pub(super) struct Groups {
    room: usize,
    rank_words: usize,
    dual_words: usize,
    mask_words: usize,
    group_words: usize,
    words: Box<[u64]>,
    /// Index of the first word that begins a cache line.
    first: usize,
}

impl Groups {
    /// Groups without names, whose duals are not set yet.
    pub(super) fn new(cells: usize, shape: Shape) -> Self {
        let (room, mask_words) = (shape.plane_bits, shape.mask_words());
        // One byte behind the ranks holds the number of names.
        let rank_words = (room + 1).div_ceil(8).next_multiple_of(LINE_WORDS);
        let dual_words = room.next_multiple_of(LINE_WORDS);
        let group_words = (rank_words + 2 * room).next_multiple_of(LINE_WORDS) + mask_words * dual_words;
        let words = vec![0u64; cells * group_words + LINE_WORDS].into_boxed_slice();
        let first = words.as_ptr().align_offset(size_of::<u64>() * LINE_WORDS) % LINE_WORDS;
        Groups { room, rank_words, dual_words, mask_words, group_words, words, first }
    }

    /// Number of groups.
    fn len(&self) -> usize {
        (self.words.len() - LINE_WORDS) / self.group_words
    }

    fn all_of(&self, group: usize) -> Range<usize> {
        let first = self.first + group * self.group_words;
        first..first + self.group_words
    }

    /// Number of names of a group.
    pub(super) fn count(&self, group: usize) -> usize {
        (self.words[self.all_of(group).start + self.rank_words - 1] >> 56) as usize
    }

    fn set_count(&mut self, group: usize, count: usize) {
        let last = &mut self.words[self.first + group * self.group_words + self.rank_words - 1];
        *last = *last << 8 >> 8 | (count as u64) << 56;
    }

    fn rank(&self, group: usize, at: usize) -> u8 {
        (self.words[self.all_of(group).start + at / 8] >> (at % 8 * 8)) as u8
    }

    /// The highest rank of a group's names; 0 if there are none.
    pub(super) fn highest_rank(&self, group: usize) -> u8 {
        let first = self.all_of(group).start;
        let mut bytes = [0; RANK_BYTES_MAX];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(&self.words[first..first + self.rank_words]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bytes[..self.count(group)].iter().copied().max().unwrap_or(0)
    }

    fn set_name(&mut self, group: usize, at: usize, rank: u8, name: Digest) {
        let first = self.all_of(group).start;
        let (ranks, shift) = (&mut self.words[first + at / 8], at % 8 * 8);
        *ranks = *ranks & !(0xff << shift) | u64::from(rank) << shift;
        let digest = first + self.rank_words + 2 * at;
        self.words[digest..digest + 2].copy_from_slice(&[name.hash, name.check]);
    }

    pub(super) fn name(&self, group: usize, at: usize) -> Digest {
        let digest = self.all_of(group).start + self.rank_words + 2 * at;
        Digest { hash: self.words[digest], check: self.words[digest + 1] }
    }

    /// The names of a group.
    pub(super) fn names(&self, group: usize) -> impl Iterator<Item = Digest> {
        (0..self.count(group)).map(move |at| self.name(group, at))
    }

    fn duals_of(&self, group: usize) -> Range<usize> {
        let end = self.all_of(group).end;
        end - self.mask_words * self.dual_words..end
    }

    /// The duals of a group by word of the masks, with room for the maximum number of names.
    pub(super) fn duals_mut(&mut self, group: usize) -> &mut [u64] {
        let duals = self.duals_of(group);
        &mut self.words[duals]
    }

    /// The dual of a name.
    pub(super) fn dual(&self, group: usize, at: usize) -> [u64; 2] {
        let duals = &self.words[self.duals_of(group)];
        std::array::from_fn(|word| if word < self.mask_words { duals[word * self.dual_words + at] } else { 0 })
    }

    /// The positions of all names with this rank in a group.
    pub(super) fn of_rank(&self, group: usize, rank: u8) -> impl Iterator<Item = usize> {
        const LOW: u64 = u64::MAX / 0xff * 0x7f;
        let first = self.all_of(group).start;
        let count = self.count(group);
        let others = (0..).zip(&self.words[first..first + self.rank_words]);
        others.flat_map(move |(word, ranks)| {
            // Sets the top bit of each byte that equals the rank.
            let unlike = ranks ^ (u64::from(rank) * (u64::MAX / 0xff));
            let mut alike = !(((unlike & LOW) + LOW) | unlike | LOW);
            std::iter::from_fn(move || {
                let byte = alike.trailing_zeros() as usize / 8;
                alike &= alike.wrapping_sub(1);
                (byte < 8).then_some(word * 8 + byte)
            })
            .filter(move |&at| at < count)
        })
    }

    /// The position of a name with this rank in a group.
    pub(super) fn position(&self, group: usize, rank: u8, name: Digest) -> Option<usize> {
        self.of_rank(group, rank).find(|&at| self.name(group, at) == name)
    }

    pub(super) fn is_full(&self, group: usize) -> bool {
        self.count(group) == self.room
    }

    /// Adds a name and returns its position. Its dual is already behind the duals of all other names.
    pub(super) fn push(&mut self, group: usize, rank: u8, name: Digest) -> usize {
        let count = self.count(group);
        self.set_name(group, count, rank, name);
        self.set_count(group, count + 1);
        count
    }

    /// Removes a name; the last name takes its position. Its dual becomes a free one.
    pub(super) fn remove(&mut self, group: usize, at: usize) {
        let last = self.count(group) - 1;
        let (rank, name) = (self.rank(group, last), self.name(group, last));
        self.set_name(group, at, rank, name);
        let (dual_words, duals) = (self.dual_words, self.duals_mut(group));
        duals.chunks_mut(dual_words).for_each(|word| word.swap(at, last));
        self.set_count(group, last);
    }

    /// Replaces all names of a group by these, which must fit.
    pub(super) fn replace_all(
        &mut self,
        group: usize,
        names: impl ExactSizeIterator<Item = (u8, Digest)>,
        duals: &Duals,
    ) {
        self.set_count(group, names.len());
        names.enumerate().for_each(|(at, (rank, name))| self.set_name(group, at, rank, name));
        let dual_words = self.dual_words;
        for (kept, new) in self.duals_mut(group).chunks_mut(dual_words).zip(duals.columns()) {
            kept.copy_from_slice(&new[..dual_words]);
        }
    }

    /// Number of names of all groups.
    pub(super) fn total(&self) -> usize {
        (0..self.len()).map(|group| self.count(group)).sum()
    }

    /// Prefetches the ranks of a group.
    pub(super) fn prefetch(&self, group: usize) {
        let first = self.all_of(group).start;
        self.words[first..first + self.rank_words].chunks(LINE_WORDS).for_each(|line| prefetch::read(&line[0]));
    }

    /// Prefetches what a change of a name with this rank reads. The group's ranks must have arrived.
    pub(super) fn prefetch_name(&self, group: usize, rank: u8) {
        let first = self.all_of(group).start + self.rank_words;
        let duals = self.duals_of(group);
        let mut known = false;
        for at in self.of_rank(group, rank) {
            known = true;
            prefetch::read(&self.words[first + 2 * at]);
            let words = self.words[duals.clone()].chunks(self.dual_words);
            words.for_each(|word| prefetch::read(&word[at]));
        }
        if !known {
            // The name is new, so its mask will be added to all duals.
            self.words[duals].chunks(LINE_WORDS).for_each(|line| prefetch::read(&line[0]));
            prefetch::read(&self.words[first + 2 * self.count(group).min(self.room - 1)]);
            if self.is_full(group) {
                // The name takes the place of others, which are bumped.
                self.of_rank(group, self.highest_rank(group))
                    .for_each(|at| prefetch::read(&self.words[first + 2 * at]));
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn name(i: usize) -> Digest {
        Digest { hash: i as u64, check: !(i as u64) }
    }

    #[test]
    fn names_are_found_by_rank_and_digest_wherever_others_go() {
        for entry_bits in [1, 4, 7, 8, 32] {
            let shape = Shape::new(entry_bits);
            let mut groups = Groups::new(3, shape);
            // Makes some ranks frequent.
            let rank = |i: usize| (i * i % 7 * 37) as u8;
            for group in 0..3 {
                (0..shape.plane_bits).for_each(|i| assert_eq!(groups.push(group, rank(i), name(i)), i));
                assert!(groups.is_full(group));
            }
            assert_eq!(groups.total(), 3 * shape.plane_bits);
            for i in (0..shape.plane_bits).step_by(2) {
                let at = groups.position(1, rank(i), name(i)).expect("it is there");
                groups.remove(1, at);
            }
            for i in 0..shape.plane_bits {
                assert_eq!(groups.position(1, rank(i), name(i)).is_some(), i % 2 == 1, "{entry_bits} bits, {i}");
                assert_eq!(groups.position(1, rank(i) ^ 1, name(i)), None);
                assert_eq!(groups.position(0, rank(i), name(i)), Some(i));
            }
            assert_eq!(groups.names(1).count(), shape.plane_bits / 2);
            assert_eq!(groups.count(2), shape.plane_bits);
        }
    }

    #[test]
    fn groups_begin_with_cache_lines() {
        let groups = Groups::new(5, Shape::new(8));
        assert_eq!(groups.words[groups.first..].as_ptr() as usize % 64, 0);
        assert_eq!(groups.group_words % LINE_WORDS, 0);
        assert_eq!(groups.len(), 5);
    }
}

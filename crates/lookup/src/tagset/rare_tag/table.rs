//! Hash tables from a tag to a node, in lines of eight words. A word holds the tag above its node's
//! block.
//!
//! A tag's mixed digest chooses its line. The digest is keyed, so nobody can choose tags that share
//! a line. A full line continues in the next one. Words of tags that lost their nodes stay until
//! other tags need them, because searches for later tags pass them.

use byname_wire::tagset::TagDigest;

use super::arena::BlockId;
use crate::memory::Line;
use crate::prefetch;
use crate::sync::Ordering;

const SLOTS: usize = 8;
/// The block of a tag that no longer has one.
const NONE: u32 = u32::MAX;

/// Mixes digests with a secret.
///
/// This is not a cipher. A stranger cannot tell which tags share a line, because he sees no mixed
/// digest, and no time that depends on a single one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mixer([u32; 3]);

impl Mixer {
    pub(super) fn new(secret: u64) -> Self {
        // Multiplication by an odd number can be undone, and so can adding a shifted copy.
        let spread = secret.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Mixer([secret as u32, (secret >> 32) as u32 | 1, (spread >> 32) as u32 | 1])
    }

    #[inline(always)]
    pub(super) fn mix(&self, tag: TagDigest) -> Mixed {
        let mut x = tag.0 ^ self.0[0];
        x = (x ^ x >> 16).wrapping_mul(self.0[1]);
        x = (x ^ x >> 15).wrapping_mul(0x846c_a68b);
        x = (x ^ x >> 16).wrapping_mul(self.0[2]);
        Mixed(x ^ x >> 15)
    }
}

/// A mixed digest, which is a tag's position in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Mixed(pub(super) u32);

/// A table of at least one line. At least one word is always empty.
#[derive(Clone, Copy)]
pub(super) struct Table<'a>(pub(super) &'a [Line]);

impl Table<'_> {
    /// Prefetches the line of a tag.
    #[inline(always)]
    pub(super) fn prefetch(self, place: Mixed) {
        prefetch::read(&self.0[self.line(place)]);
    }

    /// The node of a tag at position `place`.
    #[inline(always)]
    pub(super) fn find(self, tag: TagDigest, place: Mixed) -> Option<BlockId> {
        let mut at = self.line(place);
        // At most one pass over all lines. A line that is not full ends the search.
        for _ in 0..self.0.len() {
            let words = self.0[at].0.each_ref().map(|word| word.load(Ordering::Acquire));
            let equal = words.iter().rev().fold(0u32, |mask, word| mask << 1 | u32::from((word >> 32) as u32 == tag.0));
            // Empty words equal the tag zero, too.
            if equal != 0 {
                let block = words[equal.trailing_zeros() as usize] as u32;
                return (block != NONE && block != 0).then_some(BlockId(block));
            }
            if words[SLOTS - 1] == 0 {
                return None;
            }
            at = self.next(at);
        }
        None
    }

    /// Writes a tag's node: over the tag's own word, or over that of a tag without a node. Returns
    /// whether the word was empty. This method and [`Table::remove`] are for the writer.
    pub(super) fn set(self, tag: TagDigest, place: Mixed, node: BlockId) -> bool {
        self.write(tag, place, node.0)
    }

    /// Removes a tag's node.
    pub(super) fn remove(self, tag: TagDigest, place: Mixed) {
        self.write(tag, place, NONE);
    }

    fn write(self, tag: TagDigest, place: Mixed, block: u32) -> bool {
        let new = u64::from(tag.0) << 32 | u64::from(block);
        let mut at = self.line(place);
        let mut left = None;
        loop {
            for word in &self.0[at].0 {
                let old = word.load(Ordering::Relaxed);
                if old == 0 {
                    left.unwrap_or(word).store(new, Ordering::Release);
                    return left.is_none();
                }
                if (old >> 32) as u32 == tag.0 {
                    word.store(new, Ordering::Release);
                    return false;
                }
                if old as u32 == NONE {
                    left = left.or(Some(word));
                }
            }
            at = self.next(at);
        }
    }

    /// The tags that have nodes, with their nodes.
    pub(super) fn iter(self) -> impl Iterator<Item = (TagDigest, BlockId)> {
        let words = self.0.iter().flat_map(|line| &line.0).map(|word| word.load(Ordering::Acquire));
        let words = words.filter(|&word| word as u32 != 0 && word as u32 != NONE);
        words.map(|word| (TagDigest((word >> 32) as u32), BlockId(word as u32)))
    }

    /// For a table from a file: whether it is as a writer leaves one that never lost a tag. `place` gives a tag's
    /// position, or `None` if the tag has none here. Returns the number of words in use.
    pub(super) fn check(self, place: impl Fn(TagDigest) -> Option<Mixed>) -> Option<usize> {
        let mut used = 0;
        for line in self.0 {
            let words = line.0.each_ref().map(|word| word.load(Ordering::Relaxed));
            let count = words.iter().take_while(|word| **word != 0).count();
            if words[count..].iter().any(|word| *word != 0) {
                return None;
            }
            used += count;
        }
        let is_found = |(tag, node)| place(tag).is_some_and(|place| self.find(tag, place) == Some(node));
        // Words that are no tag's node are not among these.
        let whole = self.iter().count() == used && used < self.0.len() * SLOTS && self.iter().all(is_found);
        whole.then_some(used)
    }

    /// Clears all words. No reader may use the table.
    pub(super) fn clear(self) {
        self.0.iter().flat_map(|line| &line.0).for_each(|word| word.store(0, Ordering::Relaxed));
    }

    #[inline(always)]
    fn line(self, place: Mixed) -> usize {
        ((u64::from(place.0) * self.0.len() as u64) >> 32) as usize
    }

    #[inline(always)]
    fn next(self, line: usize) -> usize {
        if line + 1 == self.0.len() { 0 } else { line + 1 }
    }
}

/// Number of lines of a table for `tags` tags.
pub(super) fn lines_for(tags: usize) -> usize {
    (tags * 3).div_ceil(SLOTS * 2).max(1)
}

/// Number of words that may be in use. Never all, so that searches end.
pub(super) fn words_used_max(lines: usize) -> usize {
    lines * SLOTS * 4 / 5
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::memory::{Lines, Pages};

    #[test]
    fn mixing_is_a_permutation() {
        // Testing all digests would take half a gigabyte. These differ in some bits only. A
        // function that is not invertible would mix thousands of pairs alike.
        for (secret, shift) in [(0, 0), (1, 8), (u64::MAX, 4), (0x1234_5678_9abc_def0, 10)] {
            let mixer = Mixer::new(secret);
            let mixed: HashSet<_> = (0..1 << 22).map(|tag| mixer.mix(TagDigest(tag << shift)).0).collect();
            assert_eq!(mixed.len(), 1 << 22);
        }
    }

    #[test]
    fn tags_come_and_go_and_their_words_are_used_again() {
        let mixer = Mixer::new(7);
        let lines = Lines::zeroed(lines_for(20_000), Pages::Small).expect("little memory");
        let table = Table(&lines);
        let node_of = |tag: u32, round: u32| BlockId(1 + tag + round);
        let mut used = 0;
        for round in 0..4 {
            for tag in 5000 * round..5000 * round + 20_000 {
                let tag_digest = TagDigest(tag);
                used += usize::from(table.set(tag_digest, mixer.mix(tag_digest), node_of(tag, round)));
            }
            for tag in 0..40_000 {
                let tags = 5000 * round..5000 * round + 20_000;
                let right = tags.contains(&tag).then(|| node_of(tag, round));
                assert_eq!(table.find(TagDigest(tag), mixer.mix(TagDigest(tag))), right, "{tag}");
            }
            assert_eq!(table.iter().count(), 20_000);
            (0..5000).map(|tag| TagDigest(tag + 5000 * round)).for_each(|tag| table.remove(tag, mixer.mix(tag)));
        }
        assert!(used < 26_000, "{used}");
    }

    #[test]
    fn the_tag_that_is_zero_is_like_any_other() {
        let lines = Lines::zeroed(4, Pages::Small).expect("little memory");
        let table = Table(&lines);
        let place = |tag: u32| Mixed(tag << 27);
        assert_eq!(table.find(TagDigest(0), place(0)), None);
        (0..20).for_each(|tag| assert!(table.set(TagDigest(tag), place(tag), BlockId(tag + 1))));
        assert!((0..20).all(|tag| table.find(TagDigest(tag), place(tag)) == Some(BlockId(tag + 1))));
        table.remove(TagDigest(0), place(0));
        assert!((0..20).all(|tag| table.find(TagDigest(tag), place(tag)).is_some() == (tag > 0)));
    }
}

//! The directory: from a tag to the node of descriptors whose index tag it is.
//!
//! A hash table of lines of eight words, each the mixed digest of a tag above its node's block. The
//! mix is a permutation, so that a word tells its tag exactly; it is keyed, so that nobody can choose
//! tags that share a line. A line that is full continues in the next. Words of tags that lost their
//! last descriptor stay until other tags need them, as those that came after them are found past them.
//!
//! There are parts, by the uppermost bits of the mixed digest, that grow each by itself.

use std::sync::Arc;

use byname_wire::tagset::TagDigest;

use super::arena::BlockId;
use crate::memory::{Lines, Pages};
use crate::prefetch;
use crate::sync::Ordering;
use crate::update::BuildError;

const PART_BITS: u32 = if cfg!(loom) { 0 } else { 8 };
const SLOTS: usize = 8;
/// The block of a tag that has none any more.
const NONE: u32 = u32::MAX;

/// Mixes digests under a secret.
///
/// Not a cipher: what keeps a stranger from telling which tags share a line is that he sees no mixed
/// digest, and no time that depends on one alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mixer([u32; 3]);

impl Mixer {
    pub(super) fn new(secret: u64) -> Self {
        // Products with odd numbers, and of a number with itself shifted, can be undone.
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

/// A mixed digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mixed(pub(super) u32);

impl Mixed {
    #[inline(always)]
    fn part(self) -> usize {
        ((u64::from(self.0) << PART_BITS) >> 32) as usize
    }

    #[inline(always)]
    fn word(self, block: u32) -> u64 {
        u64::from(self.0) << 32 | u64::from(block)
    }
}

/// A part: at least one line, and never all full.
struct Part(Lines);

impl Part {
    fn new(lines: usize, pages: Pages) -> Result<Self, BuildError> {
        Ok(Part(Lines::zeroed(lines, pages)?))
    }

    #[inline(always)]
    fn line(&self, tag: Mixed) -> usize {
        ((u64::from(tag.0 << PART_BITS) * self.0.len() as u64) >> 32) as usize
    }

    #[inline(always)]
    fn next(&self, line: usize) -> usize {
        if line + 1 == self.0.len() { 0 } else { line + 1 }
    }

    #[inline(always)]
    fn find(&self, tag: Mixed) -> Option<BlockId> {
        let mut at = self.line(tag);
        // Once round at most: a line that is not full ends the search.
        for _ in 0..self.0.len() {
            let words = self.0[at].0.each_ref().map(|word| word.load(Ordering::Acquire));
            let equal = words.iter().rev().fold(0u32, |mask, word| mask << 1 | u32::from((word >> 32) as u32 == tag.0));
            // Of a tag that mixes to zero, empty words are equal, too.
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

    /// Writes the block of a tag: over that which it has, or had, or over that of a tag that has
    /// none any more; whether that is a word that was empty.
    fn set(&self, tag: Mixed, block: u32) -> bool {
        let mut at = self.line(tag);
        let mut left = None;
        loop {
            for word in &self.0[at].0 {
                let old = word.load(Ordering::Relaxed);
                if old == 0 {
                    left.unwrap_or(word).store(tag.word(block), Ordering::Release);
                    return left.is_none();
                }
                if (old >> 32) as u32 == tag.0 {
                    word.store(tag.word(block), Ordering::Release);
                    return false;
                }
                if old as u32 == NONE {
                    left = left.or(Some(word));
                }
            }
            at = self.next(at);
        }
    }

    /// The words of tags that have blocks.
    fn words(&self) -> impl Iterator<Item = u64> {
        let words = self.0.iter().flat_map(|line| &line.0).map(|word| word.load(Ordering::Relaxed));
        words.filter(|&word| word != 0 && word as u32 != NONE)
    }
}

/// The directory, as readers see it.
#[derive(Clone)]
pub(super) struct Directory(Box<[Arc<Part>]>);

impl Directory {
    /// Asks for the line of a tag.
    #[inline(always)]
    pub(super) fn prefetch(&self, tag: Mixed) {
        let part = &self.0[tag.part()];
        prefetch::read(&part.0[part.line(tag)]);
    }

    /// The node of a tag.
    #[inline(always)]
    pub(super) fn find(&self, tag: Mixed) -> Option<BlockId> {
        self.0[tag.part()].find(tag)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.iter().map(|part| size_of::<(Arc<Part>, Part)>() + size_of_val(&*part.0)).sum()
    }
}

/// The writer's side.
pub(super) struct DirectoryWriter {
    directory: Directory,
    pages: Pages,
    /// Words of each part that are not empty.
    used: Vec<usize>,
}

impl DirectoryWriter {
    /// A directory with room for so many tags.
    ///
    /// # Errors
    /// If the kernel refuses memory on such pages.
    pub(super) fn new(tags: usize, pages: Pages) -> Result<Self, BuildError> {
        let lines = lines_for(tags >> PART_BITS);
        let parts = (0..1 << PART_BITS).map(|_| Ok(Arc::new(Part::new(lines, pages)?)));
        let directory = Directory(parts.collect::<Result<_, BuildError>>()?);
        Ok(DirectoryWriter { directory, pages, used: vec![0; 1 << PART_BITS] })
    }

    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Makes room for a tag; whether a part was made anew, so that readers need the directory of now.
    pub(super) fn make_room(&mut self, tag: Mixed) -> bool {
        let part = &self.directory.0[tag.part()];
        if self.used[tag.part()] < slots_used_max(part.0.len()) {
            return false;
        }
        let tags = part.words().count();
        let lines = lines_for(2 * tags);
        let larger = Part::new(lines, self.pages).or_else(|_| Part::new(lines, Pages::Small)).expect("there is memory");
        for word in part.words() {
            larger.set(Mixed((word >> 32) as u32), word as u32);
        }
        self.used[tag.part()] = tags;
        self.directory.0[tag.part()] = Arc::new(larger);
        true
    }

    /// Gives a tag, for which room was made, a block.
    pub(super) fn set(&mut self, tag: Mixed, block: BlockId) {
        self.used[tag.part()] += usize::from(self.directory.0[tag.part()].set(tag, block.0));
    }

    /// Takes a tag's block away.
    pub(super) fn remove(&mut self, tag: Mixed) {
        self.directory.0[tag.part()].set(tag, NONE);
    }
}

/// Lines of a part for so many tags.
fn lines_for(tags: usize) -> usize {
    (tags * 10).div_ceil(SLOTS * 6) + 1
}

/// Words that may be in use: never all, so that searches end.
fn slots_used_max(lines: usize) -> usize {
    lines * SLOTS * 7 / 10
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn mixing_is_a_permutation() {
        // Of all digests it would take half a gigabyte to see; of those that differ in some bits only,
        // a function that is none would have thousands of pairs mixed alike.
        for (secret, shift) in [(0, 0), (1, 8), (u64::MAX, 4), (0x1234_5678_9abc_def0, 10)] {
            let mixer = Mixer::new(secret);
            let mixed: HashSet<_> = (0..1 << 22).map(|tag| mixer.mix(TagDigest(tag << shift)).0).collect();
            assert_eq!(mixed.len(), 1 << 22);
        }
    }

    #[test]
    fn tags_come_and_go() {
        let mixer = Mixer::new(7);
        let mut directory = DirectoryWriter::new(0, Pages::Small).expect("little memory");
        let mixed = |tag: u32| mixer.mix(TagDigest(tag));
        let block_of = |tag: u32, round: u32| BlockId(1 + tag + round);
        for round in 0..4 {
            for tag in (0..20_000).map(|tag| tag + 5000 * round) {
                directory.make_room(mixed(tag));
                directory.set(mixed(tag), block_of(tag, round));
            }
            for tag in 0..40_000 {
                let tags = 5000 * round..5000 * round + 20_000;
                let right = tags.contains(&tag).then(|| block_of(tag, round));
                assert_eq!(directory.directory().find(mixed(tag)), right, "{tag}");
            }
            (0..5000).for_each(|tag| directory.remove(mixed(tag + 5000 * round)));
        }
        assert!(directory.directory().memory_bytes() < 20_000 * 40);
    }

    #[test]
    fn the_tag_that_mixes_to_nothing_is_like_any_other() {
        let mut directory = DirectoryWriter::new(0, Pages::Small).expect("little memory");
        assert_eq!(directory.directory().find(Mixed(0)), None);
        for tag in 0..20 {
            directory.make_room(Mixed(tag));
            directory.set(Mixed(tag), BlockId(tag + 1));
        }
        assert!((0..20).all(|tag| directory.directory().find(Mixed(tag)) == Some(BlockId(tag + 1))));
        directory.remove(Mixed(0));
        assert!((0..20).all(|tag| directory.directory().find(Mixed(tag)).is_some() == (tag > 0)));
    }
}

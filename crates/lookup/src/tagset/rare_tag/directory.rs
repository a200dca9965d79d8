//! The directory: maps a tag to the node of descriptors whose index tag it is.
//!
//! The top bits of the mixed digest choose a part. Each part grows by itself, so that growth delays
//! the writer little. Parts are blocks in the nodes' memory, on the same large pages.

use byname_wire::tagset::TagDigest;

use super::arena::{Arena, BlockId, Chunks, Claims};
use super::table::{Mixed, Mixer, Table, lines_for, words_used_max};
use crate::sync::{AtomicU64, Ordering};

const PART_BITS: u32 = if cfg!(loom) { 0 } else { 8 };

/// The directory as readers see it.
///
/// One word for each part: the number of its lines, above its block.
pub(super) struct Directory {
    parts: Box<[AtomicU64]>,
    mixer: Mixer,
}

impl Directory {
    #[inline(always)]
    pub(super) fn mixer(&self) -> Mixer {
        self.mixer
    }

    /// Prefetches the line of a tag.
    #[inline(always)]
    pub(super) fn prefetch(&self, tag: TagDigest, chunks: &Chunks) {
        let place = self.mixer.mix(tag);
        self.part(part_of(place), chunks).prefetch(within_part(place));
    }

    /// The node of a tag.
    #[inline(always)]
    pub(super) fn find(&self, tag: TagDigest, chunks: &Chunks) -> Option<BlockId> {
        let place = self.mixer.mix(tag);
        self.part(part_of(place), chunks).find(tag, within_part(place))
    }

    #[inline(always)]
    fn part<'a>(&self, part: usize, chunks: &'a Chunks) -> Table<'a> {
        let word = self.parts[part].load(Ordering::Acquire);
        chunks.block(BlockId(word as u32)).table(0, (word >> 32) as usize)
    }
}

#[inline(always)]
fn part_of(place: Mixed) -> usize {
    ((u64::from(place.0) << PART_BITS) >> 32) as usize
}

/// A tag's position in its part: the bits that did not choose the part.
#[inline(always)]
fn within_part(place: Mixed) -> Mixed {
    Mixed(place.0 << PART_BITS)
}

/// For files.
impl Directory {
    /// The parts' words.
    pub(super) fn words(&self) -> impl Iterator<Item = u64> {
        self.parts.iter().map(|word| word.load(Ordering::Relaxed))
    }

    /// The nodes of all tags.
    pub(super) fn nodes<'a>(&'a self, chunks: &'a Chunks) -> impl Iterator<Item = (TagDigest, BlockId)> + 'a {
        (0..self.parts.len()).flat_map(|part| self.part(part, chunks).iter())
    }
}

/// The writer's additional data about the directory.
pub(super) struct Growth {
    /// Number of used words in each part.
    used: Vec<usize>,
}

impl Growth {
    /// An empty directory with room for `tags` tags.
    pub(super) fn new(tags: usize, mixer: Mixer, arena: &mut Arena) -> (Self, Directory) {
        let lines = lines_for(tags >> PART_BITS);
        let part = |_| {
            let block = arena.take_lines(lines);
            arena.chunks().block(block).table(0, lines).clear();
            AtomicU64::new((lines as u64) << 32 | u64::from(block.0))
        };
        let directory = Directory { parts: (0..1 << PART_BITS).map(part).collect(), mixer };
        (Growth { used: vec![0; 1 << PART_BITS] }, directory)
    }

    /// A directory from the words of its parts. `None` unless each part is a table with room for another tag.
    pub(super) fn from_words(
        words: &[u64],
        mixer: Mixer,
        chunks: &Chunks,
        claims: &mut Claims,
    ) -> Option<(Self, Directory)> {
        let mut used = Vec::with_capacity(words.len());
        for (part, word) in words.iter().enumerate() {
            let (lines, block) = ((word >> 32) as usize, BlockId(*word as u32));
            claims.take_lines(block, lines)?;
            let table = chunks.block(block).table(0, lines);
            used.push(table.check(|tag| {
                let place = mixer.mix(tag);
                (part_of(place) == part).then_some(within_part(place))
            })?);
        }
        let parts = words.iter().map(|word| AtomicU64::new(*word)).collect();
        (words.len() == 1 << PART_BITS).then_some((Growth { used }, Directory { parts, mixer }))
    }

    /// Sets a tag's node, which may be its first.
    pub(super) fn set(&mut self, directory: &Directory, tag: TagDigest, node: BlockId, arena: &mut Arena) {
        let place = directory.mixer.mix(tag);
        let part = part_of(place);
        let chunks = arena.chunks().clone();
        let mut table = directory.part(part, &chunks);
        if self.used[part] >= words_used_max(table.0.len()) {
            table = self.grow(directory, part, arena);
        }
        self.used[part] += usize::from(table.set(tag, within_part(place), node));
    }

    /// Removes a tag.
    pub(super) fn remove(&mut self, directory: &Directory, tag: TagDigest, chunks: &Chunks) {
        let place = directory.mixer.mix(tag);
        directory.part(part_of(place), chunks).remove(tag, within_part(place));
    }

    fn grow<'a>(&mut self, directory: &Directory, part: usize, arena: &'a mut Arena) -> Table<'a> {
        let chunks = arena.chunks().clone();
        let word = directory.parts[part].load(Ordering::Relaxed);
        let (old_lines, old) = ((word >> 32) as usize, BlockId(word as u32));
        let tags = chunks.block(old).table(0, old_lines).iter().count();
        let lines = lines_for(2 * tags);
        let block = arena.take_lines(lines);
        let table = chunks.block(block).table(0, lines);
        table.clear();
        for (tag, node) in chunks.block(old).table(0, old_lines).iter() {
            table.set(tag, within_part(directory.mixer.mix(tag)), node);
        }
        self.used[part] = tags;
        directory.parts[part].store((lines as u64) << 32 | u64::from(block.0), Ordering::Release);
        arena.retire_lines(old, old_lines);
        arena.chunks().block(block).table(0, lines)
    }
}

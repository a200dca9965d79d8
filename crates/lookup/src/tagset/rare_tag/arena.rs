//! Memory of nodes: blocks of words, in chunks that are added and never moved.
//!
//! A block is written before its id is, and never changed afterwards but for single words: the
//! entries in it, the ids of children and a bound. The writer gives it back when it has put
//! another in its place, and uses it again when no reader can be in it any more.

use std::sync::{Arc, OnceLock};

use crate::memory::{Line, Lines, Pages};
use crate::prefetch;
use crate::sync::Ordering;
use crate::update::BuildError;

/// Blocks begin at multiples of so many half words, 32 bits each.
const UNIT_HALVES: usize = 4;
/// 64 MiB; fewer for models, where each word is an object.
const CHUNK_UNITS: usize = if cfg!(loom) { 1 << 7 } else { 1 << 22 };
const CHUNKS_MAX: usize = if cfg!(loom) { 4 } else { 1 << 10 };
/// Half words of a cache line.
const LINE_HALVES: usize = 16;
/// Blocks of up to so many units are given back and taken again at their very size.
const EXACT_UNITS: usize = 64;

/// The number of a block's first unit. The first of all is none's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockId(pub(super) u32);

/// What readers and the writer share.
pub(super) struct Chunks(Box<[OnceLock<Lines>]>);

impl Chunks {
    /// A block: whoever has its id, by an acquire load, sees what was written to it.
    #[inline(always)]
    pub(super) fn block(&self, id: BlockId) -> Block<'_> {
        let unit = id.0 as usize;
        // There is the chunk of each block, as each block is in one.
        let lines: &[Line] = self.0[unit / CHUNK_UNITS].get().map_or(&[], |lines| lines);
        Block { lines, first: unit % CHUNK_UNITS * UNIT_HALVES }
    }
}

/// A block, by its half words. How long it is, is written in it.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) lines: &'a [Line],
    /// Among the half words of `lines`.
    pub(super) first: usize,
}

impl Block<'_> {
    #[inline(always)]
    pub(super) fn half(self, at: usize) -> u32 {
        let at = self.first + at;
        (self.lines[at / LINE_HALVES].0[at / 2 % 8].load(Ordering::Acquire) >> (at % 2 * 32)) as u32
    }

    /// Writes a half word. The writer's method: nobody else changes the other half meanwhile.
    pub(super) fn store(self, at: usize, half: u32) {
        let at = self.first + at;
        let (word, shift) = (&self.lines[at / LINE_HALVES].0[at / 2 % 8], at % 2 * 32);
        let other = word.load(Ordering::Relaxed) & !(0xffff_ffff << shift);
        word.store(other | u64::from(half) << shift, Ordering::Release);
    }

    /// Asks for so many lines, from that of a half word on.
    #[inline(always)]
    pub(super) fn prefetch(self, at: usize, lines: usize) {
        let first = (self.first + at) / LINE_HALVES;
        // A block at the end of its chunk may have fewer.
        self.lines[first..].iter().take(lines).for_each(prefetch::read);
    }
}

/// The writer's side.
pub(super) struct Arena {
    chunks: Arc<Chunks>,
    pages: Pages,
    /// Chunks that there are.
    mapped: usize,
    /// The first unit that was never given out.
    next: usize,
    /// Blocks to use again, by the class of their size.
    free: Vec<Vec<BlockId>>,
    /// Blocks that readers may still be in, with their classes.
    retired: Vec<(BlockId, usize)>,
}

impl Arena {
    /// # Errors
    /// If the kernel refuses the first chunk.
    pub(super) fn new(pages: Pages) -> Result<Self, BuildError> {
        let chunks = Arc::new(Chunks((0..CHUNKS_MAX).map(|_| OnceLock::new()).collect()));
        let mut arena = Arena { chunks, pages, mapped: 0, next: 1, free: Vec::new(), retired: Vec::new() };
        arena.map(pages)?;
        Ok(arena)
    }

    pub(super) fn chunks(&self) -> &Arc<Chunks> {
        &self.chunks
    }

    /// Memory that blocks have, or had and will have again.
    pub(super) fn memory_bytes(&self) -> usize {
        self.next * UNIT_HALVES * size_of::<u32>()
    }

    /// Sees to room for a batch of changes, as far as can be known.
    ///
    /// # Errors
    /// If there are as many chunks as ids can tell apart, or the kernel refuses another.
    pub(super) fn reserve(&mut self, rules: usize) -> Result<(), BuildError> {
        if self.mapped + CHUNKS_MAX / 8 > CHUNKS_MAX {
            return Err(BuildError::Full { rules });
        }
        if self.mapped * CHUNK_UNITS - self.next < CHUNK_UNITS / 2 {
            self.map(self.pages)?;
        }
        Ok(())
    }

    fn map(&mut self, pages: Pages) -> Result<(), BuildError> {
        let lines = Lines::zeroed(CHUNK_UNITS * UNIT_HALVES / LINE_HALVES, pages)?;
        // Only the writer gets here, and never twice with the same number.
        self.chunks.0[self.mapped].get_or_init(|| lines);
        self.mapped += 1;
        Ok(())
    }

    /// A block for so many half words; what is in it is left over from others.
    ///
    /// # Panics
    /// If no memory is left, as all allocations do, where [`Arena::reserve`] could not tell.
    pub(super) fn take(&mut self, halves: usize) -> BlockId {
        let (class, units) = class_of(halves.div_ceil(UNIT_HALVES));
        if let Some(block) = self.free.get_mut(class).and_then(Vec::pop) {
            return block;
        }
        assert!(units <= CHUNK_UNITS, "a node of millions of tags, each in as many descriptors as another of its own");
        // Blocks lie in one chunk each.
        if self.next % CHUNK_UNITS + units > CHUNK_UNITS {
            self.next = self.next.next_multiple_of(CHUNK_UNITS);
        }
        if self.next + units > self.mapped * CHUNK_UNITS {
            self.map(self.pages).or_else(|_| self.map(Pages::Small)).expect("there is memory");
        }
        let block = BlockId(self.next as u32);
        self.next += units;
        block
    }

    /// Gives back a block of so many half words that new readers do not find any more.
    pub(super) fn retire(&mut self, block: BlockId, halves: usize) {
        self.retired.push((block, class_of(halves.div_ceil(UNIT_HALVES)).0));
    }

    /// No reader is in a block that was given back before now.
    pub(super) fn reclaim(&mut self) {
        for (block, class) in self.retired.drain(..) {
            if self.free.len() <= class {
                self.free.resize_with(class + 1, Vec::new);
            }
            self.free[class].push(block);
        }
    }
}

/// The class of blocks that have room for so many units, and how many they have: exactly as many up
/// to a kilobyte, then one of eight sizes for each power of two.
fn class_of(units: usize) -> (usize, usize) {
    if units <= EXACT_UNITS {
        return (units, units);
    }
    let step = (units - 1).ilog2() - 3;
    let steps = units.div_ceil(1 << step);
    let above = (step - (EXACT_UNITS.ilog2() - 3)) as usize;
    // Of 9 to 16 steps each.
    (EXACT_UNITS + above * 8 + steps - 8, steps << step)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn classes_have_room_and_are_told_apart() {
        let mut last = (0, 0);
        for units in 1..100_000 {
            let (class, room) = class_of(units);
            assert!(room >= units && room * 8 <= units * 9 + 8, "{units}");
            assert_eq!(class > last.0, room > last.1, "{units}");
            assert!(class <= last.0 + 1);
            last = (class, room);
        }
    }

    #[test]
    fn blocks_are_used_again_when_readers_have_left() {
        let mut arena = Arena::new(Pages::Small).expect("little memory");
        let first = arena.take(9);
        arena.chunks().block(first).store(8, 77);
        arena.chunks().block(first).store(7, 1);
        assert_eq!(arena.chunks().block(first).half(8), 77);
        arena.retire(first, 9);
        let second = arena.take(9);
        assert_ne!(first, second);
        arena.reclaim();
        assert_eq!(arena.take(12), first);
        assert_ne!(arena.take(12), first);
    }
}

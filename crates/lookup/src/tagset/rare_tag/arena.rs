//! Memory of nodes: blocks of words, in chunks that are added and never moved.
//!
//! A block is written before its id is, and never changed afterwards but for single words: the
//! entries in it, the ids of children and a bound. The writer gives it back when it has put
//! another in its place, and uses it again when no reader can be in it any more.

use std::sync::{Arc, OnceLock};

use super::table::Table;
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
pub(super) const LINE_HALVES: usize = 16;
const LINE_UNITS: usize = LINE_HALVES / UNIT_HALVES;
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

impl<'a> Block<'a> {
    /// `lines` of a block that begins with a line, from its line `at` on.
    #[inline(always)]
    pub(super) fn table(self, at: usize, lines: usize) -> Table<'a> {
        let first = self.first / LINE_HALVES + at;
        Table(&self.lines[first..first + lines])
    }

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
    /// Blocks to use again, by their class.
    free: Vec<Vec<BlockId>>,
    /// Blocks that readers may still be in.
    retired: Vec<(BlockId, Class)>,
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
        self.take_of(Class::of(halves.div_ceil(UNIT_HALVES), false))
    }

    /// A block of so many whole lines, as [`Arena::take`] has them.
    pub(super) fn take_lines(&mut self, lines: usize) -> BlockId {
        self.take_of(Class::of(lines * LINE_UNITS, true))
    }

    fn take_of(&mut self, class: Class) -> BlockId {
        if let Some(block) = self.free.get_mut(class.list()).and_then(Vec::pop) {
            return block;
        }
        let units = class.units;
        assert!(units <= CHUNK_UNITS, "a node of millions of tags, each in as many descriptors as another of its own");
        let mut at = if class.is_lines { self.next.next_multiple_of(LINE_UNITS) } else { self.next };
        // Blocks lie in one chunk each.
        if at % CHUNK_UNITS + units > CHUNK_UNITS {
            at = at.next_multiple_of(CHUNK_UNITS);
        } else if at > self.next {
            let gap = Class::of(at - self.next, false);
            self.give_back(BlockId(self.next as u32), gap);
        }
        if at + units > self.mapped * CHUNK_UNITS {
            self.map(self.pages).or_else(|_| self.map(Pages::Small)).expect("there is memory");
        }
        self.next = at + units;
        BlockId(at as u32)
    }

    /// Gives back a block of so many half words that new readers do not find any more.
    pub(super) fn retire(&mut self, block: BlockId, halves: usize) {
        self.retired.push((block, Class::of(halves.div_ceil(UNIT_HALVES), false)));
    }

    /// The same, of whole lines.
    pub(super) fn retire_lines(&mut self, block: BlockId, lines: usize) {
        self.retired.push((block, Class::of(lines * LINE_UNITS, true)));
    }

    /// No reader is in a block that was given back before now.
    pub(super) fn reclaim(&mut self) {
        let mut retired = std::mem::take(&mut self.retired);
        retired.drain(..).for_each(|(block, class)| self.give_back(block, class));
        self.retired = retired;
    }

    fn give_back(&mut self, block: BlockId, class: Class) {
        let list = class.list();
        if self.free.len() <= list {
            self.free.resize_with(list + 1, Vec::new);
        }
        self.free[list].push(block);
    }
}

/// The class of blocks that have room for so many units: exactly as many up to a kilobyte, then one of
/// eight sizes for each power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Class {
    number: usize,
    /// Units that each has.
    units: usize,
    /// Whether they begin with a line.
    is_lines: bool,
}

impl Class {
    fn of(units: usize, is_lines: bool) -> Self {
        if units <= EXACT_UNITS {
            return Class { number: units, units, is_lines };
        }
        let step = (units - 1).ilog2() - 3;
        let steps = units.div_ceil(1 << step);
        let above = (step - (EXACT_UNITS.ilog2() - 3)) as usize;
        // Of 9 to 16 steps each.
        Class { number: EXACT_UNITS + above * 8 + steps - 8, units: steps << step, is_lines }
    }

    /// Where they are kept.
    fn list(self) -> usize {
        2 * self.number + usize::from(self.is_lines)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn classes_have_room_and_are_told_apart() {
        let mut last = Class::of(0, false);
        for units in 1..100_000 {
            let class = Class::of(units, false);
            assert!(class.units >= units && class.units * 8 <= units * 9 + 8, "{units}");
            assert_eq!(class.number > last.number, class.units > last.units, "{units}");
            assert!(class.number <= last.number + 1);
            last = class;
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

    #[test]
    fn whole_lines_begin_with_one_and_leave_no_gap_unused() {
        let mut arena = Arena::new(Pages::Small).expect("little memory");
        let before = arena.take(1);
        let lines = arena.take_lines(3);
        assert_eq!((before.0, lines.0 as usize % LINE_UNITS), (1, 0));
        assert_eq!(arena.chunks().block(lines).table(1, 2).0.len(), 2);
        assert_eq!(arena.take(2 * UNIT_HALVES), BlockId(2));
        arena.retire_lines(lines, 3);
        arena.reclaim();
        assert_ne!(arena.take(3 * LINE_HALVES), lines);
        assert_eq!(arena.take_lines(3), lines);
    }
}

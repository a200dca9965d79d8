//! Memory of nodes: blocks of words, in chunks that are added and never moved.
//!
//! The writer fills a block before it publishes the block's id. Afterwards it changes only single
//! words: entries, ids of children, and a bound. When the writer has replaced a block, it gives the
//! block back, and reuses it when no reader can be in it any more.

use std::sync::{Arc, OnceLock};

use super::table::Table;
use crate::memory::{Line, Lines, Pages};
use crate::prefetch;
use crate::sync::Ordering;
use crate::update::BuildError;

/// Alignment of blocks in half words of 32 bits.
const UNIT_HALVES: usize = 4;
/// 64 MiB. Loom models have less, because each word is an object there.
const CHUNK_UNITS: usize = if cfg!(loom) { 1 << 7 } else { 1 << 22 };
const CHUNKS_MAX: usize = if cfg!(loom) { 4 } else { 1 << 10 };
/// Number of half words in a cache line.
pub(super) const LINE_HALVES: usize = 16;
pub(super) const LINE_UNITS: usize = LINE_HALVES / UNIT_HALVES;
/// Number of lines of a chunk.
pub(super) const CHUNK_LINES: usize = CHUNK_UNITS / LINE_UNITS;
/// Blocks of up to this many units are reused for exactly their size.
const EXACT_UNITS: usize = 64;

/// The number of a block's first unit. Zero stands for no block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockId(pub(super) u32);

/// The chunks, which readers and the writer share.
pub(super) struct Chunks(Box<[OnceLock<Lines>]>);

impl Chunks {
    /// A block. A reader that got its id by an acquire load sees what was written to it.
    #[inline(always)]
    pub(super) fn block(&self, id: BlockId) -> Block<'_> {
        let unit = id.0 as usize;
        // Each block lies in one chunk, and that chunk exists.
        let lines: &[Line] = self.0[unit / CHUNK_UNITS].get().map_or(&[], |lines| lines);
        Block { lines, first: unit % CHUNK_UNITS * UNIT_HALVES }
    }
}

/// A block as half words. Its contents tell its length.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) lines: &'a [Line],
    /// Index of its first half word in `lines`.
    pub(super) first: usize,
}

impl<'a> Block<'a> {
    /// Number of half words from its first to the end of its chunk.
    pub(super) fn halves_left(self) -> usize {
        (self.lines.len() * LINE_HALVES).saturating_sub(self.first)
    }

    /// `lines` lines of a block that is aligned to lines, starting with its line `at`.
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

    /// Writes a half word. For the writer; no one else changes the other half meanwhile.
    pub(super) fn store(self, at: usize, half: u32) {
        let at = self.first + at;
        let (word, shift) = (&self.lines[at / LINE_HALVES].0[at / 2 % 8], at % 2 * 32);
        let other = word.load(Ordering::Relaxed) & !(0xffff_ffff << shift);
        word.store(other | u64::from(half) << shift, Ordering::Release);
    }

    /// Prefetches `lines` lines, starting with that of a half word.
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
    /// Number of chunks that exist.
    mapped: usize,
    /// The first unit that was never used.
    next: usize,
    /// Number of units before `next` that no chunk has, because a file's last chunk was short.
    missing: usize,
    /// Blocks for reuse, by their class.
    free: Vec<Vec<BlockId>>,
    /// Blocks that readers may still use.
    retired: Vec<(BlockId, Class)>,
}

impl Arena {
    /// # Errors
    /// If the kernel refuses the first chunk.
    pub(super) fn new(pages: Pages) -> Result<Self, BuildError> {
        let chunks = Arc::new(Chunks((0..CHUNKS_MAX).map(|_| OnceLock::new()).collect()));
        let mut arena = Arena { chunks, pages, mapped: 0, next: 1, missing: 0, free: Vec::new(), retired: Vec::new() };
        arena.map(pages)?;
        Ok(arena)
    }

    /// An arena whose first `units` units are these lines, in runs of [`CHUNK_LINES`]. New blocks come behind them.
    ///
    /// # Errors
    /// If there are too many.
    pub(super) fn of_lines(lines: Vec<Lines>, units: usize, pages: Pages) -> Result<Self, BuildError> {
        let mapped = lines.len();
        if mapped + CHUNKS_MAX / 8 > CHUNKS_MAX {
            return Err(BuildError::Full { rules: 0 });
        }
        let chunks = Arc::new(Chunks((0..CHUNKS_MAX).map(|_| OnceLock::new()).collect()));
        for (chunk, lines) in chunks.0.iter().zip(lines) {
            chunk.get_or_init(|| lines);
        }
        let next = mapped * CHUNK_UNITS;
        Ok(Arena { chunks, pages, mapped, next, missing: next - units, free: Vec::new(), retired: Vec::new() })
    }

    /// Number of units that are or were in use, and their lines chunk by chunk.
    pub(super) fn used(&self) -> (usize, impl Iterator<Item = &[Line]>) {
        let lines = self.next.div_ceil(LINE_UNITS);
        let chunk = move |i: usize| {
            let chunk: &[Line] = self.chunks.0[i].get().map_or(&[], |lines| lines);
            &chunk[..chunk.len().min(lines - i * CHUNK_LINES)]
        };
        (self.next, (0..lines.div_ceil(CHUNK_LINES)).map(chunk))
    }

    pub(super) fn chunks(&self) -> &Arc<Chunks> {
        &self.chunks
    }

    /// Memory of all blocks, including those for reuse.
    pub(super) fn memory_bytes(&self) -> usize {
        (self.next - self.missing) * UNIT_HALVES * size_of::<u32>()
    }

    /// Makes room for a batch of changes, as far as its size can be predicted.
    ///
    /// # Errors
    /// If ids cannot number more chunks, or if the kernel refuses another.
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
        let lines = Lines::growing(CHUNK_UNITS * UNIT_HALVES / LINE_HALVES, pages)?;
        // Only the writer gets here, and never twice with the same number.
        self.chunks.0[self.mapped].get_or_init(|| lines);
        self.mapped += 1;
        Ok(())
    }

    /// A block of `halves` half words. It contains leftovers.
    ///
    /// # Panics
    /// If no memory is left (as in all allocations) and [`Arena::reserve`] could not predict it.
    pub(super) fn take(&mut self, halves: usize) -> BlockId {
        self.take_of(Class::of(halves.div_ceil(UNIT_HALVES), false))
    }

    /// A block of `lines` whole lines, like [`Arena::take`].
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
        // A block must lie in one chunk.
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

    /// Gives back a block of `halves` half words that new readers can no longer find.
    pub(super) fn retire(&mut self, block: BlockId, halves: usize) {
        self.retired.push((block, Class::of(halves.div_ceil(UNIT_HALVES), false)));
    }

    /// The same for whole lines.
    pub(super) fn retire_lines(&mut self, block: BlockId, lines: usize) {
        self.retired.push((block, Class::of(lines * LINE_UNITS, true)));
    }

    /// Tells that no reader is in a block that was given back before.
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

/// The units of a file that blocks have been found to take, so that no two take the same.
pub(super) struct Claims {
    units: usize,
    taken: Vec<u64>,
}

impl Claims {
    pub(super) fn new(units: usize) -> Self {
        Claims { units, taken: vec![0; units.div_ceil(64)] }
    }

    /// Whether a block may begin here.
    pub(super) fn has(&self, block: BlockId) -> bool {
        (1..self.units).contains(&(block.0 as usize))
    }

    /// Takes the units of a block of `halves` half words. `None` if they are taken, or not there.
    pub(super) fn take(&mut self, block: BlockId, halves: usize) -> Option<()> {
        self.take_class(block, Class::of(halves.div_ceil(UNIT_HALVES), false))
    }

    /// The same for whole lines.
    pub(super) fn take_lines(&mut self, block: BlockId, lines: usize) -> Option<()> {
        let fits = (block.0 as usize).is_multiple_of(LINE_UNITS) && lines <= CHUNK_LINES;
        fits.then(|| Class::of(lines * LINE_UNITS, true)).and_then(|class| self.take_class(block, class))
    }

    fn take_class(&mut self, block: BlockId, class: Class) -> Option<()> {
        let (from, until) = (block.0 as usize, block.0 as usize + class.units);
        let in_one_chunk = class.units > 0 && from / CHUNK_UNITS == (until - 1) / CHUNK_UNITS;
        if !(self.has(block) && until <= self.units && in_one_chunk) {
            return None;
        }
        for unit in from..until {
            let (word, bit) = (&mut self.taken[unit / 64], 1 << (unit % 64));
            if *word & bit != 0 {
                return None;
            }
            *word |= bit;
        }
        Some(())
    }
}

/// A class of blocks with equal room: exact sizes up to a kilobyte, then eight sizes for each power
/// of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Class {
    number: usize,
    /// Number of units of each block.
    units: usize,
    /// Whether its blocks are aligned to lines.
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
        // 9 to 16 steps each.
        Class { number: EXACT_UNITS + above * 8 + steps - 8, units: steps << step, is_lines }
    }

    /// Index of the list that holds its free blocks.
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

//! The query half: one line for a name, and one more for each level to which its cell bumped it.

use std::ops::Range;
use std::sync::Arc;

use byname_wire::Digest;

use super::cell::{self, Header};
use super::changes::Changes;
use super::processor;
use super::shape::{LEVELS, Shape, mask, part_of, place};
use crate::entry::EntryId;
use crate::flat::{BURST_MAX, FlatFib};
use crate::instructions::Instructions;
use crate::memory::{Line, Lines};
use crate::prefetch;
use crate::sync::Ordering;

/// The cells of one level of a part.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Level {
    /// Number of its first cell among all cells of the part's lines.
    pub(super) first: u32,
    pub(super) cells: u32,
}

/// A part as readers see it.
#[derive(Clone)]
pub(super) struct Part {
    /// Other parts may share these lines.
    pub(super) lines: Arc<Lines>,
    pub(super) levels: [Level; LEVELS],
}

impl Part {
    /// The range of lines that belong to this part.
    pub(super) fn lines_used(&self, shape: Shape) -> Range<usize> {
        let [head, .., last] = self.levels;
        let per_line = shape.cells_per_line();
        head.first as usize / per_line..(last.first + last.cells) as usize / per_line
    }
}

/// The table that readers see.
pub(super) struct Query {
    pub(super) shape: Shape,
    pub(super) changes: Arc<Changes>,
    /// `1 << part_bits` entries, by the hash's top bits. A part that needs fewer bits occurs
    /// several times.
    pub(super) parts: Box<[Part]>,
    pub(super) part_bits: u32,
    pub(super) instructions: Instructions,
}

/// Computes the parities of a cell's planes.
pub(super) trait Parities<const W: usize> {
    /// The parities for the cell that begins at word `first`. Loads words with acquire semantics.
    fn of(&self, line: &Line, first: usize, mask: [u64; W]) -> u32;
}

/// With portable code.
pub(super) struct Portable(pub(super) Shape);

impl<const W: usize> Parities<W> for Portable {
    #[inline(always)]
    fn of(&self, line: &Line, first: usize, mask: [u64; W]) -> u32 {
        let mut words = [0; 8];
        for (word, from) in words.iter_mut().zip(&line.0).skip(first).take(self.0.cell_words) {
            *word = from.load(Ordering::Acquire);
        }
        cell::parities(self.0, &words, first, mask)
    }
}

/// Number of names whose lines are prefetched while one is asked: enough to keep the memory busy.
const AHEAD: usize = 64;
/// The same for bumped names, which are few.
const AHEAD_BUMPED: usize = 8;

/// The next cell to ask about a name.
#[derive(Clone, Copy)]
struct Ask<'a> {
    line: &'a Line,
    /// The cell's first word.
    first: u8,
    rank: u8,
    level: u8,
    /// Index of the name within the burst.
    of: u8,
}

impl Query {
    /// The cell to ask about name `of` of the burst, in one level.
    #[inline(always)]
    fn ask<const W: usize>(&self, of: usize, name: Digest, level: usize) -> Ask<'_> {
        let part = &self.parts[part_of(name, self.part_bits)];
        let Level { first, cells } = part.levels[level];
        let place = place(name, level, cells as usize);
        let cell = first as usize + place.cell;
        // If a plane has one word, cells are whole lines.
        let (line, first) = if W == 1 { (cell, 0) } else { self.shape.line_of(cell) };
        Ask { line: &part.lines[line], first: first as u8, rank: place.rank, level: level as u8, of: of as u8 }
    }

    /// The same, with a prefetch of the line.
    #[inline(always)]
    fn ask_ahead<const W: usize>(&self, of: usize, name: Digest, level: usize) -> Ask<'_> {
        let ask = self.ask::<W>(of, name, level);
        prefetch::read(ask.line);
        ask
    }

    /// Asks earlier names while later names' lines are being prefetched.
    #[inline(always)]
    pub(super) fn burst<const W: usize>(
        &self,
        names: &[Digest],
        out: &mut [Option<EntryId>],
        parities: &impl Parities<W>,
    ) {
        let nothing = Ask { line: &self.parts[0].lines[0], first: 0, rank: 0, level: 0, of: 0 };
        let (mut asks, mut bumped) = ([nothing; AHEAD], Bumped::new(nothing));
        for (i, (ask, name)) in asks.iter_mut().zip(names).enumerate() {
            *ask = self.ask_ahead::<W>(i, *name, 0);
        }
        for (i, name) in names.iter().enumerate() {
            let ask = asks[i % AHEAD];
            if let Some(later) = names.get(i + AHEAD) {
                asks[i % AHEAD] = self.ask_ahead::<W>(i + AHEAD, *later, 0);
            }
            out[i] = self.answer(*name, ask, parities);
            if out[i].is_none() {
                // A name that is bumped again takes the place that it leaves.
                while bumped.is_full() {
                    self.answer_bumped(names, &mut bumped, out, parities);
                }
                bumped.push(self.ask_ahead::<W>(i, *name, 1));
            }
        }
        while !bumped.is_empty() {
            self.answer_bumped(names, &mut bumped, out, parities);
        }
    }

    /// Answers the name that was bumped first.
    #[inline(always)]
    fn answer_bumped<'a, const W: usize>(
        &'a self,
        names: &[Digest],
        bumped: &mut Bumped<'a>,
        out: &mut [Option<EntryId>],
        parities: &impl Parities<W>,
    ) {
        let ask = bumped.pop();
        let (of, next) = (usize::from(ask.of), usize::from(ask.level) + 1);
        out[of] = self.answer(names[of], ask, parities);
        if out[of].is_none() && next < LEVELS {
            bumped.push(self.ask_ahead::<W>(of, names[of], next));
        }
    }

    /// A cell's answer for a name. `None` if the cell bumped the name.
    #[inline(always)]
    fn answer<const W: usize>(&self, name: Digest, ask: Ask<'_>, parities: &impl Parities<W>) -> Option<EntryId> {
        let since = self.changes.moment(ask.line);
        let header = self.header::<W>(ask.line, ask.first);
        let entry = parities.of(ask.line, ask.first.into(), mask(self.shape, name, header.seed));
        if !self.changes.undisturbed(ask.line, since) {
            return self.settled::<W>(name, ask);
        }
        (ask.rank < header.threshold).then_some(EntryId(entry))
    }

    /// The same, correct whatever the writer does meanwhile.
    #[cold]
    fn settled<const W: usize>(&self, name: Digest, ask: Ask<'_>) -> Option<EntryId> {
        self.changes.settled(ask.line, |line| {
            let header = self.header::<W>(line, ask.first);
            let mask = mask::<W>(self.shape, name, header.seed);
            (ask.rank < header.threshold).then(|| EntryId(Portable(self.shape).of(line, ask.first.into(), mask)))
        })
    }

    #[inline(always)]
    fn header<const W: usize>(&self, line: &Line, first: u8) -> Header {
        let last = if W == 1 { 7 } else { (usize::from(first) + self.shape.cell_words - 1) % 8 };
        Header::of(line.0[last].load(Ordering::Acquire))
    }
}

/// Bumped names, in order.
struct Bumped<'a> {
    asks: [Ask<'a>; AHEAD_BUMPED],
    begin: usize,
    end: usize,
}

impl<'a> Bumped<'a> {
    fn new(nothing: Ask<'a>) -> Self {
        Bumped { asks: [nothing; AHEAD_BUMPED], begin: 0, end: 0 }
    }

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.end - self.begin == AHEAD_BUMPED
    }

    #[inline(always)]
    fn push(&mut self, ask: Ask<'a>) {
        self.asks[self.end % AHEAD_BUMPED] = ask;
        self.end += 1;
    }

    #[inline(always)]
    fn pop(&mut self) -> Ask<'a> {
        self.begin += 1;
        self.asks[(self.begin - 1) % AHEAD_BUMPED]
    }
}

impl FlatFib for Query {
    fn entry(&self, name: Digest) -> Option<EntryId> {
        let mut out = [None];
        self.entry_burst(&[name], &mut out);
        out[0]
    }

    fn entry_burst(&self, names: &[Digest], out: &mut [Option<EntryId>]) {
        assert_eq!(names.len(), out.len());
        assert!(names.len() <= BURST_MAX);
        match self.shape.plane_bits {
            ..=64 => processor::burst::<1>(self, names, out),
            _ => processor::burst::<2>(self, names, out),
        }
    }

    fn lines_read(&self, name: Digest) -> Option<usize> {
        let is_bumped = |level: &usize| {
            let ask = self.ask::<2>(0, name, *level);
            ask.rank >= self.changes.settled(ask.line, |line| self.header::<2>(line, ask.first)).threshold
        };
        Some(1 + (0..LEVELS - 1).take_while(is_bumped).count())
    }

    fn memory_bytes(&self) -> usize {
        let mut lines: Vec<_> = self.parts.iter().map(|part| &part.lines).collect();
        lines.sort_by_key(|lines| Arc::as_ptr(lines));
        lines.dedup_by_key(|lines| Arc::as_ptr(lines));
        size_of::<Self>()
            + self.changes.memory_bytes()
            + size_of_val(&*self.parts)
            + lines.iter().map(|lines| size_of_val(&****lines)).sum::<usize>()
    }
}

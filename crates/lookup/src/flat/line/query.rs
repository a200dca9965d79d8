//! The query half: one line for a name, another for each level that its cell bumped it to.

use std::ops::Range;
use std::sync::Arc;

use byname_wire::Digest;

use super::cell::{self, Header};
use super::changes::{Changes, Question};
use super::processor;
use super::shape::{LEVELS, Shape, first_place, lower_place, mask, part_of};
use crate::entry::EntryId;
use crate::flat::{BURST_MAX, FlatFib};
use crate::instructions::Instructions;
use crate::memory::{Line, Lines};
use crate::prefetch;
use crate::sync::Ordering;

/// The cells of one level of a part.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Level {
    /// Among all cells of the part's lines.
    pub(super) first: u32,
    pub(super) cells: u32,
}

/// A part, as readers see it.
#[derive(Clone)]
pub(super) struct Part {
    /// Which other parts may share.
    pub(super) lines: Arc<Lines>,
    pub(super) levels: [Level; LEVELS],
}

impl Part {
    /// Which lines are its own.
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
    /// `1 << part_bits` parts, by the uppermost bits of the hash; those that need fewer bits come
    /// several times.
    pub(super) parts: Box<[Part]>,
    pub(super) part_bits: u32,
    pub(super) instructions: Instructions,
}

/// How the parities of a cell's planes are computed.
pub(super) trait Parities {
    /// Those of the cell that begins at word `first`. Loads words with acquire semantics.
    fn of<const W: usize>(&self, line: &Line, first: usize, mask: [u64; W]) -> u32;
}

/// By plain arithmetic.
pub(super) struct Portable(pub(super) Shape);

impl Parities for Portable {
    #[inline(always)]
    fn of<const W: usize>(&self, line: &Line, first: usize, mask: [u64; W]) -> u32 {
        let mut words = [0; 8];
        for (word, from) in words.iter_mut().zip(&line.0).skip(first).take(self.0.cell_words) {
            *word = from.load(Ordering::Acquire);
        }
        cell::parities(self.0, &words, first, mask)
    }
}

/// The next cell to ask about a name.
#[derive(Clone, Copy, Default)]
struct Ask {
    part: u16,
    rank: u8,
    cell: u32,
}

impl Query {
    #[inline(always)]
    fn first_ask(&self, name: Digest) -> Ask {
        let part = part_of(name, self.part_bits);
        let Level { first, cells } = self.parts[part].levels[0];
        let place = first_place(name, cells as usize);
        Ask { part: part as u16, rank: place.rank, cell: first + place.cell as u32 }
    }

    #[inline(always)]
    fn lower_ask(&self, name: Digest, part: u16, level: usize) -> Ask {
        let Level { first, cells } = self.parts[usize::from(part)].levels[level];
        let place = lower_place(name, level, cells as usize);
        Ask { part, rank: place.rank, cell: first + place.cell as u32 }
    }

    #[inline(always)]
    fn prefetch(&self, ask: Ask) {
        prefetch::read(&self.parts[usize::from(ask.part)].lines[self.shape.line_of(ask.cell as usize).0]);
    }

    #[inline(always)]
    fn answer<const W: usize>(&self, name: Digest, ask: Ask, parities: &impl Parities) -> Option<EntryId> {
        let (at, first) = self.shape.line_of(ask.cell as usize);
        let lines = &self.parts[usize::from(ask.part)].lines;
        let question = EntryOf::<W, _> { shape: &self.shape, name, rank: ask.rank, first, parities };
        self.changes.ask(lines, at, &question)
    }

    /// Level by level: while one name's line is on its way, the others' are asked.
    #[inline(always)]
    pub(super) fn burst<const W: usize>(
        &self,
        names: &[Digest],
        out: &mut [Option<EntryId>],
        parities: &impl Parities,
    ) {
        let mut asks = [Ask::default(); BURST_MAX];
        for (ask, name) in asks.iter_mut().zip(names) {
            *ask = self.first_ask(*name);
            self.prefetch(*ask);
        }
        let mut bumped = [0u8; BURST_MAX];
        let mut left = 0;
        for (i, (name, found)) in names.iter().zip(&mut *out).enumerate() {
            *found = self.answer::<W>(*name, asks[i], parities);
            if found.is_none() {
                asks[i] = self.lower_ask(*name, asks[i].part, 1);
                self.prefetch(asks[i]);
                bumped[left] = i as u8;
                left += 1;
            }
        }
        for level in 1..LEVELS {
            let mut kept = 0;
            for at in 0..left {
                let i = usize::from(bumped[at]);
                out[i] = self.answer::<W>(names[i], asks[i], parities);
                if out[i].is_none() && level + 1 < LEVELS {
                    asks[i] = self.lower_ask(names[i], asks[i].part, level + 1);
                    self.prefetch(asks[i]);
                    bumped[kept] = i as u8;
                    kept += 1;
                }
            }
            left = kept;
        }
    }
}

/// What a cell says about a name; `None`: it bumped it.
struct EntryOf<'a, const W: usize, P> {
    shape: &'a Shape,
    name: Digest,
    rank: u8,
    /// The cell's first word.
    first: usize,
    parities: &'a P,
}

impl<const W: usize, P: Parities> Question for EntryOf<'_, W, P> {
    type Answer = Option<EntryId>;

    #[inline(always)]
    fn ask(&self, line: &Line) -> Option<EntryId> {
        let header = Header::of(line.0[(self.first + self.shape.cell_words - 1) % 8].load(Ordering::Acquire));
        if self.rank >= header.threshold {
            return None;
        }
        let mask = mask::<W>(*self.shape, self.name, header.seed);
        Some(EntryId(self.parities.of(line, self.first, mask)))
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
        let mut ask = self.first_ask(name);
        for level in 1..LEVELS {
            // Mask and value do not matter here.
            if self.answer::<1>(name, ask, &Portable(self.shape)).is_some() {
                return Some(level);
            }
            ask = self.lower_ask(name, ask.part, level);
        }
        Some(LEVELS)
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

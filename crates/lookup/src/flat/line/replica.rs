//! A query half elsewhere, kept equal by what the control half wrote [Concise §5.3].
//!
//! Parts travel whole when they are made, and one line at a time when they change. Both ends must
//! hash names under the same key.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use super::Options;
use super::changes::{self, Changes};
use super::query::{Level, Part, Query};
use super::shape::{LEVELS, PART_BITS_MAX, Shape};
use super::table::Maker;
use crate::flat::FlatFib;
use crate::memory::{Lines, Pages};
use crate::sync::Ordering;

/// What the control half wrote, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// A line of a part changed, in one step.
    Line(LineFlips),
    /// Parts were made, in place of those that covered the same names.
    Parts(Vec<PartImage>),
}

/// Bits that changed in one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineFlips {
    /// As [`PartImage::number`].
    pub part: u32,
    /// Among those of the part.
    pub line: u32,
    /// By word.
    pub flips: [u64; 8],
}

/// All of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartImage {
    /// The bits of the hash that its names share, uppermost first, behind a one.
    pub number: u32,
    /// Cells of each level.
    pub cells: [u32; LEVELS],
    /// Eight for each line.
    pub words: Vec<u64>,
}

impl PartImage {
    pub(super) fn of(number: u32, shape: Shape, part: &Part) -> Self {
        let words = part.lines[part.lines_used(shape)].iter().flat_map(changes::words);
        PartImage { number, cells: part.levels.map(|level| level.cells), words: words.collect() }
    }
}

/// What was received is no part, or no line, of such a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("part {number} does not fit the table")]
pub struct Misfit {
    /// The part's number.
    pub number: u32,
}

/// A query half that follows a control half elsewhere. It has one writer.
pub struct Replica {
    maker: Maker,
    changes: Arc<Changes>,
    /// By number.
    parts: BTreeMap<u32, Part>,
    query: Option<Arc<Query>>,
}

impl Replica {
    /// Of a control half with these options; it has no parts yet.
    pub fn new(options: &Options) -> Self {
        Replica { maker: Maker::new(options), changes: Arc::new(Changes::new()), parts: BTreeMap::new(), query: None }
    }

    /// The query half; `None` while parts are missing.
    pub fn query(&self) -> Option<Arc<dyn FlatFib>> {
        self.query.clone().map(|query| query as Arc<dyn FlatFib>)
    }

    /// Takes parts in place of those that covered the same names, or of all (`is_whole`). Readers
    /// must have the new query half before the next change.
    ///
    /// # Errors
    /// If one is malformed; none is taken then.
    pub fn put(&mut self, is_whole: bool, images: &[PartImage]) -> Result<(), Misfit> {
        let parts = images.iter().map(|image| Ok((image.number, self.read(image)?)));
        let parts = parts.collect::<Result<Vec<_>, Misfit>>()?;
        if is_whole {
            self.parts.clear();
        }
        for (number, part) in parts {
            self.parts.retain(|&other, _| !covers(other, number) && !covers(number, other));
            self.parts.insert(number, part);
        }
        // In the order of the bits that their names share.
        let mut parts: Vec<_> = self.parts.iter().map(|(&number, part)| (number.ilog2(), number, part)).collect();
        parts.sort_by_key(|&(bits, number, _)| u64::from(number ^ 1 << bits) << (PART_BITS_MAX - bits));
        let covered: u32 = parts.iter().map(|&(bits, ..)| 1 << (PART_BITS_MAX - bits)).sum();
        self.query = (covered == 1 << PART_BITS_MAX).then(|| {
            let parts = parts.iter().map(|&(bits, _, part)| (bits, part));
            Arc::new(self.maker.query(&self.changes, parts))
        });
        Ok(())
    }

    /// Changes a line, in one step as readers see it.
    ///
    /// # Errors
    /// If there is no such line; nothing is changed then.
    pub fn flip(&mut self, change: &LineFlips) -> Result<(), Misfit> {
        let misfit = Misfit { number: change.part };
        let part = self.parts.get(&change.part).ok_or(misfit)?;
        let line = part.lines.get(change.line as usize).ok_or(misfit)?;
        let old = changes::words(line);
        let new = std::array::from_fn(|word| old[word] ^ change.flips[word]);
        self.changes.write(&part.lines, change.line as usize, &new);
        Ok(())
    }

    fn read(&self, image: &PartImage) -> Result<Part, Misfit> {
        let misfit = Misfit { number: image.number };
        let per_line = self.maker.shape.cells_per_line() as u32;
        let is_whole_lines = image.cells.iter().all(|&cells| cells > 0 && cells % per_line == 0);
        let cells: u64 = image.cells.iter().copied().map(u64::from).sum();
        let fits = is_whole_lines
            && cells <= u64::from(u32::MAX)
            && cells / u64::from(per_line) * 8 == image.words.len() as u64;
        if !(1..2 << PART_BITS_MAX).contains(&image.number) || !fits {
            return Err(misfit);
        }
        let lines = Lines::zeroed(image.words.len() / 8, Pages::Small).map_err(|_| misfit)?;
        for (line, words) in lines.iter().zip(image.words.chunks_exact(8)) {
            // Nobody reads it yet.
            line.0.iter().zip(words).for_each(|(word, new)| word.store(*new, Ordering::Relaxed));
        }
        let mut next = 0;
        let levels = image.cells.map(|cells| {
            next += cells;
            Level { first: next - cells, cells }
        });
        Ok(Part { lines: Arc::new(lines), levels })
    }
}

/// Whether all names of part `inner` are such as part `outer` holds.
fn covers(outer: u32, inner: u32) -> bool {
    let (outer_bits, inner_bits) = (outer.ilog2(), inner.ilog2());
    outer_bits <= inner_bits && inner >> (inner_bits - outer_bits) == outer
}

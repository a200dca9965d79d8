//! A query half that receives messages only [Concise §5.3].
//!
//! Whole parts are sent when they are built, and changes one line at a time. Both ends must hash
//! names with the same key.

use std::collections::BTreeMap;
use std::sync::Arc;

use byname_wire::NameHashKey;

use super::Options;
use super::changes::{self, Changes};
use super::query::{Level, Part, Query};
use super::shape::{ENTRY_BITS_MAX, LEVELS, PART_BITS_MAX, Shape};
use super::table::Maker;
use crate::flat::FlatFib;
use crate::flat::message::{Block, Flip, Follower, Receiver, Refusal};
use crate::memory::{Lines, Pages};
use crate::sync::Ordering;
use crate::update::Update;

/// Header of a whole table: the number of bits of an entry.
pub(super) fn table_header(shape: Shape) -> Vec<u8> {
    vec![shape.entry_bits as u8]
}

/// A part as it is sent: the cells of each level, and the words of its lines.
pub(super) fn part_block(number: u32, shape: Shape, part: &Part) -> Block {
    let header = part.levels.iter().flat_map(|level| level.cells.to_le_bytes());
    let words = part.lines[part.lines_used(shape)].iter().flat_map(changes::words);
    Block { number, header: header.collect(), words: words.collect() }
}

/// A remote query half of a [`LineRetrieval`](super::LineRetrieval). It has one writer.
pub struct Replica {
    receiver: Receiver,
    table: Followed,
}

impl Replica {
    /// A query half for messages sealed with `key`, and for tables whose messages have at most
    /// `bytes_max` bytes in total. It is stale at first.
    pub fn new(key: NameHashKey, bytes_max: usize, pages: Pages) -> Self {
        let table =
            Followed { pages, maker: None, changes: Arc::new(Changes::new()), parts: BTreeMap::new(), query: None };
        Replica { receiver: Receiver::new(key, bytes_max), table }
    }

    /// Whether the table may differ from the control half's. The whole table must then be sent.
    pub fn is_stale(&self) -> bool {
        self.receiver.is_stale()
    }

    /// The query half for a new reader. `None` before a first table has arrived. A stale replica
    /// answers from an earlier state.
    pub fn query(&self) -> Option<Arc<dyn FlatFib>> {
        self.table.query.clone().map(|query| query as Arc<dyn FlatFib>)
    }

    /// Takes a message. `None` if nothing changed for readers.
    ///
    /// As after `Control::apply`, readers must have a replacement before the next call.
    ///
    /// # Errors
    /// If the message cannot be used. [`Replica::is_stale`] then tells whether the table still can.
    pub fn receive(&mut self, message: &[u8]) -> Result<Option<Update<dyn FlatFib>>, Refusal> {
        self.receiver.deliver(message, &mut self.table)
    }
}

/// The replica's copy of the table.
struct Followed {
    pages: Pages,
    /// For entries of the width that the last whole table has.
    maker: Option<Maker>,
    changes: Arc<Changes>,
    /// By number.
    parts: BTreeMap<u32, Part>,
    query: Option<Arc<Query>>,
}

impl Follower for Followed {
    fn change(&mut self, changes: &[Vec<Flip>]) -> Result<Update<dyn FlatFib>, Refusal> {
        let shape = self.maker.as_ref().ok_or(Refusal::Corrupt)?.shape;
        let lines = changes.iter().map(|change| self.line_of(shape, change));
        let lines = lines.collect::<Option<Vec<_>>>().ok_or(Refusal::Corrupt)?;
        for (change, (part, line)) in changes.iter().zip(lines) {
            let mut words = changes::words(&part.lines[line]);
            change.iter().for_each(|flip| words[flip.word as usize % 8] ^= flip.flip);
            self.changes.write(&part.lines[line], &words);
        }
        Ok(Update::Patched)
    }

    fn replace(&mut self, is_whole: bool, header: &[u8], blocks: &[Block]) -> Result<Update<dyn FlatFib>, Refusal> {
        let &[bits] = header else { return Err(Refusal::Corrupt) };
        if is_whole {
            let sane = (1..=ENTRY_BITS_MAX).contains(&bits.into());
            let options = sane.then(|| Options { entry_bits: bits.into(), pages: self.pages, ..Options::default() });
            (self.maker, self.parts) = (Some(Maker::new(&options.ok_or(Refusal::Corrupt)?)), BTreeMap::new());
        }
        let maker =
            self.maker.as_ref().filter(|maker| maker.shape.entry_bits == bits.into()).ok_or(Refusal::Corrupt)?;
        let pages = if is_whole { self.pages } else { Pages::Small };
        for (number, part) in read(maker.shape, pages, blocks)? {
            self.parts.retain(|&other, _| !covers(other, number) && !covers(number, other));
            self.parts.insert(number, part);
        }
        // In the order of the bits that their names share.
        let mut parts: Vec<_> = self.parts.iter().map(|(&number, part)| (number.ilog2(), number, part)).collect();
        parts.sort_by_key(|&(bits, number, _)| u64::from(number ^ 1 << bits) << (PART_BITS_MAX - bits));
        let covered: u64 = parts.iter().map(|&(bits, ..)| 1 << (PART_BITS_MAX - bits)).sum();
        if covered != 1 << PART_BITS_MAX {
            return Err(Refusal::Corrupt);
        }
        let query = Arc::new(maker.query(&self.changes, parts.iter().map(|&(bits, _, part)| (bits, part))));
        self.query = Some(query.clone());
        Ok(Update::Replace(query))
    }
}

impl Followed {
    /// The line of a change, all of whose flips are in one line. `None` if there is no such line.
    fn line_of(&self, shape: Shape, change: &[Flip]) -> Option<(&Part, usize)> {
        let first = change.first()?;
        let part = self.parts.get(&first.block)?;
        let (line, lines) = (first.word as usize / 8, part.lines_used(shape));
        let is_of_line = |flip: &Flip| flip.block == first.block && flip.word as usize / 8 == line;
        (line < lines.len() && change.iter().all(is_of_line)).then(|| (part, lines.start + line))
    }
}

/// Builds parts from blocks, on lines that they share.
fn read(shape: Shape, pages: Pages, blocks: &[Block]) -> Result<Vec<(u32, Part)>, Refusal> {
    let cells = blocks.iter().map(|block| read_cells(shape, block));
    let cells = cells.collect::<Option<Vec<_>>>().ok_or(Refusal::Corrupt)?;
    let words: usize = blocks.iter().map(|block| block.words.len()).sum();
    let too_large = Refusal::TooLarge { bytes: words as u64 * 8 };
    // Cell numbers have 32 bits.
    if words / 8 * shape.cells_per_line() > u32::MAX as usize {
        return Err(too_large);
    }
    let lines = Arc::new(Lines::zeroed(words / 8, pages).map_err(|_| too_large)?);
    for (line, words) in lines.iter().zip(blocks.iter().flat_map(|block| block.words.as_chunks::<8>().0)) {
        // No reader uses it yet.
        line.0.iter().zip(words).for_each(|(word, new)| word.store(*new, Ordering::Relaxed));
    }
    let mut next = 0;
    let parts = blocks.iter().zip(cells).map(|(block, cells)| {
        let levels = cells.map(|cells| {
            next += cells;
            Level { first: next - cells, cells }
        });
        (block.number, Part { lines: lines.clone(), levels })
    });
    Ok(parts.collect())
}

/// The cells of each level. `None` if the block's words do not match.
fn read_cells(shape: Shape, block: &Block) -> Option<[u32; LEVELS]> {
    let (cells, []) = block.header.as_chunks::<4>() else { return None };
    let cells: [u32; LEVELS] = cells.iter().copied().map(u32::from_le_bytes).collect::<Vec<_>>().try_into().ok()?;
    let per_line = shape.cells_per_line();
    let is_whole_lines = cells.iter().all(|&cells| cells > 0 && (cells as usize).is_multiple_of(per_line));
    let all: u64 = cells.iter().copied().map(u64::from).sum();
    let fits = is_whole_lines && all / per_line as u64 * 8 == block.words.len() as u64;
    (fits && (1..2 << PART_BITS_MAX).contains(&block.number)).then_some(cells)
}

/// Whether part `outer` holds all names that part `inner` can hold.
fn covers(outer: u32, inner: u32) -> bool {
    let (outer_bits, inner_bits) = (outer.ilog2(), inner.ilog2());
    outer_bits <= inner_bits && inner >> (inner_bits - outer_bits) == outer
}

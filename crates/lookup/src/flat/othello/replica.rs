//! A query half that receives only messages.

use std::sync::Arc;

use byname_wire::NameHashKey;

use super::changes::DEPTH_MAX;
use super::graph::EDGES_MAX;
use super::journal::WORDS_MAX;
use super::place::{BITS_MAX, Shape, Width};
use super::query::Part;
use super::table::{Blocks, Table};
use crate::flat::FlatFib;
use crate::flat::message::{Block, Flip, Follower, Receiver, Refusal};
use crate::instructions::Instructions;
use crate::memory::Pages;
use crate::sync::Ordering;
use crate::update::Update;

const BLOCK_HEADER_BYTES: usize = 12;

/// A remote query half of an [`Othello`](super::Othello).
pub struct Replica {
    receiver: Receiver,
    table: Followed,
}

/// The replica's copy of the table.
struct Followed {
    pages: Pages,
    table: Option<Table>,
}

impl Table {
    /// Header of a whole table: the width, and the directory.
    pub(super) fn header(&self, directory: &[u32]) -> Vec<u8> {
        let parts = directory.iter().flat_map(|part| part.to_le_bytes());
        std::iter::once(self.width().bits() as u8).chain(parts).collect()
    }

    /// A part as it is sent.
    pub(super) fn block(&self, number: u32) -> Block {
        let part = self.part(number);
        let header = [&part.shape.seed.to_le_bytes()[..], &part.shape.lines.to_le_bytes()].concat();
        let words = (0..part.words()).map(|word| part.word(word).load(Ordering::Relaxed)).collect();
        Block { number, header, words }
    }
}

/// Reads the width and the directory.
fn read_header(header: &[u8]) -> Option<(Width, Vec<u32>)> {
    let (&bits, parts) = header.split_first()?;
    let (parts, rest) = parts.as_chunks();
    let sane = (1..=BITS_MAX).contains(&bits.into()) && rest.is_empty();
    let directory: Vec<_> = parts.iter().copied().map(u32::from_le_bytes).collect();
    let sane = sane && directory.len().is_power_of_two() && directory.len() <= 1 << DEPTH_MAX;
    sane.then(|| (Width::new(bits.into()), directory))
}

/// The shape of a part. `None` if the block's words do not match it.
fn read_shape(block: &Block) -> Option<Shape> {
    let header: &[u8; BLOCK_HEADER_BYTES] = block.header.as_slice().try_into().ok()?;
    let (seed, lines) = header.split_first_chunk()?;
    let shape = Shape { seed: u64::from_le_bytes(*seed), lines: u32::from_le_bytes(lines.try_into().ok()?) };
    let words = u64::from(shape.lines) * 16;
    (shape.lines > 0 && block.words.len() as u64 == words && words <= LINES_MAX * 16).then_some(shape)
}

/// Maximum number of lines on a side: one for each edge, with some room.
const LINES_MAX: u64 = 2 * EDGES_MAX as u64;

impl Replica {
    /// A query half for messages sealed with `key`, and for tables whose messages have at most `bytes_max` bytes in
    /// total. It is stale at first.
    pub fn new(key: NameHashKey, bytes_max: usize, pages: Pages) -> Self {
        Replica { receiver: Receiver::new(key, bytes_max), table: Followed { pages, table: None } }
    }

    /// Whether the table may differ from the control half's. The whole table must then be sent.
    pub fn is_stale(&self) -> bool {
        self.receiver.is_stale()
    }

    /// The query half for a new reader. `None` before a first table has arrived. A stale replica answers from an
    /// earlier state.
    pub fn query(&self) -> Option<Arc<dyn FlatFib>> {
        let table = self.table.table.as_ref()?;
        Some(table.query().clone())
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

impl Follower for Followed {
    fn change(&mut self, changes: &[Vec<Flip>]) -> Result<Update<dyn FlatFib>, Refusal> {
        let table = self.table.as_mut().ok_or(Refusal::Corrupt)?;
        if !changes.iter().all(|change| is_sane(table, change)) {
            return Err(Refusal::Corrupt);
        }
        for change in changes {
            table.flip_words(change[0].block, change.iter().map(|flip| (flip.word, flip.flip)));
        }
        Ok(Update::Patched)
    }

    fn replace(&mut self, is_whole: bool, header: &[u8], blocks: &[Block]) -> Result<Update<dyn FlatFib>, Refusal> {
        let (width, directory) = read_header(header).ok_or(Refusal::Corrupt)?;
        let shapes = blocks.iter().map(read_shape).collect::<Option<Vec<_>>>().ok_or(Refusal::Corrupt)?;
        let known = match &self.table {
            _ if is_whole => 0,
            Some(table) if table.width() == width => table.parts(),
            _ => return Err(Refusal::Corrupt),
        };
        // Known parts may come in any order. New parts must follow without gaps in their numbers.
        let new = blocks.iter().map(|block| block.number as usize).filter(|&number| number >= known);
        let parts = known + new.clone().count();
        if !new.eq(known..parts) || directory.iter().any(|&part| part as usize >= parts) {
            return Err(Refusal::Corrupt);
        }
        let lines = shapes.iter().map(|shape| 2 * shape.lines as usize).sum();
        let pages = if is_whole { self.pages } else { Pages::Small };
        let too_large = |_| Refusal::TooLarge { bytes: lines as u64 * 64 };
        let mut memory = Blocks::new(pages, lines).map_err(too_large)?;
        let made = blocks.iter().zip(shapes).map(|(block, shape)| {
            let part = memory.room(shape)?;
            for (at, &word) in (0..).zip(&block.words) {
                part.word(at).store(word, Ordering::Relaxed);
            }
            Ok(part)
        });
        let made = made.collect::<Result<Vec<Part>, std::io::Error>>().map_err(too_large)?;
        let table = match &mut self.table {
            Some(table) if !is_whole => {
                for (block, part) in blocks.iter().zip(made) {
                    table.set_part(block.number, part);
                }
                table.publish(&directory);
                table
            }
            table => table.insert(Table::new(width, Instructions::detect(), made, &directory)),
        };
        Ok(Update::Replace(table.query().clone()))
    }
}

/// Whether [`Table::flip_words`] can apply a change.
fn is_sane(table: &Table, change: &[Flip]) -> bool {
    let Some(first) = change.first() else { return false };
    (first.block as usize) < table.parts()
        && change.len() <= WORDS_MAX
        && change.iter().all(|flip| flip.block == first.block && flip.word < table.part(first.block).words())
        && change.is_sorted_by(|before, after| before.word < after.word)
}

//! The writer's side of one switch's table: the values, in memory that readers share.

use std::io;
use std::sync::Arc;

use super::graph::{Builder, Graph};
use super::journal::Journal;
use super::place::{Place, Shape, Width};
use super::processor::Processor;
use super::query::{Part, Query};
use crate::flat::message::{Block, Record};
use crate::instructions::Instructions;
use crate::memory::{Lines, Pages};
use crate::sync::Ordering;

/// Number of cache lines shared by parts that are built together: 8 MiB, so that they can lie on large pages.
const BLOCK_LINES: usize = 1 << 17;

/// The values of one switch.
pub(super) struct Table {
    width: Width,
    instructions: Instructions,
    journal: Arc<Journal>,
    /// Indexed by number.
    parts: Vec<Part>,
    query: Arc<Query>,
    /// Whether `parts` have changed since the query half was made.
    is_stale: bool,
    /// The words of one change.
    words: Vec<(u32, u64)>,
    /// Changes to send to remote query halves.
    record: Option<Record>,
}

impl Table {
    /// Makes a table of these parts. The directory contains all their numbers.
    pub(super) fn new(width: Width, instructions: Instructions, parts: Vec<Part>, directory: &[u32]) -> Self {
        let journal = Arc::new(Journal::new());
        let query = Arc::new(query(&journal, width, instructions, &parts, directory));
        Table { width, instructions, journal, parts, query, is_stale: false, words: Vec::new(), record: None }
    }

    pub(super) fn query(&self) -> &Arc<Query> {
        &self.query
    }

    pub(super) fn width(&self) -> Width {
        self.width
    }

    /// Number of parts.
    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    pub(super) fn part(&self, number: u32) -> &Part {
        &self.parts[number as usize]
    }

    /// All parts as they are sent.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        (0..self.parts.len() as u32).map(|part| self.block(part))
    }

    /// Number of values.
    pub(super) fn values(&self) -> usize {
        self.parts.iter().map(|part| 2 * part.shape.side(self.width) as usize).sum()
    }

    /// Starts to record changes.
    pub(super) fn set_record(&mut self, record: Record) {
        self.record = Some(record);
    }

    /// Takes the recorded changes and continues with an empty record. `None` if nothing is recorded.
    pub(super) fn take_record(&mut self) -> Option<Record> {
        let anew = self.record.as_ref()?.emptied();
        self.record.replace(anew)
    }

    /// Prefetches the values of a name.
    pub(super) fn prefetch(&self, part: u32, vertices: [u32; 2]) {
        let part = &self.parts[part as usize];
        for vertex in vertices {
            crate::prefetch::read(part.line(Place::of_vertex(vertex, self.width).line));
        }
    }

    /// The entry of a name with these vertices.
    pub(super) fn entry(&self, part: u32, vertices: [u32; 2]) -> u32 {
        let part = &self.parts[part as usize];
        let [a, b] = vertices.map(|vertex| {
            let place = Place::of_vertex(vertex, self.width);
            let line = part.line(place.line);
            self.width.value::<true>(place.bit(self.width), |word| line.0[word].load(Ordering::Relaxed))
        });
        a ^ b
    }

    /// The entries of all names of a part, by number.
    pub(super) fn entries(&self, part: u32, graph: &Graph) -> Vec<u32> {
        graph.names().map(|name| self.entry(part, graph.ends(name))).collect()
    }

    /// Changes the values of these vertices by `delta`, as one change.
    pub(super) fn flip(&mut self, part: u32, vertices: &[(u32, u16)], delta: u32) {
        if delta == 0 {
            return;
        }
        self.words.clear();
        let flips = vertices.iter().flat_map(|&(vertex, _)| self.width.flips(vertex, delta));
        self.words.extend(flips.filter(|&(_, flip)| flip != 0));
        self.words.sort_unstable_by_key(|&(word, _)| word);
        // Flips of the same word are combined into one.
        self.words.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 ^= next.1;
            }
            same
        });
        if let Some(record) = &mut self.record {
            record.flipped(part, vertices.len(), self.words.iter().copied());
        }
        self.flip_words(part, self.words.iter().copied());
    }

    /// Flips bits of distinct words as one change.
    pub(super) fn flip_words(&self, part: u32, words: impl ExactSizeIterator<Item = (u32, u64)> + Clone) {
        let part = &self.parts[part as usize];
        self.journal.change(words.map(|(word, flip)| {
            let word = part.word(word);
            (word, word.load(Ordering::Relaxed) ^ flip)
        }));
    }

    /// Replaces a part and returns the old one, or adds a part at the end.
    pub(super) fn set_part(&mut self, number: u32, part: Part) -> Option<Part> {
        if let Some(record) = &mut self.record {
            record.made_anew(number);
        }
        self.is_stale = true;
        match self.parts.get_mut(number as usize) {
            Some(place) => Some(std::mem::replace(place, part)),
            None => {
                self.parts.push(part);
                None
            }
        }
    }

    /// Removes all parts behind the first `parts`.
    pub(super) fn truncate(&mut self, parts: usize) {
        self.parts.truncate(parts);
    }

    /// Notes that `parts` are again as in the query half.
    pub(super) fn is_as_before(&mut self) {
        self.is_stale = false;
    }

    /// Makes a query half if readers need a new one. Returns whether they do.
    pub(super) fn publish(&mut self, directory: &[u32]) -> bool {
        if self.is_stale {
            self.query = Arc::new(query(&self.journal, self.width, self.instructions, &self.parts, directory));
        }
        std::mem::take(&mut self.is_stale)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.parts.capacity() * size_of::<Part>() + self.words.capacity() * size_of::<(u32, u64)>()
    }
}

fn query(journal: &Arc<Journal>, width: Width, instructions: Instructions, parts: &[Part], directory: &[u32]) -> Query {
    let parts: Box<[_]> = directory.iter().map(|&part| parts[part as usize].clone()).collect();
    let processor = Processor::with(instructions, width, &parts);
    Query { journal: journal.clone(), width, parts, processor }
}

/// Memory for parts that are built one after another.
pub(super) struct Blocks {
    pages: Pages,
    block: Arc<Lines>,
    used: usize,
    /// Estimated number of lines still needed.
    expected: usize,
}

impl Blocks {
    /// Memory for parts with `expected` lines in total.
    pub(super) fn new(pages: Pages, expected: usize) -> io::Result<Self> {
        Ok(Blocks { pages, block: Arc::new(Lines::zeroed(0, Pages::Small)?), used: 0, expected })
    }

    /// A part with room for its values, which are zero.
    pub(super) fn room(&mut self, shape: Shape) -> io::Result<Part> {
        let needed = 2 * shape.lines as usize;
        if self.block.len() - self.used < needed {
            self.block = Arc::new(Lines::zeroed(self.expected.min(BLOCK_LINES).max(needed), self.pages)?);
            self.block.prefault();
            self.used = 0;
        }
        let part = Part { shape, first: self.used as u32, lines: self.block.clone() };
        self.used += needed;
        self.expected = self.expected.saturating_sub(needed);
        Ok(part)
    }

    /// Makes a part with the values of the graph that was built or resumed last.
    pub(super) fn part(
        &mut self,
        builder: &mut Builder,
        graph: &Graph,
        entries: &[u32],
        width: Width,
    ) -> io::Result<Part> {
        let part = self.room(graph.shape())?;
        let values = builder.values(graph, entries);
        for (line, values) in (0..).zip(values.chunks(width.per_line() as usize)) {
            let mut words = [0; 9];
            for (slot, &value) in (0..).zip(values) {
                for (word, flip) in width.flips(slot, value) {
                    words[word as usize] |= flip;
                }
            }
            for (word, value) in part.line(line).0.iter().zip(words) {
                word.store(value, Ordering::Relaxed);
            }
        }
        Ok(part)
    }
}

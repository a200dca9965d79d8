//! Changes of descriptors, alone and beside a reader.
//!
//! One third of the changes add descriptors, one third remove them again, and one third replace the entries of
//! descriptors that stay. Among the descriptors that stay, a packet always finds the same ones, each with one of two
//! entries. The reader learns these before the first change and compares every answer with them.

use byname_lookup::{Change, EntryId, TagsetFib};
use byname_wire::Descriptor;

use super::options::Options;
use super::packets::Packets;
use super::population::{Population, is_fresh};
use super::reader::Reader;
use crate::timing::Checked;
use crate::workload::Random;
use crate::writer::{self, Changes};

/// Prepares changes for a table that holds the population.
pub fn prepare(population: &Population, batch: usize, seed: u64) -> Changes<Descriptor> {
    let mut random = Random::new(!seed);
    let (mut forth, mut back) = (Vec::new(), Vec::new());
    for (i, (fresh, entry)) in population.fresh().enumerate() {
        forth.push(Change::Set(fresh.clone(), entry));
        back.push(Change::Remove(fresh));
        // Replacements are a third of all changes; half of them are on the way back.
        if i % 2 == 0 {
            let (descriptor, entry) = population.any(&mut random);
            forth.push(Change::Set(descriptor.clone(), other(entry)));
            back.push(Change::Set(descriptor, entry));
        }
    }
    Changes::there_and_back(&forth, &back, batch)
}

/// The entry that replaces `entry`.
fn other(entry: EntryId) -> EntryId {
    EntryId(entry.0 ^ 1)
}

/// An answer in a form that changes do not affect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answer {
    /// Number of matching descriptors that stay, and the sum of their entries.
    stable: (u32, u64),
    /// Whether the largest subset comes and goes, which hides those that stay.
    is_hidden: bool,
    /// Whether the search was cut off: it may then find something else each time.
    is_cut_off: bool,
}

impl Answer {
    /// Adds one of all subsets.
    #[inline]
    pub fn add(&mut self, entry: EntryId) {
        if !is_fresh(entry) {
            self.stable.0 += 1;
            self.stable.1 += u64::from(entry.0.min(other(entry).0));
        }
    }

    /// The answer of a search for the largest subset.
    #[inline]
    pub fn of_largest(entry: Option<EntryId>) -> Self {
        let mut answer = Answer { is_hidden: entry.is_some_and(is_fresh), ..Answer::default() };
        entry.into_iter().for_each(|entry| answer.add(entry));
        answer
    }

    /// The same answer, marked as cut off or complete.
    #[inline]
    pub fn cut_off(self, is_cut_off: bool) -> Self {
        Answer { is_cut_off, ..self }
    }

    /// Whether the answer can be compared with others.
    fn is_comparable(&self) -> bool {
        !self.is_hidden && !self.is_cut_off
    }
}

/// A reader that checks its answers.
pub struct CheckedReader<'a> {
    reader: Reader<'a>,
    /// Answers before the first change; `None` if not learned or not comparable.
    expected: Vec<Option<Answer>>,
    /// Number of answers compared so far.
    pub checked: Checked,
}

impl<'a> CheckedReader<'a> {
    /// Reads all packets with the query in the options.
    pub fn new(packets: &'a Packets, options: &Options) -> Self {
        let reader = Reader::new(packets, &options.asking, options.burst, 0);
        CheckedReader { reader, expected: vec![None; packets.len()], checked: Checked::default() }
    }

    /// Queries a burst and learns its answers as the right ones. Returns the number of packets.
    pub fn learn(&mut self, fib: &dyn TagsetFib) -> usize {
        let range = self.reader.look_up(fib);
        for (expected, answer) in self.expected[range.clone()].iter_mut().zip(self.reader.answers()) {
            *expected = Some(*answer).filter(Answer::is_comparable);
        }
        range.len()
    }
}

impl writer::Reader<dyn TagsetFib> for CheckedReader<'_> {
    #[inline]
    fn look_up(&mut self, fib: &dyn TagsetFib) -> usize {
        let range = self.reader.look_up(fib);
        let packets = range.len();
        for (expected, answer) in self.expected[range].iter().zip(self.reader.answers()) {
            if let Some(expected) = expected
                && answer.is_comparable()
            {
                self.checked.checked += 1;
                self.checked.wrong += u64::from(expected != answer);
            }
        }
        packets
    }

    /// Starts again at the first packet, so that the packets whose answers were learned come first.
    fn rewind(&mut self) {
        self.reader.rewind();
    }
}

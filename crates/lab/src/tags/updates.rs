//! Changes of descriptors, alone and beside a reader.
//!
//! A third of the changes add descriptors, a third remove them again, and a third replace the entries
//! of descriptors that stay. What a packet finds among those that stay is always the same, but for
//! which of two entries each has: the reader learns it before the first change, and compares every
//! answer with it.

use byname_lookup::{Change, EntryId, TagsetFib};
use byname_wire::Descriptor;

use super::options::Options;
use super::packets::Packets;
use super::population::{Population, is_fresh};
use super::reader::Reader;
use crate::timing::Checked;
use crate::workload::Random;
use crate::writer::{self, Changes};

/// Changes for a table that holds the population.
pub fn prepare(population: &Population, batch: usize, seed: u64) -> Changes<Descriptor> {
    let mut random = Random::new(!seed);
    let (mut forth, mut back) = (Vec::new(), Vec::new());
    for (i, (fresh, entry)) in population.fresh().enumerate() {
        forth.push(Change::Set(fresh.clone(), entry));
        back.push(Change::Remove(fresh));
        // As many replacements as additions and removals, half of them on the way back.
        if i % 2 == 0 {
            let (descriptor, entry) = population.any(&mut random);
            forth.push(Change::Set(descriptor.clone(), other(entry)));
            back.push(Change::Set(descriptor, entry));
        }
    }
    Changes::there_and_back(&forth, &back, batch)
}

/// The entry that a descriptor is given in exchange.
fn other(entry: EntryId) -> EntryId {
    EntryId(entry.0 ^ 1)
}

/// What a packet found: alike whatever was changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answer {
    /// How many descriptors that stay, and the sum of their entries.
    stable: (u32, u64),
    /// Of the largest subset: it is one that comes and goes.
    is_hidden: bool,
    /// The search was cut off: it may find something else whenever it is asked.
    is_cut_off: bool,
}

impl Answer {
    /// One more of all subsets.
    #[inline]
    pub fn add(&mut self, entry: EntryId) {
        if !is_fresh(entry) {
            self.stable.0 += 1;
            self.stable.1 += u64::from(entry.0.min(other(entry).0));
        }
    }

    /// Of the largest subset.
    #[inline]
    pub fn of_largest(entry: Option<EntryId>) -> Self {
        let mut answer = Answer { is_hidden: entry.is_some_and(is_fresh), ..Answer::default() };
        entry.into_iter().for_each(|entry| answer.add(entry));
        answer
    }

    /// The same of a search that was cut off, or not.
    #[inline]
    pub fn cut_off(self, is_cut_off: bool) -> Self {
        Answer { is_cut_off, ..self }
    }

    /// Whether it says what is among the descriptors that stay.
    fn is_comparable(&self) -> bool {
        !self.is_hidden && !self.is_cut_off
    }
}

/// A reader that checks its answers.
pub struct CheckedReader<'a> {
    reader: Reader<'a>,
    /// What was found before the first change, as far as it came.
    expected: Vec<Option<Answer>>,
    /// Answers compared so far.
    pub checked: Checked,
}

impl<'a> CheckedReader<'a> {
    /// Of all packets, asked as the options say.
    pub fn new(packets: &'a Packets, options: &Options) -> Self {
        let reader = Reader::new(packets, &options.asking, options.burst, 0);
        CheckedReader { reader, expected: vec![None; packets.len()], checked: Checked::default() }
    }

    /// Begins again at the first packet: what was learned is compared first.
    pub fn rewind(&mut self) {
        self.reader.rewind();
    }

    /// Asks for a burst of packets, and takes what is found for right. Returns how many it had.
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
}

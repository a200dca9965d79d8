//! What a table's query half elsewhere is told: changes by their words, parts that were made anew
//! whole [Concise §5.3].

use std::collections::BTreeSet;

use super::network::Network;
use crate::flat::message::{Flip, Sender};

/// What has changed in a table since it was last told.
#[derive(Default)]
pub(super) struct Record {
    /// Of one change after the other.
    flips: Vec<Flip>,
    /// For each change, where its flips end, and how many values it flips.
    changes: Vec<(usize, usize)>,
    /// Numbers of the parts that were made anew.
    anew: BTreeSet<u32>,
    /// Flips of more words than this take more than the whole table.
    flips_max: usize,
    is_too_long: bool,
}

impl Record {
    pub(super) fn new(flips_max: usize) -> Self {
        Record { flips_max, ..Record::default() }
    }

    /// One that begins where this one ends.
    pub(super) fn emptied(&self) -> Self {
        Record::new(self.flips_max)
    }

    pub(super) fn flipped(&mut self, part: u32, values: usize, words: &[(u32, u64)]) {
        self.is_too_long |= self.flips.len() + words.len() > self.flips_max;
        if !self.is_too_long {
            self.flips.extend(words.iter().map(|&(word, flip)| Flip { block: part, word, flip }));
            self.changes.push((self.flips.len(), values));
        }
    }

    pub(super) fn made_anew(&mut self, part: u32) {
        self.anew.insert(part);
    }

    fn changes(&self) -> impl Iterator<Item = (&[Flip], usize)> + Clone {
        let starts = std::iter::once(0).chain(self.changes.iter().map(|&(end, _)| end));
        starts.zip(&self.changes).map(|(start, &(end, values))| (&self.flips[start..end], values))
    }
}

/// What was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sent {
    /// Changes told by their words.
    pub changes: usize,
    /// Octets of the messages with those.
    pub change_octets: usize,
    /// What these changes tell at least, in bits [Concise, Table 2]: which of the table's values are
    /// flipped, and by what.
    pub entropy_bits: f64,
    /// Octets of the messages with parts that were made anew, or with the whole table.
    pub block_octets: usize,
    /// The whole table was sent.
    pub is_whole: bool,
}

impl Network {
    /// Tells a query half elsewhere what has changed in a table since the last call. The first call
    /// sends the whole table, and so does one that comes after more changes than that has words.
    ///
    /// # Panics
    /// If there is no such table.
    pub fn feed(&mut self, table: usize, sender: &mut Sender, mut send: impl FnMut(&[u8])) -> Sent {
        let Some(mut record) = self.tables[table].take_record().filter(|record| !record.is_too_long) else {
            return self.feed_whole(table, sender, send);
        };
        let mut sent = Sent::default();
        let (table, directory) = (&self.tables[table], &self.directory);
        let too_long = record.changes().map(|(flips, _)| flips).filter(|flips| !sender.fits(flips));
        let too_long: Vec<_> = too_long.filter_map(|flips| flips.first()).map(|flip| flip.block).collect();
        record.anew.extend(too_long);
        // Parts that are sent whole show these changes already.
        let told = record.changes().filter(|(flips, _)| flips.iter().all(|flip| !record.anew.contains(&flip.block)));
        for (_, values) in told.clone() {
            sent.changes += 1;
            sent.entropy_bits += entropy_bits(table.values(), values) + f64::from(table.width().bits());
        }
        sender.changes(told.map(|(flips, _)| flips), |message| {
            sent.change_octets += message.len();
            send(message);
        });
        if !record.anew.is_empty() {
            let blocks = record.anew.iter().map(|&part| table.block(part));
            sender.blocks(false, &table.header(directory), blocks, |message| {
                sent.block_octets += message.len();
                send(message);
            });
        }
        sent
    }

    /// Sends a whole table to a query half elsewhere.
    ///
    /// # Panics
    /// If there is no such table.
    pub fn feed_whole(&mut self, table: usize, sender: &mut Sender, mut send: impl FnMut(&[u8])) -> Sent {
        let table = &mut self.tables[table];
        // Flips take half of a word's octets and more.
        table.set_record(Record::new(table.values() / 8 + 1000));
        let (header, mut sent) = (table.header(&self.directory), Sent { is_whole: true, ..Sent::default() });
        sender.blocks(true, &header, table.blocks(), |message| {
            sent.block_octets += message.len();
            send(message);
        });
        sent
    }
}

/// Bits that tell which `chosen` of `all` values are meant.
fn entropy_bits(all: usize, chosen: usize) -> f64 {
    (0..chosen).map(|at| ((all - at) as f64 / (at + 1) as f64).log2()).sum()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// [Concise, Table 2] has 65.6 bits for a change and 75.2 for an addition: about three values.
    #[test]
    fn the_entropy_is_that_of_the_paper_for_three_values() {
        let bits = entropy_bits(2 << 19, 3) + 8.0;
        assert!((65.0..66.0).contains(&bits), "{bits}");
        assert_eq!(entropy_bits(1024, 1), 10.0);
    }
}

//! Sends the changes of a table to a remote query half [Concise §5.3].

use super::Othello;
use super::network::Network;
use super::table::Table;
use crate::flat::message::{Block, Feed, Record, Sender, Sent, Source, send_whole};

impl Network {
    /// Sends the changes of a table since the last call to a remote query half. Sends the whole table on the first
    /// call, and after more changes than the table has words.
    ///
    /// # Panics
    /// If the table does not exist.
    pub fn feed(&mut self, table: usize, sender: &mut Sender, send: &mut dyn FnMut(&[u8])) -> Sent {
        match self.tables[table].take_record() {
            Some(record) if !record.is_too_long() => record.send(&self.told(table), sender, send),
            _ => self.feed_whole(table, sender, send),
        }
    }

    /// Sends a whole table to a remote query half.
    ///
    /// # Panics
    /// If the table does not exist.
    pub fn feed_whole(&mut self, table: usize, sender: &mut Sender, send: &mut dyn FnMut(&[u8])) -> Sent {
        let words = self.tables[table].values() * self.width.bits() as usize / 64;
        self.tables[table].set_record(Record::new(words));
        send_whole(&self.told(table), sender, send)
    }

    fn told(&self, table: usize) -> Told<'_> {
        Told { table: &self.tables[table], directory: &self.directory }
    }
}

impl Feed for Othello {
    fn feed(&mut self, sender: &mut Sender, send: &mut dyn FnMut(&[u8])) -> Sent {
        self.network.feed(0, sender, send)
    }

    fn feed_whole(&mut self, sender: &mut Sender, send: &mut dyn FnMut(&[u8])) -> Sent {
        self.network.feed_whole(0, sender, send)
    }
}

/// A table, and the directory that it shares with others.
struct Told<'a> {
    table: &'a Table,
    directory: &'a [u32],
}

impl Source for Told<'_> {
    fn header(&self) -> Vec<u8> {
        self.table.header(self.directory)
    }

    fn block(&self, number: u32) -> Option<Block> {
        // An undone split leaves numbers of parts in the record that no longer exist.
        ((number as usize) < self.table.parts()).then(|| self.table.block(number))
    }

    fn blocks(&self) -> impl Iterator<Item = Block> {
        self.table.blocks()
    }

    /// Entropy of which values are flipped, and by what.
    fn entropy_bits(&self, values: usize) -> f64 {
        entropy_bits(self.table.values(), values) + f64::from(self.table.width().bits())
    }
}

/// Entropy of a choice of `chosen` of `all` values, in bits.
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

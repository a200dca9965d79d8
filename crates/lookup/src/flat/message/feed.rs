//! Feeds remote query halves: changes word by word, and rebuilt blocks as a whole [Concise §5.3].

use std::collections::BTreeSet;

use super::{Block, Flip, Sender};

/// A control half that sends its changes to a remote query half.
pub trait Feed {
    /// Sends what changed since the last call. Sends the whole table on the first call, and after
    /// more changes than the table has words.
    fn feed(&mut self, sender: &mut Sender, send: &mut dyn FnMut(&[u8])) -> Sent;
    /// Sends the whole table.
    fn feed_whole(&mut self, sender: &mut Sender, send: &mut dyn FnMut(&[u8])) -> Sent;
}

/// Statistics of what was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sent {
    /// Number of changes sent word by word.
    pub changes: usize,
    /// Bytes of the messages with those changes.
    pub change_bytes: usize,
    /// A lower bound of the information in these changes, in bits [Concise, Table 2]: what changed
    /// in the table, and to what.
    pub entropy_bits: f64,
    /// Bytes of the messages with rebuilt blocks or with the whole table.
    pub block_bytes: usize,
    /// Whether the whole table was sent.
    pub is_whole: bool,
}

/// A table as it is sent.
pub(crate) trait Source {
    /// The header that a receiver needs for the whole table.
    fn header(&self) -> Vec<u8>;
    /// A block. `None` if there is no block of this number any more.
    fn block(&self, number: u32) -> Option<Block>;
    /// All blocks.
    fn blocks(&self) -> impl Iterator<Item = Block>;
    /// The information in a change of `values` values, in bits.
    fn entropy_bits(&self, values: usize) -> f64;
}

/// The changes of a table since the last feed.
#[derive(Default)]
pub(crate) struct Record {
    /// The flips of one change after the other.
    flips: Vec<Flip>,
    /// For each change, where its flips end, and how many values it flips.
    changes: Vec<(usize, usize)>,
    /// Numbers of the blocks that were rebuilt or removed.
    anew: BTreeSet<u32>,
    /// Maximum number of flips. More would take as much memory as the whole table, and about as
    /// many bytes.
    flips_max: usize,
    is_too_long: bool,
}

impl Record {
    /// A record for a table of `words` words.
    pub(crate) fn new(words: usize) -> Self {
        Record { flips_max: words / 2 + 1000, ..Record::default() }
    }

    /// An empty record for the time after this one.
    pub(crate) fn emptied(&self) -> Self {
        Record { flips_max: self.flips_max, ..Record::default() }
    }

    /// Records a change: the words of a block, ascending, with the bits to flip in each.
    pub(crate) fn flipped(&mut self, block: u32, values: usize, words: impl ExactSizeIterator<Item = (u32, u64)>) {
        self.is_too_long |= self.flips.len() + words.len() > self.flips_max;
        if self.is_too_long {
            // The whole table will be sent, so these records are useless.
            (self.flips, self.changes) = Default::default();
        } else {
            self.flips.extend(words.map(|(word, flip)| Flip { block, word, flip }));
            self.changes.push((self.flips.len(), values));
        }
    }

    pub(crate) fn made_anew(&mut self, block: u32) {
        self.anew.insert(block);
    }

    /// All flips, in their order.
    pub(crate) fn flips(&self) -> &[Flip] {
        &self.flips
    }

    fn changes(&self) -> impl Iterator<Item = (&[Flip], usize)> + Clone {
        let starts = std::iter::once(0).chain(self.changes.iter().map(|&(end, _)| end));
        starts.zip(&self.changes).map(|(start, &(end, values))| (&self.flips[start..end], values))
    }

    /// Whether the whole table must be sent instead.
    pub(crate) fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    /// Sends all of the record, unless it is too long.
    pub(crate) fn send(mut self, source: &impl Source, sender: &mut Sender, send: &mut dyn FnMut(&[u8])) -> Sent {
        let mut sent = Sent::default();
        let too_long = self.changes().map(|(flips, _)| flips).filter(|flips| !sender.fits(flips));
        let too_long: Vec<_> = too_long.filter_map(|flips| flips.first()).map(|flip| flip.block).collect();
        self.anew.extend(too_long);
        // Rebuilt blocks that are sent as a whole already contain their changes.
        let told = self.changes().filter(|(flips, _)| flips.iter().all(|flip| !self.anew.contains(&flip.block)));
        for (_, values) in told.clone() {
            sent.changes += 1;
            sent.entropy_bits += source.entropy_bits(values);
        }
        sender.changes(told.map(|(flips, _)| flips), |message| {
            sent.change_bytes += message.len();
            send(message);
        });
        if !self.anew.is_empty() {
            let blocks = self.anew.iter().filter_map(|&number| source.block(number));
            sender.blocks(false, &source.header(), blocks, |message| {
                sent.block_bytes += message.len();
                send(message);
            });
        }
        sent
    }
}

/// Sends a whole table.
pub(crate) fn send_whole(source: &impl Source, sender: &mut Sender, send: &mut dyn FnMut(&[u8])) -> Sent {
    let mut sent = Sent { is_whole: true, ..Sent::default() };
    sender.blocks(true, &source.header(), source.blocks(), |message| {
        sent.block_bytes += message.len();
        send(message);
    });
    sent
}

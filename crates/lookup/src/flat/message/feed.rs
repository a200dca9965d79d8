//! What query halves elsewhere are told: changes by their words, blocks that were made anew whole
//! [Concise §5.3].

use std::collections::BTreeSet;

use super::{Block, Flip, Sender};

/// A control half that tells a query half elsewhere what it changes.
pub trait Feed {
    /// Tells what has changed since the last call. The first call sends the whole table, and so does
    /// one that comes after more changes than that has words.
    fn feed(&mut self, sender: &mut Sender, send: &mut dyn FnMut(&[u8])) -> Sent;
    /// Sends the whole table.
    fn feed_whole(&mut self, sender: &mut Sender, send: &mut dyn FnMut(&[u8])) -> Sent;
}

/// What was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sent {
    /// Changes told by their words.
    pub changes: usize,
    /// Octets of the messages with those.
    pub change_octets: usize,
    /// What these changes tell at least, in bits [Concise, Table 2]: what of the table is other than
    /// before, and what it is now.
    pub entropy_bits: f64,
    /// Octets of the messages with blocks that were made anew, or with the whole table.
    pub block_octets: usize,
    /// The whole table was sent.
    pub is_whole: bool,
}

/// A table as it travels.
pub(crate) trait Source {
    /// What a receiver must know of the whole table.
    fn header(&self) -> Vec<u8>;
    /// A block; `None`: there is none of this number any more.
    fn block(&self, number: u32) -> Option<Block>;
    /// All blocks.
    fn blocks(&self) -> impl Iterator<Item = Block>;
    /// Bits that a change of so many values tells.
    fn entropy_bits(&self, values: usize) -> f64;
}

/// What has changed in a table since it was last told.
#[derive(Default)]
pub(crate) struct Record {
    /// Of one change after the other.
    flips: Vec<Flip>,
    /// For each change, where its flips end, and how many values it flips.
    changes: Vec<(usize, usize)>,
    /// Numbers of the blocks that were made anew, or are there no more.
    anew: BTreeSet<u32>,
    /// More flips are not worth it: these take as much memory as the whole table, and about as many
    /// octets.
    flips_max: usize,
    is_too_long: bool,
}

impl Record {
    /// Of a table of so many words.
    pub(crate) fn new(words: usize) -> Self {
        Record { flips_max: words / 2 + 1000, ..Record::default() }
    }

    /// One that begins where this one ends.
    pub(crate) fn emptied(&self) -> Self {
        Record { flips_max: self.flips_max, ..Record::default() }
    }

    /// A change: the words of a block, ascending, with the bits to flip in them.
    pub(crate) fn flipped(&mut self, block: u32, values: usize, words: impl ExactSizeIterator<Item = (u32, u64)>) {
        self.is_too_long |= self.flips.len() + words.len() > self.flips_max;
        if self.is_too_long {
            // Whoever asks is sent the whole table: this is of no use any more.
            (self.flips, self.changes) = Default::default();
        } else {
            self.flips.extend(words.map(|(word, flip)| Flip { block, word, flip }));
            self.changes.push((self.flips.len(), values));
        }
    }

    pub(crate) fn made_anew(&mut self, block: u32) {
        self.anew.insert(block);
    }

    fn changes(&self) -> impl Iterator<Item = (&[Flip], usize)> + Clone {
        let starts = std::iter::once(0).chain(self.changes.iter().map(|&(end, _)| end));
        starts.zip(&self.changes).map(|(start, &(end, values))| (&self.flips[start..end], values))
    }

    /// Whether the whole table is to be sent in its place.
    pub(crate) fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    /// Tells all of it, if that is not too long.
    pub(crate) fn send(mut self, source: &impl Source, sender: &mut Sender, send: &mut dyn FnMut(&[u8])) -> Sent {
        let mut sent = Sent::default();
        let too_long = self.changes().map(|(flips, _)| flips).filter(|flips| !sender.fits(flips));
        let too_long: Vec<_> = too_long.filter_map(|flips| flips.first()).map(|flip| flip.block).collect();
        self.anew.extend(too_long);
        // Blocks that are sent whole show these changes already.
        let told = self.changes().filter(|(flips, _)| flips.iter().all(|flip| !self.anew.contains(&flip.block)));
        for (_, values) in told.clone() {
            sent.changes += 1;
            sent.entropy_bits += source.entropy_bits(values);
        }
        sender.changes(told.map(|(flips, _)| flips), |message| {
            sent.change_octets += message.len();
            send(message);
        });
        if !self.anew.is_empty() {
            let blocks = self.anew.iter().filter_map(|&number| source.block(number));
            sender.blocks(false, &source.header(), blocks, |message| {
                sent.block_octets += message.len();
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
        sent.block_octets += message.len();
        send(message);
    });
    sent
}

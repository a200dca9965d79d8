//! Update messages from a control half to query halves elsewhere [Concise §5.3].
//!
//! A table is *blocks* of 64-bit words, each with a header of its own, under a header for all; what
//! they mean is the engine's. Two things travel: *changes*, lists of words with the bits to flip in
//! them, each list to become visible at once; and *blocks*, all of a table's or those that were made
//! anew, in as many messages as it takes.
//!
//! ```text
//! message   version (1)  kind (1)  sequence (varint)  body  seal (8)
//! changes   { words (varint)  { word, block  mask (1)  octets of the flip that are not zero } } ...
//! begin     is whole (1)  octets in all (varint)  octets
//! more      octets
//! ```
//!
//! Messages are numbered without gaps and sealed with a key that both sides share: 64 bits of the
//! keyed digest of all before the seal. A receiver takes them in order only. One that misses any
//! knows no more what its table should be; it says so and waits for the whole table. One that has
//! heard nothing cannot know what it missed, so senders send something from time to time, if only an
//! empty list of changes ([`Sender::beat`]).
//!
//! Each incarnation of a sender needs a key of its own: under one key no number is used twice.

mod feed;
mod octets;

use byname_wire::NameHashKey;
use thiserror::Error;

use self::octets::{Octets, put_varint, varint_len};
use super::FlatFib;
use crate::update::Update;

pub use self::feed::{Feed, Sent};
pub(crate) use self::feed::{Record, Source, send_whole};

const VERSION: u8 = 1;
const CHANGES: u8 = 0;
const BEGIN: u8 = 1;
const MORE: u8 = 2;
const SEAL_OCTETS: usize = 8;
/// Version, kind, sequence and seal at their longest.
const FRAME_OCTETS_MAX: usize = 2 + 10 + SEAL_OCTETS;
/// Least octets for which a message must have room.
pub const MESSAGE_OCTETS_MIN: usize = 256;

/// Bits to flip in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flip {
    /// The block's number.
    pub block: u32,
    /// The word's place in the block.
    pub word: u32,
    /// The bits.
    pub flip: u64,
}

/// Part of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// By which changes name it.
    pub number: u32,
    /// What the engine must know to read the words.
    pub header: Vec<u8>,
    /// The contents.
    pub words: Vec<u64>,
}

/// What messages bring to a query half.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// Changes in order, each to become visible at once.
    Changes(Vec<Vec<Flip>>),
    /// Blocks to take the place of those of their numbers.
    Blocks {
        /// These are all: no block of before remains.
        is_whole: bool,
        /// Of the table, in place of the one before.
        header: Vec<u8>,
        /// The blocks.
        blocks: Vec<Block>,
    },
}

/// Why a message brought nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The seal is not that of the octets, or of this version; or the sender seals what it must not.
    #[error("the message is corrupt")]
    Corrupt,
    /// It was received before.
    #[error("message {sequence} was received before")]
    Repeated {
        /// Its number.
        sequence: u64,
    },
    /// Messages are missing: the whole table must be sent again.
    #[error("messages are missing before {sequence}")]
    Stale {
        /// Its number.
        sequence: u64,
    },
    /// The table is larger than was allowed for.
    #[error("a table of {octets} octets is too large")]
    TooLarge {
        /// Octets announced.
        octets: u64,
    },
}

/// Numbers and seals messages.
pub struct Sender {
    key: NameHashKey,
    sequence: u64,
    message_octets_max: usize,
}

impl Sender {
    /// Messages of at most so many octets, sealed with `key`.
    ///
    /// # Panics
    /// If `message_octets_max` is below [`MESSAGE_OCTETS_MIN`].
    pub fn new(key: NameHashKey, message_octets_max: usize) -> Self {
        assert!(message_octets_max >= MESSAGE_OCTETS_MIN);
        Sender { key, sequence: 0, message_octets_max }
    }

    /// Sends nothing but the news that nothing is missing.
    pub fn beat(&mut self, send: impl FnOnce(&[u8])) {
        send(&self.message(CHANGES, &[]));
    }

    /// Whether a change can be sent as one: it is never split. Others must be sent with their blocks.
    pub fn fits(&self, change: &[Flip]) -> bool {
        let mut octets = Vec::new();
        octets::put_change(&mut octets, change);
        octets.len() <= self.room()
    }

    /// Octets of a message's body.
    fn room(&self) -> usize {
        self.message_octets_max - FRAME_OCTETS_MAX
    }

    /// Sends changes. Flips of one block follow each other, their words ascending.
    ///
    /// # Panics
    /// If a change does not fit ([`Sender::fits`]).
    pub fn changes<'a>(&mut self, changes: impl Iterator<Item = &'a [Flip]>, mut send: impl FnMut(&[u8])) {
        let room = self.room();
        let (mut body, mut one) = (Vec::new(), Vec::new());
        for change in changes {
            one.clear();
            octets::put_change(&mut one, change);
            assert!(one.len() <= room, "a change is never split");
            if body.len() + one.len() > room {
                send(&self.message(CHANGES, &body));
                body.clear();
            }
            body.extend_from_slice(&one);
        }
        if !body.is_empty() {
            send(&self.message(CHANGES, &body));
        }
    }

    /// Sends blocks: all of a table (`is_whole`), or those that take the place of others.
    pub fn blocks(
        &mut self,
        is_whole: bool,
        header: &[u8],
        blocks: impl Iterator<Item = Block>,
        mut send: impl FnMut(&[u8]),
    ) {
        let mut all = Vec::new();
        octets::put_octets(&mut all, header);
        blocks.for_each(|block| octets::put_block(&mut all, &block));
        let mut body = vec![u8::from(is_whole)];
        put_varint(&mut body, all.len() as u64);
        let room = self.room();
        let (first, rest) = all.split_at(all.len().min(room - body.len()));
        body.extend_from_slice(first);
        send(&self.message(BEGIN, &body));
        rest.chunks(room).for_each(|chunk| send(&self.message(MORE, chunk)));
    }

    fn message(&mut self, kind: u8, body: &[u8]) -> Vec<u8> {
        self.sequence += 1;
        let mut message = Vec::with_capacity(2 + varint_len(self.sequence) + body.len() + SEAL_OCTETS);
        message.extend([VERSION, kind]);
        put_varint(&mut message, self.sequence);
        message.extend_from_slice(body);
        let seal = seal(&self.key, &message);
        message.extend_from_slice(&seal);
        message
    }
}

fn seal(key: &NameHashKey, octets: &[u8]) -> [u8; SEAL_OCTETS] {
    key.digest_octets(octets).check.to_le_bytes()
}

/// The table of a query half that is fed by messages.
pub(crate) trait Follower {
    /// Makes all changes, each in one step as readers see it, or none.
    fn change(&mut self, changes: &[Vec<Flip>]) -> Result<Update<dyn FlatFib>, Refusal>;
    /// Takes blocks in place of those of their numbers, or of all.
    fn replace(&mut self, is_whole: bool, header: &[u8], blocks: &[Block]) -> Result<Update<dyn FlatFib>, Refusal>;
}

/// Checks and orders messages, and puts blocks together.
///
/// Memory is taken for octets that have come, never for such as are announced.
pub struct Receiver {
    key: NameHashKey,
    /// The highest number seen.
    newest: u64,
    /// Messages are missing.
    is_stale: bool,
    octets_max: usize,
    coming: Option<Coming>,
}

/// Blocks of which not all octets have come.
struct Coming {
    is_whole: bool,
    octets: Vec<u8>,
    octets_in_all: usize,
}

impl Receiver {
    /// For messages sealed with `key`, and tables of at most so many octets. Stale at first: it
    /// needs a whole table.
    pub fn new(key: NameHashKey, octets_max: usize) -> Self {
        Receiver { key, newest: 0, is_stale: true, octets_max, coming: None }
    }

    /// Whether the whole table must be sent before anything else is of use.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Declares the table unusable: what was delivered made no sense.
    pub fn give_up(&mut self) {
        (self.is_stale, self.coming) = (true, None);
    }

    /// Takes a message; `None`: it is in order, and brings nothing yet.
    ///
    /// # Errors
    /// If it cannot be used. [`Receiver::is_stale`] then says whether the table can.
    pub fn receive(&mut self, message: &[u8]) -> Result<Option<Delivery>, Refusal> {
        let sealed = message.len().checked_sub(SEAL_OCTETS).ok_or(Refusal::Corrupt)?;
        let (message, tag) = message.split_at(sealed);
        // The seal first: nothing that strangers write is parsed, or counted as received.
        if seal(&self.key, message) != *tag {
            return Err(Refusal::Corrupt);
        }
        let mut octets = Octets(message);
        let (version, kind, sequence) = (octets.octet(), octets.octet(), octets.varint());
        let (Some(VERSION), Some(kind), Some(sequence)) = (version, kind, sequence) else {
            return Err(Refusal::Corrupt);
        };
        if sequence <= self.newest {
            return Err(Refusal::Repeated { sequence });
        }
        let is_next = sequence == self.newest + 1;
        self.newest = sequence;
        if !is_next {
            self.give_up();
        }
        let delivery = self.take(kind, octets, sequence);
        if delivery.is_err() {
            self.give_up();
        }
        delivery
    }

    /// Takes a message, and has `table` take what it brings; `None`: nothing has changed for readers.
    pub(crate) fn deliver(
        &mut self,
        message: &[u8],
        table: &mut impl Follower,
    ) -> Result<Option<Update<dyn FlatFib>>, Refusal> {
        let applied = match self.receive(message)? {
            None => return Ok(None),
            Some(Delivery::Changes(changes)) if changes.is_empty() => return Ok(None),
            Some(Delivery::Changes(changes)) => table.change(&changes),
            Some(Delivery::Blocks { is_whole, header, blocks }) => table.replace(is_whole, &header, &blocks),
        };
        if applied.is_err() {
            self.give_up();
        }
        applied.map(Some)
    }

    fn take(&mut self, kind: u8, mut octets: Octets<'_>, sequence: u64) -> Result<Option<Delivery>, Refusal> {
        match kind {
            BEGIN => {
                let is_whole = octets.octet().ok_or(Refusal::Corrupt)? == 1;
                let in_all = octets.varint().ok_or(Refusal::Corrupt)?;
                if self.is_stale && !is_whole {
                    return Err(Refusal::Stale { sequence });
                }
                let octets_in_all = usize::try_from(in_all).ok().filter(|&octets| octets <= self.octets_max);
                let octets_in_all = octets_in_all.ok_or(Refusal::TooLarge { octets: in_all })?;
                self.coming = Some(Coming { is_whole, octets: Vec::new(), octets_in_all });
                self.append(octets.0, sequence)
            }
            MORE => self.append(octets.0, sequence),
            CHANGES if self.is_stale || self.coming.is_some() => Err(Refusal::Stale { sequence }),
            CHANGES => octets.changes().map(|changes| Some(Delivery::Changes(changes))).ok_or(Refusal::Corrupt),
            _ => Err(Refusal::Corrupt),
        }
    }

    fn append(&mut self, octets: &[u8], sequence: u64) -> Result<Option<Delivery>, Refusal> {
        let coming = self.coming.as_mut().ok_or(Refusal::Stale { sequence })?;
        if octets.len() > coming.octets_in_all - coming.octets.len() {
            return Err(Refusal::Corrupt);
        }
        coming.octets.extend_from_slice(octets);
        if coming.octets.len() < coming.octets_in_all {
            return Ok(None);
        }
        let Some(Coming { is_whole, octets, .. }) = self.coming.take() else { return Ok(None) };
        let (header, blocks) = Octets(&octets).blocks().ok_or(Refusal::Corrupt)?;
        self.is_stale = false;
        Ok(Some(Delivery::Blocks { is_whole, header, blocks }))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

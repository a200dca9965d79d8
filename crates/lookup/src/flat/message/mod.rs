//! Update messages from a control half to remote query halves [Concise §5.3].
//!
//! A table consists of *blocks* of 64-bit words. Each block has a header, and so has the whole
//! table; the engine defines their meaning. Messages carry two things. *Changes* are lists of words
//! with the bits to flip in them; each list becomes visible at once. *Blocks* are either all blocks
//! of a table or those that were rebuilt, in as many messages as they take.
//!
//! ```text
//! message   version (1)  kind (1)  sequence (varint)  body  seal (8)
//! changes   { words (varint)  { word, block  mask (1)  bytes of the flip that are not zero } } ...
//! begin     is whole (1)  bytes in all (varint)  bytes
//! more      bytes
//! ```
//!
//! Messages are numbered without gaps. Each is sealed with a key that both sides share: 64 bits of
//! the keyed digest of everything before the seal. A receiver takes messages in order only. A
//! receiver that misses one can no longer know its table; it reports that and waits for the whole
//! table. A receiver that hears nothing cannot know what it missed, so senders send something from
//! time to time, at least an empty list of changes ([`Sender::beat`]).
//!
//! Each incarnation of a sender needs its own key, because no number may be used twice with one
//! key.

mod bytes;
mod feed;

use byname_wire::NameHashKey;
use thiserror::Error;

use self::bytes::{Bytes, put_varint, varint_len};
use super::FlatFib;
use crate::update::Update;

pub use self::feed::{Feed, Sent};
pub(crate) use self::feed::{Record, Source, send_whole};

const VERSION: u8 = 1;
const CHANGES: u8 = 0;
const BEGIN: u8 = 1;
const MORE: u8 = 2;
const SEAL_BYTES: usize = 8;
/// Maximum length of version, kind, sequence and seal.
const FRAME_BYTES_MAX: usize = 2 + 10 + SEAL_BYTES;
/// Minimum length that a message must be allowed to have, in bytes.
pub const MESSAGE_BYTES_MIN: usize = 256;

/// Bits to flip in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flip {
    /// The block's number.
    pub block: u32,
    /// The word's index in the block.
    pub word: u32,
    /// The bits to flip.
    pub flip: u64,
}

/// Part of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The number by which changes name it.
    pub number: u32,
    /// The information that the engine needs to read the words.
    pub header: Vec<u8>,
    /// The contents.
    pub words: Vec<u64>,
}

/// The content that a message delivers to a query half.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// Changes in order. Each becomes visible at once.
    Changes(Vec<Vec<Flip>>),
    /// Blocks that replace those with the same numbers.
    Blocks {
        /// These are all blocks: no earlier block remains.
        is_whole: bool,
        /// The table's header, which replaces the earlier one.
        header: Vec<u8>,
        /// The blocks.
        blocks: Vec<Block>,
    },
}

/// A message that delivered nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The seal does not match the bytes or this version, or the sender sealed something invalid.
    #[error("the message is corrupt")]
    Corrupt,
    /// The message was received before.
    #[error("message {sequence} was received before")]
    Repeated {
        /// Its number.
        sequence: u64,
    },
    /// Messages are missing. The whole table must be sent again.
    #[error("messages are missing before {sequence}")]
    Stale {
        /// Its number.
        sequence: u64,
    },
    /// The table is larger than allowed.
    #[error("a table of {bytes} bytes is too large")]
    TooLarge {
        /// Number of bytes announced.
        bytes: u64,
    },
}

/// Numbers and seals messages.
pub struct Sender {
    key: NameHashKey,
    sequence: u64,
    message_bytes_max: usize,
}

impl Sender {
    /// Sends messages of at most `message_bytes_max` bytes, sealed with `key`.
    ///
    /// # Panics
    /// If `message_bytes_max` is below [`MESSAGE_BYTES_MIN`].
    pub fn new(key: NameHashKey, message_bytes_max: usize) -> Self {
        assert!(message_bytes_max >= MESSAGE_BYTES_MIN);
        Sender { key, sequence: 0, message_bytes_max }
    }

    /// Sends an empty list of changes, which shows that nothing is missing.
    pub fn beat(&mut self, send: impl FnOnce(&[u8])) {
        send(&self.message(CHANGES, &[]));
    }

    /// Whether a change fits into one message; changes are never split. Others must be sent as
    /// blocks.
    pub fn fits(&self, change: &[Flip]) -> bool {
        let mut bytes = Vec::new();
        bytes::put_change(&mut bytes, change);
        bytes.len() <= self.room()
    }

    /// Maximum length of a message's body in bytes.
    fn room(&self) -> usize {
        self.message_bytes_max - FRAME_BYTES_MAX
    }

    /// Sends changes. Flips in one block are consecutive, and their words ascend.
    ///
    /// # Panics
    /// If a change does not fit ([`Sender::fits`]).
    pub fn changes<'a>(&mut self, changes: impl Iterator<Item = &'a [Flip]>, mut send: impl FnMut(&[u8])) {
        let room = self.room();
        let (mut body, mut one) = (Vec::new(), Vec::new());
        for change in changes {
            one.clear();
            bytes::put_change(&mut one, change);
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

    /// Sends blocks: all blocks of a table (`is_whole`), or replacements.
    pub fn blocks(
        &mut self,
        is_whole: bool,
        header: &[u8],
        blocks: impl Iterator<Item = Block>,
        mut send: impl FnMut(&[u8]),
    ) {
        let mut all = Vec::new();
        bytes::put_bytes(&mut all, header);
        blocks.for_each(|block| bytes::put_block(&mut all, &block));
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
        let mut message = Vec::with_capacity(2 + varint_len(self.sequence) + body.len() + SEAL_BYTES);
        message.extend([VERSION, kind]);
        put_varint(&mut message, self.sequence);
        message.extend_from_slice(body);
        let seal = seal(&self.key, &message);
        message.extend_from_slice(&seal);
        message
    }
}

fn seal(key: &NameHashKey, bytes: &[u8]) -> [u8; SEAL_BYTES] {
    key.digest_bytes(bytes).check.to_le_bytes()
}

/// The table of a remote query half.
pub(crate) trait Follower {
    /// Makes all changes or none. Readers see each change in one step.
    fn change(&mut self, changes: &[Vec<Flip>]) -> Result<Update<dyn FlatFib>, Refusal>;
    /// Takes blocks that replace those with the same numbers, or all blocks.
    fn replace(&mut self, is_whole: bool, header: &[u8], blocks: &[Block]) -> Result<Update<dyn FlatFib>, Refusal>;
}

/// Checks and orders messages, and assembles blocks.
///
/// Memory grows only with bytes that have arrived, never with announced lengths.
pub struct Receiver {
    key: NameHashKey,
    /// The highest number seen.
    newest: u64,
    /// Messages are missing.
    is_stale: bool,
    bytes_max: usize,
    coming: Option<Coming>,
}

/// Blocks that have not arrived completely.
struct Coming {
    is_whole: bool,
    bytes: Vec<u8>,
    bytes_in_all: usize,
}

impl Receiver {
    /// For messages sealed with `key`, and tables of at most `bytes_max` bytes. It is stale at
    /// first and needs a whole table.
    pub fn new(key: NameHashKey, bytes_max: usize) -> Self {
        Receiver { key, newest: 0, is_stale: true, bytes_max, coming: None }
    }

    /// Whether the whole table must be sent before other messages are useful.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Marks the table as unusable, because the delivered contents made no sense.
    pub fn give_up(&mut self) {
        (self.is_stale, self.coming) = (true, None);
    }

    /// Takes a message. `None` if the message is valid but completes nothing yet.
    ///
    /// # Errors
    /// If the message cannot be used. [`Receiver::is_stale`] then tells whether the table still
    /// can.
    pub fn receive(&mut self, message: &[u8]) -> Result<Option<Delivery>, Refusal> {
        let sealed = message.len().checked_sub(SEAL_BYTES).ok_or(Refusal::Corrupt)?;
        let (message, tag) = message.split_at(sealed);
        // Check the seal first: nothing from strangers is parsed or counted as received.
        if seal(&self.key, message) != *tag {
            return Err(Refusal::Corrupt);
        }
        let mut bytes = Bytes(message);
        let (version, kind, sequence) = (bytes.byte(), bytes.byte(), bytes.varint());
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
        let delivery = self.take(kind, bytes, sequence);
        if delivery.is_err() {
            self.give_up();
        }
        delivery
    }

    /// Takes a message and applies what it delivers to `table`. `None` if nothing changed for
    /// readers.
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

    fn take(&mut self, kind: u8, mut bytes: Bytes<'_>, sequence: u64) -> Result<Option<Delivery>, Refusal> {
        match kind {
            BEGIN => {
                let is_whole = bytes.byte().ok_or(Refusal::Corrupt)? == 1;
                let in_all = bytes.varint().ok_or(Refusal::Corrupt)?;
                if self.is_stale && !is_whole {
                    return Err(Refusal::Stale { sequence });
                }
                let bytes_in_all = usize::try_from(in_all).ok().filter(|&bytes| bytes <= self.bytes_max);
                let bytes_in_all = bytes_in_all.ok_or(Refusal::TooLarge { bytes: in_all })?;
                self.coming = Some(Coming { is_whole, bytes: Vec::new(), bytes_in_all });
                self.append(bytes.0, sequence)
            }
            MORE => self.append(bytes.0, sequence),
            CHANGES if self.is_stale || self.coming.is_some() => Err(Refusal::Stale { sequence }),
            CHANGES => bytes.changes().map(|changes| Some(Delivery::Changes(changes))).ok_or(Refusal::Corrupt),
            _ => Err(Refusal::Corrupt),
        }
    }

    fn append(&mut self, bytes: &[u8], sequence: u64) -> Result<Option<Delivery>, Refusal> {
        let coming = self.coming.as_mut().ok_or(Refusal::Stale { sequence })?;
        if bytes.len() > coming.bytes_in_all - coming.bytes.len() {
            return Err(Refusal::Corrupt);
        }
        coming.bytes.extend_from_slice(bytes);
        if coming.bytes.len() < coming.bytes_in_all {
            return Ok(None);
        }
        let Some(Coming { is_whole, bytes, .. }) = self.coming.take() else { return Ok(None) };
        let (header, blocks) = Bytes(&bytes).blocks().ok_or(Refusal::Corrupt)?;
        self.is_stale = false;
        Ok(Some(Delivery::Blocks { is_whole, header, blocks }))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

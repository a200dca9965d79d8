//! The encoding of messages.

use super::{Block, Flip};

/// Bytes that are still to be read. Missing bytes give `None`.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number in groups of seven bits, lowest group first.
    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let group = u64::from(byte & 0x7f);
            if group << shift >> shift != group {
                return None;
            }
            number |= group << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn number(&mut self) -> Option<u32> {
        self.varint()?.try_into().ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.varint()?.try_into().ok()?;
        self.take(len)
    }

    /// Reads changes up to the end.
    pub(super) fn changes(mut self) -> Option<Vec<Vec<Flip>>> {
        let mut changes = Vec::new();
        while !self.0.is_empty() {
            let words = self.varint()?;
            let mut change: Vec<Flip> = Vec::new();
            // Each word takes bytes, so no more words are stored than have arrived.
            for _ in 0..words {
                let coded = self.varint()?;
                let place = u32::try_from(coded / 2).ok()?;
                let (block, word) = match change.last() {
                    Some(before) if coded % 2 == 0 => (before.block, before.word.checked_add(place)?),
                    _ => (self.number()?, place),
                };
                change.push(Flip { block, word, flip: self.flip()? });
            }
            changes.push(change);
        }
        Some(changes)
    }

    fn flip(&mut self) -> Option<u64> {
        let mask = self.byte()?;
        let mut bytes = [0; 8];
        for (at, byte) in bytes.iter_mut().enumerate().filter(|(at, _)| mask >> at & 1 != 0) {
            *byte = self.0.get((mask & ((1 << at) - 1)).count_ones() as usize).copied()?;
        }
        self.take(mask.count_ones() as usize)?;
        Some(u64::from_le_bytes(bytes))
    }

    /// Reads a header, and blocks up to the end.
    pub(super) fn blocks(mut self) -> Option<(Vec<u8>, Vec<Block>)> {
        let header = self.bytes()?.to_vec();
        let mut blocks = Vec::new();
        while !self.0.is_empty() {
            let number = self.number()?;
            let header = self.bytes()?.to_vec();
            let bytes = usize::try_from(self.varint()?).ok()?.checked_mul(8)?;
            let (words, _) = self.take(bytes)?.as_chunks();
            blocks.push(Block { number, header, words: words.iter().copied().map(u64::from_le_bytes).collect() });
        }
        Some((header, blocks))
    }
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) fn varint_len(number: u64) -> usize {
    (number | 1).ilog2() as usize / 7 + 1
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A word after the first of a block is written as its distance from the one before, as an even
/// number. All others are written by their index, as an odd number, together with their block.
pub(super) fn put_change(out: &mut Vec<u8>, change: &[Flip]) {
    put_varint(out, change.len() as u64);
    let mut before: Option<&Flip> = None;
    for flip in change {
        match before {
            Some(before) if before.block == flip.block && before.word <= flip.word => {
                put_varint(out, u64::from(flip.word - before.word) * 2);
            }
            _ => {
                put_varint(out, u64::from(flip.word) * 2 + 1);
                put_varint(out, u64::from(flip.block));
            }
        }
        let bytes = flip.flip.to_le_bytes();
        out.push((0..8).filter(|&at| bytes[at] != 0).map(|at| 1 << at).sum());
        out.extend(bytes.iter().filter(|&&byte| byte != 0));
        before = Some(flip);
    }
}

pub(super) fn put_block(out: &mut Vec<u8>, block: &Block) {
    put_varint(out, u64::from(block.number));
    put_bytes(out, &block.header);
    put_varint(out, block.words.len() as u64);
    block.words.iter().for_each(|word| out.extend(word.to_le_bytes()));
}

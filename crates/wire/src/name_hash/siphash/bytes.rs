//! SipHash of opaque names.
//!
//! The hashed message is a label of one word, followed by the bytes. No name begins with that
//! label, because no component type takes eight bytes. Opaque names and NDN names are therefore
//! different messages of one function, and that function's security claim keeps their digests
//! apart.

use super::{LANES, Lanes, SipHash, compress, finish};
use crate::name_hash::bytes::number;
use crate::name_hash::{Digest, processor};

const LABEL: u64 = u64::from_le_bytes(*b"\xff\xffoctets");

/// Number of names staged together. Like prefixes, they more than fill a vector, because a
/// processor must wait before it can read a vector from words that it has just written.
const STAGED: usize = 32;
/// Number of words of each name that are staged together.
const WORDS: usize = 4;

/// Words of [`LANES`] names, side by side.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(in crate::name_hash) struct Block {
    pub words: [[u64; LANES]; WORDS],
    /// Number of words that each name has here.
    pub counts: [u64; LANES],
}

impl<const C: usize, const D: usize> SipHash<C, D> {
    /// Hashes one name with portable code.
    pub(in crate::name_hash) fn digest_bytes(&self, bytes: &[u8]) -> Digest {
        let mut v = self.labelled();
        let (words, rest) = bytes.as_chunks();
        for word in words {
            compress::<C, u64>(&mut v, u64::from_le_bytes(*word));
        }
        let (hash, check) = finish::<C, D, u64>(v, last_word(rest, bytes.len()));
        Digest { hash, check }
    }

    /// Hashes name `i` into `out[i]`.
    pub(in crate::name_hash) fn digest_bytes_burst<'a>(&self, name: impl Fn(usize) -> &'a [u8], out: &mut [Digest]) {
        if let [out] = out {
            *out = self.digest_bytes(name(0));
            return;
        }
        let start = Lanes { v: self.labelled().map(|word| [word; LANES]), last: [0; LANES] };
        let mut blocks = [Block::default(); STAGED / LANES];
        for (batch, out) in out.chunks_mut(STAGED).enumerate() {
            let mut lanes = [start; STAGED / LANES];
            let used = out.len().div_ceil(LANES);
            let (lanes, blocks) = (&mut lanes[..used], &mut blocks[..used]);
            let staged = out.len();
            let name = |i: usize| name(STAGED * batch + i);
            let mut longest = 0;
            for i in 0..staged {
                let bytes = name(i);
                let (words, rest) = bytes.as_chunks();
                lanes[i / LANES].last[i % LANES] = last_word(rest, bytes.len());
                longest = longest.max(words.len());
                stage(&mut blocks[i / LANES], i % LANES, words);
            }
            // Lanes behind the last name hash leftovers of earlier names. Nobody reads their
            // results.
            processor::siphash_compress::<C>(lanes, blocks);
            for from in (WORDS..longest).step_by(WORDS) {
                for i in 0..staged {
                    let (words, _) = name(i).as_chunks();
                    stage(&mut blocks[i / LANES], i % LANES, words.get(from..).unwrap_or_default());
                }
                processor::siphash_compress::<C>(lanes, blocks);
            }
            processor::siphash_finish::<C, D>(lanes, staged);
            for (i, out) in out.iter_mut().enumerate() {
                let [hash, check, ..] = lanes[i / LANES].v.each_ref().map(|half| half[i % LANES]);
                *out = Digest { hash, check };
            }
        }
    }

    /// The state after the label.
    fn labelled(&self) -> [u64; 4] {
        let mut v = self.start.v;
        compress::<C, u64>(&mut v, LABEL);
        v
    }
}

/// The bytes after the last whole word, with the message's length in the top byte.
#[inline]
fn last_word(rest: &[u8], len: usize) -> u64 {
    number(rest) as u64 | (len as u64 + 8) << 56
}

/// Copies the next words of a name into its lane.
#[inline]
fn stage(block: &mut Block, lane: usize, words: &[[u8; 8]]) {
    block.counts[lane] = words.len().min(WORDS) as u64;
    for (lanes, word) in block.words.iter_mut().zip(words) {
        lanes[lane] = u64::from_le_bytes(*word);
    }
}

/// Compresses each lane's words, one lane after the other.
pub(in crate::name_hash) fn compress_lanes<const C: usize>(lanes: &mut [Lanes], blocks: &[Block]) {
    for (lanes, block) in lanes.iter_mut().zip(blocks) {
        for i in 0..LANES {
            let mut v = lanes.v.each_ref().map(|v| v[i]);
            for words in &block.words[..block.counts[i] as usize] {
                compress::<C, u64>(&mut v, words[i]);
            }
            for (lanes, v) in lanes.v.iter_mut().zip(v) {
                lanes[i] = v;
            }
        }
    }
}

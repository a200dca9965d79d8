//! The AES hash of opaque names.
//!
//! The bytes are cut into blocks of 16, and the last block is padded with zeros. Blocks pass four
//! rounds and are summed like those of a name, with the same position keys. After every 16 blocks
//! the sum passes ten rounds. Finally the number of bytes is added to the sum, and four rounds with
//! keys that nothing else uses give the digest.
//!
//! Why this should hold, following the argument for names. Take two names of at most 16 blocks that
//! differ in a block, or one of which has more blocks. Their sums differ by a given value with
//! probability at most 2^-113, and so also by the exclusive or of their lengths. Two names with the
//! same blocks differ in length only, and then their digests differ for certain. Names of g times
//! 16 blocks add 2 g² / 2^128. An opaque name's digest equals a given prefix's with probability
//! 2^-128, whatever the sums are: the first of the last keys is uniform and used nowhere else,
//! which makes the digest uniform.

use super::{AesHash, POSITIONS, digest_of, four_rounds, round};
use crate::name_hash::bytes::number;
use crate::name_hash::{Digest, processor};

#[cfg(target_arch = "x86_64")]
pub(in crate::name_hash) mod vaes;
#[cfg(target_arch = "x86_64")]
pub(in crate::name_hash) mod x86;

impl AesHash {
    /// Hashes name `i` into `out[i]`.
    pub(in crate::name_hash) fn digest_bytes_burst<'a>(&self, name: impl Fn(usize) -> &'a [u8], out: &mut [Digest]) {
        if !processor::aes_bytes_burst(self, &name, out) {
            for (i, out) in out.iter_mut().enumerate() {
                *out = self.digest_bytes_portable(name(i));
            }
        }
    }

    /// Hashes names of `size` bytes, which lie side by side, into `out`, which has one place for
    /// each.
    pub(in crate::name_hash) fn digest_fixed_burst(&self, bytes: &[u8], size: usize, out: &mut [Digest]) {
        if !processor::aes_short_burst(self, bytes, size, out) {
            self.digest_bytes_burst(|i| &bytes[size * i..][..size], out);
        }
    }

    /// Hashes one name with portable code.
    pub(in crate::name_hash) fn digest_bytes_portable(&self, bytes: &[u8]) -> Digest {
        let mut sum = 0;
        for (group, bytes) in bytes.chunks(16 * POSITIONS).enumerate() {
            if group > 0 {
                sum = self.fold[1..].iter().fold(sum ^ self.fold[0], |state, &key| round(state, key));
            }
            for (position, block) in bytes.chunks(16).enumerate() {
                sum ^= four_rounds(number(block), &self.position.map(|round| round[position]));
            }
        }
        digest_of(four_rounds(sum ^ bytes.len() as u128, &self.finish_bytes))
    }
}

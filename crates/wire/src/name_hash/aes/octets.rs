//! The same function of opaque names.
//!
//! The octets are cut into blocks of 16, the last filled up with zeros. Blocks go through four
//! rounds and are summed as a name's are, under the same keys of positions, and every 16 blocks the
//! sum goes through ten rounds. Then the number of octets is added to the sum, and four rounds under
//! keys that nothing else uses give the digest.
//!
//! Why this should hold, as the argument for names does. Two names of at most 16 blocks that differ
//! in a block, or of which one has more blocks, have sums that differ by a given value with a chance
//! of at most 2^-113, and so by the exclusive or of their numbers of octets. Two names with the same
//! blocks differ in the number of octets alone: their digests differ for certain. Longer names add
//! 2 g² / 2^128 for g times 16 blocks. The digest of octets equals a given prefix's with a chance of
//! 2^-128, whatever the sums are, because the first of the last keys, uniform and used nowhere else,
//! makes it uniform.

use super::{AesHash, POSITIONS, digest_of, four_rounds, round};
use crate::name_hash::octets::number;
use crate::name_hash::{Digest, processor};

#[cfg(target_arch = "x86_64")]
pub(in crate::name_hash) mod vaes;
#[cfg(target_arch = "x86_64")]
pub(in crate::name_hash) mod x86;

impl AesHash {
    /// Name `i` into `out[i]`.
    pub(in crate::name_hash) fn digest_octets_burst<'a>(&self, name: impl Fn(usize) -> &'a [u8], out: &mut [Digest]) {
        if !processor::aes_octets_burst(self, &name, out) {
            for (i, out) in out.iter_mut().enumerate() {
                *out = self.digest_octets_portable(name(i));
            }
        }
    }

    /// Names of `size` octets, side by side, into `out`, which is as long as they are many.
    pub(in crate::name_hash) fn digest_fixed_burst(&self, octets: &[u8], size: usize, out: &mut [Digest]) {
        if !processor::aes_short_burst(self, octets, size, out) {
            self.digest_octets_burst(|i| &octets[size * i..][..size], out);
        }
    }

    /// One name, in plain arithmetic.
    pub(in crate::name_hash) fn digest_octets_portable(&self, octets: &[u8]) -> Digest {
        let mut sum = 0;
        for (group, octets) in octets.chunks(16 * POSITIONS).enumerate() {
            if group > 0 {
                sum = self.fold[1..].iter().fold(sum ^ self.fold[0], |state, &key| round(state, key));
            }
            for (position, block) in octets.chunks(16).enumerate() {
                sum ^= four_rounds(number(block), &self.position.map(|round| round[position]));
            }
        }
        digest_of(four_rounds(sum ^ octets.len() as u128, &self.finish_octets))
    }
}

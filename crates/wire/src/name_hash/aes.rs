//! A keyed hash of names made of AES rounds. It is faster than SipHash, but no cryptographer has
//! reviewed it.
//!
//! A name is cut into blocks of 16 bytes that never span components. A component's last block is
//! padded with zeros. The TLV header in its first block gives the component's length, so different
//! names give different blocks. Block `i` passes four AES rounds with keys of its position, and the
//! results are added by exclusive or. At a component's end the sum passes four more rounds with
//! keys of their own, which gives the 128 bits of that prefix. After every 16 blocks the sum passes
//! ten rounds, and the position keys start again. All keys come from the secret by AES-128 in
//! counter mode.
//!
//! Why this should hold. With independent keys, four AES rounds map a given input difference to a
//! given output difference with probability at most 2^-113 [Keliher and Sui, "Exact maximum
//! expected differential and linear probability for two-round AES", 2007]. Take two names of at
//! most 16 blocks. Either they differ in a block whose keys affect nothing else in the sum, or one
//! has more blocks, whose results are uniform. In both cases their sums differ by a given value
//! with probability at most 2^-113. [Minematsu and Tsunoo, "Provably secure MACs from
//! differentially-uniform permutations", FSE 2006] build their MACs on this property. Names of g
//! times 16 blocks add at most 2 g² / 2^128, if ten AES rounds are as good as a random permutation:
//! the sum is then a CBC-MAC over groups of blocks, like their PC-MAC. The last four rounds remove
//! the sum's linearity. Without them, two names that share a bucket would still share one after any
//! common suffix.
//!
//! Limits. Two k-bit parts of digests are equal with a proven probability of at most 2^(15-k), although measurements
//! show 2^-k. The bound holds for names chosen without knowledge of the digests. Anyone who sees the outputs can tell
//! four rounds from a random function, so digests must never leave the process. The bound does not cover knowledge of
//! digests from timing. The use of rounds follows ALPHA-MAC and Pelican-MAC [Daemen and Rijmen, 2005], but no
//! cryptographer has reviewed this composition. SipHash, which has a published security claim, is the default.
//!
//! Cost: four rounds for each block and four for each prefix. Rounds depend on each other only
//! within a block or a prefix, so a processor with AES instructions overlaps them.

use super::{Digest, PrefixHashes, processor};
use crate::name::{self, COMPONENTS_MAX, NameRef};

pub(super) mod bytes;
mod round;
#[cfg(target_arch = "x86_64")]
pub(super) mod vaes;
#[cfg(target_arch = "x86_64")]
pub(super) mod x86;

use round::{encrypt, round};

/// Number of blocks with keys of their own, before the keys are used again.
const POSITIONS: usize = 16;

/// The keys that are added before each of four rounds.
type Keys4 = [u128; 4];

/// The function with one key, expanded from the secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct AesHash {
    /// Indexed by round, then by position.
    position: [[u128; POSITIONS]; 4],
    finish: Keys4,
    /// The digest of `/`.
    root: Digest,
    fold: [u128; 11],
    /// Like `finish`, for opaque names.
    finish_bytes: Keys4,
}

impl AesHash {
    pub(super) fn new([k0, k1]: [u64; 2]) -> Self {
        let secret = u128::from(k1) << 64 | u128::from(k0);
        let mut counter = 0;
        let mut next = || {
            counter += 1;
            encrypt(secret, counter)
        };
        let position = std::array::from_fn(|_| std::array::from_fn(|_| next()));
        let (finish, fold) = (std::array::from_fn(|_| next()), std::array::from_fn(|_| next()));
        let root = digest_of(four_rounds(0, &finish));
        AesHash { position, finish, root, fold, finish_bytes: std::array::from_fn(|_| next()) }
    }

    pub(super) fn fill_burst(&self, depth_max: usize, names: &[NameRef<'_>], out: &mut [PrefixHashes]) {
        if !processor::aes_fill_burst(self, depth_max, names, out) {
            for (name, out) in names.iter().zip(out) {
                out.begin(self.root, [0; 4]);
                self.go_on(depth_max, *name, out);
            }
        }
    }

    pub(super) fn go_on_burst(
        &self,
        depth_max: usize,
        names: &[NameRef<'_>],
        out: &mut [PrefixHashes],
        mut which: impl Iterator<Item = usize>,
    ) {
        if !processor::aes_go_on_burst(self, depth_max, names, out, &mut which) {
            which.for_each(|i| self.go_on(depth_max, names[i], &mut out[i]));
        }
    }

    /// Hashes with portable code.
    pub(super) fn fill(&self, name: NameRef<'_>, out: &mut PrefixHashes) {
        out.begin(self.root, [0; 4]);
        self.go_on(COMPONENTS_MAX, name, out);
    }

    fn go_on(&self, depth_max: usize, name: NameRef<'_>, out: &mut PrefixHashes) {
        let value = name.value();
        let Behind { mut sum, mut blocks } = Behind::of(out);
        let (mut len, mut at) = (out.len, out.bytes());
        while at < value.len() && len < depth_max {
            let end = name::component_at(value, at).2;
            for bytes in value[at..end].chunks(16) {
                if blocks == POSITIONS {
                    sum = self.fold[1..].iter().fold(sum ^ self.fold[0], |state, &key| round(state, key));
                    blocks = 0;
                }
                let block = bytes.iter().rev().fold(0, |block, &byte| block << 8 | u128::from(byte));
                sum ^= four_rounds(block, &self.position.map(|round| round[blocks]));
                blocks += 1;
            }
            at = end;
            len += 1;
            out.end[len] = at as u16;
            out.digest[len] = digest_of(four_rounds(sum, &self.finish));
        }
        out.len = len;
        Behind { sum, blocks }.put_into(out);
    }
}

/// The state after the components that were hashed.
struct Behind {
    sum: u128,
    /// Number of blocks in the sum since the position keys started again.
    blocks: usize,
}

impl Behind {
    #[inline]
    fn of(hashes: &PrefixHashes) -> Self {
        let [low, high, blocks, _] = hashes.state;
        Behind { sum: u128::from(high) << 64 | u128::from(low), blocks: blocks as usize }
    }

    #[inline]
    fn put_into(self, hashes: &mut PrefixHashes) {
        hashes.state = [self.sum as u64, (self.sum >> 64) as u64, self.blocks as u64, 0];
    }
}

/// Length of the component that `rest` begins with, if it fits in one block.
#[inline]
fn bytes_of_short(rest: &[u8]) -> Option<usize> {
    let [..=252, size @ ..=14, value @ ..] = rest else { return None };
    (value.len() >= usize::from(*size)).then_some(2 + usize::from(*size))
}

fn digest_of(block: u128) -> Digest {
    Digest { hash: block as u64, check: (block >> 64) as u64 }
}

fn four_rounds(block: u128, keys: &Keys4) -> u128 {
    let state = keys[1..].iter().fold(block ^ keys[0], |state, &key| round(state, key));
    round(state, 0)
}

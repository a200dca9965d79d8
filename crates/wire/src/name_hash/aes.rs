//! A keyed hash of names from rounds of AES: faster than SipHash, and nobody's reviewed design.
//!
//! A name is cut into blocks of 16 octets that never span components (a component's last block is
//! filled up with zeros; the TLV header inside the first tells how many there are, so that
//! different names give different blocks). Block `i` goes through four rounds of AES under keys of
//! its position, and the results are summed by exclusive or; the sum at a component's end goes
//! through four more rounds under keys of their own, and gives that prefix's 128 bits. Every 16
//! blocks the sum goes through ten rounds, and the keys of the positions are used anew. All keys
//! come from the secret by AES-128 in counter mode.
//!
//! Why this should hold. Under independent keys, four rounds of AES lead no difference to any
//! other with a chance above 2^-113 [Keliher and Sui, "Exact maximum expected differential and
//! linear probability for two-round AES", 2007]. Two names of at most 16 blocks differ in a block,
//! whose keys nothing else in the sum depends on, or one has blocks more, whose results are
//! uniform: either way their sums differ by a given value with a chance of at most 2^-113, which
//! is what [Minematsu and Tsunoo, "Provably secure MACs from differentially-uniform permutations",
//! FSE 2006] build their MACs on. Longer names add at most 2 g² / 2^128 for g times 16 blocks, if
//! ten rounds of AES are as good as a random permutation: the sum is then a CBC-MAC over groups of
//! blocks, like their PC-MAC. The last four rounds destroy the sum's linearity: without them two
//! names that share a bucket would do so with any common suffix.
//!
//! Where it ends. A part of k bits of two digests is equal with a proven chance of at most
//! 2^(15-k), although 2^-k is what one sees. The bound is for names chosen without knowledge of
//! the digests; four rounds are easily told from a random function by who sees what comes out, so
//! digests must never leave the process, and what timing tells of them is not covered. The rounds'
//! use follows ALPHA-MAC and Pelican-MAC [Daemen and Rijmen, 2005], but no cryptographer has
//! looked at this composition. SipHash, which has a published claim, is the default.
//!
//! Cost: four rounds for each block, and four for each prefix. They depend on each other only
//! within a block and a prefix, so that a processor with AES instructions overlaps them.

use super::{Digest, PrefixHashes, processor};
use crate::name::{self, COMPONENTS_MAX, NameRef};

pub(super) mod octets;
mod round;
#[cfg(target_arch = "x86_64")]
pub(super) mod vaes;
#[cfg(target_arch = "x86_64")]
pub(super) mod x86;

use round::{encrypt, round};

/// Blocks that have keys of their own, before the keys are used anew.
const POSITIONS: usize = 16;

/// What is added before each of four rounds.
type Keys4 = [u128; 4];

/// The function under one key: what is expanded from the secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct AesHash {
    /// By round, then position.
    position: [[u128; POSITIONS]; 4],
    finish: Keys4,
    /// The digest of `/`.
    root: Digest,
    fold: [u128; 11],
    /// As `finish`, for names that are opaque octets.
    finish_octets: Keys4,
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
        AesHash { position, finish, root, fold, finish_octets: std::array::from_fn(|_| next()) }
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

    /// In plain arithmetic.
    pub(super) fn fill(&self, name: NameRef<'_>, out: &mut PrefixHashes) {
        out.begin(self.root, [0; 4]);
        self.go_on(COMPONENTS_MAX, name, out);
    }

    fn go_on(&self, depth_max: usize, name: NameRef<'_>, out: &mut PrefixHashes) {
        let value = name.value();
        let Behind { mut sum, mut blocks } = Behind::of(out);
        let (mut len, mut at) = (out.len, out.octets());
        while at < value.len() && len < depth_max {
            let end = name::component_at(value, at).2;
            for octets in value[at..end].chunks(16) {
                if blocks == POSITIONS {
                    sum = self.fold[1..].iter().fold(sum ^ self.fold[0], |state, &key| round(state, key));
                    blocks = 0;
                }
                let block = octets.iter().rev().fold(0, |block, &octet| block << 8 | u128::from(octet));
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

/// What components that were hashed leave behind.
struct Behind {
    sum: u128,
    /// Blocks in the sum since its keys were used anew.
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

/// Octets of the component that `rest` begins with, if they are one block.
#[inline]
fn octets_of_short(rest: &[u8]) -> Option<usize> {
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

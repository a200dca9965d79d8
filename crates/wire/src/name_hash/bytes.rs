//! The keyed hash of opaque names: byte strings that are not NDN names [Concise §2].
//!
//! Tables of flat names use it for MAC addresses, GUIDs and file names. Each function separates
//! these digests from those of names and their prefixes, so one key serves both. A byte string has
//! the digest of a given prefix only with probability 2^-128, like any two digests.
//! `siphash/bytes.rs` and `aes/bytes.rs` explain how.
//!
//! Four or eight names are hashed side by side in a vector. A group costs what its longest name
//! costs, which is never more than hashing its names one by one.

use super::{Digest, Keyed, NameHashKey};

impl NameHashKey {
    /// The digest of an opaque name.
    pub fn digest_bytes(&self, bytes: &[u8]) -> Digest {
        match &self.0 {
            Keyed::SipHash13(function) => function.digest_bytes(bytes),
            Keyed::SipHash24(function) => function.digest_bytes(bytes),
            Keyed::Aes(function) => {
                let mut digest = [Digest::default()];
                function.digest_bytes_burst(|_| bytes, &mut digest);
                digest[0]
            }
        }
    }

    /// Hashes each of `names` into its place in `out`. Faster than one by one.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn digest_bytes_burst(&self, names: &[&[u8]], out: &mut [Digest]) {
        assert_eq!(names.len(), out.len());
        self.digest_each(|i| names[i], out);
    }

    /// Hashes names of `size` bytes each, which lie side by side in `bytes`.
    ///
    /// # Panics
    /// If `bytes` does not hold `size` bytes for each place of `out`.
    pub fn digest_fixed_burst(&self, bytes: &[u8], size: usize, out: &mut [Digest]) {
        assert_eq!(Some(bytes.len()), size.checked_mul(out.len()));
        match &self.0 {
            Keyed::Aes(function) => function.digest_fixed_burst(bytes, size, out),
            Keyed::SipHash13(_) | Keyed::SipHash24(_) => self.digest_each(|i| &bytes[size * i..][..size], out),
        }
    }

    #[inline]
    fn digest_each<'a>(&self, name: impl Fn(usize) -> &'a [u8], out: &mut [Digest]) {
        match &self.0 {
            Keyed::SipHash13(function) => function.digest_bytes_burst(name, out),
            Keyed::SipHash24(function) => function.digest_bytes_burst(name, out),
            Keyed::Aes(function) => function.digest_bytes_burst(name, out),
        }
    }
}

/// At most 16 bytes, as a little-endian number.
#[inline]
pub(super) fn number(bytes: &[u8]) -> u128 {
    // Two reads that overlap read the same bytes where they overlap.
    let len = bytes.len();
    if let (Some(low), Some(high)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (low, high) = (u64::from_le_bytes(*low), u64::from_le_bytes(*high));
        return u128::from(low) | u128::from(high) << (8 * (len - 8));
    }
    if let (Some(low), Some(high)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (low, high) = (u32::from_le_bytes(*low), u32::from_le_bytes(*high));
        return u128::from(u64::from(low) | u64::from(high) << (8 * (len - 4)));
    }
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u128::from(byte))
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use siphasher::sip128::{Hasher128, SipHasher13, SipHasher24};

    use super::*;
    use crate::name_hash::tests::SECRET;
    use crate::name_hash::{HashFunction, digest_name};
    use crate::{Component, Name};

    const FUNCTIONS: [HashFunction; 3] = [HashFunction::SipHash13, HashFunction::SipHash24, HashFunction::Aes];
    const LENGTHS: std::ops::Range<usize> = 0..301;

    fn bytes_of(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 37 + len) as u8).collect()
    }

    /// Hashes one by one, with portable code.
    fn portable(key: &NameHashKey, bytes: &[u8]) -> Digest {
        match &key.0 {
            Keyed::SipHash13(function) => function.digest_bytes(bytes),
            Keyed::SipHash24(function) => function.digest_bytes(bytes),
            Keyed::Aes(function) => function.digest_bytes_portable(bytes),
        }
    }

    #[test]
    fn siphash_is_of_the_label_and_the_bytes() {
        let [k0, k1] = SECRET;
        for len in LENGTHS {
            let bytes = bytes_of(len);
            let message = [b"\xff\xffoctets", bytes.as_slice()].concat();
            let mut reference = (SipHasher13::new_with_keys(k0, k1), SipHasher24::new_with_keys(k0, k1));
            reference.0.write(&message);
            reference.1.write(&message);
            let pairs = [
                (HashFunction::SipHash13, reference.0.finish128()),
                (HashFunction::SipHash24, reference.1.finish128()),
            ];
            for (function, reference) in pairs {
                let digest = NameHashKey::with_function(function, SECRET).digest_bytes(&bytes);
                assert_eq!((digest.hash, digest.check), (reference.h1, reference.h2), "{function:?}, {len} bytes");
            }
        }
    }

    /// Our own vectors: digests must not differ between processors or versions.
    #[test]
    fn aes_digests_stay_what_they_are() {
        let key = NameHashKey::with_function(HashFunction::Aes, SECRET);
        for (len, hash, check) in VECTORS {
            assert_eq!(key.digest_bytes(&bytes_of(len)), Digest { hash, check }, "{len} bytes");
        }
    }

    #[test]
    fn every_way_gives_the_same_digests() {
        for function in FUNCTIONS {
            let key = NameHashKey::with_function(function, SECRET);
            for len in LENGTHS {
                let bytes = bytes_of(len);
                assert_eq!(key.digest_bytes(&bytes), portable(&key, &bytes), "{function:?}, {len} bytes");
                // Numbers that fill no group, and no staging of several groups.
                for count in [0, 1, 3, 4, 7, 8, 9, 37, 64] {
                    let bytes = bytes_of(len * count);
                    let mut digests = vec![Digest::default(); count];
                    key.digest_fixed_burst(&bytes, len, &mut digests);
                    for (i, digest) in digests.iter().enumerate() {
                        assert_eq!(*digest, portable(&key, &bytes[len * i..][..len]), "{function:?}, {len} bytes");
                    }
                }
            }
        }
    }

    #[test]
    fn names_of_different_lengths_are_hashed_together() {
        for function in FUNCTIONS {
            let key = NameHashKey::with_function(function, SECRET);
            // An order in which short names meet long ones.
            let bytes: Vec<_> = LENGTHS.map(|i| bytes_of(i * 113 % LENGTHS.end)).collect();
            let names: Vec<_> = bytes.iter().map(Vec::as_slice).collect();
            let mut digests = vec![Digest::default(); names.len()];
            key.digest_bytes_burst(&names, &mut digests);
            for (name, digest) in names.iter().zip(&digests) {
                assert_eq!(*digest, portable(&key, name), "{function:?}, {} bytes", name.len());
            }
        }
    }

    #[test]
    fn zeros_count() {
        for function in FUNCTIONS {
            let key = NameHashKey::with_function(function, SECRET);
            let mut digests: Vec<_> = LENGTHS.map(|len| key.digest_bytes(&vec![0; len])).collect();
            digests.sort_unstable();
            digests.dedup();
            assert_eq!(digests.len(), LENGTHS.len(), "{function:?}");
        }
    }

    #[test]
    fn bytes_are_not_hashed_as_names_are() {
        for function in FUNCTIONS {
            let key = NameHashKey::with_function(function, SECRET);
            for len in 0..40 {
                let name = Name::from_components((0..len).map(|i| Component::generic(&[7; 20][..i % 20])));
                assert_ne!(key.digest_bytes(name.value()), digest_name(&key, name.as_ref()), "{function:?}");
            }
        }
    }

    #[test]
    fn short_bytes_are_little_endian_numbers() {
        let bytes: Vec<u8> = (1..=16).collect();
        for len in 0..=16 {
            let mut padded = [0; 16];
            padded[..len].copy_from_slice(&bytes[..len]);
            assert_eq!(number(&bytes[..len]), u128::from_le_bytes(padded));
        }
    }

    const VECTORS: [(usize, u64, u64); 8] = [
        (0, 0xba5fe56abd7133c8, 0xb7c17f64532e8701),
        (1, 0xeb0fb5449018d589, 0xe13df47520fdbd1a),
        (6, 0xa021fcc7782f7637, 0x0053accdbfb7a7ed),
        (8, 0x0cade20f914fd16c, 0xc4e0366a2e43b8d1),
        (16, 0xe268b61ff6a3ae3a, 0xf4a6faf95c745b26),
        (45, 0x2bc10a992bbc6e0e, 0x3c7afb9c83bcc59a),
        (256, 0x35d83f37b88d4a62, 0x1d88aea9429f97c2),
        (300, 0x7f148491161ff303, 0x69e2ff97134ec02d),
    ];
}

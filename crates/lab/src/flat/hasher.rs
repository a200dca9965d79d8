//! Hashes names to digests.

use std::fmt;
use std::str::FromStr;

use byname_wire::{Digest, NameHashKey};
use clap::ValueEnum as _;
use serde::Serialize;

use crate::options::Hash;
use crate::workload::Random;

/// Hash functions for names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// One of byname's keyed functions.
    Keyed(Hash),
    /// CRC32c, as in [Concise §5.2]. Only for reproducing the paper, since anybody can construct names that collide.
    Crc32c,
}

impl Function {
    /// Name on the command line.
    pub fn label(self) -> String {
        match self {
            Function::Keyed(hash) => hash.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned()),
            Function::Crc32c => "crc32c".to_owned(),
        }
    }
}

impl Serialize for Function {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.label())
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label())
    }
}

impl FromStr for Function {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "crc32c" => Ok(Function::Crc32c),
            "siphash" => Ok(Function::Keyed(Hash::SipHash13)),
            _ => match Hash::from_str(word, false) {
                Ok(hash) => Ok(Function::Keyed(hash)),
                Err(_) => Err("the hashes are siphash13 (or siphash), siphash24, aes and crc32c".to_owned()),
            },
        }
    }
}

/// A hash function with its key.
// There is one per run, passed by reference. The large variant contains what makes its function fast.
#[allow(clippy::large_enum_variant)]
pub enum Hasher {
    Keyed(NameHashKey),
    Crc32c,
}

impl Hasher {
    /// Makes the function, with a key derived from `seed`.
    pub fn new(function: Function, seed: u64) -> Self {
        let mut random = Random::new(seed);
        match function {
            Function::Keyed(hash) => {
                Hasher::Keyed(NameHashKey::with_function(hash.into(), [random.bits(), random.bits()]))
            }
            Function::Crc32c => Hasher::Crc32c,
        }
    }

    /// Hashes one name.
    pub fn digest(&self, name: &[u8]) -> Digest {
        match self {
            Hasher::Keyed(key) => key.digest_bytes(name),
            Hasher::Crc32c => crc32c_digest(name),
        }
    }

    /// Hashes names of any length.
    #[inline]
    pub fn digest_burst(&self, names: &[&[u8]], out: &mut [Digest]) {
        match self {
            Hasher::Keyed(key) => key.digest_bytes_burst(names, out),
            Hasher::Crc32c => names.iter().zip(out).for_each(|(name, out)| *out = crc32c_digest(name)),
        }
    }

    /// Hashes names of one size that lie side by side.
    #[inline]
    pub fn digest_fixed_burst(&self, bytes: &[u8], size: usize, out: &mut [Digest]) {
        match self {
            Hasher::Keyed(key) => key.digest_fixed_burst(bytes, size, out),
            Hasher::Crc32c => {
                bytes.chunks_exact(size).zip(out).for_each(|(name, out)| *out = crc32c_digest(name));
            }
        }
    }
}

/// Factors by which the words of a name are multiplied.
const FACTORS: [u64; 4] = [1, 0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];

/// Computes CRC32c four times. Another seed alone would change the sums of all names of one length by the same
/// constant. So each time the words are first multiplied by another factor.
fn crc32c_digest(name: &[u8]) -> Digest {
    let sum = |factor: u64| {
        let (words, rest) = name.as_chunks();
        let add = |crc, word: u64| crc32c::crc32c_append(crc, &word.wrapping_mul(factor).to_le_bytes());
        let crc = words.iter().fold(0, |crc, word| add(crc, u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        // Including the length distinguishes a name from the same name followed by zeros.
        let crc = if rest.is_empty() { crc } else { add(crc, u64::from_le_bytes(last)) };
        u64::from(crc32c::crc32c_append(crc, &(name.len() as u32).to_le_bytes()))
    };
    let [a, b, c, d] = FACTORS.map(sum);
    Digest { hash: a << 32 | b, check: c << 32 | d }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_first_sum_is_crc32c() {
        // The sum covers "12345678" and its length, while the check value of CRC32c is for nine digits.
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
        let digest = crc32c_digest(b"12345678");
        assert_eq!(digest.hash >> 32, u64::from(crc32c::crc32c(b"12345678\x08\0\0\0")));
    }

    #[test]
    fn crc32c_tells_many_names_apart() {
        let mut seen = HashSet::new();
        for i in 0..200_000u64 {
            assert!(seen.insert(crc32c_digest(&i.to_le_bytes())), "{i}");
        }
        assert!((0..16).all(|len| seen.insert(crc32c_digest(&vec![0; len + 9]))));
    }

    #[test]
    fn words_are_functions_and_back() {
        for word in ["siphash13", "siphash24", "aes", "crc32c"] {
            assert_eq!(word.parse::<Function>().map(Function::label).as_deref(), Ok(word));
        }
        assert_eq!("siphash".parse(), Ok(Function::Keyed(Hash::SipHash13)));
        assert!("md5".parse::<Function>().is_err());
    }
}

//! Real names: file names, and MAC addresses of registered vendors.

use std::path::Path;

use anyhow::{Context as _, ensure};

use crate::workload::{Permutation, text};

/// Distinct lines of a file.
pub struct Lines {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Lines {
    /// Reads the first `count` distinct lines of a list of paths.
    pub fn read(file: &Path, count: u64) -> anyhow::Result<Self> {
        let list = text::read(file)?;
        let mut lines: Vec<_> = text::lines(&list).collect();
        lines.sort_unstable();
        lines.dedup();
        lines.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        let mut packed = Lines { bytes: Vec::new(), ends: Vec::new() };
        for line in lines {
            packed.bytes.extend_from_slice(line.as_bytes());
            packed.ends.push(packed.bytes.len());
        }
        ensure!(packed.len() > 0, "{} has no lines", file.display());
        Ok(packed)
    }

    /// Number of lines.
    pub fn len(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Appends line `i`. Beyond the last line, lines repeat with a number appended.
    pub fn write(&self, i: u64, out: &mut Vec<u8>) {
        let line = (i % self.len()) as usize;
        let start = if line == 0 { 0 } else { self.ends[line - 1] };
        out.extend_from_slice(&self.bytes[start..self.ends[line]]);
        if i >= self.len() {
            // No line of a list of paths contains a zero byte.
            out.push(0);
            out.extend_from_slice(&(i / self.len()).to_le_bytes());
        }
    }
}

/// MAC addresses with registered prefixes and made-up suffixes.
pub struct Macs {
    /// Prefixes as numbers, each with the number of free bits behind it.
    prefixes: Vec<(u64, u32)>,
    seed: u64,
}

const MAC_BITS: u32 = 48;
/// Free bits behind the longest prefix that IEEE sells, which has 36 bits.
const FREE_BITS_MIN: u32 = 12;

impl Macs {
    /// Reads prefixes of 24, 28 or 36 bits, in hexadecimal digits at the start of each line. Leaves out a prefix that
    /// contains longer ones, so that no address is generated twice.
    pub fn read(file: &Path, seed: u64) -> anyhow::Result<Self> {
        let list = text::read(file)?;
        let mut prefixes = Vec::new();
        for line in text::lines(&list) {
            let digits = line.split_ascii_whitespace().next().unwrap_or_default();
            let free = MAC_BITS.checked_sub(4 * digits.len() as u32).filter(|free| *free >= FREE_BITS_MIN);
            let number = u64::from_str_radix(digits, 16).ok();
            let (free, number) =
                free.zip(number).with_context(|| format!("'{digits}' is not a prefix of a MAC address"))?;
            prefixes.push((number << free, free));
        }
        // A prefix sorts before longer prefixes that begin with it.
        prefixes.sort_unstable_by_key(|&(first, free)| (first, std::cmp::Reverse(free)));
        prefixes.dedup();
        let has_longer = |at: usize, next: Option<&(u64, u32)>| {
            let (first, free) = prefixes[at];
            next.is_some_and(|(other, _)| other >> free == first >> free)
        };
        let kept = (0..prefixes.len()).filter(|&at| !has_longer(at, prefixes.get(at + 1))).map(|at| prefixes[at]);
        let prefixes: Vec<_> = kept.map(|(first, free)| (first >> free, free)).collect();
        ensure!(!prefixes.is_empty(), "{} has no prefixes", file.display());
        Ok(Macs { prefixes, seed })
    }

    /// Guaranteed number of distinct addresses.
    pub fn most(&self) -> u64 {
        (self.prefixes.len() as u64) << FREE_BITS_MIN
    }

    /// Appends address `i`.
    pub fn write(&self, i: u64, out: &mut Vec<u8>) {
        let prefixes = self.prefixes.len() as u64;
        let (prefix, free) = self.prefixes[(i % prefixes) as usize];
        let rest = Permutation::new(1 << free, self.seed ^ prefix).at(i / prefixes % (1 << free));
        out.extend_from_slice(&(prefix << free | rest).to_be_bytes()[2..]);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::io::Write as _;

    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary folder");
        file.write_all(text.as_bytes()).expect("room for a small file");
        file
    }

    #[test]
    fn macs_begin_as_registered_and_come_once() {
        // The first prefix is left out because a longer one begins with it.
        let file = file("0050C2\n0050C2001\n70B3D5FFF\n4A0001A\n00000A\n");
        let macs = Macs::read(file.path(), 3).expect("five prefixes");
        assert_eq!(macs.most(), 4 << 12);
        let mut seen = HashSet::new();
        for i in 0..4000 {
            let mut mac = Vec::new();
            macs.write(i, &mut mac);
            let digits: String = mac.iter().map(|byte| format!("{byte:02X}")).collect();
            assert!(["0050C2001", "70B3D5FFF", "4A0001A", "00000A"].iter().any(|p| digits.starts_with(p)), "{digits}");
            assert!(seen.insert(mac));
        }
    }

    #[test]
    fn lines_come_once_and_then_with_numbers() {
        let file = file("b\na\na\nc/d\n");
        let lines = Lines::read(file.path(), 10).expect("three lines");
        let mut seen = HashSet::new();
        for i in 0..3 * lines.len() {
            let mut line = Vec::new();
            lines.write(i, &mut line);
            assert_eq!(i < 3, [&b"a"[..], b"b", b"c/d"].contains(&line.as_slice()));
            assert!(seen.insert(line));
        }
        assert_eq!(Lines::read(file.path(), 2).expect("two lines").len(), 2);
    }

    #[test]
    fn what_is_no_prefix_is_refused() {
        for text in ["12345G\n", "0123456789ABC\n", ""] {
            assert!(Macs::read(file(text).path(), 1).is_err(), "{text}");
        }
    }
}

//! The names to look up, prepared before the measurement.
//!
//! They lie in one buffer, encoded as in packets, in the order of the lookups. Readers walk the buffer from front to
//! back, as packets come out of a ring. Their entries are spread over the whole table.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use anyhow::ensure;
use byname_lookup::prefetch;
use byname_wire::tlv::{self, types};
use byname_wire::{DecodeError, NameRef};
use rand::SeedableRng as _;
use rand::distr::Distribution as _;
use rand::rngs::StdRng;
use rand_distr::Zipf;

use super::components::push_random;
use super::random::{Permutation, Random};
use super::{DEPTH_MAX, NameChoice, Workload, text};

/// Maximum size of the buffer, so fewer long names are prepared.
const BYTES_MAX: usize = 1 << 30;
/// Names of a smaller table are looked up several times, so that enough answers can be checked.
const DRAWS_MIN: u64 = 1 << 17;

/// How to draw names.
#[derive(Debug, Clone)]
pub struct Drawing<'a> {
    /// The kind of names.
    pub choice: &'a NameChoice,
    /// Number of random components appended to each hit.
    pub suffix: usize,
    /// Maximum number of names.
    pub draws: u64,
    /// Seed of the choice and the order.
    pub seed: u64,
}

/// Names, each encoded as a Name element.
#[derive(Default)]
pub struct NameSet {
    bytes: Vec<u8>,
    starts: Vec<u32>,
}

impl NameSet {
    /// Draws names from a workload. Calls `progress` after each thousand.
    ///
    /// # Errors
    /// If a trace cannot be read or is empty.
    pub fn draw(workload: &dyn Workload, drawing: &Drawing<'_>, mut progress: impl FnMut(u64)) -> anyhow::Result<Self> {
        let targets = workload.targets();
        let all = Permutation::new(targets, drawing.seed);
        let trace = match drawing.choice {
            NameChoice::Trace(file) => Some(requests(file)?),
            _ => None,
        };
        let draws = match drawing.choice {
            NameChoice::Trace(_) => drawing.draws.min(trace.as_ref().map_or(0, Vec::len) as u64),
            NameChoice::Zipf(_) => drawing.draws,
            _ => drawing.draws.min(targets.max(DRAWS_MIN)),
        };
        let zipf = match drawing.choice {
            NameChoice::Zipf(exponent) => Some(Zipf::new(targets as f64, *exponent)?),
            _ => None,
        };
        let mut zipf_random = StdRng::seed_from_u64(drawing.seed);
        let mut random = Random::new(drawing.seed);
        let mut names = NameSet::default();
        let mut name = Vec::new();
        for i in 0..draws {
            let hit = match drawing.choice {
                NameChoice::Miss => None,
                NameChoice::Mixed(share) => (random.unit() < *share).then_some(i),
                NameChoice::Hit | NameChoice::Garbage(_) => Some(i),
                // Ranks begin at 1.
                NameChoice::Zipf(_) => zipf.map(|zipf| zipf.sample(&mut zipf_random) as u64 - 1),
                NameChoice::Trace(_) => trace.as_ref().map(|trace| u64::from(trace[i as usize])),
            };
            match hit {
                Some(rank) => {
                    workload.write_target(all.at(rank % targets), &mut name);
                    let extra = match drawing.choice {
                        NameChoice::Garbage(depth) => cut(&mut name, *depth),
                        _ => drawing.suffix,
                    };
                    (0..extra).for_each(|_| push_random(&mut random, &mut name));
                }
                None => workload.write_miss(&mut random, &mut name),
            }
            if names.bytes.len() + name.len() + 4 > BYTES_MAX {
                break;
            }
            names.push(&name);
            if i % 1000 == 999 {
                progress(1000);
            }
        }
        ensure!(names.len() > 0, "there are no names to look up");
        Ok(names)
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Mean length of a name's value, in bytes.
    pub fn mean_bytes(&self) -> f64 {
        let values: usize = (0..self.len()).filter_map(|i| Some(self.parse(i).ok()?.value().len())).sum();
        values as f64 / self.len() as f64
    }

    /// Takes name `i` out of its Name element. Its components were checked when it was prepared, as a packet's decoder
    /// does. Finding them is part of hashing.
    #[inline]
    pub fn parse(&self, i: usize) -> Result<NameRef<'_>, DecodeError> {
        let start = self.starts[i] as usize;
        let end = self.starts.get(i + 1).map_or(self.bytes.len(), |&end| end as usize);
        let element = tlv::Reader::new(&self.bytes[start..end]).next_tlv()?.ok_or(DecodeError::Truncated)?;
        Ok(NameRef::new_checked_before(element.value))
    }

    /// Prefetches the bytes of some names. On a router, the network card has put packets into the cache before a worker
    /// reads them.
    #[inline]
    pub fn prefetch(&self, names: Range<usize>) {
        let place = |i| self.starts.get(i).map_or(self.bytes.len(), |&start| start as usize);
        for line in self.bytes[place(names.start)..place(names.end)].chunks(64) {
            prefetch::read(&line[0]);
        }
    }

    fn push(&mut self, name: &[u8]) {
        assert!(NameRef::new(name).is_ok(), "generated names are well-formed");
        self.starts.push(self.bytes.len() as u32);
        tlv::push_tlv(&mut self.bytes, types::NAME, name);
    }
}

/// Cuts a name to its first `depth` components. Returns the number of components missing to the maximum.
fn cut(name: &mut Vec<u8>, depth: usize) -> usize {
    let prefix = NameRef::new_checked_before(name).prefix(depth);
    let (len, depth) = (prefix.value().len(), prefix.len());
    name.truncate(len);
    DEPTH_MAX - depth.min(DEPTH_MAX)
}

/// Reads the requests of a trace: 32-bit big-endian ids, or the last field of each line. Returns a number for each
/// request. Objects are numbered in the order of their first requests.
pub fn requests(file: &Path) -> anyhow::Result<Vec<u32>> {
    fn number<K: std::hash::Hash + Eq>(keys: impl Iterator<Item = K>) -> Vec<u32> {
        let mut numbers = HashMap::new();
        keys.map(|key| {
            let next = numbers.len() as u32;
            *numbers.entry(key).or_insert(next)
        })
        .collect()
    }
    let bytes = text::read(file)?;
    let requests = match str::from_utf8(&bytes) {
        Ok(_) => number(text::lines(&bytes).filter_map(|line| line.rsplit('\t').next())),
        Err(_) => number(bytes.chunks_exact(4)),
    };
    ensure!(!requests.is_empty(), "{} contains no requests", file.display());
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::workload::{Kind, open};

    fn draw(choice: NameChoice, suffix: usize) -> (Box<dyn Workload>, NameSet) {
        let workload = open(&Kind::Nested, 7000, 7, 1).expect("a made-up workload");
        let drawing = Drawing { choice: &choice, suffix, draws: 20_000, seed: 1 };
        let names = NameSet::draw(&*workload, &drawing, |_| ()).expect("names of a made-up workload");
        (workload, names)
    }

    fn share_of_hits(choice: NameChoice) -> f64 {
        let (workload, names) = draw(choice, 0);
        let hits = (0..names.len()).filter(|&i| workload.covering(names.parse(i).expect("well-formed")).is_some());
        hits.count() as f64 / names.len() as f64
    }

    #[test]
    fn hits_and_misses_are_as_asked_for() {
        assert_eq!(share_of_hits(NameChoice::Hit), 1.0);
        assert_eq!(share_of_hits(NameChoice::Miss), 0.0);
        assert!((share_of_hits(NameChoice::Mixed(0.3)) - 0.3).abs() < 0.02);
    }

    #[test]
    fn hits_are_each_rule_once_before_any_comes_twice() {
        let (workload, names) = draw(NameChoice::Hit, 0);
        let mut rules: Vec<_> =
            (0..7000).map(|i| workload.covering(names.parse(i).expect("well-formed")).expect("a hit")).collect();
        assert!(!rules.is_sorted());
        rules.sort_unstable();
        assert!(rules.into_iter().eq(0..7000));
    }

    #[test]
    fn garbage_matches_so_many_components_and_has_32() {
        let (workload, names) = draw(NameChoice::Garbage(3), 0);
        for i in 0..names.len() {
            let name = names.parse(i).expect("well-formed");
            assert_eq!(name.len(), DEPTH_MAX);
            let mut rule = Vec::new();
            workload.write_rule(workload.covering(name).expect("a rule of each depth"), &mut rule);
            assert!(NameRef::new_checked_before(&rule).len() <= 3);
        }
    }

    #[test]
    fn suffixes_do_not_change_the_match() {
        let (workload, names) = draw(NameChoice::Hit, 3);
        for i in 0..1000 {
            let name = names.parse(i).expect("well-formed");
            let mut rule = Vec::new();
            workload.write_rule(workload.covering(name).expect("a hit"), &mut rule);
            assert_eq!(NameRef::new_checked_before(&rule).len() + 3, name.len());
        }
    }

    #[test]
    fn the_most_popular_of_zipf_takes_its_share() {
        let (workload, names) = draw(NameChoice::Zipf(1.0), 0);
        let mut asked = HashMap::new();
        for i in 0..names.len() {
            *asked.entry(workload.covering(names.parse(i).expect("well-formed"))).or_insert(0u32) += 1;
        }
        // The harmonic number of 7000 is 9.43.
        let first = f64::from(*asked.values().max().expect("names were drawn")) / names.len() as f64;
        assert!((first - 1.0 / 9.43).abs() < 0.01, "{first}");
    }

    #[test]
    fn traces_are_ids_or_lines() {
        for bytes in [&b"1\t/a\n2\t/b\n3\t/a\n"[..], &[0, 0, 0, 200, 0, 0, 1, 0, 0, 0, 0, 200]] {
            let mut file = tempfile::NamedTempFile::new().expect("a temporary folder");
            file.write_all(bytes).expect("room for a small file");
            assert_eq!(requests(file.path()).expect("three requests"), [0, 1, 0]);
        }
    }
}

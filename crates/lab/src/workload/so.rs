//! A FIB made from a trace of names, with the distribution of depths in [So §4.1].
//!
//! The paper takes its rules from all prefixes of the traces' names. It takes as many of each depth as give the
//! distribution of the URLblacklist [So, Table 5, last rows]. Its Interests are the traces' names. If more rules are
//! wanted than the trace yields, random ones of the same distribution are interleaved [So §4.2].
//!
//! Differs: the traces (IRCache, 2007) are no longer available, so any list of URLs or paths serves as the trace. The
//! depth whose prefixes run out first limits the number of rules that the list yields.

use std::path::Path;

use anyhow::ensure;
use byname_wire::NameRef;

use super::components::{FirstComponents, push_random};
use super::list::NameList;
use super::random::Random;
use super::urls::{url_name, write_miss_like};
use super::{Scheme, Workload, count_depths, text};

/// Rules of each depth, from 1 up, in thousandths: [So, Table 5]. Its cumulative row leaves 1.8 % for depths below 3
/// without details; here these are of depth 2.
const PER_MILLE: [u64; 8] = [0, 18, 285, 369, 191, 69, 33, 35];

/// A FIB from a trace.
pub struct So {
    /// The trace's names.
    trace: NameList,
    /// Prefixes of the trace's names: the first rules.
    real: NameList,
    /// Random rules: the rest.
    interleaved: Interleaved,
}

/// Random rules. No two share a first component.
struct Interleaved {
    seed: u64,
    count: u64,
    firsts: FirstComponents,
}

impl Interleaved {
    fn depth(&self, i: u64) -> usize {
        let mut left = Random::of(!self.seed, i).below(PER_MILLE.iter().sum());
        for (below, share) in PER_MILLE.iter().enumerate() {
            if left < *share {
                return below + 1;
            }
            left -= share;
        }
        unreachable!("what is drawn is below the sum")
    }

    fn write(&self, i: u64, out: &mut Vec<u8>) {
        out.clear();
        self.firsts.push(i, out);
        let mut random = Random::of(self.seed.wrapping_add(1), i);
        (1..self.depth(i)).for_each(|_| push_random(&mut random, out));
    }

    fn covering(&self, name: NameRef<'_>) -> Option<u64> {
        let i = self.firsts.find(name.prefix(1).value())?;
        let mut rule = Vec::new();
        self.write(i, &mut rule);
        name.value().starts_with(&rule).then_some(i)
    }
}

impl So {
    /// Reads the trace and makes `rules` rules.
    pub fn read(file: &Path, rules: u64, seed: u64) -> anyhow::Result<Self> {
        let bytes = text::read(file)?;
        let mut trace = NameList::default();
        for name in text::lines(&bytes).filter_map(|line| url_name(line, Scheme::Tld)) {
            trace.push(name.as_ref());
        }
        let trace = trace.sorted();
        ensure!(trace.len() > 0, "{} has no names", file.display());
        let real = draw(&trace, rules, &mut Random::new(seed));
        let count = rules - real.len() as u64;
        Ok(So { trace, real, interleaved: Interleaved { seed, count, firsts: FirstComponents::new(seed, count) } })
    }
}

/// Draws at most `rules` prefixes of the trace's names in the paper's distribution.
fn draw(trace: &NameList, rules: u64, random: &mut Random) -> NameList {
    let prefixes: Vec<NameList> = (1..=PER_MILLE.len())
        .map(|depth| {
            // The trace is sorted, so equal prefixes are adjacent.
            let mut prefixes = NameList::default();
            let mut last = NameRef::ROOT;
            for name in trace.iter().filter(|name| name.len() >= depth).map(|name| name.prefix(depth)) {
                if name != last {
                    prefixes.push(name);
                    last = name;
                }
            }
            prefixes
        })
        .collect();
    let shares = || prefixes.iter().zip(PER_MILLE).filter(|(_, share)| *share > 0);
    let yielded = shares().map(|(there, share)| there.len() as u64 * 1000 / share).min().unwrap_or_default();
    let drawn = yielded.min(rules);
    let mut real = NameList::default();
    for (there, share) in shares() {
        let sample = there.sample((drawn * share / 1000) as usize, random);
        sample.iter().for_each(|name| real.push(name));
    }
    real.sorted()
}

impl Workload for So {
    fn rules(&self) -> u64 {
        self.real.len() as u64 + self.interleaved.count
    }

    fn rules_by_depth(&self) -> Vec<u64> {
        let interleaved = (0..self.interleaved.count).map(|i| self.interleaved.depth(i));
        count_depths(self.real.iter().map(|name| name.len()).chain(interleaved))
    }

    fn bulk_nodes(&self) -> Option<u64> {
        None
    }

    fn write_rule(&self, i: u64, out: &mut Vec<u8>) {
        match i.checked_sub(self.real.len() as u64) {
            Some(random) => self.interleaved.write(random, out),
            None => {
                out.clear();
                out.extend_from_slice(self.real.name(i as usize).value());
            }
        }
    }

    fn targets(&self) -> u64 {
        self.trace.len() as u64
    }

    fn write_target(&self, t: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.trace.name(t as usize).value());
    }

    fn write_miss(&self, random: &mut Random, out: &mut Vec<u8>) {
        loop {
            write_miss_like(&self.trace, random, out);
            if self.covering(NameRef::new_checked_before(out)).is_none() {
                return;
            }
        }
    }

    fn covering(&self, name: NameRef<'_>) -> Option<u64> {
        let depth = |i: u64| {
            let mut rule = Vec::new();
            self.write_rule(i, &mut rule);
            NameRef::new_checked_before(&rule).len()
        };
        let real = self.real.covering(name).map(|i| i as u64);
        let random = self.interleaved.covering(name).map(|i| i + self.real.len() as u64);
        real.into_iter().chain(random).max_by_key(|&i| depth(i))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn rules_have_the_papers_distribution_and_the_rest_is_random() {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary folder");
        for i in 0..4000 {
            writeln!(file, "host{}.site{}.org/a{}/b{}/c{}/d{i}/e/f", i % 7, i % 50, i % 11, i % 13, i % 17)
                .expect("room for a small file");
        }
        let so = So::read(file.path(), 3000, 1).expect("a list of URLs");
        assert_eq!(so.rules(), 3000);
        let real = so.real.len();
        assert!((1200..=1228).contains(&real), "{real} rules of 350 hosts at depth 3, which has 28.5 %");
        let depths = so.rules_by_depth();
        for (share, count) in PER_MILLE.iter().zip(&depths[1..]) {
            assert!(count.abs_diff(share * 3) < 60, "{depths:?}");
        }
    }
}

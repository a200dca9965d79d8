//! The names to look up, prepared before the measurement.
//!
//! They lie in one buffer in the order of the queries. The buffer is larger than a processor's caches. A register
//! instead generates its names in the measured loop, as in [Concise §6.2.3], so that names cost no memory reads.

use std::ops::Range;
use std::path::Path;

use byname_lookup::flat::BURST_MAX;
use byname_lookup::prefetch;
use smallvec::SmallVec;

use super::names::{Lfsr, Names, write_state};
use crate::workload::{Permutation, requests};

/// Maximum size of the buffer, so fewer long names are prepared.
const BYTES_MAX: usize = 1 << 30;
/// Names of a smaller table are looked up several times, so that enough answers can be checked.
const DRAWS_MIN: u64 = 1 << 17;

/// Names of a burst.
pub type Burst<'a> = SmallVec<[&'a [u8]; BURST_MAX]>;

/// Names to look up. All of them are in the table.
pub struct Queries {
    order: Order,
    /// Length of every name in bytes; `None` if lengths differ.
    size: Option<usize>,
    source: Source,
    len: usize,
}

enum Order {
    /// At random: every name once before any repeats.
    Random(Permutation),
    /// In the order of a trace.
    Trace(Vec<u32>),
    /// In ascending order of their numbers.
    Ascending,
}

enum Source {
    /// Names side by side. If lengths differ, `ends` holds the end of each.
    Buffer { bytes: Vec<u8>, ends: Vec<usize> },
    /// Names generated when they are needed.
    Register(Lfsr),
}

impl Queries {
    /// Draws at most `draws` names. Calls `progress` after each thousand.
    ///
    /// # Errors
    /// If a trace cannot be read.
    pub fn draw(
        names: &Names,
        trace: Option<&Path>,
        draws: u64,
        seed: u64,
        mut progress: impl FnMut(u64),
    ) -> anyhow::Result<Self> {
        let size = names.size();
        if let (Some(lfsr), None) = (names.lfsr(), trace) {
            let len = usize::try_from(names.len())?;
            return Ok(Queries { order: Order::Ascending, size, source: Source::Register(lfsr.clone()), len });
        }
        let (order, draws) = match trace {
            Some(file) => {
                let requests = requests(file)?;
                let draws = draws.min(requests.len() as u64);
                (Order::Trace(requests), draws)
            }
            None => (Order::Random(Permutation::new(names.len(), seed)), draws.min(names.len().max(DRAWS_MIN))),
        };
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        let mut len = 0;
        while len < draws as usize && bytes.len() < BYTES_MAX {
            names.write(number(&order, len, names.len()), &mut bytes);
            len += 1;
            if size.is_none() {
                ends.push(bytes.len());
            }
            if len % 1000 == 0 {
                progress(1000);
            }
        }
        Ok(Queries { order, size, source: Source::Buffer { bytes, ends }, len })
    }

    /// Number of queries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The number among `names` of the name of query `i`.
    pub fn number(&self, i: usize, names: &Names) -> u64 {
        number(&self.order, i, names.len())
    }

    /// Length of every name in bytes; `None` if lengths differ.
    pub fn size(&self) -> Option<usize> {
        self.size
    }

    /// Mean length of a name, in bytes.
    pub fn mean_bytes(&self) -> f64 {
        match (&self.source, self.size) {
            (_, Some(size)) => size as f64,
            (Source::Buffer { bytes, .. }, None) => bytes.len() as f64 / self.len as f64,
            (Source::Register(_), None) => unreachable!("a register's names are of one size"),
        }
    }

    /// Prefetches the bytes of some queries. On a router, the network card has put packets into the cache before a
    /// worker reads them.
    #[inline]
    pub fn prefetch(&self, range: Range<usize>) {
        if let (Source::Buffer { bytes, .. }, Some(size)) = (&self.source, self.size) {
            let end = range.end.min(self.len);
            bytes[size * range.start.min(end)..size * end].chunks(64).for_each(|line| prefetch::read(&line[0]));
        }
    }

    /// If a register generates the names, writes those of some queries to `made`; `state` belongs to the first query.
    /// Returns the state after the last query.
    #[inline]
    pub fn advance(&self, range: Range<usize>, size: usize, mut state: u64, made: &mut Vec<u8>) -> u64 {
        if let Source::Register(lfsr) = &self.source {
            made.clear();
            for _ in range {
                write_state(state, size, made);
                state = lfsr.step(state);
            }
        }
        state
    }

    /// The bytes of some queries of one size, side by side. `made` holds the names from [`Queries::advance`].
    #[inline]
    pub fn side_by_side<'a>(&'a self, range: Range<usize>, size: usize, made: &'a [u8]) -> &'a [u8] {
        match &self.source {
            Source::Buffer { bytes, .. } => &bytes[size * range.start..size * range.end],
            Source::Register(_) => made,
        }
    }

    /// The bytes of some queries, name by name. `made` holds the names from [`Queries::advance`].
    #[inline]
    pub fn names<'a>(&'a self, range: Range<usize>, made: &'a [u8]) -> Burst<'a> {
        match (&self.source, self.size) {
            (_, Some(size)) => self.side_by_side(range, size, made).chunks_exact(size).collect(),
            (Source::Buffer { bytes, ends }, None) => {
                let start = |i| if i == 0 { 0 } else { ends[i - 1] };
                range.map(|i| &bytes[start(i)..ends[i]]).collect()
            }
            (Source::Register(_), None) => unreachable!("a register's names are of one size"),
        }
    }

    /// The state of the register at query `i`; 0 without a register.
    pub fn state(&self, i: usize) -> u64 {
        match &self.source {
            Source::Register(lfsr) => lfsr.at(i as u64),
            Source::Buffer { .. } => 0,
        }
    }
}

fn number(order: &Order, i: usize, names: u64) -> u64 {
    match order {
        Order::Random(permutation) => permutation.at(i as u64 % names),
        Order::Trace(requests) => u64::from(requests[i]) % names,
        Order::Ascending => i as u64,
    }
}

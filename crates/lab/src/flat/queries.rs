//! The names that are asked for, prepared before anything is timed.
//!
//! They lie in one buffer in the order in which they are asked for, larger than a processor's
//! caches; names of a register are made on the way, as [Concise §6.2.3] does, so that no memory is
//! read for them.

use std::ops::Range;
use std::path::Path;

use byname_lookup::flat::BURST_MAX;
use byname_lookup::prefetch;
use smallvec::SmallVec;

use super::names::{Lfsr, Names, write_state};
use crate::workload::{Permutation, requests};

/// The buffer's bound: long names are fewer.
const OCTETS_MAX: usize = 1 << 30;
/// Names of a table smaller than this are asked for several times, so that enough answers can be
/// checked.
const DRAWS_MIN: u64 = 1 << 17;

/// Names of a burst.
pub type Burst<'a> = SmallVec<[&'a [u8]; BURST_MAX]>;

/// Names to ask for, each of which is in the table.
pub struct Queries {
    order: Order,
    /// Octets of every name; `None` where they differ.
    size: Option<usize>,
    source: Source,
    len: usize,
}

enum Order {
    /// Each once before any comes twice, at random.
    Random(Permutation),
    /// As a trace has it.
    Trace(Vec<u32>),
    /// As they were made.
    Ascending,
}

enum Source {
    /// Side by side; without a size, where each ends.
    Buffer { octets: Vec<u8>, ends: Vec<usize> },
    /// Made when they are asked for.
    Register(Lfsr),
}

impl Queries {
    /// Draws at most `draws` names; `progress` is told of each thousand.
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
        let (mut octets, mut ends) = (Vec::new(), Vec::new());
        let mut len = 0;
        while len < draws as usize && octets.len() < OCTETS_MAX {
            names.write(number(&order, len, names.len()), &mut octets);
            len += 1;
            if size.is_none() {
                ends.push(octets.len());
            }
            if len % 1000 == 0 {
                progress(1000);
            }
        }
        Ok(Queries { order, size, source: Source::Buffer { octets, ends }, len })
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The number among `names` of the name that query `i` asks for.
    pub fn number(&self, i: usize, names: &Names) -> u64 {
        number(&self.order, i, names.len())
    }

    /// Octets of every name; `None` where they differ.
    pub fn size(&self) -> Option<usize> {
        self.size
    }

    /// Octets of a name, on average.
    pub fn mean_bytes(&self) -> f64 {
        match (&self.source, self.size) {
            (_, Some(size)) => size as f64,
            (Source::Buffer { octets, .. }, None) => octets.len() as f64 / self.len as f64,
            (Source::Register(_), None) => unreachable!("a register's names are of one size"),
        }
    }

    /// Asks the memory for the octets of some queries, as a network card has put packets into the
    /// cache before a worker looks at them.
    #[inline]
    pub fn prefetch(&self, range: Range<usize>) {
        if let (Source::Buffer { octets, .. }, Some(size)) = (&self.source, self.size) {
            let end = range.end.min(self.len);
            octets[size * range.start.min(end)..size * end].chunks(64).for_each(|line| prefetch::read(&line[0]));
        }
    }

    /// Makes the names of some queries in `made` if a register makes them, `state` being that of the
    /// first. Returns that of the first behind them.
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

    /// The octets of some queries of one size, side by side; `made` are those that [`Queries::advance`]
    /// has made for them.
    #[inline]
    pub fn side_by_side<'a>(&'a self, range: Range<usize>, size: usize, made: &'a [u8]) -> &'a [u8] {
        match &self.source {
            Source::Buffer { octets, .. } => &octets[size * range.start..size * range.end],
            Source::Register(_) => made,
        }
    }

    /// The octets of some queries, name by name; `made` as before.
    #[inline]
    pub fn names<'a>(&'a self, range: Range<usize>, made: &'a [u8]) -> Burst<'a> {
        match (&self.source, self.size) {
            (_, Some(size)) => self.side_by_side(range, size, made).chunks_exact(size).collect(),
            (Source::Buffer { octets, ends }, None) => {
                let start = |i| if i == 0 { 0 } else { ends[i - 1] };
                range.map(|i| &octets[start(i)..ends[i]]).collect()
            }
            (Source::Register(_), None) => unreachable!("a register's names are of one size"),
        }
    }

    /// The state of a register at query `i`; whatever, where there is none.
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

//! The measured loop: reads names from a buffer, hashes them and queries the table in bursts.

use std::hint::black_box;
use std::ops::Range;

use byname_lookup::EntryId;
use byname_lookup::flat::BURST_MAX;
use byname_wire::Digest;

use smallvec::SmallVec;

use super::baselines::{self, FlatName};
use super::hasher::Hasher;
use super::queries::{Burst, Queries};
use super::table::Asked;

/// Walks over the queries again and again, burst by burst.
pub struct Reader<'a> {
    queries: &'a Queries,
    hasher: &'a Hasher,
    burst: usize,
    at: usize,
    /// State of a register that generates the names.
    state: u64,
    made: Vec<u8>,
    digests: [Digest; BURST_MAX],
    out: [Option<EntryId>; BURST_MAX],
}

impl<'a> Reader<'a> {
    /// Begins at query `start`.
    pub fn new(queries: &'a Queries, hasher: &'a Hasher, burst: usize, start: usize) -> Self {
        Reader {
            queries,
            hasher,
            burst,
            at: start,
            state: queries.state(start),
            made: Vec::new(),
            digests: [Digest::default(); BURST_MAX],
            out: [None; BURST_MAX],
        }
    }

    /// Queries a burst. Returns the range of queries; [`Reader::answers`] holds their answers.
    #[inline]
    pub fn look_up(&mut self, asked: Asked<'_>) -> Range<usize> {
        self.look_up_some(asked, self.burst)
    }

    /// Queries a burst of at most `some` names.
    #[inline]
    pub fn look_up_some(&mut self, asked: Asked<'_>, some: usize) -> Range<usize> {
        let range = self.hash_next(some);
        let (digests, out) = (&self.digests[..range.len()], &mut self.out[..range.len()]);
        match asked {
            Asked::Fib(fib) => fib.entry_burst(digests, out),
            Asked::Baseline(baseline) => {
                let bytes = self.queries.names(range.clone(), &self.made);
                let names = flat_names(&bytes, digests);
                let bursts = names.chunks(baselines::BURST_MAX).zip(out.chunks_mut(baselines::BURST_MAX));
                bursts.for_each(|(names, out)| baseline.query_burst(names, out));
            }
        }
        range
    }

    /// Only hashes a burst. Returns its number of names.
    #[inline]
    pub fn hash(&mut self) -> usize {
        let range = self.hash_next(self.burst);
        black_box(&self.digests);
        range.len()
    }

    /// The answers of the last burst.
    #[inline]
    pub fn answers(&self) -> &[Option<EntryId>] {
        &self.out
    }

    /// Counts the names of a burst and the cache lines that they need; `None` if the engine cannot count.
    pub fn count_lines(&mut self, asked: Asked<'_>) -> Option<(usize, usize)> {
        let range = self.hash_next(self.burst);
        let digests = &self.digests[..range.len()];
        let lines: Option<usize> = match asked {
            Asked::Fib(fib) => digests.iter().map(|name| fib.lines_read(*name)).sum(),
            Asked::Baseline(baseline) => {
                let bytes = self.queries.names(range.clone(), &self.made);
                Some(flat_names(&bytes, digests).iter().map(|name| baseline.lines_read(name)).sum())
            }
        };
        Some((range.len(), lines?))
    }

    #[inline]
    fn hash_next(&mut self, some: usize) -> Range<usize> {
        if self.at >= self.queries.len() {
            self.at = 0;
            self.state = self.queries.state(0);
        }
        let range = self.at..(self.at + some).min(self.queries.len());
        self.at = range.end;
        self.queries.prefetch(range.end..range.end + self.burst);
        let digests = &mut self.digests[..range.len()];
        match self.queries.size() {
            Some(size) => {
                self.state = self.queries.advance(range.clone(), size, self.state, &mut self.made);
                self.hasher.digest_fixed_burst(
                    self.queries.side_by_side(range.clone(), size, &self.made),
                    size,
                    digests,
                );
            }
            None => self.hasher.digest_burst(&self.queries.names(range.clone(), &self.made), digests),
        }
        range
    }
}

#[inline]
fn flat_names<'a>(bytes: &Burst<'a>, digests: &[Digest]) -> SmallVec<[FlatName<'a>; BURST_MAX]> {
    bytes.iter().zip(digests).map(|(bytes, digest)| FlatName { bytes, digest: *digest }).collect()
}

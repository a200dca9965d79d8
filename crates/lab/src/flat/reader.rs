//! The work that is timed: names out of a buffer, hashed and asked for in bursts.

use std::hint::black_box;
use std::ops::Range;

use byname_lookup::flat::BURST_MAX;
use byname_lookup::{EntryId, FlatFib};
use byname_wire::Digest;

use super::hasher::Hasher;
use super::queries::Queries;

/// Walks over the queries, burst by burst, again and again.
pub struct Reader<'a> {
    queries: &'a Queries,
    hasher: &'a Hasher,
    burst: usize,
    at: usize,
    /// Of a register that makes the names.
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

    /// Asks for a burst. Returns which queries it was; [`Reader::answers`] are theirs.
    #[inline]
    pub fn look_up(&mut self, fib: &dyn FlatFib) -> Range<usize> {
        let range = self.hash_next();
        fib.entry_burst(&self.digests[..range.len()], &mut self.out[..range.len()]);
        range
    }

    /// Hashes a burst, no more. Returns how many names it has.
    #[inline]
    pub fn hash(&mut self) -> usize {
        let range = self.hash_next();
        black_box(&self.digests);
        range.len()
    }

    /// What the last burst was answered with.
    #[inline]
    pub fn answers(&self) -> &[Option<EntryId>] {
        &self.out
    }

    /// Counts the cache lines that each name of a burst needs; `None` where the engine cannot.
    pub fn count_lines(&mut self, fib: &dyn FlatFib) -> Option<(usize, usize)> {
        let range = self.hash_next();
        let lines: Option<usize> = self.digests[..range.len()].iter().map(|name| fib.lines_read(*name)).sum();
        Some((range.len(), lines?))
    }

    #[inline]
    fn hash_next(&mut self) -> Range<usize> {
        if self.at >= self.queries.len() {
            self.at = 0;
            self.state = self.queries.state(0);
        }
        let range = self.at..(self.at + self.burst).min(self.queries.len());
        self.at = range.end;
        let digests = &mut self.digests[..range.len()];
        match self.queries.size() {
            Some(size) => {
                let octets = self.queries.side_by_side(range.clone(), size, &mut self.state, &mut self.made);
                self.hasher.digest_fixed_burst(octets, size, digests);
            }
            None => self.hasher.digest_burst(&self.queries.one_by_one(range.clone()), digests),
        }
        range
    }
}

//! The measured loop: reads names from a buffer, parses, hashes and looks them up in bursts.

use std::hint::black_box;
use std::ops::Range;

use byname_lookup::prefix::{BURST_MAX, HashRoom};
use byname_lookup::{PrefixFib, PrefixMatch};
use byname_wire::{NameHashKey, NameRef, NameView, PrefixHashes};
use smallvec::SmallVec;

use crate::harness::lines_per_lookup;
use crate::workload::NameSet;

type Names<'a> = SmallVec<[NameRef<'a>; BURST_MAX]>;

/// Walks over the names again and again, burst by burst.
pub struct Reader<'a> {
    names: &'a NameSet,
    key: &'a NameHashKey,
    burst: usize,
    at: usize,
    room: HashRoom,
    hashes: Vec<PrefixHashes>,
    out: [Option<PrefixMatch>; BURST_MAX],
}

impl<'a> Reader<'a> {
    /// Begins at name `start`.
    pub fn new(names: &'a NameSet, key: &'a NameHashKey, burst: usize, start: usize) -> Self {
        Reader {
            names,
            key,
            burst,
            at: start,
            room: HashRoom::default(),
            hashes: vec![PrefixHashes::default(); burst],
            out: [None; BURST_MAX],
        }
    }

    /// Looks up a burst. Returns the range of names; [`Reader::answers`] holds their answers.
    #[inline]
    pub fn look_up(&mut self, fib: &dyn PrefixFib) -> Range<usize> {
        let (range, names) = self.next();
        fib.longest_match_names(self.key, &names, &mut self.room, &mut self.out[..names.len()]);
        range
    }

    /// Only parses and hashes a burst, to the depth that `fib` needs. Returns its number of names.
    #[inline]
    pub fn hash(&mut self, fib: &dyn PrefixFib) -> usize {
        let (range, _) = self.hash_next(fib.depth_max());
        black_box(&self.hashes);
        range.len()
    }

    /// The answers of the last burst.
    #[inline]
    pub fn answers(&self) -> &[Option<PrefixMatch>] {
        &self.out
    }

    /// Counts the names of a burst and the cache lines that they need; `None` if the engine cannot count.
    pub fn count_lines(&mut self, fib: &dyn PrefixFib) -> Option<(usize, usize)> {
        let (range, names) = self.hash_next(fib.depth_max());
        let hashed = names.iter().zip(&self.hashes);
        let lines: Option<usize> = hashed.map(|(name, h)| fib.lines_read(&NameView::from_filled(*name, h))).sum();
        Some((range.len(), lines?))
    }

    #[inline]
    fn hash_next(&mut self, depth_max: usize) -> (Range<usize>, Names<'a>) {
        let (range, names) = self.next();
        PrefixHashes::fill_burst_to(depth_max, self.key, &names, &mut self.hashes[..names.len()]);
        (range, names)
    }

    /// Parses a burst.
    #[inline]
    fn next(&mut self) -> (Range<usize>, Names<'a>) {
        if self.at >= self.names.len() {
            self.at = 0;
        }
        let range = self.at..(self.at + self.burst).min(self.names.len());
        self.at = range.end;
        self.names.prefetch(range.end..(range.end + self.burst).min(self.names.len()));
        let parsed = range.clone().map(|i| self.names.parse(i).expect("generated names are well-formed"));
        let names = parsed.collect();
        (range, names)
    }
}

/// Mean number of cache lines that a lookup reads, over a sample.
pub fn count_lines(names: &NameSet, key: &NameHashKey, fib: &dyn PrefixFib) -> Option<f64> {
    lines_per_lookup(names.len(), |start, burst| Reader::new(names, key, burst, start).count_lines(fib))
}

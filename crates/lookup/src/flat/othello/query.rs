//! The query half: two values, combined by exclusive-or [Concise §4.1].

use std::sync::Arc;

use byname_wire::Digest;
use smallvec::SmallVec;

use super::journal::Journal;
use super::place::{Shape, Width};
use super::processor::Processor;
use crate::entry::EntryId;
use crate::flat::{BURST_MAX, FlatFib};
use crate::memory::{Line, Lines};
use crate::prefetch;
use crate::sync::{AtomicU64, Ordering};

/// Number of queries between two checks of the journal. Reading their values takes a few tens of nanoseconds.
pub(super) const GROUP: usize = 8;
/// Number of groups whose lines are prefetched while as many groups are asked: enough to keep the memory busy.
const AHEAD: usize = 8;

/// The values of names whose digests begin with the same bits.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) shape: Shape,
    /// Number of its first line in `lines`, which other parts may share.
    pub(super) first: u32,
    pub(super) lines: Arc<Lines>,
}

impl Part {
    /// A word of the part; each line has eight.
    #[inline(always)]
    pub(super) fn word(&self, word: u32) -> &AtomicU64 {
        &self.line(word / 8).0[word as usize % 8]
    }

    /// Number of words in both arrays.
    pub(super) fn words(&self) -> u32 {
        16 * self.shape.lines
    }

    #[inline(always)]
    pub(super) fn line(&self, line: u32) -> &Line {
        &self.lines[(self.first + line) as usize]
    }
}

/// The table that readers see.
pub(super) struct Query {
    pub(super) journal: Arc<Journal>,
    pub(super) width: Width,
    /// Indexed by the first bits of a digest; the length is a power of two.
    pub(super) parts: Box<[Part]>,
    /// Computes entries with at most what this processor has.
    pub(super) processor: Processor,
}

/// The two values of a name: their lines, and the bits at which they begin.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    lines: [&'a Line; 2],
    bits: [u32; 2],
}

/// Finds the values of eight names at a time, and combines them when their lines have arrived.
pub(super) trait Eight {
    /// Places of the values of eight names.
    type Places<'a>: Copy;

    /// Places before any names are found.
    fn nowhere<'a>(&self, query: &'a Query) -> Self::Places<'a>;
    /// Finds the places of the values of eight names.
    fn find<'a>(&self, query: &'a Query, names: &[Digest; GROUP], places: &mut Self::Places<'a>);
    /// Prefetches the lines of the values.
    fn prefetch(&self, places: &Self::Places<'_>);
    /// Combines the values. Reads them with acquire loads.
    fn entries(&self, query: &Query, places: &Self::Places<'_>) -> [u32; GROUP];
}

/// One name at a time, with portable code. `STRADDLE` may be false only if no value [straddles](Width::straddles).
pub(super) struct Portable<const STRADDLE: bool>;

impl<const STRADDLE: bool> Eight for Portable<STRADDLE> {
    type Places<'a> = [Pair<'a>; GROUP];

    #[inline(always)]
    fn nowhere<'a>(&self, query: &'a Query) -> [Pair<'a>; GROUP] {
        [Pair { lines: [&query.parts[0].lines[0]; 2], bits: [0; 2] }; GROUP]
    }

    #[inline(always)]
    fn find<'a>(&self, query: &'a Query, names: &[Digest; GROUP], places: &mut [Pair<'a>; GROUP]) {
        places.iter_mut().zip(names).for_each(|(pair, name)| *pair = query.pair::<STRADDLE>(*name));
    }

    #[inline(always)]
    fn prefetch(&self, places: &[Pair<'_>; GROUP]) {
        places.iter().for_each(Pair::prefetch);
    }

    #[inline(always)]
    fn entries(&self, query: &Query, places: &[Pair<'_>; GROUP]) -> [u32; GROUP] {
        places.each_ref().map(|pair| query.combine::<STRADDLE>(pair, |word| word.load(Ordering::Acquire)).0)
    }
}

impl Pair<'_> {
    #[inline(always)]
    fn prefetch(&self) {
        self.lines.into_iter().for_each(prefetch::read);
    }
}

impl Query {
    #[inline(always)]
    fn pair<const STRADDLE: bool>(&self, name: Digest) -> Pair<'_> {
        let part = &self.parts[index(name, self.parts.len().trailing_zeros())];
        let [(line_a, bit_a), (line_b, bit_b)] = part.shape.bits::<STRADDLE>(self.width, name);
        Pair { lines: [part.line(line_a), part.line(line_b)], bits: [bit_a, bit_b] }
    }

    #[inline(always)]
    fn combine<const STRADDLE: bool>(&self, pair: &Pair<'_>, read: impl Fn(&AtomicU64) -> u64) -> EntryId {
        let value = |i: usize| self.width.value::<STRADDLE>(pair.bits[i], |word| read(&pair.lines[i].0[word]));
        EntryId(value(0) ^ value(1))
    }

    /// The entry, correct whatever the writer does meanwhile.
    #[cold]
    fn settled(&self, pair: &Pair<'_>) -> EntryId {
        self.journal.read(|read| self.combine::<true>(pair, read))
    }

    /// Finds the places of several groups before it prefetches any line, so that the computations overlap.
    #[inline(always)]
    fn ask_ahead<'a, E: Eight>(&'a self, names: &[[Digest; GROUP]], eight: &E, places: &mut [E::Places<'a>; AHEAD]) {
        places.iter_mut().zip(names).for_each(|(places, names)| eight.find(self, names, places));
        places.iter().zip(names).for_each(|(places, _)| eight.prefetch(places));
    }

    /// Asks earlier names while later names' lines are being prefetched.
    #[inline(always)]
    pub(super) fn burst<E: Eight>(&self, names: &[Digest], out: &mut [Option<EntryId>], eight: &E) {
        let (groups, rest) = names.as_chunks::<GROUP>();
        let (out, out_of_rest) = out.as_chunks_mut::<GROUP>();
        let mut places = [[eight.nowhere(self); AHEAD]; 2];
        self.ask_ahead(groups, eight, &mut places[0]);
        for (i, (out, names)) in out.chunks_mut(AHEAD).zip(groups.chunks(AHEAD)).enumerate() {
            if let Some(later) = groups.get((i + 1) * AHEAD..) {
                self.ask_ahead(later, eight, &mut places[(i + 1) % 2]);
            }
            for ((out, names), places) in out.iter_mut().zip(names).zip(&places[i % 2]) {
                let since = self.journal.moment();
                *out = eight.entries(self, places).map(|entry| Some(EntryId(entry)));
                if !self.journal.undisturbed(since) {
                    *out = names.map(|name| Some(self.settled(&self.pair::<true>(name))));
                }
            }
        }
        let rest: SmallVec<[_; GROUP]> = rest.iter().map(|name| self.pair::<true>(*name)).collect();
        rest.iter().for_each(Pair::prefetch);
        for (found, pair) in out_of_rest.iter_mut().zip(&rest) {
            *found = Some(self.settled(pair));
        }
    }
}

impl FlatFib for Query {
    fn entry(&self, name: Digest) -> Option<EntryId> {
        Some(self.settled(&self.pair::<true>(name)))
    }

    fn entry_burst(&self, names: &[Digest], out: &mut [Option<EntryId>]) {
        assert_eq!(names.len(), out.len());
        assert!(names.len() <= BURST_MAX);
        self.processor.burst(self, names, out);
    }

    fn lines_read(&self, _name: Digest) -> Option<usize> {
        Some(2)
    }

    fn memory_bytes(&self) -> usize {
        let mut blocks: Vec<_> = self.parts.iter().map(|part| &part.lines).collect();
        blocks.sort_unstable_by_key(|lines| Arc::as_ptr(lines));
        blocks.dedup_by_key(|lines| Arc::as_ptr(lines));
        let lines = blocks.iter().map(|lines| lines.len() * size_of::<Line>()).sum::<usize>();
        let parts = size_of_val(&*self.parts) + self.processor.memory_bytes();
        size_of::<Self>() + parts + self.journal.memory_bytes() + lines
    }
}

/// The number formed by the first `bits` bits of a digest.
#[inline(always)]
pub(super) fn index(name: Digest, bits: u32) -> usize {
    // Two shifts, because a single shift by all 64 bits is not allowed.
    (name.hash >> 1 >> (63 - bits)) as usize
}

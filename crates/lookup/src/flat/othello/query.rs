//! The query half: two values, combined by exclusive-or [Concise §4.1].

use std::sync::Arc;

use byname_wire::Digest;

use super::journal::Journal;
use super::place::{Shape, Width};
use crate::entry::EntryId;
use crate::flat::{BURST_MAX, FlatFib};
use crate::memory::{Line, Lines};
use crate::prefetch;
use crate::sync::{AtomicU64, Ordering};

/// Queries between two looks at the journal: reading as many values takes some tens of nanoseconds.
const GROUP: usize = 8;
/// Groups whose lines are on their way while one is asked: as many as keep the memory busy.
const AHEAD: usize = 4;

/// The values of the names whose digests begin alike.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) shape: Shape,
    /// Where its lines begin: parts that were built together share their memory.
    pub(super) first: u32,
    pub(super) lines: Arc<Lines>,
}

impl Part {
    /// A word of it; eight in each line.
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
    /// By the first bits of a digest; their number is a power of two.
    pub(super) parts: Box<[Part]>,
}

/// The two values of a name: their lines, and where they begin.
#[derive(Clone, Copy)]
struct Pair<'a> {
    lines: [&'a Line; 2],
    bits: [u32; 2],
}

impl Query {
    /// Asks the memory for the lines, too.
    #[inline(always)]
    fn pair<const STRADDLE: bool>(&self, name: Digest) -> Pair<'_> {
        let part = &self.parts[index(name, self.parts.len().trailing_zeros())];
        let [(line_a, bit_a), (line_b, bit_b)] = part.shape.bits::<STRADDLE>(self.width, name);
        let lines = [part.line(line_a), part.line(line_b)];
        prefetch::read(lines[0]);
        prefetch::read(lines[1]);
        Pair { lines, bits: [bit_a, bit_b] }
    }

    #[inline(always)]
    fn combine<const STRADDLE: bool>(&self, pair: &Pair<'_>, read: impl Fn(&AtomicU64) -> u64) -> EntryId {
        let value = |i: usize| self.width.value::<STRADDLE>(pair.bits[i], |word| read(&pair.lines[i].0[word]));
        EntryId(value(0) ^ value(1))
    }

    /// The answer whatever the writer does meanwhile.
    #[cold]
    fn settled(&self, pair: &Pair<'_>) -> EntryId {
        self.journal.read(|read| self.combine::<true>(pair, read))
    }

    /// While some names' lines are on their way, those before them are asked.
    #[inline(always)]
    fn burst<const STRADDLE: bool>(&self, names: &[Digest], out: &mut [Option<EntryId>]) {
        let nowhere = &self.parts[0].lines[0];
        let mut ahead = [[Pair { lines: [nowhere; 2], bits: [0; 2] }; GROUP]; AHEAD];
        let (groups, rest) = names.as_chunks::<GROUP>();
        let (out, out_of_rest) = out.as_chunks_mut::<GROUP>();
        for (pairs, names) in ahead.iter_mut().zip(groups) {
            for (pair, name) in pairs.iter_mut().zip(names) {
                *pair = self.pair::<STRADDLE>(*name);
            }
        }
        for (i, out) in out.iter_mut().enumerate() {
            let pairs = &mut ahead[i % AHEAD];
            let since = self.journal.moment();
            for (found, pair) in out.iter_mut().zip(&*pairs) {
                *found = Some(self.combine::<STRADDLE>(pair, |word| word.load(Ordering::Acquire)));
            }
            if !self.journal.undisturbed(since) {
                *out = pairs.each_ref().map(|pair| Some(self.settled(pair)));
            }
            if let Some(later) = groups.get(i + AHEAD) {
                for (pair, name) in pairs.iter_mut().zip(later) {
                    *pair = self.pair::<STRADDLE>(*name);
                }
            }
        }
        let pairs = &mut ahead[0];
        for (pair, name) in pairs.iter_mut().zip(rest) {
            *pair = self.pair::<STRADDLE>(*name);
        }
        for (found, pair) in out_of_rest.iter_mut().zip(pairs) {
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
        match self.width.straddles() {
            true => self.burst::<true>(names, out),
            false => self.burst::<false>(names, out),
        }
    }

    fn lines_read(&self, _name: Digest) -> Option<usize> {
        Some(2)
    }

    fn memory_bytes(&self) -> usize {
        let mut blocks: Vec<_> = self.parts.iter().map(|part| &part.lines).collect();
        blocks.sort_unstable_by_key(|lines| Arc::as_ptr(lines));
        blocks.dedup_by_key(|lines| Arc::as_ptr(lines));
        let lines = blocks.iter().map(|lines| lines.len() * size_of::<Line>()).sum::<usize>();
        size_of::<Self>() + size_of_val(&*self.parts) + self.journal.memory_bytes() + lines
    }
}

/// The number that the first `bits` bits of a digest make.
#[inline(always)]
pub(super) fn index(name: Digest, bits: u32) -> usize {
    // Shifted twice: no bits at all are a shift by all 64.
    (name.hash >> 1 >> (63 - bits)) as usize
}

//! The query half: two values, combined by exclusive-or [Concise §4.1].

use std::sync::Arc;

use byname_wire::Digest;

use super::journal::Journal;
use super::place::{Place, Shape, Width};
use crate::entry::EntryId;
use crate::flat::{BURST_MAX, FlatFib};
use crate::memory::{Line, Lines};
use crate::prefetch;
use crate::sync::{AtomicU64, Ordering};

/// Queries between two looks at the journal: reading as many values takes some tens of nanoseconds.
const GROUP: usize = 8;

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
    #[inline(always)]
    fn part(&self, name: Digest) -> &Part {
        &self.parts[index(name, self.parts.len().trailing_zeros())]
    }

    #[inline(always)]
    fn pair(&self, name: Digest) -> Pair<'_> {
        let part = self.part(name);
        let places = part.shape.places(self.width, name);
        Pair {
            lines: places.map(|place: Place| part.line(place.line)),
            bits: places.map(|place| place.bit(self.width)),
        }
    }

    #[inline(always)]
    fn combine(&self, pair: &Pair<'_>, read: impl Fn(&AtomicU64) -> u64) -> EntryId {
        let value = |i: usize| self.width.value(pair.bits[i], |word| read(&pair.lines[i].0[word]));
        EntryId(value(0) ^ value(1))
    }

    /// The answer whatever the writer does meanwhile.
    fn settled(&self, pair: &Pair<'_>) -> EntryId {
        self.journal.read(|read| self.combine(pair, read))
    }
}

impl FlatFib for Query {
    fn entry(&self, name: Digest) -> Option<EntryId> {
        Some(self.settled(&self.pair(name)))
    }

    fn entry_burst(&self, names: &[Digest], out: &mut [Option<EntryId>]) {
        assert_eq!(names.len(), out.len());
        assert!(names.len() <= BURST_MAX);
        let nowhere = &self.parts[0].lines[0];
        let mut pairs = [Pair { lines: [nowhere; 2], bits: [0; 2] }; BURST_MAX];
        for (pair, name) in pairs.iter_mut().zip(names) {
            *pair = self.pair(*name);
            pair.lines.iter().for_each(|line| prefetch::read(*line));
        }
        let mut disturbed = [false; BURST_MAX / GROUP];
        for ((pairs, out), disturbed) in pairs.chunks(GROUP).zip(out.chunks_mut(GROUP)).zip(&mut disturbed) {
            let since = self.journal.moment();
            for (pair, found) in pairs.iter().zip(out) {
                *found = Some(self.combine(pair, |word| word.load(Ordering::Acquire)));
            }
            *disturbed = !self.journal.undisturbed(since);
        }
        // What met a change is asked once more, at the burst's end.
        if disturbed.contains(&true) {
            for (i, found) in out.iter_mut().enumerate().filter(|(i, _)| disturbed[i / GROUP]) {
                *found = Some(self.settled(&pairs[i]));
            }
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

//! The nexthops of each group in a cache line of their own, for workers.
//!
//! The entry's id gives the address of the line. A reader follows no pointer to other lines and writes no reference
//! count. Groups that are too large for a line are read from `groups`, which has all groups.
//!
//! A line is a sequence lock without waiting: a reader that meets a line being written reads from `groups` as well.

use std::sync::OnceLock;

use byname_lookup::{EntryId, prefetch};
use byname_wire::FaceId;

use super::{GROUPS_MAX, Nexthop};
use crate::sync::{AtomicU64, Ordering, fence};

/// Number of nexthops that fit in a line.
const NEXTHOPS_MAX: usize = 3;
/// Number of lines in a chunk: 64 KiB.
const CHUNK: usize = 1024;
/// Bits of a line's state below its version. They hold the number of nexthops plus one; zero means that `groups` must
/// be read.
const COUNT_BITS: u32 = 8;

#[repr(align(64))]
struct Line {
    state: AtomicU64,
    /// Pairs of face and cost.
    nexthops: [[AtomicU64; 2]; NEXTHOPS_MAX],
}

impl Line {
    fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Line { state: zero(), nexthops: std::array::from_fn(|_| [zero(), zero()]) }
    }

    /// Only one thread at a time may write.
    fn write(&self, nexthops: &[Nexthop]) {
        let version = self.state.load(Ordering::Relaxed) >> COUNT_BITS;
        self.state.store((version + 1) << COUNT_BITS, Ordering::Relaxed);
        // A reader that reads one of the new words sees the state above or a later one.
        fence(Ordering::Release);
        if nexthops.len() > NEXTHOPS_MAX {
            return;
        }
        for (nexthop, [face, cost]) in nexthops.iter().zip(&self.nexthops) {
            face.store(nexthop.face.0, Ordering::Relaxed);
            cost.store(nexthop.cost, Ordering::Relaxed);
        }
        self.state.store(((version + 2) << COUNT_BITS) | (nexthops.len() as u64 + 1), Ordering::Release);
    }

    /// Puts the nexthops into an empty vector. Returns false, and none, if they do not fit or are being written.
    #[inline]
    fn read(&self, nexthops: &mut Vec<Nexthop>) -> bool {
        let state = self.state.load(Ordering::Acquire);
        let Some(count) = (state & ((1 << COUNT_BITS) - 1)).checked_sub(1) else { return false };
        for [face, cost] in self.nexthops.iter().take(count as usize) {
            nexthops.push(Nexthop { face: FaceId(face.load(Ordering::Relaxed)), cost: cost.load(Ordering::Relaxed) });
        }
        // Pairs with the fence in `write`: if a word was newer, the state is newer too.
        fence(Ordering::Acquire);
        let is_whole = self.state.load(Ordering::Relaxed) == state;
        if !is_whole {
            nexthops.clear();
        }
        is_whole
    }
}

/// Lines by entry id. Chunks are made when they are first needed and never move.
pub(super) struct Lines {
    chunks: Box<[OnceLock<Box<[Line]>>]>,
}

impl Lines {
    pub(super) fn new() -> Self {
        Lines { chunks: (0..GROUPS_MAX as usize / CHUNK).map(|_| OnceLock::new()).collect() }
    }

    /// Writes the nexthops of an entry, which must already be in `groups`. Only one thread at a time may call this.
    pub(super) fn set(&self, entry: EntryId, nexthops: &[Nexthop]) {
        let chunk = self.chunks[entry.0 as usize / CHUNK].get_or_init(|| (0..CHUNK).map(|_| Line::new()).collect());
        chunk[entry.0 as usize % CHUNK].write(nexthops);
    }

    /// Puts the nexthops of an entry into an empty vector. Returns false if `groups` must be read instead.
    #[inline]
    pub(super) fn nexthops(&self, entry: EntryId, nexthops: &mut Vec<Nexthop>) -> bool {
        self.line(entry).is_some_and(|line| line.read(nexthops))
    }

    /// Prefetches the line of an entry.
    #[inline]
    pub(super) fn prefetch(&self, entry: EntryId) {
        if let Some(line) = self.line(entry) {
            prefetch::read_soon(line);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let chunks = self.chunks.iter().filter_map(OnceLock::get);
        size_of_val(&*self.chunks) + chunks.map(|chunk| size_of_val(&**chunk)).sum::<usize>()
    }

    #[inline]
    fn line(&self, entry: EntryId) -> Option<&Line> {
        Some(&self.chunks.get(entry.0 as usize / CHUNK)?.get()?[entry.0 as usize % CHUNK])
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use std::sync::Arc;

    /// Groups of one nexthop, of two, and of more than fit: a reader sees one of them whole, or none.
    #[test]
    fn a_line_is_read_whole_or_not_at_all() {
        loom::model(|| {
            let nexthops = |n: u64, count: u64| -> Vec<Nexthop> {
                (0..count).map(|i| Nexthop { face: FaceId(10 * n + i), cost: n }).collect()
            };
            let read = |line: &Line| {
                let mut nexthops = Vec::new();
                line.read(&mut nexthops).then_some(nexthops)
            };
            let line = Arc::new(Line::new());
            line.write(&nexthops(1, 1));
            let reading = loom::thread::spawn({
                let line = line.clone();
                move || read(&line)
            });
            line.write(&nexthops(2, 2));
            line.write(&nexthops(3, 4));
            let seen = reading.join().expect("the reader does not panic");
            assert!(seen.is_none_or(|seen| *seen == nexthops(seen[0].cost, seen[0].cost)));
            assert!(read(&line).is_none());
        });
    }
}

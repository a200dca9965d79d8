//! Free buffers that no thread keeps, in the chunks that they are cut from.
//!
//! Buffers of a class lie side by side in chunks of 2 MiB, each at a multiple of its size: closer than
//! an allocator puts them, and one of 256 octets has both lines of each pair that a processor fetches
//! at once. They lie on small pages: large ones made no packet cheaper, and the kernel can take
//! milliseconds to find one, for which the packet that needs it would wait.
//!
//! Threads take and give many at a time, behind a lock for each class. They take from the chunk at the
//! highest address, mostly the oldest, so that others empty. One whose buffers are all back is given
//! back to the system, but for one of each class, lest one come and go with every batch.

use std::alloc::Layout;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, MutexGuard, PoisonError};

use byname_lookup::memory;

use super::{Buffer, CLASS_BYTES};
use crate::sync::Mutex;

/// Buffers that a thread takes or gives at a time, at most.
pub(super) const BATCH: usize = 256;

static DEPOTS: LazyLock<[Mutex<Depot>; CLASS_BYTES.len()]> =
    LazyLock::new(|| CLASS_BYTES.map(|buffer_bytes| Mutex::new(Depot::new(buffer_bytes))));

/// Adds free buffers to a stock: one at least.
pub(super) fn take(class: usize, stock: &mut Vec<Buffer>) {
    depot(class).take(stock);
}

/// Takes back buffers that nobody holds any more.
pub(super) fn give(class: usize, buffers: &mut [Buffer]) {
    let empty = depot(class).give(buffers);
    // Not while others wait for the lock: the system takes its time.
    drop(empty);
}

fn depot(class: usize) -> MutexGuard<'static, Depot> {
    // A panic there is a buffer that is no chunk's, and leaves all others as they were.
    DEPOTS[class].lock().unwrap_or_else(PoisonError::into_inner)
}

/// Chunks of a class.
struct Depot {
    buffer_bytes: usize,
    /// By address.
    chunks: BTreeMap<usize, Chunk>,
    /// Addresses of those that have a free buffer, and one in use.
    with_free: BTreeSet<usize>,
    /// Address of one that has none in use.
    spare: Option<usize>,
}

struct Chunk {
    memory: memory::Chunk,
    /// Free buffers that were in use before, by their number in the chunk. What they hold is what a
    /// packet left there.
    free: Vec<u16>,
    /// Buffers from this number on have never been in use. Their octets are zeros.
    fresh: u16,
}

impl Depot {
    fn new(buffer_bytes: usize) -> Depot {
        Depot { buffer_bytes, chunks: BTreeMap::new(), with_free: BTreeSet::new(), spare: None }
    }

    fn take(&mut self, stock: &mut Vec<Buffer>) {
        if self.with_free.is_empty() {
            let address = self.spare.take().unwrap_or_else(|| self.add_chunk());
            self.with_free.insert(address);
        }
        let all = self.buffers_in_chunk();
        let mut wanted = BATCH;
        while wanted > 0
            && let Some(&address) = self.with_free.last()
        {
            let chunk = self.chunks.get_mut(&address).expect("it has an address in both");
            // Those used before first: they have pages. Of others the lowest is on top of the stock.
            let used = wanted.min(chunk.free.len());
            let fresh = (wanted - used).min(all - usize::from(chunk.fresh));
            let first_kept = chunk.free.len() - used;
            let numbers = (chunk.fresh..chunk.fresh + fresh as u16).rev().chain(chunk.free.drain(first_kept..));
            let places = numbers.map(|number| chunk.memory.place(usize::from(number) * self.buffer_bytes));
            stock.extend(places.map(|place| Buffer(place.cast())));
            chunk.fresh += fresh as u16;
            wanted -= used + fresh;
            if chunk.free_buffers(all) == 0 {
                self.with_free.remove(&address);
            }
        }
    }

    /// Returns chunks that are not needed any more.
    #[must_use]
    fn give(&mut self, buffers: &mut [Buffer]) -> Vec<memory::Chunk> {
        let all = self.buffers_in_chunk();
        let mut empty = Vec::new();
        buffers.sort_unstable_by_key(|buffer| buffer.0);
        for buffers in buffers.chunk_by(|one, next| address_of_chunk(*one) == address_of_chunk(*next)) {
            let address = address_of_chunk(buffers[0]);
            let chunk = self.chunks.get_mut(&address).expect("a buffer is cut from a chunk");
            if chunk.free_buffers(all) == 0 {
                self.with_free.insert(address);
            }
            let number = |buffer: &Buffer| (buffer.0.addr().get() - address) / self.buffer_bytes;
            chunk.free.extend(buffers.iter().map(|buffer| number(buffer) as u16));
            if chunk.free_buffers(all) < all {
                continue;
            }
            self.with_free.remove(&address);
            if self.spare.is_none() {
                self.spare = Some(address);
            } else {
                empty.extend(self.chunks.remove(&address).map(|chunk| chunk.memory));
            }
        }
        empty
    }

    /// Returns its address.
    #[cold]
    fn add_chunk(&mut self) -> usize {
        let Ok(memory) = memory::Chunk::zeroed() else {
            std::alloc::handle_alloc_error(Layout::new::<[u8; memory::Chunk::BYTES]>())
        };
        let address = memory.place(0).addr().get();
        self.chunks.insert(address, Chunk { memory, free: Vec::new(), fresh: 0 });
        address
    }

    fn buffers_in_chunk(&self) -> usize {
        memory::Chunk::BYTES / self.buffer_bytes
    }
}

impl Chunk {
    /// Of `all` that it was cut into.
    fn free_buffers(&self, all: usize) -> usize {
        all - usize::from(self.fresh) + self.free.len()
    }
}

fn address_of_chunk(buffer: Buffer) -> usize {
    buffer.0.addr().get() & !(memory::Chunk::BYTES - 1)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// So many buffers at once, all of them different.
    fn taken(depot: &mut Depot, count: usize) -> Vec<Buffer> {
        let mut taken = Vec::new();
        while taken.len() < count {
            depot.take(&mut taken);
        }
        assert_eq!(taken.iter().map(|buffer| buffer.0).collect::<HashSet<_>>().len(), taken.len());
        taken
    }

    #[test]
    fn buffers_lie_side_by_side_in_chunks_of_their_class() {
        for buffer_bytes in CLASS_BYTES {
            let mut depot = Depot::new(buffer_bytes);
            let all = depot.buffers_in_chunk();
            let mut buffers = taken(&mut depot, 3 * all);
            assert_eq!((buffers.len(), depot.chunks.len()), (3 * all, 3));
            buffers.sort_unstable_by_key(|buffer| buffer.0);
            for (i, buffer) in buffers.iter().enumerate() {
                let address = address_of_chunk(*buffer);
                assert_eq!(buffer.0.addr().get(), address + i % all * buffer_bytes);
                assert!(i % all > 0 || address.is_multiple_of(memory::Chunk::BYTES));
            }
        }
    }

    #[test]
    fn a_chunk_whose_buffers_are_back_is_the_systems_but_for_one() {
        for buffer_bytes in CLASS_BYTES {
            let mut depot = Depot::new(buffer_bytes);
            let all = depot.buffers_in_chunk();
            let mut buffers = taken(&mut depot, 4 * all);
            buffers.sort_unstable_by_key(|buffer| buffer.0);
            let (last, mut back): (Vec<_>, Vec<_>) = buffers.iter().enumerate().partition(|(i, _)| i % all == all / 2);
            // Of each chunk one stays out, and none can go.
            back.sort_unstable_by_key(|(i, _)| i % 7);
            for batch in back.chunks(BATCH) {
                let mut batch: Vec<_> = batch.iter().map(|(_, buffer)| **buffer).collect();
                assert!(depot.give(&mut batch).is_empty());
            }
            assert_eq!((depot.chunks.len(), depot.spare, depot.with_free.len()), (4, None, 4));
            let mut last: Vec<_> = last.into_iter().map(|(_, buffer)| *buffer).collect();
            assert_eq!(depot.give(&mut last).len(), 3);
            assert_eq!((depot.chunks.len(), depot.with_free.len()), (1, 0));
            // The spare one is used before another is made, and is spare again.
            let spare = depot.spare.expect("one of four is kept");
            let mut again = taken(&mut depot, all);
            assert!(again.iter().all(|buffer| address_of_chunk(*buffer) == spare));
            assert_eq!((depot.chunks.len(), depot.spare), (1, None));
            assert!(depot.give(&mut again).is_empty());
            assert_eq!((depot.chunks.len(), depot.spare), (1, Some(spare)));
        }
    }

    #[test]
    fn buffers_are_taken_from_one_chunk_while_others_empty() {
        let mut depot = Depot::new(CLASS_BYTES[0]);
        let all = depot.buffers_in_chunk();
        let mut buffers = taken(&mut depot, 8 * all);
        // Every second goes back; then some are taken, and each of them is of the highest chunks.
        buffers.sort_unstable_by_key(|buffer| buffer.0);
        let highest = address_of_chunk(buffers[6 * all]);
        let mut back: Vec<_> = buffers.iter().copied().step_by(2).collect();
        assert!(depot.give(&mut back).is_empty());
        assert_eq!(depot.with_free.len(), 8);
        let again = taken(&mut depot, all);
        assert!(again.iter().all(|buffer| address_of_chunk(*buffer) >= highest));
    }
}

//! Free buffers that no thread keeps, in the chunks that they are cut from.
//!
//! The buffers of a class lie side by side in chunks of 2 MiB, each aligned to its size. They lie closer than an
//! allocator puts them. A buffer has both lines of each pair that a processor fetches at once. Chunks have
//! small pages. Large pages made no packet cheaper, and the kernel can take milliseconds to find one while a packet
//! waits.
//!
//! Threads take and give buffers in batches, behind one lock for each class. They take from the chunk at the highest
//! address, which is mostly the oldest, so that other chunks become empty. An empty chunk goes back to the system. Each
//! class keeps one empty chunk, so that none comes and goes with every batch.

use std::alloc::Layout;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, MutexGuard, PoisonError};

use byname_lookup::memory;

use super::{Buffer, CLASS_BYTES};
use crate::sync::Mutex;

/// Maximum of buffers that a thread takes or gives at a time.
pub(super) const BATCH: usize = 256;

static DEPOTS: LazyLock<[Mutex<Depot>; CLASS_BYTES.len()]> =
    LazyLock::new(|| CLASS_BYTES.map(|buffer_bytes| Mutex::new(Depot::new(buffer_bytes))));

/// Adds free buffers to a stock: at least one.
pub(super) fn take(class: usize, stock: &mut Vec<Buffer>) {
    depot(class).take(stock);
}

/// Takes back buffers that no packet holds any more.
pub(super) fn give(class: usize, buffers: &mut [Buffer]) {
    let empty = depot(class).give(buffers);
    // After the lock is released: the system call is slow, and other threads may wait for the lock.
    drop(empty);
}

fn depot(class: usize) -> MutexGuard<'static, Depot> {
    // The only panic under this lock is for a buffer that is of no chunk. It leaves all other buffers as they were.
    DEPOTS[class].lock().unwrap_or_else(PoisonError::into_inner)
}

/// The chunks of a class.
struct Depot {
    buffer_bytes: usize,
    /// By address.
    chunks: BTreeMap<usize, Chunk>,
    /// Addresses of the chunks that have both a free buffer and one in use.
    with_free: BTreeSet<usize>,
    /// Address of a chunk that has no buffer in use.
    spare: Option<usize>,
}

struct Chunk {
    memory: memory::Chunk,
    /// Numbers, in the chunk, of the free buffers that were in use before. They still hold bytes of old packets.
    free: Vec<u16>,
    /// Buffers from this number on were never in use. Their bytes are zeros.
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
            // Buffers that were used before come first, because they have pages. The lowest of the others is on top of
            // the stock.
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

    /// Allocates a chunk and returns its address.
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
    /// Number of free buffers, in a chunk that was cut into `all`.
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

    /// Takes at least `count` buffers, which must all differ.
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
            // One buffer of each chunk stays out, so no chunk is freed.
            back.sort_unstable_by_key(|(i, _)| i % 7);
            for batch in back.chunks(BATCH) {
                let mut batch: Vec<_> = batch.iter().map(|(_, buffer)| **buffer).collect();
                assert!(depot.give(&mut batch).is_empty());
            }
            assert_eq!((depot.chunks.len(), depot.spare, depot.with_free.len()), (4, None, 4));
            let mut last: Vec<_> = last.into_iter().map(|(_, buffer)| *buffer).collect();
            assert_eq!(depot.give(&mut last).len(), 3);
            assert_eq!((depot.chunks.len(), depot.with_free.len()), (1, 0));
            // The spare chunk is used before another is made, and becomes spare again.
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
        // Every second buffer goes back. Buffers taken afterwards come only from the highest chunks.
        buffers.sort_unstable_by_key(|buffer| buffer.0);
        let highest = address_of_chunk(buffers[6 * all]);
        let mut back: Vec<_> = buffers.iter().copied().step_by(2).collect();
        assert!(depot.give(&mut back).is_empty());
        assert_eq!(depot.with_free.len(), 8);
        let again = taken(&mut depot, all);
        assert!(again.iter().all(|buffer| address_of_chunk(*buffer) >= highest));
    }
}

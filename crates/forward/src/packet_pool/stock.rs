//! Free buffers that a thread keeps: last in, first out.
//!
//! A thread prefetches a buffer when the buffer comes back. A packet is received into it soon, and its lines may have
//! left the caches while the content store kept it. Prefetching on return spreads these requests over the handling of
//! packets. As a burst is received, they would be more at once than a core can have outstanding. Buffers from other
//! threads come without this step, so they are prefetched as a burst is received.

use std::cell::RefCell;

use super::chunks;
use super::{Buffer, CLASS_BYTES};

/// Maximum of free buffers that a thread keeps in each class. A loom model keeps none, so that it frees all of its
/// buffers.
const FREE_MAX: usize = if cfg!(loom) { 0 } else { 1024 };

/// Buffers from other threads are prefetched this many packets ahead.
const AHEAD: usize = 32;

/// One thread's free buffers, by class.
struct Stock([Free; CLASS_BYTES.len()]);

impl Drop for Stock {
    fn drop(&mut self) {
        for (class, free) in self.0.iter_mut().enumerate() {
            chunks::give(class, &mut free.buffers);
        }
    }
}

thread_local! {
    static STOCK: RefCell<Stock> = const { RefCell::new(Stock([const { Free::NONE }; CLASS_BYTES.len()])) };
}

/// The free buffers of one class.
struct Free {
    /// The last is taken first.
    buffers: Vec<Buffer>,
    /// Number of buffers, from the first on, that were not prefetched.
    unasked: usize,
    /// Whether a buffer was taken since the last batch went to other threads. If so, a buffer that comes back is taken
    /// again soon.
    in_use: bool,
}

impl Free {
    const NONE: Free = Free { buffers: Vec::new(), unasked: 0, in_use: false };

    /// Takes a buffer, if there is one.
    #[inline]
    fn take(&mut self, class: usize) -> Option<Buffer> {
        let buffer = self.buffers.pop()?;
        self.in_use = true;
        if self.lacks_asked() {
            self.ask_ahead(class);
        }
        Some(buffer)
    }

    fn lacks_asked(&self) -> bool {
        self.unasked > 0 && self.unasked + AHEAD > self.buffers.len()
    }

    fn ask_ahead(&mut self, class: usize) {
        self.unasked = self.unasked.min(self.buffers.len());
        // Two for each one taken, until there are enough.
        for _ in 0..2 {
            if self.lacks_asked() {
                self.unasked -= 1;
                self.buffers[self.unasked].prefetch(class);
            }
        }
    }

    /// Keeps a buffer, if there is room. Returns whether there was.
    #[inline]
    fn keep(&mut self, buffer: Buffer, class: usize) -> bool {
        if self.buffers.len() >= FREE_MAX {
            return false;
        }
        self.buffers.push(buffer);
        if self.in_use {
            buffer.prefetch(class);
        } else {
            self.unasked = self.buffers.len();
        }
        true
    }

    /// Takes a batch from the chunks and returns one of its buffers.
    fn restock(&mut self, class: usize) -> Buffer {
        chunks::take(class, &mut self.buffers);
        self.unasked = self.buffers.len();
        self.take(class).expect("there is one at least")
    }

    /// Makes room for a buffer: gives the oldest ones back to the chunks.
    fn spill(&mut self, buffer: Buffer, class: usize) {
        self.buffers.push(buffer);
        let oldest = chunks::BATCH.min(self.buffers.len());
        chunks::give(class, &mut self.buffers[..oldest]);
        self.buffers.drain(..oldest);
        (self.unasked, self.in_use) = (self.buffers.len(), false);
    }
}

/// Takes a buffer of a class for a packet.
#[inline]
pub(super) fn take(class: usize) -> Buffer {
    STOCK.with_borrow_mut(|stock| stock.0[class].take(class)).unwrap_or_else(|| restock(class))
}

#[cold]
fn restock(class: usize) -> Buffer {
    STOCK.with_borrow_mut(|stock| stock.0[class].restock(class))
}

/// Puts a buffer that no packet holds into this thread's stock. If that is full, the oldest buffers go to other
/// threads.
#[inline]
pub(super) fn keep(buffer: Buffer, class: usize) {
    // `try_with`: a packet may outlive its thread's stock at thread exit.
    if !STOCK.try_with(|stock| stock.borrow_mut().0[class].keep(buffer, class)).unwrap_or(false) {
        spill(buffer, class);
    }
}

#[cold]
fn spill(buffer: Buffer, class: usize) {
    if STOCK.try_with(|stock| stock.borrow_mut().0[class].spill(buffer, class)).is_err() {
        chunks::give(class, &mut [buffer]);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_buffer_is_asked_for_once_before_it_is_taken() {
        let mut free = Free::NONE;
        let mut taken = vec![free.restock(0)];
        let all = free.buffers.len() + 1;
        assert!(all > 2 * AHEAD);
        // Buffers from the chunks: two are prefetched for each one taken, then one, `AHEAD` in advance.
        for i in 1..all {
            let ahead = (i + 1).min(AHEAD).min(all - i);
            assert_eq!(free.buffers.len() - free.unasked, ahead, "{i}");
            taken.extend(free.take(0));
        }
        assert_eq!((taken.len(), free.unasked), (all, 0));
        // Buffers that come back are prefetched at once, and not again.
        for buffer in taken.drain(..) {
            assert!(free.keep(buffer, 0));
            assert_eq!(free.unasked, 0);
        }
        taken.extend((0..AHEAD).map_while(|_| free.take(0)));
        assert_eq!((taken.len(), free.unasked), (AHEAD, 0));
        taken.drain(..).for_each(|buffer| assert!(free.keep(buffer, 0)));
        chunks::give(0, &mut free.buffers);
    }

    #[test]
    fn what_is_for_other_threads_is_asked_for_when_it_is_taken_after_all() {
        let mut free = Free::NONE;
        let mut others = Free::NONE;
        for _ in 0..FREE_MAX {
            let buffer = others.take(0).unwrap_or_else(|| others.restock(0));
            assert!(free.keep(buffer, 0));
        }
        assert_eq!((free.unasked, free.in_use), (FREE_MAX, false));
        let one = others.take(0).unwrap_or_else(|| others.restock(0));
        assert!(!free.keep(one, 0));
        free.spill(one, 0);
        let left = FREE_MAX + 1 - chunks::BATCH;
        assert_eq!((free.buffers.len(), free.unasked, free.in_use), (left, left, false));
        let one = free.take(0).expect("there are many");
        assert_eq!((free.unasked, free.in_use), (left - 3, true));
        assert!(free.keep(one, 0));
        assert_eq!(free.unasked, left - 3);
        // `take` never prefetches more buffers than there are.
        while let Some(buffer) = free.take(0) {
            others.buffers.push(buffer);
            assert!(free.unasked <= free.buffers.len());
        }
        chunks::give(0, &mut others.buffers);
    }
}

//! Free buffers that a thread keeps: the last that came back is the first to be taken.
//!
//! A buffer's memory is asked for when it comes back, to be there when a packet is received into it,
//! which is soon: what was in it has left the caches if the content store kept it for long. So these
//! lines come one buffer at a time while packets are handled. Asked for as a burst is received, they are
//! more at once than a core waits for. Buffers from other threads are asked for that way nevertheless:
//! there is no earlier.

use std::cell::RefCell;

use super::chunks;
use super::{Buffer, CLASS_BYTES};

/// Free buffers that a thread keeps in each class. A model's buffers end with it.
const FREE_MAX: usize = if cfg!(loom) { 0 } else { 1024 };

/// Buffers from other threads are asked for ahead by so many packets.
const AHEAD: usize = 32;

/// Free buffers of one thread, by class.
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

/// Those of one class.
struct Free {
    /// The last is taken first.
    buffers: Vec<Buffer>,
    /// So many, from the first on, have not been asked for.
    unasked: usize,
    /// Some were taken since others were last given to other threads: what comes back is taken soon.
    in_use: bool,
}

impl Free {
    const NONE: Free = Free { buffers: Vec::new(), unasked: 0, in_use: false };

    /// A buffer, if there is one.
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
        // Two for one that goes, until there are enough.
        for _ in 0..2 {
            if self.lacks_asked() {
                self.unasked -= 1;
                self.buffers[self.unasked].prefetch(class);
            }
        }
    }

    /// Keeps a buffer, if there is room.
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

    /// Takes some from the chunks, and gives one of them.
    fn restock(&mut self, class: usize) -> Buffer {
        chunks::take(class, &mut self.buffers);
        self.unasked = self.buffers.len();
        self.take(class).expect("there is one at least")
    }

    /// Gives back what has been here longest, to make room for a buffer.
    fn spill(&mut self, buffer: Buffer, class: usize) {
        self.buffers.push(buffer);
        let oldest = chunks::BATCH.min(self.buffers.len());
        chunks::give(class, &mut self.buffers[..oldest]);
        self.buffers.drain(..oldest);
        (self.unasked, self.in_use) = (self.buffers.len(), false);
    }
}

/// A buffer of a class, for a packet.
#[inline]
pub(super) fn take(class: usize) -> Buffer {
    STOCK.with_borrow_mut(|stock| stock.0[class].take(class)).unwrap_or_else(|| restock(class))
}

#[cold]
fn restock(class: usize) -> Buffer {
    STOCK.with_borrow_mut(|stock| stock.0[class].restock(class))
}

/// Puts a buffer that nobody holds into this thread's stock, or, where that is full, back to others.
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
        // Those from the chunks: two as one goes, then one, so many ahead.
        for i in 1..all {
            let ahead = (i + 1).min(AHEAD).min(all - i);
            assert_eq!(free.buffers.len() - free.unasked, ahead, "{i}");
            taken.extend(free.take(0));
        }
        assert_eq!((taken.len(), free.unasked), (all, 0));
        // Those that come back: at once, and not again.
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
        // To take it asks no more than there is.
        while let Some(buffer) = free.take(0) {
            others.buffers.push(buffer);
            assert!(free.unasked <= free.buffers.len());
        }
        chunks::give(0, &mut others.buffers);
    }
}

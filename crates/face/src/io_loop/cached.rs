//! Data of the content stores that pass to another process, or come from one.
//!
//! The old process still forwards while it copies its Data, in small parts between bursts. A part shares the packets'
//! buffers, and copies no bytes.

use std::time::Instant;

use byname_forward::cached::{CachedData, CachedOrder};

use super::ForwarderHandle;

/// Data copied in one command.
const COPIED_PER_COMMAND: usize = 256;
/// Data put into a content store in one command.
const RESTORED_PER_COMMAND: usize = 1024;
/// Most Data that pass from one thread: to note their order takes the thread some milliseconds.
const ORDER_MAX: usize = 1 << 20;

/// How much passed of the content stores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CachedCount {
    /// Data that were told.
    pub told: usize,
    /// Data that were there.
    pub all: usize,
}

impl ForwarderHandle {
    /// Gives `tell` the Data of all content stores in parts, those first that are most valuable. Stops at `until`, after
    /// `max` Data, or at an error, which it returns.
    ///
    /// # Errors
    /// An error of `tell`.
    pub fn copy_cached<E>(
        &self,
        max: usize,
        until: Instant,
        mut tell: impl FnMut(Vec<CachedData>) -> Result<(), E>,
    ) -> Result<CachedCount, E> {
        let all = self.cs_info().packets as usize;
        let mut count = CachedCount { told: 0, all };
        let mut orders: Vec<CachedOrder> = self.ask_all(|_, worker| worker.cached_order(ORDER_MAX));
        while orders.iter().any(|order| !order.is_empty()) {
            for (thread, order) in orders.iter_mut().enumerate() {
                let left = max.saturating_sub(count.told);
                if left == 0 || Instant::now() >= until {
                    return Ok(count);
                }
                let part = order.split_first(COPIED_PER_COMMAND.min(left));
                if part.is_empty() {
                    continue;
                }
                let copies = self.line(thread).call(move |io_loop| {
                    let (now, mut copies) = (io_loop.clock.now(), Vec::new());
                    io_loop.seat.ask(|worker| copies = worker.copy_cached(&part, now));
                    copies
                });
                let copies = copies.unwrap_or_default();
                count.told += copies.len();
                tell(copies)?;
            }
        }
        Ok(count)
    }

    /// Puts Data of another process into the content stores, each into that of its home. The last are the most valuable
    /// ones. Returns how many are there afterwards.
    pub fn restore_cached(&self, cached: Vec<CachedData>) -> usize {
        let mut left = cached.into_iter().peekable();
        while left.peek().is_some() {
            let part: Vec<CachedData> = left.by_ref().take(RESTORED_PER_COMMAND).collect();
            // Any thread knows the homes of names.
            let sorted = self.line(0).call(move |io_loop| {
                let mut by_home: Vec<Vec<CachedData>> = (0..io_loop.seat.threads()).map(|_| Vec::new()).collect();
                part.into_iter().for_each(|data| by_home[io_loop.seat.home(data.name())].push(data));
                by_home
            });
            for (home, part) in sorted.unwrap_or_default().into_iter().enumerate() {
                self.line(home).call(move |io_loop| {
                    let now = io_loop.clock.now();
                    io_loop.seat.ask(|worker| worker.restore_cached(part, now));
                });
            }
        }
        self.cs_info().packets as usize
    }
}

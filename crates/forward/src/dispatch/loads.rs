//! How many packets each worker got lately, from all threads together.

use std::sync::Arc;

use super::WORKERS_MAX;
use crate::sync::{AtomicU64, Ordering};

/// Packets that a thread gives before it looks at the loads, and for each worker before it tells the others and asks what
/// they gave.
const EVERY: u32 = 32;
/// Each time that a thread asks, older packets count less by one part in so many.
const FORGET: u64 = 128;
/// A worker has too much if it got more than others by one part in so many.
const UNEVEN: u64 = 16;

/// A count on cache lines of its own.
#[repr(align(128))]
struct Told(AtomicU64);

/// One thread's view of the loads.
// Arrays, not vectors: each packet writes here, and a small vector could share a cache line with one of another thread.
pub(super) struct Loads {
    /// The worker of this thread.
    here: usize,
    /// See [`Loads::nearest`].
    nearest: usize,
    /// Packets that each worker got from all threads, as far as these have told.
    all: Arc<[Told]>,
    /// Packets that this thread gave to each worker since it last told.
    untold: [u64; WORKERS_MAX],
    /// What `all` was then.
    seen: [u64; WORKERS_MAX],
    /// Packets that each worker got lately; older ones count less.
    recent: [u64; WORKERS_MAX],
    left: u32,
}

impl Loads {
    /// The view of the first thread.
    pub fn new(workers: usize) -> Self {
        Loads::over((0..workers).map(|_| Told(AtomicU64::new(0))).collect(), 0)
    }

    /// The view of another thread, whose worker is `here`.
    pub fn of_another_thread(&self, here: usize) -> Self {
        Loads::over(Arc::clone(&self.all), here)
    }

    fn over(all: Arc<[Told]>, here: usize) -> Self {
        let left = EVERY * all.len() as u32;
        let none = [0; WORKERS_MAX];
        Loads { here, nearest: here, untold: none, seen: none, recent: none, left, all }
    }

    /// Notes that a worker got a packet from this thread.
    #[inline]
    pub fn gave(&mut self, worker: usize) {
        self.untold[worker] += 1;
        self.left -= 1;
        if self.left.is_multiple_of(EVERY) {
            self.look();
        }
    }

    #[cold]
    fn look(&mut self) {
        if self.left == 0 {
            self.tell();
        }
        self.nearest = self.find_nearest();
    }

    fn tell(&mut self) {
        self.left = EVERY * self.all.len() as u32;
        for (worker, Told(all)) in self.all.iter().enumerate() {
            // Counts order nothing else.
            let before = all.fetch_add(self.untold[worker], Ordering::Relaxed);
            let now = before.wrapping_add(std::mem::take(&mut self.untold[worker]));
            self.recent[worker] =
                self.recent[worker] - self.recent[worker] / FORGET + now.wrapping_sub(self.seen[worker]);
            self.seen[worker] = now;
        }
    }

    /// The worker for a packet that any worker can handle: that of this thread, unless it got clearly more than another
    /// at the last look.
    #[inline]
    pub fn nearest(&self) -> usize {
        self.nearest
    }

    fn find_nearest(&self) -> usize {
        let load = |worker: usize| self.recent[worker] + self.untold[worker];
        let least = (0..self.all.len()).min_by_key(|&worker| load(worker)).unwrap_or(self.here);
        // Threads tell at different times: two of them can differ by what both have not told.
        let untold = 2 * u64::from(EVERY) * self.all.len() as u64;
        let is_even = load(self.here) <= load(least) + load(least) / UNEVEN + untold;
        if is_even { self.here } else { least }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_stays_while_loads_are_even() {
        let mut first = Loads::new(2);
        let mut second = first.of_another_thread(1);
        for _ in 0..10_000 {
            assert_eq!((first.nearest(), second.nearest()), (0, 1));
            first.gave(0);
            second.gave(1);
        }
    }

    #[test]
    fn what_one_thread_receives_alone_is_shared_by_all() {
        for workers in [2, 3, 5] {
            let mut first = Loads::new(workers);
            let mut got = vec![0u64; workers];
            // Half of the packets have one home, which is the thread that receives them.
            for packet in 0..100_000 {
                let worker = if packet % workers == 0 { 0 } else { first.nearest() };
                first.gave(worker);
                got[worker] += 1;
            }
            let mean = 100_000 / workers as u64;
            assert!(got.iter().all(|got| got.abs_diff(mean) < mean / 8), "{got:?}");
        }
    }

    #[test]
    fn a_thread_hears_what_others_gave() {
        let mut busy = Loads::new(2);
        let mut quiet = busy.of_another_thread(0);
        (0..1000 * EVERY).for_each(|_| busy.gave(0));
        // It has told nothing yet, and so has not asked.
        assert_eq!(quiet.nearest(), 0);
        (0..2 * EVERY).for_each(|_| quiet.gave(1));
        assert_eq!(quiet.nearest(), 1);
    }
}

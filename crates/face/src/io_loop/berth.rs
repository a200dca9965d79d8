//! The places of all loops. A thread that sleeps lends its loop to the others.
//!
//! At low load, waking another thread for one packet would cost more than the packet: tens of microseconds. So a thread
//! that has little for a sleeping thread *visits* its loop instead: it runs a round there, with the packets that it has
//! just given. The sleeper notices nothing. A thread that is busy, or has much to give, wakes the sleeper, and both work
//! at the same time.
//!
//! A loop is locked by its own thread whenever that thread is awake. A visitor only tries the lock, so no thread waits
//! for another, with one exception: a thread that wakes up while somebody visits its loop waits for the end of that
//! visit, which is a few rounds.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use byname_forward::dispatch::WORKERS_MAX;

use super::IoLoop;
use crate::waker::LoopWaker;

/// Most packets and news for one sleeper with which a thread visits it.
const VISIT_MAX: usize = 16;

/// The place of one loop.
struct Berth {
    /// `None` once the loop has ended.
    io_loop: Mutex<Option<IoLoop>>,
    waker: LoopWaker,
}

/// The places of all loops, by the numbers of their threads.
pub(super) struct Berths(Vec<Berth>);

impl Berths {
    pub fn new(loops: impl Iterator<Item = IoLoop>) -> Self {
        let berth = |io_loop: IoLoop| Berth { waker: io_loop.waker.clone(), io_loop: Mutex::new(Some(io_loop)) };
        Berths(loops.map(berth).collect())
    }

    /// The loop of the calling thread, until it sleeps.
    pub fn lock(&self, number: usize) -> MutexGuard<'_, Option<IoLoop>> {
        // A visitor that panicked ends the process.
        self.0[number].io_loop.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all threads.
    pub fn wake_all(&self) {
        self.0.iter().for_each(|berth| berth.waker.wake());
    }

    /// Makes the threads that `io_loop` has given something see it. `is_busy` says that the calling thread has more work
    /// of its own.
    pub fn make_seen(&self, io_loop: &mut IoLoop, is_busy: bool) {
        let number = io_loop.seat.number();
        let mut given = Given::default();
        io_loop.seat.take_given(|thread, items| given.note(thread, items));
        while let Some((thread, is_little)) = given.next() {
            let berth = &self.0[thread];
            if thread == number || !berth.waker.is_asleep() {
                continue;
            }
            if is_busy || !is_little {
                berth.waker.wake();
                continue;
            }
            let mut visited = match berth.io_loop.try_lock() {
                Ok(visited) => visited,
                Err(TryLockError::Poisoned(visited)) => visited.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    // Its own thread is about to sleep or has just woken, or somebody else visits it.
                    berth.waker.wake();
                    continue;
                }
            };
            let Some(visited) = visited.as_mut() else { continue };
            if visited.be_visited() {
                berth.waker.wake();
            }
            visited.seat.take_given(|thread, items| given.note(thread, items));
        }
    }
}

/// The threads that were given something, as sets of bits.
#[derive(Default)]
struct Given {
    threads: u64,
    /// Those that were given much.
    much: u64,
}

const _: () = assert!(WORKERS_MAX <= u64::BITS as usize);

impl Given {
    fn note(&mut self, thread: usize, items: usize) {
        self.threads |= 1 << thread;
        self.much |= u64::from(items > VISIT_MAX) << thread;
    }

    /// Takes out one thread, and says whether it was given little.
    fn next(&mut self) -> Option<(usize, bool)> {
        let bit = self.threads & self.threads.wrapping_neg();
        let is_little = self.much & bit == 0;
        self.threads &= !bit;
        self.much &= !bit;
        (bit != 0).then_some((bit.trailing_zeros() as usize, is_little))
    }
}

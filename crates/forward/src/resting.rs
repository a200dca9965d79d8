//! Threads that rest while the first thread does their work.
//!
//! A thread that rests *offers* its work to the first thread, and sleeps until it is *called*. The first thread takes
//! the offer over, and gives the work back before it calls. [`Resting`] has only what the threads tell each other. The
//! work itself lies behind a lock that its owner holds: a thread releases the lock before it offers, and the first thread
//! releases it before it calls. How threads sleep and are woken is the caller's.
//!
//! No wake-up is lost. A thread that offers sets its bit, then wakes the first thread. The first thread announces its
//! sleep ([`Asleep`](crate::asleep::Asleep)), then looks for offers. A thread that rests looks for a call, then sleeps.
//! The first thread calls, then wakes the thread. When the first thread ends, it wakes all threads after it has said so.

use crate::dispatch::WORKERS_MAX;
use crate::sync::{AtomicBool, AtomicU64, Ordering};

const _: () = assert!(WORKERS_MAX <= u64::BITS as usize);

/// What the first thread and the others tell each other.
pub struct Resting {
    /// Threads that rest, and whose work the first thread has not taken over yet, as a set of bits.
    offers: AtomicU64,
    /// For each thread: set when it must do its own work again.
    called: Box<[AtomicBool]>,
    /// Whether the first thread takes over no work any more.
    first_has_ended: AtomicBool,
}

impl Resting {
    /// For this many threads, none of which rests.
    ///
    /// # Panics
    /// If there are more than [`WORKERS_MAX`].
    pub fn new(threads: usize) -> Self {
        assert!(threads <= WORKERS_MAX, "at most {WORKERS_MAX} threads");
        Resting {
            offers: AtomicU64::new(0),
            called: (0..threads).map(|_| AtomicBool::new(false)).collect(),
            first_has_ended: AtomicBool::new(false),
        }
    }

    /// Rests: offers this thread's work, which must not be locked, and sleeps until the thread is called or the first
    /// thread has ended. `wake_first` wakes the first thread if it sleeps. `sleep` may return early, and must return at
    /// once if the thread was woken before.
    pub fn rest(&self, thread: usize, wake_first: impl FnOnce(), mut sleep: impl FnMut()) {
        self.offers.fetch_or(1 << thread, Ordering::SeqCst);
        wake_first();
        while !self.called[thread].swap(false, Ordering::SeqCst) && !self.has_ended() {
            sleep();
        }
    }

    /// For the first thread: whether there are offers. It must not sleep then. To be asked after it has announced its
    /// sleep.
    pub fn has_offers(&self) -> bool {
        self.offers.load(Ordering::SeqCst) != 0
    }

    /// For the first thread: takes all offers. Yields the threads, whose work is not locked by then.
    pub fn take_offers(&self) -> impl Iterator<Item = usize> + use<> {
        // Mostly there are none, and a load costs less than a swap.
        let mut offers =
            if self.offers.load(Ordering::Relaxed) == 0 { 0 } else { self.offers.swap(0, Ordering::SeqCst) };
        std::iter::from_fn(move || {
            let thread = (offers != 0).then(|| offers.trailing_zeros() as usize)?;
            offers &= offers - 1;
            Some(thread)
        })
    }

    /// For the first thread: calls a thread whose work it has given back. The caller wakes the thread after this.
    pub fn call(&self, thread: usize) {
        // A swap, not a store: loom would also let a store come before an earlier swap of `rest`.
        self.called[thread].swap(true, Ordering::SeqCst);
    }

    /// For the first thread: says that it has ended. After this, it must call the threads whose work it has, take the
    /// last offers, and wake all threads.
    pub fn end(&self) {
        self.first_has_ended.store(true, Ordering::SeqCst);
    }

    /// Whether the first thread has ended. Then no thread may rest any more.
    pub fn has_ended(&self) -> bool {
        self.first_has_ended.load(Ordering::SeqCst)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn offers_are_taken_once_and_calls_end_a_rest() {
        let resting = Resting::new(WORKERS_MAX);
        resting.call(3);
        resting.call(63);
        let (mut woken, mut slept) = (0, 0);
        for thread in [3, 63] {
            resting.rest(thread, || woken += 1, || slept += 1);
        }
        assert_eq!((woken, slept), (2, 0), "they were called before");
        assert!(resting.has_offers());
        assert!(resting.take_offers().eq([3, 63]));
        assert!(!resting.has_offers() && resting.take_offers().next().is_none());
        resting.rest(3, || (), || resting.call(3));
        resting.rest(3, || (), || resting.end());
        assert!(resting.has_ended());
    }
}

#[cfg(all(test, loom))]
mod models {
    use std::sync::Arc;

    use super::*;
    use crate::asleep::Asleep;

    /// Rounds that each thread runs at least.
    const ROUNDS: u64 = 2;

    struct Crew {
        resting: Resting,
        asleep: Asleep,
        first: loom::thread::Thread,
        /// Rounds of the other thread's loop.
        rounds: AtomicU64,
        /// Whether a thread runs that loop. No lock: loom's locks lose wake-ups that come before `park`.
        is_running: AtomicBool,
    }

    impl Crew {
        /// Runs a round of the other thread's loop.
        fn round(&self) {
            assert!(!self.is_running.swap(true, Ordering::Relaxed), "two threads run one loop");
            // A round that another thread ran before, and that this one does not see, would be lost.
            self.rounds.store(self.rounds.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            self.is_running.store(false, Ordering::Relaxed);
        }

        /// The other thread: runs a round, then rests.
        fn run_other(&self) {
            for _ in 0..ROUNDS {
                self.round();
                if self.resting.has_ended() {
                    continue;
                }
                let wake_first = || {
                    if self.asleep.must_wake() {
                        self.first.unpark();
                    }
                };
                self.resting.rest(1, wake_first, loom::thread::park);
            }
        }

        /// Runs a round for the other thread, and lets it run its own again.
        fn adopt_and_call(&self, other: &loom::thread::Thread) -> bool {
            let mut offers = self.resting.take_offers();
            let Some(thread) = offers.next() else { return false };
            assert!(thread == 1 && offers.next().is_none());
            self.round();
            self.resting.call(1);
            other.unpark();
            true
        }
    }

    /// The first thread adopts the other's loop a few times, and ends while the other may be about to rest. A thread
    /// that sleeps for ever is a deadlock, which loom reports. A loop that two threads run at once panics.
    #[test]
    fn no_thread_is_forgotten_and_none_runs_a_loop_of_another() {
        for adoptions in 0..=ROUNDS {
            loom::model(move || {
                let crew = Arc::new(Crew {
                    resting: Resting::new(2),
                    asleep: Asleep::default(),
                    first: loom::thread::current(),
                    rounds: AtomicU64::new(0),
                    is_running: AtomicBool::new(false),
                });
                let other = loom::thread::spawn({
                    let crew = Arc::clone(&crew);
                    move || crew.run_other()
                });
                let mut adopted = 0;
                while adopted < adoptions {
                    if crew.adopt_and_call(other.thread()) {
                        adopted += 1;
                        continue;
                    }
                    crew.asleep.fall_asleep();
                    if !crew.resting.has_offers() {
                        loom::thread::park();
                    }
                    crew.asleep.awake();
                }
                crew.resting.end();
                crew.resting.take_offers().for_each(|thread| crew.resting.call(thread));
                other.thread().unpark();
                other.join().expect("no panic");
                assert_eq!(crew.rounds.load(Ordering::Relaxed), ROUNDS + adoptions);
            });
        }
    }
}

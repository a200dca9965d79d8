//! A lock of one word that nobody waits for [Hasegawa, "Algorithms of NIC and PIT"].
//!
//! A thread takes the lock by one compare-and-swap. If another thread holds it, the thread tries a few times and gives
//! up: the holder may be suspended, and a packet thread never waits for another.
#![allow(unsafe_code)]

use crate::sync::{AtomicU32, Ordering, UnsafeCell, spin_loop};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Number of attempts. A holder that runs is done after some hundred nanoseconds.
const TRIES: u32 = if cfg!(loom) { 1 } else { 32 };

/// A value that one thread at a time reaches.
pub(super) struct WordLock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: only the holder of the lock reaches the value. The compare-and-swap lets one thread at a time take the lock.
// Its acquire sees everything that earlier holders did before they released the word. The value goes from thread to
// thread, so `T` must be `Send`.
unsafe impl<T: Send> Sync for WordLock<T> {}

impl<T> WordLock<T> {
    /// A lock that is free.
    pub fn new(value: T) -> Self {
        WordLock { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Runs `work` with the value, if the lock can be had at once or after a few attempts. `work` must be short, and
    /// must not take this lock again.
    pub fn try_with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !(0..TRIES).any(|_| self.try_take()) {
            return None;
        }
        // Gives the lock back also if `work` panics. Other threads then find the value as the panic left it.
        let _held = Held(&self.word);
        // SAFETY: this thread holds the lock until `_held` is dropped, so nobody else reaches the value.
        Some(self.value.with_mut(|value| work(unsafe { &mut *value })))
    }

    fn try_take(&self) -> bool {
        let taken = self.word.load(Ordering::Relaxed) == FREE
            && self.word.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !taken {
            spin_loop();
        }
        taken
    }
}

/// Frees the lock when it is dropped.
struct Held<'a>(&'a AtomicU32);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Release: the next holder sees all that this one did.
        self.0.store(FREE, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_taken_lock_is_not_waited_for() {
        let lock = WordLock::new(1);
        let inner = lock.try_with(|value| {
            *value += 1;
            lock.try_with(|_| ())
        });
        assert_eq!(inner, Some(None), "the holder does not get it twice");
        assert_eq!(lock.try_with(|value| *value), Some(2));
    }

    #[test]
    fn a_panic_frees_the_lock() {
        let lock = WordLock::new(1);
        let panics = std::panic::AssertUnwindSafe(|| lock.try_with(|_| panic!("of a test")));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(lock.try_with(|value| *value), Some(1));
    }
}

#[cfg(all(test, loom))]
mod models {
    use std::sync::Arc;

    use super::*;

    /// Loom's cell reports two threads that reach the value at once, and a write that the next holder does not see.
    #[test]
    fn one_thread_at_a_time_reaches_the_value() {
        loom::model(|| {
            let lock = Arc::new(WordLock::new(0u32));
            let add = |lock: &WordLock<u32>| u32::from(lock.try_with(|value| *value += 1).is_some());
            let others = [(); 2].map(|()| {
                let lock = Arc::clone(&lock);
                loom::thread::spawn(move || add(&lock) + add(&lock))
            });
            let added = add(&lock) + others.map(|other| other.join().expect("no panic")).iter().sum::<u32>();
            assert_eq!(lock.try_with(|value| *value), Some(added));
            assert!(added >= 1, "somebody gets it");
        });
    }
}

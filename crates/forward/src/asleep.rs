//! Whether a thread sleeps, or is about to: so that it is woken with a system call only then.

use crate::sync::{AtomicBool, Ordering, fence};

/// One thread's sleep. How it sleeps and is woken is its owner's affair.
#[derive(Default)]
pub struct Asleep(AtomicBool);

impl Asleep {
    /// The thread is about to sleep; it must look once more, after this, whether it has something
    /// to do.
    pub fn fall_asleep(&self) {
        self.0.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The thread runs again.
    pub fn awake(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    /// To be asked after something was given to the thread: whether to wake it.
    pub fn must_wake(&self) -> bool {
        // With the fence in `fall_asleep`: either the thread sees what it was given before it
        // sleeps, or this sees that it is about to.
        fence(Ordering::SeqCst);
        self.0.load(Ordering::SeqCst) && self.0.swap(false, Ordering::SeqCst)
    }
}

#[cfg(all(test, loom))]
mod models {
    use std::sync::Arc;

    use super::*;
    use crate::sync::AtomicU64;

    /// A thread that sleeps although something waits for it is a deadlock, which loom reports.
    #[test]
    fn no_wake_up_is_lost() {
        loom::model(|| {
            let (asleep, given) = (Arc::new(Asleep(AtomicBool::new(false))), Arc::new(AtomicU64::new(0)));
            let sleeper = loom::thread::spawn({
                let (asleep, given) = (Arc::clone(&asleep), Arc::clone(&given));
                move || {
                    while given.load(Ordering::Relaxed) < 2 {
                        asleep.fall_asleep();
                        if given.load(Ordering::Relaxed) < 2 {
                            loom::thread::park();
                        }
                        asleep.awake();
                    }
                }
            });
            for n in 1..=2 {
                given.store(n, Ordering::Relaxed);
                if asleep.must_wake() {
                    sleeper.thread().unpark();
                }
            }
            sleeper.join().expect("the sleeper does not panic");
        });
    }
}

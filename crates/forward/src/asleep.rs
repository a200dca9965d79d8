//! Whether a thread sleeps, or is about to: so that it is woken with a system call only then.
//!
//! Whoever is going to sleep says so and looks once more for something to do; whoever gives it
//! something looks afterwards whether it has said so. With a fence between the two steps of both,
//! [`before_looking`] and [`after_giving`], at least one sees what the other has done. [`Asleep`] has its
//! word in this process; memif has it in memory that two processes share.

use crate::sync::{AtomicBool, Ordering, fence};

/// Says that its caller is about to sleep; what it looks at after this, it was perhaps given without
/// being woken.
#[inline]
pub fn before_looking(say: impl FnOnce()) {
    say();
    fence(Ordering::SeqCst);
}

/// Looks whether the one who was just given something has said that it is about to sleep.
#[inline]
pub fn after_giving(has_said: impl FnOnce() -> bool) -> bool {
    fence(Ordering::SeqCst);
    has_said()
}

/// One thread's sleep. How it sleeps and is woken is its owner's affair.
#[derive(Default)]
pub struct Asleep(AtomicBool);

impl Asleep {
    /// The thread is about to sleep; it must look once more, after this, whether it has something
    /// to do.
    pub fn fall_asleep(&self) {
        before_looking(|| self.0.store(true, Ordering::SeqCst));
    }

    /// The thread runs again.
    pub fn awake(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    /// To be asked after something was given to the thread: whether to wake it.
    pub fn must_wake(&self) -> bool {
        after_giving(|| self.0.load(Ordering::SeqCst) && self.0.swap(false, Ordering::SeqCst))
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

    /// memif's ring, as `byname_face::memif` has it: the receiver asks for interrupts by a flag, once for each
    /// time that it has received something, and the sender shows what it sent by an index.
    #[test]
    fn no_interrupt_of_a_ring_is_lost() {
        use loom::sync::atomic::AtomicU16;

        const FRAMES: u16 = 2;
        const NO_INTERRUPTS: u16 = 1;
        struct Ring {
            flags: AtomicU16,
            index: AtomicU16,
            slots: [AtomicU64; FRAMES as usize],
        }

        loom::model(|| {
            let slots = std::array::from_fn(|_| AtomicU64::new(0));
            let ring = Ring { flags: AtomicU16::new(NO_INTERRUPTS), index: AtomicU16::new(0), slots };
            let ring = Arc::new(ring);
            let receiver = loom::thread::spawn({
                let ring = Arc::clone(&ring);
                move || {
                    let (mut next, mut asked) = (0, false);
                    while next < FRAMES {
                        if ring.index.load(Ordering::Relaxed) != next {
                            if std::mem::take(&mut asked) {
                                ring.flags.store(NO_INTERRUPTS, Ordering::Relaxed);
                            }
                            let shown = ring.index.load(Ordering::Acquire);
                            for at in next..shown {
                                assert_eq!(
                                    ring.slots[usize::from(at)].load(Ordering::Relaxed),
                                    7,
                                    "all that an index shows"
                                );
                            }
                            next = shown;
                            continue;
                        }
                        if !std::mem::replace(&mut asked, true) {
                            before_looking(|| ring.flags.store(0, Ordering::Relaxed));
                        }
                        if ring.index.load(Ordering::Relaxed) == next {
                            loom::thread::park();
                        }
                    }
                }
            });
            for at in 0..FRAMES {
                ring.slots[usize::from(at)].store(7, Ordering::Relaxed);
                ring.index.store(at + 1, Ordering::Release);
                if after_giving(|| ring.flags.load(Ordering::Relaxed) & NO_INTERRUPTS == 0) {
                    receiver.thread().unpark();
                }
            }
            receiver.join().expect("the receiver does not panic");
        });
    }
}

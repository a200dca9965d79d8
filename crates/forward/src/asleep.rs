//! Whether a thread sleeps or is about to: only then does a producer wake it with a system call.
//!
//! The sleeper sets a flag, then checks its queue again. The producer enqueues, then checks the flag. Each side has a
//! fence between its two steps ([`before_looking`] and [`after_giving`]), so at least one side sees what the other did.
//! [`Asleep`] keeps its flag in this process. memif keeps its flag in memory that two processes share.

use crate::sync::{AtomicBool, Ordering, fence};

/// Runs `say`, which announces that the caller is about to sleep. The caller must check its queue after this call: a
/// producer that enqueued before it may not wake the caller.
#[inline]
pub fn before_looking(say: impl FnOnce()) {
    say();
    fence(Ordering::SeqCst);
}

/// Whether the consumer of what was just enqueued has announced that it is about to sleep.
#[inline]
pub fn after_giving(has_said: impl FnOnce() -> bool) -> bool {
    fence(Ordering::SeqCst);
    has_said()
}

/// One thread's sleep flag. Its owner decides how the thread sleeps and is woken.
#[derive(Default)]
pub struct Asleep(AtomicBool);

impl Asleep {
    /// The thread is about to sleep. It must check its queue once more after this call.
    pub fn fall_asleep(&self) {
        before_looking(|| self.0.store(true, Ordering::SeqCst));
    }

    /// The thread runs again.
    pub fn awake(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    /// Whether to wake the thread. The producer asks this after it has enqueued something.
    pub fn must_wake(&self) -> bool {
        after_giving(|| self.0.load(Ordering::SeqCst) && self.0.swap(false, Ordering::SeqCst))
    }
}

#[cfg(all(test, loom))]
mod models {
    use std::sync::Arc;

    use super::*;
    use crate::sync::AtomicU64;

    /// A thread that sleeps while its queue has items is a deadlock, which loom reports.
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

    /// memif's ring, as in `byname_face::memif`. The receiver asks for interrupts by a flag, once after each time that
    /// it received something. The sender publishes frames by an index.
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

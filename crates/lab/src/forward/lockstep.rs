//! Keeps threads together, so that the packets between them fit into their rings.
//!
//! A real router's peers stop sending when answers fail to come. Here a thread stops receiving when it is ahead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Alone in its cache line, and in the neighbor line that processors fetch with it.
#[repr(align(128))]
#[derive(Default)]
struct Padded(AtomicU64);

/// Lets no thread wait for this one any more when it is dropped, also by a panic.
pub struct Stopper(pub Arc<Lockstep>);

impl Drop for Stopper {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Steps that each thread has completed, and whether a thread has stopped.
pub struct Lockstep {
    completed: Box<[Padded]>,
    /// Steps by which a thread that begins one may be ahead of another.
    ahead_max: u64,
    stopped: AtomicBool,
}

impl Lockstep {
    /// The steps of this number of threads. Before it begins a step, a thread must wait until it is no more than
    /// `ahead_max` steps ahead of any other.
    pub fn new(threads: usize, ahead_max: u64) -> Self {
        Lockstep {
            completed: (0..threads).map(|_| Padded::default()).collect(),
            ahead_max,
            stopped: AtomicBool::new(false),
        }
    }

    /// Begins anew. No thread may be running.
    pub fn begin(&self) {
        self.completed.iter().for_each(|completed| completed.0.store(0, Ordering::Relaxed));
        self.stopped.store(false, Ordering::Relaxed);
    }

    /// Notes a completed step of a thread. Returns how many it has completed.
    pub fn complete(&self, thread: usize) -> u64 {
        // Only this thread writes its count.
        let completed = self.completed[thread].0.load(Ordering::Relaxed) + 1;
        self.completed[thread].0.store(completed, Ordering::Release);
        completed
    }

    /// The number of steps that all threads must have completed before this one begins its next.
    pub fn needed(&self, thread: usize) -> u64 {
        self.completed[thread].0.load(Ordering::Relaxed).saturating_sub(self.ahead_max)
    }

    /// Whether a thread has completed fewer than `steps` steps, and all are still running.
    pub fn must_wait(&self, steps: u64) -> bool {
        // Acquire: a thread that has completed a step published its packets before.
        self.completed.iter().any(|completed| completed.0.load(Ordering::Acquire) < steps) && !self.is_stopped()
    }

    /// Lets no thread wait for this one any more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether a thread has stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_waits_when_it_is_too_far_ahead_of_the_slowest() {
        let lockstep = Lockstep::new(3, 2);
        for _ in 0..3 {
            assert!(!lockstep.must_wait(0) && lockstep.must_wait(1));
            for step in 1..=100 {
                assert_eq!([0, 2].map(|thread| lockstep.complete(thread)), [step; 2]);
                // Thread 1 has completed as many steps as were needed.
                let needed = step.saturating_sub(2);
                assert_eq!((lockstep.needed(0), lockstep.must_wait(needed)), (needed, step > 2));
                if step > 2 {
                    assert_eq!(lockstep.complete(1), needed);
                    assert!(!lockstep.must_wait(lockstep.needed(0)) && lockstep.must_wait(needed + 1));
                }
            }
            lockstep.stop();
            assert!(!lockstep.must_wait(200) && lockstep.is_stopped());
            lockstep.begin();
        }
    }
}

//! Keeps threads together, so that the packets between them fit into their rings.
//!
//! A real router's peers stop sending when answers fail to come. Here a thread stops receiving when it is ahead.
//!
//! Each thread has a clock that runs only while it does what is timed. A thread that waits for a step of another goes on
//! when that step is completed, but its clock goes on from the other's clock at that step, if that is later. So a wait
//! counts as long as it would if threads did nothing else. The other may do what is not timed (writing packets to the
//! port's memory), and that does not count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

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

/// The steps of a thread, and its clock at the end of each of the latest, in nanoseconds.
struct Steps {
    completed: Padded,
    clocks: Box<[AtomicU64]>,
}

impl Steps {
    fn clock_at(&self, step: u64) -> &AtomicU64 {
        &self.clocks[(step % self.clocks.len() as u64) as usize]
    }
}

/// Steps that each thread has completed, and whether a thread has stopped.
pub struct Lockstep {
    threads: Box<[Steps]>,
    stopped: AtomicBool,
}

impl Lockstep {
    /// The steps of this number of threads. No thread may be more than twice as many steps ahead of another.
    pub fn new(threads: usize) -> Self {
        // A cache line at least, which no other thread writes.
        let clocks = || (0..(2 * threads + 1).max(16)).map(|_| AtomicU64::new(0)).collect();
        let steps = |_| Steps { completed: Padded::default(), clocks: clocks() };
        Lockstep { threads: (0..threads).map(steps).collect(), stopped: AtomicBool::new(false) }
    }

    /// Begins anew. No thread may be running.
    pub fn begin(&self) {
        self.threads.iter().for_each(|thread| thread.completed.0.store(0, Ordering::Relaxed));
        self.stopped.store(false, Ordering::Relaxed);
    }

    /// Notes a completed step of a thread, whose clock shows `clock`. Returns how many that thread has completed.
    pub fn complete(&self, thread: usize, clock: Duration) -> u64 {
        let thread = &self.threads[thread];
        // Only this thread writes its count.
        let completed = thread.completed.0.load(Ordering::Relaxed) + 1;
        thread.clock_at(completed).store(clock.as_nanos() as u64, Ordering::Relaxed);
        thread.completed.0.store(completed, Ordering::Release);
        completed
    }

    /// The latest clock of a thread at this step, which all have completed.
    pub fn clock_at(&self, step: u64) -> Duration {
        let clocks = self.threads.iter().map(|thread| thread.clock_at(step).load(Ordering::Relaxed));
        Duration::from_nanos(if step == 0 { 0 } else { clocks.max().unwrap_or_default() })
    }

    /// Number of steps that a thread has completed.
    pub fn completed(&self, thread: usize) -> u64 {
        self.threads[thread].completed.0.load(Ordering::Relaxed)
    }

    /// Whether a thread has completed fewer than `steps` steps, and all are still running.
    pub fn must_wait(&self, steps: u64) -> bool {
        // Acquire: a thread that has completed a step published its packets before.
        self.threads.iter().any(|thread| thread.completed.0.load(Ordering::Acquire) < steps) && !self.is_stopped()
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
    fn a_wait_counts_by_the_clock_of_the_slowest_thread() {
        let lockstep = Lockstep::new(2);
        let ms = Duration::from_millis;
        for round in 0..3 {
            assert!(!lockstep.must_wait(0) && lockstep.must_wait(1));
            assert_eq!(lockstep.clock_at(0), Duration::ZERO, "{round}");
            // More steps than clocks are kept.
            for step in 1..=100 {
                assert_eq!(lockstep.complete(0, ms(2 * step)), step);
                assert!(lockstep.must_wait(step) && !lockstep.must_wait(step - 1));
                assert_eq!(lockstep.complete(1, ms(3 * step)), step);
                assert!(!lockstep.must_wait(step));
                assert_eq!(lockstep.clock_at(step), ms(3 * step));
                assert_eq!(lockstep.clock_at(step - 1), ms(3 * (step - 1)));
            }
            lockstep.stop();
            assert!(!lockstep.must_wait(200) && lockstep.is_stopped());
            lockstep.begin();
        }
    }
}

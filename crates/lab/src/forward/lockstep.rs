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
    stopped: AtomicBool,
}

impl Lockstep {
    /// The steps of this number of threads.
    pub fn new(threads: usize) -> Self {
        Lockstep { completed: (0..threads).map(|_| Padded::default()).collect(), stopped: AtomicBool::new(false) }
    }

    /// Begins anew. No thread may be running.
    pub fn begin(&self) {
        self.completed.iter().for_each(|completed| completed.0.store(0, Ordering::Relaxed));
        self.stopped.store(false, Ordering::Relaxed);
    }

    /// Notes a completed step of a thread. Returns how many that thread has completed.
    pub fn complete(&self, thread: usize) -> u64 {
        // Only this thread writes its count.
        let completed = self.completed[thread].0.load(Ordering::Relaxed) + 1;
        self.completed[thread].0.store(completed, Ordering::Release);
        completed
    }

    /// Number of steps that a thread has completed.
    pub fn completed(&self, thread: usize) -> u64 {
        self.completed[thread].0.load(Ordering::Relaxed)
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

//! Wakes the packet thread, with a system call only if it sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Wakes one loop from any thread.
#[derive(Clone)]
pub struct LoopWaker {
    inner: Arc<Inner>,
}

struct Inner {
    asleep: AtomicBool,
    waker: mio::Waker,
}

impl LoopWaker {
    pub(crate) fn new(registry: &mio::Registry, token: mio::Token) -> std::io::Result<Self> {
        let waker = mio::Waker::new(registry, token)?;
        Ok(LoopWaker { inner: Arc::new(Inner { asleep: AtomicBool::new(false), waker }) })
    }

    /// To be called after something was queued for the loop.
    pub fn wake(&self) {
        // Sequentially consistent, as is `fall_asleep`: either the loop sees what was queued
        // before it sleeps, or this sees that it is about to.
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.inner.asleep.load(Ordering::SeqCst) && self.inner.asleep.swap(false, Ordering::SeqCst) {
            // Fails only when the process is out of kernel memory; the loop then wakes at its
            // next deadline or packet.
            let _ = self.inner.waker.wake();
        }
    }

    /// The loop is about to sleep; it must look at its queues once more after this.
    pub(crate) fn fall_asleep(&self) {
        self.inner.asleep.store(true, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    /// The loop runs again.
    pub(crate) fn awake(&self) {
        self.inner.asleep.store(false, Ordering::SeqCst);
    }
}

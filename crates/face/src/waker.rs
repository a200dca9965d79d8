//! Wakes the packet thread, with a system call only if it sleeps.

use std::sync::Arc;

use byname_forward::asleep::Asleep;

/// Wakes one loop from any thread.
#[derive(Clone)]
pub struct LoopWaker {
    inner: Arc<Inner>,
}

struct Inner {
    asleep: Asleep,
    waker: mio::Waker,
}

impl LoopWaker {
    pub(crate) fn new(registry: &mio::Registry, token: mio::Token) -> std::io::Result<Self> {
        let waker = mio::Waker::new(registry, token)?;
        Ok(LoopWaker { inner: Arc::new(Inner { asleep: Asleep::default(), waker }) })
    }

    /// To be called after something was queued for the loop.
    pub fn wake(&self) {
        if self.inner.asleep.must_wake() {
            // Fails only when the process is out of kernel memory; the loop then wakes at its
            // next deadline or packet.
            let _ = self.inner.waker.wake();
        }
    }

    /// The loop is about to sleep; it must look at its queues once more after this.
    pub(crate) fn fall_asleep(&self) {
        self.inner.asleep.fall_asleep();
    }

    /// The loop runs again.
    pub(crate) fn awake(&self) {
        self.inner.asleep.awake();
    }
}

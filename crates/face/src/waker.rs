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
    /// Creates a waker whose calls make the poll of `registry` return an event with `token`.
    ///
    /// # Errors
    /// If the system gives no event descriptor.
    pub fn new(registry: &mio::Registry, token: mio::Token) -> std::io::Result<Self> {
        let waker = mio::Waker::new(registry, token)?;
        Ok(LoopWaker { inner: Arc::new(Inner { asleep: Asleep::default(), waker }) })
    }

    /// Wakes the loop if it sleeps. Called after something was queued for the loop.
    pub fn wake(&self) {
        if self.inner.asleep.must_wake() {
            // This fails only if the process is out of kernel memory. The loop then wakes at its next deadline or
            // packet.
            let _ = self.inner.waker.wake();
        }
    }

    /// Announces that the loop is about to sleep. The loop must check its queues once more after this.
    pub fn fall_asleep(&self) {
        self.inner.asleep.fall_asleep();
    }

    /// Announces that the loop runs again.
    pub fn awake(&self) {
        self.inner.asleep.awake();
    }
}

//! Where a port gets what its like on other threads hand over: packets that came to the wrong socket.

use std::sync::OnceLock;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::waker::LoopWaker;

/// Packets that may wait for one port.
const HANDED_OVER_MAX: usize = 1024;

/// A bounded queue to one port.
pub(crate) struct Desk<T> {
    give: Sender<T>,
    take: Receiver<T>,
    waker: OnceLock<LoopWaker>,
}

impl<T> Desk<T> {
    pub(crate) fn new() -> Self {
        let (give, take) = bounded(HANDED_OVER_MAX);
        Desk { give, take, waker: OnceLock::new() }
    }

    /// The port starts. Others wake its loop from now on.
    pub(crate) fn open(&self, waker: &LoopWaker) {
        // Each port starts once.
        let _ = self.waker.set(waker.clone());
    }

    /// Hands something over, for a later [`Desk::wake`]. Returns false if too much waits already.
    pub(crate) fn give(&self, packet: T) -> bool {
        self.give.try_send(packet).is_ok()
    }

    pub(crate) fn wake(&self) {
        // A port that has not started yet looks by itself when it starts.
        self.waker.get().inspect(|waker| waker.wake());
    }

    pub(crate) fn take(&self) -> Option<T> {
        self.take.try_recv().ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.take.is_empty()
    }
}

//! Several ports of one interface, one for each pair of rings.
//!
//! The first port has the control socket. When both ends agree on several pairs of rings, it keeps the first, and gives
//! each other port one. When the connection ends, it takes them back: the ports notice that the *version* has changed,
//! and drop their rings. A port whose peer breaks the rules on its ring tells the first port, which ends the connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::breach::Ended;
use super::rings::Rings;
use crate::waker::LoopWaker;

/// What the ports share.
struct Sharing {
    /// Number of times that rings were given or taken back.
    version: AtomicU64,
    state: Mutex<State>,
    wakers: Vec<OnceLock<LoopWaker>>,
}

#[derive(Default)]
struct State {
    /// Rings that their ports have still to take, by the number of the port.
    waiting: Vec<Option<Rings>>,
    /// Reason for which a port other than the first wants to end the connection.
    ended: Option<Ended>,
}

/// One port's part of an interface.
pub(super) struct Part {
    number: usize,
    sharing: Arc<Sharing>,
    /// The version that this port has followed.
    seen: u64,
}

impl Part {
    /// Parts for so many ports.
    pub fn of_all(ports: usize) -> Vec<Part> {
        let wakers = (0..ports).map(|_| OnceLock::new()).collect();
        let state = State { waiting: (0..ports).map(|_| None).collect(), ended: None };
        let sharing = Arc::new(Sharing { version: AtomicU64::new(0), state: Mutex::new(state), wakers });
        (0..ports).map(|number| Part { number, sharing: Arc::clone(&sharing), seen: 0 }).collect()
    }

    /// Whether this port has the control socket.
    pub fn is_first(&self) -> bool {
        self.number == 0
    }

    /// Number of the port, which is the number of its ring.
    pub fn number(&self) -> u16 {
        self.number as u16
    }

    /// Number of ports.
    pub fn ports(&self) -> u16 {
        self.sharing.wakers.len() as u16
    }

    /// Lets other threads wake this one.
    pub fn start(&self, waker: &LoopWaker) {
        // Each port starts once.
        let _ = self.sharing.wakers[self.number].set(waker.clone());
    }

    /// Whether other ports have changed something.
    pub fn has_changed(&self) -> bool {
        self.sharing.version.load(Ordering::Acquire) != self.seen
    }

    /// Gives the other ports rings. Rings that they have are of an earlier connection.
    pub fn give(&mut self, others: Vec<Rings>) {
        let mut state = self.lock();
        state.ended = None;
        state.waiting.iter_mut().for_each(|waiting| *waiting = None);
        for (waiting, rings) in state.waiting.iter_mut().skip(1).zip(others) {
            *waiting = Some(rings);
        }
        let seen = self.change(state);
        self.seen = seen;
    }

    /// This port's rings, if there are any for it.
    pub fn take(&mut self) -> Option<Rings> {
        let mut state = self.lock();
        let (seen, rings) = (self.sharing.version.load(Ordering::Acquire), state.waiting[self.number].take());
        drop(state);
        self.seen = seen;
        rings
    }

    /// Asks the first port to end the connection, unless it has already.
    pub fn accuse(&mut self, ended: Ended) {
        let mut state = self.lock();
        if self.has_changed() {
            return;
        }
        state.ended = Some(ended);
        let seen = self.change(state);
        self.seen = seen;
    }

    /// The reason for which another port wants to end the connection, if one does.
    pub fn take_accusation(&mut self) -> Option<Ended> {
        let mut state = self.lock();
        let (seen, ended) = (self.sharing.version.load(Ordering::Acquire), state.ended.take());
        drop(state);
        self.seen = seen;
        ended
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.sharing.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a change, and wakes the other ports. Returns the new version.
    fn change(&self, state: MutexGuard<'_, State>) -> u64 {
        let version = self.sharing.version.fetch_add(1, Ordering::AcqRel) + 1;
        drop(state);
        let others = self.sharing.wakers.iter().enumerate().filter(|(number, _)| *number != self.number);
        others.filter_map(|(_, waker)| waker.get()).for_each(LoopWaker::wake);
        version
    }
}

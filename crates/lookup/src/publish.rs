//! Quiescent-state epochs: they tell the writer when no reader can still see what it removed from shared tables.
//!
//! Readers look at shared tables without locks. Between two bursts a reader holds no reference into the
//! tables, and it says so with one atomic store ([`Reader::quiescent`]). The writer changes the tables and starts a
//! [`Grace`]. Once every reader has passed a quiescent point since then, no reader can see what the change removed.
//! [`Control::reclaim`](crate::Control::reclaim) may then free it. A sleeping reader is offline and delays nobody.
//!
//! Readers never wait. The writer waits at most for the longest burst.

use std::sync::Arc;
use std::time::Duration;

use crate::sync::{AtomicU64, Mutex, Ordering, fence, yield_now};

/// The value of an offline reader in place of an epoch.
const OFFLINE: u64 = u64::MAX;

/// One reader's last quiescent point. Alone in its cache line, which only its reader writes.
#[repr(align(128))]
struct Slot(AtomicU64);

/// The epochs of one set of tables.
pub struct Epochs {
    now: AtomicU64,
    readers: Mutex<Vec<Arc<Slot>>>,
}

impl Default for Epochs {
    fn default() -> Self {
        Self::new()
    }
}

impl Epochs {
    /// Epochs without readers.
    pub fn new() -> Self {
        Epochs { now: AtomicU64::new(0), readers: Mutex::new(Vec::new()) }
    }

    /// Adds a reader, which is offline.
    pub fn reader(self: &Arc<Self>) -> Reader {
        let slot = Arc::new(Slot(AtomicU64::new(OFFLINE)));
        self.slots().push(slot.clone());
        Reader { epochs: self.clone(), slot, online: false }
    }

    /// Begins a grace period. The writer calls this after it has removed from the tables what it wants to free.
    pub fn grace(&self) -> Grace<'_> {
        // Release: a reader that announces this epoch or a later one sees the tables as changed.
        let epoch = self.now.fetch_add(1, Ordering::AcqRel) + 1;
        // Pairs with the fence in `Reader::online`: either we see that reader online, or it sees the tables as changed.
        fence(Ordering::SeqCst);
        Grace { epochs: self, epoch }
    }

    fn slots(&self) -> impl std::ops::DerefMut<Target = Vec<Arc<Slot>>> {
        self.readers.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A grace period of [`Epochs`].
#[must_use = "a grace period says when to reclaim"]
pub struct Grace<'a> {
    epochs: &'a Epochs,
    epoch: u64,
}

impl Grace<'_> {
    /// Whether every reader has passed a quiescent point, or was offline, since the grace period began.
    pub fn passed(&self) -> bool {
        // Acquire: what readers did before their quiescent point happened before what we do next.
        self.epochs.slots().iter().all(|slot| slot.0.load(Ordering::Acquire) >= self.epoch)
    }

    /// Waits until the grace period has passed: spins a little, then sleeps in steps of 50 microseconds.
    ///
    /// A thread that has an online reader must not call this: it would wait for itself.
    pub fn wait(self) {
        let mut tries = 0u32;
        while !self.passed() {
            tries = tries.saturating_add(1);
            if tries < 100 || cfg!(loom) {
                yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }
}

/// A reader's part of [`Epochs`]. Dropping it removes the reader.
pub struct Reader {
    epochs: Arc<Epochs>,
    slot: Arc<Slot>,
    online: bool,
}

impl Reader {
    /// From now on the writer waits for this reader. The reader must be online to look at the tables.
    pub fn online(&mut self) {
        if !self.online {
            self.slot.0.store(self.epochs.now.load(Ordering::Acquire), Ordering::Relaxed);
            // Pairs with the fence in `Epochs::grace`.
            fence(Ordering::SeqCst);
            self.online = true;
        }
    }

    /// Says that this reader holds no reference into the tables at this moment. Does nothing while the reader is
    /// offline.
    #[inline]
    pub fn quiescent(&mut self) {
        if self.online {
            // Acquire: after we see the epoch, we see the tables as they were when it began. Release: our reads so far
            // happen before what the writer does when it sees this.
            self.slot.0.store(self.epochs.now.load(Ordering::Acquire), Ordering::Release);
        }
    }

    /// As [`Reader::quiescent`]; in addition, the writer does not wait for this reader until it is online again. A
    /// reader calls this before it sleeps.
    pub fn offline(&mut self) {
        self.slot.0.store(OFFLINE, Ordering::Release);
        self.online = false;
    }

    /// Whether the writer waits for this reader.
    pub fn is_online(&self) -> bool {
        self.online
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.offline();
        self.epochs.slots().retain(|slot| !Arc::ptr_eq(slot, &self.slot));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn grace_waits_for_online_readers_only() {
        let epochs = Arc::new(Epochs::new());
        let (mut busy, mut idle) = (epochs.reader(), epochs.reader());
        busy.online();
        let grace = epochs.grace();
        assert!(!grace.passed());
        busy.quiescent();
        assert!(grace.passed());

        let grace = epochs.grace();
        idle.online();
        busy.quiescent();
        // `idle` came online after the grace period began, so it cannot have seen what was removed.
        assert!(grace.passed());

        let grace = epochs.grace();
        busy.offline();
        assert!(!grace.passed());
        drop(idle);
        assert!(grace.passed());
        grace.wait();
    }

    #[test]
    fn a_quiescent_point_before_the_grace_does_not_count() {
        let epochs = Arc::new(Epochs::new());
        let mut reader = epochs.reader();
        reader.online();
        reader.quiescent();
        let grace = epochs.grace();
        assert!(!grace.passed());
        reader.quiescent();
        assert!(grace.passed());
    }

    #[test]
    fn offline_readers_stay_offline_at_quiescent_points() {
        let epochs = Arc::new(Epochs::new());
        let mut reader = epochs.reader();
        reader.quiescent();
        assert!(!reader.is_online());
        assert!(epochs.grace().passed());
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;

    /// Objects have numbers. `current` is the one that new readers take; those below `freed` are freed.
    fn model(bursts: usize, sleeps: bool) {
        loom::model(move || {
            let epochs = Arc::new(Epochs::new());
            let (current, freed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
            let mut reader = epochs.reader();
            let reading = loom::thread::spawn({
                let (current, freed) = (current.clone(), freed.clone());
                move || {
                    for _ in 0..bursts {
                        reader.online();
                        reader.quiescent();
                        let held = current.load(Ordering::Acquire);
                        assert!(freed.load(Ordering::Relaxed) <= held, "freed while held");
                        if sleeps {
                            reader.offline();
                        }
                    }
                }
            });
            current.store(1, Ordering::Release);
            epochs.grace().wait();
            freed.store(1, Ordering::Relaxed);
            reading.join().expect("the reader does not panic");
        });
    }

    #[test]
    fn nothing_is_freed_under_a_reader_that_stays_online() {
        model(2, false);
    }

    #[test]
    fn nothing_is_freed_under_a_reader_that_sleeps() {
        model(2, true);
    }
}

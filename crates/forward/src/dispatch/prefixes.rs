//! Pending Interests with CanBePrefix whose names are shorter than what decides a packet's worker.

use std::sync::Arc;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Counters that names share: more than names that are pending at once, mostly.
const COUNTERS: usize = 4096;

/// How many are pending, counted by all workers, by the hash of their names.
///
/// What the dispatcher sees may be old. But an Interest is counted before it leaves the worker, and
/// the ring to the packet thread hands that over: Data that answers it comes later.
pub(super) struct PendingPrefixes {
    all: AtomicU64,
    by_name: Box<[AtomicU32]>,
}

impl Default for PendingPrefixes {
    fn default() -> Self {
        PendingPrefixes { all: AtomicU64::new(0), by_name: (0..COUNTERS).map(|_| AtomicU32::new(0)).collect() }
    }
}

impl PendingPrefixes {
    /// Whether none is pending.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.load(Ordering::Relaxed) == 0
    }

    /// Whether one of this name may be pending; sure if not.
    #[inline]
    pub fn may_have(&self, hash: u64) -> bool {
        self.counter(hash).load(Ordering::Relaxed) != 0
    }

    fn counter(&self, hash: u64) -> &AtomicU32 {
        &self.by_name[hash as usize % COUNTERS]
    }
}

/// One worker's hand in it.
pub(crate) struct ShortNames {
    pending: Arc<PendingPrefixes>,
    components: usize,
}

impl ShortNames {
    pub(super) fn new(pending: Arc<PendingPrefixes>, components: usize) -> Self {
        ShortNames { pending, components }
    }

    /// Notes that an Interest with CanBePrefix, whose name has `depth` components and this hash, is
    /// pending now.
    pub fn enters(&self, depth: usize, hash: u64) {
        if depth < self.components {
            self.pending.all.fetch_add(1, Ordering::Relaxed);
            self.pending.counter(hash).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that it is no longer.
    pub fn leaves(&self, depth: usize, hash: u64) {
        if depth < self.components {
            self.pending.counter(hash).fetch_sub(1, Ordering::Relaxed);
            self.pending.all.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

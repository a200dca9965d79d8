//! Pending Interests with CanBePrefix whose names have too few components to select their Data's home.

use std::sync::Arc;

use byname_wire::name_hash::hash_name;
use byname_wire::{NameHashKey, NameRef};

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Number of counters, which names share: mostly there are more counters than names pending at once.
const COUNTERS: usize = 4096;

/// Number of such pending Interests by name hash, counted by all workers.
///
/// A dispatcher may see old counts. But an Interest is counted before it leaves the worker. Data that answers the
/// Interest comes later, and the system calls and rings on its way make the count visible to the thread that receives it.
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
    /// Whether no such Interest is pending.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.load(Ordering::Relaxed) == 0
    }

    /// Whether such an Interest with this name hash may be pending; false is certain.
    #[inline]
    pub fn may_have(&self, hash: u64) -> bool {
        self.counter(hash).load(Ordering::Relaxed) != 0
    }

    fn counter(&self, hash: u64) -> &AtomicU32 {
        &self.by_name[hash as usize % COUNTERS]
    }
}

/// One worker's access to the counts.
#[derive(Clone)]
pub(crate) struct ShortNames {
    pending: Arc<PendingPrefixes>,
    components: usize,
    /// The dispatchers' key. That of the worker may be another one.
    key: NameHashKey,
}

impl ShortNames {
    pub(super) fn new(pending: Arc<PendingPrefixes>, components: usize, key: NameHashKey) -> Self {
        ShortNames { pending, components, key }
    }

    /// Counts an Interest with CanBePrefix that is now pending. Its name has `depth` components, and this hash under
    /// `key`.
    pub fn enters(&self, depth: usize, name: NameRef<'_>, (key, hash): (&NameHashKey, u64)) {
        if depth < self.components {
            let hash = self.hash(name, (key, hash));
            self.pending.all.fetch_add(1, Ordering::Relaxed);
            self.pending.counter(hash).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts that the Interest is no longer pending.
    pub fn leaves(&self, depth: usize, name: NameRef<'_>, (key, hash): (&NameHashKey, u64)) {
        if depth < self.components {
            let hash = self.hash(name, (key, hash));
            self.pending.counter(hash).fetch_sub(1, Ordering::Relaxed);
            self.pending.all.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether this is the dispatchers' key.
    pub fn has_key(&self, key: &NameHashKey) -> bool {
        self.key == *key
    }

    /// The hash under the dispatchers' key.
    fn hash(&self, name: NameRef<'_>, (key, hash): (&NameHashKey, u64)) -> u64 {
        if self.has_key(key) { hash } else { hash_name(&self.key, name) }
    }
}

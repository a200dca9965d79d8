//! What a slot's index leads to: the rule's digest, depth and entry.
//!
//! The array grows by chunks and never moves, so that readers of an old and of a new bucket array
//! share it. A rule is written before its index is published in a slot, and stays as it is until
//! no reader can hold that index any more.

use std::sync::OnceLock;

use crate::entry::EntryId;
use crate::sync::{AtomicU64, Ordering};

/// Rules in a chunk: 64 KiB; few in models, which follow each atomic.
pub(crate) const CHUNK: usize = if cfg!(loom) { 4 } else { 4096 };

struct Rule {
    hash: AtomicU64,
    /// `depth << 32 | entry`.
    depth_entry: AtomicU64,
}

/// Rules by index.
pub(crate) struct RuleArray {
    chunks: Box<[OnceLock<Box<[Rule]>>]>,
}

impl RuleArray {
    /// Room for `rules`, none of it allocated yet.
    pub(crate) fn new(rules: usize) -> Self {
        RuleArray { chunks: (0..rules.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect() }
    }

    /// Rules for which there is room.
    pub(crate) fn capacity(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let chunks = self.chunks.iter().filter_map(OnceLock::get).map(|chunk| size_of_val(&**chunk));
        size_of_val(&*self.chunks) + chunks.sum::<usize>()
    }

    /// Writes a rule that no slot points to. The writer's method.
    ///
    /// # Panics
    /// If `index` is not below the capacity.
    pub(crate) fn write(&self, index: u32, hash: u64, depth: usize, entry: EntryId) {
        let chunk = self.chunks[index as usize / CHUNK].get_or_init(|| {
            (0..CHUNK).map(|_| Rule { hash: AtomicU64::new(0), depth_entry: AtomicU64::new(0) }).collect()
        });
        let rule = &chunk[index as usize % CHUNK];
        // Relaxed: the release store of the slot publishes both.
        rule.hash.store(hash, Ordering::Relaxed);
        rule.depth_entry.store((depth as u64) << 32 | u64::from(entry.0), Ordering::Relaxed);
    }

    /// The entry of a rule, if it has this digest and depth. `index` was read from a slot.
    #[inline]
    pub(crate) fn entry(&self, index: u32, hash: u64, depth: usize) -> Option<EntryId> {
        let rule = self.rule(index)?;
        let depth_entry = rule.depth_entry.load(Ordering::Relaxed);
        let same = rule.hash.load(Ordering::Relaxed) == hash && depth_entry >> 32 == depth as u64;
        same.then_some(EntryId(depth_entry as u32))
    }

    /// The digest of a rule. `index` was read from a slot.
    pub(crate) fn hash(&self, index: u32) -> Option<u64> {
        Some(self.rule(index)?.hash.load(Ordering::Relaxed))
    }

    #[inline]
    fn rule(&self, index: u32) -> Option<&Rule> {
        self.chunks.get(index as usize / CHUNK)?.get()?.get(index as usize % CHUNK)
    }
}

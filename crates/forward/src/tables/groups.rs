//! Groups of nexthops by entry id.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use byname_lookup::EntryId;

use super::{GROUPS_MAX, NexthopGroup};

/// Number of groups in a chunk: 8 KiB.
const CHUNK: usize = 1024;

/// One slot for each group of a chunk.
type Chunk<N> = Box<[ArcSwapOption<NexthopGroup<N>>]>;

/// Groups by entry id; each is replaced on its own. Chunks are made when they are first needed and never move.
pub(super) struct Groups<N> {
    chunks: Box<[OnceLock<Chunk<N>>]>,
}

impl<N> Groups<N> {
    pub(super) fn new() -> Self {
        Groups { chunks: (0..GROUPS_MAX as usize / CHUNK).map(|_| OnceLock::new()).collect() }
    }

    #[inline]
    pub(super) fn slot(&self, entry: EntryId) -> Option<&ArcSwapOption<NexthopGroup<N>>> {
        Some(&self.chunks.get(entry.0 as usize / CHUNK)?.get()?[entry.0 as usize % CHUNK])
    }

    pub(super) fn set(&self, entry: EntryId, group: Option<NexthopGroup<N>>) {
        match group {
            Some(group) => self.slot_made(entry).store(Some(Arc::new(group))),
            None => {
                if let Some(slot) = self.slot(entry) {
                    slot.store(None);
                }
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let chunks = self.chunks.iter().filter_map(OnceLock::get);
        let group = |group: &NexthopGroup<N>| 16 + size_of::<NexthopGroup<N>>() + size_of_val(&*group.nexthops);
        let of_chunk = |chunk: &Chunk<N>| {
            let groups = chunk.iter().filter_map(|slot| slot.load().as_deref().map(group)).sum::<usize>();
            size_of_val(&**chunk) + groups
        };
        size_of_val(&*self.chunks) + chunks.map(of_chunk).sum::<usize>()
    }

    fn slot_made(&self, entry: EntryId) -> &ArcSwapOption<NexthopGroup<N>> {
        assert!(entry.0 < GROUPS_MAX, "the caller allots ids below GROUPS_MAX");
        let chunk = self.chunks[entry.0 as usize / CHUNK]
            .get_or_init(|| (0..CHUNK).map(|_| ArcSwapOption::const_empty()).collect());
        &chunk[entry.0 as usize % CHUNK]
    }
}

//! Subset match: finds the descriptors that are subsets of a packet's tags [TagNet §2.2].
//!
//! A packet that carries its tags' digests is matched by these, exactly except for collisions of 32
//! bits. A packet that carries only a filter is matched by filters: every descriptor whose filter
//! is a subset of the packet's is found, false positives included. Engines that store only filters
//! match every packet by its filter.
//!
//! *The largest subset* is the one whose filter has the most bits set [TagNet §3.1.3]. If there are several, it is the
//! one with the smallest filter (compared as three words, first word first). If several have the same filter, it is the
//! one with the smallest list of tags. All routers therefore choose alike, whatever their engines.

pub mod rare_tag;
pub mod trie;

use std::ops::ControlFlow;

use byname_wire::tagset::{Filter, TagDigest};

use crate::entry::EntryId;

/// Maximum number of packets in a burst.
pub const BURST_MAX: usize = 32;

/// The query of one packet.
#[derive(Debug, Clone, Copy)]
pub struct TagQuery<'a> {
    /// Its tags' digests, ascending and distinct, at most
    /// [`TAGS_MAX`](byname_wire::tagset::TAGS_MAX). `None` if it carries only a filter.
    pub tags: Option<&'a [TagDigest]>,
    /// The filter that it carries, or the filter of `tags`.
    pub filter: Filter,
}

impl<'a> TagQuery<'a> {
    /// The query of a packet with these tags, which must be ascending and distinct.
    pub fn of_tags(tags: &'a [TagDigest]) -> Self {
        TagQuery { tags: Some(tags), filter: Filter::of(tags) }
    }

    /// The query of a packet that carries only a filter.
    pub fn of_filter(filter: Filter) -> Self {
        TagQuery { tags: None, filter }
    }
}

/// The effort of the search for one packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effort {
    /// Number of nodes visited or candidates compared, as the engine defines it.
    pub steps: u32,
    /// The search reached the engine's limit of steps, so matches may be missing.
    pub cut_off: bool,
}

/// The query half of a tag-set engine.
pub trait TagsetFib: Send + Sync {
    /// Visits the entry of every descriptor that is a subset of the packet's tags, each once, in
    /// the engine's own order, until `visit` breaks: *find all subsets* [TagNet §3.1.2].
    ///
    /// `visit` enforces the fan-out limit, because that limits interfaces, and entries share them.
    fn all_subsets(&self, query: &TagQuery<'_>, visit: &mut dyn FnMut(EntryId) -> ControlFlow<()>) -> Effort;

    /// The entry of the largest of these descriptors whose entry `accept` takes: *find largest
    /// subset* [TagNet §3.1.3]. `accept` refuses an entry without an interface on the packet's
    /// tree, or with only the interface that the packet came from. It may be asked about any
    /// subset, and must always give the same answer for the same entry.
    fn largest_subset(
        &self,
        query: &TagQuery<'_>,
        accept: &mut dyn FnMut(EntryId) -> bool,
    ) -> (Option<EntryId>, Effort);

    /// [`TagsetFib::all_subsets`] for many packets. Engines overlap the memory reads of a whole
    /// burst. `visit` also gets the packet's index in `queries`. When it breaks, that packet's
    /// search ends.
    ///
    /// # Panics
    /// If the lengths differ or exceed [`BURST_MAX`].
    fn all_subsets_burst(
        &self,
        queries: &[TagQuery<'_>],
        visit: &mut dyn FnMut(usize, EntryId) -> ControlFlow<()>,
        efforts: &mut [Effort],
    ) {
        assert_eq!(queries.len(), efforts.len());
        assert!(queries.len() <= BURST_MAX);
        for (i, (query, walk)) in queries.iter().zip(efforts).enumerate() {
            *walk = self.all_subsets(query, &mut |entry| visit(i, entry));
        }
    }

    /// [`TagsetFib::largest_subset`] for many packets.
    ///
    /// # Panics
    /// If the lengths differ or exceed [`BURST_MAX`].
    fn largest_subset_burst(
        &self,
        queries: &[TagQuery<'_>],
        accept: &mut dyn FnMut(usize, EntryId) -> bool,
        out: &mut [(Option<EntryId>, Effort)],
    ) {
        assert_eq!(queries.len(), out.len());
        assert!(queries.len() <= BURST_MAX);
        for (i, (query, found)) in queries.iter().zip(out).enumerate() {
            *found = self.largest_subset(query, &mut |entry| accept(i, entry));
        }
    }

    /// Resident memory, in bytes.
    fn memory_bytes(&self) -> usize;
}

//! Subset match: which descriptors are subsets of a packet's tags [TagNet §2.2].
//!
//! A packet that carries its tags' digests is matched by them, exactly (to the collisions of 32
//! bits). One that carries a filter alone is matched by filters: a descriptor whose filter is a
//! subset of the packet's is found, false positives included. Engines that keep nothing but filters
//! match every packet by its filter.
//!
//! *The largest subset* is the one whose filter has most bits set [TagNet §3.1.3]. Of several, it
//! is the one with the smallest filter (as three words, the first one first), and of several
//! with the same filter the one with the smallest list of tags. So every router chooses alike,
//! whatever its engine.

pub mod rare_tag;
pub mod trie;

use std::ops::ControlFlow;

use byname_wire::tagset::{Filter, TagDigest};

use crate::entry::EntryId;

/// Most packets in a burst.
pub const BURST_MAX: usize = 32;

/// What one packet asks for.
#[derive(Debug, Clone, Copy)]
pub struct TagQuery<'a> {
    /// Its tags' digests, ascending, each once, at most
    /// [`TAGS_MAX`](byname_wire::tagset::TAGS_MAX); `None` where it carries a filter alone.
    pub tags: Option<&'a [TagDigest]>,
    /// The filter that it carries, or that of `tags`.
    pub filter: Filter,
}

impl<'a> TagQuery<'a> {
    /// The query of a packet with these tags: ascending, each once.
    pub fn of_tags(tags: &'a [TagDigest]) -> Self {
        TagQuery { tags: Some(tags), filter: Filter::of(tags) }
    }

    /// The query of a packet that carries a filter alone.
    pub fn of_filter(filter: Filter) -> Self {
        TagQuery { tags: None, filter }
    }
}

/// What the search for one packet did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Walk {
    /// Nodes visited or candidates compared, as the engine's documentation says.
    pub steps: u32,
    /// The engine's limit of steps was reached, and matches may be missing.
    pub cut_off: bool,
}

/// The query half of a tag-set engine.
pub trait TagsetFib: Send + Sync {
    /// Visits the entry of every descriptor that is a subset of the packet's, each descriptor
    /// once, in an order of the engine's, until `visit` breaks: *find all subsets*
    /// [TagNet §3.1.2].
    ///
    /// The fan-out limit is `visit`'s: interfaces are what it limits, and entries share them.
    fn all_subsets(&self, query: &TagQuery<'_>, visit: &mut dyn FnMut(EntryId) -> ControlFlow<()>) -> Walk;

    /// The entry of the largest of those descriptors whose entries `accept` takes: *find largest
    /// subset* [TagNet §3.1.3]. What `accept` refuses is an entry without an interface on the
    /// packet's tree, or with none but that which the packet came from; it may be asked for any
    /// subset, and must answer alike for the same entry.
    fn largest_subset(&self, query: &TagQuery<'_>, accept: &mut dyn FnMut(EntryId) -> bool) -> (Option<EntryId>, Walk);

    /// [`TagsetFib::all_subsets`] of many packets: engines overlap the memory reads of a whole
    /// burst. `visit` gets the packet's place in `queries`, too; when it breaks, that packet's
    /// search ends.
    ///
    /// # Panics
    /// If the lengths differ, or are above [`BURST_MAX`].
    fn all_subsets_burst(
        &self,
        queries: &[TagQuery<'_>],
        visit: &mut dyn FnMut(usize, EntryId) -> ControlFlow<()>,
        walks: &mut [Walk],
    ) {
        assert_eq!(queries.len(), walks.len());
        assert!(queries.len() <= BURST_MAX);
        for (i, (query, walk)) in queries.iter().zip(walks).enumerate() {
            *walk = self.all_subsets(query, &mut |entry| visit(i, entry));
        }
    }

    /// [`TagsetFib::largest_subset`] of many packets.
    ///
    /// # Panics
    /// If the lengths differ, or are above [`BURST_MAX`].
    fn largest_subset_burst(
        &self,
        queries: &[TagQuery<'_>],
        accept: &mut dyn FnMut(usize, EntryId) -> bool,
        out: &mut [(Option<EntryId>, Walk)],
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

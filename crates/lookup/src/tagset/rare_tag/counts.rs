//! In how many descriptors each tag is: what makes it rare.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use byname_wire::tagset::{TAGS_MAX, TagDigest};

/// Descriptors of each tag that any has.
#[derive(Default)]
pub(super) struct Counts(HashMap<TagDigest, u32>);

impl Counts {
    /// Counts a tag of one more descriptor; whether it is the first.
    pub(super) fn add(&mut self, tag: TagDigest) -> bool {
        let count = self.0.entry(tag).or_insert(0);
        *count += 1;
        *count == 1
    }

    /// Counts a tag of one descriptor less; whether it was the last.
    pub(super) fn remove(&mut self, tag: TagDigest) -> bool {
        let Entry::Occupied(mut count) = self.0.entry(tag) else { return false };
        *count.get_mut() -= 1;
        let is_last = *count.get() == 0;
        if is_last {
            count.remove();
        }
        is_last
    }

    /// Sorts a descriptor's tags.
    pub(super) fn sort_rarest_first(&self, tags: &mut [TagDigest]) {
        let mut ranked = [(0, TagDigest(0)); TAGS_MAX];
        let ranked = &mut ranked[..tags.len()];
        for (ranked, tag) in ranked.iter_mut().zip(&*tags) {
            *ranked = (self.count(*tag), *tag);
        }
        ranked.sort_unstable();
        for (tag, (_, next)) in tags.iter_mut().zip(ranked) {
            *tag = *next;
        }
    }

    /// The rarest tag.
    pub(super) fn rarest(&self, tags: &[TagDigest]) -> Option<TagDigest> {
        tags.iter().copied().min_by_key(|tag| (self.count(*tag), *tag))
    }

    pub(super) fn tags(&self) -> impl Iterator<Item = TagDigest> {
        self.0.keys().copied()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        // One octet beside each place of the map.
        self.0.capacity() * (size_of::<(TagDigest, u32)>() + 1)
    }

    fn count(&self, tag: TagDigest) -> u32 {
        self.0.get(&tag).copied().unwrap_or(0)
    }
}

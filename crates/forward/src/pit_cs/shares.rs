//! Shares of the PIT by source.
//!
//! Each pending Interest is charged to the source of the face that asked first. A source is a single face, or all faces
//! of one source prefix. When the PIT is full, the source with the largest share loses its oldest entry. So a flooder
//! evicts its own Interests and not those of others, however many addresses it uses.

use crate::pit_cs::list::{Links, List};
use crate::whereabouts::SourceId;

/// Number of evictions after which the largest share is searched for again.
const LARGEST_KEPT_FOR: u32 = 64;

/// The shares of all sources.
#[derive(Default)]
pub struct Shares {
    /// Indexed by the number of the source.
    lists: Vec<List>,
    largest: Option<usize>,
    kept_for: u32,
    /// Sources before this one have no slots: see [`Shares::newest`].
    passed: usize,
}

impl Shares {
    /// Charges a slot to a source.
    #[inline]
    pub fn add(&mut self, links: &mut Links, source: SourceId, slot: u32) {
        self.list(source).push_front(links, slot);
    }

    /// Charges a slot to a source, as its oldest.
    pub fn add_oldest(&mut self, links: &mut Links, source: SourceId, slot: u32) {
        self.list(source).push_back(links, slot);
    }

    /// Removes the charge of a slot.
    #[inline]
    pub fn remove(&mut self, links: &mut Links, source: SourceId, slot: u32) {
        self.lists[source.0 as usize].remove(links, slot);
    }

    /// The newest slot of any source. To be used only where slots are not added any more.
    pub fn newest(&mut self) -> Option<u32> {
        self.passed += self.lists[self.passed..].iter().take_while(|list| list.len() == 0).count();
        self.lists.get(self.passed)?.front()
    }

    #[inline]
    fn list(&mut self, source: SourceId) -> &mut List {
        let number = source.0 as usize;
        if number >= self.lists.len() {
            self.lists.resize(number + 1, List::default());
        }
        &mut self.lists[number]
    }

    /// The oldest slot of the source with the largest share. The source is searched for anew only once in a number of
    /// calls.
    pub fn oldest_of_largest(&mut self) -> Option<u32> {
        let known = self.largest.filter(|_| self.kept_for < LARGEST_KEPT_FOR);
        let kept = known.and_then(|source| self.lists[source].back());
        if kept.is_some() {
            self.kept_for += 1;
            return kept;
        }
        let (largest, list) = self.lists.iter().enumerate().max_by_key(|(_, list)| list.len())?;
        (self.largest, self.kept_for) = (Some(largest), 0);
        list.back()
    }
}

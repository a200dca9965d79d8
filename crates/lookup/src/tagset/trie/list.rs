//! Descriptors that were added since the last trie was built: a list, each of which is compared
//! with every packet.

use std::collections::HashMap;
use std::sync::Arc;

use byname_wire::Filter;

use super::build::Item;
use super::run::Leaf;
use super::walk::{Goal, Search};
use crate::entry::EntryId;
use crate::memory::{Lines, Pages};
use crate::sync::{AtomicU64, Ordering};
use crate::update::BuildError;

/// The list as readers see it.
pub(super) struct List {
    /// Two slots in each line: a filter's words, and its entry.
    lines: Lines,
    /// Number of slots written.
    len: AtomicU64,
}

impl List {
    fn slot(&self, at: usize) -> &[AtomicU64] {
        &self.lines[at / 2].0[4 * (at % 2)..][..4]
    }

    /// Compares each descriptor with the packet.
    pub(super) fn search(&self, filter: &Filter, search: &mut Search<'_>, goal: &mut impl Goal) -> Option<()> {
        let packet = filter.words();
        for at in 0..self.len.load(Ordering::Acquire) as usize {
            search.step()?;
            let [a, b, c, entry] = self.slot(at) else { unreachable!("a slot has four words") };
            // Written before the length that led here, and never again.
            let words = [a, b, c].map(|word| word.load(Ordering::Relaxed));
            if (0..3).any(|i| words[i] & !packet[i] != 0) {
                continue;
            }
            let found = Filter::from_words(words).expect("a filter's words");
            if let Some(entry) = entry_of(entry.load(Ordering::Acquire)) {
                goal.found(entry, found.weight(), || found)?;
            }
        }
        Some(())
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }
}

/// The id plus one, so that 0 means none.
fn word_of(entry: Option<EntryId>) -> u64 {
    entry.map_or(0, |entry| u64::from(entry.0) + 1)
}

fn entry_of(word: u64) -> Option<EntryId> {
    word.checked_sub(1).map(|id| EntryId(id as u32))
}

/// The list's writer.
pub(super) struct ListWriter {
    pub(super) list: Arc<List>,
    slots: HashMap<Filter, usize>,
    /// Indexed by slot.
    leaves: Vec<Leaf>,
}

impl ListWriter {
    /// An empty list with room for `room` descriptors.
    pub(super) fn new(room: usize) -> Result<Self, BuildError> {
        let lines = Lines::zeroed(room.div_ceil(2), Pages::Small)?;
        let list = Arc::new(List { lines, len: AtomicU64::new(0) });
        Ok(ListWriter { list, slots: HashMap::new(), leaves: Vec::new() })
    }

    /// Number of slots in use.
    pub(super) fn len(&self) -> usize {
        self.leaves.len()
    }

    /// Number of free slots.
    pub(super) fn room(&self) -> usize {
        2 * self.list.lines.len() - self.len()
    }

    pub(super) fn find(&self, filter: Filter) -> Option<usize> {
        self.slots.get(&filter).copied()
    }

    pub(super) fn leaf(&self, slot: usize) -> Leaf {
        self.leaves[slot]
    }

    pub(super) fn set(&mut self, slot: usize, leaf: Leaf) {
        self.leaves[slot] = leaf;
        self.list.slot(slot)[3].store(word_of(leaf.entry), Ordering::Release);
    }

    /// Adds a filter, which must not be in the list yet.
    ///
    /// # Panics
    /// If there is no room.
    pub(super) fn push(&mut self, filter: Filter, leaf: Leaf) {
        let slot = self.len();
        let words = self.list.slot(slot);
        for (word, new) in words.iter().zip(filter.words()) {
            word.store(new, Ordering::Relaxed);
        }
        self.leaves.push(leaf);
        self.slots.insert(filter, slot);
        self.set(slot, leaf);
        // Release: a reader that sees the length sees the slot.
        self.list.len.store(self.len() as u64, Ordering::Release);
    }

    /// The descriptors that were not removed.
    pub(super) fn items(&self) -> impl Iterator<Item = Item> {
        let items = self.slots.iter().map(|(filter, &slot)| Item { filter: *filter, leaf: self.leaves[slot] });
        items.filter(|item| item.leaf.entry.is_some())
    }

    /// Memory of the writer alone.
    pub(super) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<(Filter, usize)>() + self.leaves.capacity() * size_of::<Leaf>()
    }
}

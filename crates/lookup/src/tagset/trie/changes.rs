//! Changes: in place for existing descriptors, in the list for new ones.

use std::hash::BuildHasher;
use std::sync::Arc;

use byname_wire::{Descriptor, Filter};

use super::list::ListWriter;
use super::merge::{self, Owned};
use super::run::Leaf;
use super::{GROWTH, RUNS_MAX, SMALL, TagTrie, check_entry, query};
use crate::sync::Ordering;
use crate::tagset::TagsetFib;
use crate::update::{BuildError, Change, Control, Update};

/// The place of a descriptor. Each is in one place, removed or not.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// Index in the list.
    Slot(usize),
    /// The trie, and the place of its tail.
    Run(usize, u32),
}

impl TagTrie {
    fn find(&self, filter: Filter) -> Option<Place> {
        let in_run = |i: usize| self.runs[i].run.find(filter).map(|place| Place::Run(i, place));
        self.list.find(filter).map(Place::Slot).or_else(|| (0..self.runs.len()).rev().find_map(in_run))
    }

    fn leaf(&self, place: Place) -> Leaf {
        match place {
            Place::Slot(slot) => self.list.leaf(slot),
            Place::Run(i, place) => {
                let Owned { run, leaves, .. } = &self.runs[i];
                Leaf { entry: run.entry(place), print: leaves.print(place).load(Ordering::Relaxed) }
            }
        }
    }

    pub(super) fn set(&mut self, filter: Filter, place: Place, leaf: Leaf) {
        match place {
            Place::Slot(slot) => self.list.set(slot, leaf),
            Place::Run(i, place) => {
                let Owned { run, leaves, live } = &mut self.runs[i];
                *live += usize::from(leaf.entry.is_some());
                *live -= usize::from(run.entry(place).is_some());
                leaves.print(place).store(leaf.print, Ordering::Relaxed);
                run.set_entry(place, leaf.entry);
                if let Some(merging) = self.merging.as_mut().filter(|merging| merging.runs.contains(&i)) {
                    merging.changed.insert(filter, leaf);
                }
            }
        }
    }

    /// Replaces the leaf at a place, and updates the counts.
    fn replace(&mut self, filter: Filter, place: Place, leaf: Leaf) {
        self.descriptors += usize::from(leaf.entry.is_some());
        self.descriptors -= usize::from(self.leaf(place).entry.is_some());
        self.set(filter, place, leaf);
    }

    /// Applies one change. Returns what was there before, if it was different.
    fn change(&mut self, change: &Change<Descriptor>) -> Result<Option<(Filter, Leaf)>, BuildError> {
        let (descriptor, entry) = match change {
            Change::Set(descriptor, entry) => (descriptor, Some(*entry)),
            Change::Remove(descriptor) => (descriptor, None),
        };
        let (filter, leaf) = (descriptor.filter(), Leaf { entry, print: self.secret.hash_one(descriptor) });
        let place = self.find(filter);
        let old = place.map_or(Leaf { entry: None, ..leaf }, |place| self.leaf(place));
        match (old.entry, entry) {
            (None, None) => return Ok(None),
            (Some(_), None) if old.print != leaf.print => return Ok(None),
            (Some(_), Some(_)) if old.print != leaf.print => return Err(BuildError::Collision),
            (None, Some(_)) if self.descriptors >= self.options.descriptors_max => {
                return Err(BuildError::Full { rules: self.descriptors });
            }
            _ => {}
        }
        match place {
            Some(place) => self.replace(filter, place, leaf),
            None => {
                self.list.push(filter, leaf);
                self.descriptors += 1;
            }
        }
        Ok(Some((filter, old)))
    }

    /// Applies changes in order. If one fails, the earlier ones are undone.
    fn change_all(&mut self, changes: &[Change<Descriptor>]) -> Result<(), BuildError> {
        let mut undo = Vec::with_capacity(changes.len());
        for change in changes {
            match self.change(change) {
                Ok(before) => undo.extend(before),
                Err(error) => {
                    for (filter, leaf) in undo.into_iter().rev() {
                        let place = self.find(filter).expect("what was changed has a place");
                        self.replace(filter, place, leaf);
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Makes room in the list.
    pub(super) fn reserve(&mut self, descriptors: usize) -> Result<(), BuildError> {
        if self.list.room() < descriptors {
            self.freeze(self.options.list_max.max(descriptors))?;
        }
        Ok(())
    }

    /// Turns the list into a trie, merges it with the tries that are due, and begins a new list.
    fn freeze(&mut self, room: usize) -> Result<(), BuildError> {
        let list = ListWriter::new(room)?;
        let mut items: Vec<_> = self.list.items().collect();
        if !items.is_empty() {
            // Tries that are being merged elsewhere stay.
            let merging = self.merging.as_ref().filter(|merging| !merging.is_abandoned());
            let behind = merging.map_or(0, |merging| merging.runs.end);
            let most = if self.runs.len() - behind < RUNS_MAX { SMALL } else { usize::MAX };
            let first = self.due(behind, most, items.len());
            items.extend(merge::items(&self.runs[first..]));
            let owned = Owned::of(&self.options, items)?;
            self.runs.truncate(first);
            self.runs.push(owned);
        }
        self.list = list;
        self.renew();
        Ok(())
    }

    /// The first trie to be merged with everything newer, which includes `newer` descriptors: the
    /// first that is not sufficiently larger. It is not before `behind`, and the total is at most
    /// `most` descriptors.
    pub(super) fn due(&self, behind: usize, most: usize, newer: usize) -> usize {
        let (mut first, mut later) = (self.runs.len(), newer);
        for (i, owned) in self.runs.iter().enumerate().skip(behind).rev() {
            if later + owned.live > most {
                break;
            }
            if owned.live <= GROWTH * later {
                first = i;
            }
            later += owned.live;
        }
        first
    }

    /// Makes a query half of the current contents.
    pub(super) fn renew(&mut self) {
        self.query = Arc::new(query(&self.options, &self.runs, &self.list));
        self.is_stale = true;
    }

    /// The update that readers need.
    pub(super) fn update(&mut self) -> Update<dyn TagsetFib> {
        match std::mem::take(&mut self.is_stale) {
            true => Update::Replace(self.query.clone()),
            false => Update::Patched,
        }
    }
}

impl Control<Descriptor> for TagTrie {
    type Query = dyn TagsetFib;

    fn query(&self) -> Arc<Self::Query> {
        self.query.clone()
    }

    fn apply(&mut self, changes: &[Change<Descriptor>]) -> Result<Update<Self::Query>, BuildError> {
        let sets = changes.iter().filter_map(|change| match change {
            Change::Set(_, entry) => Some(*entry),
            Change::Remove(_) => None,
        });
        sets.clone().try_for_each(check_entry)?;
        self.reserve(sets.count())?;
        self.change_all(changes)?;
        if self.list.len() > self.options.list_max {
            // Without memory for it, packets are compared with a longer list.
            let _ = self.freeze(self.options.list_max);
        }
        Ok(self.update())
    }

    fn reclaim(&mut self) {
        // Tries and lists are freed with the query halves that have them.
    }
}

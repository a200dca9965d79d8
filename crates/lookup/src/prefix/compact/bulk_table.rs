//! A table that was loaded in bulk, with changes beside it.
//!
//! The loaded rules are an *image*: 11.4 bytes a rule, without names, in memory or mapped from a
//! file. It never changes. Changes go into a table of their own, which keeps names. A lookup asks
//! both, and the deeper rule wins. A rule of the image that was removed has a mark among the
//! changes; if the deepest rule is marked, the lookup asks again about shorter prefixes.
//!
//! Cost: a second search for each lookup once there are changes, and the memory of a [`Compact`]
//! table for the changes. A table with many of them should be loaded again.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use byname_wire::name_hash::DepthSet;
use byname_wire::{Name, NameHashKey, NameRef, NameView, PrefixHashes};

use super::image::{Extras, Image};
use super::query::{Query, TRIES_MAX};
use super::{BulkLoader, Compact, ENTRIES_MAX, Options};
use crate::entry::EntryId;
use crate::file::{FileError, Opening};
use crate::prefix::{BURST_MAX, PrefixFib, PrefixMatch};
use crate::sync::{AtomicU64, Ordering};
use crate::update::{BuildError, Change, Control, Update};

/// Marks a removed rule of the image.
const REMOVED: EntryId = EntryId(ENTRIES_MAX - 1);

/// The control half: one writer.
///
/// Entry ids of changes are below [`ENTRIES_MAX`] - 1. As for [`Compact`], readers that have an old
/// query half when [`Update::Replace`] gives a new one must change before the next
/// [`Control::apply`].
pub struct BulkTable {
    image: Image,
    labels: Vec<Box<[u8]>>,
    changes: Compact,
    rules: usize,
    rules_max: usize,
    entries: Option<Arc<[AtomicU64]>>,
    query: Arc<Layers>,
    hashes: Box<PrefixHashes>,
}

impl BulkTable {
    pub(super) fn new(image: Image, options: &Options) -> Result<Self, BuildError> {
        let changes = Compact::new(image.key, &Options { exact: false, ..options.clone() })?;
        let query = Layers::new(&image, &changes, None);
        Ok(BulkTable {
            labels: Vec::new(),
            changes,
            rules: image.rules,
            rules_max: options.rules_max,
            entries: None,
            query: Arc::new(query),
            hashes: Box::default(),
            image,
        })
    }

    /// Opens a file that [`BulkTable::save`] wrote. Changes that were saved with it are applied, so
    /// this takes as long as they did; the rules of the image are used as they are.
    ///
    /// # Errors
    /// If the file cannot be read or has no such table, or if there is no memory for the changes.
    pub fn open(path: &Path, opening: Opening, options: &Options) -> Result<Self, FileError> {
        let (image, Extras { labels, changes }) = Image::open(path, opening)?;
        let unusable = |error: BuildError| FileError::Malformed { what: error.to_string() };
        let mut table = BulkTable::new(image, options).map_err(unusable)?;
        table.labels = labels;
        for some in changes.chunks(4096) {
            table.apply(some).map_err(unusable)?;
        }
        Ok(table)
    }

    /// Writes the table with its hash key and its changes. Only then does the file get its name.
    /// Whoever has mapped an earlier file of this name keeps that.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn save(&self, path: &Path) -> Result<(), FileError> {
        let changes = self.changes.rules().map(|(name, entry)| (name, (entry != REMOVED).then_some(entry)));
        self.image.save(path, &self.labels, changes)
    }

    /// The key that names must be hashed with.
    pub fn key(&self) -> &NameHashKey {
        &self.image.key
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.rules
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules == 0
    }

    /// Memory of both halves, in bytes. Processes that map one file share most of it.
    pub fn memory_bytes(&self) -> usize {
        let labels: usize = self.labels.iter().map(|label| size_of::<Box<[u8]>>() + label.len()).sum();
        size_of::<Self>() + self.image.query.memory_bytes() + self.changes.memory_bytes() + labels
    }

    /// Number of rules that differ from the image's.
    pub fn changed(&self) -> usize {
        self.changes.len()
    }

    /// The meanings of entries, by id, as far as they have any. The table keeps them in its file.
    pub fn labels(&self) -> &[Box<[u8]>] {
        &self.labels
    }

    /// Sets the meanings of entries, by id.
    ///
    /// # Panics
    /// If there are more than [`ENTRIES_MAX`].
    pub fn set_labels(&mut self, labels: Vec<Box<[u8]>>) {
        assert!(labels.len() <= ENTRIES_MAX as usize, "an entry has one label");
        self.labels = labels;
    }

    /// From now on, lookups that find entry `i` of the image answer `entries[i]`. Where that is
    /// `None`, and for higher ids, the rule counts as removed until [`BulkTable::translate`] sets it. Entries of
    /// changes stay as they are. Call it before readers have the query half.
    pub fn translate_all(&mut self, entries: &[Option<EntryId>]) {
        let entries = entries.iter().map(|&entry| AtomicU64::new(encoded(entry))).collect();
        self.entries = Some(entries);
        self.query = Arc::new(Layers::new(&self.image, &self.changes, self.entries.clone()));
    }

    /// Changes the answer for one entry of the image, at once and for all readers. Without
    /// [`BulkTable::translate_all`] before, and for an id beyond its slice, it has no effect.
    pub fn translate(&self, of_image: EntryId, entry: Option<EntryId>) {
        if let Some(place) = self.entries.as_ref().and_then(|entries| entries.get(of_image.0 as usize)) {
            place.store(encoded(entry), Ordering::Release);
        }
    }

    /// The entry of exactly this rule.
    pub fn entry_of(&mut self, name: NameRef<'_>) -> Option<EntryId> {
        match self.changes.entry_of(name) {
            Some(REMOVED) => None,
            Some(entry) => Some(entry),
            None => self.in_image(name),
        }
    }

    /// The entry of exactly this rule in the image.
    fn in_image(&mut self, name: NameRef<'_>) -> Option<EntryId> {
        let view = NameView::new(&self.image.key, name, &mut self.hashes);
        let found = self.image.query.longest_match(&view)?;
        (found.depth == view.len()).then_some(found.entry)
    }

    /// What to write for a batch, and the number of rules afterwards.
    fn translated(&mut self, changes: &[Change<Name>]) -> Result<(Vec<Change<Name>>, usize), BuildError> {
        let mut present = HashMap::new();
        let mut rules = self.rules;
        let mut out = Vec::with_capacity(changes.len());
        for change in changes {
            let (Change::Set(name, _) | Change::Remove(name)) = change;
            let in_image = if name.as_ref().len() <= super::DEPTH_MAX { self.in_image(name.as_ref()) } else { None };
            let before = match present.get(name) {
                Some(&before) => before,
                None => match self.changes.entry_of(name.as_ref()) {
                    Some(entry) => entry != REMOVED,
                    None => in_image.is_some(),
                },
            };
            match change {
                Change::Set(_, entry) if *entry >= REMOVED => {
                    return Err(BuildError::EntryOutOfRange { entry: entry.0, entries_max: REMOVED.0 });
                }
                Change::Set(..) if !before && rules >= self.rules_max => return Err(BuildError::Full { rules }),
                Change::Set(..) => out.push(change.clone()),
                Change::Remove(name) if in_image.is_some() => out.push(Change::Set(name.clone(), REMOVED)),
                Change::Remove(_) => out.push(change.clone()),
            }
            let after = matches!(change, Change::Set(..));
            rules = rules + usize::from(after) - usize::from(before);
            present.insert(name, after);
        }
        Ok((out, rules))
    }
}

impl BulkLoader {
    /// The table. It keeps a key and takes changes.
    ///
    /// # Errors
    /// If the last entries find no room, or there is no memory for changes.
    pub fn finish_table(self, options: &Options) -> Result<BulkTable, BuildError> {
        BulkTable::new(self.finish_image()?, options)
    }
}

impl Control<Name> for BulkTable {
    type Query = dyn PrefixFib;

    fn query(&self) -> Arc<Self::Query> {
        self.query.clone()
    }

    fn apply(&mut self, changes: &[Change<Name>]) -> Result<Update<Self::Query>, BuildError> {
        Compact::check(changes)?;
        let (changes, rules) = self.translated(changes)?;
        let update = self.changes.apply(&changes)?;
        self.rules = rules;
        if let Update::Patched = update {
            return Ok(Update::Patched);
        }
        self.query = Arc::new(Layers::new(&self.image, &self.changes, self.entries.clone()));
        Ok(Update::Replace(self.query()))
    }

    fn reclaim(&mut self) {
        self.changes.reclaim();
    }
}

/// The query half: the image below, changes above.
struct Layers {
    image: Arc<Query>,
    changes: Arc<Query>,
    /// What entries of the image stand for: the entry plus one, or zero for none.
    entries: Option<Arc<[AtomicU64]>>,
}

fn encoded(entry: Option<EntryId>) -> u64 {
    entry.map_or(0, |entry| u64::from(entry.0) + 1)
}

impl Layers {
    fn new(image: &Image, changes: &Compact, entries: Option<Arc<[AtomicU64]>>) -> Self {
        Layers { image: image.query.clone(), changes: changes.table.query().clone(), entries }
    }

    /// The image's rule, as its entry is to be understood. `None` inside if it counts as removed.
    fn understood(&self, found: PrefixMatch) -> Option<PrefixMatch> {
        let Some(entries) = &self.entries else { return Some(found) };
        let entry = entries.get(found.entry.0 as usize)?.load(Ordering::Acquire).checked_sub(1)?;
        Some(PrefixMatch { entry: EntryId(entry as u32), ..found })
    }

    /// Whether nothing was changed yet.
    fn is_unchanged(&self) -> bool {
        self.changes.shared.depth_max() == 0 && self.changes.shared.root().is_none()
    }

    /// The deeper of two rules. If it was removed, the deepest depth at which to look further, or
    /// `None` if there is none.
    fn deeper(
        &self,
        changed: Option<PrefixMatch>,
        of_image: Option<PrefixMatch>,
    ) -> Result<Option<PrefixMatch>, Option<usize>> {
        let (found, depth) = match (changed, of_image) {
            (Some(changed), Some(of_image)) if of_image.depth > changed.depth => {
                (self.understood(of_image), of_image.depth)
            }
            (Some(changed), _) => ((changed.entry != REMOVED).then_some(changed), changed.depth),
            (None, Some(of_image)) => (self.understood(of_image), of_image.depth),
            (None, None) => return Ok(None),
        };
        if found.is_some() { Ok(found) } else { Err(depth.checked_sub(1)) }
    }

    /// One try, which changes may disturb.
    fn search(&self, name: &NameView<'_>) -> Option<PrefixMatch> {
        let mut view = *name;
        loop {
            let found = self.deeper(self.changes.longest_match(&view), self.image.longest_match(&view));
            match found {
                Ok(found) => return found,
                Err(depth) => view = view.up_to(depth?),
            }
        }
    }
}

impl PrefixFib for Layers {
    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch> {
        let mut tries = 0;
        loop {
            // As in `Query`: a change that one of several searches missed raises the counter.
            let changes = self.changes.shared.changes_of(name).load(Ordering::Acquire);
            let found = self.search(name);
            tries += 1;
            let is_right = self.changes.shared.changes_of(name).load(Ordering::Relaxed) == changes;
            if is_right || tries == TRIES_MAX {
                return found;
            }
        }
    }

    fn longest_match_burst(&self, names: &[NameView<'_>], out: &mut [Option<PrefixMatch>]) {
        let mut changed = [None; BURST_MAX];
        // Before the image, as it cannot change meanwhile.
        if !self.is_unchanged() {
            self.changes.longest_match_burst(names, &mut changed[..names.len()]);
        }
        self.image.longest_match_burst(names, out);
        for ((name, out), changed) in names.iter().zip(out).zip(changed) {
            *out = self.deeper(changed, *out).unwrap_or_else(|_| self.longest_match(name));
        }
    }

    fn depth_max(&self) -> usize {
        self.image.depth_max().max(self.changes.depth_max())
    }

    fn depths(&self) -> DepthSet {
        self.image.depths().union(self.changes.depths())
    }

    fn lines_read(&self, name: &NameView<'_>) -> Option<usize> {
        Some(self.image.lines_read(name)? + self.changes.lines_read(name)?)
    }

    fn memory_bytes(&self) -> usize {
        let entries = self.entries.as_ref().map_or(0, |entries| size_of_val(&**entries));
        size_of::<Self>() + self.image.memory_bytes() + self.changes.memory_bytes() + entries
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

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
use crate::file::{FileError, Kind, Opening, Source, TableFile};
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
    /// Made with the first change: most tables that are loaded never change.
    changes: Option<Box<Compact>>,
    options: Options,
    rules: usize,
    rules_max: usize,
    /// Removing a rule brings back the image's, if there is one.
    uncovers: bool,
    entries: Option<Translation>,
    query: Arc<Layers>,
    /// Scratch space for hashing names, made for the first one.
    hashes: Option<Box<PrefixHashes>>,
}

impl BulkTable {
    pub(super) fn new(image: Image, options: &Options) -> Self {
        let query = Layers { image: image.query.clone(), changes: None, entries: None };
        BulkTable {
            labels: Vec::new(),
            changes: None,
            options: Options { exact: false, rules_max: Options::default().rules_max, ..options.clone() },
            rules: image.rules,
            rules_max: options.rules_max,
            uncovers: false,
            entries: None,
            query: Arc::new(query),
            hashes: None,
            image,
        }
    }

    /// Opens a file that [`BulkTable::save`] wrote. Changes of rules that were saved with it are applied, so
    /// this takes as long as they did; the rules of the image are used as they are, with the lines of the
    /// file's changes ([`crate::file::changes`]).
    ///
    /// # Errors
    /// If the file cannot be read or has no such table, or if there is no memory for the changes.
    pub fn open<'a>(source: impl Into<Source<'a>>, opening: Opening, options: &Options) -> Result<Self, FileError> {
        let (image, Extras { labels, changes }) = Image::open(source.into(), opening)?;
        let unusable = |error: BuildError| FileError::Malformed { what: error.to_string() };
        let mut table = BulkTable::new(image, options);
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
        let changes = self
            .changes
            .iter()
            .flat_map(|changes| changes.rules())
            .map(|(name, entry)| (name, (entry != REMOVED).then_some(entry)));
        self.image.save(path, &self.labels, changes)
    }

    /// The hash key of a file's table, of which nothing else is read but its first page.
    ///
    /// # Errors
    /// If the file cannot be read or has no such table.
    pub fn key_of(path: &Path) -> Result<NameHashKey, FileError> {
        Ok(TableFile::open(path, Kind::Compact, Opening::default())?.key())
    }

    /// Sets the maximum number of rules, those of the image included.
    pub fn set_rules_max(&mut self, rules_max: usize) {
        self.rules_max = rules_max;
    }

    /// From now on, changes only cover rules of the image: when a rule is removed, the image's rule
    /// of that name counts again, and without a change it cannot be removed.
    pub fn uncover_removed(&mut self) {
        self.uncovers = true;
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
        let changes = self.changes.as_ref().map_or(0, |changes| changes.memory_bytes());
        let hashes = self.hashes.as_ref().map_or(0, |hashes| size_of_val(&**hashes));
        size_of::<Self>() + hashes + self.image.query.memory_bytes() + changes + labels
    }

    /// Number of rules that differ from the image's.
    pub fn changed(&self) -> usize {
        self.changes.as_ref().map_or(0, |changes| changes.len())
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
    /// `None`, and for higher ids, the rule counts as removed until [`Translation::set`] says otherwise. Entries of
    /// changes stay as they are. Call it before readers have the query half.
    pub fn translate(&mut self, entries: &[Option<EntryId>]) -> Translation {
        let translation = Translation::new(entries);
        self.entries = Some(translation.clone());
        self.query = Arc::new(self.layers());
        translation
    }

    /// The entry of exactly this rule.
    pub fn entry_of(&mut self, name: NameRef<'_>) -> Option<EntryId> {
        match self.changes.as_ref().and_then(|changes| changes.entry_of(name)) {
            Some(REMOVED) => None,
            Some(entry) => Some(entry),
            None => self.in_image(name),
        }
    }

    fn layers(&self) -> Layers {
        Layers {
            image: self.image.query.clone(),
            changes: self.changes.as_ref().map(|changes| changes.table.query().clone()),
            entries: self.entries.clone(),
        }
    }

    /// The entry of exactly this rule in the image.
    fn in_image(&mut self, name: NameRef<'_>) -> Option<EntryId> {
        let hashes = self.hashes.get_or_insert_default();
        let view = NameView::new(&self.image.key, name, hashes);
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
                None => match self.changes.as_ref().and_then(|changes| changes.entry_of(name.as_ref())) {
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
                Change::Remove(name) if in_image.is_some() && !self.uncovers => {
                    out.push(Change::Set(name.clone(), REMOVED))
                }
                Change::Remove(_) => out.push(change.clone()),
            }
            let after = matches!(change, Change::Set(..)) || (in_image.is_some() && self.uncovers);
            // A forged file may count wrongly.
            rules = rules.saturating_add(usize::from(after)).saturating_sub(usize::from(before));
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
        Ok(BulkTable::new(self.finish_image()?, options))
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
        // Also if a batch before was refused and left an empty table of changes.
        let is_first = self.query.changes.is_none();
        let table = match self.changes.take() {
            Some(table) => table,
            None => Box::new(Compact::new(self.image.key, &self.options)?),
        };
        let update = self.changes.insert(table).apply(&changes)?;
        self.rules = rules;
        if !is_first && matches!(update, Update::Patched) {
            return Ok(Update::Patched);
        }
        self.query = Arc::new(self.layers());
        Ok(Update::Replace(self.query()))
    }

    fn reclaim(&mut self) {
        if let Some(changes) = &mut self.changes {
            changes.reclaim();
        }
    }
}

/// The query half: the image below, changes above.
struct Layers {
    image: Arc<Query>,
    /// `None` before the first one.
    changes: Option<Arc<Query>>,
    entries: Option<Translation>,
}

/// What entries of a loaded table stand for. Clones are of the same translation.
#[derive(Clone)]
pub struct Translation(Arc<[AtomicU64]>);

impl Translation {
    /// A translation of the ids from 0 up into these.
    pub fn new(entries: &[Option<EntryId>]) -> Self {
        Translation(entries.iter().map(|&entry| AtomicU64::new(encoded(entry))).collect())
    }

    /// Changes the answer for one entry, at once and for all readers. It has no effect for an id
    /// beyond the slice that the translation was made of.
    pub fn set(&self, of_image: EntryId, entry: Option<EntryId>) {
        if let Some(place) = self.0.get(of_image.0 as usize) {
            place.store(encoded(entry), Ordering::Release);
        }
    }

    /// All answers.
    pub fn entries(&self) -> impl Iterator<Item = EntryId> {
        (0..self.0.len() as u32).filter_map(|id| self.get(EntryId(id)))
    }

    /// The answer for one entry. `None` for an id beyond the slice.
    pub(crate) fn get(&self, of_image: EntryId) -> Option<EntryId> {
        let entry = self.0.get(of_image.0 as usize)?.load(Ordering::Acquire).checked_sub(1)?;
        Some(EntryId(entry as u32))
    }
}

/// The entry plus one, or zero for none.
fn encoded(entry: Option<EntryId>) -> u64 {
    entry.map_or(0, |entry| u64::from(entry.0) + 1)
}

impl Layers {
    /// The image's rule, as its entry is to be understood. `None` inside if it counts as removed.
    fn understood(&self, found: PrefixMatch) -> Option<PrefixMatch> {
        let Some(entries) = &self.entries else { return Some(found) };
        Some(PrefixMatch { entry: entries.get(found.entry)?, ..found })
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
            let changed = self.changes.as_ref().and_then(|changes| changes.longest_match(&view));
            let found = self.deeper(changed, self.image.longest_match(&view));
            match found {
                Ok(found) => return found,
                Err(depth) => view = view.up_to(depth?),
            }
        }
    }
}

impl PrefixFib for Layers {
    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch> {
        let Some(changes) = &self.changes else { return self.search(name) };
        // A search that goes on below removed rules may end at the rule `/`, which is of no first component.
        let counters = [changes.shared.changes_of(name), changes.shared.changes_of_root()];
        let mut tries = 0;
        loop {
            // As in `Query`: a change that one of several searches missed raises a counter.
            let changes = counters.map(|counter| counter.load(Ordering::Acquire));
            let found = self.search(name);
            tries += 1;
            let is_right = counters.map(|counter| counter.load(Ordering::Relaxed)) == changes;
            if is_right || tries == TRIES_MAX {
                return found;
            }
        }
    }

    fn longest_match_burst(&self, names: &[NameView<'_>], out: &mut [Option<PrefixMatch>]) {
        let mut changed = [None; BURST_MAX];
        // Before the image, as it cannot change meanwhile.
        if let Some(changes) = &self.changes {
            changes.longest_match_burst(names, &mut changed[..names.len()]);
        }
        self.image.longest_match_burst(names, out);
        for ((name, out), changed) in names.iter().zip(out).zip(changed) {
            *out = self.deeper(changed, *out).unwrap_or_else(|_| self.longest_match(name));
        }
    }

    fn depth_max(&self) -> usize {
        self.image.depth_max().max(self.changes.as_ref().map_or(0, |changes| changes.depth_max()))
    }

    fn depths(&self) -> DepthSet {
        self.changes.as_ref().map_or(DepthSet::EMPTY, |changes| changes.depths()).union(self.image.depths())
    }

    fn lines_read(&self, name: &NameView<'_>) -> Option<usize> {
        let changes = self.changes.as_ref().map_or(Some(0), |changes| changes.lines_read(name))?;
        Some(self.image.lines_read(name)? + changes)
    }

    fn memory_bytes(&self) -> usize {
        let entries = self.entries.as_ref().map_or(0, |entries| size_of_val(&*entries.0));
        let changes = self.changes.as_ref().map_or(0, |changes| changes.memory_bytes());
        size_of::<Self>() + self.image.memory_bytes() + changes + entries
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

//! A table from a file below descriptors that change: sets that a builder made, and those that others advertise.
//!
//! The file gives each set a label, which has the set's entry as its number. A [`Translation`] says which entry the label stands
//! for at the moment, if for any. So the file is never changed, and what its labels lead to changes at once.
//!
//! A search goes through the descriptors that change first, and then through the file. Both searches of one packet together
//! take no more steps than [`Options::steps_max`]. A set that is in both is found twice; as the largest one, that of the file
//! comes second.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use byname_wire::NameHashKey;
use byname_wire::tagset::Descriptor;
use thiserror::Error;

use super::image::Opened;
use super::load::Loading;
use super::node::Row;
use super::query::{Goal, Query, State, Walk};
use super::table::Mixer;
use super::{Options, RareTag, processor};
use crate::entry::EntryId;
use crate::file::{FileError, Kind, Opening, TableFile};
use crate::prefix::compact::Translation;
use crate::tagset::{BURST_MAX, Effort, TagQuery, TagsetFib};
use crate::update::{BuildError, Change, Control, Update};

/// The control half: changes do not reach the file.
pub struct BulkTags {
    beside: RareTag,
    /// What is in the file, with its labels by entry.
    file: Opened,
    translation: Translation,
    query: Arc<dyn TagsetFib>,
}

impl BulkTags {
    /// Opens a file that [`BulkTagLoader::save`] wrote. No label leads anywhere yet. `secret` and `options` are for the
    /// descriptors beside it.
    ///
    /// # Errors
    /// If the file cannot be read or has no such table, or there is no memory.
    pub fn open(path: &Path, opening: Opening, secret: u64, options: &Options) -> Result<Self, FileError> {
        let file = RareTag::open(path, opening, &Options { steps_max: options.steps_max, ..Options::default() })?;
        let refused = |error: BuildError| FileError::Malformed { what: error.to_string() };
        let beside = RareTag::new(secret, options).map_err(refused)?;
        let translation = Translation::new(&vec![None; file.labels.len()]);
        let query = beside.above(&file.table, &translation);
        Ok(BulkTags { beside, file, translation, query })
    }

    /// Number of sets in the file.
    pub fn sets(&self) -> usize {
        self.file.table.len()
    }

    /// The labels of the file's sets, by entry.
    pub fn labels(&self) -> &[Box<[u8]>] {
        &self.file.labels
    }

    /// The entry of exactly this set in the file: the number of its label.
    pub fn label_of(&self, descriptor: &Descriptor) -> Option<EntryId> {
        self.file.table.entry_of(descriptor)
    }

    /// What labels lead to.
    pub fn translation(&self) -> &Translation {
        &self.translation
    }

    /// Whether a file has a table of sets of tags, of which nothing else is read but its first page.
    ///
    /// # Errors
    /// If it cannot be read, or has none.
    pub fn examine(path: &Path) -> Result<(), FileError> {
        TableFile::open(path, Kind::Tags, Opening::default()).map(drop)
    }

    /// The secret of a file, of which nothing else is read but its first page.
    ///
    /// # Errors
    /// If it cannot be read, or has no such table.
    pub fn secret_of(path: &Path) -> Result<u64, FileError> {
        Ok(TableFile::open(path, Kind::Tags, Opening::default())?.key().secret()[0])
    }
}

impl Control<Descriptor> for BulkTags {
    type Query = dyn TagsetFib;

    fn query(&self) -> Arc<Self::Query> {
        self.query.clone()
    }

    fn apply(&mut self, changes: &[Change<Descriptor>]) -> Result<Update<Self::Query>, BuildError> {
        // It is patched always, so the query above the file stays.
        self.beside.apply(changes).map(|_| Update::Patched)
    }

    fn reclaim(&mut self) {
        self.beside.reclaim();
    }
}

/// A file that was not written.
#[derive(Debug, Error)]
pub enum BulkTagError {
    /// There are too many sets, or no memory.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The system refuses.
    #[error(transparent)]
    File(#[from] FileError),
    /// Tags are compared by digests of 32 bits. A table has one entry for sets whose digests are equal.
    #[error("of {sets} sets of tags, {equal} have the digests of another one")]
    Equal {
        /// Number of all sets.
        sets: usize,
        /// Number of those that are not the first of their kind.
        equal: usize,
    },
}

/// Writes a file of sets of tags. The same sets in the same order, with the same secret, make the same file.
pub struct BulkTagLoader {
    secret: u64,
    sets: usize,
    loading: Loading,
}

impl BulkTagLoader {
    /// Without sets yet. Tags are mixed with `secret`.
    pub fn new(secret: u64) -> Self {
        BulkTagLoader { secret, sets: 0, loading: Loading::new(Mixer::new(secret)) }
    }

    /// Adds a set. Its entry is the number of its label.
    ///
    /// # Errors
    /// If there are too many.
    pub fn push(&mut self, descriptor: &Descriptor, entry: EntryId) -> Result<(), BuildError> {
        self.loading.push(descriptor.tags(), entry)?;
        self.sets += 1;
        Ok(())
    }

    /// Writes the file, which has its name only when it is complete. Returns the number of sets. It needs memory for a table.
    ///
    /// # Errors
    /// If two sets have equal digests, there is no memory, or the system refuses.
    pub fn save(self, path: &Path, labels: &[Box<[u8]>]) -> Result<usize, BulkTagError> {
        let BulkTagLoader { secret, sets, loading } = self;
        let table = loading.build(&Options::default())?;
        if table.len() != sets {
            return Err(BulkTagError::Equal { sets, equal: sets - table.len() });
        }
        table.write(path, secret, labels)?;
        Ok(sets)
    }

    /// The key that a file's header has for this secret.
    pub fn key(secret: u64) -> NameHashKey {
        NameHashKey::new([secret, 0])
    }
}

impl RareTag {
    /// A query half that asks this table, and then one whose entries are to be translated. Both go on to change.
    pub fn above(&self, file: &RareTag, translation: &Translation) -> Arc<dyn TagsetFib> {
        Arc::new(Above { beside: self.query.clone(), file: file.query.clone(), translation: translation.clone() })
    }
}

/// The query half.
struct Above {
    beside: Arc<Query>,
    file: Arc<Query>,
    translation: Translation,
}

/// A goal among entries that stand for others.
struct Translated<'a, G> {
    goal: &'a mut G,
    translation: &'a Translation,
}

impl<G: Goal> Goal for Translated<'_, G> {
    #[inline(always)]
    fn tags_min(&self, packet: usize) -> usize {
        self.goal.tags_min(packet)
    }

    #[inline(always)]
    fn found(&mut self, packet: usize, descriptor: Option<Row<'_>>, entry: EntryId) -> ControlFlow<()> {
        match self.translation.get(entry) {
            Some(entry) => self.goal.found(packet, descriptor, entry),
            None => ControlFlow::Continue(()),
        }
    }
}

impl Walk for Above {
    /// Walks through both tables. A packet's second walk has the steps that its first one has left.
    fn walk(&self, queries: &[TagQuery<'_>], goal: &mut impl Goal, efforts: &mut [Effort]) {
        let steps_max = self.beside.steps_max;
        let mut states = [State::new(steps_max); BURST_MAX];
        let own = &mut states[..queries.len()];
        processor::burst(&self.beside, queries, goal, own);
        processor::burst(&self.file, queries, &mut Translated { goal, translation: &self.translation }, own);
        efforts.iter_mut().zip(states).for_each(|(effort, state)| *effort = state.effort(steps_max));
    }

    fn bytes(&self) -> usize {
        self.beside.bytes() + self.file.bytes()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::temporary::Temporary;

    fn set(text: &str) -> Descriptor {
        Descriptor::of(text.split(' ')).expect("few tags")
    }

    fn labels() -> Vec<Box<[u8]>> {
        ["/a", "/b"].map(|label| label.as_bytes().into()).into()
    }

    fn save(path: &Path, sets: &[(&str, u32)]) -> Result<usize, BulkTagError> {
        let mut loader = BulkTagLoader::new(5);
        sets.iter().for_each(|(text, entry)| loader.push(&set(text), EntryId(*entry)).expect("few"));
        loader.save(path, &labels())
    }

    #[test]
    fn labels_lead_where_they_are_told_and_descriptors_come_and_go_beside_the_file() {
        let file = Temporary::new("labels");
        assert_eq!(save(&file.0, &[("x", 0), ("x y", 1), ("z", 1)]).expect("a new file"), 3);
        let options = Options { steps_max: 1000, ..Options::default() };
        let mut table = BulkTags::open(&file.0, Opening::default(), 9, &options).expect("ours");
        assert_eq!((table.sets(), table.labels()), (3, &*labels()));
        assert_eq!(table.label_of(&set("y x")), Some(EntryId(1)));
        let fib = table.query();
        let ask = |text: &str| {
            let (asked, mut all) = (set(text), Vec::new());
            let query = TagQuery::of_tags(asked.tags());
            let effort = fib.all_subsets(&query, &mut |entry| {
                all.push(entry.0);
                ControlFlow::Continue(())
            });
            assert!(!effort.cut_off);
            all.sort_unstable();
            (all, fib.largest_subset(&query, &mut |_| true).0.map(|entry| entry.0))
        };
        assert_eq!(ask("x y"), (vec![], None), "labels lead nowhere");
        table.translation().set(EntryId(0), Some(EntryId(70)));
        assert_eq!((ask("x y"), ask("z")), ((vec![70], Some(70)), (vec![], None)));
        table.translation().set(EntryId(1), Some(EntryId(71)));
        assert_eq!((ask("x y"), ask("z q")), ((vec![70, 71], Some(71)), (vec![71], Some(71))));
        table.apply(&[Change::Set(set("x y"), EntryId(1)), Change::Set(set("x y z"), EntryId(2))]).expect("room");
        assert_eq!(ask("x y"), (vec![1, 70, 71], Some(1)), "of equal sets, that of the file comes second");
        assert_eq!(ask("x y z"), (vec![1, 2, 70, 71, 71], Some(2)));
        table.apply(&[Change::Remove(set("x y")), Change::Remove(set("z"))]).expect("room");
        assert_eq!(ask("x y"), (vec![70, 71], Some(71)), "sets of the file stay");
    }

    #[test]
    fn sets_with_equal_digests_and_files_of_another_kind_are_refused() {
        let file = Temporary::new("refused");
        let twice = save(&file.0, &[("x y", 0), ("z", 0), ("y x", 1)]);
        assert!(matches!(twice, Err(BulkTagError::Equal { sets: 3, equal: 1 })), "{twice:?}");
        let options = Options::default();
        let open = |path: &Path| BulkTags::open(path, Opening::default(), 9, &options).map(|table| table.sets());
        assert!(matches!(open(&file.0), Err(FileError::Io { .. })), "nothing was written");
        save(&file.0, &[("x", 7)]).expect("a new file");
        assert!(matches!(open(&file.0), Err(FileError::Malformed { .. })), "there is no such label");
        save(&file.0, &[]).expect("a new file");
        assert_eq!((open(&file.0).expect("ours"), BulkTags::secret_of(&file.0).expect("ours")), (0, 5));
        std::fs::write(&file.0, b"something else").expect("written");
        assert!(BulkTags::examine(&file.0).is_err() && open(&file.0).is_err());
    }
}

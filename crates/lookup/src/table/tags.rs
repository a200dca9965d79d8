//! The sets of tags that are subsets of a set.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use byname_wire::tagset::Descriptor;

use super::key::KeyError;
use super::values::{Slots, Stored, Values};
use super::{TableError, random};
use crate::entry::EntryId;
use crate::file::{FileError, Opening};
use crate::handle::{Reader, Writer};
use crate::memory::Pages;
use crate::tagset::rare_tag::{self, RareTag};
use crate::tagset::{BURST_MAX, Effort, TagQuery, TagsetFib};
use crate::update::Change;

/// How to make a [`TagTable`].
#[derive(Debug, Clone)]
pub struct TagOptions {
    /// Maximum number of sets.
    pub sets_max: usize,
    /// Pages of what readers read.
    pub pages: Pages,
    /// Maximum number of steps of a search ([`rare_tag`]). A search that takes more ends with an
    /// error. It bounds what a stranger's tags cost.
    pub steps_max: u32,
}

impl Default for TagOptions {
    fn default() -> Self {
        TagOptions { sets_max: 1 << 28, pages: Pages::default(), steps_max: 1 << 20 }
    }
}

impl TagOptions {
    fn rare_tag(&self) -> rare_tag::Options {
        rare_tag::Options {
            descriptors_max: self.sets_max,
            steps_max: self.steps_max,
            pages: self.pages,
            ..rare_tag::Options::default()
        }
    }
}

/// Different values at most.
const VALUES_MAX: usize = u32::MAX as usize;

/// Sets of up to 32 tags, each with a value. The only writer of the table.
///
/// ```
/// use byname_lookup::table::TagTable;
///
/// let mut table = TagTable::new()?;
/// table.insert(["concert", "classical"], "alice")?;
/// table.insert(["concert", "jazz"], "bob")?;
/// table.insert(["classical"], "carol")?;
/// let mut reader = table.reader();
/// let mut found = reader.subsets(["classical", "concert", "beethoven"])?;
/// found.sort();
/// assert_eq!(found, ["alice", "carol"]);
/// assert_eq!(reader.largest(["classical", "concert", "beethoven"])?, Some("alice"));
/// # Ok::<(), byname_lookup::table::TableError>(())
/// ```
///
/// Tags are compared by public digests of 32 bits: two tags of a vocabulary of thousands hardly
/// ever share one, but anybody can make two that do.
pub struct TagTable<V> {
    /// What tags are mixed with.
    secret: u64,
    writer: Writer<Descriptor, RareTag>,
    values: Values<V>,
    own: TagReader<V>,
}

impl<V: Clone + Eq + Hash> TagTable<V> {
    /// An empty table.
    ///
    /// # Errors
    /// If the system provides no random numbers or no memory.
    pub fn new() -> Result<Self, TableError> {
        Self::with_options(&TagOptions::default())
    }

    /// An empty table made in this way.
    ///
    /// # Errors
    /// As [`TagTable::new`].
    pub fn with_options(options: &TagOptions) -> Result<Self, TableError> {
        let secret = random()?;
        Ok(Self::of(secret, RareTag::new(secret, &options.rare_tag())?, Values::new(VALUES_MAX)))
    }

    fn of(secret: u64, table: RareTag, values: Values<V>) -> Self {
        let writer = Writer::new(table);
        let own = TagReader { reader: writer.reader(), values: values.slots().clone() };
        TagTable { secret, writer, values, own }
    }

    /// A reader for another thread.
    pub fn reader(&self) -> TagReader<V> {
        self.own.clone()
    }

    /// Sets the value of a set of tags. Returns the value that it had. When this returns, all readers
    /// see the change; so it is with all changes.
    ///
    /// # Errors
    /// If there are more than 32 tags, or the table is full.
    pub fn insert<T: AsRef<[u8]>>(
        &mut self,
        tags: impl IntoIterator<Item = T>,
        value: V,
    ) -> Result<Option<V>, TableError> {
        self.change(descriptor(tags)?, Some(value))
    }

    /// Removes a set of tags. Returns its value.
    ///
    /// # Errors
    /// If there are more than 32 tags.
    pub fn remove<T: AsRef<[u8]>>(&mut self, tags: impl IntoIterator<Item = T>) -> Result<Option<V>, TableError> {
        self.change(descriptor(tags)?, None)
    }

    /// Sets the sets of tags that have a value, and removes those that have none, in this order: all
    /// of them, or none if there is an error. Faster than one by one.
    ///
    /// # Errors
    /// As [`TagTable::insert`].
    pub fn apply<S: IntoIterator<Item: AsRef<[u8]>>>(
        &mut self,
        changes: impl IntoIterator<Item = (S, Option<V>)>,
    ) -> Result<(), TableError> {
        let sets = changes.into_iter().map(|(tags, value)| Ok((descriptor(tags)?, value)));
        self.apply_sets(sets.collect::<Result<Vec<_>, KeyError>>()?)
    }

    /// Number of sets.
    pub fn len(&self) -> usize {
        self.writer.control().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of the table, without what values point to, in bytes.
    pub fn memory_bytes(&mut self) -> usize {
        let read = self.own.reader.read(|fib| fib.memory_bytes());
        read + self.writer.control().control_bytes() + self.values.memory_bytes()
    }

    fn change(&mut self, set: Descriptor, value: Option<V>) -> Result<Option<V>, TableError> {
        let before = self.writer.control().entry_of(&set).and_then(|entry| self.values.slots().get(entry));
        self.apply_sets(vec![(set, value)])?;
        Ok(before)
    }

    fn apply_sets(&mut self, changes: Vec<(Descriptor, Option<V>)>) -> Result<(), TableError> {
        if self.values.is_crowded() {
            self.writer.settle();
            self.values.drop_unused();
        }
        let mut after: HashMap<&Descriptor, Option<EntryId>> = HashMap::new();
        let (mut of_engine, mut uses) = (Vec::with_capacity(changes.len()), Vec::with_capacity(changes.len()));
        for (set, value) in &changes {
            let entry = value.clone().map(|value| self.values.intern(value)).transpose()?;
            let before = after.get(set).copied().unwrap_or_else(|| self.writer.control().entry_of(set));
            after.insert(set, entry);
            uses.push((before, entry));
            of_engine.push(match entry {
                Some(entry) => Change::Set(set.clone(), entry),
                None => Change::Remove(set.clone()),
            });
        }
        self.writer.apply(&of_engine)?;
        uses.into_iter().for_each(|(before, entry)| self.values.note(before, entry));
        Ok(())
    }
}

impl<V: Clone + Eq + Hash + Stored> TagTable<V> {
    /// Writes the table into a file, which has its name only when it is complete. Processes that
    /// have mapped an earlier file of this name keep that. A second table is in memory meanwhile.
    ///
    /// # Errors
    /// If the system refuses, or has no memory.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TableError> {
        let labels = self.values.to_labels();
        Ok(self.writer.control().save(path.as_ref(), self.secret, &labels)??)
    }

    /// Opens a file that [`TagTable::save`] wrote. Its sets are used where they are; processes that
    /// open the same file share their memory. Changes go on and stay in this process. Opening reads
    /// the whole file, even if its checksums are not wanted, and counts its tags. See
    /// [`file`](crate::file) about files that others can write.
    ///
    /// # Errors
    /// If the file cannot be read, has no such table, or has other values.
    pub fn open(path: impl AsRef<Path>, opening: Opening, options: &TagOptions) -> Result<Self, TableError> {
        let opened = RareTag::open(path.as_ref(), opening, &options.rare_tag())?;
        let values = Values::from_labels(&opened.labels, VALUES_MAX);
        let mut values =
            values.ok_or_else(|| FileError::Malformed { what: "its values have another type".to_owned() })?;
        values.set_uses(opened.uses);
        Ok(Self::of(opened.secret, opened.table, values))
    }
}

fn descriptor<T: AsRef<[u8]>>(tags: impl IntoIterator<Item = T>) -> Result<Descriptor, KeyError> {
    Ok(Descriptor::of(tags)?)
}

/// A reader of a [`TagTable`], for one thread. A clone is for another one.
pub struct TagReader<V> {
    reader: Reader<dyn TagsetFib>,
    values: Arc<Slots<V>>,
}

impl<V> Clone for TagReader<V> {
    fn clone(&self) -> Self {
        TagReader { reader: self.reader.clone(), values: self.values.clone() }
    }
}

impl<V: Clone> TagReader<V> {
    /// The values of all sets whose tags are among these, in no order. Sets with equal values yield
    /// as many.
    ///
    /// # Errors
    /// If there are more than 32 tags, or the search takes too many steps.
    pub fn subsets<T: AsRef<[u8]>>(&mut self, tags: impl IntoIterator<Item = T>) -> Result<Vec<V>, TableError> {
        let (set, values, mut found) = (descriptor(tags)?, &self.values, Vec::new());
        let effort = self.reader.read(|fib| {
            fib.all_subsets(&TagQuery::of_tags(set.tags()), &mut |entry| {
                found.extend(values.get(entry));
                ControlFlow::Continue(())
            })
        });
        finished(effort)?;
        Ok(found)
    }

    /// As [`TagReader::subsets`], for many sets of tags, in their order. Faster than one by one,
    /// because waiting for memory overlaps. `out` is cleared first.
    ///
    /// # Errors
    /// As [`TagReader::subsets`], about any of the sets. `out` then ends before that set's burst.
    pub fn subsets_all<'s, S>(&mut self, sets: &'s [S], out: &mut Vec<Vec<V>>) -> Result<(), TableError>
    where
        &'s S: IntoIterator<Item: AsRef<[u8]>>,
    {
        out.clear();
        for some in sets.chunks(BURST_MAX) {
            let some = some.iter().map(descriptor).collect::<Result<Vec<_>, _>>()?;
            let queries: Vec<_> = some.iter().map(|set| TagQuery::of_tags(set.tags())).collect();
            let (values, mut efforts) = (&self.values, [Effort::default(); BURST_MAX]);
            let (efforts, mut found) = (&mut efforts[..some.len()], vec![Vec::new(); some.len()]);
            self.reader.read(|fib| {
                let mut visit = |at: usize, entry| {
                    found[at].extend(values.get(entry));
                    ControlFlow::Continue(())
                };
                fib.all_subsets_burst(&queries, &mut visit, efforts);
            });
            efforts.iter().try_for_each(|effort| finished(*effort))?;
            out.append(&mut found);
        }
        Ok(())
    }

    /// The value of the largest of these sets, as [`tagset`](crate::tagset) defines it.
    ///
    /// # Errors
    /// As [`TagReader::subsets`].
    pub fn largest<T: AsRef<[u8]>>(&mut self, tags: impl IntoIterator<Item = T>) -> Result<Option<V>, TableError> {
        let (set, values) = (descriptor(tags)?, &self.values);
        let (found, effort) = self.reader.read(|fib| {
            let (found, effort) = fib.largest_subset(&TagQuery::of_tags(set.tags()), &mut |_| true);
            (found.and_then(|entry| values.get(entry)), effort)
        });
        finished(effort)?;
        Ok(found)
    }
}

fn finished(effort: Effort) -> Result<(), TableError> {
    if effort.cut_off { Err(TableError::Effort { steps: effort.steps }) } else { Ok(()) }
}

#[cfg(all(test, not(loom)))]
mod tests;

//! The longest prefix that has a rule, with a value of any type.

mod engine;
mod reader;
mod sorted;

use std::collections::HashMap;
use std::hash::Hash;
use std::path::Path;

use byname_wire::{Name, NameHashKey, NameRef};

use self::engine::Engine;
use self::sorted::Rules;
use super::key::{AsName, KeyError};
use super::values::{Stored, Values};
use super::{TableError, random_key};
use crate::entry::EntryId;
use crate::file::{FileError, Opening};
use crate::handle::Writer;
use crate::memory::Pages;
use crate::prefix::compact::{self, BulkTable};
use crate::update::Change;

pub use self::reader::{Found, PrefixReader};

/// Number of changes that are applied together where the caller does not say so.
const BATCH: usize = 4096;
/// Different values of a table on [`compact`]. Its last id marks removed rules.
const VALUES_MAX: usize = compact::ENTRIES_MAX as usize - 1;

/// How a [`PrefixTable`] compares keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Matching {
    /// By 54 bits of a keyed hash or more: a key that no rule covers is taken for one below a rule
    /// with odds of at most 2^-48 for each part of it that is tried ([`compact`]). Up to 65,535
    /// different values, and rules of up to 32 components.
    #[default]
    Fast,
    /// As [`Matching::Fast`], and each match is compared byte by byte.
    Exact,
    /// By 79 bits. Up to 2^32 different values, one for each rule if need be, and rules of up to
    /// 128 components. A lookup tries each depth at which there are rules, the deepest first.
    ManyValues,
}

/// How to make a [`PrefixTable`].
#[derive(Clone)]
pub struct PrefixOptions {
    /// How keys are compared.
    pub matching: Matching,
    /// Maximum number of rules.
    pub rules_max: usize,
    /// Pages of what readers read.
    pub pages: Pages,
    /// The hash key. Drawn from the system if there is none.
    pub key: Option<NameHashKey>,
}

impl Default for PrefixOptions {
    fn default() -> Self {
        PrefixOptions { matching: Matching::Fast, rules_max: 1 << 28, pages: Pages::default(), key: None }
    }
}

impl PrefixOptions {
    fn compact(&self) -> compact::Options {
        let exact = self.matching == Matching::Exact;
        compact::Options { rules_max: self.rules_max, pages: self.pages, exact, ..compact::Options::default() }
    }
}

/// Rules for prefixes, each with a value. The only writer of the table.
///
/// ```
/// use byname_lookup::table::PrefixTable;
///
/// let mut table = PrefixTable::new()?;
/// table.insert("/music", "disk 1")?;
/// table.insert("/music/classical", "disk 2")?;
/// let mut reader = table.reader();
/// let found = std::thread::spawn(move || reader.get("/music/classical/beethoven/ninth.ogg")).join();
/// let found = found.expect("no panic")?.expect("a rule");
/// assert_eq!((found.value, found.depth), ("disk 2", 2));
/// assert_eq!(table.remove("/music/classical")?, Some("disk 2"));
/// assert_eq!(table.get("/music/classical/bach")?.map(|found| found.value), Some("disk 1"));
/// # Ok::<(), byname_lookup::table::TableError>(())
/// ```
///
/// Values are interned: rules with equal values share one. So a value that is large or changes in
/// place is best put behind an `Arc`.
pub struct PrefixTable<V> {
    writer: Writer<Name, Engine>,
    values: Values<V>,
    own: PrefixReader<V>,
}

impl<V: Clone + Eq + Hash> PrefixTable<V> {
    /// An empty table.
    ///
    /// # Errors
    /// If the system provides no random numbers or no memory.
    pub fn new() -> Result<Self, TableError> {
        Self::with_options(&PrefixOptions::default())
    }

    /// An empty table made in this way.
    ///
    /// # Errors
    /// As [`PrefixTable::new`].
    pub fn with_options(options: &PrefixOptions) -> Result<Self, TableError> {
        let key = options.key.map_or_else(random_key, Ok)?;
        let values_max = if options.matching == Matching::ManyValues { u32::MAX as usize } else { VALUES_MAX };
        Ok(Self::of(key, Engine::new(key, options)?, Values::new(values_max)))
    }

    fn of(key: NameHashKey, engine: Engine, values: Values<V>) -> Self {
        let writer = Writer::new(engine);
        let own = PrefixReader::new(writer.reader(), values.slots().clone(), key);
        PrefixTable { writer, values, own }
    }

    /// A table of rules that come in canonical order, each once: by components, where a shorter
    /// component comes before a longer one and components of equal length in the order of their
    /// bytes; a prefix comes before what is below it. It takes 11.4 bytes a rule and keeps no keys, so it can
    /// be larger than any other; changes go into a table beside it. `rules` yields the same rules
    /// each time; it is asked twice. `progress` is called now and then with the number of rules in
    /// the table.
    ///
    /// # Errors
    /// If rules are not in order ([`BuildError::Unsorted`](crate::BuildError::Unsorted)), if there are more than 65,535
    /// different values, or if there is no memory. `options` are those of [`Matching::Fast`].
    pub fn from_sorted<K: AsName, I: Iterator<Item = (K, V)>>(
        options: &PrefixOptions,
        rules: impl Fn() -> I,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Self, TableError> {
        let key = options.key.map_or_else(random_key, Ok)?;
        let mut values = Values::new(VALUES_MAX);
        let entry = |value| {
            let entry = values.intern(value)?;
            values.note(None, Some(entry));
            Ok(entry)
        };
        let table = sorted::load(key, options, rules, entry, progress)?;
        Ok(Self::of(key, Engine::Bulk(Box::new(table)), values))
    }

    /// A table of rules in any order. If a key comes twice, the last one counts. The result is as
    /// small as that of [`PrefixTable::from_sorted`]; the keys are in memory until it is built, and
    /// 16 bytes for each.
    ///
    /// # Errors
    /// As [`PrefixTable::from_sorted`], order aside.
    pub fn from_rules<K: AsName>(
        options: &PrefixOptions,
        rules: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, TableError> {
        let key = options.key.map_or_else(random_key, Ok)?;
        let (mut values, mut unsorted, mut name) = (Values::new(VALUES_MAX), Rules::default(), Vec::new());
        for (key, value) in rules {
            unsorted.push(&key, values.intern(value)?, &mut name)?;
        }
        unsorted.sort();
        let entry = |entry| {
            values.note(None, Some(entry));
            Ok(entry)
        };
        let table = sorted::load(key, options, || unsorted.sorted(), entry, &mut |_| {})?;
        // Those of rules that came again with another value.
        values.drop_unused();
        Ok(Self::of(key, Engine::Bulk(Box::new(table)), values))
    }

    /// A reader for another thread.
    pub fn reader(&self) -> PrefixReader<V> {
        self.own.clone()
    }

    /// The rule for the longest prefix of `key`.
    ///
    /// # Errors
    /// If the key is over the limits.
    pub fn get(&mut self, key: impl AsName) -> Result<Option<Found<V>>, KeyError> {
        self.own.get(key)
    }

    /// Sets the value of a rule. Returns the value that it had. When this returns, all readers see
    /// the change; so it is with all changes.
    ///
    /// # Errors
    /// If the key is over the limits, the table is full, or it has too many different values.
    pub fn insert(&mut self, key: impl AsName, value: V) -> Result<Option<V>, TableError> {
        self.change(name(&key)?, Some(value))
    }

    /// Removes a rule. Returns its value.
    ///
    /// # Errors
    /// If the key is over the limits.
    pub fn remove(&mut self, key: impl AsName) -> Result<Option<V>, TableError> {
        self.change(name(&key)?, None)
    }

    /// The value of exactly this rule.
    ///
    /// # Errors
    /// If the key is over the limits.
    pub fn rule(&mut self, key: impl AsName) -> Result<Option<V>, KeyError> {
        let name = name(&key)?;
        Ok(self.entry_of(name.as_ref()).and_then(|entry| self.values.slots().get(entry)))
    }

    /// Sets the rules that have a value, and removes those that have none, in this order: all of
    /// them, or none if there is an error. Faster than one by one. A reader sees each change at
    /// once, but may see some of them before others.
    ///
    /// # Errors
    /// As [`PrefixTable::insert`].
    pub fn apply<K: AsName>(&mut self, changes: impl IntoIterator<Item = (K, Option<V>)>) -> Result<(), TableError> {
        let named = changes.into_iter().map(|(key, value)| Ok((name(&key)?, value)));
        let named = named.collect::<Result<Vec<_>, KeyError>>()?;
        self.apply_named(named)
    }

    /// Sets many rules, some thousands at a time. If one is refused, those before it may be there.
    ///
    /// # Errors
    /// As [`PrefixTable::insert`].
    pub fn extend<K: AsName>(&mut self, rules: impl IntoIterator<Item = (K, V)>) -> Result<(), TableError> {
        let mut rules = rules.into_iter().map(|(key, value)| (key, Some(value))).peekable();
        while rules.peek().is_some() {
            self.apply(rules.by_ref().take(BATCH).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Makes the table as small as one from [`PrefixTable::from_rules`], by dropping the keys, which
    /// only changes need. Later changes go into a table beside it. For a table that was filled and
    /// now hardly changes; while this runs, both tables are in memory, and readers go on. Without
    /// effect on a table that was loaded or opened, or whose matching is not [`Matching::Fast`].
    ///
    /// # Errors
    /// If there is no memory. The table then stays as it was.
    pub fn shrink(&mut self) -> Result<(), TableError> {
        if let Engine::Compact { table, options } = self.writer.control()
            && !options.exact
        {
            let small = sorted::image(self.own.key, table, options)?;
            self.writer.replace(Engine::Bulk(Box::new(small)));
        }
        Ok(())
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.writer.control().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of different values, including those that lost their last rule a short while ago.
    pub fn values(&self) -> usize {
        self.values.len()
    }

    /// Memory of the table with its keys, without what values point to, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.writer.control().memory_bytes() + self.values.memory_bytes()
    }

    fn change(&mut self, name: Name, value: Option<V>) -> Result<Option<V>, TableError> {
        let before = self.entry_of(name.as_ref()).and_then(|entry| self.values.slots().get(entry));
        self.apply_named(vec![(name, value)])?;
        Ok(before)
    }

    fn entry_of(&mut self, name: NameRef<'_>) -> Option<EntryId> {
        self.writer.control_mut().entry_of(&self.own.key, name)
    }

    fn apply_named(&mut self, changes: Vec<(Name, Option<V>)>) -> Result<(), TableError> {
        if self.values.is_crowded() {
            self.writer.settle();
            self.values.drop_unused();
        }
        let mut after: HashMap<&Name, Option<EntryId>> = HashMap::new();
        let (mut of_engine, mut uses) = (Vec::with_capacity(changes.len()), Vec::with_capacity(changes.len()));
        for (name, value) in &changes {
            let entry = value.clone().map(|value| self.values.intern(value)).transpose()?;
            let before = after.get(name).copied().unwrap_or_else(|| {
                let control = self.writer.control_mut();
                control.entry_of(&self.own.key, name.as_ref())
            });
            after.insert(name, entry);
            uses.push((before, entry));
            of_engine.push(match entry {
                Some(entry) => Change::Set(name.clone(), entry),
                None => Change::Remove(name.clone()),
            });
        }
        self.writer.apply(&of_engine)?;
        uses.into_iter().for_each(|(before, entry)| self.values.note(before, entry));
        Ok(())
    }
}

impl<V: Clone + Eq + Hash + Stored> PrefixTable<V> {
    /// Writes the table into a file, which has its name only when it is complete. Processes that
    /// have mapped an earlier file of this name keep that.
    ///
    /// A table from [`PrefixTable::from_sorted`] or [`PrefixTable::open`] writes what was loaded
    /// and its changes; any other table sorts its rules first.
    ///
    /// # Errors
    /// If the system refuses, or if the table's matching is not [`Matching::Fast`].
    pub fn save(&mut self, path: impl AsRef<Path>) -> Result<(), TableError> {
        let labels = self.values.to_labels();
        match self.writer.control_mut() {
            Engine::Bulk(table) => {
                table.set_labels(labels);
                Ok(table.save(path.as_ref())?)
            }
            Engine::Compact { table, options } if !options.exact => {
                let mut table = sorted::image(self.own.key, table, options)?;
                table.set_labels(labels);
                Ok(table.save(path.as_ref())?)
            }
            _ => Err(TableError::NoFile),
        }
    }

    /// Opens a file that [`PrefixTable::save`] wrote. Its rules are used where they are; processes
    /// that open the same file share its memory. Changes stay in this process. See
    /// [`file`](crate::file) about files that others can write.
    ///
    /// # Errors
    /// If the file cannot be read, has no such table, or has other values. The options' key and
    /// matching are not used.
    pub fn open(path: impl AsRef<Path>, opening: Opening, options: &PrefixOptions) -> Result<Self, TableError> {
        let options = compact::Options { exact: false, ..options.compact() };
        let table = BulkTable::open(path.as_ref(), opening, &options)?;
        let values = Values::from_labels(table.labels(), VALUES_MAX);
        let values = values.ok_or_else(|| FileError::Malformed { what: "its values have another type".to_owned() })?;
        Ok(Self::of(*table.key(), Engine::Bulk(Box::new(table)), values))
    }
}

fn name(key: &impl AsName) -> Result<Name, KeyError> {
    let mut value = Vec::new();
    key.append_to(&mut value)?;
    Ok(NameRef::new_checked_before(&value).to_name())
}

#[cfg(all(test, not(loom)))]
mod tests;

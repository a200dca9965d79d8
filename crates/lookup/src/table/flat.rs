//! A number for exactly this key.

use std::path::Path;
use std::sync::Arc;

use byname_wire::{Digest, NameHashKey};
use smallvec::SmallVec;

use super::key::{AsBytes, KeyBytes};
use super::{TableError, random_key};
use crate::entry::EntryId;
use crate::file::{FileError, Opening};
use crate::flat::line::{self, LineRetrieval};
use crate::flat::validity::{Check, Checked, Verified, VerifiedFib};
use crate::flat::{BURST_MAX, FlatFib};
use crate::handle::{Reader, Writer};
use crate::memory::Pages;
use crate::update::{BuildError, Change, Control, Update};

/// Number of changes that are applied together where the caller does not say so.
const BATCH: usize = 4096;
/// Number of keys that are hashed together.
const HASHED: usize = 16;
/// Number of keys between two reports of progress.
const REPORTED: usize = 1 << 20;

/// What [`FlatReader::get`] answers for a key that is not in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unknown {
    /// Any value: for callers that ask only about keys in the table. The table is then smallest,
    /// 1.13 bits for each bit of a value.
    #[default]
    Anything,
    /// Nothing, except with odds of 2^-`check_bits`. Takes as many bits more for each key. Values
    /// and checksums have at most 32 bits together.
    Refused {
        /// Bits of the checksum, at least 1.
        check_bits: u32,
    },
    /// Nothing: the table keeps all keys and compares them, which takes some 100 bytes and the key
    /// for each.
    Exact,
}

/// How to make a [`FlatTable`].
#[derive(Clone)]
pub struct FlatOptions {
    /// Bits of a value: 1 to 32.
    pub value_bits: u32,
    /// The answer for unknown keys.
    pub unknown: Unknown,
    /// Maximum number of keys.
    pub keys_max: usize,
    /// Pages of what readers read.
    pub pages: Pages,
    /// Number of threads that [`FlatTable::load`] builds on, while it is called. Tables of [`Unknown::Exact`] use one.
    pub threads: usize,
    /// The hash key. Drawn from the system if there is none.
    pub key: Option<NameHashKey>,
}

impl Default for FlatOptions {
    fn default() -> Self {
        FlatOptions {
            value_bits: 32,
            unknown: Unknown::Anything,
            keys_max: 1 << 32,
            pages: Pages::default(),
            threads: 1,
            key: None,
        }
    }
}

impl FlatOptions {
    /// Bits that the engine stores for a key.
    fn engine_bits(&self) -> Result<u32, TableError> {
        let impossible = TableError::Bits { value_bits: self.value_bits, unknown: self.unknown };
        let fits = |bits: &u32| (1..=32).contains(&self.value_bits) && *bits <= 32;
        let bits = match self.unknown {
            Unknown::Anything => Some(self.value_bits),
            Unknown::Refused { check_bits: 0 } => None,
            Unknown::Refused { check_bits } => self.value_bits.checked_add(check_bits),
            Unknown::Exact => Some(32),
        };
        bits.filter(fits).ok_or(impossible)
    }

    fn line(&self) -> Result<line::Options, TableError> {
        let (entry_bits, names_max, threads) = (self.engine_bits()?, self.keys_max, self.threads);
        Ok(line::Options { entry_bits, names_max, pages: self.pages, threads, ..line::Options::default() })
    }
}

/// An engine whose keys are digests.
enum ByDigest {
    Plain(LineRetrieval),
    Checked(Checked<LineRetrieval>),
}

impl Control<Digest> for ByDigest {
    type Query = dyn FlatFib;

    fn query(&self) -> Arc<Self::Query> {
        match self {
            ByDigest::Plain(table) => table.query(),
            ByDigest::Checked(table) => table.query(),
        }
    }

    fn apply(&mut self, changes: &[Change<Digest>]) -> Result<Update<Self::Query>, BuildError> {
        match self {
            ByDigest::Plain(table) => table.apply(changes),
            ByDigest::Checked(table) => table.apply(changes),
        }
    }

    fn reclaim(&mut self) {
        match self {
            ByDigest::Plain(table) => table.reclaim(),
            ByDigest::Checked(table) => table.reclaim(),
        }
    }
}

type Whole = Verified<LineRetrieval>;

enum Table {
    Digests(Box<Writer<Digest, ByDigest>>),
    Whole(Box<Writer<Box<[u8]>, Whole>>),
}

/// Keys of any bytes, each with a number of up to 32 bits. The only writer of the table.
///
/// ```
/// use byname_lookup::table::{FlatOptions, FlatTable, Unknown};
///
/// let options = FlatOptions { value_bits: 8, unknown: Unknown::Refused { check_bits: 16 }, ..FlatOptions::default() };
/// let mut table = FlatTable::with_options(&options)?;
/// table.insert("alice", 3)?;
/// table.extend((0..1000u64).map(|id| (id, (id % 200) as u32)))?;
/// let mut reader = table.reader();
/// assert_eq!((reader.get("alice"), reader.get(517u64)), (Some(3), Some(117)));
/// table.remove(517u64)?;
/// // Almost always, `None` for a key that is not there.
/// assert!(reader.get("bob").is_none() || reader.get("carol").is_none());
/// # Ok::<(), byname_lookup::table::TableError>(())
/// ```
pub struct FlatTable {
    key: NameHashKey,
    table: Table,
    value_bits: u32,
    own: FlatReader,
}

impl FlatTable {
    /// An empty table for values of 32 bits, which answers anything for unknown keys.
    ///
    /// # Errors
    /// If the system provides no random numbers.
    pub fn new() -> Result<Self, TableError> {
        Self::with_options(&FlatOptions::default())
    }

    /// An empty table made in this way.
    ///
    /// # Errors
    /// If the options contradict each other, or the system provides no random numbers.
    pub fn with_options(options: &FlatOptions) -> Result<Self, TableError> {
        let key = options.key.map_or_else(random_key, Ok)?;
        let table = LineRetrieval::new(&options.line()?);
        Ok(match options.unknown {
            Unknown::Exact => Self::whole(key, options, Writer::new(Verified::new(key, table))),
            _ => Self::digests(key, options, table),
        })
    }

    /// A table of many keys, built in one step. If a key comes twice, the last one counts.
    /// `progress` is called now and then with the number of keys that were read; most time passes
    /// afterwards.
    ///
    /// # Errors
    /// As [`FlatTable::with_options`] and [`FlatTable::insert`].
    pub fn load<K: AsBytes>(
        options: &FlatOptions,
        keys: impl IntoIterator<Item = (K, u32)>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Self, TableError> {
        if options.unknown == Unknown::Exact {
            let mut table = Self::with_options(options)?;
            table.extend(keys)?;
            progress(table.len());
            return Ok(table);
        }
        let key = options.key.map_or_else(random_key, Ok)?;
        let (line, check) = (options.line()?, check(options));
        let mut names = Vec::new();
        for (name, value) in keys {
            check_value(options.value_bits, value)?;
            let digest = key.digest_bytes(&name.as_key());
            let entry = check.map_or(Ok(EntryId(value)), |check| check.stored(digest, EntryId(value)))?;
            names.push((digest, entry));
            if names.len() % REPORTED == 0 {
                progress(names.len());
            }
        }
        let table = LineRetrieval::load(&line, &names)?;
        progress(names.len());
        Ok(Self::digests(key, options, table))
    }

    fn digests(key: NameHashKey, options: &FlatOptions, table: LineRetrieval) -> Self {
        let engine = match check(options) {
            Some(check) => ByDigest::Checked(Checked::new(table, check)),
            None => ByDigest::Plain(table),
        };
        let writer = Writer::new(engine);
        let own = FlatReader { key, table: ReadTable::Digests(writer.reader()) };
        FlatTable { key, table: Table::Digests(Box::new(writer)), value_bits: options.value_bits, own }
    }

    fn whole(key: NameHashKey, options: &FlatOptions, writer: Writer<Box<[u8]>, Whole>) -> Self {
        let own = FlatReader { key, table: ReadTable::Whole(writer.reader()) };
        FlatTable { key, table: Table::Whole(Box::new(writer)), value_bits: options.value_bits, own }
    }

    /// A reader for another thread.
    pub fn reader(&self) -> FlatReader {
        self.own.clone()
    }

    /// The value of a key. For a key that is not in the table, see [`Unknown`].
    pub fn get(&mut self, key: impl AsBytes) -> Option<u32> {
        self.own.get(key)
    }

    /// Sets the value of a key. When this returns, all readers see it; so it is with all changes.
    ///
    /// # Errors
    /// If the value has too many bits, or the table is full.
    pub fn insert(&mut self, key: impl AsBytes, value: u32) -> Result<(), TableError> {
        self.apply([(key, Some(value))])
    }

    /// Removes a key.
    ///
    /// # Errors
    /// If the system has no memory to rebuild part of the table.
    pub fn remove(&mut self, key: impl AsBytes) -> Result<(), TableError> {
        self.apply([(key, None)])
    }

    /// Sets keys that have a value, and removes those that have none, in this order: all of them, or
    /// none if there is an error. Faster than one by one.
    ///
    /// # Errors
    /// As [`FlatTable::insert`].
    pub fn apply<K: AsBytes>(&mut self, changes: impl IntoIterator<Item = (K, Option<u32>)>) -> Result<(), TableError> {
        let changes: Vec<_> = changes.into_iter().collect();
        changes.iter().filter_map(|(_, value)| *value).try_for_each(|value| check_value(self.value_bits, value))?;
        match &mut self.table {
            Table::Digests(writer) => {
                let digest = |name: &K| self.key.digest_bytes(&name.as_key());
                let changes: Vec<_> = changes.iter().map(|(name, value)| change(digest(name), *value)).collect();
                writer.apply(&changes)?;
            }
            Table::Whole(writer) => {
                let name = |name: &K| (&*name.as_key()).into();
                let changes: Vec<_> = changes.iter().map(|(key, value)| change(name(key), *value)).collect();
                writer.apply(&changes)?;
            }
        }
        Ok(())
    }

    /// Sets many keys, some thousands at a time. If one is refused, those before it may be there.
    ///
    /// # Errors
    /// As [`FlatTable::insert`].
    pub fn extend<K: AsBytes>(&mut self, keys: impl IntoIterator<Item = (K, u32)>) -> Result<(), TableError> {
        let mut keys = keys.into_iter().map(|(key, value)| (key, Some(value))).peekable();
        while keys.peek().is_some() {
            self.apply(keys.by_ref().take(BATCH).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Writes what readers read into a file, for [`FlatReader::open`] in other processes. The keys
    /// are not in it, so it cannot be changed there.
    ///
    /// # Errors
    /// If the system refuses, or if unknown keys are to be told exactly ([`Unknown::Exact`]).
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TableError> {
        let Table::Digests(writer) = &self.table else { return Err(TableError::NoFile) };
        let (table, check_bits) = match writer.control() {
            ByDigest::Plain(table) => (table, 0),
            ByDigest::Checked(table) => (table.engine(), table.check().bits() - self.value_bits),
        };
        let note = [self.value_bits, check_bits].map(u32::to_le_bytes);
        Ok(table.save(path.as_ref(), &self.key, note.as_flattened())?)
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        match &self.table {
            Table::Digests(writer) => match writer.control() {
                ByDigest::Plain(table) => table.len(),
                ByDigest::Checked(table) => table.engine().len(),
            },
            Table::Whole(writer) => writer.control().len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of what readers read, in bytes.
    pub fn memory_bytes(&mut self) -> usize {
        match &mut self.own.table {
            ReadTable::Digests(reader) => reader.read(|fib| fib.memory_bytes()),
            ReadTable::Whole(reader) => reader.read(|fib| fib.memory_bytes()),
        }
    }
}

fn change<K>(key: K, value: Option<u32>) -> Change<K> {
    match value {
        Some(value) => Change::Set(key, EntryId(value)),
        None => Change::Remove(key),
    }
}

fn check(options: &FlatOptions) -> Option<Check> {
    match options.unknown {
        Unknown::Refused { check_bits } => Some(Check::new(options.value_bits, check_bits)),
        _ => None,
    }
}

fn check_value(bits: u32, value: u32) -> Result<(), BuildError> {
    match value.checked_shr(bits) {
        Some(1..) => Err(BuildError::EntryOutOfRange { entry: value, entries_max: 1 << bits }),
        _ => Ok(()),
    }
}

enum ReadTable {
    Digests(Reader<dyn FlatFib>),
    Whole(Reader<VerifiedFib>),
}

/// A reader of a [`FlatTable`], for one thread. A clone is for another one.
pub struct FlatReader {
    key: NameHashKey,
    table: ReadTable,
}

impl Clone for FlatReader {
    fn clone(&self) -> Self {
        let table = match &self.table {
            ReadTable::Digests(reader) => ReadTable::Digests(reader.clone()),
            ReadTable::Whole(reader) => ReadTable::Whole(reader.clone()),
        };
        FlatReader { key: self.key, table }
    }
}

impl FlatReader {
    /// A reader of a file that [`FlatTable::save`] wrote. Processes that open the same file share
    /// its memory. See [`file`](crate::file) about files that others can write.
    ///
    /// # Errors
    /// If the file cannot be read or has no such table.
    pub fn open(path: impl AsRef<Path>, opening: Opening) -> Result<Self, TableError> {
        let malformed = || FileError::Malformed { what: "its values have an impossible number of bits".to_owned() };
        let line::Opened { mut query, key, note, .. } = line::open(path.as_ref(), opening)?;
        let (bits, []) = note.as_chunks::<4>() else { return Err(malformed().into()) };
        let &[value_bits, check_bits] = bits else { return Err(malformed().into()) };
        let (value_bits, check_bits) = (u32::from_le_bytes(value_bits), u32::from_le_bytes(check_bits));
        if check_bits > 0 {
            let fits = value_bits > 0 && value_bits.checked_add(check_bits).is_some_and(|bits| bits <= 32);
            query = if fits { Check::new(value_bits, check_bits).query(query) } else { return Err(malformed().into()) };
        }
        Ok(FlatReader { key, table: ReadTable::Digests(Reader::of_unchanging(query)) })
    }

    /// The value of a key. For a key that is not in the table, see [`Unknown`].
    pub fn get(&mut self, key: impl AsBytes) -> Option<u32> {
        let name = key.as_key();
        let found = match &mut self.table {
            ReadTable::Digests(reader) => {
                let digest = self.key.digest_bytes(&name);
                reader.read(|fib| fib.entry(digest))
            }
            ReadTable::Whole(reader) => reader.read(|fib| fib.entry(&name)),
        };
        found.map(|entry| entry.0)
    }

    /// The values of many keys, in their order. Faster than one by one, because waiting for memory
    /// overlaps. `out` is cleared first.
    pub fn get_all<K: AsBytes>(&mut self, keys: &[K], out: &mut Vec<Option<u32>>) {
        out.clear();
        for some in keys.chunks(BURST_MAX) {
            self.get_burst(some, |value| out.push(value));
        }
    }

    /// The values of the keys that an iterator yields, in their order. The iterator is asked for a
    /// burst of keys ahead.
    pub fn get_each<'a, K: AsBytes + 'a, I: IntoIterator<Item = K, IntoIter: 'a>>(
        &'a mut self,
        keys: I,
    ) -> impl Iterator<Item = Option<u32>> + 'a {
        let (mut keys, mut some) = (keys.into_iter(), Vec::new());
        let mut answers = std::collections::VecDeque::new();
        std::iter::from_fn(move || {
            if answers.is_empty() {
                some.clear();
                some.extend(keys.by_ref().take(BURST_MAX));
                self.get_burst(&some, |value| answers.push_back(value));
            }
            answers.pop_front()
        })
    }

    fn get_burst<K: AsBytes>(&mut self, keys: &[K], mut each: impl FnMut(Option<u32>)) {
        let (mut digests, mut out) = ([Digest::default(); BURST_MAX], [None; BURST_MAX]);
        let (digests, out) = (&mut digests[..keys.len()], &mut out[..keys.len()]);
        let with_names = |keys: &[K], use_of: &mut dyn FnMut(&[&[u8]])| {
            let names: SmallVec<[KeyBytes<'_>; HASHED]> = keys.iter().map(AsBytes::as_key).collect();
            use_of(&names.iter().map(|name| &**name).collect::<SmallVec<[&[u8]; HASHED]>>());
        };
        for (keys, digests) in keys.chunks(HASHED).zip(digests.chunks_mut(HASHED)) {
            with_names(keys, &mut |names| self.key.digest_bytes_burst(names, digests));
        }
        match &mut self.table {
            ReadTable::Digests(reader) => reader.read(|fib| fib.entry_burst(digests, out)),
            ReadTable::Whole(reader) => reader.read(|fib| {
                fib.numbers(digests, out);
                for (keys, out) in keys.chunks(HASHED).zip(out.chunks_mut(HASHED)) {
                    with_names(keys, &mut |names| fib.verify(names, out));
                }
            }),
        }
        out.iter().for_each(|found| each(found.map(|entry| entry.0)));
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

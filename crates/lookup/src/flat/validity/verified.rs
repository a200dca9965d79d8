//! Stores whole names, for ingress routers: no unknown name gets an entry.
//!
//! The engine maps a name's digest to the number of its record. The record holds the name and its
//! entry. A lookup therefore reads two more places: the record and the name.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use byname_wire::{Digest, NameHashKey};

use crate::entry::EntryId;
use crate::flat::FlatFib;
use crate::prefetch;
use crate::update::{BuildError, Change, Control, Update};

const RECORDS_MIN: usize = 64;

/// A name and its entry.
struct Record {
    name: Box<[u8]>,
    entry: EntryId,
}

/// Indexed by number. The writer replaces records one at a time; readers keep a record as long as
/// they use it.
type Records = Arc<[ArcSwapOption<Record>]>;

/// A name and the entry that it must have at the end of the batch. `None` if it is removed.
type Wanted<'a> = (&'a [u8], Option<EntryId>);

/// The control half: names of any bytes.
pub struct Verified<C> {
    key: NameHashKey,
    engine: C,
    numbers: HashMap<Digest, u32>,
    /// Numbers that no name uses any more.
    free: Vec<u32>,
    records: Records,
}

/// The query half.
pub struct VerifiedFib {
    key: NameHashKey,
    fib: Arc<dyn FlatFib>,
    records: Records,
}

impl<C: Control<Digest, Query = dyn FlatFib>> Verified<C> {
    /// Wraps an empty engine, for names hashed with `key`. The engine's entries are numbers of
    /// names, so they need enough bits to count them.
    pub fn new(key: NameHashKey, engine: C) -> Self {
        let records = (0..RECORDS_MIN).map(|_| ArcSwapOption::empty()).collect();
        Verified { key, engine, numbers: HashMap::new(), free: Vec::new(), records }
    }

    /// Names in the table.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The last change of each name in the batch.
    fn last_of_each<'a>(&self, changes: &'a [Change<Box<[u8]>>]) -> Result<HashMap<Digest, Wanted<'a>>, BuildError> {
        let mut last = HashMap::new();
        for change in changes {
            let (name, entry) = match change {
                Change::Set(name, entry) => (&**name, Some(*entry)),
                Change::Remove(name) => (&**name, None),
            };
            let digest = self.key.digest_bytes(name);
            let known = self.numbers.get(&digest).and_then(|&number| self.records[number as usize].load_full());
            let other = known.is_some_and(|record| *record.name != *name);
            if other || last.insert(digest, (name, entry)).is_some_and(|(before, _)| before != name) {
                return Err(BuildError::Collision);
            }
        }
        Ok(last)
    }
}

impl<C: Control<Digest, Query = dyn FlatFib>> Control<Box<[u8]>> for Verified<C> {
    type Query = VerifiedFib;

    fn query(&self) -> Arc<Self::Query> {
        Arc::new(VerifiedFib { key: self.key, fib: self.engine.query(), records: self.records.clone() })
    }

    fn apply(&mut self, changes: &[Change<Box<[u8]>>]) -> Result<Update<Self::Query>, BuildError> {
        let last = self.last_of_each(changes)?;
        let (mut free, mut next) = (self.free.clone(), (self.numbers.len() + self.free.len()) as u32);
        let (mut of_engine, mut to_store) = (Vec::new(), Vec::new());
        for (&digest, &(name, entry)) in &last {
            let record = entry.map(|entry| Arc::new(Record { name: name.into(), entry }));
            match self.numbers.get(&digest) {
                Some(&number) => {
                    to_store.push((number, record));
                    if entry.is_none() {
                        of_engine.push(Change::Remove(digest));
                    }
                }
                None if entry.is_some() => {
                    let number = free.pop().unwrap_or_else(|| {
                        next += 1;
                        next - 1
                    });
                    of_engine.push(Change::Set(digest, EntryId(number)));
                    to_store.push((number, record));
                }
                None => {}
            }
        }
        // Until the records are there, the engine leads to no record, or to another name's.
        let update = self.engine.apply(&of_engine)?;
        self.free = free;
        for change in of_engine {
            match change {
                Change::Set(digest, number) => drop(self.numbers.insert(digest, number.0)),
                Change::Remove(digest) => self.free.extend(self.numbers.remove(&digest)),
            }
        }
        let is_full = next as usize > self.records.len();
        if is_full {
            let len = (next as usize).next_power_of_two();
            let record = |at: usize| self.records.get(at).and_then(|record| record.load_full());
            self.records = (0..len).map(|at| ArcSwapOption::new(record(at))).collect();
        }
        for (number, record) in to_store {
            self.records[number as usize].store(record);
        }
        Ok(match update {
            Update::Patched if !is_full => Update::Patched,
            _ => Update::Replace(self.query()),
        })
    }

    fn reclaim(&mut self) {
        self.engine.reclaim();
    }
}

impl VerifiedFib {
    /// The entry of exactly this name. `None` if the table does not have it.
    pub fn entry(&self, name: &[u8]) -> Option<EntryId> {
        let number = self.fib.entry(self.key.digest_bytes(name))?;
        self.entry_in(number, name)
    }

    /// For each name's digest, the number of a record that may be the name's.
    ///
    /// # Panics
    /// As [`FlatFib::entry_burst`].
    pub(crate) fn numbers(&self, digests: &[Digest], out: &mut [Option<EntryId>]) {
        self.fib.entry_burst(digests, out);
        for number in out.iter().flatten() {
            self.records.get(number.0 as usize).into_iter().for_each(prefetch::read);
        }
    }

    /// Replaces the number of each name's record by the entry, or by `None` if it is another name's.
    pub(crate) fn verify(&self, names: &[&[u8]], numbers: &mut [Option<EntryId>]) {
        for (name, found) in names.iter().zip(numbers) {
            *found = found.and_then(|number| self.entry_in(number, name));
        }
    }

    fn entry_in(&self, number: EntryId, name: &[u8]) -> Option<EntryId> {
        let record = self.records.get(number.0 as usize)?.load();
        record.as_ref().filter(|record| *record.name == *name).map(|record| record.entry)
    }

    /// Resident memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let records = self.records.iter().filter_map(|record| record.load_full());
        size_of::<Self>()
            + self.fib.memory_bytes()
            + size_of_val(&*self.records)
            + records.map(|record| size_of::<Record>() + record.name.len()).sum::<usize>()
    }
}

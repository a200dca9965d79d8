//! Stores a checksum of the name beside its entry.

use std::sync::Arc;

use byname_wire::Digest;

use super::wrapped;
use crate::entry::EntryId;
use crate::flat::FlatFib;
use crate::update::{BuildError, Change, Control, Update};

/// How an engine's stored bits are divided into an entry and a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    entry_bits: u32,
    check_bits: u32,
}

impl Check {
    /// Entries of `entry_bits` bits and checksums of `check_bits` bits.
    ///
    /// # Panics
    /// If either is 0, or their sum exceeds 32.
    pub fn new(entry_bits: u32, check_bits: u32) -> Self {
        assert!(entry_bits > 0 && check_bits > 0 && entry_bits + check_bits <= 32);
        Check { entry_bits, check_bits }
    }

    /// Number of bits that the engine stores for a name.
    pub fn bits(&self) -> u32 {
        self.entry_bits + self.check_bits
    }

    /// The value that the engine stores for a name. For bulk loading.
    ///
    /// # Errors
    /// If the entry is too large.
    pub fn stored(&self, name: Digest, entry: EntryId) -> Result<EntryId, BuildError> {
        if u64::from(entry.0) >> self.entry_bits != 0 {
            return Err(BuildError::EntryOutOfRange { entry: entry.0, entries_max: 1 << self.entry_bits });
        }
        Ok(EntryId(entry.0 << self.check_bits | self.sum(name)))
    }

    /// Wraps a query half of stored values, where the control half is elsewhere.
    pub fn query(self, fib: Arc<dyn FlatFib>) -> Arc<dyn FlatFib> {
        Arc::new(CheckedFib { fib, check: self })
    }

    /// Bits of the digest, mixed in a way that no engine uses.
    #[inline(always)]
    fn sum(&self, name: Digest) -> u32 {
        let mixed = (name.hash.rotate_left(29) ^ name.check).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed >> (64 - self.check_bits)) as u32
    }

    #[inline(always)]
    fn entry(&self, name: Digest, stored: EntryId) -> Option<EntryId> {
        let is_of_name = (stored.0 ^ self.sum(name)) & ((1 << self.check_bits) - 1) == 0;
        is_of_name.then_some(EntryId(stored.0 >> self.check_bits))
    }
}

/// An engine that stores a checksum with each entry. An unknown name gets an entry with probability
/// 2^-c for a checksum of c bits, and otherwise `None`.
pub struct Checked<C> {
    engine: C,
    check: Check,
}

struct CheckedFib {
    fib: Arc<dyn FlatFib>,
    check: Check,
}

impl<C: Control<Digest, Query = dyn FlatFib>> Checked<C> {
    /// Wraps an engine for entries of [`Check::bits`] bits that is empty or was built from
    /// [`Check::stored`].
    pub fn new(engine: C, check: Check) -> Self {
        Checked { engine, check }
    }

    /// How stored bits are divided.
    pub fn check(&self) -> Check {
        self.check
    }

    /// The engine.
    pub fn engine(&self) -> &C {
        &self.engine
    }
}

impl<C: Control<Digest, Query = dyn FlatFib>> Control<Digest> for Checked<C> {
    type Query = dyn FlatFib;

    fn query(&self) -> Arc<Self::Query> {
        self.check.query(self.engine.query())
    }

    fn apply(&mut self, changes: &[Change<Digest>]) -> Result<Update<Self::Query>, BuildError> {
        let stored = changes.iter().map(|change| match change {
            Change::Set(name, entry) => self.check.stored(*name, *entry).map(|stored| Change::Set(*name, stored)),
            Change::Remove(name) => Ok(Change::Remove(*name)),
        });
        let update = self.engine.apply(&stored.collect::<Result<Vec<_>, _>>()?)?;
        Ok(wrapped(update, |fib| self.check.query(fib)))
    }

    fn reclaim(&mut self) {
        self.engine.reclaim();
    }
}

impl FlatFib for CheckedFib {
    fn entry(&self, name: Digest) -> Option<EntryId> {
        self.check.entry(name, self.fib.entry(name)?)
    }

    fn entry_burst(&self, names: &[Digest], out: &mut [Option<EntryId>]) {
        self.fib.entry_burst(names, out);
        for (name, found) in names.iter().zip(out) {
            *found = found.and_then(|stored| self.check.entry(*name, stored));
        }
    }

    fn lines_read(&self, name: Digest) -> Option<usize> {
        self.fib.lines_read(name)
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.fib.memory_bytes()
    }
}

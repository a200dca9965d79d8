//! Puts a Bloom filter in front of an engine.
//!
//! The filter, from the crate `fastbloom`, accepts names while readers use it. It cannot forget
//! names. When many names have been removed, it is rebuilt from those that are left.

use std::collections::HashSet;
use std::sync::Arc;

use byname_wire::Digest;
use fastbloom::AtomicBloomFilter;

use crate::entry::EntryId;
use crate::flat::FlatFib;
use crate::update::{BuildError, Change, Control, Update};

const NAMES_MIN: usize = 1000;

/// An engine behind a filter. An unknown name gets an entry with at most the given probability, and
/// otherwise `None`. A removed name may still get its entry until the filter is rebuilt.
pub struct Filtered<C> {
    engine: C,
    odds: f64,
    names: HashSet<Digest>,
    filter: Arc<AtomicBloomFilter>,
    /// Number of names in the filter, and the maximum for which the probability holds.
    noted: usize,
    noted_max: usize,
}

struct FilteredFib {
    fib: Arc<dyn FlatFib>,
    filter: Arc<AtomicBloomFilter>,
}

/// The filter derives all its hashes from one 64-bit hash.
#[inline(always)]
fn hash(name: Digest) -> u64 {
    name.hash ^ name.check.rotate_left(32)
}

fn filter(names_max: usize, odds: f64) -> Arc<AtomicBloomFilter> {
    Arc::new(AtomicBloomFilter::with_false_pos(odds).expected_items(names_max))
}

impl<C: Control<Digest, Query = dyn FlatFib>> Filtered<C> {
    /// Wraps an engine that holds `names`. This wrapper also keeps the names, to rebuild the
    /// filter.
    ///
    /// # Panics
    /// If `odds` is not between 0 and 1.
    pub fn new(engine: C, names: impl IntoIterator<Item = Digest>, odds: f64) -> Self {
        assert!(odds > 0.0 && odds < 1.0, "odds are between 0 and 1");
        let names = names.into_iter().collect();
        let mut filtered = Filtered { engine, odds, names, filter: filter(1, odds), noted: 0, noted_max: 0 };
        filtered.make_filter(0);
        filtered
    }

    /// Rebuilds the filter with room for `more` further names.
    fn make_filter(&mut self, more: usize) {
        self.noted = self.names.len();
        self.noted_max = ((self.noted + more) * 5 / 4).max(NAMES_MIN);
        self.filter = filter(self.noted_max, self.odds);
        for name in &self.names {
            self.filter.insert_hash(hash(*name));
        }
    }
}

impl<C: Control<Digest, Query = dyn FlatFib>> Control<Digest> for Filtered<C> {
    type Query = dyn FlatFib;

    fn query(&self) -> Arc<Self::Query> {
        Arc::new(FilteredFib { fib: self.engine.query(), filter: self.filter.clone() })
    }

    fn apply(&mut self, changes: &[Change<Digest>]) -> Result<Update<Self::Query>, BuildError> {
        let update = self.engine.apply(changes)?;
        let sets = changes.iter().filter(|change| matches!(change, Change::Set(..))).count();
        let is_full = self.noted + sets > self.noted_max;
        for change in changes {
            match change {
                Change::Set(name, _) => {
                    let is_new = self.names.insert(*name);
                    if is_new && !is_full {
                        self.filter.insert_hash(hash(*name));
                        self.noted += 1;
                    }
                }
                Change::Remove(name) => {
                    self.names.remove(name);
                }
            }
        }
        if is_full {
            self.make_filter(sets);
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

impl FlatFib for FilteredFib {
    fn entry(&self, name: Digest) -> Option<EntryId> {
        if self.filter.contains_hash(hash(name)) { self.fib.entry(name) } else { None }
    }

    fn entry_burst(&self, names: &[Digest], out: &mut [Option<EntryId>]) {
        self.fib.entry_burst(names, out);
        for (name, found) in names.iter().zip(out) {
            *found = found.filter(|_| self.filter.contains_hash(hash(*name)));
        }
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.fib.memory_bytes() + self.filter.num_bits().div_ceil(8)
    }
}

//! Readers of prefix tables.

use std::sync::Arc;

use byname_wire::{NameHashKey, NameRef, NameView, PrefixHashes};

use super::KeyError;
use crate::handle::Reader;
use crate::prefix::{BURST_MAX, PrefixFib, PrefixMatch};
use crate::table::key::AsName;
use crate::table::values::Slots;

/// The deepest rule that covers a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<V> {
    /// The rule's value.
    pub value: V,
    /// Number of components of the rule's key.
    pub depth: usize,
}

/// A reader of a [`PrefixTable`](super::PrefixTable), for one thread. A clone is for another one.
///
/// It needs some 3 KB, and 160 KB from its first burst on.
pub struct PrefixReader<V> {
    reader: Reader<dyn PrefixFib>,
    values: Arc<Slots<V>>,
    pub(super) key: NameHashKey,
    /// The names of a burst, one after the other, and where each ends.
    names: Vec<u8>,
    ends: Vec<usize>,
    hashes: Vec<PrefixHashes>,
}

impl<V> Clone for PrefixReader<V> {
    fn clone(&self) -> Self {
        PrefixReader::new(self.reader.clone(), self.values.clone(), self.key)
    }
}

impl<V> PrefixReader<V> {
    pub(super) fn new(reader: Reader<dyn PrefixFib>, values: Arc<Slots<V>>, key: NameHashKey) -> Self {
        PrefixReader { reader, values, key, names: Vec::new(), ends: Vec::new(), hashes: Vec::new() }
    }
}

impl<V: Clone> PrefixReader<V> {
    /// Memory that all readers of the table share, in bytes: what lookups read, without values.
    pub fn memory_bytes(&mut self) -> usize {
        self.reader.read(|fib| fib.memory_bytes())
    }

    /// The rule for the longest prefix of `key`.
    ///
    /// # Errors
    /// If the key is over the limits.
    pub fn get(&mut self, key: impl AsName) -> Result<Option<Found<V>>, KeyError> {
        self.begin();
        self.push(&key)?;
        let mut found = None;
        self.look_up(|one| found = one);
        Ok(found)
    }

    /// The rules of many keys, in their order. Faster than one by one, because waiting for memory
    /// overlaps. `out` is cleared first.
    ///
    /// # Errors
    /// If a key is over the limits. `out` then ends before that key's burst.
    pub fn get_all<K: AsName>(&mut self, keys: &[K], out: &mut Vec<Option<Found<V>>>) -> Result<(), KeyError> {
        out.clear();
        for some in keys.chunks(BURST_MAX) {
            self.begin();
            some.iter().try_for_each(|key| self.push(key))?;
            self.look_up(|found| out.push(found));
        }
        Ok(())
    }

    /// The rules of the keys that an iterator yields, in their order. The iterator is asked for a
    /// burst of keys ahead.
    pub fn get_each<'a, K: AsName, I: IntoIterator<Item = K, IntoIter: 'a>>(
        &'a mut self,
        keys: I,
    ) -> impl Iterator<Item = Result<Option<Found<V>>, KeyError>> + 'a
    where
        V: 'a,
    {
        let mut keys = keys.into_iter();
        let mut answers = std::collections::VecDeque::new();
        std::iter::from_fn(move || {
            if answers.is_empty() {
                self.begin();
                // A key that is no name has its error in its place, and the empty name for the lookup.
                let errors: Vec<_> = keys.by_ref().take(BURST_MAX).map(|key| self.push_or_empty(&key)).collect();
                let mut errors = errors.into_iter();
                self.look_up(|found| answers.push_back(errors.next().flatten().map_or(Ok(found), Err)));
            }
            answers.pop_front()
        })
    }

    fn begin(&mut self) {
        self.names.clear();
        self.ends.clear();
    }

    fn push(&mut self, key: &impl AsName) -> Result<(), KeyError> {
        let start = self.names.len();
        let pushed = key.append_to(&mut self.names);
        if pushed.is_err() {
            self.names.truncate(start);
        }
        self.ends.push(self.names.len());
        pushed
    }

    fn push_or_empty(&mut self, key: &impl AsName) -> Option<KeyError> {
        self.push(key).err()
    }

    /// Looks up the burst's names. Calls `each` with each answer, in their order.
    fn look_up(&mut self, mut each: impl FnMut(Option<Found<V>>)) {
        let Self { reader, values, key, names, ends, hashes } = self;
        let count = ends.len();
        if hashes.len() < count {
            hashes.resize(if count == 1 { 1 } else { BURST_MAX }, PrefixHashes::default());
        }
        let mut refs = [NameRef::ROOT; BURST_MAX];
        let mut start = 0;
        for (name, end) in refs.iter_mut().zip(ends) {
            *name = NameRef::new_checked_before(&names[start..*end]);
            start = *end;
        }
        let mut found = [None; BURST_MAX];
        reader.read(|fib| {
            search(fib, key, &refs[..count], &mut hashes[..count], &mut found[..count]);
            for found in &found[..count] {
                // An entry without a value comes only from a damaged file.
                each(found.and_then(|found| Some(Found { value: values.get(found.entry)?, depth: found.depth })));
            }
        });
    }
}

/// Hashes names as deep as the table's rules go, and looks them up.
fn search(
    fib: &dyn PrefixFib,
    key: &NameHashKey,
    names: &[NameRef<'_>],
    hashes: &mut [PrefixHashes],
    out: &mut [Option<PrefixMatch>],
) {
    loop {
        let depth_max = fib.depth_max();
        PrefixHashes::fill_burst_to(depth_max, key, names, hashes);
        if let ([name], [hashes], [out]) = (names, &*hashes, &mut *out) {
            *out = fib.longest_match(&NameView::from_filled(*name, hashes));
        } else {
            let mut views = smallvec::SmallVec::<[NameView<'_>; BURST_MAX]>::new();
            views.extend(names.iter().zip(&*hashes).map(|(name, hashes)| NameView::from_filled(*name, hashes)));
            fib.longest_match_burst(&views, out);
        }
        // If a deeper rule came meanwhile, the lookup may have missed it.
        if fib.depth_max() <= depth_max {
            return;
        }
    }
}

//! Values beside a table whose entries are numbers. Equal values share a number.
//!
//! A number is used again only when no reader can have found it any more.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;

use super::TableError;
use crate::entry::EntryId;

/// Places of the first chunk. Each further one has twice as many as the one before.
const FIRST: usize = 64;
/// Chunks for 2^32 places.
const CHUNKS: usize = 27;
/// Number of unused numbers after which the writer frees them.
pub(super) const RETIRED_MAX: usize = 1024;

/// The uses of a value that is never freed.
const PINNED: u32 = u32::MAX;

/// A value that a file can keep.
pub trait Stored: Sized {
    /// The value as bytes.
    fn to_bytes(&self) -> Vec<u8>;
    /// The value of these bytes, which may be any. `None` if they are none.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

macro_rules! stored {
    ($($type:ty),*) => { $(
        impl Stored for $type {
            fn to_bytes(&self) -> Vec<u8> {
                self.to_le_bytes().into()
            }

            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                Some(<$type>::from_le_bytes(bytes.try_into().ok()?))
            }
        }
    )* };
}

stored!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128);

impl Stored for String {
    fn to_bytes(&self) -> Vec<u8> {
        self.clone().into_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        String::from_utf8(bytes.into()).ok()
    }
}

impl Stored for Vec<u8> {
    fn to_bytes(&self) -> Vec<u8> {
        self.clone()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(bytes.into())
    }
}

impl Stored for () {
    fn to_bytes(&self) -> Vec<u8> {
        Vec::new()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.is_empty().then_some(())
    }
}

/// Values by number, which readers read while the writer sets others. Places never move.
pub(super) struct Slots<V>([OnceLock<Box<[ArcSwapOption<V>]>>; CHUNKS]);

impl<V> Slots<V> {
    fn new() -> Self {
        Slots(std::array::from_fn(|_| OnceLock::new()))
    }

    /// Chunk and place of a number.
    fn place(id: EntryId) -> (usize, usize) {
        let at = id.0 as usize + FIRST;
        let chunk = (at / FIRST).ilog2() as usize;
        (chunk, at - (FIRST << chunk))
    }

    /// The value with this number, if there is one.
    pub(super) fn get(&self, id: EntryId) -> Option<V>
    where
        V: Clone,
    {
        let (chunk, place) = Self::place(id);
        self.0[chunk].get()?[place].load().as_deref().cloned()
    }

    fn set(&self, id: EntryId, value: Option<Arc<V>>) {
        let (chunk, place) = Self::place(id);
        let chunk = self.0[chunk].get_or_init(|| (0..FIRST << chunk).map(|_| ArcSwapOption::empty()).collect());
        chunk[place].store(value);
    }
}

/// The writer's side.
pub(super) struct Values<V> {
    slots: Arc<Slots<V>>,
    ids: HashMap<Arc<V>, EntryId>,
    /// By number: how many rules have the value.
    uses: Vec<u32>,
    free: Vec<EntryId>,
    /// Numbers that had no rule at some time since they were last freed.
    retired: Vec<EntryId>,
    values_max: usize,
}

impl<V: Eq + Hash> Values<V> {
    pub(super) fn new(values_max: usize) -> Self {
        Values {
            slots: Arc::new(Slots::new()),
            ids: HashMap::new(),
            uses: Vec::new(),
            free: Vec::new(),
            retired: Vec::new(),
            values_max,
        }
    }

    pub(super) fn slots(&self) -> &Arc<Slots<V>> {
        &self.slots
    }

    /// The number of a value, which readers can read from now on. The caller must [`Values::note`]
    /// its use, or [`Values::drop_unused`] it.
    pub(super) fn intern(&mut self, value: V) -> Result<EntryId, TableError> {
        if let Some(id) = self.ids.get(&value) {
            return Ok(*id);
        }
        let id = match self.free.pop() {
            Some(id) => id,
            None if self.uses.len() < self.values_max => {
                self.uses.push(0);
                EntryId(self.uses.len() as u32 - 1)
            }
            None => return Err(TableError::Values { values_max: self.values_max }),
        };
        let value = Arc::new(value);
        self.slots.set(id, Some(value.clone()));
        self.ids.insert(value, id);
        // Until it is used.
        self.retired.push(id);
        Ok(id)
    }

    /// Whether the caller should make sure that no reader sees earlier entries, and then call
    /// [`Values::drop_unused`].
    pub(super) fn is_crowded(&self) -> bool {
        self.retired.len() >= RETIRED_MAX || (self.free.is_empty() && self.uses.len() >= self.values_max)
    }

    /// A rule got `new` instead of `old`.
    pub(super) fn note(&mut self, old: Option<EntryId>, new: Option<EntryId>) {
        if let Some(uses) = new.map(|new| &mut self.uses[new.0 as usize]).filter(|uses| **uses != PINNED) {
            *uses += 1;
        }
        // An entry of a damaged file may have no value.
        let old_uses = old.and_then(|old| self.uses.get_mut(old.0 as usize));
        if let Some(uses) = old_uses.filter(|uses| **uses != PINNED) {
            *uses = uses.saturating_sub(1);
            if *uses == 0 {
                self.retired.extend(old);
            }
        }
    }

    /// Frees values without rules. No reader can have found them since they lost their last one.
    pub(super) fn drop_unused(&mut self) {
        let mut retired = std::mem::take(&mut self.retired);
        retired.sort_unstable();
        retired.dedup();
        for id in retired {
            let (chunk, place) = Slots::<V>::place(id);
            let value = self.slots.0[chunk].get().and_then(|chunk| chunk[place].load_full());
            if let Some(value) = value.filter(|_| self.uses[id.0 as usize] == 0) {
                // In a file, several numbers may have one value.
                if self.ids.get(&value) == Some(&id) {
                    self.ids.remove(&value);
                }
                self.slots.set(id, None);
                self.free.push(id);
            }
        }
    }

    /// Number of different values.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Resident memory without what values point to, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let chunks = self.slots.0.iter().filter_map(OnceLock::get).map(|chunk| size_of_val(&**chunk));
        let ids = self.ids.capacity() * (size_of::<(Arc<V>, EntryId)>() + 1);
        let lists = self.uses.capacity() + self.free.capacity() + self.retired.capacity();
        chunks.sum::<usize>() + ids + 4 * lists + self.ids.len() * (size_of::<V>() + 16)
    }
}

impl<V: Eq + Hash + Stored> Values<V> {
    /// The values by number, as bytes. Numbers without a value, which no rule has, repeat another's.
    pub(super) fn to_labels(&self) -> Vec<Box<[u8]>> {
        let mut labels: Vec<Option<Box<[u8]>>> = vec![None; self.uses.len()];
        self.ids.iter().for_each(|(value, id)| labels[id.0 as usize] = Some(value.to_bytes().into()));
        let any = labels.iter().flatten().next().cloned().unwrap_or_default();
        labels.into_iter().map(|label| label.unwrap_or_else(|| any.clone())).collect()
    }

    /// The reverse. Nobody knows how many rules of the file have each value, so none is ever freed.
    /// `None` if some bytes are no value, or there are too many.
    pub(super) fn from_labels(labels: &[Box<[u8]>], values_max: usize) -> Option<Self> {
        let mut values = Values::new(values_max);
        if labels.len() > values_max {
            return None;
        }
        for (label, id) in labels.iter().zip(0..) {
            let value = Arc::new(V::from_bytes(label)?);
            values.slots.set(EntryId(id), Some(value.clone()));
            values.uses.push(PINNED);
            values.ids.entry(value).or_insert(EntryId(id));
        }
        Some(values)
    }

    /// Says how many rules have each value, so that it is freed with the last one.
    pub(super) fn set_uses(&mut self, uses: Vec<u32>) {
        let unused = uses.iter().zip(0..).filter(|(uses, _)| **uses == 0);
        self.retired.extend(unused.map(|(_, id)| EntryId(id)));
        self.uses = uses;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_a_number_until_the_last_rule_is_gone() {
        let mut values = Values::new(3);
        let id = |values: &mut Values<String>, text: &str| values.intern(text.to_owned()).expect("room");
        let (a, b) = (id(&mut values, "a"), id(&mut values, "b"));
        assert_eq!(id(&mut values, "a"), a);
        values.note(None, Some(a));
        values.note(None, Some(a));
        values.note(None, Some(b));
        let slots = values.slots().clone();
        values.note(Some(a), Some(b));
        values.drop_unused();
        assert_eq!((slots.get(a), slots.get(b)), (Some("a".to_owned()), Some("b".to_owned())));
        values.note(Some(a), None);
        values.drop_unused();
        assert_eq!((slots.get(a), values.len()), (None, 1));
        let c = id(&mut values, "c");
        assert_eq!(c, a, "numbers are used again");
        id(&mut values, "d");
        assert!(values.is_crowded());
        assert!(matches!(values.intern("e".to_owned()), Err(TableError::Values { values_max: 3 })));
    }

    #[test]
    fn places_of_all_numbers_are_distinct() {
        let places: Vec<_> = (0..1000).map(|id| Slots::<u8>::place(EntryId(id))).collect();
        assert_eq!((places[0], places[63], places[64], places[191]), ((0, 0), (0, 63), (1, 0), (1, 127)));
        assert!(places.is_sorted() && places.windows(2).all(|two| two[0] != two[1]));
        assert_eq!(Slots::<u8>::place(EntryId(u32::MAX)).0, CHUNKS - 1);
    }
}

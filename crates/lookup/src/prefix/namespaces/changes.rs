//! Flat names that have changed since the file of their namespace was made.
//!
//! A table of digests with open addressing, at most half full. A digest of 128 bits under a secret key stands for its
//! name. A name that has changed keeps its place, so a reader never meets a place that another name takes over, and needs
//! no lock: the writer stores the second half of the digest and the value before the first half, which a reader reads
//! first. A later change of the name is one word.
//!
//! Cost: about one and a half places of 24 bytes, which most often are in one cache line.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use byname_wire::{Digest, Name};
use thiserror::Error;

use crate::entry::EntryId;
use crate::prefix::compact::Translation;

/// Maximum number of labels of changed names.
pub const LABELS_MAX: usize = 4096;

/// The value of a name as in the file.
const AS_IN_FILE: u32 = 0;
/// The value of a name that counts as unknown.
const REMOVED: u32 = 1;
/// The value of a name with label 0.
const FIRST_LABEL: u32 = 2;

/// What is different for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// It counts as unknown.
    Removed,
    /// It has the label of this number; see [`Changes::label`].
    Label(EntryId),
}

/// A change that is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChangeError {
    /// As many names have changed as may.
    #[error("{names} names have changed, as many as may: make a new table of them all")]
    Names {
        /// Number of names.
        names: usize,
    },
    /// Changed names have as many labels as they may.
    #[error("changed names have {LABELS_MAX} labels, as many as they may: make a new table of all names")]
    Labels,
}

/// Changes of one namespace. One thread writes, and others read meanwhile.
pub struct Changes {
    names_max: usize,
    /// Made at the first change.
    places: OnceLock<Box<[Place]>>,
    used: AtomicUsize,
    labels: Box<[OnceLock<Name>]>,
    numbers: Mutex<HashMap<Name, u32>>,
    entries: Translation,
}

#[derive(Default)]
struct Place {
    /// The first half of the digest, or 0: free.
    hash: AtomicU64,
    check: AtomicU64,
    value: AtomicU32,
}

impl Changes {
    /// No changes yet, of up to `names_max` names.
    pub fn new(names_max: usize) -> Self {
        Changes {
            names_max,
            places: OnceLock::new(),
            used: AtomicUsize::new(0),
            labels: (0..LABELS_MAX).map(|_| OnceLock::new()).collect(),
            numbers: Mutex::default(),
            entries: Translation::new(&[None; LABELS_MAX]),
        }
    }

    /// Number of names that have ever changed.
    pub fn len(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// Whether nothing has ever changed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of a label, which is new if no name had it. A new one has no entry yet.
    ///
    /// # Errors
    /// If there are too many labels.
    pub fn label(&self, name: &Name) -> Result<EntryId, ChangeError> {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = numbers.get(name) {
            return Ok(EntryId(*number));
        }
        let number = numbers.len();
        let place = self.labels.get(number).ok_or(ChangeError::Labels)?;
        let _ = place.set(name.clone());
        numbers.insert(name.clone(), number as u32);
        Ok(EntryId(number as u32))
    }

    /// Tells what entry a label has now, if there is such a label.
    pub fn route(&self, label: &Name, entry: Option<EntryId>) {
        let numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = numbers.get(label) {
            self.entries.set(EntryId(*number), entry);
        }
    }

    /// Changes the name with this digest, for all readers. With `None` it is as in the file again.
    ///
    /// # Errors
    /// If too many names have changed.
    pub fn set(&self, name: Digest, changed: Option<Changed>) -> Result<(), ChangeError> {
        let value = match changed {
            None => AS_IN_FILE,
            Some(Changed::Removed) => REMOVED,
            Some(Changed::Label(number)) => FIRST_LABEL + number.0,
        };
        if changed.is_none() && self.is_empty() {
            return Ok(());
        }
        let places = self.places.get_or_init(|| {
            // At least half of them stay free, so that each search ends.
            let count = (2 * self.names_max).next_power_of_two().max(2);
            (0..count).map(|_| Place::default()).collect()
        });
        match find(places, name) {
            Ok(place) => place.value.store(value, Ordering::Release),
            Err(_) if changed.is_none() => {}
            Err(free) => {
                let names = self.used.load(Ordering::Relaxed);
                if names >= self.names_max {
                    return Err(ChangeError::Names { names });
                }
                free.check.store(name.check, Ordering::Relaxed);
                free.value.store(value, Ordering::Relaxed);
                free.hash.store(stored(name.hash), Ordering::Release);
                self.used.store(names + 1, Ordering::Release);
            }
        }
        Ok(())
    }

    /// What is different for the name with this digest.
    #[inline]
    pub fn get(&self, name: Digest) -> Option<Changed> {
        let place = find(self.places.get()?, name).ok()?;
        match place.value.load(Ordering::Acquire) {
            AS_IN_FILE => None,
            REMOVED => Some(Changed::Removed),
            value => Some(Changed::Label(EntryId(value - FIRST_LABEL))),
        }
    }

    /// The entry of a label, if it has one.
    #[inline]
    pub(super) fn entry(&self, label: EntryId) -> Option<EntryId> {
        self.entries.get(label)
    }

    /// The label of this number.
    pub(super) fn name(&self, label: EntryId) -> Option<&Name> {
        self.labels.get(label.0 as usize)?.get()
    }

    /// Resident memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let labels = LABELS_MAX * (size_of::<OnceLock<Name>>() + size_of::<AtomicU64>());
        labels + self.places.get().map_or(0, |places| size_of_val(&**places))
    }
}

/// Zero means that a place is free.
fn stored(hash: u64) -> u64 {
    hash.max(1)
}

/// The place of a name, or else the free one where it would be.
#[inline]
fn find(places: &[Place], name: Digest) -> Result<&Place, &Place> {
    let (mask, hash) = (places.len() - 1, stored(name.hash));
    let mut at = hash as usize & mask;
    loop {
        let place = &places[at];
        match place.hash.load(Ordering::Acquire) {
            0 => return Err(place),
            other if other == hash && place.check.load(Ordering::Relaxed) == name.check => return Ok(place),
            _ => at = (at + 1) & mask,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashMap;

    use byname_wire::NameHashKey;

    use super::*;

    const KEY: NameHashKey = NameHashKey::new([1, 2]);

    fn digest(n: u32) -> Digest {
        KEY.digest_bytes(&n.to_le_bytes())
    }

    #[test]
    fn names_are_what_the_last_change_made_them() {
        for seed in 0..20u64 {
            let changes = Changes::new(64);
            let mut right: HashMap<u32, Option<Changed>> = HashMap::new();
            let mut state = seed;
            let mut draw = |below: u64| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 33) % below
            };
            for _ in 0..500 {
                let name = draw(80) as u32;
                let changed = match draw(4) {
                    0 => None,
                    1 => Some(Changed::Removed),
                    _ => Some(Changed::Label(EntryId(draw(5) as u32))),
                };
                // A name that is as in the file needs no place, unless it had one.
                let fits = right.contains_key(&name) || changed.is_none() || right.len() < 64;
                let refused = Err(ChangeError::Names { names: 64 });
                assert_eq!(changes.set(digest(name), changed), if fits { Ok(()) } else { refused }, "seed {seed}");
                if fits && (changed.is_some() || right.contains_key(&name)) {
                    right.insert(name, changed);
                }
                assert_eq!(changes.len(), right.len());
            }
            for name in 0..80 {
                assert_eq!(changes.get(digest(name)), right.get(&name).copied().flatten(), "seed {seed}, {name}");
            }
        }
    }

    #[test]
    fn labels_have_numbers_and_entries() {
        let changes = Changes::new(1);
        let label = |n: usize| format!("/up/{n}").parse::<Name>().expect("a name");
        for n in 0..LABELS_MAX {
            assert_eq!(changes.label(&label(n)), Ok(EntryId(n as u32)));
        }
        assert_eq!(changes.label(&label(LABELS_MAX)), Err(ChangeError::Labels));
        assert_eq!((changes.label(&label(7)), changes.name(EntryId(7))), (Ok(EntryId(7)), Some(&label(7))));
        changes.route(&label(7), Some(EntryId(3)));
        changes.route(&label(LABELS_MAX), Some(EntryId(4)));
        assert_eq!([6, 7, 5000].map(|n| changes.entry(EntryId(n))), [None, Some(EntryId(3)), None]);
        changes.route(&label(7), None);
        assert_eq!(changes.entry(EntryId(7)), None);
    }

    #[test]
    fn a_reader_meets_only_whole_changes() {
        let changes = Changes::new(5000);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..5000 {
                    changes.set(digest(n), Some(Changed::Label(EntryId(n)))).expect("room");
                    changes.set(digest(n / 2), Some(Changed::Removed)).expect("it has a place");
                }
            });
            while changes.len() < 5000 {
                for n in (0..5000).step_by(7) {
                    let right = [None, Some(Changed::Removed), Some(Changed::Label(EntryId(n)))];
                    assert!(right.contains(&changes.get(digest(n))));
                }
            }
        });
        assert_eq!(changes.get(digest(4999)), Some(Changed::Label(EntryId(4999))));
    }
}

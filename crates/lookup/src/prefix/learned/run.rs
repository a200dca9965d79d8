//! Records sorted by hash, with a model: one tier of the table.

use byname_wire::name_hash::Digest;

use super::model::{Model, Window, search};
use crate::count::Count;
use crate::entry::EntryId;
use crate::prefetch;

/// A tier's record of the rule with a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) digest: Digest,
    /// `None` if the rule was removed, whatever older runs say.
    pub(super) entry: Option<EntryId>,
}

/// The part that is read only if the hash matches.
struct Rest {
    check: u64,
    entry: Option<EntryId>,
}

/// Records with distinct hashes. Never changes.
pub(super) struct Run {
    hashes: Box<[u64]>,
    rests: Box<[Rest]>,
    model: Model,
}

impl Run {
    pub(super) fn empty() -> Self {
        Run::new(std::iter::empty(), 0)
    }

    /// Records that ascend by hash, at most `records_max`.
    fn new(records: impl Iterator<Item = Record>, records_max: usize) -> Self {
        let (mut hashes, mut rests) = (Vec::with_capacity(records_max), Vec::with_capacity(records_max));
        for record in records {
            hashes.push(record.digest.hash);
            rests.push(Rest { check: record.digest.check, entry: record.entry });
        }
        let model = Model::new(hashes.iter().copied());
        Run { hashes: hashes.into(), rests: rests.into(), model }
    }

    /// The records of both runs. If two have the same hash, the newer counts.
    pub(super) fn merged(older: &Run, newer: impl ExactSizeIterator<Item = Record>, keep_removed: bool) -> Self {
        let records_max = older.len() + newer.len();
        let (mut older, mut newer) = (older.records().peekable(), newer.peekable());
        let merged = std::iter::from_fn(move || match (older.peek(), newer.peek()) {
            (Some(old), Some(new)) if old.digest.hash < new.digest.hash => older.next(),
            (Some(old), Some(new)) if old.digest.hash == new.digest.hash => {
                older.next();
                newer.next()
            }
            (Some(_), None) => older.next(),
            _ => newer.next(),
        });
        Run::new(merged.filter(|record| keep_removed || record.entry.is_some()), records_max)
    }

    pub(super) fn len(&self) -> usize {
        self.hashes.len()
    }

    pub(super) fn records(&self) -> impl ExactSizeIterator<Item = Record> {
        self.hashes
            .iter()
            .zip(&self.rests)
            .map(|(&hash, rest)| Record { digest: Digest { hash, check: rest.check }, entry: rest.entry })
    }

    /// The record with this hash.
    #[inline]
    pub(super) fn find(&self, hash: u64, count: &mut impl Count) -> Option<Record> {
        self.find_in(&self.model.window(hash, count), hash, count)
    }

    /// The range in which to search for the record with this hash. Prefetches its first read.
    #[inline]
    pub(super) fn aim(&self, hash: u64) -> Window {
        let window = self.model.window(hash, &mut ());
        if let Some(hash) = self.hashes.get(window.at) {
            prefetch::read(hash);
        }
        window
    }

    /// The record with this hash, at the position aimed at.
    #[inline]
    pub(super) fn find_in(&self, window: &Window, hash: u64, count: &mut impl Count) -> Option<Record> {
        let at = search(&self.hashes, window, count, |&other| other < hash);
        if self.hashes.get(at) != Some(&hash) {
            return None;
        }
        count.line();
        let rest = &self.rests[at];
        Some(Record { digest: Digest { hash, check: rest.check }, entry: rest.entry })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.hashes) + size_of_val(&*self.rests) + self.model.memory_bytes()
    }
}

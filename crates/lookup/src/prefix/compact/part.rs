//! A part of the table: buckets of one cache line, two for each key.
//!
//! A line holds six entries of ten bytes: a 16-bit tag and a 64-bit [`Word`]. A probe reads the
//! words of entries with the right tag only. The remaining four bytes hold a filter and a version.
//! The filter contains the tags that overflowed to their other bucket, so a probe reads a second
//! line only if necessary. The version counts entries that moved away.
//!
//! ```text
//! word 0      tags of slots 0 to 3
//! word 1      tags of slots 4 and 5, overflow filter, version (16 bits each)
//! words 2..8  the entries' words
//! ```
//!
//! The other bucket follows from the bucket and the tag alone, by mirroring. (Cuckoo filters do
//! this with fingerprints.) The number of buckets is therefore arbitrary, and an entry can move
//! without its key.
//!
//! There is one writer and any number of readers. An entry that moves is first written to its new
//! place, so it is never absent. A reader that missed it there sees a new version in the key's
//! first bucket, and looks again.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use super::tags::slots_tagged;
use super::word::Word;
use crate::file::Rewritten;
use crate::memory::{Line, Lines, Pages};
use crate::prefetch;
use crate::sync::Ordering;

/// Entries in a bucket.
pub(super) const SLOTS: usize = 6;
const VERSION_SHIFT: u32 = 48;
const FILTER_SHIFT: u32 = 32;
/// Maximum number of buckets to examine for room.
const REACHED_MAX: usize = 250;

/// The result of probing one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Probe {
    Found(Word),
    Absent,
    /// The entry may be in the other bucket.
    Overflowed(Version),
    /// Entries moved meanwhile. Start again.
    Moved,
}

/// The word of a first bucket that holds its version, as a probe read it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Version(u64);

/// The place of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) bucket: u32,
    pub(super) slot: usize,
}

impl Place {
    /// Its number among all places of the part.
    pub(super) fn index(self) -> usize {
        self.bucket as usize * SLOTS + self.slot
    }
}

/// The buckets.
pub(super) struct Part {
    lines: Lines,
    buckets: u32,
    /// If somebody keeps a copy: the words of lines before they were written, by bucket.
    before: Option<Mutex<BTreeMap<u32, [u64; 8]>>>,
}

impl Part {
    /// `buckets` empty buckets.
    pub(super) fn new(buckets: u32, pages: Pages) -> io::Result<Self> {
        let lines = Lines::zeroed(buckets as usize, pages)?;
        lines.prefault();
        Ok(Part { lines, buckets, before: None })
    }

    /// A part with these lines, one for each bucket. They may hold anything.
    ///
    /// # Panics
    /// If there are not as many lines as buckets, or none.
    pub(super) fn from_lines(lines: Lines, buckets: u32) -> Self {
        assert!(lines.len() == buckets as usize && buckets > 0);
        Part { lines, buckets, before: None }
    }

    /// From now on, [`Part::take_rewritten`] tells which lines were written.
    pub(super) fn record(&mut self) {
        self.before = Some(Mutex::default());
    }

    /// Lines that were written since the last call, in their order.
    pub(super) fn take_rewritten(&self) -> Vec<Rewritten> {
        let Some(before) = &self.before else { return Vec::new() };
        let before = std::mem::take(&mut *before.lock().unwrap_or_else(PoisonError::into_inner));
        let lines = before.into_iter().map(|(bucket, before)| {
            let line = bucket as usize;
            Rewritten { line, before, after: self.words(line) }
        });
        lines.collect()
    }

    /// Notes the words of a line that is about to be written.
    fn note(&self, bucket: u32) {
        if let Some(before) = &self.before {
            let mut before = before.lock().unwrap_or_else(PoisonError::into_inner);
            before.entry(bucket).or_insert_with(|| self.words(bucket as usize));
        }
    }

    fn words(&self, line: usize) -> [u64; 8] {
        self.lines[line].0.each_ref().map(|word| word.load(Ordering::Relaxed))
    }

    /// The lines of the buckets.
    pub(super) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Number of slots for entries.
    pub(super) fn slots(&self) -> usize {
        self.buckets as usize * SLOTS
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// The first bucket of a key with this hash.
    #[inline]
    pub(super) fn primary(&self, hash: u64) -> u32 {
        (((hash & 0xffff_ffff) * u64::from(self.buckets)) >> 32) as u32
    }

    /// The other bucket of an entry that may be in `bucket`. It is the mirror image, so the other
    /// bucket of the result is `bucket` again.
    #[inline]
    pub(super) fn other(&self, bucket: u32, tag: u16) -> u32 {
        let spread = u64::from(u32::from(tag).wrapping_mul(0x9e37_79b1));
        let mirror = ((spread * u64::from(self.buckets)) >> 32) as u32;
        if mirror >= bucket { mirror - bucket } else { mirror + (self.buckets - bucket) }
    }

    /// Prefetches a bucket.
    #[inline]
    pub(super) fn prefetch(&self, bucket: u32) {
        prefetch::read(&self.lines[bucket as usize]);
    }

    /// Looks for a word with `tag` that `accepts` takes, in the key's first bucket.
    #[inline]
    pub(super) fn probe(&self, primary: u32, tag: u16, accepts: impl Fn(Word) -> bool) -> Probe {
        let line = &self.lines[primary as usize].0;
        // Acquire, here and below: a reader that sees an entry gone sees what happened before.
        let head = line[1].load(Ordering::Acquire);
        if let Some(word) = self.find_in(primary, head, tag, |word| !word.is_alternate() && accepts(word)) {
            return Probe::Found(word);
        }
        if head >> FILTER_SHIFT & filter_bit(tag) != 0 {
            return Probe::Overflowed(Version(head));
        }
        self.absent(primary, Version(head))
    }

    /// Looks for the word in the other bucket. `version` is from the first probe.
    #[inline]
    pub(super) fn probe_other(
        &self,
        primary: u32,
        tag: u16,
        version: Version,
        accepts: impl Fn(Word) -> bool,
    ) -> Probe {
        let other = self.other(primary, tag);
        let head = self.lines[other as usize].0[1].load(Ordering::Acquire);
        match self.find_in(other, head, tag, |word| word.is_alternate() && accepts(word)) {
            Some(word) => Probe::Found(word),
            None => self.absent(primary, version),
        }
    }

    /// Entries that moved during the probes may have been missed in both places.
    #[inline]
    fn absent(&self, primary: u32, version: Version) -> Probe {
        let now = self.lines[primary as usize].0[1].load(Ordering::Acquire);
        if (now ^ version.0) >> VERSION_SHIFT == 0 { Probe::Absent } else { Probe::Moved }
    }

    #[inline]
    fn find_in(&self, bucket: u32, head: u64, tag: u16, accepts: impl Fn(Word) -> bool) -> Option<Word> {
        let line = &self.lines[bucket as usize].0;
        let mut slots = slots_tagged(line[0].load(Ordering::Acquire), head, tag);
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize / 2;
            let word = Word(line[2 + slot].load(Ordering::Acquire));
            if accepts(word) {
                return Some(word);
            }
            slots &= slots - 1;
        }
        None
    }

    /// The tag in a slot, or zero if it is empty. This method and all below are for the writer.
    pub(super) fn tag(&self, place: Place) -> u16 {
        let line = &self.lines[place.bucket as usize].0;
        (line[place.slot / 4].load(Ordering::Relaxed) >> (place.slot % 4 * 16)) as u16
    }

    pub(super) fn word(&self, place: Place) -> Word {
        Word(self.lines[place.bucket as usize].0[2 + place.slot].load(Ordering::Relaxed))
    }

    /// Changes an entry's word in one step.
    pub(super) fn set_word(&self, place: Place, word: Word) {
        self.note(place.bucket);
        self.lines[place.bucket as usize].0[2 + place.slot].store(word.0, Ordering::Release);
    }

    /// An empty slot of a bucket.
    pub(super) fn empty_slot(&self, bucket: u32) -> Option<Place> {
        (0..SLOTS).map(|slot| Place { bucket, slot }).find(|&place| self.tag(place) == 0)
    }

    /// Puts an entry into an empty slot. `word` says whether this is its other bucket.
    pub(super) fn put(&self, place: Place, tag: u16, word: Word) {
        self.set_word(place, word);
        self.set_tag(place, tag);
        if word.is_alternate() {
            let first = self.other(place.bucket, tag);
            self.note(first);
            let first = &self.lines[first as usize].0[1];
            let head = first.load(Ordering::Relaxed);
            first.store(head | filter_bit(tag) << FILTER_SHIFT, Ordering::Release);
        }
    }

    /// The places where a lookup of a key reads words: entries with its tag in the first bucket,
    /// and those in the other bucket that overflowed.
    pub(super) fn places(&self, hash: u64, tag: u16) -> impl Iterator<Item = Place> {
        let primary = self.primary(hash);
        let head = self.lines[primary as usize].0[1].load(Ordering::Relaxed);
        let overflowed = head >> FILTER_SHIFT & filter_bit(tag) != 0;
        let other = overflowed.then(|| (self.other(primary, tag), true));
        std::iter::once((primary, false)).chain(other).flat_map(move |(bucket, alternate)| {
            let places = (0..SLOTS).map(move |slot| Place { bucket, slot });
            places.filter(move |&place| self.tag(place) == tag && self.word(place).is_alternate() == alternate)
        })
    }

    /// All entries: their places, tags and words.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Place, u16, Word)> {
        let places = (0..self.buckets).flat_map(|bucket| (0..SLOTS).map(move |slot| Place { bucket, slot }));
        places.map(|place| (place, self.tag(place), self.word(place))).filter(|&(_, tag, _)| tag != 0)
    }

    /// Puts a new entry into one of its two buckets and returns its place. `None` if both are full
    /// and no room was found nearby. Calls `moved` for entries that make room.
    pub(super) fn insert(
        &self,
        hash: u64,
        tag: u16,
        word: Word,
        moved: &mut impl FnMut(Place, Place),
    ) -> Option<Place> {
        let primary = self.primary(hash);
        let other = self.other(primary, tag);
        let place = self
            .empty_slot(primary)
            .or_else(|| self.empty_slot(other))
            .or_else(|| self.make_room([primary, other], moved))?;
        self.put(place, tag, word.placed(place.bucket != primary));
        Some(place)
    }

    /// Empties a slot of one of two full buckets, by the shortest chain of moves.
    fn make_room(&self, full: [u32; 2], moved: &mut impl FnMut(Place, Place)) -> Option<Place> {
        // Each bucket, with the step before it and the slot in that step's bucket.
        let mut reached = vec![(full[0], None), (full[1], None)];
        let mut at = 0;
        while at < reached.len() {
            for slot in 0..SLOTS {
                let from = Place { bucket: reached[at].0, slot };
                let other = self.other(from.bucket, self.tag(from));
                if let Some(empty) = self.empty_slot(other) {
                    return Some(self.shift_along(&reached, at, from, empty, moved));
                }
                if reached.len() < REACHED_MAX && reached.iter().all(|&(bucket, _)| bucket != other) {
                    reached.push((other, Some((at, slot))));
                }
            }
            at += 1;
        }
        None
    }

    /// Moves the last entry of a chain first, so that no entry is ever absent.
    fn shift_along(
        &self,
        reached: &[(u32, Option<(usize, usize)>)],
        mut at: usize,
        mut from: Place,
        mut to: Place,
        moved: &mut impl FnMut(Place, Place),
    ) -> Place {
        loop {
            self.shift(from, to);
            moved(from, to);
            let Some((before, slot)) = reached[at].1 else { return from };
            to = from;
            from = Place { bucket: reached[before].0, slot };
            at = before;
        }
    }

    /// Empties a slot.
    pub(super) fn clear(&self, place: Place) {
        self.set_tag(place, 0);
    }

    /// Moves an entry to an empty slot of its other bucket.
    pub(super) fn shift(&self, from: Place, to: Place) {
        let (tag, word) = (self.tag(from), self.word(from));
        let primary = if word.is_alternate() { to.bucket } else { from.bucket };
        self.put(to, tag, word.placed(!word.is_alternate()));
        self.note(primary);
        let head = &self.lines[primary as usize].0[1];
        // The version is the topmost field, so its overflow is lost.
        head.store(head.load(Ordering::Relaxed).wrapping_add(1 << VERSION_SHIFT), Ordering::Release);
        self.clear(from);
    }

    /// Removes filter bits of entries that no longer overflow.
    pub(super) fn refresh_filters(&self) {
        let mut filters = vec![0u16; self.buckets as usize];
        for (place, tag, _) in self.entries().filter(|(_, _, word)| word.is_alternate()) {
            filters[self.other(place.bucket, tag) as usize] |= filter_bit(tag) as u16;
        }
        for (bucket, (line, filter)) in (0..).zip(self.lines.iter().zip(filters)) {
            let head = line.0[1].load(Ordering::Relaxed);
            let refreshed = head & !(0xffff << FILTER_SHIFT) | u64::from(filter) << FILTER_SHIFT;
            if refreshed != head {
                self.note(bucket);
                line.0[1].store(refreshed, Ordering::Release);
            }
        }
    }

    fn set_tag(&self, place: Place, tag: u16) {
        self.note(place.bucket);
        let word = &self.lines[place.bucket as usize].0[place.slot / 4];
        let shift = place.slot % 4 * 16;
        let others = word.load(Ordering::Relaxed) & !(0xffff << shift);
        word.store(others | u64::from(tag) << shift, Ordering::Release);
    }
}

/// The tag of a key with this check half. It is never zero, which marks an empty slot.
#[inline]
pub(super) fn tag_of(check: u64) -> u16 {
    (check as u16).max(1)
}

#[inline]
fn filter_bit(tag: u16) -> u64 {
    1 << (tag & 15)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::entry::EntryId;
    use crate::prefix::compact::word::Answer;

    #[test]
    fn the_other_of_the_other_is_the_first() {
        for buckets in [1, 2, 3, 8, 1000, 177_000_000, u32::MAX] {
            // The part has fewer lines than it says, but nothing is written.
            let part = Part { lines: Lines::zeroed(1, Pages::Small).expect("a line"), buckets, before: None };
            for tag in [1, 2, 77, 40_000, 65_535] {
                for bucket in [0, buckets / 3, buckets - 1] {
                    let other = part.other(bucket, tag);
                    assert!(other < buckets);
                    assert_eq!(part.other(other, tag), bucket);
                }
            }
        }
    }

    #[test]
    fn entries_are_found_wherever_they_stand() {
        let part = Part::new(16, Pages::Small).expect("a kilobyte");
        let word = Word::new(Answer::Leaf(EntryId(3)), 2, 0xabc << 40);
        let (primary, tag) = (5, 77);
        let probe = || part.probe(primary, tag, |found| found == word);
        let probe_other = |version| part.probe_other(primary, tag, version, |found| found.placed(false) == word);
        assert_eq!(probe(), Probe::Absent);
        let first = Place { bucket: primary, slot: 5 };
        part.put(first, tag, word);
        assert_eq!(probe(), Probe::Found(word));
        let other = part.empty_slot(part.other(primary, tag)).expect("empty");
        part.shift(first, other);
        part.refresh_filters();
        let Probe::Overflowed(version) = probe() else { panic!("the filter tells") };
        assert_eq!(probe_other(version), Probe::Found(word.placed(true)));
        part.shift(other, first);
        assert_eq!(probe_other(version), Probe::Moved, "it was there when the first bucket was read");
        assert_eq!(probe(), Probe::Found(word));
        part.clear(first);
        assert!(matches!(probe(), Probe::Overflowed(_)), "the overflow is remembered");
        part.refresh_filters();
        assert_eq!(probe(), Probe::Absent, "until the filters are made anew");
    }
}

/// Every order of the steps of one reader and the writer, and every value that the reader may see.
#[cfg(all(test, loom))]
mod models {
    use std::sync::Arc;

    use super::*;
    use crate::entry::EntryId;
    use crate::prefix::compact::word::Answer;

    /// One lookup while an entry moves from its first bucket to the other, or back.
    fn an_entry_that_moves_is_never_missed(back: bool) {
        loom::model(move || {
            let part = Arc::new(Part::new(2, Pages::Small).expect("two lines"));
            let word = Word::new(Answer::Leaf(EntryId(3)), 0, 7 << 40);
            let tag = (1..).find(|&tag| part.other(0, tag) == 1).expect("half of all tags");
            let places = [Place { bucket: 0, slot: 1 }, Place { bucket: 1, slot: 5 }];
            part.put(places[usize::from(back)], tag, word.placed(back));
            let looking = loom::thread::spawn({
                let part = part.clone();
                move || {
                    let accepts = |found: Word| found.placed(false) == word;
                    let found = (0..3).find_map(|_| {
                        let probe = match part.probe(0, tag, accepts) {
                            Probe::Overflowed(version) => part.probe_other(0, tag, version, accepts),
                            probe => probe,
                        };
                        (probe != Probe::Moved).then_some(probe)
                    });
                    assert!(matches!(found, Some(Probe::Found(_))), "{found:?}");
                }
            });
            part.shift(places[usize::from(back)], places[usize::from(!back)]);
            looking.join().expect("the reader does not panic");
        });
    }

    #[test]
    fn an_entry_that_overflows_is_never_missed() {
        an_entry_that_moves_is_never_missed(false);
    }

    #[test]
    fn an_entry_that_comes_back_is_never_missed() {
        an_entry_that_moves_is_never_missed(true);
    }
}

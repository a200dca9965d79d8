//! Name entries [Yuan §3.2.1, Figure 3], to which fingerprints lead.
//!
//! An entry is a sequence of words: a header, one word of forwarding information for each marker
//! that shares the entry and for the rule itself, and the bytes of the rule's name, eight a word.
//! Entries are aligned to 16 bytes, so that 32 bits address 64 GiB. They lie in chunks that never
//! move. An entry is written before anything leads to it, and keeps its name as long as a reader
//! may hold a reference to it. Only the forwarding words change while readers use it.
//!
//! A rule of depth `d` has markers at the leading sums of `d`'s binary digits ([`super::search`]).
//! The digits that are set in a depth therefore number the words, and one mask tells which are
//! there.

use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;

use byname_wire::NameRef;

use super::search::Tally;
use super::{ENTRIES_MAX, lines_somewhere};
use crate::entry::EntryId;
use crate::memory::{Line, Lines, Pages};
use crate::prefetch;
use crate::prefix::PrefixMatch;
use crate::sync::{AtomicU64, Ordering};

/// Number of words in a unit. Entries are aligned to 16 bytes.
const UNIT_WORDS: usize = 2;
/// Number of units in a cache line.
const LINE_UNITS: usize = 4;
/// Number of units of the largest chunks, as a power of two: 1 GiB.
const CHUNK_BITS_MAX: u32 = if cfg!(loom) { 5 } else { 26 };
/// Number of units of all chunks, as a power of two.
const UNITS_BITS: u32 = if cfg!(loom) { 7 } else { 32 };
/// Maximum number of markers that share an entry, including the rule. Depths are at most 128.
pub(super) const SHARED_MAX: usize = 8;

/// The start of an entry, in units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::prefix) struct EntryRef(pub(super) u32);

/// The first word of an entry.
#[derive(Clone, Copy)]
struct Header(u64);

impl Header {
    const RULE: u64 = 1 << 40;

    fn new(bytes: usize, depth: usize, owned: u8) -> Self {
        Header(bytes as u64 | (depth as u64) << 16 | u64::from(owned) << 24 | u64::from(owned) << 32)
    }
    fn bytes(self) -> usize {
        usize::from(self.0 as u16)
    }
    /// Bit `i` is set if the entry has a word for the marker at the sum of the first `i + 1`
    /// digits.
    fn owned(self) -> u8 {
        (self.0 >> 24) as u8
    }
    /// The words whose markers are in the tables.
    fn live(self) -> u8 {
        (self.0 >> 32) as u8
    }
    /// The trie of rules leads to this entry.
    fn is_rule(self) -> bool {
        self.0 & Header::RULE != 0
    }
    fn first_byte_word(self) -> usize {
        1 + self.owned().count_ones() as usize
    }
    fn words(self) -> usize {
        self.first_byte_word() + self.bytes().div_ceil(8)
    }
    fn units(self) -> usize {
        self.words().div_ceil(UNIT_WORDS)
    }
}

/// The bit of a depth in a header's masks.
fn mask_bit(depth: usize) -> u8 {
    1 << (depth.count_ones() - 1)
}

/// The rule that a marker or a rule forwards to, and the number of rules found through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Forwarding {
    /// The deepest rule that covers the prefix. `None` if only `/` may cover it.
    pub(super) covered_by: Option<PrefixMatch>,
    /// Number of deeper rules that have their marker here.
    pub(super) rules_below: u32,
}

impl Forwarding {
    fn pack(self) -> u64 {
        let covered_by = self.covered_by.map_or(0, |m| u64::from(m.entry.0) | (m.depth as u64) << 24);
        covered_by | u64::from(self.rules_below) << 32
    }

    fn unpack(word: u64) -> Self {
        // Depth zero means none, because `/` is stored elsewhere.
        let depth = usize::from((word >> 24) as u8);
        let entry = EntryId(word as u32 & (ENTRIES_MAX - 1));
        let covered_by = (depth > 0).then_some(PrefixMatch { entry, depth });
        Forwarding { covered_by, rules_below: (word >> 32) as u32 }
    }
}

/// All entries. Readers share it; the writer keeps a [`Writer`] beside it.
pub(super) struct NameStore {
    chunks: Box<[OnceLock<Lines>]>,
    /// Size of the first chunk in units, as a power of two. Chunks double from there up to the
    /// largest.
    first_bits: u32,
    pages: Pages,
    /// Number of units that were ever used, which are resident.
    used: AtomicU64,
}

impl NameStore {
    /// An empty store.
    ///
    /// # Errors
    /// If the kernel refuses the first pages.
    pub(super) fn new(pages: Pages) -> io::Result<Self> {
        let first_bits = match pages {
            _ if cfg!(loom) => CHUNK_BITS_MAX,
            // 128 KiB: names of a small table, and room for the longest name.
            Pages::Small | Pages::Large => 13,
            Pages::Reserved2M => 17,
            Pages::Reserved1G => CHUNK_BITS_MAX,
        };
        let chunks = (CHUNK_BITS_MAX - first_bits) as usize + (1 << (UNITS_BITS - CHUNK_BITS_MAX));
        let chunks = (0..chunks).map(|_| OnceLock::new()).collect();
        let store = NameStore { chunks, first_bits, pages, used: AtomicU64::new(0) };
        // No other code sets it.
        let _ = store.chunks[0].set(Lines::zeroed(store.chunk_units(0) / LINE_UNITS, pages)?);
        Ok(store)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed) as usize * UNIT_WORDS * 8 + size_of_val(&*self.chunks)
    }

    /// The entry at `at`, which was read from a slot or from the trie of rules.
    #[inline]
    pub(super) fn entry(&self, at: EntryRef) -> NameEntry<'_> {
        let (chunk, unit) = self.place(at.0);
        let lines = self.chunks[chunk].get().expect("what leads to an entry was published after it");
        NameEntry { lines, word: unit * UNIT_WORDS }
    }

    /// Prefetches an entry before it is compared. A name of 100 bytes lies in two lines.
    #[inline]
    pub(super) fn prefetch(&self, at: EntryRef) {
        let (chunk, unit) = self.place(at.0);
        let Some(lines) = self.chunks[chunk].get() else { return };
        let line = unit / LINE_UNITS;
        prefetch::read(&lines[line]);
        if let Some(next) = lines.get(line + 1) {
            prefetch::read(next);
        }
    }

    /// The chunk of a unit, and the unit's index in it.
    #[inline]
    fn place(&self, unit: u32) -> (usize, usize) {
        if unit >> self.first_bits == 0 {
            return (0, unit as usize);
        }
        let bits = unit.ilog2().min(CHUNK_BITS_MAX);
        if bits < CHUNK_BITS_MAX {
            return ((bits - self.first_bits) as usize + 1, unit as usize - (1 << bits));
        }
        let large = (unit >> CHUNK_BITS_MAX) as usize;
        ((CHUNK_BITS_MAX - self.first_bits) as usize + large, unit as usize & ((1 << CHUNK_BITS_MAX) - 1))
    }

    fn chunk_units(&self, chunk: usize) -> usize {
        1 << (self.first_bits + (chunk as u32).saturating_sub(1)).min(CHUNK_BITS_MAX)
    }

    fn make_chunk(&self, chunk: usize) {
        self.chunks[chunk].get_or_init(|| lines_somewhere(self.chunk_units(chunk) / LINE_UNITS, self.pages));
    }
}

/// One entry.
#[derive(Clone, Copy)]
pub(super) struct NameEntry<'a> {
    lines: &'a [Line],
    /// Index of its first word.
    word: usize,
}

impl<'a> NameEntry<'a> {
    #[inline]
    fn word(&self, i: usize) -> &'a AtomicU64 {
        let at = self.word + i;
        &self.lines[at / 8].0[at % 8]
    }

    #[inline]
    fn header(&self) -> Header {
        Header(self.word(0).load(Ordering::Relaxed))
    }

    /// The forwarding word of the marker, or of the rule, at `depth`.
    #[inline]
    fn forwarding_word(&self, depth: usize) -> &'a AtomicU64 {
        let before = self.header().owned() & (mask_bit(depth) - 1);
        self.word(1 + before.count_ones() as usize)
    }

    /// The rule that the marker or the rule at `depth` forwards to.
    #[inline]
    pub(super) fn forwarding(&self, depth: usize) -> Forwarding {
        // Acquire: a reader that sees the forwarding of a change sees that the change was begun.
        Forwarding::unpack(self.forwarding_word(depth).load(Ordering::Acquire))
    }

    /// For the writer.
    pub(super) fn set_forwarding(&self, depth: usize, forwarding: Forwarding) {
        self.forwarding_word(depth).store(forwarding.pack(), Ordering::Release);
    }

    /// Whether the entry's name begins with `bytes`. These are whole components, so equal bytes are
    /// equal components.
    #[inline]
    pub(super) fn starts_with(&self, bytes: &[u8], tally: &impl Tally) -> bool {
        let header = self.header();
        let first = header.first_byte_word();
        tally.lines((self.word % 8 + first + bytes.len().div_ceil(8)).div_ceil(8));
        if header.bytes() < bytes.len() {
            return false;
        }
        let (words, rest) = bytes.as_chunks::<8>();
        let word = |i: usize| self.word(first + i).load(Ordering::Relaxed);
        if !words.iter().enumerate().all(|(i, bytes)| word(i) == u64::from_le_bytes(*bytes)) {
            return false;
        }
        rest.is_empty() || (word(words.len()) ^ little_endian(rest)) << (64 - 8 * rest.len()) == 0
    }

    /// Byte `i` of the name, if the name is that long.
    pub(super) fn byte(&self, i: usize) -> Option<u8> {
        let header = self.header();
        let word = || self.word(header.first_byte_word() + i / 8).load(Ordering::Relaxed);
        (i < header.bytes()).then(|| (word() >> (8 * (i % 8))) as u8)
    }

    /// Copies the whole name into `bytes`.
    pub(super) fn copy_name(&self, bytes: &mut Vec<u8>) {
        let header = self.header();
        bytes.clear();
        for i in header.first_byte_word()..header.words() {
            bytes.extend_from_slice(&self.word(i).load(Ordering::Relaxed).to_le_bytes());
        }
        bytes.truncate(header.bytes());
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// The writer's side of the store: which entries are in use, and where there is room.
///
/// Reclaimed entries are reused for names of their size or shorter. Neighbours are not joined.
#[derive(Default)]
pub(super) struct Writer {
    /// Free entries, by their length in units.
    free: BTreeMap<usize, Vec<u32>>,
    /// Entries that readers may still hold.
    retired: Vec<EntryRef>,
    /// Units from here on were never used.
    unused_from: usize,
}

impl Writer {
    /// Whether entries for this many names, of this many bytes in total, are certain to find room.
    pub(super) fn has_room(&self, names: usize, bytes: usize) -> bool {
        let words = names * (1 + SHARED_MAX + UNIT_WORDS) + bytes.div_ceil(8);
        // Twice, because the end of a chunk may be too small for the next entry.
        self.unused_from + 2 * words.div_ceil(UNIT_WORDS) < 1 << UNITS_BITS
    }

    /// Writes an entry for `name`, with words for the markers at the depths of `markers`.
    ///
    /// # Panics
    /// If the store is full, which [`Writer::has_room`] predicts, or if the system is out of
    /// memory.
    pub(super) fn add(
        &mut self,
        store: &NameStore,
        name: NameRef<'_>,
        depth: usize,
        markers: &[(usize, Forwarding)],
    ) -> EntryRef {
        let bytes = name.value();
        let owned = markers.iter().fold(0, |mask, (depth, _)| mask | mask_bit(*depth));
        let header = Header::new(bytes.len(), depth, owned);
        let at = self.take(store, header.units());
        let entry = store.entry(at);
        // Relaxed: the release store of a slot publishes all of them.
        entry.word(0).store(header.0, Ordering::Relaxed);
        for (depth, forwarding) in markers {
            entry.forwarding_word(*depth).store(forwarding.pack(), Ordering::Relaxed);
        }
        for (i, bytes) in bytes.chunks(8).enumerate() {
            entry.word(header.first_byte_word() + i).store(little_endian(bytes), Ordering::Relaxed);
        }
        at
    }

    /// Marks whether the trie of rules leads to this entry.
    pub(super) fn set_rule(&mut self, store: &NameStore, at: EntryRef, is_rule: bool) {
        let header = store.entry(at).header().0;
        self.set_header(store, at, if is_rule { header | Header::RULE } else { header & !Header::RULE });
    }

    /// Notes that the marker or the rule at `depth` is no longer in the tables.
    pub(super) fn drop_marker(&mut self, store: &NameStore, at: EntryRef, depth: usize) {
        let header = store.entry(at).header().0;
        self.set_header(store, at, header & !(u64::from(mask_bit(depth)) << 32));
    }

    /// Frees what removed entries held.
    pub(super) fn reclaim(&mut self, store: &NameStore) {
        for at in std::mem::take(&mut self.retired) {
            self.free.entry(store.entry(at).header().units()).or_default().push(at.0);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let free: usize = self.free.values().map(|run| run.capacity() * 4).sum();
        free + self.retired.capacity() * 4
    }

    fn set_header(&mut self, store: &NameStore, at: EntryRef, header: u64) {
        // Readers need its lower half only, which does not change.
        store.entry(at).word(0).store(header, Ordering::Relaxed);
        let header = Header(header);
        if header.live() == 0 && !header.is_rule() {
            self.retired.push(at);
        }
    }

    fn take(&mut self, store: &NameStore, units: usize) -> EntryRef {
        if let Some((&run, places)) = self.free.range_mut(units..).next() {
            let place = places.pop().expect("empty lists are taken out");
            if places.is_empty() {
                self.free.remove(&run);
            }
            if run > units {
                self.free.entry(run - units).or_default().push(place + units as u32);
            }
            return EntryRef(place);
        }
        let (mut chunk, mut offset) = store.place(self.unused_from as u32);
        if offset + units > store.chunk_units(chunk) {
            let left = store.chunk_units(chunk) - offset;
            self.free.entry(left).or_default().push(self.unused_from as u32);
            self.unused_from += left;
            (chunk, offset) = (chunk + 1, 0);
        }
        debug_assert_eq!(store.place(self.unused_from as u32), (chunk, offset));
        store.make_chunk(chunk);
        let at = EntryRef(self.unused_from as u32);
        self.unused_from += units;
        store.used.store(self.unused_from as u64, Ordering::Relaxed);
        at
    }
}

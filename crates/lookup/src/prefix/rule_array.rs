//! The rules that slots point to: digest, depth and entry.
//!
//! The array grows by chunks and never moves, so readers of an old and a new bucket array share it.
//! A rule is written before a slot publishes its index. It does not change until no reader can hold
//! that index any more, except for its maximum depth.

use std::sync::OnceLock;

use byname_wire::NameView;

use crate::entry::EntryId;
use crate::sync::{AtomicU64, Ordering};

/// Number of rules in a chunk: 64 KiB. Loom models have few, because loom follows each atomic.
pub(crate) const CHUNK: usize = if cfg!(loom) { 4 } else { 4096 };

/// The key of a rule: both halves of the keyed 128-bit hash of its name, and the number of
/// components.
// Sorting by these fields, in this order, makes neighbours of rules that the query half cannot tell
// apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RuleKey {
    pub(crate) hash: u64,
    pub(crate) depth: usize,
    pub(crate) check: u64,
}

impl RuleKey {
    #[inline]
    pub(crate) fn of_prefix(name: &NameView<'_>, depth: usize) -> Self {
        let digest = name.digest(depth);
        RuleKey { hash: digest.hash, depth, check: digest.check }
    }

    /// Whether the query half cannot tell the two apart.
    pub(crate) fn looks_like(&self, other: &RuleKey) -> bool {
        self.hash == other.hash && Word::of(self) == Word::of(other)
    }
}

/// A rule without its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    /// `None` marks a virtual rule, which no name matches [So §2.3].
    pub(crate) entry: Option<EntryId>,
    /// Number of components of the longest rule below this one's name, if the engine keeps it: see
    /// `RuleTable`.
    pub(crate) depth_max: usize,
}

/// `check | virtual | depth_max | depth | entry`, of 15, 1, 8, 8 and 32 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word(u64);

const DEPTH_SHIFT: u32 = 32;
const DEPTH_MAX_SHIFT: u32 = 40;
const VIRTUAL: u64 = 1 << 48;
const CHECK_SHIFT: u32 = 49;
const KEY_MASK: u64 = !0 << CHECK_SHIFT | 0xff << DEPTH_SHIFT;

impl Word {
    /// The part of the word that stands for the key.
    #[inline]
    fn of(key: &RuleKey) -> Self {
        Word(key.check >> CHECK_SHIFT << CHECK_SHIFT | (key.depth as u64) << DEPTH_SHIFT)
    }

    fn with(self, rule: Rule) -> Self {
        let entry = rule.entry.map_or(VIRTUAL, |entry| u64::from(entry.0));
        Word(self.0 | entry | (rule.depth_max as u64) << DEPTH_MAX_SHIFT)
    }

    #[inline]
    fn rule(self) -> Rule {
        let entry = if self.0 & VIRTUAL == 0 { Some(EntryId(self.0 as u32)) } else { None };
        Rule { entry, depth_max: (self.0 >> DEPTH_MAX_SHIFT & 0xff) as usize }
    }
}

/// A rule's place, within one cache line.
#[repr(align(16))]
struct Place {
    hash: AtomicU64,
    word: AtomicU64,
}

/// Rules by index.
pub(crate) struct RuleArray {
    chunks: Box<[OnceLock<Box<[Place]>>]>,
}

impl RuleArray {
    /// Room for `rules` rules. Nothing is allocated yet.
    pub(crate) fn new(rules: usize) -> Self {
        RuleArray { chunks: (0..rules.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect() }
    }

    /// Number of rules for which there is room.
    pub(crate) fn capacity(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let chunks = self.chunks.iter().filter_map(OnceLock::get).map(|chunk| size_of_val(&**chunk));
        size_of_val(&*self.chunks) + chunks.sum::<usize>()
    }

    /// Writes a rule that no slot points to. For the writer.
    ///
    /// # Panics
    /// If `index` is not below the capacity.
    pub(crate) fn write(&self, index: u32, key: &RuleKey, rule: Rule) {
        let chunk = self.chunks[index as usize / CHUNK]
            .get_or_init(|| (0..CHUNK).map(|_| Place { hash: AtomicU64::new(0), word: AtomicU64::new(0) }).collect());
        let place = &chunk[index as usize % CHUNK];
        // Relaxed: the release store of the slot publishes both.
        place.hash.store(key.hash, Ordering::Relaxed);
        place.word.store(Word::of(key).with(rule).0, Ordering::Relaxed);
    }

    /// Changes a rule's maximum depth in place. Readers see the old or the new one. For the writer.
    ///
    /// # Panics
    /// If `index` was never written.
    pub(crate) fn set_depth_max(&self, index: u32, depth_max: usize) {
        let word = &self.place(index).expect("only rules that were written are changed").word;
        let kept = word.load(Ordering::Relaxed) & !(0xff << DEPTH_MAX_SHIFT);
        word.store(kept | (depth_max as u64) << DEPTH_MAX_SHIFT, Ordering::Release);
    }

    /// The rule at `index`, if it has this key. The check half is compared in 15 bits, as many as
    /// are stored. `index` was read from a slot.
    #[inline]
    pub(crate) fn rule(&self, index: u32, key: &RuleKey) -> Option<Rule> {
        let place = self.place(index)?;
        // Acquire: a reader that sees a greater maximum depth sees the rule at that depth.
        let word = place.word.load(Ordering::Acquire);
        let same = place.hash.load(Ordering::Relaxed) == key.hash && word & KEY_MASK == Word::of(key).0;
        same.then(|| Word(word).rule())
    }

    /// The hash of a rule. `index` was read from a slot.
    pub(crate) fn hash(&self, index: u32) -> Option<u64> {
        Some(self.place(index)?.hash.load(Ordering::Relaxed))
    }

    #[inline]
    fn place(&self, index: u32) -> Option<&Place> {
        self.chunks.get(index as usize / CHUNK)?.get()?.get(index as usize % CHUNK)
    }
}

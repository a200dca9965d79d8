//! The 64 bits with which an entry describes its node.
//!
//! ```text
//! 63          23   22    21 20   19    16   15      0
//! [ fingerprint ][ alt ][ kind ][ extent ][  entry  ]
//! ```
//!
//! The fingerprint is the upper part of the check half of the node's prefix. An inherited answer
//! uses its lowest five bits for the depth that the answer comes from.

use crate::entry::EntryId;
use crate::prefix::PrefixMatch;

/// Length of an entry id in bits.
const ENTRY_BITS: u32 = 16;
/// Entry ids must be below this.
pub(super) const ENTRIES_MAX: u32 = 1 << ENTRY_BITS;
const EXTENT_SHIFT: u32 = 16;
const KIND_SHIFT: u32 = 20;
const KIND: u64 = 3 << KIND_SHIFT;
const ALTERNATE: u64 = 1 << 22;
const FINGERPRINT_SHIFT: u32 = 23;
/// Length of a fingerprint in bits.
pub(super) const FINGERPRINT_BITS: u32 = 64 - FINGERPRINT_SHIFT;
const ANSWER_DEPTH: u64 = 31 << FINGERPRINT_SHIFT;

/// The answer for a name that ends at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The node's own rule, with no rule or branch below.
    Leaf(EntryId),
    /// The node's own rule.
    Ruled(EntryId),
    /// The rule of the nearest ancestor that has one.
    Inherited(EntryId, usize),
    /// No ancestor but `/` has a rule.
    Bare,
}

/// An entry's word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

impl Word {
    /// The word of a node `extent` components below its handle whose prefix has this check half.
    pub(super) fn new(answer: Answer, extent: usize, check: u64) -> Self {
        debug_assert!(extent < 16);
        Word(check >> FINGERPRINT_SHIFT << FINGERPRINT_SHIFT | (extent as u64) << EXTENT_SHIFT)
            .with_answer(answer, check)
    }

    /// The same node with another answer. `check` is as in [`Word::new`].
    pub(super) fn with_answer(self, answer: Answer, check: u64) -> Self {
        let kept = self.0 & (ALTERNATE | 15 << EXTENT_SHIFT);
        let fingerprint = check >> FINGERPRINT_SHIFT << FINGERPRINT_SHIFT;
        let (kind, entry, fingerprint) = match answer {
            Answer::Leaf(entry) => (0, entry.0, fingerprint),
            Answer::Ruled(entry) => (1, entry.0, fingerprint),
            Answer::Inherited(entry, depth) => {
                (2, entry.0, fingerprint & !ANSWER_DEPTH | (depth as u64) << FINGERPRINT_SHIFT)
            }
            Answer::Bare => (3, 0, fingerprint),
        };
        debug_assert!(entry < ENTRIES_MAX);
        Word(kept | fingerprint | kind << KIND_SHIFT | u64::from(entry))
    }

    /// A leaf's word, once something is below it.
    pub(super) fn no_leaf(self) -> Self {
        debug_assert!(self.is_leaf());
        Word(self.0 | 1 << KIND_SHIFT)
    }

    /// The same entry in its other bucket, or in its first.
    pub(super) fn placed(self, alternate: bool) -> Self {
        Word(if alternate { self.0 | ALTERNATE } else { self.0 & !ALTERNATE })
    }

    /// The same node with another handle.
    pub(super) fn with_extent(self, extent: usize) -> Self {
        debug_assert!(extent < 16);
        Word(self.0 & !(15 << EXTENT_SHIFT) | (extent as u64) << EXTENT_SHIFT)
    }

    /// Whether the entry is in its other bucket.
    #[inline]
    pub(super) fn is_alternate(self) -> bool {
        self.0 & ALTERNATE != 0
    }

    /// Number of components between the handle and the node.
    #[inline]
    pub(super) fn extent(self) -> usize {
        (self.0 >> EXTENT_SHIFT & 15) as usize
    }

    /// Whether no rule or branch is below.
    #[inline]
    pub(super) fn is_leaf(self) -> bool {
        self.0 & KIND == 0
    }

    /// Whether the node has a prefix with this check half, as far as `mask` compares.
    #[inline]
    pub(super) fn is_of(self, check: u64, mask: u64) -> bool {
        let mask = if self.0 & KIND == 2 << KIND_SHIFT { mask & !ANSWER_DEPTH } else { mask };
        (self.0 ^ check) & mask == 0
    }

    /// Whether one of two entries with equal handles would be mistaken for the other.
    pub(super) fn looks_like(self, other: Word, mask: u64) -> bool {
        self.extent() == other.extent() && (self.is_of(other.0, mask) || other.is_of(self.0, mask))
    }

    /// The answer for a name that ends at this node, `depth` deep. `None` stands for the rule `/`.
    #[inline]
    pub(super) fn answer(self, depth: usize) -> Option<PrefixMatch> {
        let entry = EntryId(self.0 as u32 & (ENTRIES_MAX - 1));
        match self.0 >> KIND_SHIFT & 3 {
            0 | 1 => Some(PrefixMatch { entry, depth }),
            // No deeper than the node, even in a forged table.
            2 => Some(PrefixMatch { entry, depth: ((self.0 >> FINGERPRINT_SHIFT & 31) as usize).min(depth) }),
            _ => None,
        }
    }
}

/// The bits of a word that are compared with a check half, for fingerprints of `bits` bits.
pub(super) fn fingerprint_mask(bits: u32) -> u64 {
    assert!((1..=FINGERPRINT_BITS).contains(&bits), "fingerprints of 1 to {FINGERPRINT_BITS} bits");
    u64::MAX << (64 - bits)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_word_gives_back_what_it_was_made_of() {
        let (check, mask) = (0xfedc_ba98_7654_3210, fingerprint_mask(FINGERPRINT_BITS));
        let entry = EntryId(65_535);
        let answers = [
            (Answer::Leaf(entry), Some((65_535, 9))),
            (Answer::Ruled(entry), Some((65_535, 9))),
            (Answer::Inherited(entry, 7), Some((65_535, 7))),
            (Answer::Inherited(entry, 31), Some((65_535, 9))),
            (Answer::Bare, None),
        ];
        for (answer, expected) in answers {
            let word = Word::new(Answer::Bare, 15, check).placed(true).with_answer(answer, check);
            assert_eq!((word.extent(), word.is_alternate()), (15, true));
            assert_eq!(word.is_leaf(), matches!(answer, Answer::Leaf(_)));
            assert!(word.is_of(check, mask));
            assert!(!word.is_of(check ^ 1 << 63, mask) && !word.is_of(check ^ 1 << 28, mask));
            assert_eq!(word.answer(9).map(|m| (m.entry.0, m.depth)), expected);
            let moved = word.placed(false).with_extent(3);
            assert_eq!((moved.extent(), moved.is_alternate()), (3, false));
        }
    }
}

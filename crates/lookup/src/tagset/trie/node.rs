//! One node in eight bytes.

/// The position of a terminator, after all others: the paper's `$`.
pub(super) const END: u8 = 192;

/// A node of the trie: the contents of the paper's node [TagNet §3.2.3], and whether it ends a
/// descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node(u64);

const POSITION: u32 = 0;
const MIN: u32 = 8;
const MAX: u32 = 16;
const LAST: u32 = 24;
const TERMINATOR: u32 = 25;
const PLACE: u32 = 32;

impl Node {
    /// A node with children, whose first is at `place`.
    pub(super) fn inner(position: u8, place: u32, (min, max): (u8, u8)) -> Self {
        Node(
            u64::from(position) << POSITION | u64::from(min) << MIN | u64::from(max) << MAX | u64::from(place) << PLACE,
        )
    }

    /// A node that ends a descriptor of this weight. The descriptor's entry and remaining positions
    /// are at `place` of the tails.
    pub(super) fn terminator(position: u8, place: u32, weight: u8) -> Self {
        Node(Self::inner(position, place, (weight, weight)).0 | 1 << TERMINATOR)
    }

    /// The same as the last of its siblings.
    pub(super) fn as_last(self) -> Self {
        Node(self.0 | 1 << LAST)
    }

    /// The same, with these children.
    pub(super) fn with_children(self, place: u32, depths: (u8, u8)) -> Self {
        Node(Self::inner(self.position(), place, depths).0 | self.0 & 1 << LAST)
    }

    #[inline(always)]
    pub(super) fn from_word(word: u64) -> Self {
        Node(word)
    }

    pub(super) fn word(self) -> u64 {
        self.0
    }

    /// The position, in the trie's order, of the bit that a packet must have. [`END`] if it needs
    /// none.
    #[inline(always)]
    pub(super) fn position(self) -> u8 {
        (self.0 >> POSITION) as u8
    }

    /// The smallest weight of a descriptor through this node.
    #[inline(always)]
    pub(super) fn min(self) -> u32 {
        u32::from((self.0 >> MIN) as u8)
    }

    /// The largest weight of a descriptor through this node.
    #[inline(always)]
    pub(super) fn max(self) -> u32 {
        u32::from((self.0 >> MAX) as u8)
    }

    /// Whether it is the last of its siblings.
    #[inline(always)]
    pub(super) fn is_last(self) -> bool {
        self.0 >> LAST & 1 == 1
    }

    /// Whether it ends a descriptor.
    #[inline(always)]
    pub(super) fn is_terminator(self) -> bool {
        self.0 >> TERMINATOR & 1 == 1
    }

    /// The place of its first child, or of a terminator's entry.
    #[inline(always)]
    pub(super) fn place(self) -> u32 {
        (self.0 >> PLACE) as u32
    }
}

//! Nodes as readers see them: the descriptors that share an index tag, or a few tags.
//!
//! A node is one block, which readers read in place. A *narrow* node contains the descriptors
//! themselves, in half words of 32 bits:
//!
//! | half words | what |
//! | --- | --- |
//! | 1 | the head: members, from bit 0; whether there is a bare one, bit 8; whether it is wide, bit 9; the path's tags but one, bit 10; most further tags of a member, bit 15 |
//! | 1 for four | how many members have at least 2, 3... further tags |
//! | 1 each | the path: the tags that all descriptors here share, of which the first is in the directory |
//! | 1 each | the column: the members' first further tags |
//! | 0 or 1 | the entry of the bare descriptor, which is the path and no more |
//! | further tags each | rows of members: the entry and the further tags but the first |
//!
//! Members with the most further tags come first. Rows therefore need no lengths, and a search for
//! the largest subset may skip the end of the column.
//!
//! A *wide* node has a child for each first further tag. It consists of whole lines:
//!
//! | half words | what |
//! | --- | --- |
//! | 1 | the head, where bit 15 is of most further tags of any descriptor below, which may be too many |
//! | 1 each | lines of the table, words of it that are not empty, children, the bare descriptor's entry |
//! | 1 each | the path, to the end of a line |
//! | a line | a bitmap of the children's tags, of which none is missing |
//! | lines | the table of children |

use byname_wire::tagset::TagDigest;

use super::arena::{Block, BlockId, LINE_HALVES};
use super::packet::bit_of;
use super::table::{Mixer, Table};
use crate::entry::EntryId;

pub(super) const BARE: u32 = 1 << 8;
pub(super) const WIDE: u32 = 1 << 9;
pub(super) const PATH_SHIFT: u32 = 10;
pub(super) const FURTHER_SHIFT: u32 = 15;
/// Maximum number of members of a narrow node.
pub(super) const MEMBERS_MAX: usize = 0xff;
/// Offset of the number of lines of a wide node, in half words.
pub(super) const LINES_AT: usize = 1;
pub(super) const USED_AT: usize = 2;
pub(super) const CHILDREN_AT: usize = 3;
pub(super) const BARE_AT: usize = 4;
pub(super) const WIDE_PATH_AT: usize = 5;

/// A node.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) block: Block<'a>,
    pub(super) is_wide: bool,
    pub(super) members: usize,
    pub(super) is_bare: bool,
    /// Number of tags of the path.
    pub(super) path: usize,
    /// Maximum number of further tags of any descriptor here or below.
    pub(super) further_max: usize,
}

impl<'a> View<'a> {
    #[inline(always)]
    pub(super) fn of(block: Block<'a>) -> Self {
        let head = block.half(0);
        View {
            block,
            is_wide: head & WIDE != 0,
            members: head as usize & MEMBERS_MAX,
            is_bare: head & BARE != 0,
            path: (head >> PATH_SHIFT & 31) as usize + 1,
            further_max: (head >> FURTHER_SHIFT & 31) as usize,
        }
    }

    /// A node of a file, if its chunk has as many half words as it says, and its counts agree.
    pub(super) fn of_checked(block: Block<'a>) -> Option<Self> {
        let left = block.halves_left();
        let view = (left > 0).then(|| View::of(block))?;
        let fixed = if view.is_wide { WIDE_PATH_AT } else { view.column() + view.members };
        let counts = || (2..=view.further_max).map(|further| view.members_with(further));
        let is_consistent = left >= fixed
            && match view.is_wide {
                true => view.table_lines() > 0 && view.size().checked_mul(LINE_HALVES).is_some_and(|size| size <= left),
                // Fewer and fewer members have more and more further tags.
                false => {
                    (view.is_bare || view.members > 0)
                        && (view.members == 0) == (view.further_max == 0)
                        && counts().all(|count| count <= view.members)
                        && counts().is_sorted_by(|more, fewer| more >= fewer)
                        && view.size() <= left
                }
            };
        is_consistent.then_some(view)
    }

    /// The descriptors of a node itself.
    pub(super) fn rows(self) -> impl Iterator<Item = Row<'a>> {
        let members = if self.is_wide { 0 } else { self.members };
        self.is_bare.then(|| self.bare()).into_iter().chain((0..members).map(move |member| self.row(member)))
    }

    /// The tags that all descriptors here share.
    #[inline(always)]
    pub(super) fn path_tags(&self) -> impl Iterator<Item = TagDigest> + use<'a> {
        let (block, at) = (self.block, self.path_at());
        (at..at + self.path).map(move |at| TagDigest(block.half(at)))
    }

    #[inline(always)]
    fn path_at(&self) -> usize {
        if self.is_wide { WIDE_PATH_AT } else { 1 + counts_halves(self.further_max) }
    }

    /// The row of the descriptor without further tags.
    #[inline(always)]
    pub(super) fn bare(&self) -> Row<'a> {
        let at = if self.is_wide { BARE_AT } else { self.rows_at() };
        Row { view: *self, place: RowPlace { at: at as u32, element: 0, further: 0 } }
    }

    /// Size of a wide node in lines, or of a narrow one in half words.
    pub(super) fn size(&self) -> usize {
        match self.is_wide {
            true => self.table_line() + self.table_lines(),
            false => {
                let rows = (1..=self.further_max).map(|further| self.members_with(further)).sum::<usize>();
                self.rows_at() + usize::from(self.is_bare) + rows
            }
        }
    }
}

/// Number of half words for the counts of members with at least 2, 3... further tags.
#[inline(always)]
pub(super) fn counts_halves(further_max: usize) -> usize {
    (further_max + 2) / 4
}

/// For narrow nodes.
impl<'a> View<'a> {
    /// Where the column begins.
    #[inline(always)]
    pub(super) fn column(&self) -> usize {
        self.path_at() + self.path
    }

    /// Number of members with at least `further` further tags.
    #[inline(always)]
    pub(super) fn members_with(&self, further: usize) -> usize {
        match further {
            0 | 1 => self.members,
            _ if further > self.further_max => 0,
            _ => (self.block.half(1 + (further - 2) / 4) >> ((further - 2) % 4 * 8)) as usize & MEMBERS_MAX,
        }
    }

    /// A member's first further tag.
    #[inline(always)]
    pub(super) fn tag(&self, member: usize) -> TagDigest {
        TagDigest(self.block.half(self.column() + member))
    }

    #[inline(always)]
    fn rows_at(&self) -> usize {
        self.column() + self.members
    }

    /// The row of a member.
    #[inline(always)]
    pub(super) fn row(&self, member: usize) -> Row<'a> {
        let mut at = self.rows_at() + usize::from(self.is_bare);
        let mut before = 0;
        let element = member as u32;
        for further in (2..=self.further_max).rev() {
            let until = self.members_with(further);
            if member < until {
                let at = (at + (member - before) * further) as u32;
                return Row { view: *self, place: RowPlace { at, element, further: further as u8 } };
            }
            at += (until - before) * further;
            before = until;
        }
        Row { view: *self, place: RowPlace { at: (at + member - before) as u32, element, further: 1 } }
    }

    /// The row at a place that [`View::row`] returned.
    #[inline(always)]
    pub(super) fn row_at(&self, place: RowPlace) -> Row<'a> {
        Row { view: *self, place }
    }
}

/// For wide nodes.
impl<'a> View<'a> {
    /// Whether there may be a child of this tag.
    #[inline(always)]
    pub(super) fn may_have_child(&self, tag: TagDigest) -> bool {
        let (word, bit) = bit_of(tag);
        self.block.half(self.bitmap_line() * LINE_HALVES + word) & bit != 0
    }

    /// Whether a node has noted these numbers of words and of children, and is not empty.
    pub(super) fn has_counts(&self, used: usize, children: usize) -> bool {
        let is_noted = |at, count| self.block.half(at) as usize == count;
        is_noted(USED_AT, used) && is_noted(CHILDREN_AT, children) && (children > 0 || self.is_bare)
    }

    /// The child of a tag.
    #[inline(always)]
    pub(super) fn child(&self, tag: TagDigest, mixer: Mixer) -> Option<BlockId> {
        self.table().find(tag, mixer.mix(tag))
    }

    #[inline(always)]
    pub(super) fn table(&self) -> Table<'a> {
        self.block.table(self.table_line(), self.table_lines())
    }

    #[inline(always)]
    pub(super) fn bitmap_line(&self) -> usize {
        (WIDE_PATH_AT + self.path).div_ceil(LINE_HALVES)
    }

    #[inline(always)]
    fn table_line(&self) -> usize {
        self.bitmap_line() + 1
    }

    #[inline(always)]
    fn table_lines(&self) -> usize {
        self.block.half(LINES_AT) as usize
    }
}

/// The place of a row in its node.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowPlace {
    pub(super) at: u32,
    /// Index in the column, if it has one.
    element: u32,
    /// Number of tags beyond the path's.
    pub(super) further: u8,
}

/// A descriptor of a node.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    view: View<'a>,
    pub(super) place: RowPlace,
}

impl Row<'_> {
    #[inline(always)]
    pub(super) fn entry(&self) -> EntryId {
        EntryId(self.view.block.half(self.place.at as usize))
    }

    /// Replaces the entry. For the writer.
    pub(super) fn set_entry(&self, entry: EntryId) {
        self.view.block.store(self.place.at as usize, entry.0);
    }

    /// Prefetches its line.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        self.view.block.prefetch(self.place.at as usize, 1);
    }

    /// Whether it ends within the node's first `lines` lines.
    #[inline(always)]
    pub(super) fn is_within(&self, lines: usize) -> bool {
        let end = self.place.at as usize + usize::from(self.place.further).max(1);
        self.view.block.first % LINE_HALVES + end <= lines * LINE_HALVES
    }

    /// Its tags except for the path's and the first further one.
    #[inline(always)]
    pub(super) fn rest(&self) -> impl Iterator<Item = TagDigest> {
        let at = self.place.at as usize;
        (1..usize::from(self.place.further)).map(move |i| TagDigest(self.view.block.half(at + i)))
    }

    /// Total number of tags.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.view.path + usize::from(self.place.further)
    }

    /// All tags, in no order.
    pub(super) fn tags(&self) -> impl Iterator<Item = TagDigest> {
        let first = (self.place.further > 0).then(|| self.view.tag(self.place.element as usize));
        self.view.path_tags().chain(first).chain(self.rest())
    }
}

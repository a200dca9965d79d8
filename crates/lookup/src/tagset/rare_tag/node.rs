//! Nodes: the descriptors that share an index tag, or a few.
//!
//! A node is one block, read in place. In half words of 32 bits:
//!
//! | half words | what |
//! | --- | --- |
//! | 1 | children |
//! | 1 | members, from bit 0; whether there is a bare one, bit 16; the path's tags, bit 17; most further tags of a member, bit 22, and of any descriptor below, bit 27, which may be too large |
//! | 1 for two | how many members have at least 2, 3... further tags |
//! | 1 each | the path: the tags that all descriptors here share, of which the first is in the directory |
//! | 1 each | the column: the children's tags, then the members' first further tags |
//! | 1 each | the children's blocks |
//! | 0 or 1 | the entry of the bare descriptor, which is the path and no more |
//! | further tags each | rows of members: the entry and the further tags but the first |
//!
//! Members with most further tags come first, so that rows need no lengths, and that a search for the
//! largest subset may leave out the end of the column.

use byname_wire::tagset::{TAGS_MAX, TagDigest};

use super::arena::{Arena, Block, BlockId};
use crate::entry::EntryId;

const HEAD_HALVES: usize = 2;
const BARE: u32 = 1 << 16;
const PATH_SHIFT: u32 = 17;
const FURTHER_SHIFT: u32 = 22;
const BELOW_SHIFT: u32 = 27;
/// Members that a node has at most: then even single ones become children.
pub(super) const MEMBERS_MAX: usize = 0xffff;

/// A node, as readers see it.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) block: Block<'a>,
    pub(super) children: usize,
    pub(super) members: usize,
    pub(super) is_bare: bool,
    /// Tags of the path.
    pub(super) path: usize,
    /// Most further tags of a member.
    further_max: usize,
    /// No descriptor here or below has more further tags.
    pub(super) below_max: usize,
}

impl<'a> View<'a> {
    #[inline(always)]
    pub(super) fn of(block: Block<'a>) -> Self {
        let head = block.half(1);
        View {
            block,
            children: block.half(0) as usize,
            members: (head & 0xffff) as usize,
            is_bare: head & BARE != 0,
            path: (head >> PATH_SHIFT & 31) as usize + 1,
            further_max: (head >> FURTHER_SHIFT & 31) as usize,
            below_max: (head >> BELOW_SHIFT) as usize,
        }
    }

    /// Where the column begins.
    #[inline(always)]
    pub(super) fn column(&self) -> usize {
        self.path_at() + self.path
    }

    /// Members that have at least so many further tags, 1 or more.
    #[inline(always)]
    pub(super) fn members_with(&self, further: usize) -> usize {
        match further {
            0 | 1 => self.members,
            _ if further > self.further_max => 0,
            _ => (self.block.half(HEAD_HALVES + (further - 2) / 2) >> ((further % 2) * 16) & 0xffff) as usize,
        }
    }

    #[inline(always)]
    pub(super) fn tag(&self, element: usize) -> TagDigest {
        TagDigest(self.block.half(self.column() + element))
    }

    #[inline(always)]
    pub(super) fn child(&self, element: usize) -> BlockId {
        BlockId(self.block.half(self.child_at(element)))
    }

    pub(super) fn child_at(&self, element: usize) -> usize {
        self.column() + self.children + self.members + element
    }

    #[inline(always)]
    fn path_at(&self) -> usize {
        HEAD_HALVES + self.further_max / 2
    }

    #[inline(always)]
    fn rows_at(&self) -> usize {
        self.column() + 2 * self.children + self.members
    }

    /// The row of the bare descriptor.
    #[inline(always)]
    pub(super) fn bare(&self) -> Row<'a> {
        Row { view: *self, place: RowPlace { at: self.rows_at() as u32, element: 0, further: 0 } }
    }

    /// The row of a member.
    #[inline(always)]
    pub(super) fn row(&self, member: usize) -> Row<'a> {
        let mut at = self.rows_at() + usize::from(self.is_bare);
        let mut before = 0;
        let element = (self.children + member) as u32;
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

    /// The row at a place that it told.
    #[inline(always)]
    pub(super) fn row_at(&self, place: RowPlace) -> Row<'a> {
        Row { view: *self, place }
    }

    /// Has descriptors with so many further tags, here or below. The writer's method.
    pub(super) fn raise_below_max(&self, further: usize) {
        if further > self.below_max {
            let head = self.block.half(1) & !(u32::MAX << BELOW_SHIFT);
            self.block.store(1, head | (further as u32) << BELOW_SHIFT);
        }
    }

    /// Half words that the node takes.
    pub(super) fn halves(&self) -> usize {
        let rows = (1..=self.further_max).map(|further| self.members_with(further)).sum::<usize>();
        self.rows_at() + usize::from(self.is_bare) + rows
    }
}

/// Where a row is in its node.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowPlace {
    at: u32,
    /// Of the column, where it has one.
    element: u32,
    /// Tags beyond the path's.
    further: u8,
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

    /// Replaces the entry. The writer's method.
    pub(super) fn set_entry(&self, entry: EntryId) {
        self.view.block.store(self.place.at as usize, entry.0);
    }

    /// Asks for its line.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        self.view.block.prefetch(self.place.at as usize, 1);
    }

    /// Its tags but for the path's and the first further one.
    #[inline(always)]
    pub(super) fn rest(&self) -> impl Iterator<Item = TagDigest> {
        let at = self.place.at as usize;
        (1..usize::from(self.place.further)).map(move |i| TagDigest(self.view.block.half(at + i)))
    }

    /// Tags in all.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.view.path + usize::from(self.place.further)
    }

    /// All tags, in no order.
    pub(super) fn tags(&self) -> impl Iterator<Item = TagDigest> {
        let path = self.view.path_at();
        let path = (0..self.view.path).map(move |i| TagDigest(self.view.block.half(path + i)));
        let first = (self.place.further > 0).then(|| self.view.tag(self.place.element as usize));
        path.chain(first).chain(self.rest())
    }
}

/// What is below one further tag.
#[derive(Debug, Clone, Copy)]
struct Child {
    tag: TagDigest,
    block: BlockId,
}

/// A descriptor but for the path's tags: those are in [`Node::tags`], rarest first.
#[derive(Debug, Clone, Copy)]
struct Member {
    entry: EntryId,
    from: u32,
    further: u8,
}

impl Member {
    fn tags<'a>(&self, all: &'a [TagDigest]) -> &'a [TagDigest] {
        &all[self.from as usize..][..usize::from(self.further)]
    }
}

/// A node, as the writer makes it.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    /// One tag or more.
    path: Vec<TagDigest>,
    children: Vec<Child>,
    bare: Option<EntryId>,
    members: Vec<Member>,
    tags: Vec<TagDigest>,
    below_max: usize,
}

impl Node {
    /// A node of nothing yet.
    pub(super) fn new(path: &[TagDigest]) -> Self {
        Node { path: path.to_vec(), ..Node::default() }
    }

    /// Begins anew.
    pub(super) fn reset(&mut self, path: &[TagDigest]) {
        self.path.clear();
        self.path.extend_from_slice(path);
        self.children.clear();
        self.bare = None;
        self.members.clear();
        self.tags.clear();
        self.below_max = 0;
    }

    /// Takes what is in a block.
    pub(super) fn read(&mut self, block: Block<'_>) {
        let view = View::of(block);
        self.reset(&[]);
        self.path.extend((0..view.path).map(|i| TagDigest(block.half(view.path_at() + i))));
        self.children.extend((0..view.children).map(|i| Child { tag: view.tag(i), block: view.child(i) }));
        for member in 0..view.members {
            let row = view.row(member);
            let from = self.tags.len() as u32;
            self.tags.push(view.tag(view.children + member));
            self.tags.extend(row.rest());
            self.members.push(Member { entry: row.entry(), from, further: row.place.further });
        }
        self.bare = view.is_bare.then(|| view.bare().entry());
        self.below_max = view.below_max;
    }

    /// Adds a descriptor by its tags beyond the path's, rarest first.
    pub(super) fn add(&mut self, further: impl IntoIterator<Item = TagDigest>, entry: EntryId) {
        let from = self.tags.len();
        self.tags.extend(further);
        let further = self.tags.len() - from;
        if further == 0 {
            self.bare = Some(entry);
            return;
        }
        self.members.push(Member { entry, from: from as u32, further: further as u8 });
        self.below_max = self.below_max.max(further);
    }

    /// Adds what is below a tag, where a descriptor has at most so many tags beyond the path's.
    pub(super) fn add_child(&mut self, tag: TagDigest, block: BlockId, below_max: usize) {
        self.children.push(Child { tag, block });
        self.below_max = self.below_max.max(below_max);
    }

    pub(super) fn remove_bare(&mut self) {
        self.bare = None;
    }

    /// Removes a member, by its number in the block that was read.
    pub(super) fn remove(&mut self, member: usize) {
        self.members.remove(member);
    }

    pub(super) fn remove_child(&mut self, child: usize) {
        self.children.remove(child);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty() && self.members.is_empty() && self.bare.is_none()
    }

    pub(super) fn members(&self) -> usize {
        self.members.len()
    }

    /// Makes children of members that share their first further tag, where these are so many.
    pub(super) fn split(&mut self, arena: &mut Arena, limits: Limits) {
        if self.members.len() <= limits.members {
            return;
        }
        let together = if self.members.len() > MEMBERS_MAX / 2 { 1 } else { limits.together };
        let tags = std::mem::take(&mut self.tags);
        let first = |member: &Member| tags[member.from as usize];
        let mut members = std::mem::take(&mut self.members);
        members.sort_by_key(first);
        for group in members.chunk_by(|a, b| first(a) == first(b)) {
            if group.len() < together {
                self.members.extend_from_slice(group);
                continue;
            }
            let tag = first(&group[0]);
            let mut child = Node::new(&self.path);
            child.path.push(tag);
            for member in group {
                child.add(member.tags(&tags)[1..].iter().copied(), member.entry);
            }
            child.split(arena, limits);
            let block = child.write(arena);
            self.add_child(tag, block, child.below_max + 1);
        }
        self.tags = tags;
    }

    /// Writes it to a block of its own.
    pub(super) fn write(&mut self, arena: &mut Arena) -> BlockId {
        self.members.sort_by_key(|member| std::cmp::Reverse(member.further));
        let further_max = self.members.first().map_or(0, |member| usize::from(member.further));
        let mut at_least = [0u16; TAGS_MAX + 1];
        for member in &self.members {
            at_least[..=usize::from(member.further)].iter_mut().for_each(|count| *count += 1);
        }
        let rows: usize = self.members.iter().map(|member| usize::from(member.further)).sum();
        let column = HEAD_HALVES + further_max / 2 + self.path.len();
        let bare = usize::from(self.bare.is_some());
        let halves = column + 2 * self.children.len() + self.members.len() + bare + rows;
        let id = arena.take(halves);
        let chunks = arena.chunks().clone();
        let mut writer = Writer { block: chunks.block(id), at: 0 };
        writer.put(self.children.len() as u32);
        writer.put(
            self.members.len() as u32
                | if self.bare.is_some() { BARE } else { 0 }
                | (self.path.len() as u32 - 1) << PATH_SHIFT
                | (further_max as u32) << FURTHER_SHIFT
                | (self.below_max as u32) << BELOW_SHIFT,
        );
        for pair in at_least[..=further_max].get(2..).unwrap_or(&[]).chunks(2) {
            writer.put(pair.iter().rev().fold(0, |half, count| half << 16 | u32::from(*count)));
        }
        self.path.iter().for_each(|tag| writer.put(tag.0));
        self.children.iter().for_each(|child| writer.put(child.tag.0));
        self.members.iter().for_each(|member| writer.put(member.tags(&self.tags)[0].0));
        self.children.iter().for_each(|child| writer.put(child.block.0));
        self.bare.iter().for_each(|entry| writer.put(entry.0));
        for member in &self.members {
            writer.put(member.entry.0);
            member.tags(&self.tags)[1..].iter().for_each(|tag| writer.put(tag.0));
        }
        debug_assert_eq!(writer.at, halves);
        id
    }
}

/// How nodes are split.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Members that need no children.
    pub(super) members: usize,
    /// Members with the same first further tag that become a child.
    pub(super) together: usize,
}

/// Writes a block from its beginning.
struct Writer<'a> {
    block: Block<'a>,
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, half: u32) {
        self.block.store(self.at, half);
        self.at += 1;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::Pages;

    fn descriptors(block: Block<'_>) -> Vec<(Vec<u32>, u32)> {
        let view = View::of(block);
        let bare = view.is_bare.then(|| view.bare());
        let rows = bare.into_iter().chain((0..view.members).map(|member| view.row(member)));
        let mut all: Vec<_> =
            rows.map(|row| (row.tags().map(|tag| tag.0).collect::<Vec<_>>(), row.entry().0)).collect();
        all.sort();
        all
    }

    #[test]
    fn what_is_written_is_read() {
        let mut arena = Arena::new(Pages::Small).expect("little memory");
        let mut node = Node::new(&[TagDigest(1), TagDigest(2)]);
        let mut expected = Vec::new();
        for i in 0..300u32 {
            let further: Vec<_> = (0..i * 7 % 31).map(|tag| TagDigest(1000 * i + tag)).collect();
            if !further.is_empty() {
                node.add(further.iter().copied(), EntryId(i));
                expected.push(([1, 2].into_iter().chain(further.iter().map(|tag| tag.0)).collect::<Vec<_>>(), i));
            }
        }
        node.add([], EntryId(5));
        expected.push((vec![1, 2], 5));
        expected.sort();
        node.add_child(TagDigest(9), BlockId(17), 3);
        let chunks = arena.chunks().clone();
        let block = chunks.block(node.write(&mut arena));
        assert_eq!(descriptors(block), expected);
        let view = View::of(block);
        assert_eq!((view.children, view.tag(0), view.child(0)), (1, TagDigest(9), BlockId(17)));
        for further in 1..=31 {
            let with = (0..view.members).filter(|&member| usize::from(view.row(member).place.further) >= further);
            assert!(with.eq(0..view.members_with(further)), "{further}");
        }
        let mut again = Node::default();
        again.read(block);
        let copy = again.write(&mut arena);
        let halves = view.halves();
        assert!((0..halves).all(|at| chunks.block(copy).half(at) == block.half(at)));
    }
}

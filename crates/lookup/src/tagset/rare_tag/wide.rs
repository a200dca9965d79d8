//! The writer's side of wide nodes.

use byname_wire::tagset::TagDigest;

use super::arena::{Arena, BlockId, LINE_HALVES};
use super::node::{BARE, BARE_AT, CHILDREN_AT, FURTHER_SHIFT, LINES_AT, PATH_SHIFT, USED_AT, View, WIDE, WIDE_PATH_AT};
use super::packet::bit_of;
use super::table::{Mixer, lines_for, words_used_max};
use crate::entry::EntryId;

/// The contents of a wide node besides its children.
pub(super) struct Head<P> {
    pub(super) path: P,
    pub(super) bare: Option<EntryId>,
    /// Maximum number of further tags of any descriptor below.
    pub(super) further_max: usize,
}

impl<P: ExactSizeIterator<Item = TagDigest>> Head<P> {
    /// Writes a node with these children, and room for `room` children, to a block of its own.
    pub(super) fn write(
        self,
        children: &[(TagDigest, BlockId)],
        room: usize,
        mixer: Mixer,
        arena: &mut Arena,
    ) -> BlockId {
        let (path, lines) = (self.path.len(), lines_for(room));
        let head_lines = (WIDE_PATH_AT + path).div_ceil(LINE_HALVES) + 1;
        let id = arena.take_lines(head_lines + lines);
        let chunks = arena.chunks().clone();
        let block = chunks.block(id);
        block.table(0, head_lines + lines).clear();
        let bare = if self.bare.is_some() { BARE } else { 0 };
        block.store(0, WIDE | bare | (path as u32 - 1) << PATH_SHIFT | (self.further_max as u32) << FURTHER_SHIFT);
        block.store(LINES_AT, lines as u32);
        self.bare.iter().for_each(|entry| block.store(BARE_AT, entry.0));
        self.path.enumerate().for_each(|(i, tag)| block.store(WIDE_PATH_AT + i, tag.0));
        let view = View::of(block);
        children.iter().for_each(|(tag, child)| view.set_child(*tag, *child, mixer));
        id
    }
}

/// For the writer.
impl View<'_> {
    /// Whether there is no room for another child.
    pub(super) fn is_full(&self) -> bool {
        self.block.half(USED_AT) as usize >= words_used_max(self.table().0.len())
    }

    /// Writes the same node, with room for more children, to a block of its own.
    pub(super) fn write_larger(&self, mixer: Mixer, arena: &mut Arena) -> BlockId {
        let children: Vec<_> = self.table().iter().collect();
        let path: Vec<_> = self.path_tags().collect();
        let bare = self.is_bare.then(|| self.bare().entry());
        let head = Head { path: path.into_iter(), bare, further_max: self.further_max };
        head.write(&children, children.len() * 3 / 2, mixer, arena)
    }

    /// Sets a tag's child, which may be its first. There is room.
    pub(super) fn set_child(&self, tag: TagDigest, child: BlockId, mixer: Mixer) {
        let (word, bit) = bit_of(tag);
        let bitmap = self.bitmap_line() * LINE_HALVES + word;
        // Before the child is added, because readers might skip it otherwise.
        self.block.store(bitmap, self.block.half(bitmap) | bit);
        let is_new = self.child(tag, mixer).is_none();
        let is_used = self.table().set(tag, mixer.mix(tag), child);
        self.count(USED_AT, i32::from(is_used));
        self.count(CHILDREN_AT, i32::from(is_new));
    }

    /// Removes a tag's child.
    pub(super) fn remove_child(&self, tag: TagDigest, mixer: Mixer) {
        self.table().remove(tag, mixer.mix(tag));
        self.count(CHILDREN_AT, -1);
    }

    /// Sets or removes the entry of the descriptor with only the path's tags.
    pub(super) fn set_bare(&self, bare: Option<EntryId>) {
        // Before readers learn that there is one.
        bare.iter().for_each(|entry| self.block.store(BARE_AT, entry.0));
        let head = self.block.half(0) & !BARE;
        self.block.store(0, head | if bare.is_some() { BARE } else { 0 });
    }

    /// Notes that a descriptor below has `further` further tags.
    pub(super) fn raise_further_max(&self, further: usize) {
        if further > self.further_max {
            let head = self.block.half(0) & !(31 << FURTHER_SHIFT);
            self.block.store(0, head | (further as u32) << FURTHER_SHIFT);
        }
    }

    /// Whether a wide node is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.block.half(CHILDREN_AT) == 0 && self.block.half(0) & BARE == 0
    }

    fn count(&self, at: usize, more: i32) {
        self.block.store(at, self.block.half(at).wrapping_add_signed(more));
    }
}

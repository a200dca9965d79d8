//! How the writer builds nodes.

use byname_wire::tagset::{TAGS_MAX, TagDigest};

use super::arena::{Arena, BlockId};
use super::node::{BARE, FURTHER_SHIFT, MEMBERS_MAX, PATH_SHIFT, View, counts_halves};
use super::table::Mixer;
use super::wide;
use crate::entry::EntryId;

/// Limits on nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// Maximum number of members of a narrow node.
    members_max: usize,
    pub(super) mixer: Mixer,
}

impl Plan {
    pub(super) fn new(members_max: usize, mixer: Mixer) -> Self {
        Plan { members_max: members_max.min(MEMBERS_MAX), mixer }
    }
}

/// A descriptor without the path's tags. Its other tags are in [`Draft::tags`], rarest first.
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

/// A node that is not in a block yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    /// One or more tags.
    path: Vec<TagDigest>,
    bare: Option<EntryId>,
    members: Vec<Member>,
    tags: Vec<TagDigest>,
}

impl Draft {
    /// Starts again with an empty node.
    pub(super) fn reset(&mut self, path: impl IntoIterator<Item = TagDigest>) {
        self.path.clear();
        self.path.extend(path);
        self.bare = None;
        self.members.clear();
        self.tags.clear();
    }

    /// Takes the contents of a narrow node.
    pub(super) fn read(&mut self, view: View<'_>) {
        self.reset(view.path_tags());
        for member in 0..view.members {
            let row = view.row(member);
            let from = self.tags.len() as u32;
            self.tags.push(view.tag(member));
            self.tags.extend(row.rest());
            self.members.push(Member { entry: row.entry(), from, further: row.place.further });
        }
        self.bare = view.is_bare.then(|| view.bare().entry());
    }

    /// Adds a descriptor by its tags that are not on the path, rarest first.
    pub(super) fn add(&mut self, further: impl IntoIterator<Item = TagDigest>, entry: EntryId) {
        let from = self.tags.len();
        self.tags.extend(further);
        let further = self.tags.len() - from;
        match further {
            0 => self.bare = Some(entry),
            _ => self.members.push(Member { entry, from: from as u32, further: further as u8 }),
        }
    }

    pub(super) fn remove_bare(&mut self) {
        self.bare = None;
    }

    /// Removes a member by its number in the block that was read.
    pub(super) fn remove(&mut self, member: usize) {
        self.members.remove(member);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.bare.is_none()
    }

    /// Writes the node and all nodes below it to blocks of their own.
    pub(super) fn write(&mut self, plan: Plan, arena: &mut Arena) -> BlockId {
        match self.members.len() <= plan.members_max {
            true => self.write_narrow(arena),
            false => self.write_wide(plan, arena),
        }
    }

    fn write_wide(&mut self, plan: Plan, arena: &mut Arena) -> BlockId {
        let Draft { path, bare, members, tags } = self;
        let first = |member: &Member| tags[member.from as usize];
        members.sort_by_key(first);
        let mut child = Draft::default();
        let mut write_child = |group: &[Member]| {
            let tag = first(&group[0]);
            child.reset(path.iter().copied().chain([tag]));
            for member in group {
                child.add(member.tags(tags)[1..].iter().copied(), member.entry);
            }
            (tag, child.write(plan, arena))
        };
        let children: Vec<_> = members.chunk_by(|a, b| first(a) == first(b)).map(&mut write_child).collect();
        let further_max = members.iter().map(|member| usize::from(member.further)).max().unwrap_or(0);
        let head = wide::Head { path: path.iter().copied(), bare: *bare, further_max };
        head.write(&children, children.len(), plan.mixer, arena)
    }

    fn write_narrow(&mut self, arena: &mut Arena) -> BlockId {
        self.members.sort_by_key(|member| std::cmp::Reverse(member.further));
        let further_max = self.members.first().map_or(0, |member| usize::from(member.further));
        let mut at_least = [0u8; TAGS_MAX + 1];
        for member in &self.members {
            at_least[..=usize::from(member.further)].iter_mut().for_each(|count| *count += 1);
        }
        let rows: usize = self.members.iter().map(|member| usize::from(member.further)).sum();
        let bare = usize::from(self.bare.is_some());
        let halves = 1 + counts_halves(further_max) + self.path.len() + self.members.len() + bare + rows;
        let id = arena.take(halves);
        let chunks = arena.chunks().clone();
        let block = chunks.block(id);
        let mut at = 0;
        let mut put = |half: u32| {
            block.store(at, half);
            at += 1;
        };
        put(self.members.len() as u32
            | if self.bare.is_some() { BARE } else { 0 }
            | (self.path.len() as u32 - 1) << PATH_SHIFT
            | (further_max as u32) << FURTHER_SHIFT);
        for four in at_least[..=further_max].get(2..).unwrap_or(&[]).chunks(4) {
            put(four.iter().rev().fold(0, |half, count| half << 8 | u32::from(*count)));
        }
        self.path.iter().for_each(|tag| put(tag.0));
        self.members.iter().for_each(|member| put(member.tags(&self.tags)[0].0));
        self.bare.iter().for_each(|entry| put(entry.0));
        for member in &self.members {
            put(member.entry.0);
            member.tags(&self.tags)[1..].iter().for_each(|tag| put(tag.0));
        }
        debug_assert_eq!(at, halves);
        id
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::arena::Chunks;
    use super::*;
    use crate::memory::Pages;

    fn descriptors(chunks: &Chunks, node: BlockId) -> Vec<(Vec<u32>, u32)> {
        let view = View::of(chunks.block(node));
        let bare = view.is_bare.then(|| view.bare());
        let members = if view.is_wide { 0 } else { view.members };
        let rows = bare.into_iter().chain((0..members).map(|member| view.row(member)));
        let mut all: Vec<_> =
            rows.map(|row| (row.tags().map(|tag| tag.0).collect::<Vec<_>>(), row.entry().0)).collect();
        if view.is_wide {
            all.extend(view.table().iter().flat_map(|(_, child)| descriptors(chunks, child)));
        }
        all.sort();
        all
    }

    /// Distinct members with 2 to 30 further tags, and the descriptor without further tags.
    fn draft(members: u32) -> (Draft, Vec<(Vec<u32>, u32)>) {
        let mut draft = Draft::default();
        draft.reset([TagDigest(1), TagDigest(2)]);
        draft.add([], EntryId(5));
        let mut expected = vec![(vec![1, 2], 5)];
        for i in 0..members {
            let further: Vec<_> = (0..2 + i * 7 % 29).map(|tag| 1000 * (i % 50 + 1) + tag * (1 + i)).collect();
            draft.add(further.iter().map(|tag| TagDigest(*tag)), EntryId(i));
            expected.push(([1, 2].into_iter().chain(further).collect(), i));
        }
        expected.sort();
        (draft, expected)
    }

    #[test]
    fn what_is_written_is_read() {
        let mut arena = Arena::new(Pages::Small).expect("little memory");
        let chunks = arena.chunks().clone();
        let (mut draft, expected) = draft(200);
        let plan = Plan::new(MEMBERS_MAX, Mixer::new(3));
        let node = draft.write(plan, &mut arena);
        assert!(descriptors(&chunks, node) == expected);
        let view = View::of(chunks.block(node));
        for further in 1..=31 {
            let with = (0..view.members).filter(|&member| usize::from(view.row(member).place.further) >= further);
            assert!(with.eq(0..view.members_with(further)), "{further}");
        }
        let mut again = Draft::default();
        again.read(view);
        let copy = again.write(plan, &mut arena);
        assert!((0..view.size()).all(|at| chunks.block(copy).half(at) == view.block.half(at)));
    }

    #[test]
    fn too_many_members_become_children() {
        let mut arena = Arena::new(Pages::Small).expect("little memory");
        let chunks = arena.chunks().clone();
        for members_max in [1, 3, 16] {
            let (mut draft, expected) = draft(300);
            let node = draft.write(Plan::new(members_max, Mixer::new(3)), &mut arena);
            assert!(descriptors(&chunks, node) == expected);
            let view = View::of(chunks.block(node));
            assert!(view.is_wide && view.table().iter().all(|(tag, _)| view.may_have_child(tag)));
            assert_eq!((view.table().iter().count(), view.further_max), (50, 30));
        }
    }
}

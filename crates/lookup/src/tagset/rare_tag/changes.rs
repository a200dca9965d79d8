//! Changes: finding a descriptor's place, adding it and removing it.
//!
//! Each change of a descriptor ends with one store that readers see: of the entry in its row, of a
//! wide node's head, or of the block of the one node that was rebuilt. A descriptor is on one path
//! at any time, so no reader meets it twice. The rarity of its tags when it was added decided the
//! path. A search by its tags finds the path again, as it does for a packet.

use byname_wire::tagset::{Descriptor, TagDigest};

use super::RareTag;
use super::arena::BlockId;
use super::node::View;
use super::packet::Packet;
use crate::entry::EntryId;
use crate::sync::Ordering;

/// The word that holds a node's block.
#[derive(Debug, Clone, Copy)]
enum Slot {
    /// The directory.
    Directory(TagDigest),
    /// A wide node's table.
    Table(BlockId, TagDigest),
}

/// A node, and the word that holds its block.
type Held = (Slot, BlockId);

/// A descriptor's place in its node.
#[derive(Debug, Clone, Copy)]
enum Place {
    Bare,
    Member(usize),
}

impl RareTag {
    /// The entry of exactly this descriptor.
    pub fn entry_of(&self, descriptor: &Descriptor) -> Option<EntryId> {
        let tags = descriptor.tags();
        if tags.is_empty() {
            return self.shared.empty();
        }
        let (trail, place) = self.locate(tags)?;
        let view = self.leaf(&trail);
        Some(match place {
            Place::Bare => view.bare().entry(),
            Place::Member(member) => view.row(member).entry(),
        })
    }

    pub(super) fn contains(&self, tags: &[TagDigest]) -> bool {
        match tags {
            [] => self.shared.empty().is_some(),
            _ => self.locate(tags).is_some(),
        }
    }

    /// Adds a descriptor, or replaces its entry.
    pub(super) fn set(&mut self, tags: &[TagDigest], entry: EntryId) {
        if tags.is_empty() {
            self.len += usize::from(self.shared.empty().is_none());
            self.shared.empty.store(u64::from(entry.0) << 1 | 1, Ordering::Release);
            return;
        }
        let Some((trail, place)) = self.locate(tags) else { return self.insert(tags, entry) };
        let view = self.leaf(&trail);
        let row = match place {
            Place::Bare => view.bare(),
            Place::Member(member) => view.row(member),
        };
        row.set_entry(entry);
    }

    /// Removes a descriptor, if it is there.
    pub(super) fn remove(&mut self, tags: &[TagDigest]) {
        if tags.is_empty() {
            self.len -= usize::from(self.shared.empty().is_some());
            self.shared.empty.store(0, Ordering::Release);
            return;
        }
        let Some((trail, place)) = self.locate(tags) else { return };
        let mut is_gone = self.remove_from(trail[trail.len() - 1], place);
        // Removes empty nodes, up to the first that is not empty.
        for &(slot, node) in trail.iter().rev() {
            if !is_gone {
                break;
            }
            is_gone = match slot {
                Slot::Directory(tag) => {
                    self.growth.remove(&self.shared.directory, tag, &self.shared.chunks);
                    false
                }
                Slot::Table(parent, tag) => {
                    let parent = View::of(self.shared.chunks.block(parent));
                    parent.remove_child(tag, self.plan.mixer);
                    parent.is_empty()
                }
            };
            self.retire(node);
        }
        self.len -= 1;
        for tag in tags {
            if self.counts.remove(*tag) {
                self.shared.known.remove(*tag, &mut self.arena);
            }
        }
    }

    /// Removes a descriptor from its node. Returns whether the node is empty and must be removed.
    fn remove_from(&mut self, (slot, old): Held, place: Place) -> bool {
        let chunks = self.shared.chunks.clone();
        let view = View::of(chunks.block(old));
        if view.is_wide {
            view.set_bare(None);
            return view.is_empty();
        }
        self.draft.read(view);
        match place {
            Place::Bare => self.draft.remove_bare(),
            Place::Member(member) => self.draft.remove(member),
        }
        if self.draft.is_empty() {
            return true;
        }
        let new = self.draft.write(self.plan, &mut self.arena);
        self.point(slot, new);
        self.retire(old);
        false
    }

    fn insert(&mut self, tags: &[TagDigest], entry: EntryId) {
        for tag in tags {
            if self.counts.add(*tag) {
                self.shared.known.add(*tag, &mut self.arena);
            }
        }
        self.len += 1;
        let mut path = tags.to_vec();
        self.counts.sort_rarest_first(&mut path);
        let chunks = self.shared.chunks.clone();
        let mut slot = Slot::Directory(path[0]);
        let mut found = self.shared.directory.find(path[0], &chunks);
        let mut depth = 1;
        while let Some(node) = found
            && View::of(chunks.block(node)).is_wide
        {
            let view = View::of(chunks.block(node));
            let Some(&tag) = path.get(depth) else { return view.set_bare(Some(entry)) };
            // Before the descriptor is added, because readers might skip it otherwise.
            view.raise_further_max(path.len() - depth);
            found = view.child(tag, self.plan.mixer);
            let parent = if found.is_none() { self.make_room((slot, node)) } else { node };
            slot = Slot::Table(parent, tag);
            depth += 1;
        }
        match found {
            Some(node) => self.draft.read(View::of(chunks.block(node))),
            None => self.draft.reset(path[..depth].iter().copied()),
        }
        self.draft.add(path[depth..].iter().copied(), entry);
        let new = self.draft.write(self.plan, &mut self.arena);
        self.point(slot, new);
        found.into_iter().for_each(|old| self.retire(old));
    }

    /// A wide node with room for another child: this one, or a larger one that replaces it.
    fn make_room(&mut self, (slot, node): Held) -> BlockId {
        let chunks = self.shared.chunks.clone();
        let view = View::of(chunks.block(node));
        if !view.is_full() {
            return node;
        }
        let larger = view.write_larger(self.plan.mixer, &mut self.arena);
        self.point(slot, larger);
        self.retire(node);
        larger
    }

    /// The nodes down to a descriptor's node, and its place there.
    fn locate(&self, tags: &[TagDigest]) -> Option<(Vec<Held>, Place)> {
        let packet = Packet::of(tags);
        tags.iter().find_map(|tag| {
            let node = self.shared.directory.find(*tag, &self.shared.chunks)?;
            let mut trail = vec![(Slot::Directory(*tag), node)];
            let place = self.locate_below(&packet, &mut trail)?;
            Some((trail, place))
        })
    }

    fn locate_below(&self, packet: &Packet<'_>, trail: &mut Vec<Held>) -> Option<Place> {
        let view = self.leaf(trail);
        let node = trail[trail.len() - 1].1;
        // The packet has the tags of the path.
        let further = packet.tags.len() - view.path;
        if further == 0 {
            return view.is_bare.then_some(Place::Bare);
        }
        if further > view.further_max {
            return None;
        }
        if view.is_wide {
            for &tag in packet.tags.iter().filter(|tag| view.may_have_child(**tag)) {
                let Some(child) = view.child(tag, self.plan.mixer) else { continue };
                trail.push((Slot::Table(node, tag), child));
                if let Some(place) = self.locate_below(packet, trail) {
                    return Some(place);
                }
                trail.pop();
            }
            return None;
        }
        let is_it =
            |&member: &usize| packet.has(view.tag(member)) && view.row(member).rest().all(|tag| packet.has(tag));
        (view.members_with(further + 1)..view.members_with(further)).find(is_it).map(Place::Member)
    }

    /// The last node of a trail.
    fn leaf(&self, trail: &[Held]) -> View<'_> {
        View::of(self.shared.chunks.block(trail[trail.len() - 1].1))
    }

    /// Makes readers find a block where they found another one, or none.
    fn point(&mut self, slot: Slot, node: BlockId) {
        match slot {
            Slot::Directory(tag) => self.growth.set(&self.shared.directory, tag, node, &mut self.arena),
            Slot::Table(parent, tag) => {
                View::of(self.shared.chunks.block(parent)).set_child(tag, node, self.plan.mixer);
            }
        }
    }

    fn retire(&mut self, node: BlockId) {
        let view = View::of(self.shared.chunks.block(node));
        let (size, is_wide) = (view.size(), view.is_wide);
        match is_wide {
            true => self.arena.retire_lines(node, size),
            false => self.arena.retire(node, size),
        }
    }
}

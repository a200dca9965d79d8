//! Changes: where a descriptor is, and how it comes and goes.
//!
//! Each change of a descriptor ends with one store that readers see: of the entry in its row, or of the
//! block of the one node that was made anew. A descriptor is under one path at any time, so that no
//! reader meets it twice. Which path, was decided by the rarity of its tags when it came; it is found
//! again by its tags, as a packet finds it.

use byname_wire::tagset::TagDigest;

use super::RareTag;
use super::arena::BlockId;
use super::directory::Mixed;
use super::node::{MEMBERS_MAX, View};
use super::packet::Packet;
use crate::entry::EntryId;
use crate::sync::Ordering;

/// What holds the block of a node.
#[derive(Debug, Clone, Copy)]
enum Slot {
    /// The directory's word for a tag.
    Tag(Mixed),
    /// A child of another node, by its place in the column.
    Child(BlockId, usize),
}

/// A node, and what holds its block.
type Held = (Slot, BlockId);

/// Where a descriptor is in its node.
#[derive(Debug, Clone, Copy)]
enum Place {
    Bare,
    Member(usize),
}

impl RareTag {
    pub(super) fn contains(&self, tags: &[TagDigest]) -> bool {
        match tags {
            [] => self.shared.empty().is_some(),
            _ => self.locate(tags).is_some(),
        }
    }

    /// Adds a descriptor, or replaces its entry; whether readers need another query half.
    pub(super) fn set(&mut self, tags: &[TagDigest], entry: EntryId) -> bool {
        if tags.is_empty() {
            self.len += usize::from(self.shared.empty().is_none());
            self.shared.empty.store(u64::from(entry.0) << 1 | 1, Ordering::Release);
            return false;
        }
        let Some((trail, place)) = self.locate(tags) else { return self.insert(tags, entry) };
        let view = self.leaf(&trail);
        let row = match place {
            Place::Bare => view.bare(),
            Place::Member(member) => view.row(member),
        };
        row.set_entry(entry);
        false
    }

    /// Removes a descriptor, if it is there.
    pub(super) fn remove(&mut self, tags: &[TagDigest]) {
        if tags.is_empty() {
            self.len -= usize::from(self.shared.empty().is_some());
            self.shared.empty.store(0, Ordering::Release);
            return;
        }
        let Some((trail, place)) = self.locate(tags) else { return };
        let mut node = std::mem::take(&mut self.scratch);
        node.read(self.leaf(&trail).block);
        match place {
            Place::Bare => node.remove_bare(),
            Place::Member(member) => node.remove(member),
        }
        // Nodes that have nothing left go, up to the first that has.
        for &(slot, old) in trail.iter().rev() {
            let is_gone = node.is_empty();
            match slot {
                _ if !is_gone => {
                    let new = node.write(&mut self.arena);
                    self.point(slot, new);
                }
                Slot::Tag(tag) => self.directory.remove(tag),
                Slot::Child(parent, child) => {
                    node.read(self.shared.chunks.block(parent));
                    node.remove_child(child);
                }
            }
            self.retire(old);
            if !is_gone {
                break;
            }
        }
        self.scratch = node;
        self.len -= 1;
        for tag in tags {
            if self.counts.remove(*tag) {
                self.shared.known.remove(*tag, &mut self.arena);
            }
        }
    }

    fn insert(&mut self, tags: &[TagDigest], entry: EntryId) -> bool {
        for tag in tags {
            if self.counts.add(*tag) {
                self.shared.known.add(*tag, &mut self.arena);
            }
        }
        self.len += 1;
        let mut further = tags.to_vec();
        self.counts.sort_rarest_first(&mut further);
        let tag = further.remove(0);
        let mixed = self.shared.mixer.mix(tag);
        let mut node = std::mem::take(&mut self.scratch);
        let found =
            self.directory.directory().find(mixed).map(|root| self.descend((Slot::Tag(mixed), root), &mut further));
        match found {
            Some((_, leaf)) => node.read(self.shared.chunks.block(leaf)),
            None => node.reset(&[tag]),
        }
        node.add(further, entry);
        // Not each time: what could not be split may have grown by one that changes nothing.
        if node.members().is_multiple_of(self.limits.members / 2 + 1) || node.members() > MEMBERS_MAX / 2 {
            node.split(&mut self.arena, self.limits);
        }
        let new = node.write(&mut self.arena);
        self.scratch = node;
        let (slot, old) = found.unzip();
        let replaced = old.is_none() && self.directory.make_room(mixed);
        self.point(slot.unwrap_or(Slot::Tag(mixed)), new);
        if let Some(old) = old {
            self.retire(old);
        }
        replaced
    }

    /// The node, at or below this one, to which a descriptor is to be added that has these tags beyond
    /// its path's; leaves those that it has beyond the path of that node.
    fn descend(&self, mut held: Held, further: &mut Vec<TagDigest>) -> Held {
        loop {
            let view = View::of(self.shared.chunks.block(held.1));
            let rank = |child: &usize| further.iter().position(|tag| *tag == view.tag(*child));
            let Some((rank, child)) = (0..view.children).filter_map(|child| Some((rank(&child)?, child))).min() else {
                return held;
            };
            // Before the descriptor comes, or readers might pass it by.
            view.raise_below_max(further.len());
            further.remove(rank);
            held = (Slot::Child(held.1, child), view.child(child));
        }
    }

    /// The nodes down to a descriptor's, and its place there.
    fn locate(&self, tags: &[TagDigest]) -> Option<(Vec<Held>, Place)> {
        let packet = Packet::of(tags);
        tags.iter().find_map(|tag| {
            let mixed = self.shared.mixer.mix(*tag);
            let mut trail = vec![(Slot::Tag(mixed), self.directory.directory().find(mixed)?)];
            let place = self.locate_below(&packet, &mut trail)?;
            Some((trail, place))
        })
    }

    fn locate_below(&self, packet: &Packet<'_>, trail: &mut Vec<Held>) -> Option<Place> {
        let view = self.leaf(trail);
        let node = trail[trail.len() - 1].1;
        // The path's tags are the packet's.
        let further = packet.tags.len() - view.path;
        if further == 0 {
            return view.is_bare.then_some(Place::Bare);
        }
        for child in (0..view.children).filter(|&child| packet.has(view.tag(child))) {
            trail.push((Slot::Child(node, child), view.child(child)));
            if let Some(place) = self.locate_below(packet, trail) {
                return Some(place);
            }
            trail.pop();
        }
        let is_it = |&member: &usize| {
            packet.has(view.tag(view.children + member)) && view.row(member).rest().all(|tag| packet.has(tag))
        };
        (view.members_with(further + 1)..view.members_with(further)).find(is_it).map(Place::Member)
    }

    /// The last node of a trail.
    fn leaf(&self, trail: &[Held]) -> View<'_> {
        View::of(self.shared.chunks.block(trail[trail.len() - 1].1))
    }

    /// Has readers find a block where they found another.
    fn point(&mut self, slot: Slot, block: BlockId) {
        match slot {
            Slot::Tag(tag) => self.directory.set(tag, block),
            Slot::Child(parent, child) => {
                let view = View::of(self.shared.chunks.block(parent));
                view.block.store(view.child_at(child), block.0);
            }
        }
    }

    fn retire(&mut self, node: BlockId) {
        let halves = View::of(self.shared.chunks.block(node)).halves();
        self.arena.retire(node, halves);
    }
}

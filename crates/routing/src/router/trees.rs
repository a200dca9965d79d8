//! Trees: which links they may use, what neighbours say of them, and this router's places.

use std::collections::BTreeMap;

use byname_wire::interest::Interest;
use byname_wire::{FaceId, Name};

use crate::action::Action;
use crate::ids::RouterId;
use crate::link::Standing;
use crate::names;
use crate::neighbours::Neighbour;
use crate::note::Note;
use crate::trees::{Changes, Heard, Message, Place};

use super::checks::Check;
use super::{NEIGHBOURS, Router};

/// Lifetime of the Interests that carry messages about trees, which nobody answers.
const LIFETIME_MS: u64 = 250;

impl Router {
    /// This router's places on trees.
    pub fn places(&self) -> &[Place] {
        self.trees.places()
    }

    /// How often each tree has changed, in the order of [`Router::places`].
    pub fn tree_changes(&self) -> &[Changes] {
        self.trees.changes()
    }

    pub(super) fn on_trees(&mut self, interest: &Interest<'_>, face: FaceId) {
        if !self.trees.is_on() {
            return;
        }
        let Some(data) = self.inner_data(interest, face, NEIGHBOURS) else { return };
        let Some((router, message)) = names::sender_of_tree(data.name).zip(Message::decode(data.content).ok()) else {
            return self.malformed();
        };
        if !self.trees.has_link(router.as_ref(), face) {
            return;
        }
        if !self.trees.may_take(router.as_ref(), &message) {
            self.counters.replayed += 1;
            return;
        }
        self.check(Check::Trees { router, face, message }, &data, Some(face), NEIGHBOURS);
    }

    pub(super) fn on_trusted_trees(&mut self, router: &Name, face: FaceId, message: Message) {
        let now_ms = self.now_ms();
        // The link may have gone meanwhile.
        if !self.trees.has_link(router.as_ref(), face) {
            return;
        }
        match self.trees.receive(router.as_ref(), message, now_ms) {
            Heard::Taken => self.counters.trees_in += 1,
            Heard::Replayed => self.counters.replayed += 1,
        }
    }

    /// Sends what is due.
    pub(super) fn poll_trees(&mut self) {
        let now_ms = self.now_ms();
        for (face, message) in self.trees.poll(now_ms) {
            if let Some(data) = self.sign(self.names.own_tree_data(), message.encode()) {
                self.counters.trees_out += 1;
                self.send_to_neighbours(self.names.tree.clone(), &data, face, LIFETIME_MS);
            }
        }
    }

    /// Tells trees of links, and the forwarder of places.
    pub(super) fn update_trees(&mut self) {
        if !self.trees.is_on() {
            return;
        }
        // A place on another branch is worth more than a link that may be dead.
        let link = |neighbour: &Neighbour| {
            let used = neighbour.used_links().filter(|link| link.standing == Standing::Used);
            used.min_by_key(|link| link.face).map(|of| (of.face, of.cost))
        };
        let links = self.neighbours.iter().filter_map(|(id, neighbour)| Some((*id, link(neighbour)?)));
        let links: BTreeMap<RouterId, (FaceId, u64)> = links.collect();
        // Most events change no link. Trees know neighbours by digests of their names, which take long to compute.
        if links != self.tree_links {
            let named = |(id, link): (&RouterId, &(FaceId, u64))| (self.routers.name(*id).to_name(), *link);
            let named = links.iter().map(named).collect();
            let now_ms = self.now_ms();
            self.trees.set_links(&named, now_ms);
            self.tree_links = links;
        }
        let places = self.trees.take_places();
        self.actions.extend(places.into_iter().map(|place| Action::SetPlace(Box::new(place))));
        for (tree, change) in self.trees.take_news() {
            self.note(Note::Tree { tree, change });
        }
    }
}

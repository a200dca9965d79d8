//! Trees for tags and locators, which the routers make themselves [TagNet §2.2, §3.3].
//!
//! Neighbours tell each other of each tree who its root is, and the whole way there. A router takes the way to the root
//! with the lowest rank, and of these the one with the lowest cost. A way that leads through the router itself is none.
//! So every part of the network has one tree, with the router of the lowest rank as its root, and no loop outlasts the
//! messages about it. A child tells its parent how many routers are below it, and the parent gives it numbers for them
//! (`block`), which make the labels.
//!
//! # Labels that change
//! A router whose parent changes gets other numbers, and so do all below it. Other routers keep theirs. Both are valid
//! for [`Settings::grace_ms`]: the router goes on to forward by its earlier numbers ([`Place::tables`]), and its earlier
//! parent goes on to lead there while the link works. No number is given to anybody else meanwhile.
//!
//! Each root takes its numbers from a window of its own. It avoids those that it has seen in use, so that labels of the
//! parts of a divided network differ when the parts meet again, except with odds of one in a thousand.
//!
//! # Packets with tags
//! They do not follow the present ways, but *generations* of them (`generation`), whose edges stay as they are while the
//! ways change: the next generation is complete before packets begin on it.
//!
//! # Messages
//! A message has everything that a router tells one neighbour (`message`), as Data inside an Interest. It is repeated
//! until the neighbour tells that it has it. Each has its receiver, and the receiver's start as the sender heard it, so
//! that no recorded message counts. There are no messages without news: hellos and sync Interests tell whether a link
//! works.

mod block;
mod change;
mod generation;
pub mod message;
mod peer;
mod secret;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::BTreeMap;

use byname_wire::{FaceId, Label, Name, NameRef, TreeId};

pub use self::change::{Change, Changes};
pub use self::generation::GENERATIONS_MAX;
pub use self::message::{Message, RouterKey};
use self::peer::Peer;
pub use self::secret::Secret;
use self::tree::Tree;

/// Most trees.
pub const TREES_MAX: usize = 8;
/// Most routers on the way to a root, with both ends. A router that is farther away is on no tree of this root.
pub const HOPS_MAX: usize = 64;
/// Least time between two messages to a neighbour with different contents.
const PACE_MS: u64 = 20;
/// Pause before a message is repeated, at first and at most.
const RETRY_MS: u64 = 200;
const RETRY_MAX_MS: u64 = 5_000;
/// How long a router that has lost its parent waits for another root before it gives labels as the root itself.
const ROOT_HOLD_MS: u64 = 1_000;

/// Settings of the trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Number of trees, at most [`TREES_MAX`], the same on all routers. Their ids are 1 and up. None: no trees.
    pub count: usize,
    /// The router with the lowest number is the root of all trees. If several have it, each tree draws among them.
    pub priority: u64,
    /// How long labels are valid that have been replaced, in ms.
    pub grace_ms: u64,
    /// Most neighbours that are remembered.
    pub neighbours_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { count: 0, priority: 100, grace_ms: 30_000, neighbours_max: 256 }
    }
}

/// A router's place on a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The tree.
    pub tree: TreeId,
    /// Its root.
    pub root: Name,
    /// Cost of the way to the root.
    pub cost: u64,
    /// Number of routers in the part of the tree below this router, with it.
    pub nodes: u32,
    /// The label of this router. `None`: it has none yet, or labels would be too long.
    pub label: Option<Label>,
    /// The neighbours on the present ways, the parent first if there is one.
    pub neighbours: Vec<PlaceNeighbour>,
    /// The generations whose edges packets with tags follow, the latest first, at most [`GENERATIONS_MAX`].
    pub generations: Vec<PlaceGeneration>,
    /// How packets with labels are forwarded: the first table that claims the label's number decides.
    pub tables: Vec<PlaceTable>,
}

impl Place {
    /// Number of earlier labels of this router that are still valid.
    pub fn earlier_labels(&self) -> usize {
        let mut earlier: Vec<Label> =
            self.tables.iter().filter(|table| table.claim.is_some()).map(|of| of.label).collect();
        // Tables of earlier roots are there twice.
        earlier.sort_unstable_by_key(|label| label.node());
        earlier.dedup();
        earlier.len()
    }
}

/// A neighbour on a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceNeighbour {
    /// Its name.
    pub router: Name,
    /// The face to it.
    pub face: FaceId,
    /// Whether it is the parent.
    pub is_parent: bool,
    /// What both sign their messages about descriptors with. `None`: it has not been agreed on yet.
    pub secret: Option<Secret>,
}

/// Edges that packets with tags follow as long as they are on their way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceGeneration {
    /// The id that packets have on these edges.
    pub id: TreeId,
    /// Whether all neighbours have adopted it, and its edges have secrets.
    pub is_settled: bool,
    /// The neighbours at the other ends, the parent first if there is one.
    pub neighbours: Vec<PlaceNeighbour>,
}

/// One numbering of a router's part of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceTable {
    /// The first and last number that this table decides about. `None`: all.
    pub claim: Option<(u32, u32)>,
    /// The router's label in it.
    pub label: Label,
    /// Number of numbers after the router's own that lead down.
    pub descendants: u32,
    /// The first of these so many are those of light children.
    pub light_descendants: u32,
    /// The face to the parent.
    pub up: Option<FaceId>,
    /// The face to the heavy child.
    pub heavy: Option<FaceId>,
    /// Faces to light children, with their ports.
    pub light: Vec<(u32, FaceId)>,
}

/// What has become of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// It was new.
    Taken,
    /// It is for somebody else, of nobody, or was heard before.
    Replayed,
}

/// All trees of one router.
#[derive(Debug)]
pub struct Trees {
    settings: Settings,
    own: RouterKey,
    boot: u64,
    trees: Vec<Tree>,
    peers: BTreeMap<RouterKey, Peer>,
    /// Number of the last message.
    number: u64,
    places: Vec<Place>,
    /// Places that were taken.
    told: Vec<Place>,
    /// By the order of the trees.
    changes: Vec<Changes>,
    news: Vec<(TreeId, Change)>,
}

impl Trees {
    /// The trees of a router that has just started, in seconds since the Unix epoch.
    pub fn new(settings: Settings, router: &Name, boot: u64, now_ms: u64) -> Self {
        let count = settings.count.min(TREES_MAX) as u32;
        let mut trees = Trees {
            own: RouterKey::of(router.as_ref()),
            boot,
            trees: (1..=count).map(|id| Tree::new(TreeId(id), router, settings.priority, now_ms)).collect(),
            peers: BTreeMap::new(),
            number: 0,
            places: Vec::new(),
            told: Vec::new(),
            changes: vec![Changes::default(); count as usize],
            news: Vec::new(),
            settings,
        };
        trees.update(now_ms);
        trees
    }

    /// Whether there are trees at all.
    pub fn is_on(&self) -> bool {
        !self.trees.is_empty()
    }

    /// These links are used from now on, one to each neighbour: its face and cost.
    pub fn set_links(&mut self, links: &BTreeMap<Name, (FaceId, u64)>, now_ms: u64) {
        let gone = self.peers.values().filter(|peer| peer.link.is_some() && !links.contains_key(&peer.name));
        let gone: Vec<Name> = gone.map(|peer| peer.name.clone()).collect();
        gone.iter().for_each(|router| self.set_link(router.as_ref(), None, now_ms));
        links.iter().for_each(|(router, link)| self.set_link(router.as_ref(), Some(*link), now_ms));
    }

    /// The best link to a neighbour is used from now on, or `None` is.
    pub fn set_link(&mut self, router: NameRef<'_>, link: Option<(FaceId, u64)>, now_ms: u64) {
        if !self.is_on() {
            return;
        }
        let key = RouterKey::of(router);
        if !self.peers.contains_key(&key) {
            if link.is_none() || !self.make_room() {
                return;
            }
            self.peers.insert(key, Peer::new(router.to_name(), now_ms));
        }
        // Of two neighbours, the one with the lower key begins to agree on a secret.
        let begins_exchange = self.own < key;
        let peer = self.peers.get_mut(&key).expect("inserted above");
        if peer.set_link(link, begins_exchange, now_ms) {
            self.update(now_ms);
        }
    }

    /// Another rank among the routers that may be a root; see [`Settings::priority`].
    pub fn set_priority(&mut self, priority: u64, now_ms: u64) {
        if self.settings.priority != priority {
            self.settings.priority = priority;
            self.trees.iter_mut().for_each(|tree| tree.set_priority(priority));
            self.update(now_ms);
        }
    }

    /// Whether there is a used link to this neighbour, over this face.
    pub fn has_link(&self, router: NameRef<'_>, face: FaceId) -> bool {
        self.peers.get(&RouterKey::of(router)).is_some_and(|peer| peer.link.is_some_and(|(of, _)| of == face))
    }

    /// Whether a message may be new, so that its signature is worth a look.
    pub fn may_take(&self, router: NameRef<'_>, message: &Message) -> bool {
        let peer = self.peers.get(&RouterKey::of(router));
        message.receiver == self.own && peer.is_some_and(|peer| peer.link.is_some() && peer.is_new(message))
    }

    /// Takes a neighbour's message, whose signature is right.
    pub fn receive(&mut self, router: NameRef<'_>, message: Message, now_ms: u64) -> Heard {
        if !self.may_take(router, &message) {
            return Heard::Replayed;
        }
        let (key, boot) = (RouterKey::of(router), self.boot);
        let own = (self.own, key);
        let Some(peer) = self.peers.get_mut(&key) else { return Heard::Replayed };
        if peer.receive(message, own, boot, now_ms) {
            self.update(now_ms);
        }
        Heard::Taken
    }

    /// Lets time pass. Returns the messages to send now, each with the face.
    pub fn poll(&mut self, now_ms: u64) -> Vec<(FaceId, Message)> {
        if self.trees.iter().filter_map(Tree::due_ms).any(|due| due <= now_ms) {
            self.update(now_ms);
        }
        let mut messages = Vec::new();
        for (key, peer) in &mut self.peers {
            if let Some((face, message)) = peer.poll(*key, self.boot, self.number + 1, now_ms) {
                self.number += 1;
                messages.push((face, message));
            }
        }
        messages
    }

    /// When [`Trees::poll`] has something to do.
    pub fn due_ms(&self) -> Option<u64> {
        let trees = self.trees.iter().filter_map(Tree::due_ms);
        trees.chain(self.peers.values().filter_map(Peer::due_ms)).min()
    }

    /// The places that have changed since the last call.
    pub fn take_places(&mut self) -> Vec<Place> {
        if self.told == self.places {
            return Vec::new();
        }
        let news: Vec<Place> = self.places.iter().filter(|place| !self.told.contains(place)).cloned().collect();
        // Places are in the order of the trees.
        for (number, place) in self.places.iter().enumerate() {
            let changes = self.changes[number].compare(self.told.get(number), place);
            self.news.extend(changes.into_iter().map(|change| (place.tree, change)));
        }
        self.told.clone_from(&self.places);
        news
    }

    /// What [`Trees::take_places`] has found to be different, since the last call.
    pub fn take_news(&mut self) -> Vec<(TreeId, Change)> {
        std::mem::take(&mut self.news)
    }

    /// How often each tree has changed, in the order of [`Trees::places`].
    pub fn changes(&self) -> &[Changes] {
        &self.changes
    }

    /// The places on all trees.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Forgets a neighbour without a link, if there are too many. Returns whether there is room for one more.
    fn make_room(&mut self) -> bool {
        if self.peers.len() < self.settings.neighbours_max {
            return true;
        }
        let idle = self.peers.iter().find(|(_, peer)| peer.link.is_none()).map(|(key, _)| *key);
        idle.is_some_and(|key| self.peers.remove(&key).is_some())
    }

    /// Finds out what follows from what is known now.
    fn update(&mut self, now_ms: u64) {
        for tree in &mut self.trees {
            tree.update(self.own, &self.peers, self.boot, &self.settings, now_ms);
        }
        for (key, peer) in &mut self.peers {
            if peer.link.is_some() {
                let entries = self.trees.iter().map(|tree| tree.entry(*key)).collect();
                peer.tell(entries, now_ms);
            }
        }
        self.places = self.trees.iter().map(|tree| tree.place(&self.peers)).collect();
    }
}

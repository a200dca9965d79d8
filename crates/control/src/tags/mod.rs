//! Routing by tags: who advertised which descriptor, and what neighbours on trees are told of it
//! [TagNet §2.1].
//!
//! Trees are static: each router is told its neighbours on each tree. An advertisement floods along
//! the tree: a router that hears of a descriptor from a face installs (tree, face) for it, and tells
//! the tree's other neighbours, each of whom is told of a descriptor as long as it is advertised by
//! any face but his own. So to say the same again changes nothing, and of a withdrawal nobody hears
//! who has the descriptor from elsewhere. `link` mends what is lost between two routers;
//! applications are answered, and what they advertised goes with their face.
//!
//! Bounded: descriptors in all, and for each application. Neighbours are limited by all that there
//! may be, since they speak for everybody beyond them.

mod link;
pub mod message;
pub mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use byname_forward::FaceId;
use byname_forward::face_table::FaceMap;
use byname_forward::tables::TreeFace;
use byname_lookup::EntryId;
use byname_wire::tagnet::{Address, Endpoint};
use byname_wire::{Descriptor, Label, Locator, Name, TreeId};
use thiserror::Error;

use self::link::{Answer, Heard, Link};
use self::message::Update;
use crate::fib_writer::{FibWriter, TagSets};

/// How much there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagLimits {
    /// Most descriptors in all.
    pub descriptors_max: usize,
    /// Most descriptors of one application.
    pub descriptors_per_face_max: usize,
}

impl Default for TagLimits {
    fn default() -> Self {
        crate::config::Config::default().tag_limits()
    }
}

/// Why a descriptor is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TagRoutingError {
    /// Too many in all.
    #[error("this router knows {descriptors} descriptors, as many as it may; see descriptors_max under [tags]")]
    Full {
        /// How many.
        descriptors: usize,
    },
    /// Too many of one application.
    #[error("this application has advertised {descriptors} descriptors, as many as it may; see [tags]")]
    FaceFull {
        /// How many.
        descriptors: usize,
    },
    /// The configuration's trees are not joined yet.
    #[error("this router is on no tree yet")]
    NoTree,
    /// An update from somebody who is no neighbour on its tree.
    #[error("this face leads to no neighbour on tree {}", tree.0)]
    NoNeighbor {
        /// The tree.
        tree: TreeId,
    },
}

/// A tree that this router is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnTree {
    /// Its id.
    pub id: TreeId,
    /// The router's label there.
    pub label: Label,
    /// Faces of its neighbours there.
    pub neighbors: Vec<FaceId>,
}

/// Who advertised a descriptor.
#[derive(Default)]
struct Rule {
    /// In order, each once.
    nexthops: Vec<TreeFace>,
    group: Option<EntryId>,
}

/// All that is known of descriptors.
pub struct TagRouting {
    fib: FibWriter<TagSets>,
    limits: TagLimits,
    trees: Vec<OwnTree>,
    rules: HashMap<Arc<Descriptor>, Rule>,
    /// What each face advertised.
    by_face: FaceMap<BTreeSet<(TreeId, Arc<Descriptor>)>>,
    links: BTreeMap<(TreeId, FaceId), Link>,
    /// The last session that was begun.
    session: u64,
    nonce: u32,
    /// `/localhop/nfd/tags/update`
    command: Name,
    refused: u64,
}

impl TagRouting {
    /// On no tree. `unix_ms` tells this run of the router from those before.
    pub fn new(fib: FibWriter<TagSets>, limits: TagLimits, unix_ms: u64) -> Self {
        TagRouting {
            fib,
            limits,
            trees: Vec::new(),
            rules: HashMap::new(),
            by_face: FaceMap::default(),
            links: BTreeMap::new(),
            session: unix_ms,
            nonce: unix_ms as u32,
            command: "/localhop/nfd/tags/update".parse().expect("a literal name"),
            refused: 0,
        }
    }

    /// Joins a tree.
    pub fn add_tree(&mut self, tree: OwnTree) {
        for &face in &tree.neighbors {
            let session = self.next_session();
            self.links.insert((tree.id, face), Link::new(tree.id, session));
        }
        self.trees.push(tree);
    }

    /// Descriptors that are known.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Updates that neighbours refused, and descriptors of theirs that were not taken.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The addresses of an application, one on each tree.
    pub fn addresses(&self, face: FaceId) -> Vec<Address> {
        let of_tree = |tree: &OwnTree| Address {
            locator: Locator { tree: tree.id, label: tree.label },
            endpoint: Endpoint(face.0),
        };
        self.trees.iter().map(of_tree).collect()
    }

    /// An application advertises descriptors, on all trees: all of them, or none.
    ///
    /// # Errors
    /// If they are too many, or there is no tree yet.
    pub fn advertise(&mut self, face: FaceId, descriptors: Vec<Descriptor>) -> Result<(), TagRoutingError> {
        if self.trees.is_empty() {
            return Err(TagRoutingError::NoTree);
        }
        let is_from_face = |rule: &Rule| rule.nexthops.iter().any(|nexthop| nexthop.face == face);
        let new_of_face = descriptors.iter().filter(|one| !self.rules.get(*one).is_some_and(is_from_face)).count();
        // Each of an application's descriptors is there once for each tree.
        let of_face = self.by_face.get(&face).map_or(0, BTreeSet::len) / self.trees.len();
        if of_face + new_of_face > self.limits.descriptors_per_face_max {
            return Err(TagRoutingError::FaceFull { descriptors: of_face });
        }
        let new = descriptors.iter().filter(|one| !self.rules.contains_key(*one)).count();
        if self.rules.len() + new > self.limits.descriptors_max {
            return Err(TagRoutingError::Full { descriptors: self.rules.len() });
        }
        for descriptor in descriptors.into_iter().map(Arc::new) {
            for tree in self.tree_ids() {
                self.change(&descriptor, TreeFace { tree, face }, true);
            }
        }
        Ok(())
    }

    /// An application withdraws descriptors; those that it did not advertise are nothing to it.
    pub fn withdraw(&mut self, face: FaceId, descriptors: Vec<Descriptor>) {
        for descriptor in descriptors.into_iter().map(Arc::new) {
            for tree in self.tree_ids() {
                self.change(&descriptor, TreeFace { tree, face }, false);
            }
        }
    }

    /// A face is gone, and with it all that it advertised.
    pub fn remove_face(&mut self, face: FaceId) {
        self.fib.detach_face(face);
        for (tree, descriptor) in self.by_face.remove(&face).unwrap_or_default() {
            self.change(&descriptor, TreeFace { tree, face }, false);
        }
    }

    /// A neighbour tells of changes; returns what it is to be answered.
    ///
    /// # Errors
    /// If it is none.
    pub fn hear(&mut self, face: FaceId, update: Update, now_ms: u64) -> Result<u64, TagRoutingError> {
        let tree = update.tree;
        let link = self.links.get_mut(&(tree, face)).ok_or(TagRoutingError::NoNeighbor { tree })?;
        let remembers_since = link.remembers_since();
        match link.hear(&update, now_ms) {
            Heard::Again => return Ok(remembers_since),
            Heard::FromNothing => self.forget(tree, face),
            Heard::Changes => {}
        }
        for descriptor in update.withdrawn.into_iter().map(Arc::new) {
            self.change(&descriptor, TreeFace { tree, face }, false);
        }
        for descriptor in update.advertised.into_iter().map(Arc::new) {
            if self.rules.len() < self.limits.descriptors_max || self.rules.contains_key(&descriptor) {
                self.change(&descriptor, TreeFace { tree, face }, true);
            } else {
                self.refused += 1;
            }
        }
        Ok(remembers_since)
    }

    /// A neighbour answered; false if this is the name of no update of ours.
    pub fn answered(&mut self, name: &Name, code: u64, body: &[u8]) -> bool {
        let Some((&(tree, face), link)) = self.links.iter_mut().find(|(_, link)| link.awaits(name)) else {
            return false;
        };
        let remembers_since = message::decode_session(body);
        match remembers_since {
            Ok(remembers_since) if code == 200 => {
                if link.answered(remembers_since) == Answer::TellAll {
                    self.tell_all(tree, face);
                }
            }
            // The update stays in flight: who refuses now may be configured to take it later.
            _ => {
                self.refused += 1;
                tracing::debug!(%face, tree = tree.0, code, "a neighbour refuses to hear of descriptors");
            }
        }
        true
    }

    /// When [`TagRouting::poll`] has something to do.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.links.values().map(Link::next_deadline_ms).min()
    }

    /// Interests to send, each to its face.
    pub fn poll(&mut self, now_ms: u64) -> Vec<(FaceId, Vec<u8>)> {
        let silent: Vec<_> = self
            .links
            .iter_mut()
            .filter_map(|(link, state)| state.is_silent(now_ms, self.session + 1).then_some(*link))
            .collect();
        for (tree, face) in silent {
            self.next_session();
            self.forget(tree, face);
        }
        let mut interests = Vec::new();
        for (&(_, face), link) in &mut self.links {
            self.nonce = self.nonce.wrapping_mul(0x9e37_79b1).wrapping_add(1);
            interests.extend(link.poll(now_ms, &self.command, self.nonce).map(|interest| (face, interest)));
        }
        interests
    }

    /// Makes all changes so far visible to the worker.
    pub fn commit(&mut self) {
        self.fib.commit();
    }

    fn tree_ids(&self) -> Vec<TreeId> {
        self.trees.iter().map(|tree| tree.id).collect()
    }

    fn next_session(&mut self) -> u64 {
        self.session += 1;
        self.session
    }

    /// Forgets what a neighbour told.
    fn forget(&mut self, tree: TreeId, face: FaceId) {
        let told: Vec<_> =
            self.by_face.get(&face).into_iter().flatten().filter(|(of, _)| *of == tree).cloned().collect();
        for (tree, descriptor) in told {
            self.change(&descriptor, TreeFace { tree, face }, false);
        }
    }

    /// Tells a neighbour all that it is to know, from nothing.
    fn tell_all(&mut self, tree: TreeId, face: FaceId) {
        let session = self.next_session();
        let Some(link) = self.links.get_mut(&(tree, face)) else { return };
        link.restart(session);
        for (descriptor, rule) in &self.rules {
            if is_told(&rule.nexthops, tree, face) {
                link.tell(descriptor.clone(), true);
            }
        }
    }

    /// Adds or removes one way for a descriptor, and tells the neighbours whom that concerns.
    fn change(&mut self, descriptor: &Arc<Descriptor>, pair: TreeFace, add: bool) {
        if !add && !self.rules.contains_key(descriptor) {
            return;
        }
        let rule = self.rules.entry(descriptor.clone()).or_default();
        let before = rule.nexthops.clone();
        match (rule.nexthops.binary_search(&pair), add) {
            (Err(place), true) => rule.nexthops.insert(place, pair),
            (Ok(place), false) => drop(rule.nexthops.remove(place)),
            _ => return,
        }
        self.fib.set(descriptor, &mut rule.group, &rule.nexthops);
        for (&(_, face), link) in self.links.range_mut((pair.tree, FaceId(0))..=(pair.tree, FaceId(u64::MAX))) {
            let is_told = is_told(&rule.nexthops, pair.tree, face);
            if is_told != self::is_told(&before, pair.tree, face) {
                link.tell(descriptor.clone(), is_told);
            }
        }
        if rule.nexthops.is_empty() {
            self.rules.remove(descriptor);
        }
        let of_face = self.by_face.entry(pair.face).or_default();
        match add {
            true => of_face.insert((pair.tree, descriptor.clone())),
            false => of_face.remove(&(pair.tree, descriptor.clone())),
        };
        if of_face.is_empty() {
            self.by_face.remove(&pair.face);
        }
    }
}

/// Whether the neighbour behind `face` is to know of a descriptor: if any other face has it.
fn is_told(nexthops: &[TreeFace], tree: TreeId, face: FaceId) -> bool {
    nexthops.iter().any(|nexthop| nexthop.tree == tree && nexthop.face != face)
}

//! Routing by tags: which face advertised which descriptor, and what each neighbour on a tree is told [TagNet §2.1].
//!
//! The configuration, or a routing application, gives each router its neighbours on each tree. An advertisement floods
//! along the tree. A router that receives it from a face installs (tree, face) for the descriptor, and tells the other
//! neighbours on the tree. A neighbour is told of a descriptor as long as any face but its own advertises it. Repeating
//! an advertisement therefore changes nothing. A withdrawal is not passed on to a neighbour while another face
//! advertises the descriptor. With aggregation, a neighbour is not told of a descriptor while another one covers it
//! that the neighbour is told of; `covering` finds those. Sets in a file are led by `labels`. `link` repairs losses between two routers. Applications
//! receive an answer to each command, and their advertisements end with their face.
//!
//! Limits bound the descriptors in total, of each application, and of each neighbour, which stands for all routers
//! behind it. Neighbours sign their updates (`trust`).

pub mod bulk;
mod covering;
mod labels;
mod link;
pub mod plan;
mod reload;
#[cfg(test)]
mod tests;
mod trust;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use byname_forward::FaceId;
use byname_forward::face_table::FaceMap;
use byname_forward::tables::TreeFace;
use byname_lookup::EntryId;
use byname_wire::tagnet::{Address, Endpoint};
use byname_wire::{Data, Descriptor, Interest, Label, Locator, Name, TreeId};
use thiserror::Error;

use self::covering::Covering;
pub use self::labels::Labels;
use self::link::{Answer, Heard, Link};
use self::message::{DescriptorList, Update};
pub use self::trust::NeighborKeys;
pub use self::view::TreeView;
use crate::fib_writer::{FibWriter, TagSets};
use byname_trust::Moment;

pub use byname_mgmt::tags as message;

/// Limits on descriptors, and on what neighbours are told of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagLimits {
    /// Most descriptors in total.
    pub descriptors_max: usize,
    /// Most descriptors of one application.
    pub descriptors_per_face_max: usize,
    /// Most descriptors of one neighbour, over all trees.
    pub descriptors_per_neighbor_max: usize,
    /// Whether neighbours are not told of descriptors that another one covers.
    pub aggregate: bool,
}

impl Default for TagLimits {
    fn default() -> Self {
        crate::config::Config::default().tag_limits()
    }
}

/// Why a descriptor or an update was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TagRoutingError {
    /// The router has too many descriptors.
    #[error("this router knows {descriptors} descriptors, as many as it may; see descriptors_max under [tags]")]
    Full {
        /// Number of its descriptors.
        descriptors: usize,
    },
    /// The application has too many descriptors.
    #[error("this application has advertised {descriptors} descriptors, as many as it may; see [tags]")]
    FaceFull {
        /// Number of its descriptors.
        descriptors: usize,
    },
    /// No tree has been set yet.
    #[error("this router is on no tree yet")]
    NoTree,
    /// The face of the update leads to no neighbour on its tree.
    #[error("this face leads to no neighbour on tree {}", tree.0)]
    NoNeighbor {
        /// The tree.
        tree: TreeId,
    },
    /// The update is not signed with the neighbour's key.
    #[error("the update is not signed by the neighbour's key; see [[tags.neighbor]]")]
    Unsigned,
    /// Updates arrive faster than a neighbour may send them.
    #[error("too many updates")]
    TooMany,
}

/// A neighbour on a tree.
#[derive(Clone)]
pub struct OwnNeighbor {
    /// The face to it.
    pub face: FaceId,
    /// Keys that sign its messages. `None`: its messages are accepted by their face.
    pub keys: Option<Arc<NeighborKeys>>,
}

/// Contents of the answer to a neighbour's update.
pub struct Heeded {
    /// Whether the update was accepted. If not, the neighbour must repeat everything in a new session.
    pub is_taken: bool,
    /// This router's session, which the neighbour must echo.
    pub session: u64,
    /// Keys that sign the answer.
    pub keys: Option<Arc<NeighborKeys>>,
}

/// A tree that this router is on.
#[derive(Clone)]
pub struct OwnTree {
    /// Id of the tree.
    pub id: TreeId,
    /// Label of this router on the tree. `None`: it has none, and applications have no address there.
    pub label: Option<Label>,
    /// Neighbours on the tree.
    pub neighbors: Vec<OwnNeighbor>,
    /// Whether it is a generation of another tree, of those in this order the first that is complete is in service.
    pub generation: Option<OwnGeneration>,
}

/// What makes a tree a generation of another one: its edges do not change, and packets with tags for the other tree begin
/// on it when its descriptors have been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnGeneration {
    /// The other tree.
    pub of: TreeId,
    /// Whether no edge is added any more, except to routers that come.
    pub is_settled: bool,
}

/// Faces that advertise a descriptor.
#[derive(Default)]
struct Rule {
    /// Sorted, each once.
    nexthops: Vec<TreeFace>,
    group: Option<EntryId>,
}

/// State of routing by tags.
pub struct TagRouting {
    fib: FibWriter<TagSets>,
    limits: TagLimits,
    trees: Vec<OwnTree>,
    /// Of sets in a file.
    labels: Labels,
    rules: HashMap<Arc<Descriptor>, Rule>,
    /// The descriptors of `rules`, for aggregation. `None`: neighbours are told of all.
    covering: Option<Covering>,
    /// Advertisements by face.
    by_face: FaceMap<BTreeSet<(TreeId, Arc<Descriptor>)>>,
    /// Faces that advertised their first descriptor or withdrew their last one; see [`TagRouting::take_routed`].
    routed: BTreeSet<FaceId>,
    links: BTreeMap<(TreeId, FaceId), Link>,
    /// Generations of which all descriptors have been told here once.
    complete: BTreeSet<TreeId>,
    has_completed: bool,
    /// The last session that this router began.
    session: u64,
    nonce: u32,
    /// `/localhop/nfd/tags/update`
    command: Name,
    refused: u64,
}

impl TagRouting {
    /// Tag routing without trees. `unix_ms` distinguishes this run of the router from earlier ones.
    pub fn new(fib: FibWriter<TagSets>, limits: TagLimits, unix_ms: u64) -> Self {
        TagRouting {
            fib,
            limits,
            trees: Vec::new(),
            labels: Labels::default(),
            rules: HashMap::new(),
            covering: limits.aggregate.then(Covering::default),
            by_face: FaceMap::default(),
            routed: BTreeSet::new(),
            links: BTreeMap::new(),
            complete: BTreeSet::new(),
            has_completed: false,
            session: unix_ms,
            nonce: unix_ms as u32,
            command: "/localhop/nfd/tags/update".parse().expect("a literal name"),
            refused: 0,
        }
    }

    /// Whether the router is on a tree.
    pub fn has_trees(&self) -> bool {
        !self.trees.is_empty()
    }

    /// Changes the limits. Descriptors beyond them stay. Neighbours are told what follows from aggregation or its end.
    pub fn limit(&mut self, limits: TagLimits) {
        let begins = limits.aggregate && self.covering.is_none();
        let ends = !limits.aggregate && self.covering.is_some();
        self.limits = limits;
        if begins {
            let covering = self.covering.insert(Covering::default());
            self.rules.keys().for_each(|descriptor| covering.insert(descriptor));
        }
        if begins || ends {
            let links: Vec<(TreeId, FaceId)> = self.links.keys().copied().collect();
            for (tree, face) in links {
                let is_wanted = |(_, rule): &(&Arc<Descriptor>, &Rule)| is_told(&rule.nexthops, tree, face);
                let wanted = self.rules.iter().filter(is_wanted).map(|(descriptor, _)| descriptor);
                let covered: Vec<_> = wanted.filter(|one| self.is_covered(one, tree, face, None)).cloned().collect();
                let Some(link) = self.links.get_mut(&(tree, face)) else { continue };
                covered.into_iter().for_each(|descriptor| link.tell(descriptor, ends));
            }
        }
        if ends {
            self.covering = None;
        }
    }

    /// Number of known descriptors.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether no descriptor is known.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Number of refusals: updates refused by neighbours, updates without a valid signature, and descriptors of
    /// neighbours that exceeded a limit.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The addresses of an application: one on each tree.
    pub fn addresses(&self, face: FaceId) -> Vec<Address> {
        let of_tree = |tree: &OwnTree| {
            let locator = Locator { tree: tree.id, label: tree.label? };
            Some(Address { locator, endpoint: Endpoint(face.0) })
        };
        self.trees.iter().filter_map(of_tree).collect()
    }

    /// Advertises an application's descriptors on all trees: either all of them or none.
    ///
    /// # Errors
    /// If there are too many, or there is no tree yet.
    pub fn advertise(&mut self, face: FaceId, descriptors: Vec<Descriptor>) -> Result<(), TagRoutingError> {
        if self.trees.is_empty() {
            return Err(TagRoutingError::NoTree);
        }
        let is_from_face = |rule: &Rule| rule.nexthops.iter().any(|nexthop| nexthop.face == face);
        let new_of_face = descriptors.iter().filter(|one| !self.rules.get(*one).is_some_and(is_from_face)).count();
        // The set has each descriptor once per tree.
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

    /// The descriptors that an application advertises.
    pub fn advertised_by(&self, face: FaceId) -> Vec<Descriptor> {
        let advertised = self.by_face.get(&face).into_iter().flatten();
        // Each is there once for each tree.
        let of_tree = advertised.filter(|(tree, _)| self.trees.first().is_some_and(|first| first.id == *tree));
        of_tree.map(|(_, descriptor)| Descriptor::clone(descriptor)).collect()
    }

    /// Whether a face leads to a neighbour on a tree.
    pub fn is_neighbor(&self, face: FaceId) -> bool {
        self.links.keys().any(|(_, neighbor)| *neighbor == face)
    }

    /// The descriptors of each application, encoded as in commands, for another process.
    pub fn of_applications(&self) -> Vec<(FaceId, Vec<Vec<u8>>)> {
        let lists = |advertised: &BTreeSet<(TreeId, Arc<Descriptor>)>| {
            let mut lists = vec![DescriptorList::default()];
            for descriptor in of_one_tree(advertised) {
                if !lists.last_mut().is_some_and(|list| list.push(descriptor)) {
                    let mut list = DescriptorList::default();
                    list.push(descriptor);
                    lists.push(list);
                }
            }
            lists.iter().map(|list| list.bytes().to_vec()).collect()
        };
        self.applications().map(|(face, advertised)| (face, lists(advertised))).collect()
    }

    /// The descriptors of each application, or of what others have advertised for its face.
    pub fn told_by_applications(&self) -> impl Iterator<Item = (FaceId, &Descriptor)> {
        self.applications().flat_map(|(face, told)| of_one_tree(told).map(move |descriptor| (face, &**descriptor)))
    }

    fn applications(&self) -> impl Iterator<Item = (FaceId, &BTreeSet<(TreeId, Arc<Descriptor>)>)> {
        let neighbors: BTreeSet<FaceId> = self.links.keys().map(|(_, face)| *face).collect();
        self.by_face.iter().map(|(face, told)| (*face, told)).filter(move |(face, _)| !neighbors.contains(face))
    }

    /// Withdraws an application's descriptors. Ignores those that it does not advertise.
    pub fn withdraw(&mut self, face: FaceId, descriptors: Vec<Descriptor>) {
        for descriptor in descriptors.into_iter().map(Arc::new) {
            for tree in self.tree_ids() {
                self.change(&descriptor, TreeFace { tree, face }, false);
            }
        }
    }

    /// Removes a face and its advertisements.
    pub fn remove_face(&mut self, face: FaceId) {
        self.fib.detach_face(face);
        for (tree, descriptor) in self.by_face.remove(&face).unwrap_or_default() {
            self.change(&descriptor, TreeFace { tree, face }, false);
        }
    }

    /// Handles a neighbour's update, which came in this Interest. Returns the contents of the answer.
    ///
    /// # Errors
    /// If the face leads to no neighbour on the tree, the signature is invalid, or there are too many updates.
    pub fn hear(
        &mut self,
        face: FaceId,
        (interest, update): (&Interest<'_>, Update),
        now: Moment,
    ) -> Result<Heeded, TagRoutingError> {
        let tree = update.tree;
        let link = self.links.get_mut(&(tree, face)).ok_or(TagRoutingError::NoNeighbor { tree })?;
        if !link.trusts(interest, now.unix_ms) {
            self.refused += 1;
            tracing::debug!(%face, tree = tree.0, "an update about descriptors is not signed by the neighbour's key");
            return Err(TagRoutingError::Unsigned);
        }
        let (session, keys) = (link.remembers_since(), link.keys.clone());
        let heeded = |is_taken| Heeded { is_taken, session, keys };
        match link.hear(&update, now.ms) {
            Heard::TooMany => return Err(TagRoutingError::TooMany),
            Heard::NotForUs => return Ok(heeded(false)),
            Heard::Again => return Ok(heeded(true)),
            Heard::FromNothing => self.forget(tree, face),
            Heard::Changes => {}
        }
        for descriptor in update.withdrawn.into_iter().map(Arc::new) {
            self.change(&descriptor, TreeFace { tree, face }, false);
        }
        let mut refused = 0;
        for descriptor in update.advertised.into_iter().map(Arc::new) {
            let of_neighbor = self.by_face.get(&face);
            let is_known = of_neighbor.is_some_and(|of| of.contains(&(tree, descriptor.clone())));
            let has_room = of_neighbor.map_or(0, BTreeSet::len) < self.limits.descriptors_per_neighbor_max
                && (self.rules.len() < self.limits.descriptors_max || self.rules.contains_key(&descriptor));
            if is_known || has_room {
                self.change(&descriptor, TreeFace { tree, face }, true);
            } else {
                refused += 1;
            }
        }
        self.refused += refused;
        // Once for each time that a neighbour begins to tell: it may go on for long.
        if refused > 0 && self.links.get_mut(&(tree, face)).is_some_and(Link::first_refusal) {
            tracing::warn!(
                %face,
                tree = tree.0,
                "a neighbour advertises more descriptors than fit, and packets for them will not reach it; see \
                 descriptors_max and descriptors_per_neighbor_max under [tags]"
            );
        }
        self.look_for_complete();
        Ok(heeded(true))
    }

    /// Handles a neighbour's answer. Returns false if it answers no update in flight.
    pub fn answered(&mut self, answer: &Data<'_>, (code, body): (u64, &[u8]), now: Moment) -> bool {
        let name = answer.name.to_name();
        let Some((&(tree, face), link)) = self.links.iter_mut().find(|(_, link)| link.awaits(&name)) else {
            return false;
        };
        let remembers_since = message::decode_session(body);
        match remembers_since {
            Ok(remembers_since) if matches!(code, 200 | 409) && link.trusts_answer(answer, now.unix_ms) => {
                if link.answered(remembers_since) == Answer::TellAll {
                    self.tell_all(tree, face);
                }
            }
            // The update stays in flight: a neighbour that refuses now may be reconfigured to accept it later.
            _ => {
                self.refused += 1;
                link.refused(now.ms);
                tracing::debug!(%face, tree = tree.0, code, "a neighbour refuses to hear of descriptors, or does not sign");
            }
        }
        true
    }

    /// The time at which [`TagRouting::poll`] must be called.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.links.values().map(Link::next_deadline_ms).min()
    }

    /// Returns the Interests to send now, each with its face.
    pub fn poll(&mut self, now: Moment) -> Vec<(FaceId, Vec<u8>)> {
        let links = self.links.iter_mut();
        let silent: Vec<_> = links.filter_map(|(link, state)| state.is_silent(now.ms).then_some(*link)).collect();
        for (tree, face) in silent {
            self.forget(tree, face);
        }
        let mut interests = Vec::new();
        for (&(_, face), link) in &mut self.links {
            self.nonce = self.nonce.wrapping_mul(0x9e37_79b1).wrapping_add(1);
            let interest = link.poll(now.ms, now.unix_ms, &self.command, self.nonce);
            interests.extend(interest.map(|interest| (face, interest)));
        }
        interests
    }

    /// Faces that advertised their first descriptor or withdrew their last one since the last call.
    pub fn take_routed(&mut self) -> BTreeSet<FaceId> {
        std::mem::take(&mut self.routed)
    }

    /// The generation of a tree on which packets with tags begin, if it has generations and one is complete.
    pub fn in_service(&self, tree: TreeId) -> Option<TreeId> {
        let is_of = |one: &&OwnTree| one.generation.is_some_and(|generation| generation.of == tree);
        self.trees.iter().filter(is_of).map(|one| one.id).find(|id| self.complete.contains(id))
    }

    /// Whether a generation has become complete since the last call.
    pub fn take_completed(&mut self) -> bool {
        std::mem::take(&mut self.has_completed)
    }

    /// Notes which generations are complete, and which neighbours are to be told so.
    fn look_for_complete(&mut self) {
        for tree in &self.trees {
            let Some(generation) = tree.generation.filter(|generation| generation.is_settled) else { continue };
            let links = || self.links.range((tree.id, FaceId(0))..=(tree.id, FaceId(u64::MAX)));
            let incomplete: Vec<FaceId> =
                links().filter(|(_, link)| !link.is_complete).map(|((_, face), _)| *face).take(2).collect();
            if incomplete.is_empty() && self.complete.insert(tree.id) {
                self.has_completed = true;
                tracing::debug!(
                    tree = generation.of.0,
                    generation = tree.id.0,
                    "all descriptors of a tree have been told"
                );
            }
            for ((_, face), link) in self.links.range_mut((tree.id, FaceId(0))..=(tree.id, FaceId(u64::MAX))) {
                link.set_may_complete(incomplete.iter().all(|other| other == face));
            }
        }
    }

    /// Whether a descriptor has this face as a nexthop.
    pub fn has_routes(&self, face: FaceId) -> bool {
        self.by_face.contains_key(&face)
    }

    /// Makes all changes so far visible to the workers.
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

    /// Removes everything that a neighbour advertised on a tree.
    fn forget(&mut self, tree: TreeId, face: FaceId) {
        let told: Vec<_> =
            self.by_face.get(&face).into_iter().flatten().filter(|(of, _)| *of == tree).cloned().collect();
        for (tree, descriptor) in told {
            self.change(&descriptor, TreeFace { tree, face }, false);
        }
    }

    /// Starts a new session with a neighbour, in which everything is sent again.
    fn tell_all(&mut self, tree: TreeId, face: FaceId) {
        let session = self.next_session();
        let is_wanted = |(_, rule): &(&Arc<Descriptor>, &Rule)| is_told(&rule.nexthops, tree, face);
        let wanted = self.rules.iter().filter(is_wanted).map(|(descriptor, _)| descriptor);
        let told: Vec<_> = wanted.filter(|one| !self.is_covered(one, tree, face, None)).cloned().collect();
        let Some(link) = self.links.get_mut(&(tree, face)) else { return };
        link.restart(session);
        told.into_iter().for_each(|descriptor| link.tell(descriptor, true));
    }

    /// Whether the neighbour need not know of a descriptor, because it is to know one that covers it, other than
    /// `without`.
    fn is_covered(&self, one: &Descriptor, tree: TreeId, face: FaceId, without: Option<&Descriptor>) -> bool {
        let Some(covering) = &self.covering else { return false };
        let is_wanted = |other: &Arc<Descriptor>| {
            Some(&**other) != without && self.rules.get(other).is_some_and(|rule| is_told(&rule.nexthops, tree, face))
        };
        covering.subsets(one).any(is_wanted)
    }

    /// The neighbour is to know of a descriptor from now on, or need not know of it any more.
    fn tell(&mut self, descriptor: &Arc<Descriptor>, tree: TreeId, face: FaceId, is_told: bool) {
        if self.is_covered(descriptor, tree, face, None) {
            return;
        }
        // Those that only this one covers.
        let is_uncovered = |other: &&Arc<Descriptor>| {
            self.rules.get(*other).is_some_and(|rule| self::is_told(&rule.nexthops, tree, face))
                && !self.is_covered(other, tree, face, Some(descriptor))
        };
        let covered = self.covering.iter().flat_map(|covering| covering.supersets(descriptor));
        let covered: Vec<Arc<Descriptor>> = covered.filter(is_uncovered).cloned().collect();
        let Some(link) = self.links.get_mut(&(tree, face)) else { return };
        link.tell(Arc::clone(descriptor), is_told);
        covered.into_iter().for_each(|other| link.tell(other, !is_told));
    }

    /// Adds or removes one nexthop of a descriptor, and updates the neighbours concerned.
    fn change(&mut self, descriptor: &Arc<Descriptor>, pair: TreeFace, add: bool) {
        if !add && !self.rules.contains_key(descriptor) {
            return;
        }
        if let Some(covering) = self.covering.as_mut().filter(|_| !self.rules.contains_key(descriptor)) {
            covering.insert(descriptor);
        }
        let rule = self.rules.entry(descriptor.clone()).or_default();
        let before = rule.nexthops.clone();
        match (rule.nexthops.binary_search(&pair), add) {
            (Err(place), true) => rule.nexthops.insert(place, pair),
            (Ok(place), false) => drop(rule.nexthops.remove(place)),
            _ => return,
        }
        self.fib.set(descriptor, &mut rule.group, &rule.nexthops);
        let links = self.links.range((pair.tree, FaceId(0))..=(pair.tree, FaceId(u64::MAX)));
        let news = links.filter_map(|(&(_, face), _)| {
            let is_told = is_told(&rule.nexthops, pair.tree, face);
            (is_told != self::is_told(&before, pair.tree, face)).then_some((face, is_told))
        });
        let news: Vec<(FaceId, bool)> = news.collect();
        if rule.nexthops.is_empty() {
            self.rules.remove(descriptor);
            if let Some(covering) = &mut self.covering {
                covering.remove(descriptor);
            }
        }
        for (face, is_told) in news {
            self.tell(descriptor, pair.tree, face, is_told);
        }
        let was_routed = self.by_face.contains_key(&pair.face);
        let of_face = self.by_face.entry(pair.face).or_default();
        match add {
            true => of_face.insert((pair.tree, descriptor.clone())),
            false => of_face.remove(&(pair.tree, descriptor.clone())),
        };
        if of_face.is_empty() {
            self.by_face.remove(&pair.face);
        }
        if self.by_face.contains_key(&pair.face) != was_routed {
            self.routed.insert(pair.face);
        }
    }
}

/// What a face advertises, once: each descriptor is there for each tree.
fn of_one_tree(advertised: &BTreeSet<(TreeId, Arc<Descriptor>)>) -> impl Iterator<Item = &Arc<Descriptor>> {
    let tree = advertised.first().map(|(tree, _)| *tree);
    advertised.iter().filter(move |(of, _)| Some(*of) == tree).map(|(_, descriptor)| descriptor)
}

/// Whether the neighbour behind `face` must know of a descriptor: any other face of the tree advertises it.
fn is_told(nexthops: &[TreeFace], tree: TreeId, face: FaceId) -> bool {
    nexthops.iter().any(|nexthop| nexthop.tree == tree && nexthop.face != face)
}

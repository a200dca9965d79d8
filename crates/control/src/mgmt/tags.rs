//! Commands about descriptors and locators [TagNet §2.1], and updates from neighbours on trees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use byname_forward::{FaceId, Packet};
use byname_lookup::BuildError;
use byname_lookup::locator::{Numbering, Port, Table, Trees};
use byname_mgmt::trees::{PlaceGeneration, PlaceNumbering, TreePlace};
use byname_wire::{Component, Descriptor, Interest, Name, TreeId};

use super::tlv::{ControlResponse, Element, TagsEntry};
use super::{Command, Management, Moment, packet_of, respond, response_data};
use crate::fib_writer::FibWriter;
use crate::rib::Rib;
use crate::security::{Authorized, Signer, TrustedSigner, VerifyingKey};
use crate::tags::bulk::TagFib;
use crate::tags::message::{Update, decode_descriptors, encode_locators, encode_session};
use crate::tags::{NeighborKeys, OwnGeneration, OwnNeighbor, OwnTree, TagRouting, TagRoutingError};

/// Most trees on which commands may put this router.
const PLACED_MAX: usize = 64;

/// The trees that this router is on: those of the configuration, and those on which a routing application has put it.
/// An application's tree replaces one of the configuration with the same id, until the application's face is gone.
#[derive(Default)]
pub(super) struct OwnTrees {
    configured: (Trees, Vec<OwnTree>),
    placed: BTreeMap<TreeId, Placed>,
}

/// A tree on which an application has put this router.
struct Placed {
    /// The application's face.
    by: FaceId,
    numberings: Vec<Numbering>,
    tree: OwnTree,
    generations: Vec<OwnTree>,
}

impl OwnTrees {
    fn own(&self) -> Vec<OwnTree> {
        let mut own = self.configured.1.clone();
        own.retain(|tree| !self.placed.contains_key(&tree.id));
        for Placed { tree, generations, .. } in self.placed.values() {
            own.push(tree.clone());
            own.extend(generations.iter().cloned());
        }
        own
    }

    /// How workers forward. `in_service` tells the generation of a tree on which packets with tags begin.
    fn forwarding(&self, in_service: impl Fn(TreeId) -> Option<TreeId>) -> Trees {
        let mut trees = self.configured.0.clone();
        for (id, Placed { numberings, generations, .. }) in &self.placed {
            trees.set_numberings(*id, numberings.iter().cloned());
            trees.set_generations(*id, generations.iter().map(|one| one.id), in_service(*id));
        }
        trees
    }
}

impl Management {
    /// Routing by tags.
    pub fn tags(&self) -> &TagRouting {
        &self.tags
    }

    /// Routing by tags, for its driver.
    pub fn tags_mut(&mut self) -> &mut TagRouting {
        &mut self.tags
    }

    /// Replaces the engine of the FIB of descriptors while packets flow.
    ///
    /// # Errors
    /// The new engine refuses a descriptor. The old one goes on.
    pub fn rebuild_tag_fib(&mut self, fib: TagFib) -> Result<(), BuildError> {
        let (rib, names) = (&self.rib, &self.fib);
        self.tags.rebuild_fib(fib, |label| faces_of(rib, names, label))?;
        self.fib.watch(self.tags.labels().cloned());
        self.tags.commit();
        Ok(())
    }

    /// Leads sets of tags of a file to where the routes of their labels lead.
    pub(super) fn lead_labels(&mut self) {
        for label in self.fib.take_changed() {
            let faces = faces_of(&self.rib, &self.fib, &label);
            self.tags.lead(&label, faces);
        }
    }

    /// Puts this router on these trees, and on no others except those of `tags/place`.
    pub fn join_trees(&mut self, trees: Trees, own: Vec<OwnTree>) {
        self.trees.configured = (trees, own);
        self.use_trees();
    }

    fn use_trees(&mut self) {
        self.tags.replace_trees(self.trees.own());
        self.advertise_again();
        // Packets that follow other trees need their descriptors.
        self.tags.commit();
        self.forward_by_trees();
    }

    /// Lets packets with tags begin on generations that have become complete.
    pub(super) fn use_completed(&mut self) {
        if self.tags.take_completed() {
            self.forward_by_trees();
        }
    }

    fn forward_by_trees(&self) {
        self.fib.tables().replace_trees(self.trees.forwarding(|tree| self.tags.in_service(tree)));
    }

    /// Executes `tags/place`: a routing application puts this router on a tree, or takes it from there.
    pub(super) fn tags_place(
        &mut self,
        interest: &Interest<'_>,
        signer: &Authorized,
        incoming: FaceId,
    ) -> ControlResponse {
        // Packets of all names may be led somewhere else.
        if let Err(refusal) = self.check_route(Name::default().as_ref(), incoming, signer, incoming) {
            return ControlResponse::new(403, self.authorizer.refuse(refusal).to_string());
        }
        let place = match TreePlace::decode(interest.application_parameters.unwrap_or_default()) {
            Ok(place) => place,
            Err(error) => return ControlResponse::new(400, format!("Malformed place: {error}")),
        };
        if place.numberings.is_empty() && place.neighbors.is_empty() && place.generations.is_empty() {
            self.trees.placed.remove(&place.tree);
        } else if self.trees.placed.len() >= PLACED_MAX && !self.trees.placed.contains_key(&place.tree) {
            return ControlResponse::new(507, format!("this router is on {PLACED_MAX} trees, as many as it may be"));
        } else {
            let neighbors: Vec<OwnNeighbor> =
                place.neighbors.iter().map(|(face, secret)| neighbor(*face, secret)).collect();
            let generation = |of: &PlaceGeneration| OwnTree {
                id: of.id,
                label: None,
                neighbors: neighbors.iter().filter(|one| of.faces.contains(&one.face)).cloned().collect(),
                generation: Some(OwnGeneration { of: place.tree, is_settled: of.is_settled }),
            };
            let generations: Vec<OwnTree> = place.generations.iter().map(generation).collect();
            let neighbors = if generations.is_empty() { neighbors } else { Vec::new() };
            let tree = OwnTree { id: place.tree, label: place.label, neighbors, generation: None };
            let numberings = place.numberings.iter().map(numbering).collect();
            self.trees.placed.insert(place.tree, Placed { by: incoming, numberings, tree, generations });
        }
        self.use_trees();
        ControlResponse::new(200, "OK")
    }

    /// Takes this router from the trees on which an application has put it, whose face is gone.
    pub(super) fn leave_trees_of(&mut self, face: FaceId) {
        let before = self.trees.placed.len();
        self.trees.placed.retain(|_, placed| placed.by != face);
        if self.trees.placed.len() < before {
            self.use_trees();
        }
    }

    /// Advertises descriptors of an application that another process had.
    pub fn take_over_tags(&mut self, face: FaceId, list: &[u8]) {
        let refused = match decode_descriptors(list) {
            Ok(descriptors) => self.advertise(face, descriptors).err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = refused {
            tracing::warn!(%face, why, "descriptors of an application stay behind");
        }
    }

    pub(super) fn advertise(&mut self, face: FaceId, descriptors: Vec<Descriptor>) -> Result<(), TagRoutingError> {
        let before: BTreeSet<Descriptor> = self.tags.advertised_by(face).into_iter().collect();
        self.tags.advertise(face, descriptors.clone())?;
        let new = descriptors.iter().filter(|one| !before.contains(*one)).cloned().collect();
        self.keep_advertised(face, &descriptors, new);
        Ok(())
    }

    /// Lists what leaves by faces that are no neighbours on a tree.
    pub(super) fn list_tags(&self, out: &mut Vec<u8>) {
        for (face, descriptor) in self.tags.told_by_applications() {
            let is_stale = self.is_stale(face, descriptor).then_some(1);
            TagsEntry { face_id: face.0, descriptor: descriptor.clone(), is_stale }.encode_to(out);
        }
    }

    /// Executes a tag command of an application.
    pub(super) fn tag_command(
        &mut self,
        command: Command,
        interest: &Interest<'_>,
        incoming: FaceId,
    ) -> ControlResponse {
        let parameters = interest.application_parameters.unwrap_or_default();
        let descriptors = match decode_descriptors(parameters) {
            Ok(descriptors) => descriptors,
            Err(error) => return ControlResponse::new(400, format!("Malformed descriptors: {error}")),
        };
        if !self.face_exists(incoming) {
            return ControlResponse::new(410, "Face not found");
        }
        match command {
            Command::TagsAdvertise => {
                if let Err(error) = self.advertise(incoming, descriptors) {
                    return refused(error);
                }
            }
            Command::TagsWithdraw => {
                self.tags.withdraw(incoming, descriptors.clone());
                self.keep_withdrawn(incoming, descriptors);
            }
            _ => {
                self.forwarder.set_endpoint(incoming);
                let body = encode_locators(&self.tags.addresses(incoming));
                return ControlResponse { body, ..ControlResponse::new(200, "OK") };
            }
        }
        ControlResponse::new(200, "OK")
    }

    /// Answers an update from a neighbour on a tree.
    pub(super) fn answer_tag_update(
        &mut self,
        interest: &Interest<'_>,
        incoming: FaceId,
        now: Moment,
    ) -> Option<Packet> {
        let parameters = interest.application_parameters.filter(|_| interest.parameters_digest_matches())?;
        let heeded = match Update::decode(parameters).map(|update| self.tags.hear(incoming, (interest, update), now)) {
            Ok(Ok(heeded)) => heeded,
            Ok(Err(error)) => return respond(interest.name, &refused(error)),
            Err(error) => {
                return respond(interest.name, &ControlResponse::new(400, format!("Malformed update: {error}")));
            }
        };
        let (code, text) = if heeded.is_taken { (200, "OK") } else { (409, "Begin a new session that echoes mine") };
        let response = ControlResponse { body: encode_session(heeded.session), ..ControlResponse::new(code, text) };
        match heeded.keys {
            Some(keys) => packet_of(&keys.sign_answer(&response_data(interest.name, &response)).ok()?),
            None => respond(interest.name, &response),
        }
    }
}

pub(super) fn refused(error: TagRoutingError) -> ControlResponse {
    let code = match error {
        TagRoutingError::NoNeighbor { .. } | TagRoutingError::Unsigned => 403,
        TagRoutingError::NoTree | TagRoutingError::TooMany => 503,
        TagRoutingError::Full { .. } | TagRoutingError::FaceFull { .. } => 507,
    };
    ControlResponse::new(code, error.to_string())
}

/// The faces that packets for this very name would go to, as workers know it.
fn faces_of(rib: &Rib, fib: &FibWriter, name: &Name) -> Vec<FaceId> {
    let group = rib.group(name.as_ref()).and_then(|group| fib.tables().group(group));
    group.iter().flat_map(|group| group.nexthops.iter().map(|nexthop| nexthop.face)).collect()
}

/// A neighbour with whom this router has a secret.
fn neighbor(face: FaceId, secret: &[u8]) -> OwnNeighbor {
    let key_name = Name::from_components(["localhop", "nfd", "tags"].map(|part| Component::generic(part.as_bytes())));
    let trusted = TrustedSigner::Hmac { key_name: key_name.clone(), key: VerifyingKey::from_hmac_secret(secret) };
    OwnNeighbor { face, keys: Some(Arc::new(NeighborKeys { signer: Signer::hmac(key_name, secret), trusted })) }
}

fn numbering(place: &PlaceNumbering) -> Numbering {
    let ports = place.light.iter().map(|(port, _)| *port).max().unwrap_or(0);
    let light = place.light.iter().map(|(port, face)| (Port::light(*port), *face));
    let up = place.up.map(|face| (Port::PARENT, face));
    let heavy = place.heavy.map(|face| (Port::HEAVY, face));
    Numbering {
        claim: place.claim,
        table: Table::new(place.label, place.descendants, place.light_descendants, ports, up.is_some()),
        faces: light.chain(up).chain(heavy).collect(),
    }
}

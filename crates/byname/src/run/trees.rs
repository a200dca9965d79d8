//! Joins the trees that the configuration puts this router on.

use byname_control::config::{ConfiguredNeighbor, ConfiguredPlace, InitialFace};
use byname_control::service::{ControlError, ControlHandle};
use byname_control::tags::{OwnNeighbor, OwnTree};
use byname_face::ForwarderHandle;
use byname_forward::FaceId;
use byname_lookup::locator::Trees;

use super::initial::create_or_find;

/// Trees, with the faces to this router's neighbours.
#[derive(Default)]
pub struct Joining {
    trees: Trees,
    own: Vec<OwnTree>,
    /// Faces that were made for this. Others existed before.
    pub made: Vec<FaceId>,
}

impl Joining {
    /// Creates the faces to neighbours; failures go to `notes`.
    pub fn prepare(places: &[ConfiguredPlace], handle: &ForwarderHandle, notes: &mut Vec<String>) -> Joining {
        let mut joining = Joining::default();
        for ConfiguredPlace { place, neighbors } in places {
            let (mut reached, mut known) = (Vec::new(), Vec::new());
            for ((port, node), neighbor) in place.neighbors.iter().zip(neighbors) {
                let Some(ConfiguredNeighbor { face: remote, keys }) = neighbor else {
                    notes.push(format!("no [[tags.neighbor]] for {node}, a neighbour on tree {}", place.tree.0));
                    continue;
                };
                match create_or_find(handle, &InitialFace::new(remote.clone())) {
                    Ok((face, is_made)) => {
                        joining.made.extend(is_made.then_some(face));
                        reached.push((*port, face));
                        known.push(OwnNeighbor { face, keys: keys.clone() });
                    }
                    Err(problem) => notes.push(format!("tree {}: no face to {remote}: {problem}", place.tree.0)),
                }
            }
            joining.own.push(OwnTree { id: place.tree, label: Some(place.label), neighbors: known, generation: None });
            joining.trees.set(place.tree, place.table, reached);
        }
        joining
    }

    /// The faces to all neighbours.
    pub fn faces(&self) -> impl Iterator<Item = FaceId> {
        self.own.iter().flat_map(|tree| tree.neighbors.iter().map(|neighbor| neighbor.face))
    }

    /// Joins these trees and leaves all others. Returns the faces that were made for them.
    ///
    /// # Errors
    /// The control thread has ended.
    pub fn join(self, control: &ControlHandle) -> Result<Vec<FaceId>, ControlError> {
        control.set_trees(self.trees, self.own)?;
        Ok(self.made)
    }
}

//! Joins the trees that the configuration puts this router on.

use byname_control::config::{ConfiguredNeighbor, ConfiguredPlace, InitialFace};
use byname_control::service::ControlHandle;
use byname_control::tags::{OwnNeighbor, OwnTree};
use byname_face::ForwarderHandle;
use byname_lookup::locator::Trees;

use super::initial::create;

/// Creates the faces to neighbours and joins the trees; failures go to `notes`.
///
/// # Errors
/// The control thread has ended.
pub fn join(
    places: &[ConfiguredPlace],
    handle: &ForwarderHandle,
    control: &ControlHandle,
    notes: &mut Vec<String>,
) -> anyhow::Result<()> {
    let (mut trees, mut own) = (Trees::new(), Vec::new());
    for ConfiguredPlace { place, neighbors } in places {
        let (mut reached, mut known) = (Vec::new(), Vec::new());
        for ((port, node), neighbor) in place.neighbors.iter().zip(neighbors) {
            let Some(ConfiguredNeighbor { face: remote, keys }) = neighbor else {
                notes.push(format!("no [[tags.neighbor]] for {node}, a neighbour on tree {}", place.tree.0));
                continue;
            };
            match create(handle, &InitialFace::new(remote.clone())) {
                Ok(face) => {
                    reached.push((*port, face));
                    known.push(OwnNeighbor { face, keys: keys.clone() });
                }
                Err(problem) => notes.push(format!("tree {}: no face to {remote}: {problem}", place.tree.0)),
            }
        }
        own.push(OwnTree { id: place.tree, label: place.label, neighbors: known });
        trees.set(place.tree, place.table, reached);
    }
    Ok(control.set_trees(trees, own)?)
}

//! Joining the trees that the configuration puts this router on.

use byname_control::config::{ConfiguredPlace, InitialFace};
use byname_control::service::ControlHandle;
use byname_control::tags::OwnTree;
use byname_face::ForwarderHandle;
use byname_lookup::locator::Trees;

use super::create;

/// Makes the faces to neighbours and joins the trees; what fails is noted.
///
/// # Errors
/// If the control thread has ended.
pub fn join(
    places: &[ConfiguredPlace],
    handle: &ForwarderHandle,
    control: &ControlHandle,
    notes: &mut Vec<String>,
) -> anyhow::Result<()> {
    let (mut trees, mut own) = (Trees::new(), Vec::new());
    for ConfiguredPlace { place, faces } in places {
        let mut reached = Vec::new();
        for ((port, node), face) in place.neighbors.iter().zip(faces) {
            let Some(remote) = face else {
                notes.push(format!("no [[tags.neighbor]] for {node}, a neighbour on tree {}", place.tree.0));
                continue;
            };
            match create(handle, &InitialFace::new(remote.clone())) {
                Ok(face) => reached.push((*port, face)),
                Err(problem) => notes.push(format!("tree {}: no face to {remote}: {problem}", place.tree.0)),
            }
        }
        own.push(OwnTree {
            id: place.tree,
            label: place.label,
            neighbors: reached.iter().map(|(_, face)| *face).collect(),
        });
        trees.set(place.tree, place.table, reached);
    }
    Ok(control.set_trees(trees, own)?)
}

//! What is known of descriptors and trees, a part at a time.

use byname_forward::FaceId;
use byname_forward::tables::TreeFace;
use byname_wire::{Descriptor, Label, TreeId};

use super::TagRouting;
use crate::rib::Page;

/// Most descriptors that one question examines.
const STEPS_MAX: usize = 20_000;

/// A tree that this router is on.
#[derive(Debug, Clone)]
pub struct TreeView {
    /// Its id.
    pub id: TreeId,
    /// The label of this router on it, if it has one.
    pub label: Option<Label>,
    /// The faces to its neighbours, and whether their messages are signed.
    pub neighbors: Vec<(FaceId, bool)>,
}

impl TagRouting {
    /// The trees that this router is on. Neighbours are those of the generation in service, if a tree has generations.
    pub fn tree_views(&self) -> Vec<TreeView> {
        let neighbors = |tree: &super::OwnTree| {
            tree.neighbors.iter().map(|neighbor| (neighbor.face, neighbor.keys.is_some())).collect()
        };
        let view = |tree: &super::OwnTree| {
            let in_service = self.in_service(tree.id);
            let edges = self.trees.iter().find(|one| Some(one.id) == in_service).unwrap_or(tree);
            TreeView { id: tree.id, label: tree.label, neighbors: neighbors(edges) }
        };
        self.trees.iter().filter(|tree| tree.generation.is_none()).map(view).collect()
    }

    /// Descriptors that `fits` accepts and the faces that advertise them, after the first `skip` of all descriptors. The
    /// order is that of a table: it changes when descriptors come and go.
    pub fn descriptors(
        &self,
        fits: impl Fn(&Descriptor) -> bool,
        skip: usize,
        count_max: usize,
    ) -> Page<(Descriptor, Vec<TreeFace>), usize> {
        let mut items = Vec::new();
        for (place, (descriptor, rule)) in self.rules.iter().enumerate().skip(skip) {
            if items.len() == count_max || place - skip == STEPS_MAX {
                return Page { items, next: Some(place) };
            }
            if fits(descriptor) {
                items.push((Descriptor::clone(descriptor), rule.nexthops.clone()));
            }
        }
        Page { items, next: None }
    }
}

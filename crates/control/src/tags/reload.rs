//! Other trees while the router runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use byname_forward::FaceId;
use byname_forward::tables::TreeFace;
use byname_wire::{Descriptor, TreeId};

use super::link::Link;
use super::{OwnTree, TagRouting};

impl TagRouting {
    /// Replaces all trees. A neighbour that is on a tree as before is not asked to repeat what it has said; it may have
    /// other keys from now on. What applications advertise is advertised on all new trees.
    pub fn replace_trees(&mut self, trees: Vec<OwnTree>) {
        let neighbors: BTreeMap<(TreeId, FaceId), _> = trees
            .iter()
            .flat_map(|tree| tree.neighbors.iter().map(|one| ((tree.id, one.face), one.keys.clone())))
            .collect();
        // Before the links go: without them, neighbours look like applications.
        let of_applications = self.advertised_by_applications();
        let gone: Vec<_> = self.links.keys().filter(|link| !neighbors.contains_key(link)).copied().collect();
        for (tree, face) in gone {
            self.links.remove(&(tree, face));
            self.forget(tree, face);
        }
        for ((tree, face), keys) in neighbors {
            match self.links.get_mut(&(tree, face)) {
                Some(link) => link.keys = keys,
                None => {
                    let session = self.next_session();
                    self.links.insert((tree, face), Link::new(tree, session, keys));
                }
            }
        }
        self.trees = trees;
        let ids = self.tree_ids();
        self.complete.retain(|tree| ids.contains(tree));
        for (face, descriptor, on) in of_applications {
            for tree in on.iter().filter(|tree| !ids.contains(tree)) {
                self.change(&descriptor, TreeFace { tree: *tree, face }, false);
            }
            for tree in ids.iter().filter(|tree| !on.contains(tree)) {
                self.change(&descriptor, TreeFace { tree: *tree, face }, true);
            }
        }
        self.lead_again();
        self.look_for_complete();
    }

    /// Each descriptor of each application, and the trees that it is advertised on.
    fn advertised_by_applications(&self) -> Vec<(FaceId, Arc<Descriptor>, Vec<TreeId>)> {
        let is_neighbor = |face: &FaceId| self.links.keys().any(|(_, neighbor)| neighbor == face);
        let mut all = Vec::new();
        for (face, advertised) in self.by_face.iter().filter(|(face, _)| !is_neighbor(face)) {
            let mut on = BTreeMap::<_, Vec<TreeId>>::new();
            for (tree, descriptor) in advertised {
                on.entry(descriptor.clone()).or_default().push(*tree);
            }
            all.extend(on.into_iter().map(|(descriptor, trees)| (*face, descriptor, trees)));
        }
        all
    }
}

//! The trees that a node is on.

use byname_wire::{FaceId, Locator, TreeId};

use super::table::{Port, Table};

/// A router's decision for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The packet is for the router itself.
    Deliver,
    /// The packet leaves by this face.
    Forward(FaceId),
    /// The tree is unknown, no labelling made this label, or a link of the tree is missing.
    Drop,
}

/// A router's knowledge of all its trees, with the faces of its neighbours.
#[derive(Debug, Clone, Default)]
pub struct Trees {
    /// Sorted by id.
    trees: Vec<Tree>,
}

#[derive(Debug, Clone)]
struct Tree {
    id: TreeId,
    table: Table,
    /// Indexed by [`Port::index`].
    faces: Vec<FaceId>,
}

impl Trees {
    /// A router on no tree.
    pub fn new() -> Self {
        Trees::default()
    }

    /// Adds a tree, or replaces what was known about it. Packets for a port without a face are
    /// dropped.
    pub fn set(&mut self, id: TreeId, table: Table, faces: impl IntoIterator<Item = (Port, FaceId)>) {
        let mut tree = Tree { id, table, faces: vec![FaceId::NONE; table.ports()] };
        for (port, face) in faces {
            if let Some(place) = tree.faces.get_mut(port.index()) {
                *place = face;
            }
        }
        match self.place(id) {
            Ok(place) => self.trees[place] = tree,
            Err(place) => self.trees.insert(place, tree),
        }
    }

    /// Removes a tree. Without such a tree it has no effect.
    pub fn remove(&mut self, id: TreeId) {
        if let Ok(place) = self.place(id) {
            self.trees.remove(place);
        }
    }

    /// Whether the router is on this tree.
    pub fn contains(&self, id: TreeId) -> bool {
        self.place(id).is_ok()
    }

    /// Decides about a packet with this locator that came by the face `from`, or [`FaceId::NONE`]
    /// if it begins here. A packet never goes back by its face: each neighbour on a tree has a face
    /// of its own.
    #[inline]
    pub fn forward(&self, destination: &Locator, from: FaceId) -> Next {
        let Ok(place) = self.place(destination.tree) else { return Next::Drop };
        let tree = &self.trees[place];
        let port = tree.table.forward(destination.label);
        match tree.faces.get(port.index()) {
            _ if port == Port::HERE => Next::Deliver,
            Some(&face) if face != FaceId::NONE && face != from => Next::Forward(face),
            _ => Next::Drop,
        }
    }

    #[inline]
    fn place(&self, id: TreeId) -> Result<usize, usize> {
        self.trees.binary_search_by_key(&id, |tree| tree.id)
    }
}

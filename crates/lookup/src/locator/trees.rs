//! The trees that a node is on.

use byname_wire::{FaceId, Locator, TreeId};

use super::table::{Port, Table};

/// What a router does with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It is for the router itself.
    Deliver,
    /// It leaves by this face.
    Forward(FaceId),
    /// The tree is unknown, or no labelling made this label, or a link of the tree is missing.
    Drop,
}

/// What one router knows of all its trees, with the faces that its neighbours are behind.
#[derive(Debug, Clone, Default)]
pub struct Trees {
    /// In the order of their ids.
    trees: Vec<Tree>,
}

#[derive(Debug, Clone)]
struct Tree {
    id: TreeId,
    table: Table,
    /// By [`Port::index`].
    faces: Vec<FaceId>,
}

impl Trees {
    /// On no tree.
    pub fn new() -> Self {
        Trees::default()
    }

    /// Adds a tree, or replaces what was known of it. Packets for a port without a face are dropped.
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

    /// Removes a tree; no such tree, no effect.
    pub fn remove(&mut self, id: TreeId) {
        if let Ok(place) = self.place(id) {
            self.trees.remove(place);
        }
    }

    /// Whether the router is on this tree.
    pub fn contains(&self, id: TreeId) -> bool {
        self.place(id).is_ok()
    }

    /// Where a packet with this locator goes that came by the face `from`, [`FaceId::NONE`] if it
    /// begins here. It never goes back by that face: each neighbour on a tree has a face of its own.
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

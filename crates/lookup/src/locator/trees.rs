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
    /// Sorted by id. Several numberings of one tree are in the order in which they are asked.
    trees: Vec<Tree>,
    /// Sorted by the tree's id.
    generations: Vec<Generations>,
}

/// Edges of a tree that do not change while packets with tags are on them. Each generation is a tree for these packets,
/// with an id of its own.
#[derive(Debug, Clone)]
struct Generations {
    of: TreeId,
    ids: Vec<TreeId>,
    in_service: Option<TreeId>,
}

/// One of the numberings by which a router forwards on a tree: the present one, or one that has been replaced and is
/// valid for packets that are on their way.
#[derive(Debug, Clone)]
pub struct Numbering {
    /// The first and last number that it decides about. `None`: all.
    pub claim: Option<(u32, u32)>,
    /// Forwarding table for labels with these numbers.
    pub table: Table,
    /// The faces of the ports. Packets for a port without a face are dropped.
    pub faces: Vec<(Port, FaceId)>,
}

#[derive(Debug, Clone)]
struct Tree {
    id: TreeId,
    /// First and last number that it decides about.
    claim: (u32, u32),
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
        self.set_numberings(id, [Numbering { claim: None, table, faces: faces.into_iter().collect() }]);
    }

    /// Adds a tree with several numberings, or replaces what was known about it. The first one that claims a label's number
    /// decides. Without a numbering the tree is unknown.
    pub fn set_numberings(&mut self, id: TreeId, numberings: impl IntoIterator<Item = Numbering>) {
        let trees = numberings.into_iter().map(|Numbering { claim, table, faces }| {
            let mut tree =
                Tree { id, claim: claim.unwrap_or((0, u32::MAX)), table, faces: vec![FaceId::NONE; table.ports()] };
            for (port, face) in faces {
                if let Some(place) = tree.faces.get_mut(port.index()) {
                    *place = face;
                }
            }
            tree
        });
        let (first, last) = (self.place(id), self.trees.partition_point(|tree| tree.id <= id));
        self.trees.splice(first..last, trees);
    }

    /// Replaces the generations of a tree, and the one on which packets with tags begin. Locators do not know them.
    pub fn set_generations(&mut self, of: TreeId, ids: impl IntoIterator<Item = TreeId>, in_service: Option<TreeId>) {
        self.generations.retain(|one| one.of != of);
        let ids: Vec<TreeId> = ids.into_iter().collect();
        if !ids.is_empty() {
            let place = self.generations.partition_point(|one| one.of < of);
            self.generations.insert(place, Generations { of, ids, in_service });
        }
    }

    /// The generation on which packets with tags for a tree begin. `None`: they follow the tree itself.
    #[inline]
    pub fn in_service(&self, tree: TreeId) -> Option<TreeId> {
        // At most eight trees have generations.
        self.generations.iter().find(|one| one.of == tree)?.in_service
    }

    /// Removes a tree. Without such a tree it has no effect.
    pub fn remove(&mut self, id: TreeId) {
        self.trees.retain(|tree| tree.id != id);
        self.generations.retain(|one| one.of != id);
    }

    /// Whether the router is on this tree, or has this generation of one.
    pub fn contains(&self, id: TreeId) -> bool {
        self.trees.get(self.place(id)).is_some_and(|tree| tree.id == id)
            || self.generations.iter().any(|one| one.of == id || one.ids.contains(&id))
    }

    /// Decides about a packet with this locator that came by the face `from`, or [`FaceId::NONE`]
    /// if it begins here. A packet never goes back by its face: each neighbour on a tree has a face
    /// of its own.
    #[inline]
    pub fn forward(&self, destination: &Locator, from: FaceId) -> Next {
        let mut of_tree =
            self.trees[self.place(destination.tree)..].iter().take_while(|tree| tree.id == destination.tree);
        let number = destination.label.node();
        let Some(tree) = of_tree.find(|tree| tree.claim.0 <= number && number <= tree.claim.1) else {
            return Next::Drop;
        };
        let port = tree.table.forward(destination.label);
        match tree.faces.get(port.index()) {
            _ if port == Port::HERE => Next::Deliver,
            Some(&face) if face != FaceId::NONE && face != from => Next::Forward(face),
            _ => Next::Drop,
        }
    }

    /// Place of the tree's first numbering, or where it would be.
    #[inline]
    fn place(&self, id: TreeId) -> usize {
        self.trees.partition_point(|tree| tree.id < id)
    }
}

#[cfg(test)]
mod tests {
    use byname_wire::Label;

    use super::*;

    const TREE: TreeId = TreeId(3);

    #[test]
    fn packets_with_tags_begin_on_the_generation_in_service() {
        let mut trees = Trees::new();
        trees.set(TREE, Table::new(Label::new(0), 0, 0, 0, false), []);
        assert_eq!(trees.in_service(TREE), None);
        trees.set_generations(TREE, [TreeId(11), TreeId(19)], Some(TreeId(19)));
        assert_eq!((trees.in_service(TREE), trees.in_service(TreeId(19))), (Some(TreeId(19)), None));
        assert!(trees.contains(TreeId(11)) && trees.contains(TreeId(19)) && !trees.contains(TreeId(27)));
        let locator = |tree| Locator { tree, label: Label::new(0) };
        assert_eq!(trees.forward(&locator(TREE), FaceId::NONE), Next::Deliver);
        assert_eq!(trees.forward(&locator(TreeId(19)), FaceId::NONE), Next::Drop, "they are no trees of locators");
        trees.set_generations(TREE, [TreeId(11)], None);
        assert!(trees.contains(TreeId(11)) && !trees.contains(TreeId(19)) && trees.in_service(TREE).is_none());
        trees.set_generations(TREE, [], None);
        assert!(!trees.contains(TreeId(11)) && trees.contains(TREE));
        trees.set_generations(TREE, [TreeId(11)], None);
        trees.remove(TREE);
        assert!(!trees.contains(TreeId(11)) && !trees.contains(TREE));
    }

    #[test]
    fn the_first_numbering_that_claims_a_number_decides() {
        let numbering = |claim, first: u32, face: u64| Numbering {
            claim,
            table: Table::new(Label::new(first), 10, 5, 1, true),
            faces: vec![
                (Port::PARENT, FaceId(face)),
                (Port::HEAVY, FaceId(face + 1)),
                (Port::light(1), FaceId(face + 2)),
                // It has no such port.
                (Port::light(2), FaceId(face + 3)),
            ],
        };
        let mut trees = Trees::new();
        trees.set(TreeId(4), Table::new(Label::new(0), 0, 0, 0, true), [(Port::PARENT, FaceId(900))]);
        trees.set_numberings(TREE, [numbering(Some((100, 110)), 100, 300), numbering(None, 200, 400)]);
        let next = |trees: &Trees, label| trees.forward(&Locator { tree: TREE, label }, FaceId::NONE);
        let light = |of: u32| Label::new(of).light_child(of + 1, 1).unwrap();
        for (label, expected) in [
            (Label::new(100), Next::Deliver),
            (Label::new(107), Next::Forward(FaceId(301))),
            (light(100), Next::Forward(FaceId(302))),
            (Label::new(99), Next::Forward(FaceId(400))),
            (Label::new(111), Next::Forward(FaceId(400))),
            (Label::new(200), Next::Deliver),
            (Label::new(206), Next::Forward(FaceId(401))),
            (light(200), Next::Forward(FaceId(402))),
            (Label::new(200).light_child(201, 2).unwrap(), Next::Drop),
        ] {
            assert_eq!(next(&trees, label), expected, "{label:?}");
        }
        trees.set_numberings(TREE, [numbering(None, 200, 400)]);
        assert_eq!(next(&trees, Label::new(100)), Next::Forward(FaceId(400)), "the earlier one is over");
        trees.set_numberings(TREE, [numbering(Some((1, 2)), 1, 300)]);
        assert_eq!(next(&trees, Label::new(3)), Next::Drop);
        trees.set_numberings(TREE, []);
        assert!(!trees.contains(TREE) && trees.contains(TreeId(4)));
    }
}

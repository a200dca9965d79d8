//! Routers that know one tree, each by its own table only.

use byname_lookup::locator::{Graph, Labelling, Next, SpanningTree, Trees};
use byname_wire::{FaceId, Label, Locator, TreeId};

/// A tree of all routers, under this id.
pub const TREE: TreeId = TreeId(7);

pub struct Network {
    pub labelling: Labelling,
    /// By node of the graph.
    routers: Vec<Trees>,
}

/// How a packet ended, and all nodes that it visited.
#[derive(Debug, PartialEq, Eq)]
pub struct Journey {
    pub nodes: Vec<usize>,
    pub delivered: bool,
}

impl Network {
    pub fn new(graph: &Graph, root: usize) -> Self {
        let labelling = Labelling::new(SpanningTree::breadth_first(graph, root));
        let router = |node| {
            let mut trees = Trees::new();
            if let Some(table) = labelling.table(node) {
                let face = |neighbor| FaceId(FaceId::FIRST.0 + neighbor as u64);
                trees.set(TREE, table, labelling.neighbors(node).map(|(port, neighbor)| (port, face(neighbor))));
            }
            trees
        };
        let routers = (0..graph.nodes()).map(router).collect();
        Network { labelling, routers }
    }

    /// Follows a packet until a router delivers or drops it.
    pub fn walk(&self, from: usize, label: Label) -> Journey {
        let locator = Locator { tree: TREE, label };
        let mut nodes = vec![from];
        let mut came_from = FaceId::NONE;
        loop {
            let here = nodes[nodes.len() - 1];
            let face = match self.routers[here].forward(&locator, came_from) {
                Next::Deliver => return Journey { nodes, delivered: true },
                Next::Drop => return Journey { nodes, delivered: false },
                Next::Forward(face) => face,
            };
            assert!(nodes.len() < self.routers.len(), "{label:?} from {from} loops: {nodes:?}");
            nodes.push((face.0 - FaceId::FIRST.0) as usize);
            came_from = FaceId(FaceId::FIRST.0 + here as u64);
        }
    }

    /// The nodes on the tree.
    pub fn nodes(&self) -> impl Iterator<Item = usize> {
        self.labelling.tree().nodes().iter().map(|&node| node as usize)
    }
}

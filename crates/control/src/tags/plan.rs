//! Static routing by locators: trees over the network's graph. All routers compute the same trees from the same file.

use std::path::{Path, PathBuf};

use byname_lookup::locator::topology::ReadError;
use byname_lookup::locator::{Graph, Labelling, Port, SpanningTree, Table, Topology};
use byname_wire::{Label, TreeId};
use thiserror::Error;

/// The network's graph and its trees.
#[derive(Debug, Clone)]
pub struct Plan {
    topology: Topology,
    trees: Vec<(TreeId, Labelling)>,
}

/// A router's place on one tree.
#[derive(Debug, Clone)]
pub struct Place {
    /// The tree.
    pub tree: TreeId,
    /// The router's label.
    pub label: Label,
    /// Forwarding table for locators.
    pub table: Table,
    /// Its neighbours on the tree, as node numbers, the parent first.
    pub neighbors: Vec<(Port, usize)>,
}

/// Why a plan or a place in it could not be determined.
#[derive(Debug, Error)]
pub enum PlanError {
    /// The file cannot be read.
    #[error("cannot read the graph {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file contains no valid graph.
    #[error("{}, {source}", path.display())]
    Graph {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: ReadError,
    },
    /// Not exactly one node has this name.
    #[error("the graph has {count} nodes named \"{name}\"{}", similar(nearest.as_deref()))]
    Node {
        /// The name.
        name: String,
        /// Number of nodes with this name.
        count: usize,
        /// A similar name.
        nearest: Option<String>,
    },
    /// A node cannot be reached from the root of a tree.
    #[error("tree {} does not reach the node \"{name}\"", tree.0)]
    Unreached {
        /// The tree.
        tree: TreeId,
        /// The node.
        name: String,
    },
}

fn similar(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; is it \"{name}\"?")).unwrap_or_default()
}

impl Plan {
    /// A network of this router alone, on tree 1.
    pub fn alone() -> Self {
        let graph = Graph::new(1, &[]).expect("one node");
        let tree = Labelling::new(SpanningTree::breadth_first(&graph, 0));
        Plan { topology: Topology { graph, names: vec![String::new()] }, trees: vec![(TreeId(1), tree)] }
    }

    /// Reads a graph: GML if the file name ends in `.gml`, and otherwise one edge per line.
    ///
    /// # Errors
    /// If the file cannot be read, or has no valid graph.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let text = std::fs::read_to_string(path).map_err(|source| PlanError::File { path: path.to_owned(), source })?;
        let is_gml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gml"));
        let topology = if is_gml { Topology::from_gml(&text) } else { Topology::from_edge_list(&text) };
        let topology = topology.map_err(|source| PlanError::Graph { path: path.to_owned(), source })?;
        Ok(Plan { topology, trees: Vec::new() })
    }

    /// Adds a tree of shortest paths from `root`.
    ///
    /// # Errors
    /// If the node does not exist.
    pub fn add_tree(&mut self, tree: TreeId, root: &str) -> Result<(), PlanError> {
        let root = self.node(root)?;
        self.trees.push((tree, Labelling::new(SpanningTree::breadth_first(&self.topology.graph, root))));
        Ok(())
    }

    /// Number of nodes in the network.
    pub fn nodes(&self) -> usize {
        self.topology.graph.nodes()
    }

    /// Number of the node with this name.
    ///
    /// # Errors
    /// If not exactly one node has this name.
    pub fn node(&self, name: &str) -> Result<usize, PlanError> {
        let mut named = self.topology.names.iter().enumerate().filter(|(_, other)| *other == name).map(|(i, _)| i);
        match (named.next(), named.count()) {
            (Some(node), 0) => Ok(node),
            (first, more) => {
                let likeness = |other: &&String| (strsim::jaro_winkler(name, other) * 1e6) as u64;
                let nearest = self.topology.names.iter().filter(|other| *other != name).max_by_key(likeness);
                Err(PlanError::Node {
                    name: name.to_owned(),
                    count: usize::from(first.is_some()) + more,
                    nearest: nearest.filter(|_| first.is_none()).cloned(),
                })
            }
        }
    }

    /// The name of a node.
    pub fn name(&self, node: usize) -> &str {
        &self.topology.names[node]
    }

    /// A router's place on each tree.
    ///
    /// # Errors
    /// If a tree does not reach the router.
    pub fn places(&self, node: usize) -> Result<Vec<Place>, PlanError> {
        let place = |(tree, labelling): &(TreeId, Labelling)| {
            let (Some(label), Some(table)) = (labelling.label(node), labelling.table(node)) else {
                return Err(PlanError::Unreached { tree: *tree, name: self.name(node).to_owned() });
            };
            Ok(Place { tree: *tree, label, table, neighbors: labelling.neighbors(node).collect() })
        };
        self.trees.iter().map(place).collect()
    }
}

//! Trees over the network's graph, which all routers compute alike from the same file: the static
//! routing of locators.

use std::path::{Path, PathBuf};

use byname_lookup::locator::topology::ReadError;
use byname_lookup::locator::{Graph, Labelling, Port, SpanningTree, Table, Topology};
use byname_wire::{Label, TreeId};
use thiserror::Error;

/// The network, and the trees over it.
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
    /// What it forwards by.
    pub table: Table,
    /// Its neighbours on the tree, by the node's number, the parent first.
    pub neighbors: Vec<(Port, usize)>,
}

/// Why there is no plan, or no place in it.
#[derive(Debug, Error)]
pub enum PlanError {
    /// The file cannot be read.
    #[error("cannot read the graph {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file holds no graph.
    #[error("{}, {source}", path.display())]
    Graph {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ReadError,
    },
    /// No node has this name, or several have.
    #[error("the graph has {count} nodes named \"{name}\"{}", similar(nearest.as_deref()))]
    Node {
        /// The name.
        name: String,
        /// How many.
        count: usize,
        /// A name that looks like it.
        nearest: Option<String>,
    },
    /// A node that cannot be reached from a root.
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
    /// A network of one router, on tree 1.
    pub fn alone() -> Self {
        let graph = Graph::new(1, &[]).expect("one node");
        let tree = Labelling::new(SpanningTree::breadth_first(&graph, 0));
        Plan { topology: Topology { graph, names: vec![String::new()] }, trees: vec![(TreeId(1), tree)] }
    }

    /// Reads a graph: GML if the file is called so, else an edge a line.
    ///
    /// # Errors
    /// If there is none in the file.
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
    /// If there is no such node.
    pub fn add_tree(&mut self, tree: TreeId, root: &str) -> Result<(), PlanError> {
        let root = self.node(root)?;
        self.trees.push((tree, Labelling::new(SpanningTree::breadth_first(&self.topology.graph, root))));
        Ok(())
    }

    /// Nodes of the network.
    pub fn nodes(&self) -> usize {
        self.topology.graph.nodes()
    }

    /// The number of a node.
    ///
    /// # Errors
    /// If not exactly one has this name.
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
    /// If a tree does not reach it.
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

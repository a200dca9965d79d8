//! Readers for graphs: lists of edges, and GML.

mod edge_list;
mod gml;
#[cfg(test)]
mod tests;

use thiserror::Error;

use super::graph::{Graph, GraphError};

/// A graph whose nodes have names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// The graph.
    pub graph: Graph,
    /// The names of its nodes. In GML two nodes may have the same name, because nodes are
    /// identified by their ids.
    pub names: Vec<String>,
}

/// A text that is not a graph.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadError {
    /// A line with wrong syntax.
    #[error("line {line}: {what}")]
    Syntax {
        /// Number of the line, counted from 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// An edge ends at a node that does not exist.
    #[error("line {line}: there is no node {id}")]
    NoSuchNode {
        /// The edge's line.
        line: usize,
        /// The node.
        id: i64,
    },
    /// Two nodes have the same id.
    #[error("line {line}: there is a node {id} already")]
    SecondNode {
        /// The second node's line.
        line: usize,
        /// The id.
        id: i64,
    },
    /// The graph is too large.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl Topology {
    /// Reads one edge a line: the names of two nodes, which are any words or numbers, separated by
    /// white space or a comma. Empty lines, and lines that begin with `#` or `%`, are skipped.
    ///
    /// # Errors
    /// If a line has any other form.
    pub fn from_edge_list(text: &str) -> Result<Self, ReadError> {
        edge_list::read(text)
    }

    /// Reads the Graph Modelling Language [Himsolt, "GML: A portable Graph File Format", 1997]: the
    /// ids and labels of a graph's nodes, and its edges. Everything else is skipped. A node without
    /// a label gets its id as its name.
    ///
    /// # Errors
    /// If the text is not GML, has no graph or several, or has an edge that ends at no node.
    pub fn from_gml(text: &str) -> Result<Self, ReadError> {
        gml::read(text)
    }
}

//! Graphs as people write them down: lists of edges, and GML.

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
    /// The names of its nodes. Two nodes may have the same in GML, whose nodes go by their ids.
    pub names: Vec<String>,
}

/// Why a text is no graph.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadError {
    /// A line that does not belong there.
    #[error("line {line}: {what}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// An edge ends at a node that is not there.
    #[error("line {line}: there is no node {id}")]
    NoSuchNode {
        /// Of the edge.
        line: usize,
        /// The node.
        id: i64,
    },
    /// Two nodes have one id.
    #[error("line {line}: there is a node {id} already")]
    SecondNode {
        /// Of the second.
        line: usize,
        /// The id.
        id: i64,
    },
    /// The graph is too large.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl Topology {
    /// Reads an edge a line: the names of two nodes, any words or numbers, with space or a comma
    /// between. Empty lines, and lines that begin with `#` or `%`, are comments.
    ///
    /// # Errors
    /// If a line is anything else.
    pub fn from_edge_list(text: &str) -> Result<Self, ReadError> {
        edge_list::read(text)
    }

    /// Reads the Graph Modelling Language [Himsolt, "GML: A portable Graph File Format", 1997]: the
    /// ids and labels of a graph's nodes, and its edges; all else is skipped. A node without a label
    /// has its id for a name.
    ///
    /// # Errors
    /// If the text is no GML, has no graph or more than one, or an edge ends at no node.
    pub fn from_gml(text: &str) -> Result<Self, ReadError> {
        gml::read(text)
    }
}

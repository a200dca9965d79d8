//! The trees of a graph, with all labels and tables.

use anyhow::ensure;
use byname_lookup::locator::{Graph, Labelling, SpanningTree, Table};
use byname_wire::Label;

use super::record::LabelBits;

/// Several trees over the same nodes.
pub struct Forest {
    /// Nodes on every tree: those reachable from the node with the most edges.
    pub nodes: Vec<u32>,
    pub labellings: Vec<Labelling>,
}

impl Forest {
    /// Grows trees of shortest paths from the nodes with the most edges, all in one component of the graph.
    ///
    /// # Errors
    /// If that component has fewer nodes than the number of trees.
    pub fn grow(graph: &Graph, trees: u32) -> anyhow::Result<Self> {
        ensure!(graph.nodes() > 0, "the graph has no nodes");
        let degree = |node: u32| graph.neighbors(node as usize).len();
        let all = 0..graph.nodes() as u32;
        let hub = all.max_by_key(|&node| (degree(node), std::cmp::Reverse(node))).unwrap_or_default();
        let first = SpanningTree::breadth_first(graph, hub as usize);
        let nodes = first.nodes().to_vec();
        ensure!(nodes.len() >= trees as usize, "{trees} trees need as many roots; there are {} nodes", nodes.len());
        let mut roots = nodes.clone();
        roots.sort_by_key(|&node| (std::cmp::Reverse(degree(node)), node));
        let others = roots[1..trees as usize].iter().map(|&root| SpanningTree::breadth_first(graph, root as usize));
        let labellings = std::iter::once(first).chain(others).map(Labelling::new).collect();
        Ok(Forest { nodes, labellings })
    }

    /// The label of a node on one tree.
    pub fn label(&self, tree: usize, node: usize) -> Label {
        self.labellings[tree].label(node).expect("every tree has these nodes")
    }

    /// The tables of all nodes of the graph, tree by tree. A node that is on no tree gets an arbitrary table.
    pub fn tables(&self) -> Vec<Table> {
        let any = self.labellings[0].table(self.nodes[0] as usize).expect("the root is on its tree");
        let of_tree = |labelling: &Labelling| {
            (0..labelling.tree().graph_nodes()).map(|node| labelling.table(node).unwrap_or(any)).collect::<Vec<_>>()
        };
        self.labellings.iter().flat_map(of_tree).collect()
    }

    /// Maximum distance of a node from the root, in hops.
    pub fn depth_max(&self) -> usize {
        let depth = |labelling: &Labelling| {
            let tree = labelling.tree();
            // Breadth-first search reaches the farthest nodes last.
            let last = *tree.nodes().last().expect("a tree has a root") as usize;
            tree.path(tree.root(), last).map_or(0, |path| path.len() - 1)
        };
        self.labellings.iter().map(depth).max().unwrap_or_default()
    }

    /// Sizes of the labels.
    pub fn label_bits(&self) -> LabelBits {
        let labels = || {
            let trees = 0..self.labellings.len();
            trees.flat_map(|tree| self.nodes.iter().map(move |&node| self.label(tree, node as usize)))
        };
        let number_bits = (self.nodes.len() - 1).checked_ilog2().map_or(0, |bits| bits + 1);
        LabelBits {
            label_bits_max: labels().map(Label::bits).max().unwrap_or_default(),
            label_bits_mean: labels().map(|label| f64::from(label.bits())).sum::<f64>() / labels().count() as f64,
            label_bits_max_paper: number_bits + labels().map(|label| 2 * label.port_bits()).max().unwrap_or_default(),
        }
    }
}

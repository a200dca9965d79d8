//! Computes the labels and tables of all nodes of a tree.

use std::cmp::Reverse;

use byname_wire::Label;

use super::table::{Port, Table};
use super::tree::SpanningTree;

/// A labelled tree.
#[derive(Debug, Clone)]
pub struct Labelling {
    tree: SpanningTree,
    /// Indexed by node of the graph, like the next two fields. `None` if the node is not on the
    /// tree.
    labels: Vec<Option<Label>>,
    tables: Vec<Option<Table>>,
    /// Index of each node's first child in `children`.
    first_child: Vec<usize>,
    /// The children of each node are consecutive: the heavy child, then the light ones in the order
    /// of their ports.
    children: Vec<u32>,
}

impl Labelling {
    /// Labels a tree. Time and memory grow linearly with the nodes, except for sorting siblings.
    pub fn new(tree: SpanningTree) -> Self {
        let sizes = subtree_sizes(&tree);
        let nodes = tree.graph_nodes();
        let mut labelling = Labelling {
            labels: vec![None; nodes],
            tables: vec![None; nodes],
            first_child: vec![0; nodes],
            children: tree.nodes()[1..].to_vec(),
            tree,
        };
        labelling.labels[labelling.tree.root()] = Some(Label::new(0));
        let mut first_child = 0;
        for i in 0..labelling.tree.nodes().len() {
            let node = labelling.tree.nodes()[i] as usize;
            first_child += labelling.add(node, first_child, &sizes);
        }
        labelling
    }

    /// The tree.
    pub fn tree(&self) -> &SpanningTree {
        &self.tree
    }

    /// The label that packets to this node carry. `None` if the node is not on the tree.
    pub fn label(&self, node: usize) -> Option<Label> {
        *self.labels.get(node)?
    }

    /// The table by which this node forwards. `None` if the node is not on the tree.
    pub fn table(&self, node: usize) -> Option<Table> {
        *self.tables.get(node)?
    }

    /// A node's neighbours on the tree, each with its port.
    pub fn neighbors(&self, node: usize) -> impl Iterator<Item = (Port, usize)> {
        let parent = self.tree.parent(node).map(|parent| (Port::PARENT, parent));
        let ports = std::iter::once(Port::HEAVY).chain((1..).map(Port::light));
        parent.into_iter().chain(ports.zip(self.children(node).iter().map(|&child| child as usize)))
    }

    /// The neighbour of a node at a port.
    pub fn neighbor(&self, node: usize, port: Port) -> Option<usize> {
        match port {
            Port::HERE => None,
            Port::PARENT => self.tree.parent(node),
            _ => self.children(node).get(port.index() - Port::HEAVY.index()).map(|&child| child as usize),
        }
    }

    fn children(&self, node: usize) -> &[u32] {
        let Some(table) = self.table(node) else { return &[] };
        &self.children[self.first_child[node]..][..table.children() as usize]
    }

    /// Labels the children of a node, which begin at `first_child`, and fills the node's table.
    /// Returns the number of its children.
    fn add(&mut self, node: usize, first_child: usize, sizes: &[u32]) -> usize {
        let label = self.labels[node].expect("the tree's order has parents before their children");
        let is_child = |child: &&u32| self.tree.parent(**child as usize) == Some(node);
        let count = self.children[first_child..].iter().take_while(is_child).count();
        let children = &mut self.children[first_child..first_child + count];
        children.sort_unstable_by_key(|&child| (Reverse(sizes[child as usize]), child));
        let mut number = label.node() + 1;
        for (port, &child) in (1..).zip(children.iter().skip(1)) {
            let light = label.light_child(number, port);
            // There are fewer than 2^32 nodes, so the list is short enough: see the module's
            // documentation.
            self.labels[child as usize] = Some(light.expect("a port list has at most log2 n bits"));
            number += sizes[child as usize];
        }
        if let Some(&heavy) = children.first() {
            self.labels[heavy as usize] = Some(label.heavy_child(number));
        }
        self.first_child[node] = first_child;
        self.tables[node] = Some(Table {
            node: label.node(),
            descendants: sizes[node] - 1,
            light_descendants: number - label.node() - 1,
            light_children: count.saturating_sub(1) as u32,
            port_bits: label.port_bits(),
            up: if node == self.tree.root() { Port::NOWHERE } else { Port::PARENT },
        });
        count
    }
}

/// The size of each node's subtree, including the node, by node of the graph.
fn subtree_sizes(tree: &SpanningTree) -> Vec<u32> {
    let mut sizes = vec![1; tree.graph_nodes()];
    for &node in tree.nodes().iter().rev() {
        if let Some(parent) = tree.parent(node as usize) {
            sizes[parent] += sizes[node as usize];
        }
    }
    sizes
}

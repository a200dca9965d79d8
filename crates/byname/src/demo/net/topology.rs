//! The shape of a network: which router is linked to which.

use std::collections::VecDeque;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use byname_lookup::locator::{Graph, Topology};

/// Most routers of a network: each is a process.
pub const ROUTERS_MAX: usize = 200;
/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Longest label that is shown, in characters.
const LABEL_MAX: usize = 24;

/// A network's graph, and what its nodes are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    pub graph: Graph,
    /// What the file calls each node. Empty: nothing.
    pub labels: Vec<String>,
}

impl Shape {
    /// The shape of this word, or from this file, with so many routers.
    ///
    /// # Errors
    /// If there is no such file, it is no graph, or its size does not fit.
    pub fn new(topology: &str, count: Option<usize>) -> anyhow::Result<Shape> {
        let count_or = |usual| count.unwrap_or(usual);
        let shape = match topology {
            "line" => regular(count_or(5), line),
            "ring" => regular(count_or(5), ring),
            "grid" => regular(count_or(9), grid),
            file => from_file(Path::new(file), count)?,
        };
        let count = shape.graph.nodes();
        ensure!(count >= 2, "a network has at least two routers, and not {count}");
        ensure!(
            count <= ROUTERS_MAX,
            "{count} routers are too many for one machine: at most {ROUTERS_MAX}; give their number to take a part"
        );
        Ok(shape)
    }

    /// Distances of all nodes from one, in links. `None`: there is no way.
    pub fn distances(&self, from: usize) -> Vec<Option<u32>> {
        let mut distances = vec![None; self.graph.nodes()];
        distances[from] = Some(0);
        let mut waiting = VecDeque::from([from]);
        while let Some(node) = waiting.pop_front() {
            let next = distances[node].map(|distance| distance + 1);
            for &neighbor in self.graph.neighbors(node) {
                let neighbor = neighbor as usize;
                if distances[neighbor].is_none() {
                    distances[neighbor] = next;
                    waiting.push_back(neighbor);
                }
            }
        }
        distances
    }

    /// The links, each once.
    pub fn links(&self) -> impl Iterator<Item = (usize, usize)> {
        let of = |node: usize| self.graph.neighbors(node).iter().map(move |&other| (node, other as usize));
        (0..self.graph.nodes()).flat_map(of).filter(|(a, b)| a < b)
    }

    /// The part of `count` nodes around the first one.
    fn around_first(&self, count: usize) -> anyhow::Result<Shape> {
        let distances = self.distances(0);
        let mut nodes: Vec<usize> = (0..self.graph.nodes()).filter(|node| distances[*node].is_some()).collect();
        nodes.sort_by_key(|node| distances[*node]);
        ensure!(count <= nodes.len(), "the file has {} routers that are linked, and not {count}", nodes.len());
        nodes.truncate(count);
        let number = |node: usize| nodes.iter().position(|known| *known == node);
        let edges: Vec<(u32, u32)> =
            self.links().filter_map(|(a, b)| Some((number(a)? as u32, number(b)? as u32))).collect();
        Ok(Shape {
            graph: Graph::new(count, &edges)?,
            labels: nodes.iter().map(|node| self.labels[*node].clone()).collect(),
        })
    }
}

fn regular(count: usize, edges: impl Fn(u32) -> Vec<(u32, u32)>) -> Shape {
    let edges = edges(u32::try_from(count).unwrap_or(u32::MAX));
    let graph = Graph::new(count, &edges).expect("edges of these nodes");
    Shape { graph, labels: vec![String::new(); count] }
}

fn line(count: u32) -> Vec<(u32, u32)> {
    (1..count).map(|node| (node - 1, node)).collect()
}

fn ring(count: u32) -> Vec<(u32, u32)> {
    (0..count).map(|node| (node, (node + 1) % count)).collect()
}

/// As square as can be. The last row may be shorter.
fn grid(count: u32) -> Vec<(u32, u32)> {
    let wide = (1..).find(|wide| wide * wide >= count).unwrap_or(count);
    let right = (0..count).filter(|node| (node + 1) % wide != 0).map(|node| (node, node + 1));
    let down = (0..count).map(|node| (node, node + wide));
    right.chain(down).filter(|(_, to)| *to < count).collect()
}

fn from_file(path: &Path, count: Option<usize>) -> anyhow::Result<Shape> {
    let shown = path.display();
    let cannot_read = || format!("{shown} is neither line, ring or grid, nor a file that can be read");
    let size = std::fs::metadata(path).with_context(cannot_read)?.len();
    if size > FILE_BYTES_MAX {
        bail!("{shown} is too large: {size} bytes, at most {FILE_BYTES_MAX}");
    }
    let text = std::fs::read_to_string(path).with_context(cannot_read)?;
    let is = |wanted: &str| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted));
    let topology = if is("graphml") {
        super::graphml::read(&text)
    } else if is("gml") {
        Topology::from_gml(&text).map_err(Into::into)
    } else {
        Topology::from_edge_list(&text).map_err(Into::into)
    };
    let Topology { graph, names } = topology.with_context(|| format!("{shown} is no graph"))?;
    let shape = Shape { graph, labels: names.iter().map(|name| plain(name)).collect() };
    match count {
        Some(count) if count != shape.graph.nodes() => shape.around_first(count),
        _ => Ok(shape),
    }
}

/// A label without what a terminal or a page would take for something else.
fn plain(label: &str) -> String {
    label
        .chars()
        .filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '.' | '_'))
        .take(LABEL_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(topology: &str, count: usize) -> Vec<(usize, usize)> {
        Shape::new(topology, Some(count)).expect("a shape").links().collect()
    }

    #[test]
    fn regular_shapes() {
        assert_eq!(links("line", 3), [(0, 1), (1, 2)]);
        assert_eq!(links("ring", 4), [(0, 1), (0, 3), (1, 2), (2, 3)]);
        assert_eq!(links("ring", 2), [(0, 1)]);
        assert_eq!(links("grid", 5), [(0, 1), (0, 3), (1, 2), (1, 4), (3, 4)]);
        assert_eq!(Shape::new("ring", Some(6)).expect("a ring").distances(0), [0, 1, 2, 3, 2, 1].map(Some));
        for (topology, count) in [("line", 0), ("line", 1), ("grid", ROUTERS_MAX + 1), ("no-such-file", 5)] {
            assert!(Shape::new(topology, Some(count)).is_err(), "{topology} {count}");
        }
    }

    #[test]
    fn files_give_names_and_may_be_cut() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            path.display().to_string()
        };
        let gml = "graph [ node [ id 0 label \"Gen\u{1b}[2J<b>\" ] node [ id 1 label \"Zurich\" ] node [ id 2 ] \
                   edge [ source 0 target 1 ] ]";
        let shape = Shape::new(&file("a.gml", gml), None).expect("a graph");
        assert_eq!(shape.labels, ["Gen2Jb", "Zurich", "2"]);
        assert_eq!(shape.distances(0), [Some(0), Some(1), None]);
        let edges = file("b.txt", "a b\nb c\nc d\nd a\nx y\n");
        let part = Shape::new(&edges, Some(3)).expect("a part");
        assert_eq!(part.labels, ["a", "b", "d"]);
        assert_eq!(part.links().collect::<Vec<_>>(), [(0, 1), (0, 2)]);
        assert!(Shape::new(&edges, Some(5)).is_err(), "only four are linked to the first");
        for bad in ["graph [", "node", ""] {
            assert!(Shape::new(&file("c.gml", bad), None).is_err(), "{bad}");
        }
    }
}

//! Graphs of routers: generated from a seed, or read from files.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use byname_lookup::locator::{Graph, Topology};
use flate2::read::GzDecoder;

use super::{Random, text};

/// Maximum number of edges per node of a generated graph.
const EDGES_PER_NODE_MAX: u64 = 64;
/// Maximum size of one file in an archive, in bytes.
const BYTES_MAX: u64 = 1 << 26;

/// Generates a connected graph with about the degrees of the AS-level Internet, which [TagNet §3.3] labels. Each node
/// connects to earlier nodes, drawn in proportion to their edges [Barabási and Albert, "Emergence of scaling in random
/// networks", 1999]. The number of edges per node is chosen so that the total is `edges`.
///
/// # Errors
/// If a connected graph of `nodes` nodes cannot have `edges` edges, or if there are more than 64 edges per node.
pub fn power_law(nodes: u64, edges: u64, seed: u64) -> anyhow::Result<Graph> {
    ensure!(nodes > 0 && nodes <= u64::from(u32::MAX), "a graph has 1 to 2^32 - 1 nodes");
    let pairs = u128::from(nodes) * u128::from(nodes - 1) / 2;
    let edges_max = u64::try_from(pairs).unwrap_or(u64::MAX).min(nodes * EDGES_PER_NODE_MAX);
    ensure!(
        (nodes - 1..=edges_max).contains(&edges),
        "a connected graph of {nodes} nodes needs {} to {edges_max} edges",
        nodes - 1
    );
    let mut random = Random::of(seed, nodes);
    let mut made: Vec<(u32, u32)> = Vec::with_capacity(edges as usize);
    for node in 1..nodes {
        let by_now = (u128::from(edges) * u128::from(node) / u128::from(nodes - 1)) as usize;
        let own = made.len();
        // The first nodes have too few nodes before them. Later nodes make up for it.
        let count = by_now.saturating_sub(own).clamp(1, node as usize);
        while made.len() < own + count {
            // Each edge counts once for either end. Node 0 counts once more, because it begins without edges.
            let other = match random.below(2 * own as u64 + 1) {
                0 => 0,
                end if end % 2 == 0 => made[end as usize / 2 - 1].0,
                end => made[end as usize / 2].1,
            };
            if made[own..].iter().all(|edge| edge.1 != other) {
                made.push((node as u32, other));
            }
        }
    }
    Ok(Graph::new(nodes as usize, &made)?)
}

/// Reads a graph: GML if the file ends in `.gml`, otherwise one edge per line. Both may be compressed (`.xz`).
///
/// # Errors
/// If the file cannot be read or does not contain a graph.
pub fn read(path: &Path) -> anyhow::Result<Graph> {
    let bytes = text::read(path)?;
    let text = str::from_utf8(&bytes).with_context(|| format!("{} is not UTF-8", path.display()))?;
    let ends_in = |path: &Path, end| path.extension().is_some_and(|extension| extension == end);
    let is_gml = if ends_in(path, "xz") { ends_in(&path.with_extension(""), "gml") } else { ends_in(path, "gml") };
    let topology = if is_gml { Topology::from_gml(text) } else { Topology::from_edge_list(text) };
    Ok(topology.with_context(|| format!("{} is not a graph", path.display()))?.graph)
}

/// Reads every graph of a `.tar.gz` archive of GML files, such as the Topology Zoo. Returns each with the name of its
/// file.
///
/// # Errors
/// If the archive cannot be read or a file does not contain a graph.
pub fn read_archive(path: &Path) -> anyhow::Result<Vec<(String, Graph)>> {
    let file = File::open(path).with_context(|| super::cannot_read(path))?;
    let mut archive = tar::Archive::new(GzDecoder::new(file));
    let mut graphs = Vec::new();
    for entry in archive.entries()? {
        let entry = entry.with_context(|| format!("cannot read {}", path.display()))?;
        let name = entry.path()?.display().to_string();
        if !name.ends_with(".gml") {
            continue;
        }
        let mut text = String::new();
        entry.take(BYTES_MAX).read_to_string(&mut text).with_context(|| format!("cannot read {name}"))?;
        graphs.push((name.clone(), Topology::from_gml(&text).with_context(|| format!("{name} is not a graph"))?.graph));
    }
    Ok(graphs)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use byname_lookup::locator::SpanningTree;

    use super::*;

    #[test]
    fn graphs_have_the_size_asked_for_and_one_part() {
        for (nodes, edges) in [(1, 0), (2, 1), (10, 9), (10, 45), (1000, 999), (42_113, 118_040)] {
            let graph = power_law(nodes, edges, 7).expect("a possible size");
            assert_eq!((graph.nodes() as u64, graph.edges() as u64), (nodes, edges));
            assert_eq!(SpanningTree::breadth_first(&graph, 0).nodes().len() as u64, nodes);
        }
    }

    #[test]
    fn a_few_nodes_have_most_edges() {
        let graph = power_law(42_113, 118_040, 1).expect("a possible size");
        let mut degrees: Vec<_> = (0..graph.nodes()).map(|node| graph.neighbors(node).len()).collect();
        degrees.sort_unstable_by(|a, b| b.cmp(a));
        assert!(degrees[0] > 400, "{}", degrees[0]);
        let top: usize = degrees[..421].iter().sum();
        // By the power law of this model, one node in a hundred has a tenth of the 236,080 edge ends.
        assert!((23_608..30_000).contains(&top), "{top}");
        // The mean is 5.6.
        assert!(degrees[degrees.len() / 2] <= 4);
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for (nodes, edges) in [(0, 0), (3, 1), (3, 4), (1000, 64_001), (1 << 32, 1 << 32)] {
            assert!(power_law(nodes, edges, 1).is_err(), "{nodes} nodes, {edges} edges");
        }
    }

    #[test]
    fn files_are_read_by_how_their_names_end() {
        let file = |suffix, text: &str| {
            let mut file = tempfile::Builder::new().suffix(suffix).tempfile().expect("a temporary folder");
            file.write_all(text.as_bytes()).expect("room for a small file");
            file
        };
        let gml = file(".gml", "graph [ node [ id 5 ] node [ id 6 ] edge [ source 5 target 6 ] ]");
        let edges = file(".txt", "a b\nb c\n");
        let sizes = [&gml, &edges].map(|file| read(file.path()).map(|graph| (graph.nodes(), graph.edges())));
        assert_eq!(sizes.map(|size| size.expect("a graph")), [(2, 1), (3, 2)]);
        assert!(read(file(".gml", "a b").path()).is_err_and(|error| format!("{error:#}").contains("line 1")));
    }
}

//! Lengths of tree labels, on power-law graphs of growing size and on real networks.
//!
//! Differs: the paper's graph, the AS-level Internet of 29 June 2012, is not available. Ours is random with as many
//! nodes and edges ([`graph::power_law`]). Graphs of other sizes have as many edges per node.

use byname_lookup::locator::Graph;
use serde::Serialize;

use super::TAGNET;
use crate::experiments::{Context, Experiment, Needs};
use crate::locator::{Forest, LabelBits};
use crate::plot::Chart;
use crate::table::{self, Table};
use crate::workload::graph;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "tagnet-labels",
    title: "bits of labels by size of the graph, and on the Topology Zoo",
    source: "[TagNet §3.3]",
    needs: Needs {
        rules: &[1000, 10_000, PAPER_NODES, 100_000, 1_000_000],
        quick_rules: &[1000, PAPER_NODES],
        bytes_per_rule: 500,
        data: &[ZOO],
        minutes: 1,
    },
    run,
};

const ZOO: &str = "topology_zoo_gml.tar.gz";
/// The paper's graph, and the length of its longest label.
const PAPER_NODES: u64 = 42_113;
const PAPER_EDGES: u64 = 118_040;
const PAPER_BITS: u32 = 46;
/// The maximum length of the paper's labels, per bit of a node's number.
const PAPER_FACTOR: f64 = 3.4;

#[derive(Serialize)]
struct Labels {
    graph: String,
    nodes: usize,
    edges: usize,
    depth_max: usize,
    #[serde(flatten)]
    bits: LabelBits,
}

impl Labels {
    /// Measures the tree of shortest paths from the node with the most edges.
    fn measure(name: String, graph: &Graph) -> anyhow::Result<Self> {
        let forest = Forest::grow(graph, 1)?;
        let (nodes, depth_max) = (forest.nodes.len(), forest.depth_max());
        Ok(Labels { graph: name, nodes, edges: graph.edges(), depth_max, bits: forest.label_bits() })
    }

    fn point(&self, bits: impl Into<f64>) -> (f64, f64) {
        (self.nodes as f64, bits.into())
    }
}

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let mut made = Vec::new();
    for nodes in context.rules() {
        let edges = (u128::from(nodes) * u128::from(PAPER_EDGES) / u128::from(PAPER_NODES)) as u64;
        made.push(Labels::measure("power law".to_owned(), &graph::power_law(nodes, edges, 1)?)?);
    }
    let mut zoo = Vec::new();
    for (name, graph) in graph::read_archive(&context.data(ZOO))? {
        zoo.push(Labels::measure(name, &graph)?);
    }
    zoo.sort_by_key(|labels| labels.nodes);
    made.iter().chain(&zoo).try_for_each(|labels| context.record(labels))?;
    print!("{}", power_law(&made));
    println!("\nThe Topology Zoo, {} graphs:", zoo.len());
    print!("{}", by_size(&zoo));
    println!("{TAGNET}");
    context.plot(&chart(&made, &zoo))
}

fn power_law(made: &[Labels]) -> Table {
    let heads = ["nodes", "edges", "depth", "bits, max", "mean", "number, list and mask", "3.4 log2 n", "[TagNet]"];
    let mut table = Table::new(&heads);
    for labels in made {
        let paper = (labels.nodes as u64 == PAPER_NODES).then(|| PAPER_BITS.to_string());
        table.row([
            table::count(labels.nodes as u64),
            table::count(labels.edges as u64),
            labels.depth_max.to_string(),
            labels.bits.label_bits_max.to_string(),
            format!("{:.1}", labels.bits.label_bits_mean),
            labels.bits.label_bits_max_paper.to_string(),
            format!("{:.1}", PAPER_FACTOR * (labels.nodes as f64).log2()),
            paper.unwrap_or_default(),
        ]);
    }
    table
}

/// Groups graphs by size: the node counts of one row have the same power of two.
fn by_size(zoo: &[Labels]) -> Table {
    let mut table =
        Table::new(&["nodes", "graphs", "depth", "bits, max", "mean", "number, list and mask", "3.4 log2 n, at least"]);
    for graphs in zoo.chunk_by(|a, b| a.nodes.ilog2() == b.nodes.ilog2()) {
        let (fewest, most) = (graphs[0].nodes, graphs[graphs.len() - 1].nodes);
        let max = |of: fn(&Labels) -> u32| graphs.iter().map(of).max().unwrap_or_default().to_string();
        let mean = graphs.iter().map(|labels| labels.bits.label_bits_mean).sum::<f64>() / graphs.len() as f64;
        table.row([
            format!("{fewest} to {most}"),
            graphs.len().to_string(),
            max(|labels| labels.depth_max as u32),
            max(|labels| labels.bits.label_bits_max),
            format!("{mean:.1}"),
            max(|labels| labels.bits.label_bits_max_paper),
            format!("{:.1}", PAPER_FACTOR * (fewest as f64).log2()),
        ]);
    }
    table
}

fn chart(made: &[Labels], zoo: &[Labels]) -> Chart {
    let mut chart = Chart::lines("Bits of labels by size of the graph", "nodes", "bits");
    let line = |labels: &[Labels], bits: fn(&Labels) -> f64| -> Vec<_> {
        labels.iter().map(|labels| labels.point(bits(labels))).collect()
    };
    chart.line("power law, longest", line(made, |labels| labels.bits.label_bits_max.into()));
    chart.line("power law, mean", line(made, |labels| labels.bits.label_bits_mean));
    chart.line("Topology Zoo, longest", line(zoo, |labels| labels.bits.label_bits_max.into()));
    chart.paper("[TagNet]: 3.4 log2 n", line(made, |labels| PAPER_FACTOR * (labels.nodes as f64).log2()));
    chart.bound("our bound: 3 log2 n + 5", line(made, |labels| 3.0 * (labels.nodes as f64).log2() + 5.0));
    chart.paper("[TagNet]: the Internet's longest", vec![(PAPER_NODES as f64, PAPER_BITS.into())]);
    chart
}

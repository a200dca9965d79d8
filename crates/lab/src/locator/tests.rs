//! Tiny runs: the lab must measure, and packets must follow the trees.

use std::io::Write as _;
use std::path::Path;

use super::*;
use crate::options::Measuring;
use crate::workload::graph;

/// File with graphs: beside a checkout, not in it.
const ZOO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/topology_zoo_gml.tar.gz");

fn tiny() -> Options {
    Options {
        nodes: 500,
        edges: 1400,
        draws: 2000,
        measuring: Measuring { seconds: 0.01, repetitions: 3, ..Default::default() },
        ..Options::default()
    }
}

#[test]
fn one_tree_and_several_are_measured() {
    for trees in [1, 3] {
        let record = measure(&Options { trees, ..tiny() }, Progress::HIDDEN).expect("a small graph");
        assert_eq!((record.nodes, record.edges, record.packets_prepared), (500, 1400, 2000));
        assert!(
            record.forwards_per_s_min <= record.forwards_per_s && record.forwards_per_s <= record.forwards_per_s_max
        );
        assert!((record.ns_per_forward * record.forwards_per_s - 1e9).abs() < 1e3);
        assert!(record.decoded_forwards_per_s > 0.0 && record.build_s > 0.0);
        assert!((20..=3 * 9 + 5).contains(&record.bits.label_bits_max), "{:?}", record.bits);
        assert!(record.bits.label_bits_mean < f64::from(record.bits.label_bits_max));
        assert!(record.bits.label_bits_max_paper <= 3 * 9);
        assert!((2..10).contains(&record.depth_max) && record.hops_mean < 2.0 * record.depth_max as f64);
        assert!(record.checked > 10_000 && record.wrong == 0);
    }
}

#[test]
fn every_way_of_the_topology_zoo_is_the_trees() {
    let zoo = Path::new(ZOO);
    if !zoo.exists() {
        println!("skipped: {} is not there", zoo.display());
        return;
    }
    let graphs = graph::read_archive(zoo).expect("graphs in GML");
    assert_eq!(graphs.len(), 276);
    for (name, graph) in graphs {
        // Other components of the graph may have only one node.
        let forest = Forest::grow(&graph, 1).expect("a node");
        let trees = (forest.nodes.len() as u32).min(3);
        let forest = Forest::grow(&graph, trees).expect("as many nodes");
        let ways = check::check(&forest, 1);
        assert_eq!(ways.checked.wrong, 0, "{name}");
        assert!(ways.checked.checked > 0, "{name}");
        let log2 = forest.nodes.len().ilog2();
        assert!(forest.label_bits().label_bits_max_paper <= 3 * log2 + 1, "{name}: {:?}", forest.label_bits());
    }
}

#[test]
fn graphs_come_from_files() {
    let mut file = tempfile::Builder::new().suffix(".edges").tempfile().expect("a temporary folder");
    // Two components. The trees are in the one with the hub.
    writeln!(file, "hub a\nhub b\nhub c\nc d\nx y").expect("room for a small file");
    let options = Options { graph: Some(file.path().to_owned()), trees: 2, ..tiny() };
    let record = measure(&options, Progress::HIDDEN).expect("a small graph");
    assert_eq!((record.nodes, record.edges, record.degree_max, record.checked), (5, 5, 3, 50));
}

#[test]
fn what_cannot_be_done_is_refused() {
    let refused = |change: fn(&mut Options)| {
        let mut options = tiny();
        change(&mut options);
        measure(&options, Progress::HIDDEN).expect_err("refused").to_string()
    };
    assert!(refused(|o| o.measuring.threads = 10_000).contains("10000 cores"));
    assert!(refused(|o| o.edges = 10).contains("499 to"));
    assert!(refused(|o| (o.nodes, o.edges, o.trees) = (2, 1, 3)).contains("3 trees"));
    assert!(refused(|o| o.draws = 0).contains("one packet"));
    assert!(refused(|o| o.graph = Some("none.gml".into())).contains("none.gml"));
}

#[test]
fn the_documented_form_parses() {
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        options: Options,
    }
    let parse = |words: &str| Alone::try_parse_from(std::iter::once("locator").chain(words.split_whitespace()));
    let options = parse("--nodes 42113 --edges 118040 --json").expect("the documented form").options;
    assert_eq!((options.nodes, options.edges, options.measuring.json), (42_113, 118_040, true));
    assert!(parse("--graph a.gml --nodes 5").is_err());
    assert!(parse("--burst 65").is_err_and(|error| error.to_string().contains("1 to 64")));
}

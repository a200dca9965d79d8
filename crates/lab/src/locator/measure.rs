//! One run: grows the trees, measures, and follows packets.

use std::hint::black_box;
use std::time::Instant;

use anyhow::ensure;
use byname_lookup::locator::{Graph, Table};

use super::check::check;
use super::forest::Forest;
use super::hint;
use super::options::Options;
use super::packets::{self, Encoded, Packet, Reader};
use super::record::Record;
use crate::harness::warm_in_turn;
use crate::options::Measuring;
use crate::progress::Progress;
use crate::timing::{Spread, median, rate_of_all};
use crate::workload::graph;

/// Decisions per second in each repetition, from decoded labels and from encoded ones.
struct Rates {
    forwards: Vec<f64>,
    decoded: Vec<f64>,
}

pub fn measure(options: &Options, progress: Progress) -> anyhow::Result<Record> {
    options.measuring.ensure_possible()?;
    ensure!(options.draws > 0, "there must be at least one packet (--draws)");
    let (name, graph) = open(options)?;
    let spinner = progress.spinner("growing trees");
    let start = Instant::now();
    let forest = Forest::grow(&graph, options.trees)?;
    let tables = forest.tables();
    let build_s = start.elapsed().as_secs_f64();
    ensure!(u32::try_from(tables.len()).is_ok(), "there are too many tables for 32-bit numbers");
    spinner.set_message("drawing packets");
    let packets = packets::draw(&forest, usize::try_from(options.draws)?, options.burst, options.measuring.seed);
    spinner.set_message("forwarding");
    let rates = forward(options, &tables, &packets);
    spinner.set_message("following packets");
    let ways = check(&forest, options.measuring.seed);
    let beside = hint::compare(&graph, &forest, options.measuring.seed);
    spinner.finish_and_clear();
    let rate = Spread::of(&rates.forwards);
    let forwards_per_s = rate.median;
    let record = Record {
        graph: name,
        nodes: forest.nodes.len(),
        edges: graph.edges(),
        degree_max: (0..graph.nodes()).map(|node| graph.neighbors(node).len()).max().unwrap_or_default(),
        trees: options.trees,
        depth_max: forest.depth_max(),
        bits: forest.label_bits(),
        table_bytes: size_of::<Table>(),
        build_s,
        packets_prepared: packets.len(),
        seed: options.measuring.seed,
        threads: options.measuring.threads,
        burst: options.burst,
        repetitions: rates.forwards.len(),
        forwards_per_s,
        forwards_per_s_min: rate.min,
        forwards_per_s_max: rate.max,
        ns_per_forward: options.measuring.threads as f64 * 1e9 / forwards_per_s,
        decoded_forwards_per_s: median(&rates.decoded),
        checked: ways.checked.checked,
        wrong: ways.checked.wrong,
        hops_mean: ways.hops as f64 / ways.checked.checked as f64,
        hint_hops_mean: beside.hint_hops_mean,
        best_tree_hops_mean: beside.best_tree_hops_mean,
        best_tree_stretch_mean: beside.best_tree_stretch_mean,
        hint_bytes_mean: beside.hint_bytes_mean,
        locator_bytes_mean: beside.locator_bytes_mean,
    };
    ensure!(record.wrong == 0, "{} of {} paths differ from the tree's", record.wrong, record.checked);
    Ok(record)
}

fn open(options: &Options) -> anyhow::Result<(String, Graph)> {
    Ok(match &options.graph {
        Some(file) => (file.display().to_string(), graph::read(file)?),
        None => ("power law".to_owned(), graph::power_law(options.nodes, options.edges, options.measuring.seed)?),
    })
}

fn forward(options: &Options, tables: &[Table], packets: &[Packet]) -> Rates {
    let encoded: Vec<Encoded> = packets.iter().map(Packet::encode).collect();
    let start_of = |thread| packets.len() / options.measuring.threads * thread;
    let reader = |thread| Reader::new(tables, packets, &encoded, options.burst, start_of(thread));
    let mut readers: Vec<_> = (0..options.measuring.threads).map(reader).collect();
    // Two rates are measured, each in half of the time.
    let half = Measuring { seconds: options.measuring.seconds / 2.0, ..options.measuring.clone() };
    let mut ways: [fn(&mut Reader<'_>) -> usize; 2] =
        [|reader| black_box(reader.forward()).len(), |reader| black_box(reader.decode_and_forward()).len()];
    let rates = warm_in_turn(&mut ways, &half, |way, duration| rate_of_all(&mut readers, duration, *way));
    let [forwards, decoded] = <[_; 2]>::try_from(rates).expect("two ways");
    Rates { forwards, decoded }
}

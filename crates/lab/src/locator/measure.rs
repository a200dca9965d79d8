//! One run: grows the trees, measures, and follows packets.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::ensure;
use byname_lookup::locator::{Graph, Table};

use super::check::check;
use super::forest::Forest;
use super::options::Options;
use super::packets::{self, Encoded, Packet, Reader};
use super::record::Record;
use crate::progress::Progress;
use crate::timing::{median, rate_of_all};
use crate::workload::graph;

/// What the repetitions found: decisions a second, of labels and of their octets.
struct Rates {
    forwards: Vec<f64>,
    decoded: Vec<f64>,
}

pub fn measure(options: &Options, progress: Progress) -> anyhow::Result<Record> {
    options.measuring.ensure_possible()?;
    ensure!(options.draws > 0, "there must be a packet (--draws)");
    let (name, graph) = open(options)?;
    let spinner = progress.spinner("growing trees");
    let start = Instant::now();
    let forest = Forest::grow(&graph, options.trees)?;
    let tables = forest.tables();
    let build_s = start.elapsed().as_secs_f64();
    ensure!(u32::try_from(tables.len()).is_ok(), "so many tables are not counted here");
    spinner.set_message("drawing packets");
    let packets = packets::draw(&forest, usize::try_from(options.draws)?, options.burst, options.measuring.seed);
    spinner.set_message("forwarding");
    let rates = forward(options, &tables, &packets);
    spinner.set_message("following packets");
    let ways = check(&forest, options.measuring.seed);
    spinner.finish_and_clear();
    let forwards_per_s = median(&rates.forwards);
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
        forwards_per_s_min: rates.forwards.iter().copied().fold(f64::INFINITY, f64::min),
        forwards_per_s_max: rates.forwards.iter().copied().fold(0.0, f64::max),
        ns_per_forward: options.measuring.threads as f64 * 1e9 / forwards_per_s,
        decoded_forwards_per_s: median(&rates.decoded),
        checked: ways.checked.checked,
        wrong: ways.checked.wrong,
        hops_mean: ways.hops as f64 / ways.checked.checked as f64,
    };
    ensure!(record.wrong == 0, "{} ways of {} were not the tree's", record.wrong, record.checked);
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
    // Two figures, half of the time each.
    let step = Duration::from_secs_f64(options.measuring.seconds / f64::from(options.measuring.repetitions) / 2.0);
    let forward = |reader: &mut Reader<'_>| black_box(reader.forward()).len();
    let decode = |reader: &mut Reader<'_>| black_box(reader.decode_and_forward()).len();
    // The first round finds caches and the processor's clock cold.
    rate_of_all(&mut readers, step, forward);
    let mut rates = Rates { forwards: Vec::new(), decoded: Vec::new() };
    for _ in 0..options.measuring.repetitions {
        rates.forwards.push(rate_of_all(&mut readers, step, forward));
        rates.decoded.push(rate_of_all(&mut readers, step, decode));
    }
    rates
}

//! Forwarding by locator on the trees of a graph [TagNet §3.3], measured.
//!
//! What is timed is one node's decision for a packet: the port, from the label in the packet and the
//! node's table. Packets are prepared before, burst by burst: those of one have come to one node, as
//! bursts do, a random node of the way between two random ones, and go from there to random nodes. So
//! all nodes' tables and labels take part, busy nodes' more often, and no decision is known before.
//! Ports are stored, burst by burst; what a router does with them, and what it does to find the label
//! in a packet, is not in the figure. A second figure has the
//! decoding of the label's octets. Each rate is the median of several repetitions. In the same run ways
//! are followed hop by hop and compared with the trees'.

mod check;
mod forest;
mod measure;
mod options;
mod packets;
mod record;
#[cfg(test)]
mod tests;

pub use forest::Forest;
pub use options::Options;
pub use record::{LabelBits, Record};

use crate::experiments::Table;
use crate::progress::Progress;
use crate::record::Recorder;

/// Measures.
///
/// # Errors
/// If the machine cannot do it (cores, files), if the graph is none, or if a packet went astray.
pub fn measure(options: &Options, progress: Progress) -> anyhow::Result<Record> {
    measure::measure(options, progress)
}

/// Runs the subcommand.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let progress = options.measuring.progress();
    let mut recorder = Recorder::new("locator", options.measuring.json)?;
    let record = measure(options, progress)?;
    recorder.add(&record)?;
    if !options.measuring.json {
        print(&record);
    }
    Ok(())
}

fn print(record: &Record) {
    let Record { graph, nodes, edges, degree_max, trees, depth_max, threads, burst, .. } = record;
    println!("{graph}: {nodes} nodes, {edges} edges, at most {degree_max} of one node");
    println!("{trees} trees, at most {depth_max} hops deep; {threads} threads, burst {burst}");
    let mut table = Table::new(&["", ""]);
    let mut row = |head: &str, cell: String| table.row([head.to_owned(), cell]);
    let millions = |rate: f64| format!("{:.1}", rate / 1e6);
    row("decisions, M/s", millions(record.forwards_per_s));
    row("  slowest repetition", millions(record.forwards_per_s_min));
    row("  fastest repetition", millions(record.forwards_per_s_max));
    row("  with labels decoded, M/s", millions(record.decoded_forwards_per_s));
    row("time a decision, ns", format!("{:.2}", record.ns_per_forward));
    row("bits of a label, at most", record.bits.label_bits_max.to_string());
    row("  on average", format!("{:.2}", record.bits.label_bits_mean));
    row("  as the paper counts, at most", record.bits.label_bits_max_paper.to_string());
    row("bytes of a table", record.table_bytes.to_string());
    row("trees, labels and tables, s", format!("{:.4}", record.build_s));
    row("ways checked", record.checked.to_string());
    row("  wrong", record.wrong.to_string());
    row("  hops on average", format!("{:.2}", record.hops_mean));
    print!("{table}");
}

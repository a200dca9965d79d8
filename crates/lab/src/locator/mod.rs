//! Forwarding by locator on the trees of a graph [TagNet §3.3], measured.
//!
//! The measured time is one node's decision for a packet: the port, from the label in the packet and the node's table.
//! Packets are prepared in bursts. A burst arrives at one node, which is a random node on the path between two random
//! nodes. From there its packets go to random nodes. So the tables and labels of all nodes are used, those of busy
//! nodes more often, and the processor cannot predict a decision. The ports are stored burst by burst. The work that a
//! router does with them is not included, nor is finding the label in a packet. A second rate includes decoding the
//! label's bytes. Each rate is the median of several repetitions. The same run follows paths hop by hop and compares
//! them with the trees' paths.

mod check;
mod forest;
mod hint;
mod measure;
mod options;
mod packets;
mod record;
#[cfg(test)]
mod tests;

pub use forest::Forest;
pub use options::Options;
pub use record::{LabelBits, Record};

use crate::harness::{Columns, Measurement};
use crate::progress::Progress;

/// Measures forwarding on one graph.
///
/// # Errors
/// If the machine cannot do it (cores, files), if the graph is invalid, or if a packet went astray.
pub fn measure(options: &Options, progress: Progress) -> anyhow::Result<Record> {
    measure::measure(options, progress)
}

impl Measurement for Options {
    const NAME: &'static str = "locator";
    type Record = Record;

    fn json(&self) -> bool {
        self.measuring.json
    }

    fn measure(&self, progress: Progress) -> anyhow::Result<Vec<Record>> {
        Ok(vec![measure(self, progress)?])
    }

    fn print(&self, records: &[Record]) {
        print(records);
    }
}

fn print(records: &[Record]) {
    let [record] = records else { return };
    let Record { graph, nodes, edges, degree_max, trees, depth_max, threads, burst, .. } = record;
    println!("{graph}: {nodes} nodes, {edges} edges, at most {degree_max} at one node");
    println!("{trees} trees, at most {depth_max} hops deep; {threads} threads, burst {burst}");
    let mut table = Columns::new(records, |_| String::new());
    let millions = |rate: f64| format!("{:.1}", rate / 1e6);
    table.rates("decisions, M/s", millions);
    table.row("  with labels decoded, M/s", |record| millions(record.decoded_forwards_per_s));
    table.row("time a decision, ns", |record| format!("{:.2}", record.ns_per_forward));
    table.row("bits of a label, maximum", |record| record.bits.label_bits_max.to_string());
    table.row("  mean", |record| format!("{:.2}", record.bits.label_bits_mean));
    table.row("  maximum, as the paper counts", |record| record.bits.label_bits_max_paper.to_string());
    table.row("bytes of a table", |record| record.table_bytes.to_string());
    table.row("time to build trees, labels and tables, s", |record| format!("{:.4}", record.build_s));
    table.row("paths checked", |record| record.checked.to_string());
    table.row("  wrong", |record| record.wrong.to_string());
    table.row("  mean hops", |record| format!("{:.2}", record.hops_mean));
    table.row("mean hops of shortest paths", |record| format!("{:.2}", record.hint_hops_mean));
    table.row("  on the best of the trees", |record| format!("{:.2}", record.best_tree_hops_mean));
    table.row("  divided by a shortest path's", |record| format!("{:.3}", record.best_tree_stretch_mean));
    table.row("bytes of a locator in a packet", |record| format!("{:.1}", record.locator_bytes_mean));
    table.row("  of a forwarding hint", |record| format!("{:.1}", record.hint_bytes_mean));
    print!("{table}");
}

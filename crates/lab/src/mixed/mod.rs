//! Push and pull flows together [TagNet §4.5].
//!
//! A *push* flow is one packet, addressed by tags to all nodes that want it. A *pull* flow begins with a packet
//! addressed by tags to the best match, and continues by locator: Data answers it, then come follow-up Interests, each
//! answered with Data. The measured time is a forwarder's work for a burst of such packets, given as bytes from the
//! network. It parses each packet, and its type gives the kind of address. It then finds all subsets, the largest
//! subset, or the next hop of a locator. All packets are those of one router: the tree's node with the most edges. They
//! have the paper's sizes: 1,280 bytes with a payload, 800 for the first Interest, 100 for the follow-up Interests.
//!
//! The same run checks the result of each packet: locators against the tree, tags against a search for the packet
//! alone.

mod measure;
mod options;
mod packets;
mod record;
#[cfg(test)]
mod tests;

pub use options::Options;
pub use record::Record;

use crate::harness::{Columns, Measurement};
use crate::progress::Progress;

/// Measures mixes of push and pull flows on one table. Returns one record of each.
///
/// # Errors
/// If the machine cannot do it (cores, memory, files), or if a packet went astray.
pub fn measure(options: &Options, mixes: &[Mix], progress: Progress) -> anyhow::Result<Vec<Record>> {
    measure::measure(options, mixes, progress)
}

/// A mix of flows.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Share of pull flows.
    pub pull: f64,
    /// Maximum number of follow-up Interests of a pull flow: each flow draws a number from 0 to this.
    pub follow_ups: u32,
}

impl Measurement for Options {
    const NAME: &'static str = "mixed";
    type Record = Record;

    fn json(&self) -> bool {
        self.measuring.json
    }

    fn measure(&self, progress: Progress) -> anyhow::Result<Vec<Record>> {
        measure(self, &[Mix { pull: self.pull, follow_ups: self.follow_ups }], progress)
    }

    fn print(&self, records: &[Record]) {
        print(records);
    }
}

fn print(records: &[Record]) {
    let [record] = records else { return };
    let Record { engine, descriptors, nodes, pull, follow_ups, threads, burst, .. } = record;
    println!("{engine} with {descriptors} descriptors, a tree of {nodes} nodes; {threads} threads, burst {burst}");
    println!("{:.0} % of flows pull, with up to {follow_ups} follow-up Interests", 100.0 * pull);
    let mut table = Columns::new(records, |_| String::new());
    table.rates("packets, M/s", |rate| format!("{:.3}", rate / 1e6));
    table.row("bytes a packet", |record| format!("{:.0}", record.bytes_per_packet));
    table.row("Gbit/s", |record| format!("{:.2}", record.gbit_per_s));
    table.row("packets by locator, %", |record| format!("{:.1}", 100.0 * record.by_locator));
    table.row("matches of a pushed packet", |record| format!("{:.2}", record.matches_per_push));
    table.row("packets cut off, %", |record| format!("{:.2}", 100.0 * record.cut_off));
    table.row("packets checked", |record| record.checked.to_string());
    table.row("  wrong", |record| record.wrong.to_string());
    print!("{table}");
}

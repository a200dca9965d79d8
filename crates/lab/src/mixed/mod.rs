//! Push and pull flows together [TagNet §4.5], measured.
//!
//! A *push* flow is one packet by tags to all who want it. A *pull* flow begins with a packet by tags
//! to the best match, and goes on by locator: Data that answers it, then so many follow-up Interests,
//! each with Data. What is timed is what a forwarder does with a burst of such packets, octets as
//! they come from a network: it parses each, tells by its type how it is addressed, and finds all
//! subsets, the largest subset, or the next hop of a locator. All packets are those of one router, a
//! tree's best connected node. They have the paper's sizes: 1,280 octets with a payload, 800 for the
//! first Interest, 100 for those that follow.
//!
//! In the same run the ways are checked: locators' against the tree, tags' against what a search for
//! one packet alone finds.

mod measure;
mod options;
mod packets;
mod record;
#[cfg(test)]
mod tests;

pub use options::Options;
pub use record::Record;

use crate::experiments::Table;
use crate::progress::Progress;
use crate::record::Recorder;

/// Measures some mixes of push and pull on one table; a record of each.
///
/// # Errors
/// If the machine cannot do it (cores, memory, files), or if a packet went astray.
pub fn measure(options: &Options, mixes: &[Mix], progress: Progress) -> anyhow::Result<Vec<Record>> {
    measure::measure(options, mixes, progress)
}

/// What flows there are.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// The share of flows that are pull flows.
    pub pull: f64,
    /// Most follow-up Interests of a pull flow: each flow's number is drawn from zero to this.
    pub follow_ups: u32,
}

/// Runs the subcommand.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let progress = options.measuring.progress();
    let mut recorder = Recorder::new("mixed", options.measuring.json)?;
    let mix = Mix { pull: options.pull, follow_ups: options.follow_ups };
    for record in measure(options, &[mix], progress)? {
        recorder.add(&record)?;
        if !options.measuring.json {
            print(&record);
        }
    }
    Ok(())
}

fn print(record: &Record) {
    let Record { engine, descriptors, nodes, pull, follow_ups, threads, burst, .. } = record;
    println!("{engine} with {descriptors} descriptors, a tree of {nodes} nodes; {threads} threads, burst {burst}");
    println!("{:.0} % of flows pull, with up to {follow_ups} follow-up Interests", 100.0 * pull);
    let mut table = Table::new(&["", ""]);
    let mut row = |head: &str, cell: String| table.row([head.to_owned(), cell]);
    row("packets, M/s", format!("{:.3}", record.packets_per_s / 1e6));
    row("  slowest repetition", format!("{:.3}", record.packets_per_s_min / 1e6));
    row("  fastest repetition", format!("{:.3}", record.packets_per_s_max / 1e6));
    row("octets a packet", format!("{:.0}", record.bytes_per_packet));
    row("Gbit/s", format!("{:.2}", record.gbit_per_s));
    row("packets by locator, %", format!("{:.1}", 100.0 * record.by_locator));
    row("matches of a pushed packet", format!("{:.2}", record.matches_per_push));
    row("packets cut off, %", format!("{:.2}", 100.0 * record.cut_off));
    row("packets checked", record.checked.to_string());
    row("  wrong", record.wrong.to_string());
    print!("{table}");
}

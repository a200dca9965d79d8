//! The plan of a large fleet: what its tables take, and how long they and their changes travel [Concise §3.1, §5.3].
//!
//! Nobody here has a thousand routers and ten billion names. So the costs of one machine are measured ([`costs`]) with fewer
//! names: of cutting rules into chunks, of building tables, of checking and writing blocks. Then a fleet with these costs is
//! simulated in virtual time: a table that all routers fetch through each other ([`spread`]), and changes
//! that reach all of them by etcd ([`changes`]). Costs of the network and of etcd are options. Every record has all of them.

mod changes;
mod costs;
mod options;
mod record;
mod spread;
#[cfg(test)]
mod tests;

use anyhow::ensure;
use byname_lookup::locator::Graph;

pub use options::{Engine, Options};
pub use record::Record;

use self::record::{Changed, Found, Sizes, Spread};
use crate::harness::Measurement;
use crate::progress::Progress;
use crate::table::{Table, count};
use crate::workload::graph;

impl Measurement for Options {
    const NAME: &'static str = "plan";
    type Record = Record;

    fn json(&self) -> bool {
        self.json
    }

    fn measure(&self, progress: Progress) -> anyhow::Result<Vec<Record>> {
        measure(self, progress)
    }

    fn print(&self, records: &[Record]) {
        records.iter().for_each(print);
    }
}

/// Measures costs, and simulates the fleet.
///
/// # Errors
/// If options make no sense, or the machine cannot do it.
pub fn measure(options: &Options, progress: Progress) -> anyhow::Result<Vec<Record>> {
    options.ensure_possible()?;
    let spinner = progress.spinner("measuring costs");
    let costs = costs::measure(options)?;
    spinner.finish_and_clear();
    let graph = network(options)?;
    let mut records = vec![Record::Measured(Found { costs })];
    for engine in [Engine::Line, Engine::Compact] {
        let sizes = Sizes::of(options, engine, &costs);
        let spinner = progress.spinner("simulating a table on its way");
        records.push(Record::Sizes(sizes.clone()));
        for from_builder_only in [false, true] {
            let setting = spread::Setting::of(options, &costs, sizes.part_bytes, from_builder_only);
            let found = spread::simulate(&setting, &graph)?;
            records.push(Record::Spread(Spread::of(options, &costs, &sizes, &setting, &found)));
        }
        spinner.finish_and_clear();
    }
    for &rate in &options.change_rates {
        let spinner = progress.spinner("simulating changes");
        let found = changes::simulate(&changes::Setting::of(options, &costs, rate))?;
        spinner.finish_and_clear();
        records.push(Record::Changed(Changed::of(options, &costs, rate, &found)));
    }
    Ok(records)
}

/// The network: that of the file, or one that is made.
fn network(options: &Options) -> anyhow::Result<Graph> {
    let graph = match &options.graph {
        Some(file) => graph::read(file)?,
        None => graph::power_law(options.routers, options.links, options.seed)?,
    };
    ensure!(graph.nodes() > 0, "the graph has no nodes");
    Ok(graph)
}

fn print(record: &Record) {
    match record {
        Record::Measured(Found { costs }) => {
            let mut table =
                Table::new(&["a rule in chunks", "to cut", "to build line", "to build compact", "line", "compact"]);
            table.row([
                format!("{:.2} bytes", costs.chunk_bytes),
                format!("{:.0} ns", costs.chunk_ns),
                format!("{:.0} ns", costs.line_ns),
                format!("{:.0} ns", costs.compact_ns),
                format!("{:.2} bytes", costs.line_bytes),
                format!("{:.2} bytes", costs.compact_bytes),
            ]);
            println!("Measured on this machine, for each of {} rules:\n{table}", count(costs.rules));
        }
        Record::Sizes(sizes) => println!(
            "{} names, {}: {:.1} GB of chunks of rules, built in {:.0} s, {:.2} GB in each router",
            count(sizes.names),
            sizes.engine.word(),
            sizes.rule_chunks_bytes as f64 / 1e9,
            sizes.build_s,
            sizes.part_bytes as f64 / 1e9,
        ),
        Record::Spread(spread) => println!(
            "  {} routers have it after {:.0} s (half of them after {:.0} s; one disk takes {:.0} s){}: the builder sends {:.1} times \
             the table, the busiest link {:.1} times",
            spread.routers,
            spread.last_s,
            spread.median_s,
            spread.disk_s,
            if spread.from_builder_only { ", without help" } else { "" },
            spread.builder_times,
            spread.link_times,
        ),
        Record::Changed(changed) => println!(
            "{} changes/s: at all routers after {:.0} ms p50, {:.0} ms p99; {:.0} bytes a change where the bound is {:.1}",
            count(changed.rate),
            changed.p50_ms,
            changed.p99_ms,
            changed.change_bytes,
            changed.bound_bytes,
        ),
    }
}

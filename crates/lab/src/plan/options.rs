//! Options of `byname-lab plan`.

use std::path::PathBuf;

use anyhow::ensure;
use clap::Args;
use serde::Serialize;

use crate::size;
use crate::workload::Kind;

/// The table in the routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Flat names, with bits of label and of checksum.
    Line,
    /// Prefixes.
    Compact,
}

impl Engine {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Engine::Line => "line",
            Engine::Compact => "compact",
        }
    }
}

/// Simulates a fleet with many routers and names, with the costs of one machine that are measured here.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Options {
    /// Number of names.
    #[arg(long, default_value = "10G", value_parser = size::count)]
    pub names: u64,
    /// Number of routers of a generated power-law graph.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(2..=100_000))]
    pub routers: u64,
    /// Number of its links.
    #[arg(long, default_value_t = 3000)]
    pub links: u64,
    /// File with a graph of routers instead: GML, or one edge a line.
    #[arg(long)]
    pub graph: Option<PathBuf>,
    /// Machines that are one router, each with a part of the table.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=15))]
    pub nodes: u64,
    /// Bits of a label.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub label_bits: u32,
    /// Bits of label and of checksum in a flat table.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=32))]
    pub entry_bits: u32,
    /// Number of rules with which costs are measured.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub sample: u64,
    /// Number of components of the deepest generated rules.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=32))]
    pub components: u64,
    /// These rules.
    #[command(flatten)]
    pub workload: Kind,
    /// Processors of the builder.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub builder_threads: u64,
    /// Rate of a link, in Gbit/s.
    #[arg(long, default_value_t = 10.0)]
    pub link_gbps: f64,
    /// Time on a link, in ms.
    #[arg(long, default_value_t = 1.0)]
    pub link_ms: f64,
    /// Rate at which a router passes Data on, in Gbit/s: packets of 8,000 bytes that take 3.4 us each.
    #[arg(long, default_value_t = 18.8)]
    pub router_gbps: f64,
    /// Rate of a router's disk, in MB/s, instead of that of this machine.
    #[arg(long)]
    pub disk_mbps: Option<f64>,
    /// Bytes of a block of a table, which travels as one.
    #[arg(long, default_value = "1Mi", value_parser = size::count)]
    pub block: u64,
    /// Blocks that an agent asks for at once.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub window: u64,
    /// Routers begin within so many seconds.
    #[arg(long, default_value_t = 1.0)]
    pub begin_s: f64,
    /// Changes of names in a second.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "10,1k,10k,100k", value_parser = size::count)]
    pub change_rates: Vec<u64>,
    /// Time for which a writer collects changes, in ms.
    #[arg(long, default_value_t = 50.0)]
    pub collect_ms: f64,
    /// Members of etcd, which share the watchers.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=9))]
    pub members: u64,
    /// Time of a transaction in etcd, in ms: 2,900 a second, one after the other.
    #[arg(long, default_value_t = 0.345)]
    pub transaction_ms: f64,
    /// Rate of values into etcd, in MB/s.
    #[arg(long, default_value_t = 20.0)]
    pub etcd_mbps: f64,
    /// Time of a member of etcd to send an event to a watcher, in us.
    #[arg(long, default_value_t = 44.0)]
    pub watcher_us: f64,
    /// Changes that a router takes over in a second.
    #[arg(long, default_value = "137k", value_parser = size::count)]
    pub applied: u64,
    /// Simulated seconds of changes.
    #[arg(long, default_value_t = 60.0)]
    pub change_s: f64,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print only records, each as a line of JSON.
    #[arg(long)]
    #[serde(skip)]
    pub json: bool,
}

impl Options {
    /// Rejects options that make no sense.
    ///
    /// # Errors
    /// They do not.
    pub fn ensure_possible(&self) -> anyhow::Result<()> {
        let rates = [self.link_gbps, self.router_gbps, self.etcd_mbps, self.disk_mbps.unwrap_or(1.0)];
        ensure!(rates.iter().all(|rate| *rate > 0.0 && rate.is_finite()), "rates must be more than 0");
        let times = [self.link_ms, self.begin_s, self.collect_ms, self.transaction_ms, self.watcher_us, self.change_s];
        ensure!(times.iter().all(|time| *time >= 0.0 && time.is_finite()), "times are not negative");
        ensure!(self.names > 0 && self.sample > 0, "there must be a name (--names, --sample)");
        ensure!(self.applied > 0 && self.change_rates.iter().all(|rate| *rate > 0), "changes must be more than 0");
        ensure!(self.block >= 1024, "blocks have 1 KiB or more (--block)");
        Ok(())
    }
}

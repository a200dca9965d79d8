//! The lines of `byname-lab plan`.

use serde::Serialize;

use super::costs::Costs;
use super::{Engine, Options, changes, spread};

/// A line of `plan`.
#[derive(Serialize, Clone, Debug)]
#[serde(tag = "on", rename_all = "lowercase")]
pub enum Record {
    /// Costs that were measured on this machine.
    Measured(Found),
    /// What all names take.
    Sizes(Sizes),
    /// A table on its way to all routers, simulated.
    Spread(Spread),
    /// Changes on their way to all routers, simulated.
    Changed(Changed),
}

/// Costs of one machine.
#[derive(Serialize, Clone, Copy, Debug)]
pub struct Found {
    /// The costs.
    pub costs: Costs,
}

/// What all names take, by the bytes and times of a rule that were measured.
#[derive(Serialize, Clone, Debug)]
pub struct Sizes {
    /// Number of names.
    pub names: u64,
    /// The table in the routers.
    pub engine: Engine,
    /// Machines that are one router.
    pub nodes: u64,
    /// Bytes of the chunks of rules, which only builders need.
    pub rule_chunks_bytes: u64,
    /// Time to cut rules into these chunks, and to build the table, in seconds.
    pub build_s: f64,
    /// Bytes of the table.
    pub table_bytes: u64,
    /// Bytes of a router's part of it, the largest of its machines. A partition of one byte a name is part of it.
    pub part_bytes: u64,
}

impl Sizes {
    /// Computes them.
    pub fn of(options: &Options, engine: Engine, costs: &Costs) -> Self {
        let names = options.names as f64;
        let (ns, bytes) = match engine {
            Engine::Line => (costs.line_ns, costs.line_bytes),
            Engine::Compact => (costs.compact_ns, costs.compact_bytes),
        };
        let part = names * bytes / options.nodes as f64;
        // The partition is a flat table of four bits of node and four of checksum.
        let partition =
            if options.nodes > 1 { names * costs.line_bytes * 8.0 / f64::from(options.entry_bits) } else { 0.0 };
        Sizes {
            names: options.names,
            engine,
            nodes: options.nodes,
            rule_chunks_bytes: (names * costs.chunk_bytes) as u64,
            build_s: names * (costs.chunk_ns + ns) / 1e9 / options.builder_threads as f64,
            table_bytes: (names * bytes) as u64,
            part_bytes: (part + partition) as u64,
        }
    }
}

/// A table that was fetched by all routers.
#[derive(Serialize, Clone, Debug)]
pub struct Spread {
    /// Number of names.
    pub names: u64,
    /// The table.
    pub engine: Engine,
    /// Machines that are one router. Each fetches its part; one stands for all.
    pub nodes: u64,
    /// Number of routers, the builder's among them.
    pub routers: usize,
    /// Bytes of the table that each fetches.
    pub bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Whether only the builder answered: no content stores, and no agents that serve.
    pub from_builder_only: bool,
    /// Links between the builder and the farthest router.
    pub depth: u32,
    /// When half of the routers had the table, in seconds.
    pub median_s: f64,
    /// When the last router had it, in seconds.
    pub last_s: f64,
    /// Time of a disk to write the table, in seconds.
    pub disk_s: f64,
    /// Time of a link to carry the table, in seconds.
    pub link_s: f64,
    /// The time of the last router, over the longest of these two: the goal is 2.
    pub last_times: f64,
    /// Tables that the builder's router sent.
    pub builder_times: f64,
    /// Tables on the busiest link.
    pub link_times: f64,
    /// Tables on the mean link of the tree.
    pub link_times_mean: f64,
    /// Costs that were measured here.
    pub costs: Costs,
}

impl Spread {
    /// What a simulation found.
    pub fn of(
        options: &Options,
        costs: &Costs,
        sizes: &Sizes,
        setting: &spread::Setting,
        found: &spread::Outcome,
    ) -> Self {
        let last_s = found.done_s.last().copied().unwrap_or(0.0);
        let bytes = setting.bytes as f64;
        let (disk_s, link_s) = (bytes * setting.agent_ns / 1e9, bytes * setting.link_ns / 1e9);
        let blocks = f64::from(setting.blocks());
        Spread {
            names: options.names,
            engine: sizes.engine,
            nodes: options.nodes,
            routers: found.done_s.len() + 1,
            bytes: setting.bytes,
            block_bytes: setting.block,
            from_builder_only: setting.from_builder_only,
            depth: found.depth,
            median_s: found.done_s.get(found.done_s.len() / 2).copied().unwrap_or(0.0),
            last_s,
            disk_s,
            link_s,
            last_times: last_s / disk_s.max(link_s),
            builder_times: found.builder_blocks as f64 / blocks,
            link_times: found.link_blocks_max as f64 / blocks,
            link_times_mean: found.link_blocks as f64 / blocks / found.done_s.len().max(1) as f64,
            costs: *costs,
        }
    }
}

/// Changes that reached all routers.
#[derive(Serialize, Clone, Debug)]
pub struct Changed {
    /// Number of names.
    pub names: u64,
    /// Number of routers.
    pub routers: u64,
    /// Changes in a second.
    pub rate: u64,
    /// Number of changes.
    pub changes: u64,
    /// Number of deltas.
    pub deltas: u64,
    /// Time from a change to a router's table, in ms, for half of all pairs of them.
    pub p50_ms: f64,
    /// The same for 99 of 100.
    pub p99_ms: f64,
    /// The longest time, in ms.
    pub most_ms: f64,
    /// How long after the last change all routers had everything, in ms.
    pub behind_ms: f64,
    /// Bytes of a change in a delta.
    pub change_bytes: f64,
    /// Fewest bytes that can say which of the names have changed, and their new labels, on average for as many as change in a second.
    pub bound_bytes: f64,
    /// Bytes that a member of etcd sends, in MB/s.
    pub member_mbps: f64,
    /// Costs that were measured here.
    pub costs: Costs,
}

impl Changed {
    /// What a simulation found.
    pub fn of(options: &Options, costs: &Costs, rate: u64, found: &changes::Outcome) -> Self {
        Changed {
            names: options.names,
            routers: options.routers,
            rate,
            changes: found.changes,
            deltas: found.deltas,
            p50_ms: found.p50_s * 1e3,
            p99_ms: found.p99_s * 1e3,
            most_ms: found.most_s * 1e3,
            behind_ms: found.behind_s * 1e3,
            change_bytes: costs.delta_bytes,
            bound_bytes: bound_bits(options.names, rate, options.label_bits) / 8.0,
            member_mbps: found.member_bytes_per_s / 1e6,
            costs: *costs,
        }
    }
}

/// Fewest bits for each of `changed` names out of `names` that get a new label of so many bits: the entropy of a random set
/// of them, and that of the labels.
pub fn bound_bits(names: u64, changed: u64, label_bits: u32) -> f64 {
    let share = (changed as f64 / names as f64).min(1.0);
    let entropy = |p: f64| if p > 0.0 { -p * p.log2() } else { 0.0 };
    (entropy(share) + entropy(1.0 - share)) / share + f64::from(label_bits)
}

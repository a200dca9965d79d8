//! What one machine takes for a rule and for a byte, measured.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use byname_fleet::table::chunk::chunks;
use byname_fleet::table::delta::Delta;
use byname_fleet::table::{Digest, Rows};
use byname_lookup::flat::line::{self, BulkLoad};
use byname_lookup::prefix::compact::{self, BulkLoader, NodeCounter};
use byname_lookup::{Control, EntryId};
use byname_wire::{Name, NameHashKey, NameRef};
use serde::Serialize;

use super::Options;
use crate::workload;

const KEY: NameHashKey = NameHashKey::new([0x62_79_6e, 0x61_6d_65]);
/// Bytes that are written and checked while time is taken.
const WRITTEN: usize = 256 << 20;
/// Rules that change in one delta.
const CHANGED: usize = 1000;

/// Costs of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Costs {
    /// Number of rules that they were measured with.
    pub rules: u64,
    /// Bytes of a rule in chunks.
    pub chunk_bytes: f64,
    /// Bytes of a changed rule in a delta.
    pub delta_bytes: f64,
    /// Time to cut a rule into chunks, in nanoseconds.
    pub chunk_ns: f64,
    /// Time of a rule to build a flat table, in nanoseconds, with one thread.
    pub line_ns: f64,
    /// Bytes of a rule in it.
    pub line_bytes: f64,
    /// Time of a rule to build a table of prefixes, in nanoseconds.
    pub compact_ns: f64,
    /// Bytes of a rule in it.
    pub compact_bytes: f64,
    /// Time to check a byte of a block (SHA-256), in nanoseconds.
    pub check_ns: f64,
    /// Time to write a byte so that it is on the disk, in nanoseconds.
    pub disk_ns: f64,
}

/// Measures them.
///
/// # Errors
/// The machine has no memory or no disk for it.
pub fn measure(options: &Options) -> anyhow::Result<Costs> {
    let workload = workload::open(&options.workload, options.sample, options.components as usize, options.seed)?;
    let mut value = Vec::new();
    let mut names: Vec<(Name, u64)> = Vec::new();
    for i in 0..workload.rules() {
        workload.write_rule(i, &mut value);
        names.push((NameRef::new_checked_before(&value).to_name(), i));
    }
    names.sort_unstable();
    let rules = names.len() as f64;
    let each = |since: Instant| since.elapsed().as_nanos() as f64 / rules;

    let group: Arc<[u8]> = Arc::from(&b"west"[..]);
    let rows: Rows = names.iter().map(|(name, _)| (name.as_ref().value().into(), group.clone())).collect();
    let since = Instant::now();
    let chunk_bytes: usize = chunks(&rows).map(|chunk| chunk.bytes.len()).sum();
    let chunk_ns = each(since);
    drop(rows);
    let step = (names.len() / CHANGED).max(1);
    let changed = names.iter().step_by(step).map(|(name, _)| (name.as_ref().value().into(), Some(group.clone())));
    let changed: Vec<_> = changed.collect();
    let deltas = Delta::encode(1, Digest([0; 32]), &changed);
    let delta_bytes = deltas.iter().map(|(delta, _)| delta.len()).sum::<usize>() as f64 / changed.len() as f64;

    let since = Instant::now();
    let mut counter = NodeCounter::default();
    names.iter().try_for_each(|(name, _)| counter.push(name.as_ref()))?;
    let compact = compact::Options::default();
    let mut loader = BulkLoader::new(KEY, counter.nodes().max(1), &compact)?;
    names.iter().try_for_each(|(name, i)| loader.push(name.as_ref(), workload.entry(*i)))?;
    let table = loader.finish_table(&compact)?.query();
    let compact_ns = each(since);
    let compact_bytes = table.memory_bytes() as f64 / rules;
    drop(table);

    let entry = |i: u64| EntryId((i % (1 << options.entry_bits.min(20))) as u32);
    let line = line::Options { entry_bits: options.entry_bits, ..line::Options::default() };
    let since = Instant::now();
    let source = || names.iter().map(|(name, i)| (KEY.digest_bytes(name.as_ref().value()), entry(*i)));
    let load = BulkLoad { names_at_once: 1 << 24, progress: &mut |_| {} };
    let table = line::bulk_load(&line, source, load)?;
    let line_ns = each(since);
    let line_bytes = table.memory_bytes() as f64 / rules;
    drop(table);

    let block: Vec<u8> = (0..1 << 20).map(|at: u32| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    let blocks = WRITTEN / block.len();
    let since = Instant::now();
    for _ in 0..blocks {
        std::hint::black_box(byname_wire::digest::sha256(&[&block]));
    }
    let check_ns = since.elapsed().as_nanos() as f64 / WRITTEN as f64;
    // Where records are written, not where temporary files are: these may be in memory.
    let mut file: File = tempfile::tempfile_in(".")?;
    let since = Instant::now();
    for _ in 0..blocks {
        file.write_all(&block)?;
    }
    file.sync_all()?;
    let disk_ns = since.elapsed().as_nanos() as f64 / WRITTEN as f64;
    Ok(Costs {
        rules: workload.rules(),
        chunk_bytes: chunk_bytes as f64 / rules,
        delta_bytes,
        chunk_ns,
        line_ns,
        line_bytes,
        compact_ns,
        compact_bytes,
        check_ns,
        disk_ns: options.disk_mbps.map_or(disk_ns, |mbps| 1e3 / mbps),
    })
}

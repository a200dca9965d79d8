//! The engine's exact mode: whole names that readers can compare.
//!
//! A compact-array table [So §2.2] beside the entries maps a node's hash to its name and rule. A
//! lookup that found a node compares the node's name with the packet's, byte by byte. They differ
//! only as rarely as the engine's odds say. If they differ, this table alone gives the answer,
//! longest prefix first.
//!
//! Cost: two more cache lines and the name for each lookup, and about 120 bytes plus the name for
//! each node.

use std::io;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use byname_wire::{NameRef, NameView};

use super::NodeId;
use crate::bucket::{BucketArray, OverflowExhausted, Shape};
use crate::entry::EntryId;
use crate::memory::Pages;
use crate::prefix::PrefixMatch;
use crate::sync::{AtomicU64, Ordering};

/// Nodes for each bucket of a new table, and the maximum.
const LOAD_FRESH: usize = 2;
const LOAD_MAX: usize = 4;
const NODES_MIN: usize = 64;

/// A node as readers see it.
struct Record {
    /// The hash of the node's own prefix.
    hash: u64,
    name: Box<[u8]>,
    /// The rule's entry plus one, or zero for a branch.
    rule: AtomicU64,
}

/// The table that readers see.
pub(super) struct ExactNames {
    buckets: BucketArray,
    /// Indexed by node.
    records: Box<[ArcSwapOption<Record>]>,
}

impl ExactNames {
    fn new(nodes: usize, pages: Pages) -> io::Result<Self> {
        let buckets = BucketArray::new(Shape::for_load(nodes.div_ceil(LOAD_FRESH), LOAD_MAX), pages)?;
        Ok(ExactNames { buckets, records: (0..2 * nodes).map(|_| ArcSwapOption::empty()).collect() })
    }

    /// The record of the node with this name.
    fn record(&self, hash: u64, name: NameRef<'_>) -> Option<Arc<Record>> {
        self.buckets.find(hash, &mut (), |index, _| {
            let record = self.records.get(index as usize)?.load_full()?;
            (*record.name == *name.value()).then_some(record)
        })
    }

    /// Whether the table has a node for the first `depth` components of `name`.
    pub(super) fn holds(&self, name: &NameView<'_>, depth: usize) -> bool {
        self.record(name.hash(depth), name.prefix(depth)).is_some()
    }

    /// The deepest rule above `name`, except `/`, found by whole names.
    pub(super) fn longest_match(&self, name: &NameView<'_>, depth_max: usize) -> Option<PrefixMatch> {
        (1..=name.len().min(depth_max)).rev().find_map(|depth| {
            let record = self.record(name.hash(depth), name.prefix(depth))?;
            let rule = record.rule.load(Ordering::Acquire).checked_sub(1)?;
            Some(PrefixMatch { entry: EntryId(rule as u32), depth })
        })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let records = self.records.iter().filter_map(|record| record.load_full());
        self.buckets.memory_bytes()
            + size_of_val(&*self.records)
            + records.map(|record| size_of::<Record>() + record.name.len()).sum::<usize>()
    }
}

/// The writer's side.
pub(super) struct ExactWriter {
    names: Arc<ExactNames>,
    overflow_used: usize,
    nodes: usize,
    pages: Pages,
}

impl ExactWriter {
    pub(super) fn new(pages: Pages) -> io::Result<Self> {
        Ok(ExactWriter { names: Arc::new(ExactNames::new(NODES_MIN, pages)?), overflow_used: 0, nodes: 0, pages })
    }

    pub(super) fn names(&self) -> &Arc<ExactNames> {
        &self.names
    }

    /// Whether `more` nodes with ids below `ids` probably fit into the readers' table.
    pub(super) fn has_room(&self, more: usize, ids: usize) -> bool {
        ids <= self.names.records.len() && self.nodes + more <= self.names.buckets.shape().primary * LOAD_MAX
    }

    /// Rebuilds the table with room for `more` nodes. Readers of the old one are not disturbed.
    pub(super) fn rebuild(&mut self, more: usize, ids: usize) -> io::Result<()> {
        let mut nodes = (self.nodes + more).max(ids).max(NODES_MIN);
        'larger: loop {
            let names = ExactNames::new(nodes, self.pages)?;
            let mut overflow_used = 0;
            for (index, old) in (0..).zip(&self.names.records) {
                let Some(record) = old.load_full() else { continue };
                if names.buckets.insert(record.hash, index, &mut overflow_used).is_err() {
                    nodes += nodes / 2;
                    continue 'larger;
                }
                names.records[index as usize].store(Some(record));
            }
            (self.names, self.overflow_used) = (Arc::new(names), overflow_used);
            return Ok(());
        }
    }

    /// Adds a node, before its entry is written.
    pub(super) fn add(
        &mut self,
        node: NodeId,
        hash: u64,
        name: NameRef<'_>,
        rule: Option<EntryId>,
    ) -> Result<(), OverflowExhausted> {
        let rule = AtomicU64::new(rule.map_or(0, |entry| u64::from(entry.0) + 1));
        let record = &self.names.records[node.0 as usize];
        record.store(Some(Arc::new(Record { hash, name: name.value().into(), rule })));
        let added = self.names.buckets.insert(hash, node.0, &mut self.overflow_used);
        match added {
            Ok(()) => self.nodes += 1,
            Err(OverflowExhausted) => record.store(None),
        }
        added
    }

    /// Sets or removes a node's rule.
    pub(super) fn set_rule(&self, node: NodeId, rule: Option<EntryId>) {
        if let Some(record) = &*self.names.records[node.0 as usize].load() {
            record.rule.store(rule.map_or(0, |entry| u64::from(entry.0) + 1), Ordering::Release);
        }
    }

    /// Removes a node, after its entry was removed.
    pub(super) fn remove(&mut self, node: NodeId) {
        let record = self.names.records[node.0 as usize].swap(None).expect("every node but the root has its record");
        self.names.buckets.remove(record.hash, node.0);
        self.nodes -= 1;
    }
}

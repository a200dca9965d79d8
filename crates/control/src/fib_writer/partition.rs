//! A partition in front of the FIB: other machines have the rules of most names.
//!
//! The partition gives names a *node*, which is a name, too. Names of another node forward as the route of that node's name does,
//! and change with it. While there is no such route, they are looked up here.

use std::collections::HashMap;

use byname_lookup::prefix::compact::Translation;
use byname_lookup::prefix::partition::{Partition, PartitionError, Partitioned};
use byname_lookup::{BuildError, Change, Control, EntryId, PrefixFib, Update};
use byname_wire::Name;

use super::FibEngine;

/// The control half: an engine behind a partition.
pub struct PartitionedFib {
    engine: Partitioned<FibEngine>,
    /// The number of each node.
    nodes: HashMap<Name, EntryId>,
    ways: Translation,
}

impl PartitionedFib {
    /// Puts a partition in front of an engine that has the rules of the nodes `holds`.
    ///
    /// # Errors
    /// If the partition has no such node.
    pub fn new(engine: FibEngine, partition: Partition, holds: &[Name]) -> Result<Self, PartitionError> {
        let nodes = partition.nodes().iter().cloned().zip((0..).map(EntryId)).collect();
        let (engine, ways) = Partitioned::new(engine, partition, holds)?;
        Ok(PartitionedFib { engine, nodes, ways })
    }
}

impl Control<Name> for PartitionedFib {
    type Query = dyn PrefixFib;

    fn query(&self) -> std::sync::Arc<Self::Query> {
        self.engine.query()
    }

    fn apply(&mut self, changes: &[Change<Name>]) -> Result<Update<Self::Query>, BuildError> {
        let update = self.engine.apply(changes)?;
        for change in changes {
            let (name, entry) = change.parts();
            if let Some(node) = self.nodes.get(name) {
                self.ways.set(*node, entry);
            }
        }
        Ok(update)
    }

    fn expect(&mut self, rules: usize) -> Result<(), BuildError> {
        self.engine.expect(rules)
    }

    fn reclaim(&mut self) {
        self.engine.reclaim();
    }
}

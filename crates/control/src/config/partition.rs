//! `[partition]`: one router of several machines.

use std::path::PathBuf;

use byname_lookup::BuildError;
use byname_lookup::file::{Opening, Place};
use byname_lookup::prefix::partition::Partition as Table;
use byname_wire::{Name, NameHashKey};
use serde::Deserialize;

use super::{Config, Finding, value};
use crate::fib_writer::FibEngine;
use crate::fib_writer::partition::PartitionedFib;

/// `[partition]`
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Partition {
    /// The file that says which node has which names. Empty: this router has all of its names.
    pub table: PathBuf,
    /// The nodes whose rules this router has: its own name, and those of nodes that it replaces when they fail.
    #[serde(deserialize_with = "value::names")]
    pub holds: Vec<Name>,
}

impl Config {
    /// The file of the partition.
    pub fn partition_table(&self) -> Option<PathBuf> {
        let table = &self.partition.table;
        (!table.as_os_str().is_empty()).then(|| self.folder.join(table))
    }

    fn open_partition(&self, opening: Opening) -> Result<Option<Table>, BuildError> {
        let Some(path) = self.partition_table() else { return Ok(None) };
        let opened = Table::open(&path, opening);
        opened.map(Some).map_err(|error| BuildError::File { reason: format!("{}: {error}", path.display()) })
    }

    /// The key of the partition, if there is one.
    pub(super) fn partition_key(&self) -> Result<Option<NameHashKey>, BuildError> {
        Ok(self.open_partition(HEAD)?.map(|table| *table.key()))
    }

    /// Puts the partition, if there is one, in front of an engine for names hashed with `key`.
    ///
    /// # Errors
    /// If the file cannot be used, or its key is another one.
    pub(super) fn behind_partition(
        &self,
        engine: FibEngine,
        key: NameHashKey,
        place: Place,
    ) -> Result<FibEngine, BuildError> {
        let Some(table) = self.open_partition(Opening { place, checked: true })? else { return Ok(engine) };
        let path = self.partition.table.display();
        if *table.key() != key {
            return Err(BuildError::File { reason: other_key(&path) });
        }
        let (cuts, nodes) = (table.cuts(), table.nodes().len());
        tracing::info!("{path} spreads rules over {nodes} nodes, at {cuts} prefixes");
        let fib = PartitionedFib::new(engine, table, &self.partition.holds);
        Ok(Box::new(fib.map_err(|error| BuildError::File { reason: format!("{path}: {error}") })?))
    }

    /// Whether the file of the partition can be opened, and has the nodes.
    pub fn partition_findings(&self) -> Vec<Finding> {
        let table = match self.open_partition(HEAD) {
            Ok(Some(table)) => table,
            Ok(None) if self.partition.holds.is_empty() => return Vec::new(),
            Ok(None) => {
                let text = "there is no partition: set `table`, or leave `holds` out";
                return vec![Finding::fatal("partition.holds", text)];
            }
            Err(error) => return vec![Finding::fatal("partition.table", error.to_string())],
        };
        let mut findings = Vec::new();
        for unknown in self.partition.holds.iter().filter(|node| !table.nodes().contains(node)) {
            let nodes: Vec<_> = table.nodes().iter().map(Name::to_string).collect();
            let text = format!("the partition has no node {unknown}; it has {}", nodes.join(", "));
            findings.push(Finding::fatal("partition.holds", text));
        }
        if self.partition.holds.is_empty() {
            let text = "this router holds no node's rules, so it forwards the names of all nodes to these";
            findings.push(Finding::warning("partition.holds", text));
        }
        let of_rules = self.bulk_table().map(|path| byname_lookup::prefix::compact::BulkTable::key_of(&path));
        if let Some(Ok(key)) = of_rules
            && key != *table.key()
        {
            findings.push(Finding::fatal("partition.table", other_key(&self.partition.table.display())));
        }
        findings
    }
}

/// Only the head is read.
const HEAD: Opening = Opening { place: Place::Mapped, checked: false };

fn other_key(path: &dyn std::fmt::Display) -> String {
    format!("{path} has another hash key than the rules: make both with one `byname partition build`")
}
